"""Elements that lie near each other are loaded as a vector and put in order, instead of one by one."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from ...core.target import Target, detect_host
from ...dialects import arith, ir, memref, scalars, vector
from ...dialects.builders import element_of, index_constant
from ...dialects.loops import branch
from ...dialects.scalars import call_intrinsic
from ...dialects.walk import defining_op, integer_of
from ..infra.base import Pass
from ..ir.rewrite import rewrite

# x86's instructions that put the 32-bit lanes of a vector in any order: by lanes, the feature that has them.
_SHUFFLES = {16: ("avx512f", "llvm.x86.avx512.permvar.sf.512"), 8: ("avx2", "llvm.x86.avx2.permps")}


@dataclass(frozen=True)
class ShuffleGathers(Pass):
    """Load what gathers read as a vector, and put it in order: elements that count down, or that lie near each other.

    Elements that are known to be those of a row in another order, as of a row that is reversed, need no question::

        %v = vector.gather %x[%c0] [%last - %step], %all, %zero : memref<?xi8> into vector<16xi8>

    becomes::

        %row = vector.load %x[%last - 15]
        %v = vector.shuffle %row [15, 14, ... 0]

    Gathers of float32 are asked whether they lie in a vector's length. Before::

        %v = vector.gather %x[%c0] [%places], %all, %zero : memref<?xf32> into vector<16xf32>

    After::

        %shifts = %places - %places[0]
        %near = vector.reduction <and>, (%shifts < 16)
        %v = scf.if %near and %places[0] + 16 <= length of %x {
          %row = vector.load %x[%places[0]]
          llvm.call_intrinsic "llvm.x86.avx512.permvar.sf.512"(%row, %shifts)
        } else {
          vector.gather %x[%c0] [%places], %all, %zero

    Where places are ``index_cast %narrow + broadcast %begin``, the narrow numbers are asked.

    An image that is made larger is read so: its gathers take several cycles an element. Others stay: with a mask, of
    elements of other types, from buffers with gaps, and all of targets without such an instruction.
    """

    name: ClassVar[str] = "shuffle-gathers"
    opt_level: ClassVar[int] = 2
    target: Target | None = None

    def apply(self, module: ir.Module) -> None:
        """Rewrite all functions of the module."""
        rewrite(module, _is_row, _emit_row, "vector.gather")
        target = self.target or detect_host()
        feature, intrinsic = _SHUFFLES.get(target.lanes, ("", ""))
        if feature in target.features:
            emit = partial(_emit_choice, lanes=target.lanes, intrinsic=intrinsic)
            rewrite(module, partial(_fits, lanes=target.lanes), emit, "vector.gather")


def _is_row(op: ir.Operation) -> bool:
    """Return whether a gather reads the elements of a row, each once."""
    lanes = _Lanes.of(op.operands[len(op.operands) - 3]) if _is_whole(op) else None
    return lanes is not None and sorted(lanes.places) == [*range(lanes.first, lanes.first + len(lanes.places))]


def _emit_row(op: ir.Operation) -> ir.Value:
    """The row, in the order that the gather has."""
    base, *_, places, _, _ = op.operands
    lanes, kind = _Lanes.of(places), ir.VectorType(op.results[0].type)
    assert lanes is not None  # as ``_is_row`` says
    flat = _flatten(base, _count_elements(base))
    begin = index_constant(lanes.first)
    for shift, negative in lanes.shifts:
        begin = (arith.subi if negative else arith.addi)(begin, shift)
    row = vector.load(kind, flat, [begin])
    order = [place - lanes.first for place in lanes.places]
    return row if order == [*range(len(order))] else vector.shuffle(row, row, order)


@dataclass(frozen=True)
class _Lanes:
    """Places as numbers that are known, and ``shifts`` that are the same in all lanes: added, or (True) subtracted."""

    places: tuple[int, ...]
    shifts: tuple[tuple[ir.Value, bool], ...] = ()

    @property
    def first(self) -> int:
        """The least of the numbers."""
        return min(self.places)

    @staticmethod
    def of(value: ir.Value) -> _Lanes | None:
        """Those of a vector of indices; None where they are not known."""
        op, count = defining_op(value), ir.VectorType(value.type).shape[0]
        if op is None:
            return None
        if op.name == "vector.step":
            return _Lanes(tuple(range(count)))
        if op.name == "arith.constant":
            return _Lanes(tuple(int(number) for number in ir.DenseIntElementsAttr(op.attributes["value"])))
        if op.name == "vector.broadcast" and isinstance(op.operands[0].type, ir.IndexType):
            return _Lanes((0,) * count, ((op.operands[0], False),))
        if op.name not in ("arith.addi", "arith.subi"):
            return None
        mine, other = map(_Lanes.of, op.operands)
        return mine.combine(other, op.name == "arith.subi") if mine is not None and other is not None else None

    def combine(self, other: _Lanes, negate: bool) -> _Lanes:
        """The sum of both, or the difference."""
        sign = -1 if negate else 1
        places = tuple(a + sign * b for a, b in zip(self.places, other.places, strict=True))
        return _Lanes(places, (*self.shifts, *((shift, negative != negate) for shift, negative in other.shifts)))


def _fits(op: ir.Operation, lanes: int) -> bool:
    """Return whether a gather of whole vectors of float32 may be asked where its elements lie."""
    count = ir.VectorType(op.results[0].type).shape[-1]
    return _is_whole(op) and isinstance(element_of(op.operands[0]), ir.F32Type) and count % lanes == 0


def _is_whole(op: ir.Operation) -> bool:
    """Return whether a gather reads all elements of a vector, from a buffer whose elements lie one behind another."""
    if ir.VectorType(op.results[0].type).rank != 1:
        return False
    base, *offsets, _, mask, _ = op.operands
    begins = isinstance(base.type, ir.MemRefType) and _begin_of(base) is not None
    return begins and all(integer_of(offset) == 0 for offset in offsets) and _is_full(mask)


def _begin_of(base: ir.Value) -> int | None:
    """Where a buffer of rows whose elements lie one behind another begins, if its type tells."""
    strides, begin = ir.MemRefType(base.type).get_strides_and_offset()
    known = strides and strides[-1] == 1 and begin != ir.ShapedType.get_dynamic_stride_or_offset()
    return begin if known else None


def _is_full(mask: ir.Value) -> bool:
    op = defining_op(mask)
    if op is None or op.name != "arith.constant":
        return False
    value = ir.DenseElementsAttr(op.attributes["value"])
    return value.is_splat and bool(ir.BoolAttr(value.get_splat_value()).value)


def _emit_choice(op: ir.Operation, lanes: int, intrinsic: str) -> ir.Value:
    """A vector of elements, by shuffles where all of them are near, else as it was gathered."""
    base, *_, places, _, initial = op.operands
    made = ir.VectorType(op.results[0].type)
    size = _count_elements(base)
    along, begin = _split_places(places)
    windows = [_Window.of(along, at, lanes) for at in range(0, made.shape[0], lanes)]
    behind = arith.addi(functools.reduce(arith.maxsi, [w.start for w in windows]), index_constant(lanes))
    fits = arith.cmpi(arith.CmpIPredicate.sle, arith.addi(begin, behind), size)
    near = windows[0].is_near()
    if len(windows) > 1:  # which are looked at where the first is near: of elements far apart, few neighbours are
        near = branch(
            near, near.type, lambda: functools.reduce(arith.andi, [w.is_near() for w in windows[1:]]), lambda: near
        )

    def shuffle() -> ir.Value:
        flat, result = _flatten(base, size), initial
        for number, window in enumerate(windows):
            result = vector.insert_strided_slice(window.read(flat, begin, intrinsic), result, [number * lanes], [1])
        return result

    return branch(arith.andi(near, fits), made, shuffle, lambda: op.clone().results[0])


def _split_places(places: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Places as a vector and a number that is added to all of it, as where a row begins.

    What is asked of the vector is then the same for all rows.
    """
    op = defining_op(places)
    for along, other in (op.operands, reversed(op.operands)) if op is not None and op.name == "arith.addi" else ():
        if (number := _number_of(other)) is not None:
            varying, begin = _split_places(along)
            return varying, arith.addi(begin, number)
    narrow = op is not None and op.name == "arith.index_cast" and scalars.width(element_of(op.operands[0])) == 32
    return op.operands[0] if op is not None and narrow else places, index_constant(0)


def _number_of(vector_: ir.Value) -> ir.Value | None:
    """The number that all elements of a vector of indices are, if that is known."""
    op = defining_op(vector_)
    if op is not None and op.name == "arith.constant":
        value = ir.DenseElementsAttr(op.attributes["value"])
        return index_constant(ir.IntegerAttr(value.get_splat_value()).value) if value.is_splat else None
    broadcast = op is not None and op.name == "vector.broadcast" and isinstance(op.operands[0].type, ir.IndexType)
    return op.operands[0] if op is not None and broadcast else None


@dataclass(frozen=True)
class _Window:
    """As many elements as a vector has, from ``start`` on, and the ``shifts`` in it of those that are wanted."""

    start: ir.Value
    shifts: ir.Value

    @staticmethod
    def of(places: ir.Value, at: int, lanes: int) -> _Window:
        """The window that begins with the place ``at``."""
        kind = ir.VectorType.get([lanes], element_of(places))
        some = vector.extract_strided_slice(kind, places, [at], [lanes], [1])
        start = vector.extract(some, [], [0])
        return _Window(scalars.to_index(start), arith.subi(some, vector.broadcast(kind, start)))

    def is_near(self) -> ir.Value:
        """Whether all elements lie in the window."""
        kind = ir.VectorType(self.shifts.type)
        lanes = vector.broadcast(kind, scalars.const(kind.shape[0], kind.element_type))
        fits = arith.cmpi(arith.CmpIPredicate.ult, self.shifts, lanes)
        return vector.reduction(ir.IntegerType.get_signless(1), vector.CombiningKind.AND, fits)

    def read(self, flat: ir.Value, begin: ir.Value, intrinsic: str) -> ir.Value:
        """The elements of a row that begins at a place."""
        lanes = ir.VectorType(self.shifts.type).shape
        row = ir.VectorType.get(lanes, element_of(flat))
        narrow = ir.VectorType.get(lanes, ir.IntegerType.get_signless(32))
        order = self.shifts if self.shifts.type == narrow else arith.index_cast(narrow, self.shifts)
        return call_intrinsic(intrinsic, row, [vector.load(row, flat, [arith.addi(begin, self.start)]), order])


def _count_elements(base: ir.Value) -> ir.Value:
    extents = [memref.DimOp(base, index_constant(axis)).result for axis in range(ir.MemRefType(base.type).rank)]
    return functools.reduce(arith.muli, extents)


def _flatten(base: ir.Value, size: ir.Value) -> ir.Value:
    """A buffer, whose rows lie one behind another where elements are gathered from it, as one of one axis."""
    open_, begin = ir.ShapedType.get_dynamic_size(), _begin_of(base)
    layout = ir.StridedLayoutAttr.get(begin, [1]) if begin else None
    flat = ir.MemRefType.get([open_], element_of(base), layout)
    return memref.ReinterpretCastOp(flat, base, [], [size], [], [begin], [open_], [1]).result
