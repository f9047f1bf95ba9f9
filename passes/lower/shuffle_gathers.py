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
    """Ask of gathers of float32 whether they lie in a vector's length, and load that.

    Before::

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
        target = self.target or detect_host()
        feature, intrinsic = _SHUFFLES.get(target.lanes, ("", ""))
        if feature in target.features:
            emit = partial(_emit_choice, lanes=target.lanes, intrinsic=intrinsic)
            rewrite(module, partial(_fits, lanes=target.lanes), emit, "vector.gather")


def _fits(op: ir.Operation, lanes: int) -> bool:
    if ir.VectorType(op.results[0].type).rank != 1:
        return False
    base, *offsets, _, mask, _ = op.operands
    begins = isinstance(base.type, ir.MemRefType) and _begin_of(base) is not None
    if not begins or any(integer_of(offset) != 0 for offset in offsets) or not _is_full(mask):
        return False
    count, element = ir.VectorType(op.results[0].type).shape[0], element_of(base)
    return isinstance(element, ir.F32Type) and count % lanes == 0


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
    extents = [memref.DimOp(base, index_constant(axis)).result for axis in range(ir.MemRefType(base.type).rank)]
    size = functools.reduce(arith.muli, extents)
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


def _flatten(base: ir.Value, size: ir.Value) -> ir.Value:
    """A buffer, whose rows lie one behind another where elements are gathered from it, as one of one axis."""
    open_, begin = ir.ShapedType.get_dynamic_size(), _begin_of(base)
    layout = ir.StridedLayoutAttr.get(begin, [1]) if begin else None
    flat = ir.MemRefType.get([open_], element_of(base), layout)
    return memref.ReinterpretCastOp(flat, base, [], [size], [], [begin], [open_], [1]).result
