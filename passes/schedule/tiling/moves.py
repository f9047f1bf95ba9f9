"""Kernels that only move data (concat, padding, insertion into a tensor): boxes that are copied or filled.

A result is made of boxes that do not overlap. Each is copied from a box of an argument, or filled with a scalar, with
vectors along the innermost dim; neighbouring dims that all boxes take whole are one, so that rows are long.
Threads share a loop of each box: the outermost one of enough steps, so that a step of several boxes goes over one part
of the result, else the longest.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

from ....core.target import Target
from ....dialects import func, ir, tw
from ....dialects.builders import element_of
from ....dialects.types import element_bits
from ....dialects.walk import defining_op
from ...ir.structure import shape_of, terminator_of
from ..loop_plan import makes_one_tensor
from ..tiles.axes import ROW_VECTORS, power_floor
from ..tiles.regions import NotSchedulable
from .border import cut_slabs
from .move_loops import Move, Moves, collapse_box

# Shares of a box that threads may take: more of them than cores, so that they end together.
_SHARES = 64


def choose_moves(function: func.FuncOp, target: Target) -> Moves:
    """How a kernel of known sizes that ends in a concat, padding or insertion of arguments is moved.

    Raises NotSchedulable for all others.
    """
    root = defining_op(terminator_of(function).operands[0]) if makes_one_tensor(function) else None
    pieces = _pieces(root, _Numbers(function)) if root is not None and root.name in _READERS else None
    pieces = [piece for piece in pieces or () if 0 not in piece.sizes and not _is_there(piece, function)]
    if root is None or not pieces:
        raise NotSchedulable("no kernel that only moves data")
    result = root.results[0]
    shape = shape_of(result)
    sources = [shape_of(a) for a in function.arguments]
    if any(len(s) != len(shape) for s in sources):
        raise NotSchedulable("data of another rank")
    groups = _find_runs(pieces, shape, sources)
    lanes = target.lanes * 32 // element_bits(element_of(result))
    moves = [_tile(_collapse_piece(piece, groups, shape, sources), ROW_VECTORS * lanes) for piece in pieces]
    order = {move.rows: number for number, move in reversed([*enumerate(moves)])}
    moves.sort(key=lambda move: order[move.rows])  # boxes of the same rows are neighbours
    return Moves(groups, tuple(moves), min(_SHARES, max(move.counts[move.shared] for move in moves)))


def _is_there(piece: Move, function: func.FuncOp) -> bool:
    """Return whether a box lies where it is to be: in the argument that the result is written over."""
    over = function.attributes.get(tw.OVER, None)
    if over is None or piece.source != ir.IntegerAttr(over).value:
        return False
    return piece.begin == piece.start and set(piece.steps) <= {1}


class _Numbers:
    """Numbers of arguments and of ops."""

    def __init__(self, function: func.FuncOp) -> None:
        block = function.regions[0].blocks[0]
        self.arguments = {a: i for i, a in enumerate(block.arguments)}
        self.ops = {op.operation: i for i, op in enumerate(block.operations)}

    def source(self, value: ir.Value, start: Sequence[int]) -> Move | None:
        """The move of a whole value to ``start`` of the result."""
        sizes = tuple(shape_of(value))
        if value in self.arguments:
            return Move(self.arguments[value], tuple(start), sizes, (0,) * len(sizes), (1,) * len(sizes))
        op = defining_op(value)
        if op is None or any(not ir.RankedTensorType(v.type).has_static_shape for v in op.results):
            return None
        if op.name == "tensor.extract_slice":
            inner = self.source(op.operands[0], start) if len(op.operands) == 1 else None
            if inner is None or len(inner.sizes) != len(sizes):
                return None
            offsets, steps = (list(ir.DenseI64ArrayAttr(op.attributes[f"static_{n}"])) for n in ("offsets", "strides"))
            if inner.source < 0:
                return replace(inner, sizes=sizes)
            begin = tuple(b + o * s for b, o, s in zip(inner.begin, offsets, inner.steps, strict=True))
            return replace(
                inner, sizes=sizes, begin=begin, steps=tuple(a * b for a, b in zip(inner.steps, steps, strict=True))
            )
        number = self.constant(op.operands[0] if op.name == "linalg.fill" else value)
        return None if number is None else Move(number, tuple(start), sizes)

    def constant(self, value: ir.Value) -> int | None:
        """``~n`` for a scalar constant, or a tensor of one number, that op ``n`` makes."""
        op = defining_op(value)
        if op is None or op.name != "arith.constant" or op not in self.ops:
            return None
        number = op.attributes["value"]
        return ~self.ops[op] if not isinstance(number, ir.DenseElementsAttr) or number.is_splat else None


def _pieces(root: ir.Operation, numbers: _Numbers) -> list[Move] | None:
    """The boxes of the root's result; None where one of them is computed in the kernel."""
    moves = _READERS[root.name](root, numbers)
    found = [move for move in moves if move is not None]
    return found if len(found) == len(moves) else None


def _read_concat(op: ir.Operation, numbers: _Numbers) -> list[Move | None]:
    axis = ir.IntegerAttr(op.attributes["dim"]).value
    shapes = [shape_of(v) for v in op.operands]
    ends = itertools.accumulate(shape[axis] for shape in shapes)
    starts = [
        [end - shape[axis] if d == axis else 0 for d in range(len(shape))]
        for end, shape in zip(ends, shapes, strict=True)
    ]
    return [numbers.source(value, start) for value, start in zip(op.operands, starts, strict=True)]


def _read_pad(op: ir.Operation, numbers: _Numbers) -> list[Move | None]:
    if len(op.operands) != 1:
        return [None]
    number = numbers.constant(terminator_of(op).operands[0])
    low, inner = list(ir.DenseI64ArrayAttr(op.attributes["static_low"])), shape_of(op.operands[0])
    around = cut_slabs(shape_of(op.results[0]), low, inner)
    fills = [None if number is None else Move(number, *slab) for slab in around]
    return [numbers.source(op.operands[0], low), *fills]


def _read_insert(op: ir.Operation, numbers: _Numbers) -> list[Move | None]:
    into = op.operands[1]
    offsets, sizes, steps = (
        list(ir.DenseI64ArrayAttr(op.attributes[f"static_{n}"])) for n in ("offsets", "sizes", "strides")
    )
    if (
        len(op.operands) != 2
        or sizes != shape_of(op.operands[0])
        or any(s != 1 and n != 1 for s, n in zip(steps, sizes, strict=True))
    ):
        return [None]
    kept: list[Move | None] = []
    empty = defining_op(into)
    if empty is not None and empty.name == "tensor.empty":  # nobody reads what is around
        return [numbers.source(op.operands[0], offsets)]
    for start, size in cut_slabs(shape_of(into), offsets, sizes):
        whole = numbers.source(into, start)
        if whole is not None and whole.source >= 0:
            begin = tuple(b + s * step for b, s, step in zip(whole.begin, start, whole.steps, strict=True))
            whole = replace(whole, begin=begin)
        kept.append(None if whole is None else replace(whole, sizes=size))
    return [numbers.source(op.operands[0], offsets), *kept]


_READERS = {"tensor.concat": _read_concat, "tensor.pad": _read_pad, "tensor.insert_slice": _read_insert}


def _find_runs(
    pieces: Sequence[Move], shape: Sequence[int], sources: Sequence[Sequence[int]]
) -> tuple[tuple[int, ...], ...]:
    """Dims in runs that every box takes as one: all but the first of a run are whole in it.

    ``Seams`` asks that of loops, which go along whole axes; here the first may be cut.
    """

    def whole(piece: Move, dim: int) -> bool:
        if piece.source < 0:
            return piece.sizes[dim] == shape[dim]
        return piece.sizes[dim] == shape[dim] == sources[piece.source][dim] and piece.steps[dim] == 1

    groups: list[tuple[int, ...]] = []
    for dim, extent in enumerate(shape):
        if extent == 1 and all(source[dim] == 1 for source in sources):
            continue
        dense = groups and all(piece.source < 0 or piece.steps[groups[-1][0]] == 1 for piece in pieces)
        if dense and all(whole(piece, dim) for piece in pieces):
            groups[-1] = (*groups[-1], dim)
        else:
            groups.append((dim,))
    return tuple(groups)


def _collapse_piece(
    piece: Move, groups: Sequence[Sequence[int]], shape: Sequence[int], sources: Sequence[Sequence[int]]
) -> Move:
    """The box in dims that are groups."""
    sizes, start = collapse_box(groups, piece.sizes), _places(groups, piece.start, shape)
    made = replace(piece, start=start, sizes=tuple(sizes))
    if piece.source < 0:
        return made
    steps = tuple(piece.steps[group[0]] for group in groups) or (1,)
    return replace(made, begin=_places(groups, piece.begin, sources[piece.source]), steps=steps)


def _places(groups: Sequence[Sequence[int]], place: Sequence[int], shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(place[group[0]] * math.prod(shape[d] for d in group[1:]) for group in groups) or (0,)


def _tile(move: Move, widest: int) -> Move:
    dense = move.source < 0 or move.steps[-1] == 1 or move.sizes[-1] == 1
    made = replace(move, tile=min(widest, power_floor(move.sizes[-1])) if dense else 1)
    enough = [d for d, steps in enumerate(made.counts) if steps >= _SHARES]
    return replace(made, shared=enough[0] if enough else max(range(len(made.sizes)), key=lambda d: made.counts[d]))
