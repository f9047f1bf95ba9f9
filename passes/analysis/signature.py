"""Kernel signatures for people: shapes, and the layout of the data."""

from __future__ import annotations

from ...core.program import Signature
from ...dialects import func, ir
from ..ir.structure import dim_of, indexing_maps, is_structured, list_ops, num_inputs
from .classify import classify_op
from .kinds import Conv, DepthwiseConv, Pooling


def make_signature(function: func.FuncOp) -> Signature:
    """The types of a kernel's arguments and results, and its layout in words."""
    found = (_layout(op) for op in (() if function.is_external else list_ops(function)))
    words = dict.fromkeys(word for word in found if word)
    return Signature(
        tuple(map(_print_type, function.type.inputs)), tuple(map(_print_type, function.type.results)), ", ".join(words)
    )


def _print_type(type_: ir.Type) -> str:
    """``1x56x56x64xf32``, with ``?`` for an extent that only the run knows; ``index`` for such a size."""
    if not isinstance(type_, ir.ShapedType):
        return str(type_)
    extents = ("?" if extent < 0 else str(extent) for extent in type_.shape)
    return "x".join([*extents, str(type_.element_type)])


def _layout(op: ir.Operation) -> str:
    """The layout that one op implies."""
    if op.name == "linalg.unpack":
        [tile, *_] = ir.DenseI64ArrayAttr(op.attributes["static_inner_tiles"])
        return f"weight in blocks of {tile}"
    if not is_structured(op):
        return ""
    kind = classify_op(op)
    if isinstance(kind, Conv | DepthwiseConv | Pooling):
        last = list(indexing_maps(op)[kind.data].results)[-1]
        return "channels first" if dim_of(last) is None else "channels last"
    return _permutation(op)


def _permutation(op: ir.Operation) -> str:
    """The order in which an op reads the dims of its one operand, where that is not their order."""
    maps = indexing_maps(op)
    if num_inputs(op) != 1 or len(maps) != 2:
        return ""
    dims = [d for e in maps[0].results if (d := dim_of(e)) is not None]
    if sorted(dims) != list(range(len(maps[0].results))) or len(dims) != maps[0].n_dims or dims == sorted(dims):
        return ""
    return f"dims permuted to {', '.join(str(dims.index(d)) for d in range(len(dims)))}"
