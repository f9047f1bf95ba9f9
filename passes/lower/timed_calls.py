"""An entry's calls with the time taken around each; ``counters.mlir`` has the functions for that."""

from __future__ import annotations

from collections.abc import Sequence


def timed_calls(calls: Sequence[str], weights: int) -> list[str]:
    """The text of ``main``'s calls with a stamp before the first and after each, and behind them what counts the run.

    The word behind the addresses of the weights is that of the counters, or null.
    """
    head = _COUNTING.format(weights=weights, calls=len(calls), stamps=len(calls) + 1)
    stamped = (call + _STAMP.format(number=number) for number, call in enumerate(calls, 1))
    return [head + _STAMP.format(number=0), *stamped, _COUNT_RUN]


_COUNTING = """  %counters_at = llvm.getelementptr %self[0, 5, {weights}] : (!llvm.ptr) -> !llvm.ptr, !context
  %counters = llvm.load %counters_at : !llvm.ptr -> !llvm.ptr
  %calls = llvm.mlir.constant({calls} : i64) : i64
  %stamp_count = llvm.mlir.constant({stamps} : i64) : i64
  %stamp_room = llvm.alloca %stamp_count x i64 : (i64) -> !llvm.ptr
  %stamps = llvm.call @tw_counting(%counters, %stamp_room) : (!llvm.ptr, !llvm.ptr) -> !llvm.ptr
"""

_STAMP = """  %stamp{number} = llvm.mlir.constant({number} : i64) : i64
  llvm.call @tw_stamp(%stamps, %stamp{number}) : (!llvm.ptr, i64) -> ()
"""

_COUNT_RUN = "  llvm.call @tw_count_run(%counters, %calls, %stamps) : (!llvm.ptr, i64, !llvm.ptr) -> ()\n"
