"""Where control flow runs: as one kernel, or carried out by the program, for values of changing sizes or no tensors.

Kernels never allocate, the program may. The ops that it carries out are marked; ``outline-control`` takes them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from math import prod
from typing import Any, TypeVar

from ....core.errors import UnsupportedError
from ....core.sizes import Extent, Sym, symbols_of
from ....dialects import builders, extents, ir, scalars, scf, tw
from ....dialects.loops import Draft, index, while_loop
from ....dialects.types import DYNAMIC, element_bits, element_type
from ..state.context import Context
from ..state.refusals import Unsupported
from ..values.forms import Form
from ..values.objects import OPTIONAL, SEQUENCE, TEXT, Element, element_of
from ..values.tensor import Tensor
from .ranks import Forms, demand_ranked, join_forms, known_of

_BEYOND_KERNELS = "it calls the host, or has values of changing sizes, inside of what is one kernel"
# Bytes that the ops of a branch, or of an iteration, read and write. In a kernel these have one thread, and weights as
# the model has them. For less, more kernels cost more than they gain.
MOST_IN_KERNEL = 1 << 20
Made = TypeVar("Made")
# Of the number of the iteration and the carried values before it: whether another one follows, and the values after it.
Iteration = Callable[[ir.Value, Sequence[Tensor]], tuple[Tensor | None, Sequence[Tensor]]]


def first_accepted(ctx: Context, *ways: Callable[[], Made]) -> Made:
    """What the first way makes that is not refused; of refusals the last way's count. A program's own comes last."""
    refusals = ctx.graph.refusals
    before = refusals.copy()
    for way in ways[:-1]:
        try:
            return way()
        except (Unsupported, UnsupportedError):
            refusals.restore(before)
    return ways[-1]()


@contextmanager
def filling_kernel(ctx: Context, draft: Draft, dynamic: bool = False) -> Iterator[None]:
    """Fill a draft that becomes part of one kernel; refuses what only a program can do.

    ``dynamic``: it may take and give tensors of sizes that only the run knows, but that are known ahead of the kernel.
    """
    around, ctx.graph.in_kernel = ctx.graph.in_kernel, True
    known = extents.names()
    try:
        with draft.insertion_point():
            yield
            values = (*draft.arguments, *draft.results)
            fits = all(_has_size(value, known if dynamic else ()) for value in values)
            if not fits or draft.find_ops(_is_no_kernel):
                ctx.unsupported(_BEYOND_KERNELS)
    finally:
        ctx.graph.in_kernel = around


def refuse_in_kernel(ctx: Context) -> None:
    """Leave it to the control flow around to be carried out by the program as well."""
    if ctx.graph.in_kernel:
        ctx.unsupported(_BEYOND_KERNELS)


def _has_size(value: ir.Value, known: Collection[str]) -> bool:
    """Whether a value is a tensor of a size that is known, in symbols of these at most."""
    if isinstance(value.type, ir.NoneType):
        return False
    return all(symbols_of(n).issubset(known) for n in extents.recall_shape(value) if isinstance(n, Sym))


def count_traffic(draft: Draft) -> int:
    """The bytes that the structured ops of a draft read and write, with one element along axes of open sizes."""
    ops = draft.find_ops(lambda op: op.name == "linalg.generic")
    kinds = [ir.ShapedType(v.type) for op in ops for v in op.operands if isinstance(v.type, ir.ShapedType)]
    return sum(
        prod(1 if n == DYNAMIC else n for n in kind.shape) * element_bits(kind.element_type) // 8 for kind in kinds
    )


def _is_no_kernel(op: ir.Operation) -> bool:
    return op.name in ("func.call", "cf.assert") or tw.CONTROL in op.attributes


def emit_branches(ctx: Context, condition: ir.Value, ways: Sequence[Callable[[], Sequence[Tensor]]]) -> list[Tensor]:
    """What the first of two ways makes where the condition (an i1) holds, else the second."""
    refuse_in_kernel(ctx)
    known = extents.names()
    drafts: list[Draft] = []
    made: list[Forms] = []
    with ExitStack() as undo:
        for way in ways:
            draft = Draft([])
            with draft.insertion_point():
                tensors = way()
                draft.results = [t.value for t in tensors]
            undo.callback(draft.drop)
            drafts.append(draft)
            made.append(known_of(tensors))
        first, second = made
        forms = join_forms(ctx, first, second, known, lambda _, a, b: f"its branches give {a} and {b}")
        undo.pop_all()
    whole: Any = scf.IfOp(condition, forms.types, has_else=True)
    whole.operation.attributes[tw.CONTROL] = ir.UnitAttr.get()
    for draft, block in zip(drafts, (whole.then_block, whole.else_block), strict=True):
        with ir.InsertionPoint(block):
            scf.YieldOp(forms.cast(ctx, draft.place([])))
    return forms.wrap(ctx, whole.results)


def iterate(
    ctx: Context,
    limit: Extent | ir.Value | None,
    begins: ir.Value | None,
    initial: Sequence[Tensor],
    iteration: Iteration,
    names: Sequence[str] = (),
) -> list[Tensor]:
    """The carried values after the last iteration: below the limit, and while the condition (an i1) holds.

    An iteration is converted again with less that is known of the values until that holds after it as before it.
    ``names`` are those of the carried values, as far as they have any.
    """
    refuse_in_kernel(ctx)
    if not initial:
        return []
    forms, known = known_of(initial), extents.names()
    while True:
        draft = Draft([ir.IndexType.get(), *forms.types])
        with draft.insertion_point():
            at, *carried = draft.arguments
            go, made = iteration(at, forms.wrap(ctx, carried))
            pairs = zip(initial, made, strict=True)
            made = [_as_optional(ctx, after) if before.dtype == OPTIONAL else after for before, after in pairs]
            demand_ranked(ctx, [go] if go is not None else [], "its condition")
            goes = scalars.bool_constant(True) if go is None else only_element(go.value)
            draft.results = [goes, *(t.value for t in made)]
            after = join_forms(ctx, forms, known_of(made), known, partial(_difference, names))
        if after == forms:
            break
        draft.drop()
        forms = after

    def step(at: ir.Value, old: Sequence[ir.Value]) -> tuple[ir.Value, list[ir.Value]]:
        goes, *new = draft.place([at, *old])
        return goes, forms.cast(ctx, new)

    states = forms.cast(ctx, [t.value for t in initial])
    last = while_loop(
        index(limit) if isinstance(limit, int | Sym) else limit, begins or scalars.bool_constant(True), states, step
    )
    last[0].owner.operation.attributes[tw.CONTROL] = ir.UnitAttr.get()
    return forms.wrap(ctx, last)


def _difference(names: Sequence[str], i: int, before: Form, after: Form) -> str:
    """What an iteration changes about a carried value, in words."""
    name = f"the carried value '{names[i]}'" if i < len(names) else "a scan output"
    return f"{name} is {before} before an iteration and {after} after it"


def _as_optional(ctx: Context, value: Tensor) -> Tensor:
    """A value as an optional that holds it; what was one may be replaced by what it held."""
    if value.dtype == OPTIONAL:
        return value
    demand_ranked(ctx, [value], "what a carried optional holds")
    return ctx.host("optional", [value], Element(OPTIONAL, None, element_of(value)))[0]


def no_elements(ctx: Context, text: bool = False) -> Tensor:
    """The elements of a scan output before the first iteration; ``text``: the host holds them."""
    function = "sequence" if text else "collect.none"
    return ctx.host(function, [], Element(SEQUENCE, None, Element("", empty=True)))[0]


def with_element(ctx: Context, elements: Tensor, element: Tensor) -> Tensor:
    """The elements of a scan output and another one."""
    demand_ranked(ctx, [element], "an element of a scan output")
    function = "SequenceInsert" if element.dtype == TEXT else "collect.one"
    return ctx.host(function, [elements, element], Element(SEQUENCE, None, element_of(element)))[0]


def stack_elements(ctx: Context, elements: Tensor, like: Form, axis: int = 0, backward: bool = False) -> Tensor:
    """All elements of a scan output along a new axis (not negative); if there are none, open extents are 0."""
    if like.held is not None and like.held.rank is None:
        ctx.unsupported(f"the rank of an element of a scan output, which is {like}, is not known")
    sizes = like.shape if like.held is None else [0] * (like.held.rank or 0)
    shape = [n if isinstance(n, int) else 0 for n in sizes]
    shape.insert(axis, 0)
    result = Element(like.dtype, len(shape))
    if like.dtype == TEXT:
        facts = {"axis": axis, "backward": backward, "shape": shape, "dtype": like.dtype}
        return ctx.host("stack", [elements], result, **facts)[0]
    [made] = ctx.host("collect.all", [elements], result, shape=[0, *shape[:axis], *shape[axis + 1 :]])
    if backward:
        made = _turn_round(ctx, made)
    return ctx.transpose(made, [*range(1, axis + 1), 0, *range(axis + 1, len(shape))])


def _turn_round(ctx: Context, x: Tensor) -> Tensor:
    """The elements along the first axis, the last one first."""

    def body(first: ir.Value, *others: ir.Value) -> ir.Value:
        return builders.extract(x.value, [scalars.sub(index(x.shape[0] - 1), first), *others])

    return ctx.wrap(builders.index_map(x.shape, element_type(x.dtype), body), x.dtype)


def only_element(condition: ir.Value) -> ir.Value:
    """The only element of a condition as an i1."""
    return scalars.truth(builders.extract(condition, [index(0)] * len(builders.shape_of(condition))))
