"""Groups of ops that become one kernel each."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...core.errors import CompileError
from ...core.target import Target, detect_host
from ...dialects import func, ir, tw
from ...dialects.walk import defining_op
from ..analysis.fusions import decide_fusion
from ..analysis.groups import (
    Group,
    Joins,
    OpFacts,
    RowRule,
    epilogue_joins,
    grow_backward,
    grow_forward,
    has_dynamic_sum,
    is_map,
    is_reduction,
    reads_once,
    tree_joins,
)
from ..analysis.twin_loops import are_twins, list_needed
from ..infra.base import Pass
from ..ir.edit import erase_dead, is_cheap, list_programs
from ..ir.routine_ops import is_no_kernel
from ..ir.structure import list_ops
from ..ir.uses import find_needed_values, users_of
from ..schedule.families.channels_first import copies_windows
from ..schedule.families.family import Family
from ..schedule.families.table import FAMILIES, begin_group
from ..schedule.tiling.border import can_border
from ..schedule.tiling.dynamic_border import find_insertions
from ..schedule.tiling.pool_windows import leaves_padding_to_reader
from .generalize import raise_fills
from .rewriting.inline import can_inline, fold_scalars, inline, read_through_unit_views

_MOST_MEMBERS = 64  # ops that a group grows to by itself: of more, no memory is saved any more that counts


@dataclass(frozen=True)
class FuseOps(Pass):
    """Mark the ops of each kernel with ``tw.group``, and merge the elementwise ops among them.

    (a) A contraction, convolution or pool takes the elementwise ops on its result; so do the products of a convolution
    that `winograd` has rewritten, with both transforms (where the first one's result exceeds a core's cache, it is a
    kernel of its own, whose work threads share); (b) elementwise, broadcast and injective ops merge into the one that
    alone reads them; (c) reductions along the innermost dims take what works on the same rows (softmax,
    normalisations); (d) a padding belongs to what it pads, or to the pool along rows whose
    results are the same without it; (e) insertions of open sizes into one tensor are one kernel, and so are two loops
    around products that need nothing of each other (the directions of a recurrent layer), which threads share;
    everything else is a kernel of its own. Constants, fills,
    empty tensors, slices and views of packed weights belong to nobody: they are cloned to where they are used.

    Before::

        %c = linalg.generic {convolution} ins(%x, %w)
        %b = linalg.generic {add} ins(%c, %bias)
        %r = linalg.generic {maximum} ins(%b)

    After::

        %c = linalg.generic {convolution} ins(%x, %w) {tw.group = 0}
        %r = linalg.generic {add, maximum} ins(%c, %bias) {tw.group = 0}

    Options:
        fuse_opt_level: 0 makes each op a kernel of its own.
        max_group_size: the most ops of a group; 0 leaves it at 64 that are merged. A padding does not count.
        target: the machine; None is this one.
    """

    name: ClassVar[str] = "fuse-ops"
    fuse_opt_level: int = 3
    max_group_size: int = 0
    target: Target | None = None

    def apply(self, module: ir.Module) -> None:
        """Group the ops of all programs. Raises CompileError for a negative size."""
        if self.max_group_size < 0:
            raise CompileError(f"pass '{self.name}': max_group_size is {self.max_group_size}, not 0 or more")
        for function in list_programs(module):
            fuse = self.fuse_opt_level > 0
            if fuse:
                _simplify_reads(function)
                _pair_loops(function)
            groups = _Grouping(function, self.max_group_size, self.target or detect_host()).run(fuse)
            merged = [_merge_members(group) if fuse else group.members for group in groups]
            erase_dead(function)
            for number, members in enumerate(merged):
                for op in members:
                    op.attributes[tw.GROUP] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number)


def _simplify_reads(function: func.FuncOp) -> None:
    """Let elementwise ops and reductions read through what is no work: views of unit dims, filled tensors."""
    for op in list_ops(function):
        if _can_merge_into(op):
            read_through_unit_views(op)
            fold_scalars(op)
    raise_fills(function)  # what filled tensors whose axes change places have become
    erase_dead(function)


def _pair_loops(function: func.FuncOp) -> None:
    """Move a loop to its twin behind it, and what reads its results behind that, where the twin needs none of these."""
    loops = [op for op in list_ops(function) if op.name == "scf.for" and not is_no_kernel(op)]
    paired: set[ir.Operation] = set()
    for first, second in itertools.combinations(loops, 2):
        if first.block == second.block and not {first, second} & paired and are_twins(first, second):
            needed = list_needed(second)
            if first not in needed:
                _move_to(first, second)
                paired |= {first, second}


def _move_to(first: ir.Operation, second: ir.Operation) -> None:
    """Move an op to another one behind it, and what reads its results behind that."""
    ops = [op.operation for op in second.block.operations]
    made, readers = set(first.results), []
    for op in ops[ops.index(first) + 1 : ops.index(second)]:
        if not made.isdisjoint(find_needed_values(op)):
            readers.append(op)
            made |= set(op.results)
    first.move_before(second)
    for op in reversed(readers):
        op.move_after(second)


class _Grouping:
    """Gives each op that is work to one group: heavy ops choose first, then rows, then trees from their roots."""

    def __init__(self, function: func.FuncOp, limit: int, target: Target) -> None:
        self.limit, self.target = limit, target
        self.ops = list_ops(function)
        self.facts = OpFacts({op: i for i, op in enumerate(self.ops)})
        self.taken: dict[ir.Operation, Group] = {}

    def run(self, fuse: bool) -> list[Group]:
        """All groups in program order of their roots."""
        work = [op for op in self.ops if len(op.results) and not is_cheap(op) and not is_no_kernel(op)]
        anchored = self._epilogues(work) if fuse else []
        for op in work if fuse else []:
            if self._free(op) and is_reduction(op, self.facts):
                self._take(self._choose(self._rows(op), Group([op])))
        for anchor, family, group in anchored:
            grow_backward(group, self.facts, self._free, self._limit_size(epilogue_joins(anchor, self.facts)))
            self._absorb(family, anchor, group)
        for op in reversed(work):
            if self._free(op) and not (fuse and self._is_border(op)):
                group = Group(self._pieces(op) if fuse else [op])
                if fuse and is_map(op, self.facts):
                    grow_backward(group, self.facts, self._free, self._limit_size(tree_joins(self.facts)))
                self._take(group)
        for op in work:
            if self._free(op) and (source := defining_op(op.operands[0])) is not None:
                self.taken[source].members.append(op)
                self.taken[op] = self.taken[source]
        for group in list({id(g): g for g in self.taken.values()}.values()) if fuse else []:
            self._merge(group)
        groups = {id(g): g for g in self.taken.values()}.values()
        for group in groups:
            group.members.sort(key=self.facts.order.__getitem__)
        return sorted(groups, key=lambda g: self.facts.order[g.members[-1]])

    def _limit_size(self, joins: Joins) -> Joins:
        """The rule, for groups that may still grow."""
        limit = self.limit or _MOST_MEMBERS
        return lambda op, group: len(group.members) < limit and joins(op, group)

    def _free(self, op: ir.Operation) -> bool:
        return op not in self.taken

    def _is_border(self, op: ir.Operation) -> bool:
        """Return whether a padding, or a store with gaps, is written by the kernel of what it pads."""
        if not can_border(op) or (op.name == "tensor.insert_slice" and defining_op(op.operands[1]) is None):
            return False
        if leaves_padding_to_reader(op):
            return False
        source = defining_op(op.operands[0])
        if source is None or source.name != "linalg.generic" or copies_windows(source, self.facts.kind(source)):
            return False
        return self.facts.users(source) == [op]

    def _pieces(self, op: ir.Operation) -> list[ir.Operation]:
        """An op; of the last of insertions all that kernels of what they insert do not make; of loops a pair."""
        before = self.ops[self.facts.order[op] - 1]
        if are_twins(before, op) and self._free(before) and before not in list_needed(op) and self.limit != 1:
            return [before, op]
        chain = find_insertions(op)
        alone = all(self._free(each) and not self._is_border(each) for each in chain)
        read = all(self.facts.users(each) == [after] for each, after in itertools.pairwise(chain))
        within = not self.limit or len(chain) <= self.limit
        return chain if chain and alone and read and within else [op]

    def _take(self, group: Group) -> None:
        self.taken.update(dict.fromkeys(group.members, group))

    def _epilogues(self, work: list[ir.Operation]) -> list[tuple[ir.Operation, Family, Group]]:
        """Each heavy op and the group of what follows it; what else an epilogue reads may join when all have theirs."""
        begun = [(op, *found) for op in work if (found := begin_group(op, self.facts, self.target)) is not None]
        several = [one for one in begun if len(one[2]) > 1]
        inside = {member for *_, members in several for member in members}
        groups = []
        for op, family, members in (*several, *(one for one in begun if one[0] not in inside)):
            alone = Group(members)
            groups.append((op, family, self._choose(self._grown(alone, op), alone)))
            self._take(groups[-1][2])
        return groups

    def _absorb(self, family: Family, anchor: ir.Operation, group: Group) -> None:
        """Give a group what else its family takes."""
        found = [op for op in family.absorb(anchor, self.facts) if self._free(op) and not self._is_border(op)]
        group.members += found
        self._take(group)

    def _grown(self, group: Group, anchor: ir.Operation) -> Group:
        """The group with what follows its anchor."""
        if has_dynamic_sum(anchor) or copies_windows(anchor, self.facts.kind(anchor)):
            return group
        return grow_forward(group, self.facts, self._free, self._limit_size(epilogue_joins(anchor, self.facts)))

    def _merge(self, group: Group) -> None:
        """Join a group with others, if they are one kernel of some family."""
        for family in FAMILIES:
            members = family.merge(group, self.facts, self.taken)
            if members is not None and len(members) <= (self.limit or len(members)) and self._is_worth(members):
                return self._take(Group(members))
        return None

    def _choose(self, whole: Group, alone: Group) -> Group:
        """A group, or what it has without the ops that it need not have, where that was found to be faster."""
        return whole if len(whole.members) == len(alone.members) or self._is_worth(whole.members) else alone

    def _is_worth(self, members: Sequence[ir.Operation]) -> bool:
        return decide_fusion(sorted(members, key=self.facts.order.__getitem__))

    def _rows(self, op: ir.Operation) -> Group:
        rule = RowRule.of(op, self.facts)
        group = Group([op]) if rule is None else self._grow_rows(op, rule)
        if rule is None or (rule.has_open_columns and not rule.walks_again(group)):
            # along other dims: producers merge into the reduction, elementwise readers follow it
            group = self._grown(Group([op]), op)
            grow_backward(group, self.facts, self._free, self._limit_size(tree_joins(self.facts)))
        return group

    def _grow_rows(self, op: ir.Operation, rule: RowRule) -> Group:
        """A reduction with what works on the same rows."""
        group = grow_forward(Group([op], {op}), self.facts, self._free, self._limit_size(rule.joins))
        if not rule.has_open_columns or rule.walks_again(group):
            grow_backward(group, self.facts, self._free, self._limit_size(rule.joins))
        return group


def _merge_members(group: Group) -> list[ir.Operation]:
    """Inline each elementwise member into the one op that reads it, from the last to the first."""
    # By their results: an op's own hash changes with its operands.
    places = {op.results[0]: place for place, op in enumerate(group.members)}
    members = dict(enumerate(group.members))
    for place, op in reversed(list(enumerate(group.members[:-1]))):
        read_by = users_of(op)
        at = places.get(read_by[0].results[0]) if len(read_by) == 1 and len(read_by[0].results) else None
        if at is None or not can_inline(op, members[at]):
            continue
        if is_map(op, OpFacts({})) and reads_once(op, members[at]) and _can_merge_into(members[at]):
            del members[place], places[op.results[0]], places[members[at].results[0]]
            members[at] = inline(op, members[at])
            places[members[at].results[0]] = at
    return [members[place] for place in sorted(members)]


def _can_merge_into(op: ir.Operation) -> bool:
    """Return whether other ops may merge into this one. Its address may be a dead op's, so nothing known is reused."""
    facts = OpFacts({})
    return is_map(op, facts) or is_reduction(op, facts)
