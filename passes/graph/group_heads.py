"""Attention whose heads share keys and values reads these as they are, and no copy for each head."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from ...core.sizes import Extent
from ...dialects import builders, func, ir
from ...dialects.walk import defining_op, integer_of
from ..analysis.classify import classify_sum
from ..analysis.kinds import Contraction
from ..infra.base import Pass
from ..ir.dynamic_sizes import emit_size, note_sizes
from ..ir.edit import body_of, erase_dead, list_programs, splat_of
from ..ir.maps import is_copy, permutation_of, reassociation_of
from ..ir.structure import (
    body_ops,
    dim_of,
    indexing_maps,
    is_projection,
    iterator_types,
    list_ops,
    loops_along,
    shape_of,
)
from ..ir.uses import readers_of, users_of

_RESHAPING = ("tensor.expand_shape", "tensor.collapse_shape")


@dataclass(frozen=True)
class GroupHeads(Pass):
    """Let products with keys and values that are repeated for several heads read them once, by groups of heads.

    Language models have fewer heads of keys than of queries, and models that are exported from PyTorch copy the keys
    of all tokens for each head of queries. From the product that makes the scores on to the one that weighs the values
    heads are groups, and the heads of each.

    Before::

        %r = linalg.generic {(b, s, g, n, d) -> (b, s, 0, n, d)} ins(%k) -> tensor<1x8x4x1024x128xf32>
        %h = tensor.collapse_shape %r [[0], [1, 2], [3], [4]] into tensor<1x32x1024x128xf32>
        %scores = linalg.generic {contraction, (b, h, m, d), (b, h, n, d)} ins(%q, %h) -> tensor<1x32x1x1024xf32>

    After::

        %e = tensor.expand_shape %q [[0], [1, 2], [3], [4]] into tensor<1x8x4x1x128xf32>
        %scores = linalg.generic {contraction, (b, s, g, m, d), (b, s, n, d)} ins(%e, %k) -> tensor<1x8x4x1x1024xf32>

    So it is where both products repeat their right operands for as many heads, and all between them is elementwise or
    reduces other axes. Where each head has one query, as in a step of a decoder, the kernel of attention takes the
    heads of a group for its rows.
    """

    name: ClassVar[str] = "group-heads"
    opt_level: ClassVar[int] = 1

    def apply(self, module: ir.Module) -> None:
        """Rewrite the attention of all programs."""
        for function in list_programs(module):
            self._apply(function)

    def _apply(self, function: func.FuncOp) -> None:
        for op in list_ops(function):
            _part_heads(op)
        erase_dead(function)  # whose views would be in the way
        for op in list_ops(function):
            repeated = _SharedProduct.of(op)
            if repeated is not None and (heads := _Heads.find(repeated, list_ops(function))) is not None:
                heads.split()
        erase_dead(function)


def _part_heads(op: ir.Operation) -> None:
    """Let a product have heads apart that a view joins for it with the batch, and another one takes apart again.

    So PyTorch writes products of more than three dims.
    """
    kind, readers = classify_sum(op), users_of(op)
    if not isinstance(kind, Contraction) or len(kind.batch) != 1 or splat_of(op.operands[2]) is None:
        return
    if len(readers) != 1 or readers[0].name != "tensor.expand_shape":
        return
    [view], [loop] = readers, kind.batch
    groups, axes = reassociation_of(view), [loops_along(op, number).index(loop) for number in range(3)]
    sizes = shape_of(view.results[0])
    heads = [sizes[d] for d in groups[axes[2]]]
    if len(heads) < 2 or len(groups) + len(heads) - 1 != len(sizes):
        return
    with ir.InsertionPoint(op), op.location:
        parts = (_part_value(op.operands[number], axes[number], heads) for number in (kind.lhs, kind.rhs))
        values = [value for value in parts if value is not None]
        if len(values) < 2:
            return
        left = note_sizes(values[0])
        apart = left[axes[0] : axes[0] + len(heads)]
        shape = [*note_sizes(op.operands[2])]
        shape[axes[2] : axes[2] + 1] = apart
        out = builders.full(shape, builders.scalar(splat_of(op.operands[2]) or 0, builders.element_of(op.results[0])))
        places = [_split_loops(loops_along(op, number), loop, len(heads), len(heads)) for number in range(3)]
        letters = _split_letters(op, loop, len(heads))
        [made] = builders.generic(values, [out], places, letters, body_of(op))
    view.results[0].replace_all_uses_with(made)


def _part_value(value: ir.Value, axis: int, heads: Sequence[int]) -> ir.Value | None:
    """What a view has joined along ``axis``, with so many heads; None for what is no view, or has others."""
    view = defining_op(value)
    if view is None or view.name != "tensor.collapse_shape":
        return None
    sizes, groups = shape_of(view.operands[0]), reassociation_of(view)
    if [sizes[d] for d in groups[axis]] == [*heads] and all(len(g) == 1 for g in groups if g is not groups[axis]):
        return view.operands[0]
    if min(heads) < 0:
        return None
    shape = [*note_sizes(value)]
    shape[axis : axis + 1] = heads
    return builders.reshape(view.operands[0], shape)


@dataclass(frozen=True)
class _Repeat:
    """A value that has each of ``groups`` matrices of a source ``each`` times, one after another along ``axis``.

    order: that of the source's dims in the value, which is perhaps transposed.
    """

    source: ir.Value
    axis: int
    groups: int
    each: int
    order: Sequence[int]

    @staticmethod
    def of(value: ir.Value) -> _Repeat | None:
        """The repetition that a value is, perhaps transposed; None for all others."""
        turn = defining_op(value)
        order = permutation_of(turn, known=False) if turn is not None else None
        if turn is not None and order:
            value = turn.operands[0]
        view = defining_op(value)
        if view is None or view.name != "tensor.collapse_shape":
            return None
        groups, copy = reassociation_of(view), defining_op(view.operands[0])
        joined = [axis for axis, group in enumerate(groups) if len(group) > 1]
        if copy is None or not is_copy(copy) or len(joined) != 1:
            return None
        [axis], [*others, repeated] = joined, groups[joined[0]]
        source, target = indexing_maps(copy)
        loops, walked = [dim_of(e) for e in target.results], [dim_of(e) for e in source.results]
        before, behind = loops[:repeated], loops[repeated + 1 :]
        if walked not in ([*before, None, *behind], [*before, *behind]) or not is_projection(source):
            return None
        shape = shape_of(view.operands[0])
        if min(shape[d] for d in groups[axis]) < 1 or shape[repeated] < 2:
            return None
        count = math.prod(shape[d] for d in others)
        return _Repeat(copy.operands[0], axis, count, shape[repeated], order or range(len(groups)))

    def read(self) -> ir.Value:
        """What is repeated, without the axis along which it is, turned as the value was; at the insertion point."""
        sizes, behind = note_sizes(self.source), len(self.order) - self.axis - 1
        plain = [*sizes[: self.axis], self.groups, *sizes[len(sizes) - behind :]]
        return builders.transpose(builders.reshape(self.source, plain), self.order)

    @property
    def heads(self) -> int:
        """The axis of heads of the value that this is."""
        return list(self.order).index(self.axis)


@dataclass(frozen=True)
class _SharedProduct:
    """A product whose right operand is repeated for several heads; ``loop`` is that of heads."""

    op: ir.Operation
    repeat: _Repeat
    loop: int

    @staticmethod
    def of(op: ir.Operation) -> _SharedProduct | None:
        """The product that an op is; None for all others."""
        kind = classify_sum(op)
        if not isinstance(kind, Contraction) or (repeat := _Repeat.of(op.operands[kind.rhs])) is None:
            return None
        loop = loops_along(op, kind.rhs)[repeat.heads]
        if loop not in kind.batch or splat_of(op.operands[2]) is None:
            return None
        return _SharedProduct(op, repeat, loop)


@dataclass
class _Heads:
    """The ops from the product that makes scores to the one that weighs values, whose heads are split.

    between: the ops between, in order, with the loop of heads of each; None is that of views. axes: where heads are in
    what these make. made: the values with heads split.
    """

    first: _SharedProduct
    last: _SharedProduct
    between: list[tuple[ir.Operation, int | None]] = field(default_factory=list)
    axes: dict[ir.Value, int] = field(default_factory=dict)
    made: dict[ir.Value, ir.Value] = field(default_factory=dict)

    @staticmethod
    def find(first: _SharedProduct, ops: Sequence[ir.Operation]) -> _Heads | None:
        """The heads of a product's result up to a product like it; None where they cannot be split all the way."""
        result = first.op.results[0]
        heads = _Heads(first, first, axes={result: loops_along(first.op, 2).index(first.loop)})
        for op in ops[ops.index(first.op) + 1 :]:
            if op.name == "tensor.dim" or not any(value in heads.axes for value in op.operands):
                continue
            last = _SharedProduct.of(op)
            if last is not None and last.op.operands[0] in heads.axes:
                sizes = [(p.repeat.groups, p.repeat.each) for p in (first, last)]
                heads.last = last
                return heads if sizes[0] == sizes[1] and heads._find_loop(op) == last.loop else None
            if not heads._add(op):
                return None
        return None

    def _add(self, op: ir.Operation) -> bool:
        """Note an op that reads what has heads; False where it does not keep them whole."""
        if op.name in _RESHAPING:
            return self._add_view(op)
        if op.name != "linalg.generic" or len(op.results) != 1 or not all(map(is_projection, indexing_maps(op))):
            return False
        loop, last, body = self._find_loop(op), len(op.operands) - 1, op.regions[0].blocks[0]
        walked, begins = loops_along(op, last), splat_of(op.operands[last]) is not None
        if loop is None or loop not in walked or any(inner.name == "linalg.index" for inner in body_ops(op)):
            return False
        if not begins and list(body.arguments[last].uses):  # what is there is read
            return False
        self.axes[op.results[0]] = walked.index(loop)
        self.between.append((op, loop))
        return True

    def _add_view(self, op: ir.Operation) -> bool:
        groups, axis, joins = reassociation_of(op), self.axes[op.operands[0]], op.name == "tensor.collapse_shape"
        place = next(i for i, group in enumerate(groups) if axis in group) if joins else axis
        shape = shape_of(op.operands[0] if joins else op.results[0])
        # An open axis is one of a group whose others have one element: its size is that of the group.
        sizes = [sorted(shape[d] for d in group) for group in groups]
        plain = all(least > 0 or {*others} <= {1} for least, *others in sizes)
        if len(groups[place]) > 1 or not plain:
            return False
        self.axes[op.results[0]] = place if joins else groups[place][0]
        self.between.append((op, None))
        return True

    def _find_loop(self, op: ir.Operation) -> int | None:
        """The loop that walks the heads of all operands that have them; None where that is not one."""
        found = {
            loops_along(op, number)[self.axes[value]] for number, value in enumerate(op.operands) if value in self.axes
        }
        return found.pop() if len(found) == 1 else None

    def split(self) -> None:
        """Emit all ops with heads split, and let who reads the old results see the new ones through a view."""
        for value in [op.results[0] for op in (self.first.op, *(op for op, _ in self.between), self.last.op)]:
            _resolve_sizes(value)
        self._emit(self.first.op, self.first.loop, self.first.repeat)
        for op, loop in self.between:
            if loop is None:
                self._emit_view(op)
            else:
                self._emit(op, loop, None)
        self.axes[self.last.op.results[0]] = loops_along(self.last.op, 2).index(self.last.loop)
        self._emit(self.last.op, self.last.loop, self.last.repeat)
        for old, new in self.made.items():
            op = defining_op(new)
            assert op is not None  # which was just made
            with ir.InsertionPoint.after(op), op.location:
                old.replace_all_uses_with(builders.reshape(new, self._joined_sizes(old)))

    def _emit(self, op: ir.Operation, loop: int, repeat: _Repeat | None) -> None:
        """Emit an op whose loop of heads is two; of a product that repeats its right operand."""
        last = len(op.operands) - 1
        with ir.InsertionPoint(op), op.location:
            values, places = list[ir.Value](), list[list[int | None]]()
            for number, value in enumerate(op.operands):
                loops, repeated = loops_along(op, number), repeat is not None and number == 1
                places.append(_split_loops(loops, loop, 2, 1 if repeated else 2))
                if number == last:
                    values.append(self._make_out(op, loops.index(loop)))
                elif repeated and repeat is not None:
                    values.append(repeat.read())
                else:
                    values.append(self._split_value(value, loops.index(loop)) if loop in loops else value)
            [made] = builders.generic(values[:last], values[last:], places, _split_letters(op, loop, 2), body_of(op))
        self.made[op.results[0]] = made

    def _emit_view(self, op: ir.Operation) -> None:
        given, result, groups = op.operands[0], op.results[0], reassociation_of(op)
        with ir.InsertionPoint(op), op.location:
            sizes = self._joined_sizes(given)
            if op.name == "tensor.collapse_shape":
                seen = [math.prod(sizes[d] for d in group) for group in groups]
            else:
                kept = {d: size for group, size in zip(groups, sizes, strict=True) for d in group}
                seen = [kept[d] if n < 0 else n for d, n in enumerate(shape_of(result))]
            self.made[result] = builders.reshape(self.made[given], self._split_shape(seen, self.axes[result]))

    def _joined_sizes(self, old: ir.Value) -> list[Extent]:
        """The sizes of a value, by those of what was made of it."""
        sizes, axis = note_sizes(self.made[old]), self.axes[old]
        return [*sizes[:axis], sizes[axis] * sizes[axis + 1], *sizes[axis + 2 :]]

    def _split_value(self, value: ir.Value, axis: int) -> ir.Value:
        if value in self.made:
            return self.made[value]
        return builders.reshape(value, self._split_shape(note_sizes(value), axis))

    def _make_out(self, op: ir.Operation, axis: int) -> ir.Value:
        """The tensor that an op is to write, filled where its own is."""
        out, elem = op.operands[len(op.operands) - 1], builders.element_of(op.results[0])
        shape = self._split_shape(note_sizes(out), axis)
        number = splat_of(out)
        return builders.empty(shape, elem) if number is None else builders.full(shape, builders.scalar(number, elem))

    def _split_shape(self, shape: Sequence[Extent], axis: int) -> list[Extent]:
        repeat = self.first.repeat
        return [*shape[:axis], repeat.groups, repeat.each, *shape[axis + 1 :]]


def _resolve_sizes(value: ir.Value) -> None:
    """Let no op ask a value for its sizes: a view of it, which is there for these alone, would keep kernels apart."""
    for reader in readers_of(value):
        axis = integer_of(reader.operands[1]) if reader.name == "tensor.dim" else None
        if axis is not None:
            with ir.InsertionPoint(reader), reader.location:
                reader.results[0].replace_all_uses_with(emit_size(value, axis))


def _split_loops(loops: Sequence[int | None], loop: int, count: int, walked: int) -> list[int | None]:
    """The loops that walk an operand's dims where ``loop`` is ``count``, of which the operand has the first few."""
    made: list[int | None] = []
    for each in loops:
        if each == loop:
            made += range(loop, loop + walked)
        else:
            made.append(each + count - 1 if each is not None and each > loop else each)
    return made


def _split_letters(op: ir.Operation, loop: int, count: int) -> str:
    """The kinds of an op's loops, where a parallel one is ``count``."""
    letters = "".join(kind[0] for kind in iterator_types(op))
    return letters[:loop] + "p" * count + letters[loop + 1 :]
