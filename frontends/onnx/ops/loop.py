"""Loop: ``scf.for`` where the number of iterations is known before they begin, ``scf.while`` where it is not.

It is unrolled at import where neither is possible: where its carried values change their shapes, or where its body can
be converted only if the iteration's number is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from ....dialects import builders, ir, scalars
from ....dialects.types import element_type
from ..bodies import Body, Kind, changed, check_counts, check_dtypes, kinds_of, returned_unchanged
from ..context import Context, Unsupported
from ..loops import Draft, Values, counted, guarded, index, stored
from ..registry import op
from ..tensor import Tensor

MOST_UNROLLED = 64  # iterations
RUN_TIME = "the number of iterations is known only at run time"

Outputs = dict[int, Tensor]  # by their position among the body's outputs


@dataclass(frozen=True)
class Run:
    """One Loop. ``limit`` is the most iterations where that is known, ``begins`` is its condition where it is known."""

    ctx: Context
    body: Body  # takes the iteration's number, then the carried values that it changes
    trip: Tensor | None
    condition: Tensor | None
    limit: int | None
    begins: bool | None
    number: Kind
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
    _check(ctx, trip, condition, initial, body)
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
    number = ("int64", _shape(body.input[0]))
    run = Run(ctx, Body(ctx, body, given), trip, condition, limit, begins, number, moving, shown)
    made = dict(enumerate(initial, 1)) | _iterated(run)
    return tuple(made.get(i) for i in range(1, len(body.output)))


def _iterated(run: Run) -> Outputs:
    if run.limit == 0 or run.begins is False:
        return _no_iteration(run)
    if not run.begins:
        return _looped(run)
    if run.limit == 1:
        return _unrolled(run)
    refusals = run.ctx.graph.refusals
    before = refusals.copy()
    try:
        return _looped(run)
    except Unsupported as refusal:
        said = refusals.copy()
        refusals.restore(before)
        try:
            return _unrolled(run)
        except Unsupported:
            refusals.restore(said)
            raise refusal from None


def _no_iteration(run: Run) -> Outputs:
    """The initial values, and scan outputs without elements: an iteration is converted for their types alone."""
    draft, made = run.body.draft([run.number, *kinds_of(list(run.moving.values()))], run.shown)
    draft.drop()
    return {i: run.ctx.const(np.empty((0, *t.shape)), t.dtype) for i, t in zip(run.shown, made, strict=True)}


def _looped(run: Run) -> Outputs:
    """One loop in the IR. Refuses what changes its shape, and scan outputs of a length that is not known."""
    ctx, before = run.ctx, kinds_of(list(run.moving.values()))
    draft, [go, *made] = run.body.draft([run.number, *before], run.outputs)
    try:
        if difference := changed(ctx, run.body.inputs[1:], before, kinds_of(made[: len(before)])):
            ctx.unsupported(difference)
        count = _static_count(run, go)
        if count is None and run.shown:
            ctx.unsupported(RUN_TIME)
        if count is None and run.trip is None and run.begins and _truth(go):
            ctx.invalid("it has no trip count, and its condition always holds: it does not end")
    except Unsupported:
        draft.drop()
        raise
    elements = made[len(before) :]
    outs = [builders.empty((count or 0, *t.shape), element_type(t.dtype)) for t in elements]
    values = _emitted(run, draft, go, count, [*(t.value for t in run.moving.values()), *outs])
    return {i: ctx.wrap(v, t.dtype) for i, v, t in zip(run.outputs[1:], values, made, strict=True)}


def _static_count(run: Run, go: Tensor) -> int | None:
    """The number of iterations, or None where it is known only at run time; ``go`` is the condition for the next."""
    if run.begins and _truth(go) is False:
        return None if run.limit is None and run.trip is not None else 1
    return run.limit if run.begins and _truth(go) else None


def _emitted(run: Run, draft: Draft, go: Tensor, count: int | None, carried: Values) -> list[ir.Value]:
    states = len(run.moving)

    def step(i: ir.Value, old: Values) -> tuple[ir.Value, list[ir.Value]]:
        number = builders.full(run.number[1], scalars.from_index(i, element_type(run.number[0])))
        goes, *made = draft.place([number, *old[:states]])
        outs = [stored(v, y, {0: i}) for v, y in zip(made[states:], old[states:], strict=True)]
        return goes, [*made[:states], *outs]

    if count is not None:
        return counted(count, carried, lambda i, old: step(i, old)[1])
    limit = None if run.trip is None else scalars.to_index(_scalar(run.trip.value))
    if run.begins and _truth(go) and limit is not None:
        return counted(limit, carried, lambda i, old: step(i, old)[1])
    begins = scalars.const(1, ir.IntegerType.get_signless(1)) if run.condition is None else _goes(run.condition.value)

    def guarded_step(i: ir.Value, old: Values) -> tuple[ir.Value, list[ir.Value]]:
        goes, made = step(i, old)
        return _goes(goes), made

    return guarded(limit, begins, carried, guarded_step)


def _unrolled(run: Run) -> Outputs:
    """All iterations one after another, each with what is known of its values."""
    draft = Draft([])
    with draft.filling():
        values, elements = _iterations(run)
        stacked = [_stacked(run.ctx, items) for items in elements]
    draft.place([])
    return dict(zip(run.outputs[1:], [*values, *stacked], strict=True))


def _iterations(run: Run) -> tuple[list[Tensor], list[list[Tensor]]]:
    """The carried values after the last iteration, and for each scan output its elements."""
    ctx, values = run.ctx, list(run.moving.values())
    elements: list[list[Tensor]] = [[] for _ in run.shown]
    for i in range(MOST_UNROLLED):
        number = ctx.const(np.full(run.number[1], i), run.number[0])
        go, *made = run.body.convert([number, *values], run.outputs)
        before, values = values, made[: len(values)]
        changed(ctx, run.body.inputs[1:], kinds_of(before), kinds_of(values))
        for items, element in zip(elements, made[len(values) :], strict=True):
            items.append(element)
        if run.limit == i + 1 or _truth(go) is False:
            return values, elements
        if _truth(go) is None:
            ctx.unsupported(RUN_TIME)
    ctx.unsupported(f"it takes more than {MOST_UNROLLED} iterations")


def _stacked(ctx: Context, items: Sequence[Tensor]) -> Tensor:
    """The elements of all iterations along a new first axis."""
    kinds = set(kinds_of(items))
    if len(kinds) > 1:
        ctx.invalid("the elements of a scan output have different shapes or dtypes")
    if all(t.known is not None for t in items):
        return ctx.const(np.stack([t.known for t in items if t.known is not None]), items[0].dtype)
    rows = [ctx.reshape(t, (1, *t.shape)).value for t in items]
    return ctx.wrap(builders.concat(rows, 0), items[0].dtype)


def _check(
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


def _goes(condition: ir.Value) -> ir.Value:
    """The only element of a condition as an i1."""
    return scalars.truth(_scalar(condition))


def _scalar(tensor: ir.Value) -> ir.Value:
    return builders.extract(tensor, [index(0)] * len(builders.shape_of(tensor)))
