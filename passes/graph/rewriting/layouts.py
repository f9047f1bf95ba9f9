"""Which layout each value gets, as data; ``convert-layout`` applies it."""

from __future__ import annotations

from collections.abc import Sequence, Set
from itertools import pairwise

from ....core.target import Target
from ....dialects import func, ir
from ...analysis.classify import classify_op
from ...analysis.kinds import Contraction
from ...ir.edit import param_values
from ...ir.maps import permutation_of, reassociation_of
from ...ir.routine_ops import VIEWS
from ...ir.structure import dims_in, indexing_maps, is_tensor, is_zero, list_ops, num_inputs, shape_of, terminator_of
from ...ir.uses import find_captures
from ...schedule.families.channels_first import copies_windows
from ...schedule.families.family import WantedOrder
from ...schedule.families.table import find_orders

Order = tuple[int, ...]

# Ops of one rank throughout, and their lists that have an entry for each dim.
DIM_LISTS = {
    "tensor.pad": ("static_low", "static_high"),
    "tensor.extract_slice": ("static_offsets", "static_sizes", "static_strides"),
    "tensor.insert_slice": ("static_offsets", "static_sizes", "static_strides"),
    "tensor.concat": (),
    "tensor.empty": (),
    "linalg.fill": (),
    "arith.select": (),
}


class Layouts:
    """Values in groups that share a layout (union-find), and the layout that a convolution wants of some of them."""

    def __init__(self, function: func.FuncOp, target: Target, conv2d: str = "") -> None:
        self.target, self.conv2d = target, conv2d
        self.asked: list[tuple[ir.Operation, ir.Value, Order]] = []  # what each 2-D convolution wants
        self.parent: dict[ir.Value, ir.Value] = {}
        self.seeds: dict[ir.Value, Order] = {}
        self.light: dict[ir.Value, Order] = {}  # seeds that are not worth converting a program's input for
        self.inside: list[list[WantedOrder]] = []  # what ops want that have schedules for channels first, too
        self.views: list[tuple[ir.Value, ir.Value, list[list[int]]]] = []
        self.merged: list[ir.Value] = []  # values of which a view has channels and pixels in one dim
        self.free: list[WantedOrder] = []  # what products by pixels may have
        self.turned: list[tuple[ir.Value, Order]] = []  # values that a transpose makes or reads, and its order
        self.weights = param_values(function)
        for op in list_ops(function):
            self._visit(op)
        self._seed_inside([*function.arguments, *terminator_of(function).operands])
        given = {self._find(argument) for argument in function.arguments if argument in self.parent}
        self._seed_turned(given)
        self.seeds |= {value: order for value, order in self.light.items() if self._find(value) not in given}

    def decide(self) -> dict[ir.Value, Order]:
        """The layout of each value that does not keep the identity. A group whose seeds disagree keeps it."""
        wanted: dict[ir.Value, set[Order]] = {}
        for value, order in self.seeds.items():
            wanted.setdefault(self._find(value), set()).add(order)
        orders = {root: next(iter(o)) for root, o in wanted.items() if len(o) == 1}
        while self._see_through_views(orders, refused=wanted.keys() - orders.keys()):
            pass
        found = {v: orders.get(self._find(v)) for v in list(self.parent)}
        return {v: order for v, order in found.items() if order and order != tuple(range(len(order)))}

    def find_refused(self, layouts: dict[ir.Value, Order]) -> tuple[ir.Operation, str] | None:
        """The first 2-D convolution that has not the layout ``conv2d`` asks for, and why."""
        for op, value, order in self.asked:
            what = "result" if value == op.results[0] else "input"
            same = order == tuple(range(len(order)))
            if self.conv2d == "NCHW" and same and len(order) > 2:
                return op, f"its {what} has channels last in the model, and no pass changes that"
            if self.conv2d == "NHWC" and not same and layouts.get(value) != order:
                if value not in self.parent:
                    return op, f"its {what} is a weight"
                return op, f"something that must have the layout of its {what} wants another one"
        return None

    def _visit(self, op: ir.Operation) -> None:
        for value in (*op.operands, *op.results, *find_captures(op)):
            if is_tensor(value) and len(shape_of(value)) >= 3 and value not in self.weights:
                self.parent.setdefault(value, value)
        if op.name == "linalg.generic":
            self._visit_generic(op)
        elif op.name == "tensor.cast":
            self._join([op.operands[0], op.results[0]])
        elif op.name in VIEWS:
            narrow, wide = op.operands[0], op.results[0]
            if op.name == "tensor.collapse_shape":
                narrow, wide = wide, narrow
            if narrow in self.parent and wide in self.parent:
                self.views.append((narrow, wide, reassociation_of(op)))
            if wide in self.parent and _merges_channels(shape_of(wide), reassociation_of(op)):
                self.merged.append(wide)
        elif op.name in DIM_LISTS:
            tensors = [v for v in (*op.operands, *op.results) if v in self.parent]
            if len({len(shape_of(v)) for v in tensors}) == 1:
                self._join(tensors)

    def _see_through_views(self, orders: dict[ir.Value, Order], refused: Set[ir.Value]) -> bool:
        """Let a layout go on to the other side of a reshape that keeps it, if nothing else is wanted there."""
        for narrow, wide, groups in self.views:
            a, b = self._find(narrow), self._find(wide)
            if a in orders and b not in orders and b not in refused:
                orders[b] = tuple(d for i in orders[a] for d in groups[i])
                return True
            if b in orders and a not in orders and a not in refused:
                moved = _whole_groups(orders[b], groups)
                if moved is not None:
                    orders[a] = moved
                    return True
        return False

    def _visit_generic(self, op: ir.Operation) -> None:
        inputs, maps, kind = list(op.operands)[: num_inputs(op)], indexing_maps(op), classify_op(op)
        for result, initial in zip(op.results, list(op.operands)[len(inputs) :], strict=True):
            self._join([result, initial])
        orders = find_orders(op, kind, self.target)
        if self.conv2d != "NHWC":
            self._join([wanted.value for wanted in orders if wanted.free])
            self.free += [wanted for wanted in orders if wanted.free and wanted.value in self.parent]
            if any(wanted.inside for wanted in orders):
                self.inside.append([wanted for wanted in orders if wanted.value in self.parent])
        for wanted in orders:
            if wanted.spatial == 2:
                self.asked.append((op, wanted.value, wanted.order))
            if (wanted.free or wanted.inside) and self.conv2d != "NHWC":
                continue
            if wanted.value in self.parent and (wanted.spatial != 2 or self.conv2d != "NCHW"):
                light = wanted.light and self.conv2d != "NHWC"
                (self.light if light else self.seeds)[wanted.value] = wanted.order
        if not orders and not keeps_order(op):
            tied = [v for v, m in zip(inputs, maps, strict=False) if same_places(m, maps[len(inputs)])]
            gathered = [v for v in find_captures(op) if is_tensor(v) and len(shape_of(v)) == len(maps[-1].results)]
            self._join_read([*op.results, *tied, *gathered])
            self._note_turned(op)

    def _note_turned(self, op: ir.Operation) -> None:
        """Note which value a transpose turns to channels first, or from there."""
        order = permutation_of(op)
        if order and len(order) >= 3:
            back = (0, len(order) - 1, *range(1, len(order) - 1))
            last = (0, *range(2, len(order)), 1)
            found = [v for v, turns in ((op.results[0], back), (op.operands[0], last)) if tuple(order) == turns]
            self.turned += [(value, last) for value in found if value in self.parent]

    def _seed_turned(self, given: Set[ir.Value]) -> None:
        """Seed channels last for products by pixels whose model turns tokens to channels first, or back, beside them.

        Not where an input of the program, or a view that joins channels and pixels, would be turned in their place.
        """
        kept = given | {self._find(value) for value in (*self.seeds, *self.merged)}
        turned = {(self._find(value), order) for value, order in self.turned}
        for narrow, wide, groups in self.views:
            orders = [order for group, order in turned if group == self._find(narrow)]
            turned |= {(self._find(wide), tuple(d for i in order for d in groups[i])) for order in orders}
        free = [w for w in self.free if (self._find(w.value), w.order) in turned and self._find(w.value) not in kept]
        self.seeds |= {wanted.value: wanted.order for wanted in free}

    def _seed_inside(self, own: Sequence[ir.Value]) -> None:
        """Seed what ops want inside of the program; let the data and the results of others have one order.

        A norm over groups of channels, or over all, is like the program's border: it keeps the order of the model.

        own: the inputs and results of the program.
        """
        outer, left = {self._find(value) for value in own if value in self.parent}, self.inside
        for narrow, wide, _ in self.views:
            pair = {self._find(narrow), self._find(wide)}
            outer |= pair if pair & outer else set()
        outer |= {self._find(value) for value in self.merged}
        while True:
            seeded = {self._find(value) for value in self.seeds}
            wanted = [orders for orders in left if not {self._find(w.value) for w in orders} <= outer - seeded]
            if not wanted:
                break
            left = [orders for orders in left if orders not in wanted]
            self.seeds |= {w.value: w.order for orders in wanted for w in orders if w.inside}
        for orders in left:
            if len({len(w.order) for w in orders}) == 1:  # filters of a channel have an axis in the result alone
                self._join([w.value for w in orders])

    def _find(self, value: ir.Value) -> ir.Value:
        while self.parent[value] != value:
            self.parent[value] = value = self.parent[self.parent[value]]
        return value

    def _join(self, values: Sequence[ir.Value]) -> None:
        known = [v for v in values if v in self.parent]
        for a, b in pairwise(known):
            self.parent[self._find(a)] = self._find(b)

    def _join_read(self, values: Sequence[ir.Value]) -> None:
        """Let values of one op that reads each by a map of its own have one layout.

        Single pixels stay apart from whole images: both layouts are the same bytes. Otherwise what is made of a pooled
        image would transpose the image (a gate of its channels).
        """
        self._join([v for v in values if _is_pixel(v)])
        self._join([v for v in values if not _is_pixel(v)])


def keeps_order(op: ir.Operation) -> bool:
    """Return whether a structured op reads and makes values in the order of the model: products, and such as they."""
    kind = classify_op(op)
    return isinstance(kind, Contraction) or copies_windows(op, kind)


def _is_pixel(value: ir.Value) -> bool:
    shape = shape_of(value)
    return len(shape) >= 3 and {*shape[2:]} == {1}


def same_places(m: ir.AffineMap, out: ir.AffineMap) -> bool:
    """Return whether an operand is read around the result's place in each dim (or at 0, for an extent of 1)."""
    if len(m.results) != len(out.results):
        return False
    return all(is_zero(a) or dims_in(b) <= dims_in(a) for a, b in zip(m.results, out.results, strict=True))


def _merges_channels(shape: Sequence[int], groups: Sequence[Sequence[int]]) -> bool:
    """Return whether a view joins the axis of channels with one of pixels."""
    return any(1 in group and len([axis for axis in group if axis and shape[axis] != 1]) > 1 for group in groups)


def _whole_groups(order: Order, groups: list[list[int]]) -> Order | None:
    """The order of the groups, if ``order`` runs through one whole group after another."""
    result, at = [], 0
    for _ in groups:
        number = next((i for i, g in enumerate(groups) if list(order[at : at + len(g)]) == g and i not in result), None)
        if number is None:
            return None
        result.append(number)
        at += len(groups[number])
    return tuple(result)
