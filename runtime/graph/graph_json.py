"""A program's calls as a graph in JSON: nodes are inputs, weights and calls, edges the tensors between them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ...core.model import ELEMENTS, TensorInfo, numpy_dtype
from ...core.program import Call, Kernel, Slot
from ..artifact.manifest import Manifest

Output = tuple[int, int]  # a node, and which of its results


def graph_json(manifest: Manifest) -> str:
    """The graph of a program without a routine, with the keys of TVM's graph executor where they fit.

    ``nodes``: for each input and weight one with op "null", for each kernel call one with op "tw_kernel", whose
    ``inputs`` are [node, result, 0] each, and whose ``attrs`` name the kernel, the model's nodes inside, its work and
    its slots. ``arg_nodes`` are the numbers of inputs and weights, ``heads`` the outputs, ``node_row_ptr`` the first
    result of each node, for which ``attrs`` has ``shape`` and ``dltype`` (as kernels see them), and ``storage_id``: the
    slot that it lies in.
    """
    graph = _Graph()
    for index, info in enumerate(manifest.inputs):
        graph.add_argument(Slot("input", index), info)
    for index, info in enumerate(manifest.params):
        graph.add_argument(Slot("param", index), info)
    kernels = {kernel.name: kernel for kernel in manifest.kernels}
    for call in manifest.calls:
        graph.add_call(call, kernels[call.kernel])
    outputs = [Slot("output", index) for index in range(len(manifest.outputs))]
    heads = [[*source, 0] for slot in outputs for source in graph.sources(slot, 0)]
    return json.dumps(graph.to_json() | {"heads": heads}, ensure_ascii=False)


class _Graph:
    """The graph of the calls so far, and who wrote what the memory holds behind them."""

    def __init__(self) -> None:
        self._nodes: list[dict[str, Any]] = []
        self._arguments: list[int] = []
        self._results: list[tuple[Slot, list[int] | None, str]] = []
        self._first_results = [0]
        self._written = _Written()

    def add_argument(self, slot: Slot, info: TensorInfo) -> None:
        """A node for an input or a weight."""
        self._arguments.append(len(self._nodes))
        self._nodes.append({"op": "null", "name": info.name, "inputs": []})
        self._add_result(slot, list(info.static_shape), info.dtype)
        self._first_results.append(len(self._results))

    def add_call(self, call: Call, kernel: Kernel) -> None:
        """A node for a kernel call, with edges from what wrote the tensors that it reads."""
        results = len(kernel.signature.results) or 1
        reads, writes = call.args[:-results], call.args[-results:]
        types = [*kernel.signature.inputs, *kernel.signature.results]
        sizes = [_read_type(text)[2] for text in types] if len(types) == len(call.args) else [0] * len(call.args)
        inputs = [[*source, 0] for slot, n in zip(reads, sizes, strict=False) for source in self.sources(slot, n)]
        attributes = {
            "func_name": call.kernel,
            "num_inputs": str(len(reads)),
            "num_outputs": str(results),
            "onnx_nodes": list(call.nodes),
            "flops": str(kernel.flops),
            "bytes": str(kernel.bytes),
            "layout": kernel.signature.layout,
            "slots": list(map(str, call.args)),
        }
        name = f"{call.kernel}#{len(self._nodes) - len(self._arguments)}"
        self._nodes.append({"op": "tw_kernel", "name": name, "inputs": inputs, "attrs": attributes})
        for slot, text in zip(writes, kernel.signature.results or [""] * results, strict=True):
            shape, dtype, _ = _read_type(text)
            self._add_result(slot, shape, dtype)
        self._first_results.append(len(self._results))

    def sources(self, slot: Slot, nbytes: int) -> list[Output]:
        """Whose results lie in the bytes of a slot, in the order of their places."""
        return self._written.sources(slot, nbytes)

    def to_json(self) -> dict[str, Any]:
        """All but the heads."""
        slots, shapes, dtypes = zip(*self._results, strict=True) if self._results else ((), (), ())
        return {
            "nodes": self._nodes,
            "arg_nodes": self._arguments,
            "node_row_ptr": self._first_results,
            "attrs": {
                "dltype": ["list_str", dtypes],
                "shape": ["list_shape", shapes],
                "storage_id": ["list_str", list(map(str, slots))],
            },
        }

    def _add_result(self, slot: Slot, shape: list[int] | None, dtype: str) -> None:
        node = len(self._nodes) - 1
        number = len(self._results) - self._first_results[-1]
        nbytes = math.prod(shape) * numpy_dtype(dtype).itemsize if shape is not None and dtype else 0
        self._written.write(slot, nbytes, (node, number))
        self._results.append((slot, shape, dtype))


class _Written:
    """Which result each byte of the arena, and each other tensor, has."""

    def __init__(self) -> None:
        self._arena: list[tuple[int, int, Output]] = []  # first byte, first behind it, in order, none overlap
        self._tensors: dict[Slot, list[Output]] = {}

    def write(self, slot: Slot, nbytes: int, by: Output) -> None:
        if slot.space != "arena":  # outputs may be written by several calls, a part each
            self._tensors.setdefault(slot, []).append(by)
            return
        begin, end = _span(slot, nbytes)
        kept = [part for old in self._arena for part in _without(old, begin, end)]
        self._arena = sorted([*kept, (begin, end, by)])

    def sources(self, slot: Slot, nbytes: int) -> list[Output]:
        if slot.space != "arena":
            return self._tensors.get(replace(slot, offset=0), [])
        begin, end = _span(slot, nbytes)
        return list(dict.fromkeys(by for low, high, by in self._arena if low < end and begin < high))


def _span(slot: Slot, nbytes: int) -> tuple[int, int]:
    """The bytes of a tensor in the arena; at least one, so that empty ones are found again."""
    return slot.offset, slot.offset + max(nbytes, 1)


def _without(part: tuple[int, int, Output], begin: int, end: int) -> Iterator[tuple[int, int, Output]]:
    """The remains of a part after the bytes from ``begin`` to ``end`` go to another one."""
    low, high, by = part
    if low < min(high, begin):
        yield low, min(high, begin), by
    if max(low, end) < high:
        yield max(low, end), high, by


def _read_type(text: str) -> tuple[list[int] | None, str, int]:
    """Shape, dtype and bytes of a tensor by its text in a signature, ``8x64xf32``; None, "" and 0 of an unknown one."""
    *extents, element = text.split("x")
    dtype = ELEMENTS.get(element, "")
    if not dtype or not all(extent.isdecimal() for extent in extents):
        return None, "", 0
    shape = list(map(int, extents))
    return shape, dtype, math.prod(shape) * numpy_dtype(dtype).itemsize
