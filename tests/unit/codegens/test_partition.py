"""Partitions of networks: convex, connected, as large as they can be, and with an order of all that is left."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from tilewright.codegens.partition import Members, find_subgraphs
from tilewright.core.subgraphs import Network, NetworkNode, SubgraphNode


def network(*sources: Iterable[int]) -> Network:
    """A network whose nodes read results of the nodes of these numbers."""
    nodes = []
    for number, read in enumerate(sources):
        node = SubgraphNode(f"n{number}", "Op", "", 1, {}, (), ())
        nodes.append(NetworkNode(node, tuple(f"v{each}" for each in read), (f"v{number}",), eligible=True))
    return Network(tuple(nodes), frozenset(), "x86")


def found(
    net: Network, candidates: Iterable[int], min_nodes: int = 1, refuse: Iterable[Members] = ()
) -> list[set[int]]:
    refused = [*refuse]
    members = find_subgraphs(net, [*candidates], [], lambda chosen: chosen not in refused, min_nodes)
    return [set(each) for each in members]


CHAIN = network([], [0], [1], [2], [3])
DIAMOND = network([], [0], [0], [1, 2])


def test_a_chain_is_one_subgraph():
    assert found(CHAIN, range(5)) == [{0, 1, 2, 3, 4}]
    assert found(CHAIN, [0, 1, 3, 4]) == [{0, 1}, {3, 4}]


def test_a_way_through_the_outside_divides():
    assert found(DIAMOND, range(4)) == [{0, 1, 2, 3}]
    assert found(DIAMOND, [0, 1, 3]) in ([{0, 1}, {3}], [{0}, {1, 3}])


def test_two_subgraphs_that_would_wait_for_each_other_are_divided():
    # 0 -> 1 and 2 -> 3 are taken, 0 -> 4 -> 3 and 2 -> 5 -> 1 lie outside.
    net = network([], [], [0], [1], [0, 3], [1, 2])
    parts = found(net, [0, 1, 4, 5])
    assert has_order(net, parts)


def test_small_subgraphs_are_left():
    assert found(CHAIN, [0, 1, 3], min_nodes=2) == [{0, 1}]
    assert found(CHAIN, range(5), min_nodes=6) == []


def test_a_subgraph_that_is_refused_as_a_whole_is_grown_node_by_node():
    whole = frozenset(range(5))
    assert found(CHAIN, range(5), refuse=[whole]) == [{0, 1, 2, 3}, {4}]
    assert found(CHAIN, range(5), refuse=[whole, frozenset({0, 1, 2})]) == [{0, 1}, {2, 3, 4}]


def test_nodes_of_other_code_generators_count_as_one_step():
    net = network([], [0], [1], [0, 2])
    taken = [frozenset({1, 2})]
    parts = find_subgraphs(net, [0, 3], taken, lambda _: True, 1)
    assert [*parts] == [{0}, {3}]


def has_order(net: Network, parts: Iterable[Iterable[int]]) -> bool:
    """Whether all subgraphs and the other nodes can be steps one after another."""
    unit = {number: number for number in range(len(net.nodes))}
    for part in map(sorted, parts):
        unit.update(dict.fromkeys(part, part[0]))
    makers = {name: number for number, each in enumerate(net.nodes) for name in each.makes}
    needs: dict[int, set[int]] = {each: set() for each in unit.values()}
    for number, each in enumerate(net.nodes):
        needs[unit[number]] |= {unit[makers[name]] for name in each.reads} - {unit[number]}
    while ready := [each for each, others in needs.items() if not others]:
        for each in ready:
            del needs[each]
        for others in needs.values():
            others.difference_update(ready)
    return not needs


@pytest.mark.parametrize("seed", range(40))
def test_random_networks_keep_an_order_and_no_two_neighbours_could_be_one(seed: int):
    chance = random.Random(seed)
    count = chance.randint(2, 14)
    net = network(*(chance.sample(range(n), min(n, chance.randint(0, 3))) for n in range(count)))
    candidates = [n for n in range(count) if chance.random() < 0.7]
    parts = found(net, candidates)
    assert sorted(n for part in parts for n in part) == candidates
    assert has_order(net, parts)
    makers = {name: number for number, each in enumerate(net.nodes) for name in each.makes}
    for part in parts:
        for other in parts:
            reads = any(makers[name] in part for number in other for name in net.nodes[number].reads)
            if part is not other and reads:
                rest = [each for each in parts if each is not part and each is not other]
                assert not has_order(net, [*rest, part | other]), "these two could be one"


def test_a_long_network_takes_no_long_time():
    net = network([], *([n - 1, max(n - 3, 0)] for n in range(1, 1500)))
    assert len(found(net, [n for n in range(1500) if n % 50])) == 30
