"""All families of kernels, in the order in which they are asked; the first that matches has a kernel."""

from __future__ import annotations

from contextlib import suppress

from ....core.target import Target
from ....dialects import func, ir
from ...analysis.groups import OpFacts
from ...analysis.kinds import OpClass
from ...ir.structure import (
    body_ops,
    dim_of,
    has_reduction,
    indexing_maps,
    iterator_types,
    num_inputs,
    terminator_of,
)
from ..language.schedule import Schedule
from ..loop_plan import makes_one_tensor
from ..tiles.lanes import find_lanes, walks_twice
from ..tiles.regions import NotSchedulable
from ..tiles.structured import loop_along, walks_diagonal
from ..tiling.border import Border, can_border
from ..tiling.values import is_straight
from .attention import ATTENTION
from .block_sums import BLOCK_SUMS
from .contraction import CONVOLUTIONS, PRODUCTS
from .family import Anchors, Family, KernelView, WantedOrder, find_anchors
from .lane_sums import schedule_lanes
from .light import LIGHT, schedule_vectors
from .sums import DOT_PRODUCTS, REDUCTIONS, reads_along_sum, schedule_rows
from .window import DEPTHWISE_ROWS, ROW_POOLS, WINDOWS
from .winograd import PATCH_PRODUCTS, TRANSFORMS, WINOGRAD

FAMILIES = (
    LIGHT,  # no anchors
    BLOCK_SUMS,  # before reductions and products, which its two anchors are
    DOT_PRODUCTS,  # before products: those that have no vectors along columns
    REDUCTIONS,
    WINOGRAD,  # kernels of several anchors before those of one
    PATCH_PRODUCTS,
    ATTENTION,
    ROW_POOLS,  # before pools in channels last
    PRODUCTS,
    CONVOLUTIONS,
    TRANSFORMS,
    DEPTHWISE_ROWS,  # before those in channels last
    WINDOWS,
)


def find_family(anchors: Anchors) -> Family | None:
    """The family of a kernel with these anchors; None where there is none."""
    return next((family for family in FAMILIES if family.matches(anchors)), None)


def begin_group(op: ir.Operation, facts: OpFacts, target: Target) -> tuple[Family, list[ir.Operation]] | None:
    """The first family whose kernels an op can be the last anchor of, and the ops that such a kernel begins with."""
    for family in FAMILIES:
        if (members := family.begin(op, facts, target)) is not None:
            return family, members
    return None


def find_orders(op: ir.Operation, kind: OpClass, target: Target) -> list[WantedOrder]:
    """The orders of dims that the family of an op wants for its data; none where it takes any."""
    return next((orders for family in FAMILIES if (orders := family.order(op, kind, target))), [])


def choose_schedule(function: func.FuncOp, target: Target) -> Schedule | None:
    """The schedule of a kernel, decided from its shapes and the target's numbers; None for plain loops."""
    with suppress(NotSchedulable):
        return require_schedule(function, target)
    return None


def require_schedule(function: func.FuncOp, target: Target) -> Schedule:
    """``choose_schedule``; raises NotSchedulable that says why there is none."""
    if not has_nests(function):
        raise NotSchedulable("it has several results, or one without elements")
    anchors = find_anchors(function)
    family, kernel = find_family(anchors), KernelView(function, target, anchors)
    if any(_reads_diagonal(op) for op, _ in kernel.classes):
        raise NotSchedulable("it reads a diagonal")
    if family is None and len(anchors) == 1 and is_straight(anchors[0][0]):  # no tile computes another's operands anew
        return _schedule_straight(kernel, anchors[0][0])
    if family is None:
        kinds = dict.fromkeys(type(kind).__name__ for _, kind in anchors)
        raise NotSchedulable(f"no family takes a kernel of these kinds of ops: {', '.join(kinds)}")
    schedule = family.schedule(kernel)
    if schedule is None and len(anchors) == 1 and is_straight(anchors[0][0]):
        schedule = schedule_lanes(kernel, anchors[0][0])
    if schedule is None:
        raise NotSchedulable(f"its family, '{family.name}', has no schedule for such shapes or layouts")
    return schedule


def list_others(function: func.FuncOp, target: Target) -> list[Schedule]:
    """Schedules of other kinds than a kernel's own, which a search may begin with, too."""
    anchors = find_anchors(function)
    family = find_family(anchors) if has_nests(function) else None
    forms = family.forms(KernelView(function, target, anchors)) if family is not None else []
    if not forms or (own := choose_schedule(function, target)) is None:
        return []
    return [schedule for schedule in forms if schedule != own]


def _reads_diagonal(op: ir.Operation) -> bool:
    """Return whether the loop of an op's vectors, or one that it sums along, walks two dims of an operand."""
    if op.name != "linalg.generic":
        return False
    vector, kinds = loop_along(op, -1), iterator_types(op)
    if (lanes := find_lanes(op)) is not None:
        return any(walks_twice(op, number, lanes) for number in range(num_inputs(op)))
    if vector is not None and walks_diagonal(op, vector):
        return True
    alone = [[dim_of(place) for place in m.results] for m in indexing_maps(op)]
    return any(kind == "reduction" and dims.count(loop) > 1 for dims in alone for loop, kind in enumerate(kinds))


def _schedule_straight(kernel: KernelView, op: ir.Operation) -> Schedule:
    """Vectors along the result. Where they would be put together one by one, the code generator makes those of the sum.

    A product with a band of 33 numbers takes 0.3 of the time, with one of 512 0.04.
    """
    if kernel.plain.result.value.row:
        return schedule_rows(kernel)
    if has_reduction(op) and (schedule := schedule_lanes(kernel, op)) is not None:
        return schedule
    if not has_reduction(op) or not reads_along_sum(op):
        return schedule_vectors(kernel.plain, kernel.lanes)
    dear = any(inner.name.startswith("math.") for inner in body_ops(op))
    return schedule_vectors(kernel.plain, kernel.lanes if dear else 1, 1)


def has_nests(function: func.FuncOp) -> bool:
    """Return whether a kernel has one result of static shape, with at most a border that a nest can fill around it."""
    if not makes_one_tensor(function):
        return False
    border = Border.of(terminator_of(function).operands[0])
    return border.op is None or can_border(border.op)
