"""Reductions and contractions, which accumulate narrow floats in f32. Used through ``dialects.builders``."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.sizes import Extent, Sym, has_dynamic_extents
from . import arith, extents, ir, scalars
from .broadcasting import convert_elements
from .structured import Body, MapItem, MapSpec, element_of, full, generic, scalar, shape_of


def reduce(body: Body, init: float | int, x: ir.Value, axes: Sequence[int]) -> ir.Value:
    """Reduce ``axes`` away: ``acc = body(acc, element)`` from ``init``; narrow floats accumulate in f32."""
    shape = shape_of(x)
    dropped = {axis % len(shape) for axis in axes} if shape else set()
    kept = [axis for axis in range(len(shape)) if axis not in dropped]
    acc = scalars.compute_type(element_of(x))
    out = full([shape[axis] for axis in kept], scalar(init, acc))
    iterators = "".join("r" if axis in dropped else "p" for axis in range(len(shape)))
    result = generic([x], [out], [range(len(shape)), kept], iterators, lambda a, c: body(c, scalars.widen(a)))[0]
    return convert_elements(result, element_of(x))


def contract(spec: str, a: ir.Value, b: ir.Value, elem: ir.Type | None = None) -> ir.Value:
    """A contraction in einsum's notation (``"bmk,bkn->bmn"``), with letters that name loops; sums products.

    Loops are ordered as the output's letters, then the reduced ones in the order they appear. A letter whose extent
    is 1 in one operand and larger in the other broadcasts. ``elem`` is the result's element type, the operands' by
    default.
    """
    terms, output = spec.split("->")
    left, right = terms.split(",")
    letters = list(dict.fromkeys(output + left + right))
    sizes: dict[str, Extent] = {}
    for letter, extent in zip(left + right, (*shape_of(a), *shape_of(b)), strict=True):
        before = sizes.get(letter, 1)
        if 1 not in (before, extent) and has_dynamic_extents((before, extent)):
            extents.demand_equal(before, extent, "the extents of a product differ")
        if letter not in sizes or sizes[letter] == 1 or extent == 0 or isinstance(sizes[letter], Sym):
            sizes[letter] = extent if extent != 1 or letter not in sizes else sizes[letter]
    maps = [_letters_map(letters, left, shape_of(a), sizes), _letters_map(letters, right, shape_of(b), sizes)]
    return contraction(
        (a, b),
        maps,
        [sizes[letter] for letter in output],
        [letters.index(letter) for letter in output],
        len(letters) - len(output),
        elem or element_of(a),
    )


def contraction(
    inputs: Sequence[ir.Value],
    maps: Sequence[MapSpec],
    shape: Sequence[Extent],
    out_map: MapSpec,
    reduced: int,
    elem: ir.Type,
) -> ir.Value:
    """``out += a * b`` from zero, reducing the last ``reduced`` loops; narrow floats accumulate in f32."""
    acc = scalars.compute_type(elem)
    out = full(shape, scalar(0, acc))

    def body(a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        return scalars.fma(_operand(a, acc), _operand(b, acc), c)

    result = generic(inputs, [out], [*maps, out_map], "p" * len(shape) + "r" * reduced, body)[0]
    return convert_elements(result, elem)


def _operand(value: ir.Value, acc: ir.Type) -> ir.Value:
    # Integer operands narrower than the accumulator are signed: who has unsigned ones widens them before.
    value = scalars.widen(value)
    return value if value.type == acc else arith.extsi(acc, value)


def _letters_map(letters: list[str], term: str, shape: tuple[Extent, ...], sizes: dict[str, Extent]) -> list[MapItem]:
    return [
        None if n == 1 and sizes[letter] != 1 else letters.index(letter) for letter, n in zip(term, shape, strict=True)
    ]
