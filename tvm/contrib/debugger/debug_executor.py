"""``tvm.contrib.debugger.debug_executor``: a program's kernels one by one: what they leave, and how long they take."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ....core.errors import InputError
from ....runtime.graph.debug_executor import DebugModule
from ....runtime.graph.graph_module import GraphModule as Graph
from ....runtime.nd import device as check_device
from ... import nd, timing
from ...runtime.profiling import Report, refuse_collectors
from ..graph_executor import GraphModule
from ..graph_executor import create as create_module

_ROUNDS = 10  # of a profile


class GraphModuleDebug(GraphModule):
    """``GraphModuleDebug(lib["debug_create"]("default", dev), [dev], lib.get_graph_json(), dump_root)``.

    With ``dump_root`` each run writes what its kernels leave into that folder.
    """

    def __init__(
        self, module: Any, device: Any, graph_json_str: str, dump_root: str | os.PathLike[str] | None = None
    ) -> None:
        super().__init__(module)
        for each in device if isinstance(device, list | tuple) else [device]:
            check_device(each)
        if graph_json_str and self.module.graph.graph_json != graph_json_str:
            raise InputError("the graph is that of another program: give both parts of one relay.build")
        self._debugged = DebugModule(self._program, dump_root)
        self._dumps, self._built = dump_root is not None, Graph(self._program).params

    def run(self, **input_dict: Any) -> None:
        """Run, with inputs by name set before."""
        super().run(**input_dict)
        if self._dumps:
            self._debugged.run(self._given_inputs())

    def debug_get_output(self, node: int | str, out: Any = None) -> Any:
        """What a call of a kernel leaves, by its number or the name of a node of the model; with ``out`` a copy there.

        Raises InputError where there is no such call, and where weights were replaced after the build.
        """
        found = nd.wrap(self._debugged.debug_get_output(node, inputs=self._given_inputs()))
        return found if out is None else found.copyto(out)

    def profile(self, collectors: Sequence[Any] | None = None, **input_dict: Any) -> Report:
        """The times of the kernels in some runs, with inputs by name set before. InputError for collectors."""
        refuse_collectors(collectors)
        self.set_input(**input_dict)
        return Report.of(self._program.profile(self._list_inputs(), _ROUNDS))

    def run_individual(
        self,
        number: int,
        repeat: int = 1,
        min_repeat_ms: float = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: float = 0,
        repeats_to_cooldown: int = 1,
    ) -> list[list[float]]:
        """The seconds of each call in order, of ``number`` runs in the mean, ``repeat`` times.

        ``min_repeat_ms`` and pauses are those of a whole run, so they change nothing here.
        """
        rounds = [self._program.profile(self._list_inputs(), number).rows for _ in range(repeat)]
        return [[row.mean * 1e-9 for row in rows] for rows in zip(*rounds, strict=True)]

    def run_individual_node(
        self,
        index: int,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: float = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: float = 0,
        repeats_to_cooldown: int = 1,
    ) -> timing.BenchmarkResult:
        """The times of one call, by its number. InputError where there is none."""
        found = self.run_individual(number, repeat)
        if not 0 <= index < len(found):
            raise InputError(f"the program makes no call {index}: it makes {len(found)}, numbered from 0")
        return timing.BenchmarkResult(tuple(found[index]), number)

    def exit(self) -> None:
        """Nothing is left behind."""

    @property
    def _program(self) -> Any:
        return self.module.graph.module

    def _list_inputs(self) -> Mapping[str, np.ndarray]:
        return {info.name: self.module.graph.get_input(info.name) for info in self._program.inputs}

    def _given_inputs(self) -> Mapping[str, np.ndarray]:
        """The inputs; InputError where the weights are not those that the program was built with."""
        for name, each in self.module.graph.params.items():
            if not np.array_equal(each, self._built[name]):
                raise InputError(f"weight '{name}' was replaced: give it to relay.build, whose kernels are looked at")
        return self._list_inputs()


def create(
    graph_json_str: str, libmod: Any, device: Any, dump_root: str | os.PathLike[str] | None = None
) -> GraphModuleDebug:
    """A module of a program and its graph, which ``relay.build`` gives. InputError for the graph of another program."""
    made = create_module(graph_json_str, libmod, device)
    return GraphModuleDebug(made.module, device, graph_json_str, dump_root)
