"""Products of one value with several weights become one product: what the two combining passes share.

The products are the first level. What follows each of them alike, reshapes and elementwise ops with weights, makes
further levels. Nothing is changed before it is clear that all readers can do with slices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from functools import cmp_to_key

from ....core.target import Target
from ....dialects import builders, func, ir
from ....dialects.types import element_bits
from ...analysis.classify import classify_sum
from ...analysis.groups import OpFacts, is_map
from ...analysis.kinds import OpClass
from ...analysis.scales import alone_in
from ...ir.edit import erase_dead, fused_location, hoist, list_programs, param_values, splat_of
from ...ir.maps import permutation_of, reassociation_of
from ...ir.routine_ops import VIEWS
from ...ir.structure import (
    body_ops,
    dim_of,
    indexing_maps,
    is_static,
    list_ops,
    loop_extents,
    num_inputs,
    same_form,
    shape_of,
)
from ...ir.uses import users_of
from ...schedule.families.packing import contraction_packing


@dataclass(frozen=True)
class WeightProduct:
    """A sum of products of data and a weight; ``loop`` is the one that only the weight and the result have."""

    op: ir.Operation
    data: int
    loop: int

    def columns(self) -> int:
        """The extent of the loop."""
        return loop_extents(self.op)[self.loop]


@dataclass(frozen=True)
class Level:
    """Ops that do the same, one for each part.

    ``joined`` is the dim along which their results lie side by side, ``parts`` has the earlier level that each operand
    comes from, and ``along`` the dim of each other operand that is joined too.
    """

    ops: tuple[ir.Operation, ...]
    joined: int
    parts: dict[int, int]
    along: dict[int, int]


ProductOf = Callable[[ir.Operation, OpClass], WeightProduct | None]


def combine(module: ir.Module, product_of: ProductOf, target: Target | None) -> None:
    """Combine the products of all programs that ``product_of`` recognises, where that fills the target's vectors.

    Without a target all are combined that can be.
    """
    for function in list_programs(module):
        weights = param_values(function)
        for products in _parallel(function, product_of, weights):
            for together in _together(products, weights):
                if target is None or _fills_blocks(together, target):
                    _build(_Levels(together, weights).levels)
        erase_dead(function)


def _fills_blocks(products: Sequence[WeightProduct], target: Target) -> bool:
    """Return whether the combined weight is padded to fewer columns than the weights by themselves."""

    def padded(columns: int) -> int:
        packing = contraction_packing(columns, bits, target)
        return columns if packing is None else -(-columns // packing.n_tile) * packing.n_tile

    bits = element_bits(builders.element_of(products[0].op.operands[1 - products[0].data]))
    columns = [product.columns() for product in products]
    return padded(sum(columns)) < sum(map(padded, columns))


def _together(products: Sequence[WeightProduct], weights: Set[ir.Value]) -> list[list[WeightProduct]]:
    """Sets of two or more products that go on alike."""
    sets: list[list[WeightProduct]] = []
    for product in products:
        fits = (known for known in sets if _Levels([*known, product], weights).can_be_slices())
        known = next(fits, None)
        sets.append([product]) if known is None else known.append(product)
    return [known for known in sets if len(known) > 1]


def _parallel(function: func.FuncOp, product_of: ProductOf, weights: Set[ir.Value]) -> list[list[WeightProduct]]:
    """Products of the same data that differ in their weights alone, two or more, each list in program order."""
    found: list[list[WeightProduct]] = []
    for op in list_ops(function):
        kind = classify_sum(op)
        if kind is None or len(op.operands) != 3 or not is_static(op.results[0]):
            continue
        product = product_of(op, kind)
        if product is None or op.operands[1 - product.data] not in weights or op.operands[product.data] in weights:
            continue
        if splat_of(op.operands[2]) == 0:
            known = next((products for products in found if _can_combine(products[0], product)), None)
            found.append([product]) if known is None else known.append(product)
    return [products for products in found if len(products) > 1]


def _can_combine(a: WeightProduct, b: WeightProduct) -> bool:
    """Return whether two products are of the same data and differ in the extent of their own loop at most."""
    if a.op.operands[a.data] != b.op.operands[b.data] or a.data != b.data or a.loop != b.loop:
        return False
    extents = [loop_extents(p.op) for p in (a, b)]
    if any(x != y for d, (x, y) in enumerate(zip(*extents, strict=True)) if d != a.loop):
        return False
    types = [[builders.element_of(v) for v in p.op.operands] for p in (a, b)]
    return types[0] == types[1] and same_form(a.op, b.op)


class _Levels:
    """Several products, and what follows all of them alike."""

    def __init__(self, products: Sequence[WeightProduct], weights: Set[ir.Value]) -> None:
        first, self.weights = products[0], weights
        maps = indexing_maps(first.op)
        joined, along = (_find_result(m, first.loop) for m in (maps[-1], maps[1 - first.data]))
        assert joined is not None and along is not None
        self.levels = [Level(tuple(p.op for p in products), joined, {}, {1 - first.data: along})]
        self.place: dict[ir.Value, tuple[int, int]] = {}  # the level and the number of the part that a value is
        self._note(0)
        while self._grow():
            pass

    def can_be_slices(self) -> bool:
        """Return whether what reads the parts, and is no level itself, can read slices of the combined results."""
        inside = set(self.place)
        return all(_can_read_slices(op, inside) for level in self.levels for op in level.ops)

    def _note(self, number: int) -> None:
        self.place.update({op.results[0]: (number, i) for i, op in enumerate(self.levels[number].ops)})

    def _grow(self) -> bool:
        for level in self.levels:
            for readers in zip(*(_readers(op) for op in level.ops), strict=False):
                if any(r.results[0] in self.place for r in readers if len(r.results)):
                    continue
                if (new := self._level(readers)) is not None:
                    self.levels.append(new)
                    self._note(len(self.levels) - 1)
                    return True
        return False

    def _level(self, ops: tuple[ir.Operation, ...]) -> Level | None:
        """Ops that read the same levels, each its own parts, as a level; None if they are none."""
        first = ops[0]
        if len({op.name for op in ops}) != 1 or len({op.results[0] for op in ops if len(op.results)}) != len(ops):
            return None
        if (parts := self._parts(ops)) is None:
            return None
        if first.name in VIEWS:
            places = [_through_view(op, self.levels[parts[0]].joined) for op in ops]
            same = all(op.attributes["reassociation"] == first.attributes["reassociation"] for op in ops)
            joined = places[0]
            return Level(ops, joined, parts, {}) if same and len(set(places)) == 1 and joined is not None else None
        return self._map(ops, parts) if first.name == "linalg.generic" else None

    def _parts(self, ops: tuple[ir.Operation, ...]) -> dict[int, int] | None:
        """The level of each operand that is a part; None where the ops read other parts than their own."""
        parts = {}
        for i in range(len(ops[0].operands)):
            places = [self.place.get(op.operands[i]) for op in ops if i < len(op.operands)]
            levels = {place and place[0] for place in places}
            if len(places) != len(ops) or len(levels) != 1:
                return None
            if (level := levels.pop()) is not None:
                if [place and place[1] for place in places] != list(range(len(ops))):
                    return None
                parts[i] = level
        return parts

    def _map(self, ops: tuple[ir.Operation, ...], parts: dict[int, int]) -> Level | None:
        """Elementwise ops whose other operands are weights, joined where the parts are, or the same for all."""
        first, maps = ops[0], indexing_maps(ops[0])
        if not all(is_map(op, OpFacts({})) and same_form(first, op) for op in ops) or max(parts) >= num_inputs(first):
            return None
        initial = list(first.regions[0].blocks[0].arguments)[-1]
        if any(True for _ in initial.uses) or any(o.name == "linalg.index" for o in body_ops(first)):
            return None
        loops = {dim_of(maps[i].results[self.levels[level].joined]) for i, level in parts.items()}
        loop = loops.pop()
        joined = None if loops or loop is None else _find_result(maps[-1], loop)
        if loop is None or joined is None:
            return None
        along: dict[int, int] = {}
        for i in set(range(num_inputs(first))) - set(parts):
            values, place = [op.operands[i] for op in ops], _find_result(maps[i], loop)
            if any(v not in self.weights for v in values) or (place is None and len(set(values)) > 1):
                return None
            if place is not None:
                along[i] = place
        return Level(ops, joined, parts, along)


def _readers(op: ir.Operation) -> list[ir.Operation]:
    """The readers of an op's result in program order."""
    return sorted(users_of(op), key=cmp_to_key(lambda a, b: -1 if a.is_before_in_block(b) else 1))


def _find_result(m: ir.AffineMap, loop: int) -> int | None:
    """The result of a map that is a loop."""
    return next((i for i, e in enumerate(m.results) if dim_of(e) == loop), None)


def _through_view(view: ir.Operation, dim: int) -> int | None:
    """The dim of a reshape's result that is ``dim`` of its source."""
    groups = reassociation_of(view)
    if view.name == "tensor.collapse_shape":
        return alone_in(groups, shape_of(view.operands[0]), dim)
    large = [d for d in groups[dim] if shape_of(view.results[0])[d] != 1]
    return large[0] if len(large) == 1 else None


def _can_read_slices(op: ir.Operation, inside: Set[ir.Value]) -> bool:
    """Return whether a part's readers outside the levels can read a slice, and none would be fused with the part.

    A result of the program must be stored by itself, and so must what is padded. An elementwise op at the same places
    costs a kernel of its own after a slice, and nothing after a product.
    """
    for reader in users_of(op):
        if len(reader.results) and reader.results[0] in inside:
            continue
        if reader.name in ("func.return", "tensor.pad"):
            return False
        if reader.name in VIEWS and not _can_read_slices(reader, inside):
            return False
        if reader.name == "linalg.generic" and permutation_of(reader) is None and is_map(reader, OpFacts({})):
            return False
    return True


def _build(levels: Sequence[Level]) -> None:
    """Make the combined ops where the first part was, and let slices of them take the place of the parts."""
    first, inside = levels[0].ops[0], {op.results[0] for level in levels for op in level.ops}
    extents = [shape_of(op.results[0])[levels[0].joined] for op in levels[0].ops]
    wide: list[ir.Value] = []
    for level in levels:
        with ir.InsertionPoint(first), fused_location(level.ops):
            wide.append(_join_level(level, wide, sum(extents), first))
    for level, value in zip(levels, wide, strict=True):
        for i, op in enumerate(level.ops):
            if any(not (len(u.results) and u.results[0] in inside) for u in users_of(op)):
                shape = shape_of(op.results[0])
                starts = [sum(extents[:i]) if d == level.joined else 0 for d in range(len(shape))]
                with ir.InsertionPoint(first), op.location:
                    op.results[0].replace_all_uses_with(builders.slice_(value, starts, shape))
    for level in reversed(levels):
        for op in level.ops:
            op.erase()


def _join_level(level: Level, wide: Sequence[ir.Value], extent: int, at: ir.Operation) -> ir.Value:
    """The op of a level on all parts at once."""
    op = level.ops[0]
    shape = [extent if d == level.joined else n for d, n in enumerate(shape_of(op.results[0]))]
    if op.name in VIEWS:
        return builders.reshape(wide[level.parts[0]], shape)
    operands = [wide[level.parts[i]] if i in level.parts else value for i, value in enumerate(op.operands)]
    for i in set(range(num_inputs(op))) - set(level.parts):
        for part in level.ops:
            hoist(part.operands[i], at)
        if i in level.along:
            operands[i] = builders.concat([part.operands[i] for part in level.ops], level.along[i])
    element = builders.element_of(op.results[0])
    operands[-1] = builders.empty(shape, element) if level.parts else builders.full(shape, builders.scalar(0, element))
    copy = op.clone()
    for i, operand in enumerate(operands):
        copy.operands[i] = operand
    copy.results[0].set_type(builders.ranked_type(shape, element))
    return copy.results[0]
