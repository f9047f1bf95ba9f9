"""The open sizes of exported programs: what they are as extents, and the sizes that stand for them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim, ExportedProgram
from torch.nn import functional

from tilewright.core.sizes import Sym, bounds_of, floor_divide
from tilewright.frontends.linalg.fitting import value_at
from tilewright.frontends.torch.sampling import NoSampleError, find_samples, number_at
from tilewright.frontends.torch.symbols import Symbols

BATCH, LENGTH = Dim("batch", min=1, max=40), Dim("length", min=4)


class Halved(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor, n: int) -> tuple[torch.Tensor, int]:
        return functional.avg_pool1d(x, 2).sum(0) + n, y.shape[0] * 3


@pytest.fixture(scope="module")
def program() -> ExportedProgram:
    inputs = (torch.randn(4, 6), torch.randn(8, 2), 5)
    return torch.export.export(Halved(), inputs, dynamic_shapes=({0: BATCH, 1: LENGTH}, {0: 2 * BATCH}, Dim.DYNAMIC))


def test_symbols_bear_the_names_of_inputs(program: ExportedProgram):
    symbols, length = Symbols(program), Sym("x.1", 4)
    assert symbols.shape("x") == (Sym("x.0"), length)
    assert symbols.shape("y") == (2 * Sym("x.0"), 2)
    assert symbols.scalars() == {"n": Sym("n")}
    assert symbols.results() == [(floor_divide(length, 2),), 6 * Sym("x.0")]
    assert floor_divide(length, 2) in symbols.find_extents()
    assert [str(bounds_of(n)) for n in symbols.shape("x")] == ["1..40", "4.."]


def test_batches_that_a_view_wants_equal_are_one_size():
    attention = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    inputs, dims = (torch.randn(2, 5, 8), *[torch.randn(2, 7, 8)] * 2), {0: Dim("other"), 1: Dim("keys")}
    program = torch.export.export(attention, inputs, dynamic_shapes=({0: Dim("batch")}, dims, dims))
    symbols = Symbols(program)
    query, key = symbols.shape("query"), symbols.shape("key")
    assert query == (Sym("query.0"), 5, 8) and key == (Sym("query.0"), Sym("key.1"), 8)
    made = find_samples(program, lambda sample: sample)
    assert len(made) == 3
    for _, sample in made:
        query, key, _ = [n.meta["val"] for n in sample.graph.find_nodes(op="placeholder")][-3:]
        assert query.shape[0] == key.shape[0]


def test_samples_differ_in_all_sizes(program: ExportedProgram):
    made = find_samples(program, lambda sample: sample)
    points = [point for point, _ in made]
    assert len(points) == 3
    assert all(len(set(point.values())) == 3 for point in points)
    for sizes in zip(*(point.values() for point in points), strict=True):
        assert len(set(sizes)) == 3 and all(len({n % m for n in sizes}) > 1 for m in (2, 3, 4, 5))
    symbols = Symbols(program)
    for point, sample in made:
        [x, y] = [n.meta["val"] for n in sample.graph.find_nodes(op="placeholder") if n.name != "n"]
        batch, length = (value_at(n, symbols.rename_point(point)) for n in symbols.shape("x"))
        assert (tuple(x.shape), tuple(y.shape)) == ((batch, length), (2 * batch, 2))
        assert 2 <= batch <= 40 and length >= 4
    assert points == [point for point, _ in find_samples(program, lambda sample: sample)]


def test_samples_are_sizes_that_the_program_takes(program: ExportedProgram):
    def only(divisor: int) -> Any:
        def decompose(sample: ExportedProgram) -> ExportedProgram:
            [x, *_] = (n.meta["val"] for n in sample.graph.find_nodes(op="placeholder"))
            if x.shape[1] % divisor:
                raise ValueError(f"no multiple of {divisor}")
            return sample

        return decompose

    lengths = [number_at(_size_of(program, 1), point) for point, _ in find_samples(program, only(6))]
    assert len(lengths) == 3 and all(n % 6 == 0 for n in lengths)
    with pytest.raises(NoSampleError, match="no multiple of 1009"):
        find_samples(program, only(1009))


def test_samples_keep_to_what_torch_took_for_granted():
    class Taken(nn.Module):
        def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
            return x[:n]

    program = torch.export.export(Taken(), (torch.randn(6, 3), 3), dynamic_shapes=({0: Dim.DYNAMIC}, Dim.DYNAMIC))
    [x, n] = (node.meta["val"] for node in program.graph.find_nodes(op="placeholder"))
    points = [point for point, _ in find_samples(program, lambda sample: sample)]
    assert len(points) == 3 and all(number_at(n, point) <= number_at(x.shape[0], point) for point in points)


def test_samples_tell_sizes_apart():
    class Least(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x[: torch.sym_min(x.shape[0], y.shape[0])]

    inputs = (torch.randn(6), torch.randn(5))
    program = torch.export.export(Least(), inputs, dynamic_shapes=({0: Dim.DYNAMIC}, {0: Dim.DYNAMIC}))
    sizes = [node.meta["val"].shape[0] for node in program.graph.find_nodes(op="placeholder")]
    points = [point for point, _ in find_samples(program, lambda sample: sample)]
    assert {number_at(sizes[0], point) < number_at(sizes[1], point) for point in points} == {True, False}


def _size_of(program: ExportedProgram, axis: int) -> torch.SymInt:
    [x, *_] = (n.meta["val"] for n in program.graph.find_nodes(op="placeholder"))
    return x.shape[axis]
