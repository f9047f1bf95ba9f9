"""Loops that copy and fill the boxes that a kernel's result is made of (``moves.py`` chooses these)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ....core.target import Target
from ....dialects import arith, func, ir, memref, scf, vector
from ....dialects.builders import element_of, index_constant
from ...ir.kernel import run_upstream
from ...ir.maps import collapse_extents
from ..loop_plan import threads_pay
from ..tiles.buffers import buffer_of
from ..tiles.regions import Linear
from .destination_passing import destination_passing


@dataclass(frozen=True)
class Move:
    """One box of the result.

    source: number of the argument that it is copied from; ``~n``: filled with the constant that op ``n`` makes.
    start, sizes: where it lies in the result. begin, steps: where it lies in the argument.
    tile: elements of one step along the last dim. shared: the dim whose steps threads share.
    """

    source: int
    start: tuple[int, ...]
    sizes: tuple[int, ...]
    begin: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    tile: int = 1
    shared: int = 0

    @property
    def counts(self) -> tuple[int, ...]:
        """Steps of the loop along each dim."""
        return (*self.sizes[:-1], self.sizes[-1] // self.tile)

    @property
    def rows(self) -> tuple[tuple[int, ...], ...]:
        """A key that is the same for neighbouring boxes, which are processed row by row."""
        return self.start[:-1], self.sizes[:-1], (self.shared,)

    def __str__(self) -> str:
        what = f"copy %arg{self.source}{_show_strides(self.begin, self.steps)}" if self.source >= 0 else "fill"
        size = " x ".join(map(str, self.sizes))
        return f"{what} at {list(self.start)}: {size} in steps of {self.tile}, shared along d{self.shared}"


@dataclass(frozen=True)
class Moves:
    """The boxes that make up a kernel's result.

    groups: the dims of the function's tensors that are one dim of the boxes each; those of extent 1 are in none.
    shares: steps of the parallel axis; each does its share of all boxes.
    """

    groups: tuple[tuple[int, ...], ...]
    moves: tuple[Move, ...]
    shares: int

    @property
    def extent(self) -> int:
        """Steps of the parallel axis."""
        return self.shares

    @property
    def ahead(self) -> bool:
        """Return whether each call computes something before its steps: nothing is computed here."""
        return False

    def build(self, function: func.FuncOp, target: Target) -> ir.Module:
        """The loops that copy and fill the boxes."""

        def body(
            arguments: dict[ir.Value, ir.Value], dests: list[ir.Value], lo: ir.Value, hi: ir.Value
        ) -> list[ir.Value]:
            _build_moves(self, function, dests[0], lo, hi, arguments)
            return []

        made = destination_passing(function, body, self.view)
        run_upstream(made, ("canonicalize", "cse"))
        return made

    def parallel_from(self, function: func.FuncOp) -> int | None:
        """From how many elements of the result on threads pay; None for never."""
        return threads_pay(function, self.extent)

    def to_json(self) -> Any:
        """There is no schedule."""
        return None

    def view(self, tensor: ir.Type) -> ir.RankedTensorType:
        """The type of a tensor of the function with each group as one dim."""
        ranked = ir.RankedTensorType(tensor)
        return ir.RankedTensorType.get(collapse_box(self.groups, list(ranked.shape)), ranked.element_type)

    def __str__(self) -> str:
        return "\n".join([f"parallel in {self.shares} shares:", *(f"  {move}" for move in self.moves)])


def collapse_box(groups: Sequence[Sequence[int]], extents: Sequence[int]) -> list[int]:
    """Extents in dims that are groups, at least one."""
    return collapse_extents(extents, groups) or [1]


def _show_strides(begin: Sequence[int], steps: Sequence[int]) -> str:
    """``[2:, ::3]``: where a box begins in its source, and its steps."""
    return f"[{', '.join(f'{b}:' + (f':{s}' if s != 1 else '') for b, s in zip(begin, steps, strict=True))}]"


def _build_moves(
    moves: Moves,
    function: func.FuncOp,
    dest: ir.Value,
    lo: ir.Value,
    hi: ir.Value,
    arguments: Mapping[ir.Value, ir.Value],
) -> None:
    """Emit the loops, on buffers: bufferization takes time that doubles with each of many loops that carry a tensor.

    Args:
        dest: a tensor of the result's type as ``moves.view`` gives it, in whose buffer the boxes are written.
        lo, hi: the shares to do.
        arguments: the tensors, likewise, to use for the function's arguments.
    """
    block = function.regions[0].blocks[0]

    def body(move: Move) -> MoveBody:
        if move.source >= 0:
            return _make_copy_body(move, buffer_of(arguments[block.arguments[move.source]]), buffer_of(dest))
        return _make_fill_body(move, list(block.operations)[~move.source].operation, buffer_of(dest))

    for _, group in itertools.groupby(moves.moves, lambda move: move.rows):
        parts = [(move, body(move)) for move in group]
        _Loops(parts[0][0], moves.shares, lo, hi).over(0, (), parts)


# Writes so many elements at a place of a box.
MoveBody = Callable[[Sequence[Linear], int], None]


@dataclass(frozen=True)
class _Loops:
    """The loops over one box, of which the one along the shared dim does the shares from ``lo`` to ``hi``."""

    move: Move
    shares: int
    lo: ir.Value
    hi: ir.Value

    def over(self, dim: int, at: tuple[Linear, ...], parts: Sequence[tuple[Move, MoveBody]]) -> None:
        """The loops from ``dim`` on, around boxes with the same rows; ``at`` is the place along the dims before it."""
        if dim == len(self.move.sizes) - 1:
            for move, body in parts:
                replace(self, move=move).row(at, body)
            return
        self._loop(dim, lambda offset: self.over(dim + 1, (*at, offset), parts))

    def row(self, at: tuple[Linear, ...], body: MoveBody) -> None:
        """One row, in tiles."""
        size, tile = self.move.sizes[-1], self.move.tile
        self._loop(len(at), lambda offset: body((*at, offset * tile), tile))
        if size % tile == 0:
            return
        # The last elements of a row begin in what is done already: the same is written twice.
        last = (*at, Linear(size - tile))
        if self._is_shared(len(at)):
            with ir.InsertionPoint(scf.IfOp(self._is_end()).then_block):
                body(last, tile)
                scf.YieldOp([])
        else:
            body(last, tile)

    def _is_shared(self, dim: int) -> bool:
        return dim == self.move.shared and self.shares > 1

    def _loop(self, dim: int, step: Callable[[Linear], None]) -> None:
        count = self.move.counts[dim]
        if self._is_shared(dim):
            first, end = self._share(self.lo, count), self._share(self.hi, count)
        elif count == 1:
            step(Linear())
            return
        else:
            first, end = index_constant(0), index_constant(count)
        loop = scf.ForOp(first, end, index_constant(1))
        with ir.InsertionPoint(loop.body):
            step(Linear(0, ((loop.induction_variable, 1),)))
            scf.YieldOp([])

    def _share(self, number: ir.Value, count: int) -> ir.Value:
        return arith.divui(arith.muli(number, index_constant(count)), index_constant(self.shares))

    def _is_end(self) -> ir.Value:
        return arith.cmpi(arith.CmpIPredicate.eq, self.hi, index_constant(self.shares))


def _make_copy_body(move: Move, source: ir.Value, target: ir.Value) -> MoveBody:
    element = element_of(source)

    def body(at: Sequence[Linear], tile: int) -> None:
        read = [Linear(b) + a * s for b, a, s in zip(move.begin, at, move.steps, strict=True)]
        write = [Linear(s) + a for s, a in zip(move.start, at, strict=True)]
        if tile == 1:
            made = memref.load(source, [i.as_value() for i in read])
            memref.store(made, target, [i.as_value() for i in write])
            return
        padding = arith.ConstantOp(element, 0.0 if isinstance(element, ir.FloatType) else 0).result
        kind = ir.VectorType.get([tile], element)
        row = vector.transfer_read(kind, source, [i.as_value() for i in read], _make_row_map(read), padding, [True])
        _write_row(row, write, target)

    return body


def _make_fill_body(move: Move, constant: ir.Operation, target: ir.Value) -> MoveBody:
    value = constant.attributes["value"]
    number = value.get_splat_value() if isinstance(value, ir.DenseElementsAttr) else value

    def body(at: Sequence[Linear], tile: int) -> None:
        scalar = arith.constant(element_of(target), number)
        write = [Linear(s) + a for s, a in zip(move.start, at, strict=True)]
        if tile == 1:
            memref.store(scalar, target, [i.as_value() for i in write])
        else:
            _write_row(vector.broadcast(ir.VectorType.get([tile], element_of(target)), scalar), write, target)

    return body


def _write_row(made: ir.Value, at: Sequence[Linear], target: ir.Value) -> None:
    vector.transfer_write(None, made, target, [i.as_value() for i in at], _make_row_map(at), [True])


def _make_row_map(at: Sequence[Linear]) -> ir.AffineMap:
    """A vector along the last dim."""
    return ir.AffineMap.get_minor_identity(len(at), 1)
