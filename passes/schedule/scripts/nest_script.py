"""The nest of a schedule as a script of the transform dialect: loops around an op that copies tiles of the result."""

from __future__ import annotations

from ....core.sizes import require_static
from ....dialects import ir, loop_script, transform, tw
from ....dialects.transform import STORE
from ....dialects.walk import defining_op
from ...ir.structure import shape_of
from ..language.loopnest import RESULT, Loop, Part
from ..language.schedule import Schedule
from ..tiles.regions import NotSchedulable
from ..tiling.border import Border
from ..tiling.forms import TileForm

# How a script finds the op that copies the result of its kernel.
STORED_RESULT = RESULT + STORE


def make_nest_script(schedule: Schedule, result: ir.Value) -> transform.Script:
    """The transform module that makes the loops of a schedule.

    Raises NotSchedulable where no op of the transform dialect makes one of them; ``nest.py`` then does.
    """
    _check_expressible(schedule, result)
    # The dims that the buffer of the result has: what lies in a border may have one element of such a dim.
    walked = zip(schedule.result.value.axes, shape_of(result), strict=True)
    named = [axis for axis, extent in walked if extent != 1] or list(schedule.result.value.axes[:1])
    axes = [axis.name for axis in named]
    with transform.sequence() as script:
        op = transform.match(script.root, attributes={tw.STAGE: ir.StringAttr.get(STORED_RESULT)})
        made: list[tuple[Loop | None, list[transform.Handle]]] = []
        parallel = schedule.result.parallel
        for loop in schedule.result.outer if parallel else (None, *schedule.result.outer):
            parts = [(axes.index(part.axis), part.step) for part in loop.parts if part.steps > 1] if loop else []
            if not parts and loop is parallel:  # calls that have none of its steps must not compute it
                parts = [(0, require_static(named[0].extent, axes[0]))]
            if parts:
                op, loops = loop_script.tile_parts(op, len(axes), parts)
                made.append((loop, loops))
        transform.annotate(op, tw.FORM, TileForm.of(schedule.result).write())
        for loop, loops in reversed(made):
            uneven = loop is not None and any(part.step > 1 and _is_uneven(part, schedule) for part in loop.parts)
            loop_script.finish_loops(loops, shared=loop is parallel, uneven=uneven)
    return script


def _check_expressible(schedule: Schedule, result: ir.Value) -> None:
    """Raise NotSchedulable, with the reason, for loops that the transform dialect does not make."""
    op = defining_op(Border.of(result).inner)
    if op is None:
        raise NotSchedulable("its result is an argument")
    if op.name != "linalg.generic":
        raise NotSchedulable(f"its result is made by {op.name}")
    if schedule.stages:
        raise NotSchedulable(f"'{schedule.stages[0].value.name}' is computed ahead")
    if not shape_of(result) or 0 in shape_of(result):
        raise NotSchedulable("its result has no loops")
    for loop in schedule.result.outer:
        if loop.overlap:
            raise NotSchedulable(f"steps of '{loop.name}' overlap")
        if len(loop.parts) > 1 and any(_is_uneven(part, schedule) for part in loop.parts):
            raise NotSchedulable(f"'{loop.name}' is several loops in one, with steps that are not equal")


def _is_uneven(part: Part, schedule: Schedule) -> bool:
    """Return whether steps of a loop, in any step of those around it, may be smaller than others."""
    around = (p for loop in schedule.result.outer for p in loop.parts if p.axis == part.axis and p.step >= part.step)
    return any(each.rest for each in around)
