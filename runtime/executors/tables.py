"""A program's calls as ``tw_run_calls`` takes them: tables that are made once and hold no memory of a run."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...core.arena import align_size
from ...core.call_layout import CallLayout
from ...core.errors import InputError
from ...core.program import Kernel, Program
from ..process.deadline import Deadline
from ..process.link import Library
from ..process.threads import Team
from ..tensors.tensor import aligned_bytes


@dataclass(frozen=True)
class Memory:
    """The memory of a run's slots, which must outlive the calls on it.

    ``bases`` are the addresses of the arena, the inputs, the outputs and the weights, in this order; ``scratch`` is
    that of the scratch memory. ``owned`` keeps them valid.
    """

    bases: np.ndarray
    scratch: int
    owned: object


class CallTable:
    """The calls of a program without a routine, which threads may make from one table at the same time.

    ``library`` exports the addresses of ``kernels`` as ``kernel(index)``, in this order, and that of ``tw_run_calls``.
    ``make_team`` makes the threads that kernels run on.
    """

    def __init__(
        self,
        program: Program,
        kernels: Mapping[str, Kernel],
        library: Library,
        threads: int,
        make_team: Callable[[int, int], Team] = Team,
    ) -> None:
        find = library.get_function("kernel")
        addresses = {name: find(i).value for i, name in enumerate(kernels)}
        layout = CallLayout.of(program, kernels)
        self._library = library  # owns the code
        self._team = make_team(library.get_function("run_calls")().value, threads)
        self._arena_bytes = program.arena_bytes
        self._firsts = [0, *np.cumsum([words for _, words, *_ in layout.rows]).tolist()]
        self._most = layout.most_words
        rows = [(addresses[name], *numbers) for name, *numbers in layout.rows]
        self._calls = np.array(rows, np.int64).reshape(-1, 5)
        self._which, self._offsets = (np.array(words, np.int64) for words in (layout.which, layout.offsets))
        self._reports = layout.reports
        self._tables = tuple(table.ctypes.data for table in (self._calls, self._which, self._offsets))
        self._scratch_bytes = layout.count_scratch(threads)

    def __len__(self) -> int:
        return len(self._calls)

    @property
    def nbytes(self) -> int:
        """Bytes of memory that a run needs: the arena, and the scratch memory behind it."""
        return align_size(self._arena_bytes) + self._scratch_bytes

    @property
    def scratch_bytes(self) -> int:
        """Bytes of the scratch memory alone."""
        return self._scratch_bytes

    def memory(
        self,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
        params: Sequence[np.ndarray],
        block: np.ndarray | None = None,
    ) -> Memory:
        """The memory of a run on arrays that are as the program says, and on a ``block`` of ``nbytes`` or a new one."""
        block = aligned_bytes(self.nbytes) if block is None else block
        arrays = (block, *inputs, *outputs, *params)
        bases = np.array([array.ctypes.data for array in arrays], np.uint64)
        return Memory(bases, block.ctypes.data + self.nbytes - self._scratch_bytes, arrays)

    def run(self, memory: Memory, deadline: Deadline | None = None) -> None:
        """Make all calls in order.

        TimeoutError behind the ``deadline``, and InputError where the run is refused for an operand's number.
        """
        self._run(0, len(self._calls), memory, deadline)

    def _check(self, memory: Memory) -> None:
        for base, offset, text in self._reports:
            if word := ctypes.c_int64.from_address(int(memory.bases[base]) + offset).value:
                raise InputError(f"{text}: {word}")

    def run_call(self, number: int, memory: Memory, deadline: Deadline | None = None) -> None:
        """Make one of the calls. Raises as ``run`` does, for operands with the last one."""
        self._run(number, 1, memory, deadline)

    def _run(self, first: int, count: int, memory: Memory, deadline: Deadline | None = None) -> None:
        calls, which, offsets = self._tables
        skipped = 8 * self._firsts[first]
        bases, scratch = memory.bases.ctypes.data, memory.scratch
        row = self._calls.strides[0] * first
        which, offsets = which + skipped, offsets + skipped
        self._team.run_calls(count, calls + row, which, offsets, self._most, bases, scratch, deadline)
        if first + count == len(self._calls):
            self._check(memory)
