"""Loop: ``scf.for`` where the number of iterations is known before they begin, ``scf.while`` where it is not.

It is unrolled at import where neither is possible: where its carried values change their shapes, or where its body can
be converted only if the iteration's number is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from ....core.sizes import Extent, Sym, max_of
from ....dialects import builders, ir, scalars
from ....dialects.loops import Draft, States, for_loop, index, store, while_loop
from ....dialects.types import element_type
from ..control.control_flow import (
    first_accepted,
    iterate,
    no_elements,
    only_element,
    stack_elements,
    with_element,
)
from ..control.loop_bodies import LoopBody, check_counts, check_dtypes, describe_change, forms_of, returned_unchanged
from ..control.ranks import demand_ranked
from ..state.context import Context
from ..state.refusals import Unsupported
from ..state.registry import op
from ..values.forms import Form
from ..values.tensor import Tensor

MOST_UNROLLED = 64  # iterations
MOST_ELEMENTS = 1 << 40  # of a carried value
RUN_TIME = "the number of iterations is known only at run time"

Outputs = dict[int, Tensor]  # by their position among the body's outputs


@dataclass(frozen=True)
class Run:
    """One Loop. ``limit`` is the most iterations where that is known, ``begins`` is its condition where it is known."""

    ctx: Context
    body: LoopBody  # takes the iteration's number, then the carried values that it changes
    trip: Tensor | None
    condition: Tensor | None
    limit: int | None
    begins: bool | None
    number_shape: tuple[int, ...]  # of the iteration's number, an int64
    names: Sequence[str]  # of the carried values that it changes
    moving: Mapping[int, Tensor]  # initial values, by the body's output that replaces them
    shown: Sequence[int]  # the body's outputs that become scan outputs

    @property
    def outputs(self) -> list[int]:
        """What an iteration has to compute: its condition, the carried values, the elements of scan outputs."""
        return [0, *self.moving, *self.shown]


@op("Loop")
def loop(
    ctx: Context, trip: Tensor | None, condition: Tensor | None, *initial: Tensor, body: onnx.GraphProto
) -> tuple[Tensor | None, ...]:
    _check_inputs(ctx, trip, condition, initial, body)
    limit = None if trip is None or trip.known is None else max(0, int(trip.known.reshape(-1)[0]))
    begins = True if condition is None else _truth(condition)
    count = len(initial)
    shown = [i for i in range(1 + count, len(body.output)) if ctx.wants(i - 1)]
    if (limit == 0 or begins is False) and not shown:
        return initial
    fixed = returned_unchanged(body, [(2 + i, 1 + i) for i in range(count)])
    given = {body.input[2 + i].name: initial[i] for i in fixed}
    given[body.input[1].name] = ctx.const(np.ones(_shape(body.input[1]), bool))  # in the body it holds
    moving = {1 + i: tensor for i, tensor in enumerate(initial) if i not in fixed}
    whole = LoopBody(ctx, body, given)
    run = Run(ctx, whole, trip, condition, limit, begins, _shape(body.input[0]), whole.inputs[1:], moving, shown)
    made = dict(enumerate(initial, 1)) | _iterate(run)
    return tuple(made.get(i) for i in range(1, len(body.output)))


def _iterate(run: Run) -> Outputs:
    if run.limit == 0 or run.begins is False:
        return _no_iteration(run)
    ways = [lambda: _loop_in_kernel(run), lambda: _unroll(run), lambda: _carried_out(run)]
    if run.limit == 1:
        ways = ways[1:]
    if not run.begins:
        ways.remove(ways[-2])
    return first_accepted(run.ctx, *ways)


def _no_iteration(run: Run) -> Outputs:
    """The initial values, and scan outputs without elements: an iteration is converted for their types alone."""
    made = run.body.types([Form("int64", run.number_shape), *forms_of(list(run.moving.values()))], run.shown)
    declared = [run.body.add_declared_extents(form, i) for form, i in zip(made, run.shown, strict=True)]
    shapes = [(0, *(n if isinstance(n, int) else 0 for n in form.shape)) for form in declared]
    return {
        i: run.ctx.const(np.empty(shape), form.dtype) for i, shape, form in zip(run.shown, shapes, made, strict=True)
    }


def _loop_in_kernel(run: Run) -> Outputs:
    """One kernel. Refuses what changes its shape, and scan outputs of a length that only the iterations tell."""
    ctx, before = run.ctx, forms_of(list(run.moving.values()))
    draft, [go, *made] = run.body.draft([Form("int64", run.number_shape), *before], run.outputs)
    try:
        if difference := describe_change(ctx, run.names, before, forms_of(made[: len(before)])):
            ctx.unsupported(difference)
        count = _find_count(run, go)
        if count is None and run.shown:
            ctx.unsupported(RUN_TIME)
        if isinstance(count, Sym):
            run.body.refuse_long(draft)
        _refuse_endless(run, go)
    except Unsupported:
        draft.drop()
        raise
    elements = made[len(before) :]
    outs = [builders.empty((0 if count is None else count, *t.shape), element_type(t.dtype)) for t in elements]
    values = _emit_loop(run, draft, go, count, [*(t.value for t in run.moving.values()), *outs])
    return {i: ctx.wrap(v, t.dtype) for i, v, t in zip(run.outputs[1:], values, made, strict=True)}


def _carried_out(run: Run) -> Outputs:
    """A loop that the program carries out: values may change their sizes, and be no tensors."""
    ctx, count = run.ctx, len(run.moving)
    elements: list[Tensor] = []

    def iteration(at: ir.Value, carried: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
        number = _emit_number(run, at)
        go, *made = run.body.convert([ctx.wrap(number, "int64"), *carried[:count]], run.outputs)
        _refuse_endless(run, go)
        elements[:] = made[count:]
        pairs = zip(carried[count:], elements, strict=True)
        return go, [*made[:count], *(with_element(ctx, items, element) for items, element in pairs)]

    limit = run.limit if run.limit is not None or run.trip is None else scalars.to_index(_scalar(run.trip.value))
    begins = None if run.begins or run.condition is None else only_element(run.condition.value)
    initial = [*run.moving.values(), *(no_elements(ctx, run.body.is_text(i)) for i in run.shown)]
    last = iterate(ctx, limit, begins, initial, iteration, run.names)
    forms = [run.body.add_declared_extents(form, i) for form, i in zip(forms_of(elements), run.shown, strict=True)]
    shown = [stack_elements(ctx, items, form) for items, form in zip(last[count:], forms, strict=True)]
    return dict(zip(run.outputs[1:], [*last[:count], *shown], strict=True))


def _emit_number(run: Run, at: ir.Value) -> ir.Value:
    """The number of the iteration as its body takes it."""
    return builders.full(run.number_shape, scalars.from_index(at, element_type("int64")))


def _refuse_endless(run: Run, go: Tensor) -> None:
    if run.trip is None and run.begins and _truth(go):
        run.ctx.invalid("it has no trip count, and its condition always holds: it does not end")


def _find_count(run: Run, go: Tensor) -> Extent | None:
    """The number of iterations, or None where only the iterations tell it; ``go`` is the condition for the next."""
    if run.begins and _truth(go) is False:
        return None if run.limit is None and run.trip is not None else 1
    if not run.begins or not _truth(go):
        return None
    if run.limit is not None or run.trip is None or run.ctx.graph.in_kernel or not run.shown:
        return run.limit
    [trip] = run.ctx.sizes(run.ctx.reshape(run.trip, [1]), "M")
    return max_of(trip, 0)


def _emit_loop(run: Run, draft: Draft, go: Tensor, count: Extent | None, carried: States) -> list[ir.Value]:
    states = len(run.moving)

    def step(i: ir.Value, old: States) -> tuple[ir.Value, list[ir.Value]]:
        goes, *made = draft.place([_emit_number(run, i), *old[:states]])
        outs = [store(v, y, {0: i}) for v, y in zip(made[states:], old[states:], strict=True)]
        return goes, [*made[:states], *outs]

    if count is not None:
        return for_loop(count, carried, lambda i, old: step(i, old)[1])
    limit = None if run.trip is None else scalars.to_index(_scalar(run.trip.value))
    if run.begins and _truth(go) and limit is not None:
        return for_loop(limit, carried, lambda i, old: step(i, old)[1])
    begins = scalars.bool_constant(True) if run.condition is None else only_element(run.condition.value)

    def guarded_step(i: ir.Value, old: States) -> tuple[ir.Value, list[ir.Value]]:
        goes, made = step(i, old)
        return only_element(goes), made

    return while_loop(limit, begins, carried, guarded_step)


def _unroll(run: Run) -> Outputs:
    """All iterations one after another, each with what is known of its values."""
    draft = Draft([])
    with draft.insertion_point():
        values, elements = _iterations(run)
        stacked = [_stack(run.ctx, items) for items in elements]
    draft.place([])
    return dict(zip(run.outputs[1:], [*values, *stacked], strict=True))


def _iterations(run: Run) -> tuple[list[Tensor], list[list[Tensor]]]:
    """The carried values after the last iteration, and for each scan output its elements."""
    ctx, values = run.ctx, list(run.moving.values())
    elements: list[list[Tensor]] = [[] for _ in run.shown]
    if run.trip is not None and run.limit is None:
        ctx.unsupported(RUN_TIME)
    for i in range(MOST_UNROLLED):
        number = ctx.const(np.full(run.number_shape, i), "int64")
        go, *made = run.body.convert([number, *values], run.outputs)
        before, values = values, made[: len(values)]
        describe_change(ctx, run.names, forms_of(before), forms_of(values))
        if any(isinstance(t.size, int) and t.size > MOST_ELEMENTS for t in values):
            ctx.unsupported("its carried values grow beyond all memory before it ends")
        for items, element in zip(elements, made[len(values) :], strict=True):
            items.append(element)
        if run.limit == i + 1 or _truth(go) is False:
            return values, elements
        if _truth(go) is None:
            ctx.unsupported(RUN_TIME)
    ctx.unsupported(f"it takes more than {MOST_UNROLLED} iterations")


def _stack(ctx: Context, items: Sequence[Tensor]) -> Tensor:
    """The elements of all iterations along a new first axis."""
    demand_ranked(ctx, items, "an element of a scan output")
    items = _demand_alike(ctx, items)
    if all(t.known is not None for t in items):
        return ctx.const(np.stack([t.known for t in items if t.known is not None]), items[0].dtype)
    rows = [ctx.reshape(t, (1, *t.shape)).value for t in items]
    return ctx.wrap(builders.concat(rows, 0), items[0].dtype)


def _demand_alike(ctx: Context, items: Sequence[Tensor]) -> Sequence[Tensor]:
    """The elements, which have to have one shape and dtype."""
    forms, misfit = set(forms_of(items)), "the elements of a scan output have different shapes or dtypes"
    if len(forms) < 2:
        return items
    if len({form.dtype for form in forms}) > 1 or any(form.held for form in forms):
        ctx.invalid(misfit)
    shape = items[0].shape
    for item in items[1:]:
        shape = ctx.fit_shape(item, shape, misfit).shape
    return [ctx.fit_shape(item, shape, misfit) for item in items]


def _check_inputs(
    ctx: Context, trip: Tensor | None, condition: Tensor | None, initial: Sequence[Tensor], body: onnx.GraphProto
) -> None:
    for name, tensor in (("M", trip), ("cond", condition)):
        if tensor is not None and tensor.size != 1:
            ctx.invalid(f"input '{name}' has {tensor.size} elements, it must have one")
    check_counts(ctx, body, 2 + len(initial), 1 + len(initial), unseen=1)
    check_dtypes(ctx, body.input[2:], [t.dtype for t in initial])


def _shape(declared: onnx.ValueInfoProto) -> tuple[int, ...]:
    """The shape of the iteration's number or of the condition in a body: a scalar, or one element."""
    return (1,) * (len(declared.type.tensor_type.shape.dim) == 1)


def _truth(condition: Tensor) -> bool | None:
    return None if condition.known is None else bool(condition.known.reshape(-1)[0])


def _scalar(tensor: ir.Value) -> ir.Value:
    return builders.extract(tensor, [index(0)] * len(builders.shape_of(tensor)))
