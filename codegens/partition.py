"""Partition of a network into the largest subgraphs that can each be one call.

A subgraph is connected and convex: nothing outside lies on a way from one of its nodes to another. Several of them,
and the nodes that are left, must still have an order, so that ways through other subgraphs count as well.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from ..core.subgraphs import Network

Members = frozenset[int]
Accepts = Callable[[Members], bool]


class _Units:
    """The nodes of a network in units, each of which is one step; there is an order of the steps.

    Sets of nodes are the bits of integers. ``before`` has for each unit the nodes that come before it.
    """

    def __init__(self, network: Network, joined: Iterable[Members] = ()) -> None:
        self.members: dict[int, int] = {}
        self.before: dict[int, int] = {}
        self.unit: list[int] = []
        producer = {name: number for number, each in enumerate(network.nodes) for name in each.makes}
        self.sources = [
            tuple(dict.fromkeys(producer[name] for name in each.reads if name in producer)) for each in network.nodes
        ]
        for number, sources in enumerate(self.sources):
            self.unit.append(number)
            self.members[number] = 1 << number
            self.before[number] = 0
            for source in sources:
                self.before[number] |= self.before[source] | 1 << source
        for members in joined:
            first, *others = sorted(members)
            for other in others:
                self.join(first, self.unit[other])

    def can_join(self, a: int, b: int) -> bool:
        """Return whether two units can be one: no other one has to come between them."""
        members = self.members[a] | self.members[b]
        before = (self.before[a] | self.before[b]) & ~members
        return not any(self.before[unit] & members for unit in self._units_of(before))

    def join(self, a: int, b: int) -> None:
        """Make two units one."""
        members = self.members[a] | self.members.pop(b)
        before = (self.before[a] | self.before.pop(b)) & ~members
        self.members[a], self.before[a] = members, before
        for number in _list_bits(members):
            self.unit[number] = a
        whole = members | before
        for unit, known in self.before.items():
            if unit != a and known & members:
                self.before[unit] = known | (whole & ~self.members[unit])

    def _units_of(self, nodes: int) -> Iterator[int]:
        while nodes:
            unit = self.unit[(nodes & -nodes).bit_length() - 1]
            yield unit
            nodes &= ~self.members[unit]


def _list_bits(number: int) -> Iterator[int]:
    while number:
        low = number & -number
        yield low.bit_length() - 1
        number ^= low


def find_subgraphs(
    network: Network, candidates: Collection[int], taken: Sequence[Members], accepts: Accepts, min_nodes: int
) -> list[Members]:
    """The largest subgraphs of ``candidates`` beside those that are ``taken``, in order; none below ``min_nodes``.

    One of several nodes that ``accepts`` refuses is grown again node by node, as far as it accepts what comes out.
    """
    units = _Units(network, taken)
    _grow(units, candidates, lambda _: True)
    found: list[Members] = []
    refused: list[Members] = []
    for members in _list_units(units, candidates):
        (found if len(members) == 1 or accepts(members) else refused).append(members)
    for members in refused:
        units = _Units(network, [*taken, *found])
        _grow(units, members, accepts)
        found += _list_units(units, members)
    return sorted((members for members in found if len(members) >= min_nodes), key=min)


def _grow(units: _Units, candidates: Collection[int], accepts: Accepts) -> None:
    """Join each candidate, in order, with those that make what it reads: the largest ones first."""
    chosen = set(candidates)
    for number in sorted(chosen):
        sources = {units.unit[source] for source in units.sources[number] if source in chosen}
        for source in sorted(sources, key=lambda unit: (-units.members[unit].bit_count(), unit)):
            unit, other = units.unit[number], units.unit[source]
            if unit == other or not units.can_join(unit, other):
                continue
            if accepts(frozenset(_list_bits(units.members[unit] | units.members[other]))):
                units.join(other, unit)


def _list_units(units: _Units, candidates: Collection[int]) -> list[Members]:
    numbers = dict.fromkeys(units.unit[number] for number in sorted(candidates))
    return [frozenset(_list_bits(units.members[unit])) for unit in numbers]
