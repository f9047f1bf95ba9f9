"""Matrix products: MatMul, Gemm, Einsum."""

from __future__ import annotations

import string
from collections.abc import Mapping

from ....core.sizes import Extent, Sym, may_be_equal
from ....dialects import builders, scalars
from ....dialects.types import element_type
from ..primitives.products import contract, matmul
from ..state.context import Context
from ..state.registry import op
from ..values.tensor import Tensor

op("MatMul")(matmul)


def scale_tensor(ctx: Context, x: Tensor, factor: float) -> Tensor:
    """``factor x``"""
    return x if factor == 1 else ctx.elementwise(lambda v: scalars.mul(v, scalars.like(v, factor)), x)


@op("Gemm", since=7)
def gemm(
    ctx: Context,
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    """``alpha A' B' + beta C``; a transposed operand is read as it lies."""
    if a.rank != 2 or b.rank != 2 or not may_be_equal([a.shape[not transA]], [b.shape[bool(transB)]]):
        ctx.invalid(f"cannot multiply {list(a.shape)} by {list(b.shape)} with transA={transA}, transB={transB}")
    if not a.floating and (alpha % 1 or beta % 1):
        ctx.unsupported(f"alpha {alpha} and beta {beta} for dtype {a.dtype}")
    y = contract(ctx, f"{'km' if transA else 'mk'},{'nk' if transB else 'kn'}->mn", a, b)
    y = scale_tensor(ctx, y, alpha)
    if c is None or beta == 0.0:
        return y
    scale = (lambda v: v) if beta == 1.0 else (lambda v: scalars.mul(v, scalars.like(v, beta)))
    return ctx.elementwise(lambda v, w: scalars.add(v, scale(w)), y, c, shape=y.shape)


@op("Einsum", since=12)
def einsum(ctx: Context, *inputs: Tensor, equation: str) -> Tensor:
    """Operands are combined from left to right; a letter is summed as soon as nothing later needs it."""
    terms, output = _parse_equation(ctx, equation.replace(" ", ""), inputs)
    inputs = _of_one_extent(ctx, equation, terms, inputs)
    operands = [_diagonal(ctx, x, term) for x, term in zip(inputs, terms, strict=True)]
    value, term = operands[0]
    for index, (other, right) in enumerate(operands[1:], 2):
        needed = set(output).union(*(letters for _, letters in operands[index:]))
        kept = "".join(letter for letter in dict.fromkeys(term + right) if letter in needed)
        kept = output if index == len(operands) else kept
        value, term = _contract_pair(ctx, f"{term},{right}->{kept}", value, other), kept
    extra = [axis for axis, letter in enumerate(term) if letter not in output]
    if extra:
        value = ctx.reduce(scalars.add, 0, value, extra)
        term = "".join(letter for letter in term if letter in output)
    return value if term == output else ctx.transpose(value, [term.index(letter) for letter in output])


def _contract_pair(ctx: Context, spec: str, a: Tensor, b: Tensor) -> Tensor:
    """A contraction where a letter is summed, else an elementwise product."""
    terms, output = spec.split("->")
    if set(terms) - {","} != set(output):
        return contract(ctx, spec, a, b)
    aligned = []
    for x, term in zip((a, b), terms.split(","), strict=True):
        ordered = ctx.transpose(x, [term.index(letter) for letter in output if letter in term])
        aligned.append(ctx.reshape(ordered, [x.shape[term.index(c)] if c in term else 1 for c in output]))
    return ctx.elementwise(scalars.mul, *aligned)


def _parse_equation(ctx: Context, equation: str, inputs: tuple[Tensor, ...]) -> tuple[list[str], str]:
    """Terms and output with an ellipsis spelt out in letters that the equation does not use."""
    left, arrow, output = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(inputs):
        ctx.invalid(f"equation '{equation}' has {len(terms)} terms for {len(inputs)} inputs")
    free = [letter for letter in string.ascii_letters if letter not in equation]
    widths = [x.rank - len(t.replace("...", "")) for t, x in zip(terms, inputs, strict=True)]
    if any(w < 0 or (w and "..." not in t) for w, t in zip(widths, terms, strict=True)):
        ctx.invalid(f"equation '{equation}' does not fit inputs of rank {[x.rank for x in inputs]}")
    widest = max(widths, default=0)
    spelt = "".join(free[:widest])
    terms = [t.replace("...", spelt[widest - w :]) for t, w in zip(terms, widths, strict=True)]
    if not arrow:
        letters = sorted(set("".join(terms)) - set(spelt))
        output = spelt + "".join(letter for letter in letters if "".join(terms).count(letter) == 1)
    output = output.replace("...", spelt)
    if not set(output) <= set("".join(terms)) or len(set(output)) < len(output):
        ctx.invalid(f"the output of equation '{equation}' does not fit its inputs")
    return terms, output


def _of_one_extent(ctx: Context, equation: str, terms: list[str], inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The inputs, in which a letter stands for one extent, or for 1 in some; others are refused."""
    extents: dict[str, Extent] = {}
    for term, x in zip(terms, inputs, strict=True):
        for letter, extent in zip(term, x.shape, strict=True):
            known = extents.get(letter, 1)
            extents[letter] = extent if known == 1 or (isinstance(known, Sym) and isinstance(extent, int)) else known
    return tuple(_with_extents(ctx, equation, term, extents, x) for term, x in zip(terms, inputs, strict=True))


def _with_extents(ctx: Context, equation: str, term: str, extents: Mapping[str, Extent], x: Tensor) -> Tensor:
    alone = {letter for letter, n in zip(term, x.shape, strict=True) if n == 1}
    shape = [1 if letter in alone else extents[letter] for letter in term]
    wanted = {letter: n for letter, n in zip(term, shape, strict=True)}
    misfit = f"shape {list(x.shape)} does not fit term '{term}' of equation '{equation}', where it is {wanted}"
    return ctx.fit_shape(x, shape, misfit)


def _diagonal(ctx: Context, x: Tensor, term: str) -> tuple[Tensor, str]:
    """Read a repeated letter's diagonal, so that each letter of a term stands once."""
    letters = "".join(dict.fromkeys(term))
    if letters == term:
        return x, term
    shape = [x.shape[term.index(letter)] for letter in letters]
    source = x.value
    value = builders.index_map(
        shape, element_type(x.dtype), lambda *at: builders.extract(source, [at[letters.index(t)] for t in term])
    )
    return ctx.wrap(value, x.dtype), letters
