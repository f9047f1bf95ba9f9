"""Which ops may share a kernel: the rules of `fuse-ops`, as predicates on loops and maps.

Every group has one root, the op whose results leave it; all other members are read inside of the group alone. So a
group never waits for anything that waits for it. Dims of extent 1 are left out of all comparisons.

Extents that only the run knows are never compared: ops have the same ones where a value that one makes is walked by the
loops of another, dim by dim. So a kernel's own ops prove what its schedule relies on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ...dialects import ir
from ...dialects.walk import defining_op
from ..ir.facts import known_facts
from ..ir.structure import (
    body_ops,
    describe_operands,
    dim_of,
    indexing_maps,
    is_tensor,
    is_zero,
    iterator_types,
    loop_extents,
    num_inputs,
)
from ..ir.uses import find_captures, users_of
from .classify import classify_op
from .kinds import Broadcast, Elementwise, Injective, OpClass, Reduction

# Columns beside each other, of a known number, that are held whole where they are of any length: a vector of them.
_LEAST_BESIDE = 16

Joins = Callable[[ir.Operation, "Group"], bool]


@dataclass
class OpFacts:
    """A cache of the facts about ops that the rules need repeatedly."""

    order: dict[ir.Operation, int]
    kinds: dict[ir.Operation, OpClass] = field(default_factory=dict)
    readers: dict[ir.Operation, list[ir.Operation]] = field(default_factory=dict)
    gathering: dict[ir.Operation, bool] = field(default_factory=dict)

    def kind(self, op: ir.Operation) -> OpClass:
        """The op's class."""
        if op not in self.kinds:
            self.kinds[op] = classify_op(op)
        return self.kinds[op]

    def gathers(self, op: ir.Operation) -> bool:
        """Return whether the op's body reads tensors at places that it computes."""
        if op not in self.gathering:
            self.gathering[op] = _gathers(op)
        return self.gathering[op]

    def users(self, op: ir.Operation) -> list[ir.Operation]:
        """The ops that read the op's results, in program order."""
        if op not in self.readers:
            self.readers[op] = sorted(users_of(op), key=self.order.__getitem__)
        return self.readers[op]


@dataclass
class Group:
    """Ops of one kernel; ``rows`` of them hold one value for each row of a row-wise group."""

    members: list[ir.Operation]
    rows: set[ir.Operation] = field(default_factory=set)

    def __contains__(self, op: ir.Operation | None) -> bool:
        return op in self.members


def grow_forward(group: Group, facts: OpFacts, free: Callable[[ir.Operation], bool], joins: Joins) -> Group:
    """Add readers in program order, and keep the largest prefix that has a single root."""
    best, trial = group, Group(list(group.members), set(group.rows))
    while True:
        outside = [u for m in trial.members for u in facts.users(m) if u not in trial]
        if len({m for m in trial.members for u in facts.users(m) if u not in trial}) <= 1:
            best = Group(list(trial.members), set(trial.rows))
        following = min(outside, key=facts.order.__getitem__, default=None)
        if following is None or not free(following) or not joins(following, trial):
            return best
        trial.members.append(following)


def grow_backward(group: Group, facts: OpFacts, free: Callable[[ir.Operation], bool], joins: Joins) -> None:
    """Add producers that the group alone reads, as long as there are any."""
    pending = list(group.members)
    while pending:
        for value in pending.pop().operands:
            op = defining_op(value)
            if op is None or op in group or not free(op) or any(u not in group for u in facts.users(op)):
                continue
            if joins(op, group):
                group.members.append(op)
                pending.append(op)


def is_map(op: ir.Operation, facts: OpFacts) -> bool:
    """Return whether the op is a generic with one static result and no reductions or gathers, which may merge."""
    return _is_simple(op) and isinstance(facts.kind(op), Elementwise | Broadcast | Injective) and not facts.gathers(op)


def is_pointwise(op: ir.Operation) -> bool:
    """Return whether the op computes each element of its result from elements at places that its loops determine."""
    if op.name != "linalg.generic" or len(op.results) != 1 or set(iterator_types(op)) != {"parallel"}:
        return False
    out = indexing_maps(op)[-1]
    if [dim_of(e) for e in out.results] != list(range(out.n_dims)):
        return False
    return all(map(is_tensor, op.operands)) and not _gathers(op) and all(o.name != "linalg.index" for o in body_ops(op))


def is_reduction(op: ir.Operation, facts: OpFacts) -> bool:
    """Return whether the op is a generic reduction of one static result."""
    return _is_simple(op) and isinstance(facts.kind(op), Reduction) and not facts.gathers(op)


def has_dynamic_sum(op: ir.Operation) -> bool:
    """Return whether an op reduces along axes of dynamic extents, whose chunks are added to the result."""
    loops = zip(iterator_types(op), loop_extents(op), strict=True)
    return any(kind == "reduction" and extent < 0 for kind, extent in loops)


def epilogue_joins(anchor: ir.Operation, facts: OpFacts) -> Joins:
    """Elementwise ops on the anchor's result: same extents, and members are read at the place that is written.

    What the anchor itself reads is not fused into it: it would be computed again for each use.
    """
    domain = _extents(anchor, domain_of(anchor))

    def joins(op: ir.Operation, group: Group) -> bool:
        if not is_map(op, facts) or isinstance(facts.kind(op), Injective) or reads_from(anchor, op):
            return False
        out = domain_of(op)
        reads = [dims for _, dims in reads_inside(op, group)]
        written = [dims == domain_of(u) for u in facts.users(op) if u in group for dims in reads_from(u, op)]
        linked = any(dims == out for dims in reads) or bool(written)
        return (
            linked and _is_same_shape(_extents(op, out), domain) and all(dims == out for dims in reads) and all(written)
        )

    return joins


def tree_joins(facts: OpFacts) -> Joins:
    """Producers each of whose elements is read once: merging computes nothing twice."""

    def joins(op: ir.Operation, group: Group) -> bool:
        readers = [u for u in facts.users(op) if u in group]
        return is_map(op, facts) and all(reads_once(op, u) for u in readers)

    return joins


def reads_once(op: ir.Operation, reader: ir.Operation) -> bool:
    """Return whether the reader's loops visit each element of the op's result at most once, at plain dims."""
    extents = loop_extents(reader)
    loops = {d for d, extent in enumerate(extents) if extent != 1}
    reads = reads_from(reader, op)
    return bool(reads) and all(dims is not None and set(dims) == loops for dims in reads)


@dataclass(frozen=True)
class RowRule:
    """Ops over one set of rows and columns: reductions along the columns, maps of whole rows, maps of row values.

    The columns are neighbours among the dims of what is whole; ``before`` of the rows' dims come first. Of any length
    are columns that lie innermost, or a single one that a vector's lanes of others lie beside.
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    before: int
    facts: OpFacts

    @staticmethod
    def of(op: ir.Operation, facts: OpFacts) -> RowRule | None:
        """The rule that a reduction along neighbouring dims of its data sets up; None for other reductions."""
        if not is_reduction(op, facts) or (dims := _row_dims(op)) is None:
            return None
        rows, columns, before = dims
        *outer, last = _extents(op, columns)
        beside = _extents(op, rows)[before:]
        if any(extent < 0 for extent in outer) or (last < 0 and beside and (outer or 0 <= beside[-1] < _LEAST_BESIDE)):
            return None  # of any length are the innermost of several, or one
        return RowRule(tuple(_extents(op, rows)), tuple(_extents(op, columns)), before, facts)

    def joins(self, op: ir.Operation, group: Group) -> bool:
        """Return whether the op works on the same rows, and is read accordingly. Notes its kind."""
        if self._shape(op) is None:
            return False
        row = self._gives_rows(op)
        reads = [(s in group.rows, self._reads(op, dims)) for s, dims in reads_inside(op, group)]
        written = [self._reads(u, dims) for u in self.facts.users(op) if u in group for dims in reads_from(u, op)]
        if any(how != ("row" if is_row else "full") for is_row, how in reads):
            return False
        if any(how != ("row" if row else "full") for how in written):
            return False
        if self._has_dynamic_columns(op):
            walked = self._walked_whole(op)
            if not any(walked & self._walked_whole(member) for member in group.members):
                return False  # nothing proves that its columns are as many as the group's
        if row:
            group.rows.add(op)
        return True

    @property
    def has_open_columns(self) -> bool:
        """Return whether what is reduced is of any length, and lies beside others of those, not behind them."""
        return bool(self.rows[self.before :]) and any(extent < 0 for extent in self.columns)

    def walks_again(self, group: Group) -> bool:
        """Return whether several ops of a group walk what is reduced: one alone sums up in registers."""
        return len([op for op in group.members if self._has_dynamic_columns(op)]) > 1

    def _shape(self, op: ir.Operation) -> tuple[list[int], list[int]] | None:
        """The op's row loops and column loops, None if it works on other rows."""
        if is_reduction(op, self.facts):
            found = _row_dims(op)
            dims = found[:2] if found is not None and found[2] == self.before else None
        elif is_map(op, self.facts) and not isinstance(self.facts.kind(op), Injective):
            out = domain_of(op) or []
            end = len(out) - len(self.rows) + self.before  # of the columns
            dims = (out[: self.before] + out[max(end, self.before) :], out[self.before : end])
        else:
            return None
        if dims is None or not _is_same_shape(_extents(op, dims[0]), self.rows):
            return None
        columns = _extents(op, dims[1])
        return (
            dims
            if _is_same_shape(columns, self.columns) or (not columns and not is_reduction(op, self.facts))
            else None
        )

    def _has_dynamic_columns(self, op: ir.Operation) -> bool:
        shape = self._shape(op)
        return shape is not None and any(extent < 0 for extent in _extents(op, shape[1]))

    def _walked_whole(self, op: ir.Operation) -> set[ir.Value]:
        """The tensors that an op reads or makes at its rows and columns: ops that have one in common have the same.

        Likewise those of which maps make these: a square root of a sum of squares divides what was squared.
        """
        pending = [] if self._gives_rows(op) else list(op.results)
        pending += [value for value, dims in reads_of(op) if self._reads(op, dims) == "full"]
        found = set[ir.Value]()
        while pending:
            if (value := pending.pop()) not in found:
                found.add(value)
                source = defining_op(value)
                if source is not None and is_map(source, self.facts) and not self._gives_rows(source):
                    pending += [read for read, dims in reads_of(source) if self._reads(source, dims) == "full"]
        return found

    def _gives_rows(self, op: ir.Operation) -> bool:
        return _is_same_shape(_extents(op, domain_of(op)), self.rows)

    def _reads(self, op: ir.Operation, dims: list[int] | None) -> str:
        """``full``: at the op's rows and columns; ``row``: at its rows alone."""
        shape = self._shape(op)
        if shape is None or dims is None:
            return "other"
        rows, columns = shape
        whole = [*rows[: self.before], *columns, *rows[self.before :]]
        return "full" if dims == whole and columns else "row" if dims == rows else "other"


def _row_dims(op: ir.Operation) -> tuple[list[int], list[int], int] | None:
    """(rows, columns, rows before) of a reduction whose columns are neighbours in its largest operand."""
    rows = domain_of(op)
    data = max((dims for _, dims in reads_of(op) if dims is not None), key=len, default=[])
    if rows is None or len(data) <= len(rows):
        return None
    before = next((i for i, (a, b) in enumerate(zip(rows, data, strict=False)) if a != b), len(rows))
    end = before + len(data) - len(rows)
    return (rows, data[before:end], before) if data[end:] == rows[before:] else None


def domain_of(op: ir.Operation) -> list[int] | None:
    """The loops of the first result's dims, without unit ones."""
    loops = _read_plain_loops(op)[num_inputs(op)]
    return None if loops is None else list(loops)


def reads_of(op: ir.Operation) -> list[tuple[ir.Value, list[int] | None]]:
    """Each tensor that an op reads, and the loops of its dims (None: read in some other way)."""
    if op.name != "linalg.generic":
        return [(v, None) for v in (*op.operands, *find_captures(op))]
    count, operands, loops = num_inputs(op), list(op.operands), _read_plain_loops(op)
    inputs = [(v, None if dims is None else list(dims)) for v, dims in zip(operands[:count], loops, strict=False)]
    return [
        *((v, dims) for v, dims in inputs if is_tensor(v)),
        *((v, None) for v in (*operands[count:], *find_captures(op))),
    ]


def reads_from(op: ir.Operation, source: ir.Operation) -> list[list[int] | None]:
    """How an op reads the results of another: the loops of the dims, for each operand that is one."""
    results = set(source.results)
    return [dims for value, dims in reads_of(op) if value in results]


def reads_inside(op: ir.Operation, group: Group) -> list[tuple[ir.Operation, list[int] | None]]:
    """The members of a group that an op reads, and how."""
    sources = ((defining_op(value), dims) for value, dims in reads_of(op))
    return [(source, dims) for source, dims in sources if source is not None and source in group]


def _read_plain_loops(op: ir.Operation) -> list[tuple[int, ...] | None]:
    """The loops of each operand's dims without unit ones; None where a dim is walked by neither a loop nor 0."""
    facts = known_facts() if op.name == "linalg.generic" else None
    key = ("plain loops", describe_operands(op)) if facts is not None else None
    if facts is None or (known := facts.get(key)) is None:
        extents = loop_extents(op)
        known = [_find_plain_loops(m, extents) for m in indexing_maps(op)]
        if facts is not None:
            facts[key] = known
    return known


def _find_plain_loops(m: ir.AffineMap, extents: Sequence[int]) -> tuple[int, ...] | None:
    if any(dim_of(e) is None and not is_zero(e) for e in m.results):
        return None
    dims = tuple(d for d in map(dim_of, m.results) if d is not None and extents[d] != 1)
    return dims if len(set(dims)) == len(dims) else None


def _extents(op: ir.Operation, dims: list[int] | None) -> list[int]:
    extents = loop_extents(op)
    return [extents[d] for d in dims or []]


def _is_same_shape(extents: Sequence[int], others: Sequence[int]) -> bool:
    """Return whether the extents are equal, and unknown in the same places."""
    pairs = list(zip(extents, others, strict=False))
    return len(extents) == len(others) and all((a < 0) == (b < 0) and (a < 0 or a == b) for a, b in pairs)


def _is_simple(op: ir.Operation) -> bool:
    return op.name == "linalg.generic" and len(op.results) == 1


def _gathers(op: ir.Operation) -> bool:
    return any(is_tensor(v) for v in find_captures(op))
