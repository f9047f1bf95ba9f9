"""One op of a computation as ``linalg.generic``: what it reads as slices, and the scalars of its body.

A read at an index that moves with the tile is an operand; any other one is a ``tensor.extract`` at an index that is
held inside.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..core.sizes import Extent
from ..dialects import arith, builders, extents, ir, positions, scalars, tw
from ..dialects.transform import INIT
from ..dialects.types import element_type
from .attachment import is_sliced
from .dtypes import FLOATS, INDEX
from .expr import INDEX_ARITHMETIC, Expr, IterVar, Literal, Operation, Read, Reduce, SizeVar
from .expr_keys import ExprKeys
from .expr_parts import walk
from .regions import Division, as_linear, each_read, is_inside
from .scalar_ops import EMIT, cast_scalar, computed_type, emit_division, widen_element
from .schedule import Schedule
from .stage import Stage
from .tensor import ComputeOp, Tensor


class OpBody:
    """The structured op of a computation, and the scalars in it."""

    def __init__(self, schedule: Schedule, stage: Stage, op: ComputeOp, values: Mapping[Tensor, ir.Value]) -> None:
        self.schedule, self.stage, self.op, self.values = schedule, stage, op, values
        self.axes, self.keys = [*op.axis, *op.reduce_axis], ExprKeys()
        first = op.body[0]
        self.sources = first.sources if isinstance(first, Reduce) else op.body
        self.reads: dict[int, Read] = {}
        for source in self.sources:
            for read, _ in each_read(source):
                if self.is_operand(read):
                    self.reads.setdefault(self.keys.of(read), read)
        self.known: dict[int, ir.Value] = {}
        self.guarded: dict[int, ir.Value] = {}  # what may be of elements that do not count

    def is_operand(self, read: Read) -> bool:
        """Return whether a read is of a slice that lies inside of its tensor."""
        return all(
            is_sliced(self.schedule, index, self.stage) and is_inside(index, extent)
            for index, extent in zip(read.indices, read.tensor.shape, strict=True)
        )

    def emit(self) -> list[ir.Value]:
        """The op; its results."""
        rank, count = len(self.op.axis), len(self.axes)
        kinds = [element_type(dtype) for dtype in self.op.dtypes]
        if isinstance(self.op.body[0], Reduce) and self.stage.automatic:
            kinds = [scalars.compute_type(kind) for kind in kinds]  # the compiler's families sum up in those
        operands = [self.values[read.tensor] for read in self.reads.values()]
        shifted = any(self.is_part(index, n) for r in self.reads.values() for index, n in pair_indices(r))
        letters = "p" * rank + "r" * (count - rank + shifted)
        maps = [ir.AffineMap.get(len(letters), 0, list(self.indices(r))) for r in self.reads.values()]
        shown = {result.position for m in maps for result in m.results if isinstance(result, ir.AffineDimExpr)}
        for loop in range(rank, len(letters)):
            if loop not in shown:  # a loop is as long as an operand shows
                extent = self.axes[loop].dom.extent if loop < count else 1
                operands.append(builders.empty((extent,), ir.IntegerType.get_signless(8)))
                maps.append(builders.affine_map(len(letters), [loop]))
        first = self.op.body[0]
        if isinstance(first, Reduce):
            begins = [scalars.const(n.value, kind) for n, kind in zip(first.combiner.identity, kinds, strict=True)]
            outs = [self.initial(begin) for begin in begins]
        else:
            outs = [builders.empty(self.op.shape, kind) for kind in kinds]
        maps += [builders.affine_map(len(letters), list(range(rank)))] * len(outs)
        return builders.generic(operands, outs, maps, letters, lambda *given: self.body(given))

    def operand_of(self, read: Read) -> int:
        """The number of the operand that has what is read."""
        return list(self.reads).index(self.keys.of(read))

    def emit_index(self, index: Expr) -> ir.Value:
        """A tensor of the values of an index, which may lie outside of what it is of, along the axes that it has."""
        used = {part for part in walk(index) if isinstance(part, IterVar)}
        self.axes = [axis for axis in self.axes if axis in used]
        self.reads = {}  # an axis may go over a part of what it reads
        word = ir.IntegerType.get_signless(64)
        out = builders.empty([axis.dom.extent for axis in self.axes], word)

        def body(*_: ir.Value) -> ir.Value:
            self.known = {}
            return scalars.from_index(self.index(index), word)

        return builders.generic([], [out], [list(range(len(self.axes)))], "p" * len(self.axes), body)[0]

    def is_part(self, index: Expr, extent: Extent) -> bool:
        """Return whether an axis alone goes over a part of a tensor's, which ``linalg`` takes for all of it."""
        return isinstance(index, IterVar) and not index.dom.min and index.dom.extent != extent

    def indices(self, read: Read) -> Iterator[ir.AffineExpr]:
        """Where an operand is read. A loop of one step is added to an axis that goes over a part of the operand's."""
        for index, extent in pair_indices(read):
            made = self.affine(index)
            yield made + ir.AffineExpr.get_dim(len(self.axes)) if self.is_part(index, extent) else made

    def initial(self, begin: ir.Value) -> ir.Value:
        """What a reduction begins with."""
        filled = builders.full(self.op.shape, begin)
        filled.owner.attributes[tw.STAGE] = ir.StringAttr.get(self.stage.name + INIT)
        return filled

    def affine(self, index: Expr) -> ir.AffineExpr:
        """An index as an expression of the loops, which begin at 0."""
        linear = as_linear(index)
        if linear is not None:
            assert isinstance(linear.const, int)
            made = ir.AffineExpr.get_constant(linear.const)
            for axis, times in linear.terms.items():
                at = ir.AffineExpr.get_dim(self.loop_of(axis)) + axis.dom.min
                made = made + at * times
            return made
        assert isinstance(index, Operation) and isinstance(index.operands[1], Literal)
        inner, divisor = self.affine(index.operands[0]), int(index.operands[1].value)
        make = ir.AffineExpr.get_floor_div if index.name == "floor_divide" else ir.AffineExpr.get_mod
        return make(inner, divisor)

    def loop_of(self, axis: IterVar) -> int:
        """The number of an axis' loop."""
        return next(number for number, own in enumerate(self.axes) if own is axis)

    def body(self, given: Sequence[ir.Value]) -> list[ir.Value]:
        """What is stored, of a scalar of each operand and of each result so far."""
        results = len(self.op.dtypes)
        self.known = {
            key: widen_element(value, read.dtype) for (key, read), value in zip(self.reads.items(), given, strict=False)
        }
        first = self.op.body[0]
        if not isinstance(first, Reduce):
            return [self.value(each) for each in self.op.body]
        before = [widen_element(v, dtype) for v, dtype in zip(given[-results:], self.op.dtypes, strict=True)]
        if (product := self.fused_product(first, before)) is not None:
            return [product]
        sources = [self.value(each) for each in first.sources]
        combiner = first.combiner
        for placeholder, value in zip((*combiner.left, *combiner.right), (*before, *sources), strict=True):
            self.known[self.keys.of(placeholder)] = value
        made = [self.value(each) for each in combiner.made]
        return [made[each.number] for each in self.op.body if isinstance(each, Reduce)]

    def fused_product(self, reduction: Reduce, before: Sequence[ir.Value]) -> ir.Value | None:
        """A step of a sum of products, which may be rounded once; None for another reduction."""
        [source, *more], [made, *_] = reduction.sources, reduction.combiner.made
        sums = isinstance(made, Operation) and made.name == "add" and reduction.combiner.name == "sum"
        product = isinstance(source, Operation) and source.name == "multiply" and source.dtype in FLOATS
        if more or not sums or not product or not isinstance(source, Operation):
            return None
        a, b = (self.value(each) for each in source.operands)
        return scalars.fma(a, b, before[0])

    def value(self, expr: Expr, guarded: bool = False) -> ir.Value:
        """The scalar of an expression. ``guarded``: a condition says whether it counts."""
        key = self.keys.of(expr)
        known = self.guarded if guarded and key not in self.known else self.known
        if key not in known:
            known[key] = self._value(expr, guarded)
        return known[key]

    def _value(self, expr: Expr, guarded: bool) -> ir.Value:
        kind = computed_type(expr.dtype)
        if isinstance(expr, Literal):
            return scalars.const(expr.value, kind)
        if isinstance(expr, IterVar | SizeVar):
            return scalars.from_index(self.index(expr), kind)
        if isinstance(expr, Read):
            return self.element(expr, guarded)
        assert isinstance(expr, Operation)
        if expr.name == "select":
            test = self.value(expr.operands[0], guarded)
            then, otherwise = (self.value(each, True) for each in expr.operands[1:])
            return scalars.select(test, then, otherwise)
        if (division := Division.of(expr)) is not None:
            return emit_division(expr.name, self.value(expr.operands[0], guarded), division)
        operands = [self.value(each, guarded) for each in expr.operands]
        source = expr.operands[0].dtype
        if expr.name == "cast":
            return cast_scalar(operands[0], source, expr.dtype)
        return EMIT[expr.name](operands, not source.startswith("u"))

    def element(self, read: Read, guarded: bool) -> ir.Value:
        """An element at a place that is held inside of the tensor."""
        tensor, places = read.tensor, []
        for index, extent in zip(read.indices, read.tensor.shape, strict=True):
            at = self.index(index, guarded)
            places.append(at if is_inside(index, extent) else positions.clamp_index(at, extent))
        return widen_element(builders.extract(self.values[tensor], places), tensor.dtype)

    def index(self, expr: Expr, guarded: bool = False) -> ir.Value:
        """An integer expression as an index."""
        if isinstance(expr, Literal):
            return builders.index_constant(int(expr.value))
        if isinstance(expr, SizeVar):
            return extents.index(expr.extent)
        if isinstance(expr, IterVar):
            at = builders.linalg_index(self.loop_of(expr))
            return arith.addi(at, builders.index_constant(expr.dom.min)) if expr.dom.min else at
        if isinstance(expr, Operation) and expr.name in INDEX_ARITHMETIC and expr.dtype == INDEX:
            if (division := Division.of(expr)) is not None:
                return emit_division(expr.name, self.index(expr.operands[0], guarded), division)
            return EMIT[expr.name]([self.index(each, guarded) for each in expr.operands], True)
        return scalars.to_index(self.value(expr, guarded), not expr.dtype.startswith("u"))


def pair_indices(read: Read) -> Iterator[tuple[Expr, Extent]]:
    """Each index of a read and the extent of the axis."""
    return zip(read.indices, read.tensor.shape, strict=True)


def copy_results(values: Sequence[ir.Value], op: ComputeOp) -> list[ir.Value]:
    """The results of an op as it stores them: sums are rounded."""
    kinds = [element_type(dtype) for dtype in op.dtypes]
    if all(builders.element_of(value) == kind for value, kind in zip(values, kinds, strict=True)):
        return list(values)
    return store_results(values, op)


def store_results(values: Sequence[ir.Value], op: ComputeOp) -> list[ir.Value]:
    """Copies of tensors as an op stores them, by one op."""
    outs = [builders.empty(op.shape, element_type(dtype)) for dtype in op.dtypes]
    maps = [list(range(len(op.shape)))] * (2 * len(outs))
    return builders.generic(values, outs, maps, "p" * len(op.shape), lambda *given: list(given[: len(outs)]))
