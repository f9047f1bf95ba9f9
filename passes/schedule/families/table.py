"""All families of kernels, in the order in which they are asked; the first that matches has a kernel."""

from __future__ import annotations

from contextlib import suppress

from ....core.target import Target
from ....dialects import func, ir
from ...analysis.groups import OpFacts
from ...analysis.kinds import OpClass
from ...ir.structure import body_ops, terminator_of
from ..language.schedule import Schedule
from ..loop_plan import makes_one_tensor
from ..tiles.regions import NotSchedulable
from ..tiling.border import Border, can_border
from .attention import ATTENTION
from .block_sums import BLOCK_SUMS
from .contraction import CONVOLUTIONS, PRODUCTS
from .family import Anchors, Family, KernelView, WantedOrder, find_anchors
from .light import LIGHT, schedule_vectors
from .sums import DOT_PRODUCTS, REDUCTIONS
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


def find_orders(op: ir.Operation, kind: OpClass) -> list[WantedOrder]:
    """The orders of dims that the family of an op wants for its data; none where it takes any."""
    return next((orders for family in FAMILIES if (orders := family.order(op, kind))), [])


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
    if family is None and _is_straight(anchors):
        return schedule_vectors(kernel.plain, kernel.lanes)
    if family is None:
        kinds = dict.fromkeys(type(kind).__name__ for _, kind in anchors)
        raise NotSchedulable(f"no family takes a kernel of these kinds of ops: {', '.join(kinds)}")
    if (schedule := family.schedule(kernel)) is None:
        raise NotSchedulable(f"its family, '{family.name}', has no schedule for such shapes or layouts")
    return schedule


def _is_straight(anchors: Anchors) -> bool:
    """Return whether a kernel has one anchor, so that no tile computes another's operands anew, without loops in it:
    upstream's patterns end the process over a tile of such."""
    op = anchors[0][0]
    straight = op.name == "linalg.generic" and not any(len(inner.regions) for inner in body_ops(op))
    return len(anchors) == 1 and straight


def has_nests(function: func.FuncOp) -> bool:
    """Return whether a kernel has one result of static shape, with at most a border that a nest can fill around it."""
    if not makes_one_tensor(function):
        return False
    border = Border.of(terminator_of(function).operands[0])
    return border.op is None or can_border(border.op)
