"""Scan: an ``scf.for`` along one axis of its inputs; before opset 9 there is one for each row of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx

from ....core.sizes import Extent, may_be_equal
from ....dialects import builders, ir, scalars
from ....dialects.loops import Draft, States, at, for_loop, index, store
from ....dialects.types import element_type
from ..control.control_flow import first_accepted, iterate, no_elements, stack_elements, with_element
from ..control.loop_bodies import LoopBody, check_counts, check_dtypes, describe_change, forms_of, returned_unchanged
from ..state.context import Context
from ..state.registry import op
from ..values.forms import Form
from ..values.tensor import Tensor

Side = tuple[int, bool]  # the axis that an input is read along, or an output is made along, and whether backward


@dataclass(frozen=True)
class Walk:
    """What a scan walks over. ``lead`` is the shape of what lies around all of it: a batch, or nothing."""

    states: Sequence[Tensor]
    scanned: Sequence[Tensor]
    reads: Sequence[Side]
    writes: Sequence[Side]  # of all outputs of the body that are no states; axes without ``lead``
    steps: Extent
    lead: tuple[Extent, ...] = ()


@op("Scan", since=9)
def scan(
    ctx: Context,
    *inputs: Tensor,
    body: onnx.GraphProto,
    num_scan_inputs: int,
    scan_input_axes: Sequence[int] = (),
    scan_input_directions: Sequence[int] = (),
    scan_output_axes: Sequence[int] = (),
    scan_output_directions: Sequence[int] = (),
) -> tuple[Tensor | None, ...]:
    states, scanned = _split_inputs(ctx, inputs, num_scan_inputs, body)
    reads = _sides(ctx, "scan_input", scan_input_axes, scan_input_directions, len(scanned))
    reads = [(ctx.axis(axis, x.rank), back) for x, (axis, back) in zip(scanned, reads, strict=True)]
    writes = _sides(ctx, "scan_output", scan_output_axes, scan_output_directions, len(body.output) - len(states))
    walk = Walk(states, scanned, reads, writes, _steps(ctx, scanned, reads))
    return _run_scan(ctx, body, walk, returned_unchanged(body, [(i, i) for i in range(len(states))]))


@op("Scan", since=8)
def scan_batch(
    ctx: Context,
    lengths: Tensor | None,
    *inputs: Tensor,
    body: onnx.GraphProto,
    num_scan_inputs: int,
    directions: Sequence[int] = (),
) -> tuple[Tensor | None, ...]:
    states, scanned = _split_inputs(ctx, inputs, num_scan_inputs, body)
    if any(t.rank < 1 for t in states) or any(t.rank < 2 for t in scanned):
        ctx.invalid("states begin with the axis of the batch, scanned inputs with those of the batch and the sequence")
    sizes = [t.shape[0] for t in (*states, *scanned)]
    batch = next((n for n in sizes if isinstance(n, int)), sizes[0])
    misfit = f"its inputs have batches of different sizes, {sizes}"
    states, scanned = ([ctx.fit_shape(t, (batch, *t.shape[1:]), misfit) for t in some] for some in (states, scanned))
    if lengths is not None:
        wrong = f"sequence_lens has shape {list(lengths.shape)}, the batch is {batch}"
        if lengths.rank != 1:
            ctx.invalid(wrong)
        lengths = ctx.fit_shape(lengths, (batch,), wrong)
    reads = _sides(ctx, "scan_input", [1] * len(scanned), directions, len(scanned))
    writes = [(0, False)] * (len(body.output) - len(states))
    walk = Walk(states, scanned, reads, writes, _steps(ctx, scanned, reads), (batch,))
    known = None if lengths is None else lengths.known
    if known is not None and ((known < 0) | (known > walk.steps)).any():
        ctx.invalid(f"sequence_lens is {known.tolist()}, the sequences have {walk.steps} elements")
    return _run_scan(ctx, body, walk, [], lengths)


def _run_scan(
    ctx: Context, body: onnx.GraphProto, walk: Walk, fixed: Sequence[int], lengths: Tensor | None = None
) -> tuple[Tensor | None, ...]:
    """The node's outputs. ``fixed`` are states that no iteration changes, ``lengths`` the steps of each row."""
    count = len(walk.states)
    check_dtypes(ctx, body.input, [t.dtype for t in (*walk.states, *walk.scanned)])
    moving = [i for i in range(count) if i not in fixed]
    shown = [i for i in range(count, len(body.output)) if ctx.wants(i)]
    run = LoopBody(ctx, body, {body.input[i].name: walk.states[i] for i in fixed})
    ways = [lambda: _as_kernel(ctx, run, walk, moving, shown, lengths)]
    if not walk.lead:
        ways.append(lambda: _carried_out(ctx, run, walk, moving, shown))
    final = {i: walk.states[i] for i in fixed} | dict(zip((*moving, *shown), first_accepted(ctx, *ways), strict=True))
    return tuple(final.get(i) for i in range(len(body.output)))


def _as_kernel(
    ctx: Context, run: LoopBody, walk: Walk, moving: Sequence[int], shown: Sequence[int], lengths: Tensor | None
) -> list[Tensor]:
    """The states that move and the outputs that are shown after all steps, computed by one kernel."""
    count, lead = len(walk.states), len(walk.lead)
    states = [Form(walk.states[i].dtype, walk.states[i].shape[lead:]) for i in moving]
    pairs = zip(walk.scanned, walk.reads, strict=True)
    elements = [Form(x.dtype, (*x.shape[lead:axis], *x.shape[axis + 1 :])) for x, (axis, _) in pairs]
    draft, made = run.draft([*states, *elements], [*moving, *shown])
    if difference := describe_change(ctx, run.inputs[: len(moving)], states, forms_of(made[: len(moving)])):
        ctx.invalid(difference)
    outputs = [
        _plan_output(ctx, walk, t, walk.writes[i - count]) for i, t in zip(shown, made[len(moving) :], strict=True)
    ]
    carried = [
        *(walk.states[i].value for i in moving),
        *(_fresh(kind, shape, lengths) for _, kind, shape in outputs),
    ]
    last = _loop_over_rows(walk, draft, [side for side, *_ in outputs], carried, lengths)
    return [ctx.wrap(v, t.dtype) for v, t in zip(last, made, strict=True)]


def _carried_out(ctx: Context, run: LoopBody, walk: Walk, moving: Sequence[int], shown: Sequence[int]) -> list[Tensor]:
    """The states that move and the outputs that are shown after all steps, which the program carries out."""
    count = len(moving)
    elements: list[Tensor] = []

    def iteration(time: ir.Value, carried: Sequence[Tensor]) -> tuple[None, list[Tensor]]:
        read = [
            ctx.wrap(at(x.value, _place_step(walk.steps, time, side)), x.dtype)
            for x, side in zip(walk.scanned, walk.reads, strict=True)
        ]
        made = run.convert([*carried[:count], *read], [*moving, *shown])
        elements[:] = made[count:]
        pairs = zip(carried[count:], elements, strict=True)
        return None, [*made[:count], *(with_element(ctx, items, element) for items, element in pairs)]

    initial = [*(walk.states[i] for i in moving), *(no_elements(ctx, run.is_text(i)) for i in shown)]
    last = iterate(ctx, walk.steps, None, initial, iteration, run.inputs[:count])
    sides = [walk.writes[i - len(walk.states)] for i in shown]
    forms = [run.add_declared_extents(form, i) for form, i in zip(forms_of(elements), shown, strict=True)]
    outputs = [
        stack_elements(ctx, items, form, ctx.axis(axis, len(form.shape) + 1), back)
        for items, form, (axis, back) in zip(last[count:], forms, sides, strict=True)
    ]
    return [*last[:count], *outputs]


def _loop_over_rows(
    walk: Walk, draft: Draft, sides: Sequence[Side], carried: States, lengths: Tensor | None
) -> Sequence[ir.Value]:
    """The states and outputs after all steps of all rows; ``sides`` are those of the outputs that are carried."""
    if 0 in (walk.steps, *walk.lead):
        draft.drop()
        return carried
    if not walk.lead:
        return _scan_row(walk, draft, sides, walk.steps, {}, carried)
    states = len(carried) - len(sides)

    def iteration(row: ir.Value, old: States) -> list[ir.Value]:
        count: Extent | ir.Value = walk.steps
        if lengths is not None:  # within bounds, whatever the model is given
            count = scalars.to_index(builders.extract(lengths.value, [row]))
            count = scalars.minimum(scalars.maximum(count, index(0)), index(walk.steps))
        mine = [at(v, {0: row}) for v in old[:states]]
        made = _scan_row(walk, draft, sides, count, {0: row}, [*mine, *old[states:]])
        back = [store(v, y, {0: row}) for v, y in zip(made[:states], old[:states], strict=True)]
        return [*back, *made[states:]]

    return for_loop(walk.lead[0], carried, iteration)


def _scan_row(
    walk: Walk,
    draft: Draft,
    sides: Sequence[Side],
    count: Extent | ir.Value,
    row: dict[int, ir.Value],
    carried: States,
) -> list[ir.Value]:
    """All steps of one row; the draft makes states and elements of outputs from states and elements of inputs."""
    states = len(carried) - len(sides)

    def place(time: ir.Value, side: Side) -> dict[int, ir.Value]:
        return row | _place_step(count, time, side)

    def step(time: ir.Value, old: States) -> list[ir.Value]:
        elements = [at(x.value, place(time, side)) for x, side in zip(walk.scanned, walk.reads, strict=True)]
        made = draft.place([*old[:states], *elements])
        outs = zip(made[states:], old[states:], sides, strict=True)
        return [*made[:states], *(store(v, y, place(time, side)) for v, y, side in outs)]

    return for_loop(count, carried, step)


def _place_step(steps: Extent | ir.Value, time: ir.Value, side: Side) -> dict[int, ir.Value]:
    """Where a step reads or writes along its axis."""
    axis, back = side
    if not back or steps == 1:
        return {axis: time}
    steps = steps if isinstance(steps, ir.Value) else index(steps)
    return {axis: scalars.sub(scalars.sub(steps, index(1)), time)}


def _plan_output(ctx: Context, walk: Walk, element: Tensor, side: Side) -> tuple[Side, tuple[Extent, ...], str]:
    """Where steps write their elements of an output, and its shape and dtype."""
    axis = ctx.axis(side[0], element.rank + 1)
    shape = (*walk.lead, *element.shape[:axis], walk.steps, *element.shape[axis:])
    return (len(walk.lead) + axis, side[1]), shape, element.dtype


def _fresh(shape: Sequence[Extent], dtype: str, lengths: Tensor | None) -> ir.Value:
    """A tensor to write an output into; what lies behind the end of a sequence is 0, as onnxruntime has it."""
    if lengths is None:
        return builders.empty(shape, element_type(dtype))
    return builders.full(shape, scalars.const(0, element_type(dtype)))


def _split_inputs(
    ctx: Context, inputs: Sequence[Tensor], scanned: int, body: onnx.GraphProto
) -> tuple[list[Tensor], list[Tensor]]:
    """The initial states, and the scanned inputs."""
    if not 1 <= scanned <= len(inputs):
        ctx.invalid(f"num_scan_inputs is {scanned}, it has {len(inputs)} inputs")
    check_counts(ctx, body, len(inputs), len(inputs) - scanned)
    return list(inputs[:-scanned]), list(inputs[-scanned:])


def _sides(ctx: Context, what: str, axes: Sequence[int], directions: Sequence[int], count: int) -> list[Side]:
    """Axes and directions of ``count`` inputs or outputs; each list is all or left out."""
    for name, given in (("axes", axes), ("directions", directions)):
        if len(given) not in (0, count):
            ctx.invalid(f"{what}_{name} has {len(given)} entries for {count} {what.replace('_', ' ')}s")
    if any(d not in (0, 1) for d in directions):
        ctx.invalid(f"{what}_directions is {list(directions)}, a direction is 0 or 1")
    backward = [bool(d) for d in directions] or [False] * count
    return list(zip(axes or [0] * count, backward, strict=True))


def _steps(ctx: Context, scanned: Sequence[Tensor], reads: Sequence[Side]) -> int:
    """The length that all scanned inputs have in common."""
    lengths = [x.shape[axis] for x, (axis, _) in zip(scanned, reads, strict=True)]
    misfit = f"its scanned inputs have different lengths, {', '.join(map(str, lengths))}"
    if not all(may_be_equal([n], lengths[:1]) for n in lengths):
        ctx.invalid(misfit)
    steps = next((n for n in lengths if isinstance(n, int)), lengths[0])
    for n in lengths:
        ctx.demand_equal(n, steps, misfit)
    return steps
