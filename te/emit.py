"""Tensor expressions as IR: ``@main`` of structured ops, which the passes see as they see a network's.

A read at an index that moves with the tile is an operand of ``linalg.generic``; any other one is a ``tensor.extract``
at an index that is held inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..core.errors import ExpressionError
from ..core.model import Model, TensorInfo
from ..core.sizes import Extent, Sym, symbols_of
from ..dialects import arith, builders, extents, func, ir, math, positions, scalars, tw
from ..dialects.context import diagnostics, make_context
from ..dialects.types import element_type
from ..dialects.walk import integer_of
from .arguments import split_args
from .attachment import is_sliced, root_of, tile_shape
from .computation import Computation
from .expr import (
    FLOATS,
    Expr,
    IterVar,
    Literal,
    Operation,
    Read,
    Reduce,
    SizeVar,
    cast,
    children_of,
    exchange_parts,
    walk,
)
from .regions import as_linear, each_read, is_inside
from .schedule import Schedule
from .script import INIT, STORE, make_script
from .stage import Stage
from .tensor import ComputeOp, PlaceholderOp, Tensor


def emit_model(schedule: Schedule, args: Sequence[Tensor], name: str) -> Model:
    """The model whose inputs and outputs are ``args``: placeholders, then what the schedule computes."""
    inputs, outputs = split_args(schedule, args)
    context = make_context()
    with context, ir.Location.unknown(), extents.scope(), diagnostics(f"the lowering of '{name}'"):
        module = ir.Module.create()
        kinds = [builders.ranked_type(t.shape, element_type(t.dtype)) for t in inputs]
        results = [builders.ranked_type(t.shape, element_type(t.dtype)) for t in outputs]
        with ir.InsertionPoint(module.body):
            main = func.FuncOp("main", (kinds, results))
        main.arg_attrs = [ir.DictAttr.get({tw.NAME: ir.StringAttr.get(t.op.name)}) for t in inputs]
        block = main.add_entry_block()
        with ir.InsertionPoint(block):
            given = {t: extents.note(v, t.shape) for t, v in zip(inputs, block.arguments, strict=True)}
            _bind_sizes(given)
            values = _Emitter(schedule, given).run()
            func.ReturnOp([values[schedule[t].stage.op.output(t.value_index)] for t in outputs])
        module.operation.verify()
    taken, given = (tuple(TensorInfo(t.name, t.shape, t.dtype) for t in side) for side in (inputs, outputs))
    return Model(module, taken, given, {}, name, scheduled=True)


def emit_operator(computation: Computation, given: Sequence[ir.Value]) -> list[ir.Value]:
    """The ops of a computation on tensors, at the insertion point, as passes fuse and schedule them; its results.

    Symbols of the shapes are bound already.
    """
    schedule, count = computation.schedule, len(given)
    inputs, outputs = computation.args[:count], computation.args[count:]
    values = _Emitter(schedule, dict(zip(inputs, given, strict=True)), grouped=False).run()
    return [values[schedule[t].stage.op.output(t.value_index)] for t in outputs]


def _bind_sizes(given: Mapping[Tensor, ir.Value]) -> None:
    """Let the symbols of the inputs' shapes stand for their extents."""
    bound: set[str] = set()
    for tensor, value in given.items():
        for axis, extent in enumerate(tensor.shape):
            if isinstance(extent, Sym) and extent.is_symbol and str(extent) not in bound:
                extents.bind(str(extent), extents.dim(value, axis))
                bound.add(str(extent))
    for tensor in given:
        for extent in tensor.shape:
            for symbol in symbols_of(extent) - bound:
                raise ExpressionError(f"no input has '{symbol}' as an extent, which '{tensor.name}' computes with")


class _Emitter:
    """The ops of a schedule's stages."""

    def __init__(self, schedule: Schedule, given: Mapping[Tensor, ir.Value], grouped: bool = True) -> None:
        self.schedule, self.values, self.grouped = schedule, dict(given), grouped
        roots = [s for s in schedule.stages if not s.inline and s.at is None and isinstance(s.op, ComputeOp)]
        self.groups = {stage: number for number, stage in enumerate(roots)}

    def run(self) -> dict[Tensor, ir.Value]:
        """What each tensor is."""
        for stage in self.schedule.stages:
            if not stage.inline and isinstance(stage.op, ComputeOp):
                with ir.Location.name(stage.name):
                    self.emit(stage, stage.op)
        return self.values

    def emit(self, stage: Stage, op: ComputeOp) -> None:
        """The structured op of one stage."""
        whole = op.shape
        self.check_reads(stage, op)
        if stage.joined:
            op = self.join(stage, op)
        made = _Body(self.schedule, stage, op, self.values).emit()
        ops = [made[0].owner.operation]
        ops[0].attributes[tw.STAGE] = ir.StringAttr.get(stage.name)
        if stage.reduces:
            ops += [value.owner.operation for value in list(ops[0].operands)[-len(made) :]]
        if stage.reduces and stage.at is None and not stage.automatic:
            made = _copy(made, op.shape)
            ops.append(made[0].owner.operation)
            ops[-1].attributes[tw.STAGE] = ir.StringAttr.get(stage.name + STORE)
        if self.grouped:
            self.mark(stage, ops, len(made))
        for number, value in enumerate(made):
            self.values[stage.op.output(number)] = builders.reshape(value, whole) if stage.joined else value

    def mark(self, stage: Stage, ops: Sequence[ir.Operation], results: int) -> None:
        """Let ops, what an op begins with and the copy of its results included, be a kernel with what is computed in
        them, and note its schedule."""
        for each in ops:
            each.attributes[tw.GROUP] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), self.groups[root_of(stage)])
        if not stage.joined and (shape := tile_shape(self.schedule, stage)) is not None:
            for each in ops[: 1 + results * stage.reduces]:
                each.attributes[tw.TILE_SHAPE] = ir.DenseI64ArrayAttr.get(shape)
        if stage.at is None and not stage.automatic:
            ops[-1].attributes[tw.SCRIPT] = ir.StringAttr.get(make_script(self.schedule, stage))

    def check_reads(self, stage: Stage, op: ComputeOp) -> None:
        """Have a run refused in which data leads outside of a tensor, where no condition says if that counts."""
        sources = [s for each in op.body for s in (each.sources if isinstance(each, Reduce) else (each,))]
        seen: set[Key] = set()
        for read, guarded in (found for source in sources for found in each_read(source)):
            for number, (index, extent) in enumerate(_pair_indices(read)):
                key = (read.tensor, number, _key_of(index))
                if guarded or key in seen or as_linear(index) is not None or is_inside(index, extent):
                    continue
                seen.add(key)
                used = {part for part in walk(index) if isinstance(part, IterVar)}
                axes = tuple(axis for axis in (*op.axis, *op.reduce_axis) if axis in used)
                places = ComputeOp(
                    op.name, tuple(a.dom.extent for a in axes), ("int64",), axes, (cast("int64", index),)
                )
                [values] = _Body(self.schedule, stage, places, self.values).emit()
                positions.report_outside(
                    values, 0, extent, f"reads axis {number} of '{read.tensor.name}' outside of its {extent} elements"
                )

    def join(self, stage: Stage, op: ComputeOp) -> ComputeOp:
        """The op with the axes that were joined as one, of tensors that are seen so, too."""
        shape = tuple(axis.dom.extent for axis in stage.loop_axes if not axis.reduces)
        read = {key: self.join_read(stage, each) for key, each in ((id(r), r) for r in op.reads)}
        body = tuple(exchange_parts(each, lambda e: read.get(id(e))) for each in op.body)
        return ComputeOp(op.name, shape, op.dtypes, tuple(stage.loop_axes), body)

    def join_read(self, stage: Stage, read: Read) -> Read:
        """An element of a tensor whose axes are joined as those of the op that reads it."""
        indices, shape = list(read.indices), list(read.tensor.shape)
        for var, axes in stage.joined.items():
            begin = next((number for number, index in enumerate(indices) if index is axes[0]), None)
            if begin is not None:
                indices[begin : begin + len(axes)] = [var]
                shape[begin : begin + len(axes)] = [var.dom.extent]
        made = PlaceholderOp(read.tensor.name, tuple(shape), (read.dtype,)).output(0)
        self.values[made] = builders.reshape(self.values[read.tensor], shape)
        return Read(made, tuple(indices))


def _copy(values: Sequence[ir.Value], shape: Sequence[Extent]) -> list[ir.Value]:
    """Copies of tensors of one shape, by one op."""
    outs = [builders.empty(shape, builders.element_of(value)) for value in values]
    maps = [list(range(len(shape)))] * (2 * len(outs))
    return builders.generic(values, outs, maps, "p" * len(shape), lambda *given: list(given[: len(outs)]))


Key = tuple[Any, ...]


def _key_of(expr: Expr) -> Key:
    """What is equal for equal expressions."""
    if isinstance(expr, Literal):
        return ("number", expr.value, expr.dtype)
    own: tuple[Any, ...] = (type(expr).__name__, getattr(expr, "name", ""), expr.dtype)
    if isinstance(expr, IterVar | SizeVar):
        return (*own, id(expr) if isinstance(expr, IterVar) else expr.extent)
    if isinstance(expr, Read):
        own = ("Read", expr.tensor)
    return (*own, *map(_key_of, children_of(expr)))


class _Body:
    """The structured op of a computation, and the scalars in it."""

    def __init__(self, schedule: Schedule, stage: Stage, op: ComputeOp, values: Mapping[Tensor, ir.Value]) -> None:
        self.schedule, self.stage, self.op, self.values = schedule, stage, op, values
        self.axes = [*op.axis, *op.reduce_axis]
        first = op.body[0]
        self.sources = first.sources if isinstance(first, Reduce) else op.body
        self.reads: dict[Key, Read] = {}
        for source in self.sources:
            for read, _ in each_read(source):
                if self.is_operand(read):
                    self.reads.setdefault(_key_of(read), read)
        self.known: dict[Key, ir.Value] = {}

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
        operands = [self.values[read.tensor] for read in self.reads.values()]
        shifted = any(self.is_part(index, n) for r in self.reads.values() for index, n in _pair_indices(r))
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

    def is_part(self, index: Expr, extent: Extent) -> bool:
        """Return whether an axis alone goes over a part of a tensor's, which ``linalg`` takes for all of it."""
        return isinstance(index, IterVar) and not index.dom.min and index.dom.extent != extent

    def indices(self, read: Read) -> Iterator[ir.AffineExpr]:
        """Where an operand is read. A loop of one step is added to an axis that goes over a part of the operand's."""
        for index, extent in _pair_indices(read):
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
            key: _widen(value, read.dtype) for (key, read), value in zip(self.reads.items(), given, strict=False)
        }
        first = self.op.body[0]
        if not isinstance(first, Reduce):
            return [self.value(each) for each in self.op.body]
        before = [_widen(v, dtype) for v, dtype in zip(given[-results:], self.op.dtypes, strict=True)]
        if (product := self.fused_product(first, before)) is not None:
            return [product]
        sources = [self.value(each) for each in first.sources]
        combiner = first.combiner
        for placeholder, value in zip((*combiner.left, *combiner.right), (*before, *sources), strict=True):
            self.known[_key_of(placeholder)] = value
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
        key = _key_of(expr)
        if key in self.known:
            return self.known[key]
        made = self._value(expr, guarded)
        if not guarded:
            self.known[key] = made
        return made

    def _value(self, expr: Expr, guarded: bool) -> ir.Value:
        kind = _computed_type(expr.dtype)
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
        operands = [self.value(each, guarded) for each in expr.operands]
        source = expr.operands[0].dtype
        if expr.name == "cast":
            return _cast_scalar(operands[0], source, expr.dtype)
        return EMIT[expr.name](operands, not source.startswith("u"))

    def element(self, read: Read, guarded: bool) -> ir.Value:
        """An element at a place that is held inside of the tensor."""
        tensor, places = read.tensor, []
        for index, extent in zip(read.indices, read.tensor.shape, strict=True):
            at = self.index(index, guarded)
            places.append(at if is_inside(index, extent) else positions.clamp_index(at, extent))
        return _widen(builders.extract(self.values[tensor], places), tensor.dtype)

    def index(self, expr: Expr, guarded: bool = False) -> ir.Value:
        """An integer expression as an index."""
        if isinstance(expr, Literal):
            return builders.index_constant(int(expr.value))
        if isinstance(expr, SizeVar):
            return extents.index(expr.extent)
        if isinstance(expr, IterVar):
            at = builders.linalg_index(self.loop_of(expr))
            return arith.addi(at, builders.index_constant(expr.dom.min)) if expr.dom.min else at
        if isinstance(expr, Operation) and expr.name in _OF_INDICES and expr.dtype == "int32":
            return EMIT[expr.name]([self.index(each, guarded) for each in expr.operands], True)
        return scalars.to_index(self.value(expr, guarded), not expr.dtype.startswith("u"))


_OF_INDICES = ("add", "subtract", "multiply", "negative", "floor_divide", "mod", "maximum", "minimum")


def _pair_indices(read: Read) -> Iterator[tuple[Expr, Extent]]:
    """Each index of a read and the extent of the axis."""
    return zip(read.indices, read.tensor.shape, strict=True)


def _computed_type(dtype: str) -> ir.Type:
    """The type of a scalar in a body."""
    return ir.IntegerType.get_signless(1) if dtype == "bool" else scalars.compute_type(element_type(dtype))


def _widen(value: ir.Value, dtype: str) -> ir.Value:
    """A stored scalar as bodies compute with it."""
    return scalars.truth(value) if dtype == "bool" else scalars.widen(value)


def _cast_scalar(value: ir.Value, source: str, target: str) -> ir.Value:
    """A scalar as another dtype; floats become integers toward zero."""
    kind, signed = _computed_type(target), not source.startswith("u") and source != "bool"
    if target == "bool":
        return scalars.truth(value)
    if source in FLOATS and target in FLOATS:
        made = value
        if value.type != kind:
            made = (arith.truncf if scalars.width(kind) < scalars.width(value) else arith.extf)(kind, value)
        if target in ("float16", "bfloat16"):
            stored = element_type(target)
            return scalars.widen(scalars.narrow(made, stored))
        return made
    if source in FLOATS:
        return (arith.fptoui if target.startswith("u") else arith.fptosi)(kind, value)
    if target in FLOATS:
        made = (arith.sitofp if signed else arith.uitofp)(kind, value)
        return scalars.widen(scalars.narrow(made, element_type(target)))
    if scalars.width(kind) == scalars.width(value):
        return value
    wider = scalars.width(kind) > scalars.width(value)
    return (arith.trunci if not wider else arith.extsi if signed else arith.extui)(kind, value)


def _floor_divide(operands: Sequence[ir.Value], signed: bool) -> ir.Value:
    a, b = operands
    if scalars.is_float(a):
        return math.floor(arith.divf(a, b))
    if not signed:
        return scalars.div(a, b, False)
    quotient = scalars.div(a, b) if not _is_positive(b) else arith.divsi(a, b)
    rest = scalars.sub(a, scalars.mul(quotient, b))
    zero = scalars.like(a, 0)
    below = arith.xori(scalars.compare("lt", rest, zero), scalars.compare("lt", b, zero))
    lower = scalars.both(scalars.both(scalars.compare("ne", rest, zero), below), scalars.compare("ne", b, zero))
    return scalars.select(lower, scalars.sub(quotient, scalars.like(a, 1)), quotient)


def _mod(operands: Sequence[ir.Value], signed: bool) -> ir.Value:
    a, b = operands
    if scalars.is_float(a):
        return arith.subf(a, arith.mulf(math.floor(arith.divf(a, b)), b))
    if not signed:
        return scalars.rem(a, b, False)
    zero = scalars.like(a, 0)
    rest = scalars.rem(a, b)
    other = scalars.both(
        scalars.compare("ne", rest, zero),
        arith.xori(scalars.compare("lt", rest, zero), scalars.compare("lt", b, zero)),
    )
    return scalars.select(other, scalars.add(rest, b), rest)


def _is_positive(value: ir.Value) -> bool:
    return (integer_of(value) or 0) > 0


def _math(name: str) -> Callable[[Sequence[ir.Value], bool], ir.Value]:
    return lambda operands, signed: getattr(math, name)(operands[0])


def _compare(how: Any) -> Callable[[Sequence[ir.Value], bool], ir.Value]:
    return lambda operands, signed: scalars.compare(how, *operands, signed=signed and scalars.width(operands[0]) > 1)


_SAME_NAMES = ("exp", "exp2", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos")
_SAME_NAMES += ("atan", "sinh", "cosh", "tanh", "erf", "floor", "ceil", "trunc", "round")

EMIT: dict[str, Callable[[Sequence[ir.Value], bool], ir.Value]] = {
    "add": lambda v, signed: scalars.add(*v),
    "subtract": lambda v, signed: scalars.sub(*v),
    "multiply": lambda v, signed: scalars.mul(*v),
    "divide": lambda v, signed: arith.divf(*v),
    "floor_divide": _floor_divide,
    "mod": _mod,
    "power": lambda v, signed: math.powf(*v),
    "maximum": lambda v, signed: scalars.maximum(*v, signed=signed),
    "minimum": lambda v, signed: scalars.minimum(*v, signed=signed),
    "negative": lambda v, signed: scalars.neg(*v),
    "absolute": lambda v, signed: scalars.absolute(*v) if signed else v[0],
    **{name: _math(name) for name in _SAME_NAMES},
    "nearbyint": _math("roundeven"),
    "isnan": lambda v, signed: scalars.compare("ne", v[0], v[0]),
    "bitwise_and": lambda v, signed: arith.andi(*v),
    "bitwise_or": lambda v, signed: arith.ori(*v),
    "bitwise_xor": lambda v, signed: arith.xori(*v),
    "invert": lambda v, signed: scalars.invert(*v),
    "left_shift": lambda v, signed: arith.shli(*v),
    "right_shift": lambda v, signed: (arith.shrsi if signed else arith.shrui)(*v),
    "equal": _compare("eq"),
    "not_equal": _compare("ne"),
    "less": _compare("lt"),
    "less_equal": _compare("le"),
    "greater": _compare("gt"),
    "greater_equal": _compare("ge"),
    "logical_and": lambda v, signed: arith.andi(*v),
    "logical_or": lambda v, signed: arith.ori(*v),
    "logical_not": lambda v, signed: scalars.invert(*v),
}
