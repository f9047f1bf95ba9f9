"""Buffers, loops and vectors become the LLVM dialect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...dialects import arith, func, ir, llvm, math, memref
from ...dialects.builders import index_constant
from ...dialects.scalars import call_intrinsic
from ...dialects.walk import collect, defining_op, find_named
from ..infra.base import ModuleForm, Pass
from ..ir.kernel import has_only_nests, list_functions, run_upstream
from ..ir.maps import reassociation_of
from ..ir.rewrite import rewrite
from .extrema import choose_extrema
from .order_stores import keep_order
from .rare_calls import guard_calls

_TO_CODE = (
    "func.func(convert-linalg-to-loops)",
    "fold-memref-alias-ops",
    "expand-strided-metadata",
    "canonicalize",
    "cse",
    "convert-vector-to-scf{full-unroll=true}",
    "lower-affine",
    "loop-invariant-code-motion",
    "convert-scf-to-cf",
    "math-uplift-to-fma",
    "convert-math-to-llvm",
    "convert-math-to-libm",
    "convert-vector-to-llvm{reassociate-fp-reductions=true}",
)
_VIEWS = ("expand-strided-metadata", "lower-affine")  # which gathers leave, in buffers with strides
_TO_LLVM = (
    "arith-expand{include-bf16=true}",
    "convert-arith-to-llvm",
    "convert-index-to-llvm",
    "finalize-memref-to-llvm",
    "convert-func-to-llvm{use-bare-ptr-memref-call-conv=true}",
    "convert-cf-to-llvm",
    "convert-ub-to-llvm",
    "reconcile-unrealized-casts",
    "canonicalize",
    "cse",
)

# Ops without which passes have nothing to do.
_MATH = [kind.OPERATION_NAME for kind in vars(math).values() if hasattr(kind, "OPERATION_NAME")]
_NEEDS = {
    "convert-math-to-llvm": _MATH,
    "convert-math-to-libm": _MATH,
    "expand-strided-metadata": [
        f"memref.{name}"
        for name in (
            "collapse_shape",
            "expand_shape",
            "extract_aligned_pointer_as_index",
            "extract_strided_metadata",
            "subview",
        )
    ],
}

# The ops by which a value of a type comes to be that no operand has.
_BEGINNINGS = ("arith.constant", "arith.truncf", "arith.sitofp", "arith.uitofp", "arith.bitcast", "vector.bitcast")
_BEGINNINGS += ("memref.get_global", "memref.view")

_MOVES = {"llvm.load", "llvm.store", "llvm.bitcast", "llvm.select", "llvm.br", "llvm.cond_br", "llvm.mlir.constant"}
_MOVES |= {"llvm.mlir.zero", "llvm.mlir.undef", "llvm.mlir.poison", "llvm.insertvalue", "llvm.extractvalue"}
_MOVES |= {"llvm.insertelement", "llvm.extractelement", "llvm.shufflevector"}


@dataclass(frozen=True)
class LowerToLlvm(Pass):
    """Lower a kernel on buffers; each buffer becomes a bare pointer.

    Before::

        func.func @k(%x: memref<64xf32>, %scratch: memref<1xi8>, %lo: index, %hi: index)

    After::

        llvm.func @k(%x: !llvm.ptr, %scratch: !llvm.ptr, %lo: i64, %hi: i64)

    A bfloat16 that is only moved is 16 bits, and one made of an integer is rounded from the float32. A fused
    multiply-add becomes ``fmuladd``, a product and a sum where the target has no such instruction: LLVM would call
    ``fmaf`` for each lane of an ``fma``. Maxima are one to three instructions (``extrema.py``): a vector's took 120
    cycles otherwise. To round a number and to make it an integer is one instruction of x86, which LLVM has another
    function for; AArch64's it finds by itself. A product with a power of two that ``expand-math`` has marked is one
    instruction too. Calls of libm that it has marked are made only where an element needs them (``rare_calls.py``).

    Options:
        arch: the architecture.
    """

    name: ClassVar[str] = "lower-to-llvm"
    form: ClassVar[ModuleForm | None] = ModuleForm.LLVM
    arch: str = "x86"

    def apply(self, module: ir.Module) -> None:
        """Lower the whole module."""
        for function in list_functions(module):
            choose_extrema(function)
            guard_calls(function)
        rewrite(module, memref.ExpandShapeOp, _expand_into_open)
        to_code = _list_passes(module)
        narrow = _has_bfloat16(module)
        if narrow:
            run_upstream(module, to_code, _NEEDS)
            _integers_by_float32(module)
        run_upstream(module, _TO_LLVM if narrow else to_code + _TO_LLVM, _NEEDS)
        rewrite(module, llvm.FMAOp, lambda op: llvm.intr_fmuladd(*op.operands))
        if self.arch == "x86":
            rewrite(module, llvm.FPToSIOp, _convert_rounded)
            rewrite(module, llvm.FMulOp, _scale)
        if narrow:
            for function in module.body.operations:
                _bfloat16_as_bits(function)
        for function in module.body.operations:
            keep_order(function)


def _list_passes(module: ir.Module) -> tuple[str, ...]:
    """Upstream's passes up to LLVM's vectors: LLVM itself finds what a canonicalization would in a nest of tiles."""
    if not has_only_nests(module):
        return _TO_CODE + _VIEWS
    without = tuple(name for name in _TO_CODE if name != "canonicalize")
    return without + _VIEWS if find_named(module, "vector.gather") else without


def _has_bfloat16(module: ir.Module) -> bool:
    """Return whether a function takes bfloat16, or an op makes one of something else; all others have it from there."""
    functions = [op for op in module.body.operations if isinstance(op, func.FuncOp)]
    kinds = {kind for function in functions for kind in (*function.type.inputs, *function.type.results)}
    kinds.update(result.type for op in find_named(module, *_BEGINNINGS) for result in op.results)
    return any(map(_is_bfloat16, kinds))


def _expand_into_open(view: ir.Operation) -> ir.Value | None:
    """A view with several open sizes in place of one as strides and sizes: upstream asserts that there is one."""
    source, kind = view.operands[0], ir.MemRefType(view.results[0].type)
    groups = reassociation_of(view)
    if all(sum(kind.shape[axis] < 0 for axis in group) <= 1 for group in groups):
        return None
    base, offset, *rest = memref.ExtractStridedMetadataOp(source).results
    open_ = list(view.operands)[1:]
    given, strides = iter(open_), list[ir.Value]()
    sizes = [next(given) if n < 0 else index_constant(n) for n in kind.shape]
    for group, stride in zip(groups, rest[len(groups) :], strict=True):
        own = [stride]
        for axis in reversed(group[1:]):
            own.insert(0, arith.muli(own[0], sizes[axis]))
        strides += own
    mark = ir.MemRefType.get_dynamic_stride_or_offset()
    steps, begin = kind.get_strides_and_offset()
    asked = [stride for stride, step in zip(strides, steps, strict=True) if step == mark]
    offsets = [offset] if begin == mark else []
    return memref.ReinterpretCastOp(kind, base, offsets, open_, asked, [begin], list(kind.shape), list(steps)).result


def _convert_rounded(conversion: ir.Operation) -> ir.Value | None:
    """A float32 as an integer of 32 bits, rounded as the mode says that all kernels run in: to even."""
    rounding, made = defining_op(conversion.operands[0]), conversion.results[0].type
    kind = ir.VectorType(made) if isinstance(made, ir.VectorType) else None
    if rounding is None or rounding.name != "llvm.intr.roundeven" or str(kind.element_type if kind else made) != "i32":
        return None
    source = rounding.operands[0]
    if not str(source.type).endswith(("xf32>", "f32")):
        return None
    lanes = f"v{kind.shape[0]}" if kind else ""
    return call_intrinsic(f"llvm.lrint.{lanes}i32.{lanes}f32", made, [source])


def _scale(product: ir.Operation) -> ir.Value | None:
    """x * 2^n as ``ldexp``, of an n that was an integer; LLVM has an instruction for it where ``expand-math`` asks."""
    x, power = product.operands
    op = defining_op(power)
    if op is None or op.name != "llvm.intr.exp2" or "afn" not in str(op.attributes["fastmathFlags"]):
        return None
    kind = ir.VectorType(x.type) if isinstance(x.type, ir.VectorType) else None
    lanes, whole = f"v{kind.shape[0]}" if kind else "", ir.IntegerType.get_signless(32)
    converted = defining_op(op.operands[0])
    if converted is not None and converted.name == "llvm.sitofp":
        number = converted.operands[0]
    else:
        number = llvm.fptosi(ir.VectorType.get(kind.shape, whole) if kind else whole, op.operands[0])
    return call_intrinsic(f"llvm.ldexp.{lanes}f32.{lanes}i32", x.type, [x, number])


def _integers_by_float32(module: ir.Module) -> None:
    """Take conversions of integers to bfloat16 apart, which upstream has made of those to float32 and a rounding.

    LLVM would call a conversion that nobody links; a rounding of float32 is expanded.
    """

    def convert(op: ir.Operation) -> ir.Value | None:
        narrow = op.results[0].type
        if not _is_bfloat16(narrow):
            return None
        wide = ir.Type.parse(str(narrow).replace("bf16", "f32"))
        widened = (arith.sitofp if op.name == "arith.sitofp" else arith.uitofp)(wide, op.operands[0])
        return arith.truncf(narrow, widened)

    rewrite(module, (arith.SIToFPOp, arith.UIToFPOp), convert)


def _bfloat16_as_bits(function: ir.OpView) -> None:
    """Move bfloat16 as i16, unless something computes in it.

    On CPUs without bfloat16 LLVM keeps one in a register of float32, and to put it into a vector it calls a conversion
    that nobody links. Constants are cast, which the optimiser folds.
    """
    narrow = collect(function, lambda op: any(_is_bfloat16(v.type) for v in (*op.operands, *op.results)))
    if any(op.name not in _MOVES for op in narrow):
        return
    for op in collect(function, lambda _: True):
        if op.name == "llvm.mlir.constant":
            _cast_constant(op)
            continue
        arguments = [a for region in op.regions for block in region for a in block.arguments]
        for value in filter(lambda v: _is_bfloat16(v.type), [*op.results, *arguments]):
            value.set_type(_as_bits(value.type))
        if "elem_type" in op.attributes:
            op.attributes["elem_type"] = ir.TypeAttr.get(_as_bits(ir.TypeAttr(op.attributes["elem_type"]).value))


def _cast_constant(op: ir.Operation) -> None:
    constant = op.results[0]
    if _is_bfloat16(constant.type):
        with ir.InsertionPoint.after(op), op.location:
            cast = llvm.bitcast(_as_bits(constant.type), constant)
        constant.replace_all_uses_except(cast, cast.owner.operation)


def _is_bfloat16(kind: ir.Type) -> bool:
    """Return whether the type is bfloat16 or one of several: a vector, an array of vectors, a struct."""
    return "bf16" in str(kind)


def _as_bits(kind: ir.Type) -> ir.Type:
    return ir.Type.parse(str(kind).replace("bf16", "i16"))
