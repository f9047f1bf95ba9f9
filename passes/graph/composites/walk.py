"""The ops around one that may belong to its composite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ....dialects import builders, ir
from ....dialects.walk import defining_op
from ...analysis.classify import classify_sum
from ...analysis.groups import OpFacts, is_map, is_reduction
from ...analysis.kinds import Broadcast, Elementwise
from ...ir.edit import is_cheap, splat_of
from ...ir.routine_ops import VIEWS
from ...ir.structure import body_ops, is_tensor, num_inputs
from ...ir.uses import users_of

_FLOAT_TYPES = ("f32", "f64")
_MAX_STEPS = 8  # ops between two that belong to one composite
_MAX_OPS = 24
_MAX_OTHERS = 2  # a scale and a bias


def find_calls(op: ir.Operation, *names: str) -> list[ir.Operation]:
    """The ops of one of the names in the body of an elementwise op."""
    found = [inner for inner in body_ops(op) if inner.name in names] if op.name == "linalg.generic" else []
    return found if found and Surroundings().in_place(op) else []


def is_plain_float(value: ir.Value) -> bool:
    """Return whether a tensor has elements that bodies compute in, so that nothing is rounded on the way."""
    return is_tensor(value) and str(builders.element_of(value)) in _FLOAT_TYPES


@dataclass(frozen=True)
class Surroundings:
    """A cache of facts about single ops. Ops must be forgotten before they are erased, or their operands change."""

    _in_place: dict[ir.Value, bool] = field(default_factory=dict)
    _steps: dict[ir.Value, bool] = field(default_factory=dict)
    _reductions: dict[ir.Value, bool] = field(default_factory=dict)
    _inputs: dict[ir.Value, list[ir.Value]] = field(default_factory=dict)  # these and the next depend on operands
    _sources: dict[ir.Value, list[ir.Value] | None] = field(default_factory=dict)

    def in_place(self, op: ir.Operation) -> bool:
        """Return whether an op is elementwise and moves nothing: a composite keeps its order of dims."""
        if op.name != "linalg.generic":
            return False
        known = self._in_place.get(op.results[0])
        if known is None:
            facts = OpFacts({})
            known = is_map(op, facts) and isinstance(facts.kind(op), Elementwise | Broadcast)
            self._in_place[op.results[0]] = known
        return known

    def forget(self, value: ir.Value) -> None:
        """Forget the op of a result before it is erased."""
        self._in_place.pop(value, None)
        self._steps.pop(value, None)
        self._reductions.pop(value, None)
        self._inputs.clear()  # of those that read it, too
        self._sources.clear()

    def before(self, op: ir.Operation) -> list[ir.Value]:
        """The tensors that an op is made from by elementwise ops, reductions and views, nearest first."""
        found: dict[ir.Value, None] = {}
        level = [op]
        for _ in range(_MAX_STEPS):
            tensors = [v for o in level for v in self._find_inputs(o) if v not in found]
            found.update(dict.fromkeys(tensors))
            makers = [m for m in (defining_op(v) for v in tensors) if m is not None]
            level = [m for m in makers if self._is_step(m)]
            if not level or len(found) > _MAX_OPS:
                break
        return list(found)

    def reduces(self, op: ir.Operation | None) -> bool:
        """Return whether an op is a reduction."""
        if op is None or not len(op.results):
            return False
        known = self._reductions.get(op.results[0])
        if known is None:
            sums = classify_sum(op) is not None  # as few ops do: others are asked no more
            known = self._reductions[op.results[0]] = sums and is_reduction(op, OpFacts({}))
        return known

    def find_consumers(self, op: ir.Operation) -> list[ir.Operation]:
        """An op and the elementwise ops, reductions and views that use it, directly or by others."""
        found: list[ir.Operation] = [op]
        level = [op]
        for _ in range(_MAX_STEPS):
            level = [u for o in level for u in users_of(o) if u not in found and self._is_step(u)]
            found += dict.fromkeys(level)
            if not level or len(found) > _MAX_OPS:
                break
        return found

    def after(self, op: ir.Operation) -> list[ir.Operation]:
        """The elementwise ones of ``find_consumers``, the last first."""
        return self.last_first(self.find_consumers(op))

    def last_first(self, found: Sequence[ir.Operation]) -> list[ir.Operation]:
        """The elementwise ones of these ops in reverse order."""
        maps = [o for o in found if self.in_place(o)]
        return sorted(maps, key=lambda o: sum(o.is_before_in_block(other) for other in maps if other != o))

    def others(self, value: ir.Value, x: ir.Value) -> set[ir.Value] | None:
        """The values besides ``x`` that a value is computed from by such ops, up to a limit; None without ``x``."""
        found: set[ir.Value] = set()
        pending, seen = [value], {value}
        while pending and len(found) <= _MAX_OTHERS and len(seen) <= 2 * _MAX_OPS:
            source = pending.pop()
            sources = self._find_sources(source) if source != x else None
            if sources is None:
                found |= {source} - {x}
                continue
            inputs = [v for v in sources if v not in seen]
            seen.update(inputs)
            pending += inputs
        return found | set(pending) if x in seen else None

    def is_composite_of(self, op: ir.Operation, x: ir.Value) -> bool:
        """Return whether an op may be one on the rows of ``x``, for all that it is made of."""
        others = self.others(op.results[0], x)
        return others is not None and len(others) <= _MAX_OTHERS

    def _find_sources(self, value: ir.Value) -> list[ir.Value] | None:
        """The tensors that such an op makes a value from; None for a value that is made in another way."""
        if value not in self._sources:
            op = defining_op(value)
            self._sources[value] = self._find_inputs(op) if op is not None and self._is_step(op) else None
        return self._sources[value]

    def _find_inputs(self, op: ir.Operation) -> list[ir.Value]:
        known = self._inputs.get(op.results[0])
        if known is None:
            known = self._inputs[op.results[0]] = _find_tensor_inputs(op)
        return known

    def _is_step(self, op: ir.Operation) -> bool:
        if not len(op.results):
            return False
        known = self._steps.get(op.results[0])
        if known is None:
            known = op.name in VIEWS or self.in_place(op) or self.reduces(op)
            self._steps[op.results[0]] = known
        return known


def find_between(root: ir.Operation, leaves: Sequence[ir.Value]) -> list[ir.Operation] | None:
    """The ops between leaves and ``root``, itself last, in order; None if another op reads any of their results."""
    found: list[ir.Operation] = []
    pending = [root]
    while pending:
        op = pending.pop()
        if op in found or is_cheap(op):
            continue
        found.append(op)
        made = [defining_op(v) for v in op.operands if v not in leaves]
        pending += [m for m in made if m is not None]
    if any(user not in found for op in found if op != root for user in users_of(op)):
        return None
    return sorted(found, key=lambda o: -sum(o.is_before_in_block(other) for other in found if other != o))


def is_read_twice(x: ir.Value) -> bool:
    """Return whether bodies read a tensor's element, or ops the tensor, at more than one place."""
    count = 0
    for use in x.uses:
        op = use.owner.operation
        if op.name == "linalg.generic":
            argument = op.regions[0].blocks[0].arguments[use.operand_number]
            count += sum(1 for _ in argument.uses)
        else:
            count += 1
    return count > 1


def _find_tensor_inputs(op: ir.Operation) -> list[ir.Value]:
    count = num_inputs(op) if op.name == "linalg.generic" else len(op.operands)
    return [v for v in list(op.operands)[:count] if is_tensor(v) and splat_of(v) is None]
