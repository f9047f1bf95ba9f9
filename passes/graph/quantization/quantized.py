"""Reading a tensor of quantised numbers: the integers behind it, their zero point and scale, and what moved them."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from ....dialects import arith, builders, ir, scalars
from ....dialects.walk import defining_op
from ...analysis.scales import Scale, Search, is_map, through_view
from ...ir.dynamic_sizes import note_sizes
from ...ir.edit import clone, splat_of
from ...ir.maps import permutation_of
from ...ir.routine_ops import VIEWS
from ...ir.structure import dim_of, indexing_maps, is_static, num_inputs, shape_of, terminator_of

# What an unsigned byte is more than the signed one that differs from it in the sign's bit.
SIGN = 128


@dataclass(frozen=True)
class Quantized:
    """``scale * (integer - zero)`` of each byte of ``source``, moved by ``steps``.

    source: a tensor of bytes, ``signed`` or not.
    zero: the zero point: a number, a tensor of one element, or, of a weight, one for each of some dims.
    scale: over the dims of the value that was read, as that ``zero`` is; None stands for 1.
    steps: views, transposes and paddings between the source and the value, the last one first. Paddings hold the zero
        point.
    """

    source: ir.Value
    signed: bool
    zero: int | ir.Value | Scale = 0
    scale: Scale | None = None
    steps: tuple[ir.Operation, ...] = ()


def read_quantized(value: ir.Value, weights: Set[ir.Value]) -> Quantized | None:
    """Read a tensor whose elements are bytes minus a zero point, scaled or not; None for all others."""
    steps: list[ir.Operation] = []
    found = _Arithmetic(weights)
    while (op := defining_op(value)) is not None:
        if op.name in VIEWS or permutation_of(op) is not None or _pads_zero(op):
            steps.append(op)
        elif op.name != "linalg.generic" or (number := found.read(op, steps)) is None:
            return None
        else:
            value = op.operands[number]
            if found.signed is not None:
                made = Quantized(
                    value, found.signed, 0 if found.zero is None else found.zero, found.scale, tuple(steps)
                )
                return made if str(builders.element_of(value)) == "i8" else None
            continue
        value = op.operands[0]
    return None


def apply_steps(steps: Sequence[ir.Operation], source: ir.Value, zero: int | ir.Value) -> ir.Value:
    """``source`` as views, transposes and paddings (the last one first) move it; paddings hold ``zero``."""
    for step in reversed(steps):
        if is_padding(step):
            source = _pad_source(step, source, zero)
        elif step.name in VIEWS:
            copy = clone(step, {step.operands[0]: source})
            copy.results[0].set_type(builders.ranked_type(shape_of(step.results[0]), builders.element_of(source)))
            source = copy.results[0]
        else:
            order = permutation_of(step)
            assert order is not None  # what `read` has seen
            source = builders.transpose(source, order)
    return source


def is_padding(step: ir.Operation) -> bool:
    """Return whether a step adds elements."""
    return step.name in ("tensor.pad", "tensor.insert_slice")


def _pad_source(step: ir.Operation, source: ir.Value, number: int | ir.Value) -> ir.Value:
    """A source padded as a step pads, with another number, or the element of a tensor."""
    element = builders.element_of(source)
    if isinstance(number, int):
        value = builders.scalar(number, element)
    else:
        value = _resize(builders.extract(builders.reshape(number, ()), []), ir.IntegerType(element))
    if step.name == "tensor.pad":
        low, high = (list(ir.DenseI64ArrayAttr(step.attributes[f"static_{side}"])) for side in ("low", "high"))
        return builders.pad(source, low, high, value)
    copy = clone(step, {step.operands[0]: source, step.operands[1]: builders.full(note_sizes(step.results[0]), value)})
    copy.results[0].set_type(copy.operands[1].type)
    return copy.results[0]


def make_unsigned(data: Quantized) -> Quantized:
    """The same with unsigned bytes, which are made where the signed ones are; what else reads those reads them too."""
    if not data.signed:
        return data
    source = data.source
    op, readers = defining_op(source), [(use.owner.operation, use.operand_number) for use in source.uses]
    at = ir.InsertionPoint.after(op) if op is not None else ir.InsertionPoint.at_block_begin(source.owner)
    with at, op.location if op is not None else ir.Location.unknown():
        made = flip_signs(source)
    for reader, number in readers:
        if reader.name == "linalg.generic" and is_map(reader) and number < num_inputs(reader):
            _read_flipped(reader, number, made)
    if isinstance(data.zero, int):
        return replace(data, source=made, signed=False, zero=data.zero + SIGN)
    assert isinstance(data.zero, ir.Value)  # what data have
    zero = builders.elementwise(
        lambda z: scalars.add(z, scalars.like(z, SIGN)), data.zero, elem=builders.element_of(data.zero)
    )
    return replace(data, source=made, signed=False, zero=zero)


def subtract_zero_point(data: Quantized) -> ir.Value:
    """``integer - zero`` of each byte, moved as the bytes are: the bytes themselves, or 16 bits wide."""
    if data.signed and data.zero == 0:
        return apply_steps(data.steps, data.source, 0)
    if not isinstance(data.zero, Scale):
        return apply_steps(data.steps, _less(data.source, data), 0)
    return _less(apply_steps(data.steps, data.source, 0), data)  # a weight, which nothing pads


def _less(source: ir.Value, data: Quantized) -> ir.Value:
    """Bytes less a zero point, in 16 bits."""
    wide, zero, shape = ir.IntegerType.get_signless(16), data.zero, builders.shape_of(source)
    tensors: list[tuple[ir.Value, Sequence[int | None]]] = []
    if isinstance(zero, Scale):
        tensors = [(builders.reshape(zero.factor, zero.shape), zero.places)]
    elif isinstance(zero, ir.Value):
        tensors = [(builders.reshape(zero, ()), ())]

    def body(byte: ir.Value, *rest: ir.Value) -> ir.Value:
        number = (arith.extsi if data.signed else arith.extui)(wide, byte)
        return scalars.sub(number, scalars.like(number, zero) if isinstance(zero, int) else _resize(rest[0], wide))

    maps = [range(len(shape)), *(places for _, places in tensors), range(len(shape))]
    operands = [source, *(tensor for tensor, _ in tensors)]
    return builders.generic(operands, [builders.empty(shape, wide)], maps, "p" * len(shape), body)[0]


def _resize(number: ir.Value, wide: ir.IntegerType) -> ir.Value:
    """A zero point, which fits them, in so many bits."""
    width = ir.IntegerType(number.type).width
    if width == wide.width:
        return number
    return (arith.trunci if width > wide.width else arith.extsi)(wide, number)


def flip_signs(source: ir.Value) -> ir.Value:
    """Bytes with their sign's bit flipped: those of signed numbers become those of numbers greater by 128."""
    return builders.elementwise(_flip, source, elem=builders.element_of(source))


def _flip(byte: ir.Value) -> ir.Value:
    return arith.xori(byte, scalars.like(byte, -SIGN))


def _read_flipped(op: ir.Operation, number: int, made: ir.Value) -> None:
    """Let an op read the flipped bytes, and flip them in its body."""
    block = op.regions[0].blocks[0]
    argument = block.arguments[number]
    with ir.InsertionPoint.at_block_begin(block), op.location:
        back = _flip(argument)
    argument.replace_all_uses_except(back, back.owner.operation)
    op.operands[number] = made


class _Arithmetic:
    """Arithmetic of bodies on bytes, from the last op back: scale, convert to float, subtract a zero point, widen."""

    def __init__(self, weights: Set[ir.Value]) -> None:
        self.search = Search(weights)
        self.scale: Scale | None = None
        self.zero: int | ir.Value | Scale | None = None  # None: none so far
        self.signed: bool | None = None

    def read(self, op: ir.Operation, steps: Sequence[ir.Operation]) -> int | None:
        """Take in the body of an elementwise op; returns the operand that it is about, None for any other op."""
        arguments, value = list(op.regions[0].blocks[0].arguments), terminator_of(op).operands[0]
        while value not in arguments:
            inner = defining_op(value)
            index = self._take(op, inner, steps) if inner is not None and inner.block == arguments[0].owner else None
            if inner is None or index is None:
                return None
            value = inner.operands[index]
        number, maps = arguments.index(value), indexing_maps(op)
        plain = number < num_inputs(op) and is_map(op) and maps[number] == maps[-1]
        return number if plain else None

    def _take(self, op: ir.Operation, inner: ir.Operation, steps: Sequence[ir.Operation]) -> int | None:
        """Take in one op of a body; returns the operand that goes on towards the bytes."""
        if inner.name == "arith.mulf" and self.scale is None:
            known = next(
                ((i, f) for i in (1, 0) if (f := self.search.read_factor(op, inner.operands[i])) is not None), None
            )
            factor = known[1] if known is not None else None
            at_value = _move_scale(Scale(factor, (), ()) if isinstance(factor, ir.Value) else factor, op, steps)
            if known is None or at_value is None:
                return None
            self.scale = at_value
            return 1 - known[0]
        if inner.name == "arith.sitofp":
            return 0
        if inner.name == "arith.subi" and self.zero is None:
            number = _whole_number(op, inner.operands[1])
            self.zero = number if number is not None else self._numbers(op, inner.operands[1], steps)
            return None if self.zero is None else 0
        if inner.name in ("arith.extsi", "arith.extui") and self.signed is None:
            self.signed = inner.name == "arith.extsi"
            return 0
        if inner.name == "arith.xori" and self.signed and splat_of(inner.operands[1]) == -SIGN:
            if not isinstance(self.zero, int | None):
                return None
            self.signed, self.zero = False, (self.zero or 0) + SIGN
            return 0
        return None

    def _numbers(self, op: ir.Operation, value: ir.Value, steps: Sequence[ir.Operation]) -> Scale | None:
        """A scalar in a body that is one of a weight's, as one over the dims of the value that is read."""
        known = self.search.read_factor(op, value)
        return _move_scale(known, op, steps) if isinstance(known, Scale) else None


def _move_scale(scale: Scale | None, op: ir.Operation, steps: Sequence[ir.Operation]) -> Scale | None:
    """A scale over the loops of an op as one over the dims of what steps (the last one first) make of its result."""
    out = [dim_of(e) for e in indexing_maps(op)[-1].results]
    scale = scale.remap(lambda loop: out.index(loop) if loop in out else None) if scale is not None else None
    for step in reversed(steps):
        if scale is None:
            return None
        if step.name in VIEWS:
            scale = through_view(step, scale, to_result=True)
        elif (order := permutation_of(step)) is not None:
            scale = replace(scale, places=tuple(None if p is None else order.index(p) for p in scale.places))
        elif not scale.is_scalar:
            return None  # a padding of weights, which no frontend makes
    return scale


def _whole_number(op: ir.Operation, value: ir.Value) -> int | ir.Value | None:
    """A scalar in a body that is one number for all elements: the number, or the tensor of one element with it."""
    number, arguments = splat_of(value), list(op.regions[0].blocks[0].arguments)
    if isinstance(number, int):
        return number
    if value not in arguments or arguments.index(value) >= num_inputs(op):
        return None
    tensor = op.operands[arguments.index(value)]
    return tensor if is_static(tensor) and all(n == 1 for n in shape_of(tensor)) else None


def _pads_zero(op: ir.Operation) -> bool:
    """Return whether an op pads with a constant zero, by amounts that are known, or inserts into zeros."""
    if op.name == "tensor.insert_slice":
        return splat_of(op.operands[1]) == 0 and len(shape_of(op.operands[0])) == len(shape_of(op.results[0]))
    if op.name != "tensor.pad" or len(op.operands) != 1:
        return False
    return splat_of(terminator_of(op).operands[0]) == 0
