"""Scales by weights or constants move into the weights of convolutions and dense layers."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

from ...dialects import builders, func, ir, scalars
from ..analysis.scales import Edit, Edits, Scale, Search, is_map
from ..infra.base import Pass
from ..ir.edit import drop_identity, fused_location, hoist, list_programs, param_values, splat_of
from ..ir.maps import set_maps
from ..ir.structure import (
    body_ops,
    dim_of,
    indexing_maps,
    is_tensor,
    iterator_types,
    list_ops,
    loop_extents,
    loops_along,
    shape_of,
    terminator_of,
)
from ..ir.uses import find_captures
from .rewriting.inline import drop_unused_inputs


@dataclass(frozen=True)
class FoldScaleAxis(Pass):
    """Fold a multiplication by a weight or a constant into the weight of the convolution or dense layer around it.

    Before::

        %c = linalg.generic {convolution} ins(%x, %w)
        %b = linalg.generic {add} ins(%c, %bias)
        %y = linalg.generic {(a, f, s) -> a * f + s} ins(%b, %factor, %shift)     // a batch normalisation

    After::

        %v = linalg.generic {mul} ins(%w, %factor)                                // both computed ahead of time
        %d = linalg.generic {mul} ins(%bias, %factor)
        %c = linalg.generic {convolution} ins(%x, %v)
        %b = linalg.generic {add} ins(%c, %d)
        %y = linalg.generic {add} ins(%b, %shift)

    Backward a scale goes through sums, products, transposes, reshapes and paddings by zero, and a scalar one through
    products of two activations too: that of attention's scores ends in the weight and bias of the query. Forward it
    goes through transposes, reshapes and paddings by zero to the input channels of the weight that reads it.

    A value with another reader, a weight that something else reads, an accumulation onto something other than zero,
    and element types other than f32 and f64 are left alone.
    """

    name: ClassVar[str] = "fold-scale-axis"
    opt_level: ClassVar[int] = 2

    def apply(self, module: ir.Module) -> None:
        """Fold the scales of all programs."""
        for function in list_programs(module):
            _Folder(function).run()


class _Folder:
    """Folds scales one by one, in program order; new weights stand where all old ones are known."""

    def __init__(self, function: func.FuncOp) -> None:
        self.function = function
        self.weights = param_values(function)
        self.search = Search(self.weights)

    def run(self) -> None:
        """Fold all that can be."""
        for op in list_ops(self.function):
            if _is_candidate(op) and not any(r in self.weights for r in op.results):
                self._fold_all(op)

    def _fold_all(self, op: ir.Operation) -> None:
        products = [o for o in body_ops(op) if o.name in ("arith.mulf", "arith.divf")]
        folded = False
        for product in products:
            for data, known in ((0, 1), (1, 0)) if product.name == "arith.mulf" else ((0, 1),):
                if (edits := self._edits(op, product, data, known)) is not None:
                    self._take(edits, op)
                    product.results[0].replace_all_uses_with(product.operands[data])
                    product.erase()
                    folded = True
                    break
        if folded:
            drop_identity(drop_unused_inputs(op))

    def _edits(self, op: ir.Operation, product: ir.Operation, data: int, known: int) -> Edits:
        """The edits that equal multiplying the product's operand ``data`` by ``known``."""
        factor = self.search.read_factor(op, product.operands[known])
        if factor is None or self.search.read_factor(op, product.operands[data]) is not None:
            return None
        if isinstance(factor, ir.Value):
            factor = Scale(factor, (), ())
        scale = dataclasses.replace(factor, divides=product.name == "arith.divf")
        edits = self.search.expression(op, product, data, scale)
        if edits is not None or not is_map(op) or terminator_of(op).operands[0] != product.results[0]:
            return edits
        out = loops_along(op, -1)
        outer = scale.remap(lambda loop: out.index(loop) if loop in out else None)
        return self.search.reader(op.results[0], outer) if outer else None

    def _take(self, edits: list[Edit], op: ir.Operation) -> None:
        for change in edits:
            with ir.InsertionPoint(change.user or change.op), op.location:
                if change.user is not None:
                    _scale_constant(change.user, change.number, change.scale)
                else:
                    self._scale_operand(change.op, change.number, change.scale)
            if change.op != op:
                change.op.location = fused_location([change.op, op])

    def _scale_operand(self, op: ir.Operation, number: int, scale: Scale) -> None:
        """Compute the weight times the scale, over the weight's dims, or over all loops of both where it lacks some."""
        maps, weight = indexing_maps(op), op.operands[number]
        read: list[int | None] = [dim_of(e) for e in maps[number].results]
        loops, shape = read, shape_of(weight)
        missing = any(p is not None and p not in read for p in scale.places)
        if missing:
            extents = loop_extents(op)
            loops = sorted({p for p in (*read, *scale.places) if p is not None})
            shape = [extents[p] for p in loops]
            maps[number] = builders.affine_map(maps[number].n_dims, loops)
        factor = self._factor(scale, op, builders.element_of(weight))
        places = [None if p is None else loops.index(p) for p in scale.places]
        own = [None if p is None else loops.index(p) for p in read] if missing else list(range(len(shape)))
        combine = scalars.div if scale.divides else scalars.mul
        out = builders.empty(shape, builders.element_of(weight))
        body = lambda w, f, _: combine(w, f)  # noqa: E731
        made = builders.generic([weight, factor], [out], [own, places, range(len(shape))], "p" * len(shape), body)[0]
        self.weights.add(made)
        op.operands[number] = made
        set_maps(op, maps)

    def _factor(self, scale: Scale, op: ir.Operation, element: ir.Type) -> ir.Value:
        """The factor as a tensor that is known before ``op``."""
        if not is_tensor(scale.factor):
            return builders.full((), builders.scalar(_demand_number(scale), element))
        hoist(scale.factor, op)
        return builders.reshape(scale.factor, scale.shape)


def _is_candidate(op: ir.Operation) -> bool:
    """Return whether an op is elementwise, and computes in a type whose weights may be rounded again."""
    if op.name != "linalg.generic" or any(map(is_tensor, find_captures(op))):
        return False
    elements = {str(builders.element_of(v)) if is_tensor(v) else str(v.type) for v in (*op.operands, *op.results)}
    return "reduction" not in iterator_types(op) and len(elements) == 1 and elements <= {"f32", "f64"}


def _scale_constant(user: ir.Operation, number: int, scale: Scale) -> None:
    constant = user.operands[number]
    combine = scalars.div if scale.divides else scalars.mul
    user.operands[number] = combine(constant, scalars.const(_demand_number(scale), constant.type))


def _demand_number(scale: Scale) -> float:
    number = splat_of(scale.factor)
    assert number is not None, "a scalar that is no constant"
    return number
