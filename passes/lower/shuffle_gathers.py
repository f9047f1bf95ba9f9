"""Elements that lie near each other are loaded as a vector and put in order, instead of one by one."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from ...core.target import Target, detect_host
from ...dialects import arith, ir, memref, vector
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

        %first = minui (%places[0], length of %x - 16)
        %near = vector.reduction <and>, (%places - %first < 16)
        %v = scf.if %near {
          %row = vector.load %x[%first]
          llvm.call_intrinsic "llvm.x86.avx512.permvar.sf.512"(%row, %places - %first)
        } else {
          vector.gather %x[%c0] [%places], %all, %zero

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
    latest = arith.subi(size, index_constant(lanes))
    first, *others = [_Window.of(places, at, lanes, latest) for at in range(0, made.shape[0], lanes)]
    long = arith.cmpi(arith.CmpIPredicate.sge, latest, index_constant(0))
    near = arith.andi(long, first.is_near())
    if others:  # which are looked at where the first is near: of elements far apart, few neighbours are
        near = branch(
            near, near.type, lambda: functools.reduce(arith.andi, [w.is_near() for w in others]), lambda: near
        )

    def shuffle() -> ir.Value:
        flat, result = _flatten(base, size), initial
        for number, window in enumerate([first, *others]):
            result = vector.insert_strided_slice(window.read(flat, intrinsic), result, [number * lanes], [1])
        return result

    return branch(near, made, shuffle, lambda: op.clone().results[0])


@dataclass(frozen=True)
class _Window:
    """As many elements as a vector has, from ``start`` on, and the ``shifts`` in it of those that are wanted."""

    start: ir.Value
    shifts: ir.Value

    @staticmethod
    def of(places: ir.Value, at: int, lanes: int, latest: ir.Value) -> _Window:
        """The window of the places from ``at`` on: it begins with the first one, or so that it ends in the buffer."""
        kind = ir.VectorType.get([lanes], ir.IndexType.get())
        some = vector.extract_strided_slice(kind, places, [at], [lanes], [1])
        start = arith.minsi(vector.extract(some, [], [0]), latest)
        return _Window(start, arith.subi(some, vector.broadcast(kind, start)))

    def is_near(self) -> ir.Value:
        """Whether all elements lie in the window."""
        kind = ir.VectorType(self.shifts.type)
        fits = arith.cmpi(arith.CmpIPredicate.ult, self.shifts, vector.broadcast(kind, index_constant(kind.shape[0])))
        return vector.reduction(ir.IntegerType.get_signless(1), vector.CombiningKind.AND, fits)

    def read(self, flat: ir.Value, intrinsic: str) -> ir.Value:
        """The elements."""
        lanes = ir.VectorType(self.shifts.type).shape
        row = ir.VectorType.get(lanes, element_of(flat))
        order = arith.index_cast(ir.VectorType.get(lanes, ir.IntegerType.get_signless(32)), self.shifts)
        return call_intrinsic(intrinsic, row, [vector.load(row, flat, [self.start]), order])


def _flatten(base: ir.Value, size: ir.Value) -> ir.Value:
    """A buffer, whose rows lie one behind another where elements are gathered from it, as one of one axis."""
    open_, begin = ir.ShapedType.get_dynamic_size(), _begin_of(base)
    layout = ir.StridedLayoutAttr.get(begin, [1]) if begin else None
    flat = ir.MemRefType.get([open_], element_of(base), layout)
    return memref.ReinterpretCastOp(flat, base, [], [size], [], [begin], [open_], [1]).result
