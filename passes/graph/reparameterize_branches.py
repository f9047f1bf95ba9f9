"""Parallel branches of convolutions that are added become one convolution."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from typing import ClassVar

from ...dialects import builders, ir, scalars
from ...dialects.walk import defining_op
from ..infra.base import Pass
from ..ir.edit import erase_dead, fused_location, list_programs, param_values
from ..ir.edit import replace as replace_op
from ..ir.structure import dim_of, indexing_maps, is_static, list_ops, shape_of
from .rewriting.branches import Convolution, Cover, Image, Term, find_covers, find_place, is_sum, is_summand, list_terms


@dataclass(frozen=True)
class ReparameterizeBranches(Pass):
    """Add the weights of convolutions of one image whose results are added, where one window covers the others.

    Before::

        %p = tensor.pad %x low[0, 0, 1, 1] high[0, 0, 1, 1]
        %a = linalg.generic {convolution} ins(%p, %v: tensor<FxCx3x3xf32>)
        %b = linalg.generic {convolution} ins(%x, %w: tensor<FxCx1x1xf32>)
        %c = linalg.generic {add} ins(%a, %bias)
        %y = linalg.generic {add} ins(%c, %b)

    After::

        %q = tensor.insert_slice %w into %zeros[0, 0, 1, 1]                         // both computed ahead of time
        %u = linalg.generic {add} ins(%v, %q)
        %a = linalg.generic {convolution} ins(%p, %u)
        %y = linalg.generic {add} ins(%a, %bias)

    Networks are trained with such branches (RepVGG, MobileOne, RepViT; "structural re-parameterization", Ding et al.,
    2021) and are often exported with them. Any strides, windows along one to three axes, dilations and paddings are
    taken whose elements are among those of the largest window; biases are added ahead of time. The image itself, or
    a batch normalisation of it, joins a depthwise convolution: to a dense one, which Winograd's transforms may compute,
    a weight that is so much larger than the others would cost precision.

    A branch with another reader stays, as do convolutions in groups, and element types other than f32 and f64.
    """

    name: ClassVar[str] = "reparameterize-branches"
    opt_level: ClassVar[int] = 2

    def apply(self, module: ir.Module) -> None:
        """Merge the branches of all programs."""
        for function in list_programs(module):
            weights = param_values(function)
            for op in list_ops(function):
                if is_sum(op) and not is_summand(op):
                    _merge_sum(op, weights)
            erase_dead(function)


def _merge_sum(root: ir.Operation, weights: Set[ir.Value]) -> None:
    """Make the branches of a sum that one of them covers one convolution."""
    terms = list_terms(root, weights)
    covers = find_covers(terms)
    if not covers:
        return
    merged = [term for cover in covers for term in cover.terms]
    sources = [source for term in merged if (source := defining_op(term.value)) is not None]
    with ir.InsertionPoint(root), fused_location([root, *sources]):
        values = [Term(_emit_convolution(cover), indexing_maps(root)[-1]) for cover in covers]
        shifts = [Term(*term.shift) for term in merged if term.shift is not None]
        rest = [term for term in terms if term not in merged]
        replace_op(root, [_emit_sum(root, [*values, *shifts, *rest], weights)])


def _emit_convolution(cover: Cover) -> ir.Value:
    """The covering convolution with the weights of all."""
    base, total = cover.base, cover.base.weight
    for term in cover.terms:
        if term.branch is not None and term.branch != base:
            other = _emit_weight(base, term.branch)
            total = builders.elementwise(scalars.add, total, other, elem=builders.element_of(total))
    made = base.op.clone()
    made.operands[base.kind.weight] = total
    return made.results[0]


def _emit_weight(base: Convolution, other: Convolution | Image) -> ir.Value:
    """The weight of a branch in a window of zeros as large as the covering one's."""
    shape, element = shape_of(base.weight), builders.element_of(base.weight)
    loops = [dim_of(e) for e in indexing_maps(base.op)[base.kind.weight].results]
    if isinstance(other, Convolution):
        weight = other.weight
    else:
        own = [1 if loop in base.kind.k else n for n, loop in zip(shape, loops, strict=True)]
        ones = builders.full(own, scalars.const(1.0, element))
        weight = ones if other.factor is None else builders.reshape(other.factor, own)
    found = find_place(base, other)
    assert found is not None, "a branch that is not covered"
    places = dict(zip(base.kind.k, found, strict=True))
    starts, steps = zip(*((0, 1) if loop is None else places.get(loop, (0, 1)) for loop in loops), strict=True)
    return builders.insert(weight, builders.full(shape, scalars.const(0.0, element)), starts, steps)


def _emit_sum(root: ir.Operation, terms: Sequence[Term], weights: Set[ir.Value]) -> ir.Value:
    """The sum of all terms; biases that are read alike are added first, ahead of time."""
    out, element = indexing_maps(root)[-1], builders.element_of(root.results[0])
    known, biases = [t for t in terms if t.value in weights and is_static(t.value)], list[Term]()
    for term in known:
        alike = (i for i, t in enumerate(biases) if t.m == term.m and shape_of(t.value) == shape_of(term.value))
        if (i := next(alike, None)) is None:
            biases.append(term)
        else:
            biases[i] = replace(
                term, value=builders.elementwise(scalars.add, biases[i].value, term.value, elem=element)
            )
    first, *others = [t for t in terms if t not in known]
    total = first.value
    for term in (*biases, *others):
        operands, maps = [total, term.value], [out, term.m, out]
        [total] = builders.generic(
            operands, [root.operands[-1]], maps, "p" * out.n_dims, lambda a, b, _: scalars.add(a, b)
        )
    return total
