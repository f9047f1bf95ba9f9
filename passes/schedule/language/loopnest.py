"""The parts of schedules, without IR: the named axes of a kernel's values, and the loops over them.

An axis in two parts is two loops: splitting ``n`` by 32 gives ``n.0``, which goes in steps of 32, and ``n.1``, the
elements of such a step; splitting ``n.1`` gives ``n.1.0`` and ``n.1.1``. Two loops in one are called ``b*n.0``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ....core.errors import ScheduleError
from ....core.sizes import Extent, require_static

RESULT, ARGUMENT = "result", "%arg"
# The largest register tile has some 450 elements; a vector of tens of thousands takes LLVM minutes.
MAX_TILE = 4096
# The most rows that a row of a copy goes into.
MAX_PHASES = 2

# What a tile's op can become as a whole.
INTRINSICS = {
    "outer_product": "a sum of products: for each step a column times a row is added to accumulators in registers",
    "linear_transform": "products with small constant matrices as straight-line code",
    "dot_product": "a sum of products of bytes: four steps at once, with the instruction that adds up such products",
}

LoopKind = Literal["for", "parallel", "vectorize", "unroll"]


@dataclass(frozen=True)
class Axis:
    """A dim of a value, or a loop of the sum that makes it. Axes of extent 1 have no loop."""

    name: str
    extent: Extent


@dataclass(frozen=True)
class Block:
    """An argument that lies in blocks of ``size`` elements along an axis."""

    argument: int
    axis: str
    size: int

    def __str__(self) -> str:
        return f"{ARGUMENT}{self.argument} in blocks of {self.size} along {self.axis}"


@dataclass(frozen=True)
class KernelValue:
    """A value of a kernel as schedules see it: what a nest of loops computes or copies.

    name: "result", "%5" for what op 5 of the kernel's function makes, "%arg1" for its argument 1.
    axes: its dims, outermost first; those of others than the result begin with the value's name: "%5.m".
    sums: the reduction loops that make it, outermost first.
    row: the axis, of ``axes`` or ``sums``, of rows that reductions go along and that are computed whole; "" for none.
    intrinsic: what its tiles can become; "" for nothing.
    packed: arguments whose layout its loops must respect.
    read: whether it lies in memory before the kernel runs, an argument or a slice of one: staging it copies it.
    once: whether it may lie over an argument that it is made from, so that no element may be computed twice.
    single: axes of which a tile has one element: of windows whose padding is left out.
    """

    name: str
    axes: tuple[Axis, ...]
    sums: tuple[Axis, ...] = ()
    row: str = ""
    intrinsic: str = ""
    packed: tuple[Block, ...] = ()
    read: bool = False
    once: bool = False
    single: tuple[str, ...] = ()

    @property
    def contiguous(self) -> str:
        """The innermost axis with more than one element, which vectors lie along; "" for a single element."""
        return next((axis.name for axis in reversed(self.axes) if axis.extent != 1), "")

    def is_sum(self, axis: str) -> bool:
        """Return whether an axis is a reduction loop."""
        return any(axis == summed.name for summed in self.sums)


@dataclass(frozen=True)
class Part:
    """A loop over ``extent`` elements of an axis, ``step`` at once; the last step is smaller where it must be."""

    name: str
    axis: str
    extent: Extent
    step: int = 1

    @property
    def size(self) -> int:
        """The elements as a number; CompileError for a symbol."""
        return require_static(self.extent, f"axis '{self.axis}'")

    @property
    def steps(self) -> int:
        """Steps of the loop, with the last, smaller one."""
        return -(-self.size // self.step)

    @property
    def rest(self) -> int:
        """Elements of the last, smaller step; 0 where all are whole."""
        return self.size % self.step

    def __str__(self) -> str:
        if not isinstance(self.extent, int):
            return f"{self.extent} by {self.step}"
        return f"{self.size // self.step} x {self.step}" + (f" + {self.rest}" if self.rest else "")


@dataclass(frozen=True)
class Loop:
    """One loop: a part of an axis, or several joined. ``unroll`` and ``vectorize`` ones over the result make its tile.

    factor: how many steps of a sum are taken at once.
    apart: whether those lie as far from each other as can be, each in its own part of the sum, or are neighbours.
    overlap: whether the last step, where it would be smaller, is whole and begins in the one before.
    """

    parts: tuple[Part, ...]
    kind: LoopKind = "for"
    factor: int = 1
    overlap: bool = False
    apart: bool = False

    @property
    def name(self) -> str:
        return "*".join(part.name for part in self.parts)

    @property
    def axis(self) -> str:
        """The axis of its one part, or of the innermost of several."""
        return self.parts[-1].axis

    @property
    def steps(self) -> int:
        return math.prod(part.steps for part in self.parts)

    @property
    def whole(self) -> bool:
        """Return whether it walks the remaining elements of its axis one by one: only such loops can be in a tile."""
        return len(self.parts) == 1 and self.parts[0].step == 1


@dataclass(frozen=True)
class Nest:
    """The loops that compute a value, outermost first: those around tiles, those of sums, those of the tile.

    at: the loop of the result inside of which the value is computed ahead, as far as the rest needs it; "" for none.
    intrinsic: what the tile's op becomes.
    packs: the layouts that it relies on.
    phases: into how many rows each row of a copy goes: into two, one has every second element, and one the others.
    splits, matrix_rows: whether a copy has floats in parts of bfloat16, and the rows of its matrices; 0 for columns.
    """

    value: KernelValue
    loops: tuple[Loop, ...]
    at: str = ""
    intrinsic: str = ""
    packs: tuple[Block, ...] = ()
    phases: int = 1
    splits: bool = False
    matrix_rows: int = 0

    @staticmethod
    def start(value: KernelValue, at: str = "") -> Nest:
        """A loop for each axis with more than one element, each over single elements."""
        axes = [a for a in (*value.axes, *value.sums) if a.extent != 1 or a.name == value.row]
        return Nest(value, tuple(Loop((Part(a.name, a.name, a.extent),)) for a in axes), at)

    def loop(self, name: str) -> Loop:
        """The loop of this name, which there is."""
        return next(loop for loop in self.loops if loop.name == name)

    def exchange(self, old: Sequence[Loop], new: Iterable[Loop]) -> tuple[Loop, ...]:
        """The loops with ``new`` ones in the place of neighbours."""
        at = self.loops.index(old[0])
        return (*self.loops[:at], *new, *self.loops[at + len(old) :])

    @property
    def outer(self) -> tuple[Loop, ...]:
        """The loops around tiles."""
        return tuple(loop for loop in self.loops if self._rank(loop) == 0)

    @property
    def inner(self) -> tuple[Loop, ...]:
        """The loops inside of a tile's place: over what is summed up, and along whole rows."""
        return tuple(loop for loop in self.loops if self._rank(loop) == 1)

    @property
    def tile(self) -> tuple[Loop, ...]:
        """The loops that are no loops but registers."""
        return tuple(loop for loop in self.loops if self._rank(loop) == 2)

    @property
    def row_chunk(self) -> int:
        """Elements of one step along whole rows; 0 where the value has no such rows."""
        return next((loop.parts[0].size for loop in self.tile if loop.axis == self.value.row), 0)

    @property
    def across(self) -> bool:
        """Return whether a tile has several whole rows, of which one element after another is computed."""
        along = [loop for loop in self.inner if loop.axis == self.value.row]
        return bool(self.value.row) and len(along) == len(self.tile) == 1 and not self.row_chunk

    @property
    def parallel(self) -> Loop | None:
        """The loop whose steps threads share."""
        return self.loops[0] if self.loops and self.loops[0].kind == "parallel" else None

    def _rank(self, loop: Loop) -> int:
        summed = self.value.is_sum(loop.axis)
        if loop.kind == "vectorize" or (loop.kind == "unroll" and loop.factor == 1):
            return 2
        return 1 if summed or loop.axis == self.value.row else 0

    def check(self) -> None:
        """Raise ScheduleError, naming the loop, unless this nest can be built as it is written."""
        for problem in (*self._find_misplaced(), *self._incomplete()):
            raise ScheduleError(problem)

    def _find_misplaced(self) -> Iterator[str]:
        for outer, loop in zip(self.loops, self.loops[1:], strict=False):
            if self._rank(outer) <= self._rank(loop):
                continue
            word = "vectorize" if loop.axis == self.value.contiguous else "unroll"
            where = "the tile" if self._rank(outer) == 2 else "a sum, which would need a buffer of partial results"
            yield (
                f"'{loop.name}' is a loop inside of '{outer.name}', which is {where}:"
                f" reorder('{loop.name}', '{outer.name}'), or {word}('{loop.name}')"
            )
        for loop in self.inner[:-1]:
            if loop.axis == self.value.row:
                yield f"'{loop.name}' goes along rows and is outside of a sum: it must be the innermost loop"

    def _incomplete(self) -> Iterator[str]:
        value = self.value
        if value.row and not self.row_chunk and not self.across:
            yield f"rows are computed whole, and no loop over '{value.row}' is vectorized: vectorize('{value.row}')"
        if value.intrinsic == "linear_transform" != self.intrinsic:
            loop = self.tile[0].name if self.tile else value.contiguous
            yield f"{value.name} is a transform, of which there is one form: tensorize('{loop}', '{value.intrinsic}')"
        if self.intrinsic == "outer_product" and (not self.inner or self.inner[-1].axis != value.sums[-1].name):
            yield f"outer_product takes steps of '{value.sums[-1].name}': it must be the innermost sum"
        if self.intrinsic == "outer_product" and self.inner and self.inner[-1].apart:
            yield f"outer_product takes neighbouring steps of '{self.inner[-1].name}', not such that lie apart"
        for block in value.packed:
            if block not in self.packs:
                yield f"{block} is what the kernel reads: pack({block.argument}, '{block.axis}', {block.size})"
            yield from self._across_blocks(block)

    def _across_blocks(self, block: Block) -> Iterator[str]:
        what = f"elements, and {block}: split '{block.axis}' by {block.size}"
        for loop in self.loops:
            for part in loop.parts:
                if part.axis == block.axis and loop in self.tile and part.size > block.size:
                    yield f"'{part.name}' has {part.size} {what}"
                elif part.axis == block.axis and loop not in self.tile and part.steps > 1 and part.step % block.size:
                    yield f"'{part.name}' goes in steps of {part.step} {what}"
