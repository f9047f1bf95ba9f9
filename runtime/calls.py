"""Kernel calls in tables, made by ``tw_run_calls`` of passes/lower/entry.mlir."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .deadline import Deadline
from .threads import team_lock

# int64 tw_run_calls(int64 count, calls, bases of words, offsets of words, int64 most, bases, scratch, context,
#                    int64 nanoseconds)
_RUN_CALLS = ctypes.CFUNCTYPE(
    ctypes.c_int64,
    ctypes.c_int64,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_int64,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_int64,
)
# Code comes back to Python so often: signals (Ctrl-C) are handled then.
_SECONDS = 0.05
_WORD = 8


@dataclass(frozen=True, eq=False)
class CallTable:
    """Calls in order. A row of ``calls`` has what ``tw_run_calls`` reads of one: address, number of words, extent,
    pieces (0: this thread does all), scratch bytes of a thread; all arrays are int64.

    The words of all calls lie one behind another, ``most`` to a call: each is one of a run's bases, by its number in
    ``bases``, and an offset to it in ``offsets``.
    """

    calls: np.ndarray
    bases: np.ndarray
    offsets: np.ndarray
    most: int

    @cached_property
    def addresses(self) -> tuple[int, int, int]:
        """Where the arrays are."""
        return self.calls.ctypes.data, self.bases.ctypes.data, self.offsets.ctypes.data

    def words_before(self, call: int) -> int:
        """How many words the calls before this one take."""
        return int(self.calls[:call, 1].sum())


class Team:
    """Threads that share the steps of kernels, which the ``tw_run_calls`` at an address calls."""

    class _Context(ctypes.Structure):
        """What ``tw_parallel_for`` reads of a program's context."""

        _fields_ = (("threads", ctypes.c_int32), ("lock", ctypes.c_void_p))

    def __init__(self, address: int, threads: int) -> None:
        self.threads = threads
        self._run = _RUN_CALLS(address)
        self._context = Team._Context(threads, team_lock())

    def run_calls(self, table: CallTable, bases: np.ndarray, scratch: int, deadline: Deadline | None = None) -> None:
        """Make the calls of a table in order; ``scratch`` is an address.

        ctypes lets go of the interpreter meanwhile. A signal's exception, or TimeoutError behind the ``deadline``, ends
        the run between two calls.
        """
        calls, which, offsets = table.addresses
        count, made, most = len(table.calls), 0, table.most
        at, context, row = bases.ctypes.data, ctypes.addressof(self._context), table.calls.strides[0]
        while made < count:
            seconds = _SECONDS if deadline is None else min(_SECONDS, deadline.check())
            skip = _WORD * table.words_before(made) if made else 0
            made += self._run(
                count - made,
                calls + row * made,
                which + skip,
                offsets + skip,
                most,
                at,
                scratch,
                context,
                int(seconds * 1e9),
            )
