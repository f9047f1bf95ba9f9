"""The graph executor: a program without a routine is run from the table of its calls, which may also be made singly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from ...core.errors import InputError
from ..artifact.manifest import Manifest
from ..artifact.weights import Weights, load_params
from ..process import memory
from ..process.deadline import Deadline
from ..process.ffi import tvm_ffi
from ..process.link import Library
from ..tensors.arguments import place, refuse_overlap
from ..tensors.pool import MemoryPool
from .counters import Uncounted
from .tables import CallTable


class Graph(Uncounted):
    """A program whose calls are made by ``tw_run_calls``, on the threads and with the kernels of its own entry.

    Its results are those of the entry, bit by bit. A run's intermediate tensors lie in a block of a pool.
    """

    executor: Literal["graph"] = "graph"

    def __init__(self, library: Library, manifest: Manifest, weights: Weights | None, threads: int) -> None:
        memory.demand_machine(manifest.arena_bytes, "what the program keeps between its kernels")
        self.manifest = manifest
        self.params = load_params(weights, manifest.params, manifest.fingerprint)
        kernels = {kernel.name: kernel for kernel in manifest.kernels}
        self.table = CallTable(manifest.program, kernels, library, threads)
        self._pool = MemoryPool()
        self._allocators = [self._pool.make_allocator(info) for info in manifest.outputs]
        self.main: tvm_ffi.Function = tvm_ffi.convert(self._run_packed)

    def run(self, inputs: Sequence[Any], deadline: Deadline | None = None) -> list[Any]:
        """See ``Runner``."""
        outputs = [allocate() for allocate in self._allocators]
        self._run(inputs, outputs, deadline)
        return outputs

    def _run(
        self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], deadline: Deadline | None = None
    ) -> None:
        block = self._pool.array((self.table.nbytes,), np.dtype(np.uint8))
        self.table.run(self.table.memory(inputs, outputs, self.params, block), deadline)

    def _run_packed(self, *tensors: Any) -> None:
        """``main(inputs..., outputs...)``, which writes the outputs in place."""
        infos, given = self.manifest.inputs, len(self.manifest.inputs)
        if len(tensors) != given + len(self.manifest.outputs):
            raise InputError(
                f"main takes {given} inputs and then {len(self.manifest.outputs)} outputs, contiguous tensors"
            )
        inputs = [place(t, info, "input") for t, info in zip(tensors, infos, strict=False)]
        outputs = [
            place(t, info, "output", written=True)
            for t, info in zip(tensors[given:], self.manifest.outputs, strict=True)
        ]
        refuse_overlap(inputs, outputs, self.manifest.outputs)
        self._run(inputs, outputs)
