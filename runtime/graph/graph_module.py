"""``GraphModule``: a program with inputs and outputs that stay, run from its kernels, as by TVM's graph executor."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ...core.errors import InputError
from ...core.model import OBJECTS, TensorInfo
from ...core.printed import name_text
from ...core.sizes import Extent, has_dynamic_extents
from ..artifact.parameters import replace_params, replaceable_params
from ..description import describe_program
from ..executors.graph_executor import Graph
from ..executors.runner import start
from ..executors.tables import Memory
from ..module import Module, load_module
from ..profile.evaluator import Timing, evaluate
from ..tensors import tensor
from ..tensors.arguments import place, refuse_overlap
from .graph_json import graph_json


class GraphModule:
    """Runs a program again and again on memory that is given once: a module's, or that of an artifact's path.

    A program whose sizes, or course, only the run knows is run in the same way but for its outputs, which
    are new arrays in each run. One object is for one thread at a time; several may be made of one module.
    """

    def __init__(self, module: Module | str | os.PathLike[str], num_threads: int | None = None) -> None:
        if not isinstance(module, Module):
            module = load_module(module, num_threads)
        elif num_threads not in (None, module.num_threads):
            raise InputError(f"num_threads is {num_threads}, but the module was loaded with {module.num_threads}")
        self.module = module
        self._graph = None
        if module.manifest.routine is None:
            graph = start(module.program, module.num_threads, executor="graph")
            assert isinstance(graph, Graph)
            self._graph = graph
            self._params = graph.params
        self._inputs: list[Any] = [None] * len(module.inputs)
        self._borrowed: set[int] = set()  # inputs that lie where the caller has them
        self._outputs: list[Any] = [tensor.allocate_output(info) for info in module.outputs] if self._graph else []
        self._memory: Memory | None = None  # of the tensors as they are bound; None where that has changed
        self._ran = False

    def __repr__(self) -> str:
        unset = [name_text(info.name) for info, x in zip(self.module.inputs, self._inputs, strict=True) if x is None]
        state = f"to be set: {', '.join(unset)}" if unset else "has run" if self._ran else "ready to run"
        module = self.module
        return describe_program(module.manifest, module.executor, module.num_threads, "GraphModule", [("state", state)])

    def set_input(self, key: str | int | None = None, value: Any = None, **inputs: Any) -> None:
        """Copy ``value`` to the input of this name or position, and others by name.

        InputError for a name, a shape or a dtype that is not the program's.
        """
        if key is not None:
            self._set_input(_find_position(key, self.module.inputs, "input"), value)
        for name, each in inputs.items():
            self._set_input(_find_position(name, self.module.inputs, "input"), each)

    def set_input_zero_copy(self, key: str | int, value: Any) -> None:
        """Read an input where ``value`` lies, a numpy array or a DLPack tensor; what is there when it runs counts.

        InputError where it is not contiguous, on the CPU, of the input's dtype and of its shape.
        """
        number = _find_position(key, self.module.inputs, "input")
        info = self.module.inputs[number]
        if info.dtype in OBJECTS:
            raise InputError(f"input '{info.name}' is a {info.dtype}, which has no memory to read: use set_input")
        self._bind_input(number, place(value, info, "input"))
        self._borrowed.add(number)

    def set_output_zero_copy(self, key: str | int, value: Any) -> None:
        """Write an output where ``value`` lies, a numpy array or a DLPack tensor.

        InputError where it is read-only, not contiguous, not on the CPU, or of another dtype or shape; and for a
        program whose outputs' sizes are known only afterwards.
        """
        number = _find_position(key, self.module.outputs, "output")
        info = self.module.outputs[number]
        if self._graph is None:
            raise InputError(f"output '{info.name}' is new in each run, as its size is known only afterwards")
        self._outputs[number] = place(value, info, "output", written=True)
        self._memory, self._ran = None, False

    def run(self, **inputs: Any) -> None:
        """Run on the inputs that are set; those given by name are set before, as by ``set_input``."""
        self.set_input(**inputs)
        missing = [i.name for i, value in zip(self.module.inputs, self._inputs, strict=True) if value is None]
        if missing:
            raise InputError(f"input '{missing[0]}' is not set: call set_input first")
        if self._graph is None:
            self._outputs = self.module(*self._inputs)
        else:
            self._graph.table.run(self._bind_memory(self._graph))
        self._ran = True

    def get_output(self, key: str | int, out: Any = None) -> Any:
        """The output of this name or position: the memory that the next run writes again; with ``out`` a copy there."""
        number = _find_position(key, self.module.outputs, "output")
        if not self._ran:
            raise InputError(f"output '{self.module.outputs[number].name}' is not computed yet: call run first")
        if out is None:
            return self._outputs[number]
        made, info = self._outputs[number], self.module.outputs[number]
        if info.dtype in OBJECTS:
            raise InputError(f"output '{info.name}' is a {info.dtype}, which cannot be copied to memory")
        target = place(out, TensorInfo(info.name, made.shape, info.dtype), "output", written=True)
        np.copyto(target, made)
        return out

    def get_input(self, key: str | int) -> Any:
        """The array of an input, which is what the next run reads; InputError where it is not set."""
        number = _find_position(key, self.module.inputs, "input")
        if self._inputs[number] is None:
            raise InputError(f"input '{self.module.inputs[number].name}' is not set: call set_input first")
        return self._inputs[number]

    def get_num_inputs(self) -> int:
        """The number of inputs; weights are none."""
        return len(self.module.inputs)

    def get_num_outputs(self) -> int:
        """The number of outputs."""
        return len(self.module.outputs)

    def get_input_index(self, name: str) -> int:
        """The position of the input of this name; -1 where there is none."""
        return next((number for number, info in enumerate(self.module.inputs) if info.name == name), -1)

    def get_input_info(self) -> tuple[dict[str, tuple[Extent, ...]], dict[str, str]]:
        """Shapes and dtypes of the inputs by name."""
        infos = self.module.inputs
        return {info.name: info.shape for info in infos}, {info.name: info.dtype for info in infos}

    @property
    def params(self) -> dict[str, np.ndarray]:
        """The weights in use, by name, that ``load_params`` replaces: none of a dynamic program."""
        return {} if self._graph is None else replaceable_params(self._params, self._graph.manifest)

    def load_params(self, params: bytes | str | os.PathLike[str] | Mapping[str, Any]) -> None:
        """Replace weights of the model by those of a safetensors file, its bytes, or arrays by name; in this object.

        All must be weights that the program reads as the model has them. InputError for others: names that are not the
        program's, other shapes and dtypes, and what the compiler has prepared (packed, folded), or made something of.
        """
        graph = self._static("load_params")
        self._params = replace_params(self._params, params, graph.manifest)
        self._memory = None

    def share_params(self, other: GraphModule) -> None:
        """Use the weights that ``other`` uses now, of the same compiled program; no memory is copied."""
        graph, theirs = self._static("share_params"), other._static("share_params")
        if (graph.manifest.params, graph.manifest.fingerprint) != (theirs.manifest.params, theirs.manifest.fingerprint):
            raise InputError(
                f"'{theirs.manifest.name}' has other weights than '{graph.manifest.name}': "
                "share_params takes a module of the same program"
            )
        self._params, self._memory = other._params, None

    def benchmark(self, repeat: int = 5, number: int = 5, min_repeat_ms: float = 0, **inputs: Any) -> Timing:
        """Seconds of ``run`` on the inputs that are set, with those given by name set before; see ``evaluate``."""
        self.set_input(**inputs)
        return evaluate(self.run, number, repeat, min_repeat_ms)

    @cached_property
    def graph_json(self) -> str:
        """The kernels' calls as a graph, in the notation of TVM's graph executor; see ``graph_json.graph_json``."""
        return graph_json(self._static("graph_json").manifest)

    def _set_input(self, number: int, value: Any) -> None:
        info = self.module.inputs[number]
        array = tensor.as_array(value, info)
        if info.dtype in OBJECTS:
            self._bind_input(number, array)
            return
        if not has_dynamic_extents(info.shape):
            tensor.check_shapes([array.shape], [info])
        own = self._inputs[number]
        if number in self._borrowed or own is None or own.shape != array.shape:
            self._bind_input(number, tensor.allocate_output(TensorInfo(info.name, array.shape, info.dtype)))
            self._borrowed.discard(number)
        np.copyto(self._inputs[number], array)

    def _bind_input(self, number: int, value: Any) -> None:
        self._inputs[number], self._memory, self._ran = value, None, False

    def _bind_memory(self, graph: Graph) -> Memory:
        """The memory of the tensors as they are bound; InputError where an output overlaps another tensor."""
        if self._memory is None:
            refuse_overlap(self._inputs, self._outputs, self.module.outputs)
            self._memory = graph.table.memory(self._inputs, self._outputs, self._params)
        return self._memory

    def _static(self, what: str) -> Graph:
        if self._graph is None:
            raise InputError(f"{what} is for programs of known sizes: '{self.module.manifest.name}' has others")
        return self._graph


def _find_position(key: str | int, infos: Sequence[TensorInfo], role: str) -> int:
    """The position of the tensor of this name or position; InputError where there is none."""
    names = [info.name for info in infos]
    if isinstance(key, str) and key in names:
        return names.index(key)
    if isinstance(key, int) and 0 <= key < len(names):
        return key
    known = ", ".join(map(repr, names)) or "none"
    shown = f"no {role} '{key}'" if isinstance(key, str) else f"no {role} of number {key}"
    raise InputError(f"the program has {shown}: its {role}s are {known}")
