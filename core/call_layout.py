"""The calls of a program without a routine as words, which its ``main`` and Python give to the code that makes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .arena import align_size
from .program import Call, Kernel, Program, Slot


@dataclass(frozen=True)
class CallLayout:
    """The calls of a program as ``tw_make_calls`` reads them (``passes/lower/entry.mlir``).

    ``rows`` are the calls: kernel, number of its words, extent, pieces of a thread's part (0: one thread makes all
    steps), bytes of scratch memory for each thread. Their words follow one another: each is an offset to one of a run's
    bases, which are the addresses of the arena, the inputs, the outputs and the weights, in this order. ``reports`` are
    words in memory, by base and offset, and what they mean where they are not 0.
    """

    rows: tuple[tuple[str, int, int, int, int], ...]
    which: tuple[int, ...]
    offsets: tuple[int, ...]
    reports: tuple[tuple[int, int, str], ...]

    @staticmethod
    def of(program: Program, kernels: Mapping[str, Kernel]) -> CallLayout:
        """The layout of a program's calls of these kernels."""
        firsts = {"arena": 0, "input": 1, "output": 1 + len(program.inputs)}
        firsts["param"] = firsts["output"] + len(program.outputs)

        def base_of(slot: Slot) -> int:
            return firsts[slot.space] + (0 if slot.space == "arena" else slot.index)

        rows = [_describe_call(call, kernels[call.kernel]) for call in program.calls]
        slots = [slot for call in program.calls for slot in call.args]
        reports = [(base_of(r.slot), r.slot.offset, r.text) for r in program.reports]
        offsets = tuple(slot.offset for slot in slots)
        return CallLayout(tuple(rows), tuple(map(base_of, slots)), offsets, tuple(reports))

    @property
    def most_words(self) -> int:
        """The words of the call that has most, at least 1."""
        return max((words for _, words, *_ in self.rows), default=1)

    def count_scratch(self, threads: int) -> int:
        """The bytes of scratch memory that all calls need together."""
        return max((stride * (threads if pieces else 1) for *_, pieces, stride in self.rows), default=0)


def _describe_call(call: Call, kernel: Kernel) -> tuple[str, int, int, int, int]:
    pieces = kernel.pieces if kernel.parallel and kernel.extent > 1 else 0
    return call.kernel, len(call.args), kernel.extent, pieces, align_size(kernel.scratch_bytes)
