"""Bodies compute with float16 and bfloat16 in float32, as eager PyTorch does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ...dialects import builders, ir, scalars
from ...dialects.walk import collect
from ..infra.base import Pass
from ..ir.edit import splat_of
from ..ir.structure import is_tensor, iterator_types, num_inputs, terminator_of

_STORING = ("arith.constant", "arith.bitcast", "arith.truncf")


@dataclass(frozen=True)
class WidenFloats(Pass):
    """Widen what scalar ops take of narrow floats, round what is stored, and reduce into float32.

    Before::

        %r = linalg.generic ins(%x) outs(%zero : tensor<2xf16>) { addf : f16, yield : f16 }       // a sum

    After::

        %s = linalg.generic ins(%x) outs(%zero : tensor<2xf32>) { extf, addf : f32, yield : f32 }
        %r = linalg.generic ins(%s) outs(%e : tensor<2xf16>) { truncf }
    """

    name: ClassVar[str] = "widen-floats"

    def apply(self, module: ir.Module) -> None:
        """Rewrite all functions of the module."""
        for op in collect(module, lambda op: op.name == "linalg.generic" and "reduction" in iterator_types(op)):
            _reduce_wide(op)
        rounded: dict[ir.Value, ir.Value] = {}  # what it was before, by what is stored
        for op in collect(module, lambda op: op.name.startswith(("arith.", "math."))):
            if op.name not in _STORING:
                _compute_wide(op, rounded)
        for op in collect(module, lambda op: op.name == "linalg.generic"):
            _yield_wide(op, rounded)
        for stored in rounded:
            if not any(True for _ in stored.uses):
                stored.owner.operation.erase()


def _is_narrow(kind: Any) -> bool:
    return isinstance(kind, ir.FloatType) and scalars.width(kind) < 32 and scalars.compute_type(kind) != kind


def _reduce_wide(op: ir.Operation) -> None:
    """Let a reduction begin, and end, with float32."""
    arguments = list(op.regions[0].blocks[0].arguments)
    for i, result in enumerate(op.results):
        number = num_inputs(op) + i
        start, narrow = op.operands[number], ir.RankedTensorType(result.type).element_type
        if not _is_narrow(narrow):
            continue
        wide = scalars.compute_type(narrow)
        with ir.InsertionPoint(op), op.location:
            op.operands[number] = _widen_start(start, wide)
        arguments[number].set_type(wide)
        result.set_type(op.operands[number].type)
        with ir.InsertionPoint.after(op), op.location:
            stored = builders.convert_elements(result, narrow)
        result.replace_all_uses_except(stored, stored.owner.operation)


def _widen_start(start: ir.Value, wide: ir.Type) -> ir.Value:
    """The initial value of a reduction as float32. A splat stays a splat."""
    number = splat_of(start)
    if number is None:
        return builders.convert_elements(start, wide)
    return builders.full(builders.shape_of(start), builders.scalar(number, wide))


def _compute_wide(op: ir.Operation, rounded: dict[ir.Value, ir.Value]) -> None:
    """Widen operands and results of a scalar op; results are rounded for those who store them."""
    if any(map(is_tensor, (*op.operands, *op.results))):
        return
    for i, value in enumerate(op.operands):
        if _is_narrow(value.type):
            with ir.InsertionPoint(op), op.location:
                op.operands[i] = _widen_value(value, rounded)
    if op.name == "arith.extf":
        if op.operands[0].type == op.results[0].type:
            op.results[0].replace_all_uses_with(op.operands[0])
            op.erase()
        return
    for result in op.results:
        if _is_narrow(narrow := result.type):
            result.set_type(scalars.compute_type(narrow))
            with ir.InsertionPoint.after(op), op.location:
                stored = scalars.narrow(result, narrow)
            result.replace_all_uses_except(stored, stored.owner.operation)
            rounded[stored] = result


def _widen_value(value: ir.Value, rounded: dict[ir.Value, ir.Value]) -> ir.Value:
    """A narrow float as float32: what it was before it was rounded, where that was done here."""
    if value in rounded:
        return rounded[value]
    number = splat_of(value)
    return scalars.widen(value) if number is None else scalars.const(number, scalars.compute_type(value.type))


def _yield_wide(op: ir.Operation, rounded: dict[ir.Value, ir.Value]) -> None:
    """Let the body of a reduction that was made wide end with float32."""
    stored = terminator_of(op)
    for i, (value, result) in enumerate(zip(stored.operands, op.results, strict=True)):
        if _is_narrow(value.type) and ir.RankedTensorType(result.type).element_type != value.type:
            with ir.InsertionPoint(stored), op.location:
                stored.operands[i] = _widen_value(value, rounded)
