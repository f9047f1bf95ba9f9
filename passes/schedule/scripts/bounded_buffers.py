"""Tiles that begin as parts of new tensors lie in buffers of their own, of the most elements that they may have."""

from __future__ import annotations

from ....dialects import func, ir, tensor
from ....dialects.walk import collect, defining_op
from ...ir.dynamic_sizes import operand_segment
from ...ir.edit import replace
from ...ir.structure import shape_of
from ..tiling.part_nests import filled_with


def bound_buffers(function: func.FuncOp) -> None:
    """Let a part of a tensor that is new, or filled with one number, be a new tensor with memory of its own.

    Before::

        scf.for %i ... {
          %n = affine.min (7, 40 - %i)
          %s = tensor.extract_slice %zeros[%i, 0] [%n, 16] [1, 1]

    After::

        scf.for %i ... {
          %t = tensor.extract_slice (tensor.empty() : tensor<7x16xf32>)[0, 0] [%n, 16] [1, 1]
          %s = linalg.fill ins(%zero) outs(%t)
    """
    for op in collect(function, lambda _: True, "tensor.extract_slice"):
        source = defining_op(op.operands[0])
        fill = filled_with(op.operands[0])
        if source is not None and (source.name == "tensor.empty" or fill is not None):
            _bound_buffer(op, source if fill is not None else None)


def _bound_buffer(op: ir.Operation, fill: ir.Operation | None) -> None:
    kind = ir.RankedTensorType(op.results[0].type)
    sizes = operand_segment(op, 2)
    static = list(ir.DenseI64ArrayAttr(op.attributes["static_sizes"]))
    if len(static) != kind.rank:
        return  # of fewer dims than what it is a part of
    given, most = iter(sizes), []
    for extent, whole in zip(static, shape_of(op.operands[0]), strict=True):
        bounds = [extent] if extent >= 0 else [n for n in (whole, *_upper_bounds(next(given))) if n >= 0]
        if not bounds:
            return
        most.append(min(bounds))
    with op.location, ir.InsertionPoint(op):
        memory = tensor.EmptyOp(most, kind.element_type).result
        part = tensor.ExtractSliceOp(kind, memory, [], sizes, [], [0] * kind.rank, static, [1] * kind.rank).result
        if fill is not None:
            copy = fill.clone()
            copy.operands[len(copy.operands) - 1] = part
            ir.OpResult(copy.results[0]).set_type(kind)
            part = copy.results[0]
    replace(op, [part])


def _upper_bounds(size: ir.Value) -> list[int]:
    """Numbers that a size is not above."""
    op = defining_op(size)
    if op is None or op.name != "affine.min":
        return []
    results = ir.AffineMapAttr(op.attributes["map"]).value.results
    return [result.value for result in results if isinstance(result, ir.AffineConstantExpr)]
