"""Loops that copy and fill the boxes that a kernel's result is made of (``moves.py`` chooses these)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ....core.target import Target
from ....dialects import arith, func, ir, scf, tensor, vector
from ....dialects.builders import element_of, index_constant
from ....dialects.loops import branch
from ...ir.kernel import run_upstream
from ...ir.maps import collapse_extents
from ..loop_plan import threads_pay
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
            return [build_moves(self, function, dests[0], lo, hi, arguments)]

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


def build_moves(
    moves: Moves,
    function: func.FuncOp,
    dest: ir.Value,
    lo: ir.Value,
    hi: ir.Value,
    arguments: Mapping[ir.Value, ir.Value],
) -> ir.Value:
    """Emit the loops; returns the tensor that ``dest`` has become.

    Args:
        dest: a tensor of the result's type as ``moves.view`` gives it, to write into.
        lo, hi: the shares to do.
        arguments: the tensors, likewise, to use for the function's arguments.
    """
    block = function.regions[0].blocks[0]

    def body(move: Move) -> MoveBody:
        if move.source >= 0:
            return _make_copy_body(move, arguments[block.arguments[move.source]])
        return _make_fill_body(move, list(block.operations)[~move.source].operation)

    for _, group in itertools.groupby(moves.moves, lambda move: move.rows):
        parts = [(move, body(move)) for move in group]
        dest = _Loops(parts[0][0], moves.shares, lo, hi).over(0, (), dest, parts)
    return dest


MoveBody = Callable[[Sequence[Linear], int, ir.Value], ir.Value]


@dataclass(frozen=True)
class _Loops:
    """The loops over one box, of which the one along the shared dim does the shares from ``lo`` to ``hi``."""

    move: Move
    shares: int
    lo: ir.Value
    hi: ir.Value

    def over(
        self, dim: int, at: tuple[Linear, ...], target: ir.Value, parts: Sequence[tuple[Move, MoveBody]]
    ) -> ir.Value:
        """The loops from ``dim`` on, around boxes with the same rows; ``at`` is the place along the dims before it."""
        if dim == len(self.move.sizes) - 1:
            for move, body in parts:
                target = replace(self, move=move).row(at, target, body)
            return target

        def step(offset: Linear, value: ir.Value) -> ir.Value:
            return self.over(dim + 1, (*at, offset), value, parts)

        return self._loop(dim, target, step)

    def row(self, at: tuple[Linear, ...], target: ir.Value, body: MoveBody) -> ir.Value:
        """One row, in tiles."""
        size, tile = self.move.sizes[-1], self.move.tile

        def step(offset: Linear, value: ir.Value) -> ir.Value:
            return body((*at, offset), tile, value)

        made = self._loop(len(at), target, lambda offset, value: step(offset * tile, value))
        if size % tile == 0:
            return made
        # The last elements of a row begin in what is done already: the same is written twice.
        end = Linear(size - tile)
        return self._at_the_end(made, lambda value: step(end, value)) if self._is_shared(len(at)) else step(end, made)

    def _is_shared(self, dim: int) -> bool:
        return dim == self.move.shared and self.shares > 1

    def _loop(self, dim: int, target: ir.Value, step: Callable[[Linear, ir.Value], ir.Value]) -> ir.Value:
        count = self.move.counts[dim]
        if self._is_shared(dim):
            first, end = self._share(self.lo, count), self._share(self.hi, count)
        elif count == 1:
            return step(Linear(), target)
        else:
            first, end = index_constant(0), index_constant(count)
        loop = scf.ForOp(first, end, index_constant(1), [target])
        with ir.InsertionPoint(loop.body):
            scf.YieldOp([step(Linear(0, ((loop.induction_variable, 1),)), loop.inner_iter_args[0])])
        return loop.results[0]

    def _share(self, number: ir.Value, count: int) -> ir.Value:
        return arith.divui(arith.muli(number, index_constant(count)), index_constant(self.shares))

    def _at_the_end(self, target: ir.Value, body: Callable[[ir.Value], ir.Value]) -> ir.Value:
        ends = arith.cmpi(arith.CmpIPredicate.eq, self.hi, index_constant(self.shares))
        return branch(ends, target.type, lambda: body(target), lambda: target)


def _make_copy_body(move: Move, source: ir.Value) -> MoveBody:
    def body(at: Sequence[Linear], tile: int, target: ir.Value) -> ir.Value:
        read = [Linear(b) + a * s for b, a, s in zip(move.begin, at, move.steps, strict=True)]
        write = [Linear(s) + a for s, a in zip(move.start, at, strict=True)]
        if tile == 1:
            element = tensor.extract(source, [i.as_value() for i in read])
            return tensor.insert(element, target, [i.as_value() for i in write])
        element = element_of(source)
        padding = arith.ConstantOp(element, 0.0 if isinstance(element, ir.FloatType) else 0).result
        kind = ir.VectorType.get([tile], element)
        made = vector.transfer_read(kind, source, [i.as_value() for i in read], _make_row_map(read), padding, [True])
        return _write_row(made, write, target)

    return body


def _make_fill_body(move: Move, constant: ir.Operation) -> MoveBody:
    value = constant.attributes["value"]
    number = value.get_splat_value() if isinstance(value, ir.DenseElementsAttr) else value

    def body(at: Sequence[Linear], tile: int, target: ir.Value) -> ir.Value:
        scalar = arith.constant(element_of(target), number)
        write = [Linear(s) + a for s, a in zip(move.start, at, strict=True)]
        if tile == 1:
            return tensor.insert(scalar, target, [i.as_value() for i in write])
        return _write_row(vector.broadcast(ir.VectorType.get([tile], element_of(target)), scalar), write, target)

    return body


def _write_row(made: ir.Value, at: Sequence[Linear], target: ir.Value) -> ir.Value:
    return vector.transfer_write(target.type, made, target, [i.as_value() for i in at], _make_row_map(at), [True])


def _make_row_map(at: Sequence[Linear]) -> ir.AffineMap:
    """A vector along the last dim."""
    return ir.AffineMap.get_minor_identity(len(at), 1)
