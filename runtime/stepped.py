"""A program's calls from a table, call by call: a run that may end between two of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..program import Slot
from .calls import CallTable, Team
from .deadline import Deadline
from .link import Library
from .manifest import Manifest
from .pool import Pool
from .recording import LoadedKernel
from .tensor import ALIGNMENT

_ARENA, _GIVEN = 0, 1  # bases; what a run gives begins with the last
_BYTES = np.dtype(np.uint8)


class Stepped:
    """Makes the calls of ``manifest``, whose program has an entry, with the threads that the entry would have.

    ``params`` are the addresses of its weights. Runs may be made from several threads at once.
    """

    def __init__(self, library: Library, manifest: Manifest, params: np.ndarray, threads: int) -> None:
        self._library, self._params = library, params  # it owns the code
        self._team = Team(library.get_function("run_calls")().value, threads)
        self._pool = Pool()
        find = library.get_function("kernel")
        self._kernels = {kernel.name: LoadedKernel(kernel, find(i).value) for i, kernel in enumerate(manifest.kernels)}
        self._arena_bytes = -(-manifest.arena_bytes // ALIGNMENT) * ALIGNMENT
        scratch = max((loaded.scratch_stride(0, ()) for loaded in self._kernels.values()), default=0)
        self._nbytes = max(self._arena_bytes + scratch * threads, ALIGNMENT)
        self._table = self._made_table(manifest)

    def run(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], deadline: Deadline) -> None:
        """Compute ``outputs``; the arrays are those that the program describes. TimeoutError behind the deadline."""
        deadline.check()
        memory = self._pool.array((self._nbytes,), _BYTES)
        given = [array.ctypes.data for array in (memory, *inputs, *outputs)]
        bases = np.concatenate((np.array(given, np.int64), self._params.view(np.int64)))
        self._team.run_calls(self._table, bases, given[_ARENA] + self._arena_bytes, deadline)

    def _made_table(self, manifest: Manifest) -> CallTable:
        outputs = _GIVEN + len(manifest.inputs)
        first = {"arena": _ARENA, "input": _GIVEN, "output": outputs, "param": outputs + len(manifest.outputs)}
        slots: list[Slot] = [slot for call in manifest.calls for slot in call.args]
        rows = [(self._kernels[call.kernel], len(call.args)) for call in manifest.calls]
        calls = [
            (k.address, words, k.kernel.extent, k.pieces(k.kernel.parallel_from, self._team.threads), stride)
            for k, words in rows
            for stride in (k.scratch_stride(0, ()),)
        ]
        return CallTable(
            calls=np.array(calls, np.int64).reshape(-1, 5),
            bases=np.array([first[slot.space] + slot.index for slot in slots], np.int64),
            offsets=np.array([slot.offset for slot in slots], np.int64),
            most=max((words for _, words in rows), default=0),
        )
