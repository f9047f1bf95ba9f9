"""``tvm.contrib.graph_executor``: programs run on inputs that stay."""

from __future__ import annotations

import os
from typing import Any

from ...core.errors import InputError
from ...runtime import module as own
from ...runtime.nd import device as check_device
from .. import nd, timing
from ..executor import GraphExecutor
from ..relay.build_module import GraphExecutorFactoryModule
from ..runtime import load_module


class GraphModule:
    """``GraphModule(lib["default"](dev))``; ``module`` is that. InputError for what is no executor of a program."""

    def __init__(self, module: Any) -> None:
        if not isinstance(module, GraphExecutor):
            raise InputError(
                f"GraphModule takes an executor, lib['default'](tvm.cpu(0)), not a {type(module).__name__}"
            )
        self.module = module

    def __getitem__(self, name: str) -> Any:
        return self.module[name]

    def set_input(self, key: str | int | None = None, value: Any = None, **params: Any) -> None:
        """Copy arrays to inputs, and to weights that the program reads as the model has them."""
        if key is not None:
            self.module.set_input(key, value)
        for name, each in params.items():
            self.module.set_input(name, each)

    def set_input_zero_copy(self, key: str | int | None = None, value: Any = None, **params: Any) -> None:
        """Read inputs where they lie."""
        if key is not None:
            self.module.set_input_zero_copy(key, value)
        for name, each in params.items():
            self.module.set_input_zero_copy(name, each)

    def set_output_zero_copy(self, key: str | int, value: Any) -> None:
        """Write an output where ``value`` lies."""
        self.module.set_output_zero_copy(key, value)

    def run(self, **input_dict: Any) -> None:
        """Run, with inputs by name set before."""
        self.set_input(**input_dict)
        self.module.run()

    def get_num_outputs(self) -> int:
        """The number of outputs."""
        return self.module.get_num_outputs()

    def get_num_inputs(self) -> int:
        """The number of inputs; weights are none."""
        return self.module.get_num_inputs()

    def get_input(self, index: int | str, out: Any = None) -> nd.NDArray:
        """The memory of an input; with ``out`` a copy there."""
        return self.module.get_input(index, out)

    def get_input_index(self, name: str) -> int:
        """The position of an input; -1 where there is none of this name."""
        return self.module.get_input_index(name)

    def get_input_info(self) -> tuple[dict[str, Any], dict[str, str]]:
        """Shapes and dtypes of the inputs by name."""
        return self.module.get_input_info()

    def get_output(self, index: int | str, out: Any = None) -> Any:
        """The memory of an output, which the next run writes again; with ``out`` a copy there."""
        return self.module.get_output(index, out)

    def load_params(self, params_bytes: bytes | bytearray) -> None:
        """Replace weights by those that ``relay.save_param_dict`` has written."""
        self.module.load_params(params_bytes)

    def share_params(self, other: GraphModule, params_bytes: bytes | None = None) -> None:
        """Use the weights of another module of the same program."""
        self.module.share_params(other.module)

    def benchmark(
        self,
        device: Any = "cpu",
        func_name: str = "run",
        repeat: int = 5,
        number: int = 5,
        min_repeat_ms: float | None = None,
        limit_zero_time_iterations: int = 100,
        end_to_end: bool = False,
        cooldown_interval_ms: float = 0,
        repeats_to_cooldown: int = 1,
        **kwargs: Any,
    ) -> timing.BenchmarkResult:
        """Time a function on inputs that are set, or given by name; ``end_to_end`` counts their copies and outputs'."""
        pause = (cooldown_interval_ms, repeats_to_cooldown)
        if end_to_end:
            check_device(device)
            pairs = [part for pair in kwargs.items() for part in pair]
            call = lambda: self.module.run_from_inputs(1, 0, *pairs)  # noqa: E731
            return timing.measure(call, number, repeat, min_repeat_ms, *pause)
        self.set_input(**kwargs)
        zero = limit_zero_time_iterations
        return self.module.time_evaluator(func_name, device, number, repeat, min_repeat_ms, zero, *pause)()


def create(graph_json_str: str, libmod: Any, device: Any) -> GraphModule:
    """A module of a program and its graph, which ``relay.build`` gives. InputError for the graph of another program."""
    program = libmod.get_lib() if isinstance(libmod, GraphExecutorFactoryModule) else libmod
    if isinstance(program, str | os.PathLike):
        program = load_module(program)
    if not isinstance(program, own.Module):
        raise InputError(f"a graph is run with its program, not with a {type(program).__name__}")
    for each in device if isinstance(device, list | tuple) else [device]:
        check_device(each)
    made = GraphExecutor(program)
    if made.graph.graph_json != graph_json_str:
        raise InputError("the graph is that of another program: give both parts of one relay.build")
    return GraphModule(made)
