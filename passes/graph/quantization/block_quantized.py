"""Reading a weight that is quantised in blocks: narrow integers, zero points and scales."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from ....dialects import builders, ir
from ....dialects.walk import defining_op
from ...analysis.scales import is_map
from ...ir.edit import splat_of
from ...ir.maps import permutation_of, reassociation_of
from ...ir.routine_ops import VIEWS
from ...ir.structure import dim_of, indexing_maps, is_static, is_zero, num_inputs, shape_of, terminator_of

_BITS = (2, 4, 8)


@dataclass(frozen=True)
class Codes:
    """Integers of ``bits`` bits in the lowest ones of each byte of ``source``, whose other bits may be anything."""

    source: ir.Value
    bits: int
    signed: bool


@dataclass(frozen=True)
class Parameter:
    """An operand of an elementwise op and what is read of it: the loops of its dims, None for an extent of 1.

    signed: of integers, whether they are.
    """

    value: ir.Value
    loops: tuple[int | None, ...]
    signed: bool = True


@dataclass(frozen=True)
class Blocked:
    """``(number - zero) * scale``, of which each block of steps has one zero point and scale for each column.

    block, step, column: the loops of the op that makes the floats; ``extents`` are theirs.
    zero: a number for all, or a tensor; None stands for 0.
    """

    numbers: Codes
    scale: Parameter
    zero: Parameter | float | None
    extents: tuple[int, ...]
    block: int
    step: int
    column: int

    @property
    def bits(self) -> int:
        """The width of a number."""
        return self.numbers.bits

    @property
    def blocks(self) -> int:
        """How many blocks a column has."""
        return self.extents[self.block]

    @property
    def steps(self) -> int:
        """How many numbers a block has."""
        return self.extents[self.step]

    @property
    def columns(self) -> int:
        """How many columns there are."""
        return self.extents[self.column]

    @property
    def middle(self) -> int:
        """The number subtracted from unsigned numbers and their zero points to make them signed."""
        return 0 if self.numbers.signed else 1 << (self.bits - 1)


def read_blocked(value: ir.Value, summed: int, weights: Set[ir.Value]) -> Blocked | None:
    """A matrix that is dequantised by blocks along its dim ``summed``; None for any other.

    Several numbers of a block share a byte evenly.
    """
    dims = [[0], [1]]  # those of what is looked at that each dim of the matrix is made of
    while (op := defining_op(value)) is not None and (before := _dims_before(op)) is not None:
        dims = [[d for place in group for d in before[place]] for group in dims]
        value = op.operands[0]
    if op is None or not _is_ordered_elementwise(op) or (found := _read_floats(op, weights)) is None:
        return None
    numbers, scale, zero = found
    along, columns, extents = dims[summed], dims[1 - summed], tuple(shape_of(value))
    if len(along) != 2 or len(columns) != 1 or extents[columns[0]] < 2 or len(extents) != 3:
        return None
    [block, step], [column] = along, columns
    if any(step in p.loops for p in (scale, zero) if isinstance(p, Parameter)):
        return None
    if numbers.bits not in _BITS or extents[step] * numbers.bits % 8:
        return None
    return Blocked(numbers, scale, zero, extents, block, step, column)


def _dims_before(op: ir.Operation) -> list[list[int]] | None:
    """The dims of what a view or a transpose reads that each dim of its result is made of; None for other ops."""
    if op.name == "tensor.collapse_shape":
        return reassociation_of(op)
    order = permutation_of(op)
    return [[d] for d in order] if order is not None else None


def _is_ordered_elementwise(op: ir.Operation) -> bool:
    """Return whether an op makes one known tensor element by element, its loops in the order of the tensor's dims."""
    if op.name != "linalg.generic" or not is_map(op) or not is_static(op.results[0]):
        return False
    walked = [dim_of(e) for e in indexing_maps(op)[-1].results]
    return walked == list(range(len(walked)))


ScaledCodes = tuple[Codes, Parameter, "Parameter | float | None"]


def _read_floats(op: ir.Operation, weights: Set[ir.Value]) -> ScaledCodes | None:
    """Numbers, scale and zero point of a body that is ``(number - zero) * scale``, in integers or floats."""
    product = defining_op(terminator_of(op).operands[0])
    if product is None or product.name != "arith.mulf":
        return None
    scales_ = [(i, p) for i in (1, 0) if (p := _parameter(op, product.operands[i], weights)) is not None]
    if not scales_ or not isinstance(builders.element_of(scales_[0][1].value), ir.F32Type):
        return None
    index, scale = scales_[0]
    number, zero = _difference(product.operands[1 - index])
    read = None if zero is None else splat_of(zero)
    if zero is not None and read is None and (read := _parameter(op, zero, weights)) is None:
        return None
    numbers = _read_codes(op, number)
    if isinstance(read, Parameter) and str(builders.element_of(read.value)) not in ("i8", "i32", "f32"):
        return None
    return (numbers, scale, read) if numbers is not None else None


def _difference(value: ir.Value) -> tuple[ir.Value, ir.Value | None]:
    """A number and what is taken from it, in integers or floats; itself where nothing is."""
    op = defining_op(value)
    inner = defining_op(op.operands[0]) if op is not None and op.name == "arith.sitofp" else op
    if inner is None or inner.name not in ("arith.subi", "arith.subf"):
        return value, None
    return inner.operands[0], inner.operands[1]


# What widens integers, and whether as signed ones.
_WIDENS = {"arith.sitofp": True, "arith.uitofp": False, "arith.extsi": True, "arith.extui": False}
_SHIFTS = {"arith.shrsi": True, "arith.shrui": False}


def _strip_widening(value: ir.Value) -> tuple[ir.Value, bool]:
    """The scalar from which a value is widened, and whether it is signed."""
    signed = True
    while (op := defining_op(value)) is not None and op.name in _WIDENS:
        value, signed = op.operands[0], _WIDENS[op.name]
    return value, signed


def _read_codes(op: ir.Operation, value: ir.Value) -> Codes | None:
    """A scalar in a body as an integer that is stored, at the same place of a tensor of bytes."""
    (value, signed), bits = _strip_widening(value), 8
    shift = defining_op(value)
    if shift is not None and shift.name in _SHIFTS:  # to the end of a byte and back
        before, amount = defining_op(shift.operands[0]), splat_of(shift.operands[1])
        if before is None or before.name != "arith.shli" or amount is None or splat_of(before.operands[1]) != amount:
            return None
        value, signed, bits = before.operands[0], _SHIFTS[shift.name], 8 - int(amount)
    arguments, maps = list(op.regions[0].blocks[0].arguments), indexing_maps(op)
    if value not in arguments[: num_inputs(op)] or maps[arguments.index(value)] != maps[-1]:
        return None
    source = op.operands[arguments.index(value)]
    if str(builders.element_of(source)) == "i8":
        masked = _mask_of(source)
        return Codes(source, bits, signed) if masked is None else Codes(source, masked, False)
    inner = defining_op(source)
    return (
        _read_codes(inner, terminator_of(inner).operands[0])
        if inner is not None and _is_ordered_elementwise(inner)
        else None
    )


def _mask_of(source: ir.Value) -> int | None:
    """How many of the lowest bits the bytes of a tensor have at most, where a mask says it."""
    op = defining_op(source)
    while op is not None and op.name in VIEWS:
        op = defining_op(op.operands[0])
    end = defining_op(terminator_of(op).operands[0]) if op is not None and op.name == "linalg.generic" else None
    mask = splat_of(end.operands[1]) if end is not None and end.name == "arith.andi" else None
    return mask.bit_length() if isinstance(mask, int) and mask > 0 and mask & (mask + 1) == 0 else None


def _parameter(op: ir.Operation, value: ir.Value, weights: Set[ir.Value]) -> Parameter | None:
    """A scalar in a body that is read, and perhaps widened, from a weight."""
    value, signed = _strip_widening(value)
    arguments = list(op.regions[0].blocks[0].arguments)
    if value not in arguments[: num_inputs(op)]:
        return None
    number = arguments.index(value)
    source, results = op.operands[number], indexing_maps(op)[number].results
    if source not in weights or any(dim_of(e) is None and not is_zero(e) for e in results):
        return None
    loops = [None if n == 1 else dim_of(e) for n, e in zip(shape_of(source), results, strict=True)]
    return Parameter(source, tuple(loops), signed)
