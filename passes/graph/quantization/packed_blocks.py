"""The packed form of a block-quantized weight, and how kernels read it."""

from __future__ import annotations

from collections.abc import Callable, Set

from ....dialects import arith, builders, ir, scalars
from ...analysis.scales import Scale
from ...ir.edit import splat_of
from .block_quantized import Blocked, Parameter
from .quantized import apply_steps, read_quantized


def unpack_codes(weight: Blocked) -> ir.Value:
    """The numbers as (block, byte of the block, column), signed; byte i has number i of each part of the block.

    The parts are as many as a byte has numbers, the first one's in the lowest bits.
    """
    each, byte = 8 // weight.bits, ir.IntegerType.get_signless(8)
    length = weight.steps // each
    loops = {weight.block: 0, weight.step: 1, weight.column: 2}
    shape: list[int] = []
    for d, extent in enumerate(weight.extents):
        shape += [each, length] if d == weight.step else [extent]
    source = builders.reshape(weight.numbers.source, shape)
    maps = []
    for part in range(each):
        read: list[ir.AffineExpr] = []
        for d in range(len(weight.extents)):
            read += [ir.AffineExpr.get_constant(part)] if d == weight.step else []
            read.append(ir.AffineExpr.get_dim(loops[d]))
        maps.append(ir.AffineMap.get(3, 0, read))

    def body(*numbers: ir.Value) -> ir.Value:
        made = None
        for part, number in enumerate(numbers[:each]):
            signed = scalars.sub(number, scalars.like(number, weight.middle)) if weight.middle else number
            low = arith.andi(signed, scalars.like(signed, (1 << weight.bits) - 1)) if each > 1 else signed
            moved = arith.shli(low, scalars.like(low, part * weight.bits)) if part else low
            made = moved if made is None else arith.ori(made, moved)
        assert made is not None
        return made

    out = builders.empty([weight.blocks, length, weight.columns], byte)
    return builders.generic([source] * each, [out], [*maps, range(3)], "ppp", body)[0]


def unpack(byte: ir.Value, part: int, bits: int) -> ir.Value:
    """The signed number of a part of the block in a byte of `codes`, in 32 bits."""
    whole = arith.extsi(ir.IntegerType.get_signless(32), byte)
    above, below = 8 - (part + 1) * bits, part * bits
    if above:  # bits of later parts: up to the end, and back
        whole, below = arith.shli(whole, scalars.like(whole, 24 + above)), 24 + above + below
    return arith.shrsi(whole, scalars.like(whole, below)) if below else whole


def scale(weight: Blocked, factor: float) -> ir.Value:
    """The scales times a factor as (block, column)."""

    def body(number: ir.Value) -> ir.Value:
        return number if factor == 1 else scalars.mul(number, scalars.like(number, factor))

    return _spread_blocks(weight, weight.scale, body, ir.F32Type.get())


def emit_zero_points(weight: Blocked) -> ir.Value | float | None:
    """The zero points of the numbers of `codes`: one for all, or (block, column) as bytes or floats; None for 0."""
    if not isinstance(weight.zero, Parameter):
        return (weight.zero or 0) - weight.middle or None
    kind, byte = builders.element_of(weight.zero.value), ir.IntegerType.get_signless(8)

    def body(number: ir.Value) -> ir.Value:
        if kind != byte and isinstance(kind, ir.IntegerType):
            number = arith.trunci(byte, number)
        return scalars.sub(number, scalars.like(number, weight.middle)) if weight.middle else number

    return _spread_blocks(weight, weight.zero, body, byte if isinstance(kind, ir.IntegerType) else kind)


def _spread_blocks(
    weight: Blocked, parameter: Parameter, body: Callable[[ir.Value], ir.Value], elem: ir.Type
) -> ir.Value:
    """A parameter's numbers, or what becomes of them, as (block, column)."""
    loops = {weight.block: 0, weight.column: 1}
    places = [None if loop is None else loops[loop] for loop in parameter.loops]
    out = builders.empty([weight.blocks, weight.columns], elem)
    return builders.generic([parameter.value], [out], [places, range(2)], "pp", lambda a, _: body(a))[0]


def as_float(number: ir.Value) -> ir.Value:
    """An integer as a float; a float as it is."""
    return number if scalars.is_float(number) else arith.sitofp(ir.F32Type.get(), number)


def whole_numbers(value: ir.Value, weights: Set[ir.Value]) -> tuple[ir.Value, float]:
    """A tensor of floats that is dequantised by one known scale without that, and the scale; any other one and 1.

    Sums of products of whole numbers below 2^24 are exact in floats.
    """
    data = read_quantized(value, weights)
    factor = splat_of(data.scale.factor) if data is not None and data.scale is not None else None
    if data is None or factor is None or isinstance(data.zero, Scale):
        return value, 1.0
    wide, point = ir.IntegerType.get_signless(32), data.zero
    inputs = [data.source] if isinstance(point, int) else [data.source, builders.reshape(point, ())]

    def body(byte: ir.Value, *zero: ir.Value) -> ir.Value:
        number = (arith.extsi if data.signed else arith.extui)(wide, byte)
        less = scalars.like(number, point) if isinstance(point, int) else _extend_integer(zero[0], wide)
        return as_float(scalars.sub(number, less))

    numbers = builders.elementwise(body, *inputs, shape=builders.shape_of(data.source), elem=ir.F32Type.get())
    return apply_steps(data.steps, numbers, 0), factor


def _extend_integer(number: ir.Value, wide: ir.Type) -> ir.Value:
    return number if number.type == wide else arith.extsi(wide, number)
