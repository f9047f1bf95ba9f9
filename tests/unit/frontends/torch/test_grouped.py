"""Mixtures of experts: grouped products in all their forms, and operators that are not torch's own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from samples import some_of
from torch import nn
from torch.export import Dim

import tilewright as tw
from tilewright.driver.torch_backend import tilewright as backend
from tilewright.frontends.torch.grouped import grouped_mm, grouped_product, most_blocks


def by_group(rows: torch.Tensor, matrices: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """One group after another; rows behind the last one are zero."""
    made, start = torch.zeros(rows.shape[0], matrices.shape[2]), 0
    for matrix, end in zip(matrices, ends.tolist(), strict=True):
        made[start:end] = rows[start:end] @ matrix
        start = end
    return made


@pytest.fixture(scope="module", autouse=True)
def _library() -> Iterator[None]:
    """The operator of transformers, where that is not loaded, and one of a user."""
    theirs, mine = torch.library.Library("transformers", "FRAGMENT"), torch.library.Library("mine", "FRAGMENT")
    theirs.define("grouped_mm_fallback(Tensor input, Tensor weight, Tensor offs) -> Tensor")
    theirs.impl("grouped_mm_fallback", by_group, "CPU")

    def shaped(x: torch.Tensor, weight: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
        return x.new_empty(x.shape[0], weight.shape[2])

    torch.library.register_fake("transformers::grouped_mm_fallback", shaped, lib=theirs)
    mine.define("twice(Tensor x) -> Tensor")
    mine.impl("twice", lambda x: x * 2, "CPU")
    torch.library.register_fake("mine::twice", torch.empty_like, lib=mine)
    yield
    theirs._destroy()
    mine._destroy()


@pytest.mark.parametrize("open_sizes", [False, True])
@pytest.mark.parametrize(
    ("count", "ends"),
    [
        (1, [0, 1]),
        (7, [7, 7, 7]),
        (9, [0, 0, 9]),
        (40, [3, 3, 17, 18, 40]),
        (33, [1, 2, 30]),
        (5, [0, 0, 0]),
        (64, list(range(3, 60, 3))),
        (0, [0, 0]),
    ],
)
def test_each_row_meets_its_group_s_matrix(open_sizes, count, ends):
    rows, matrices = torch.randn(count, 6), torch.randn(len(ends), 6, 5)
    for other in set(range(len(ends))) - {g for g, (a, b) in enumerate(zip([0, *ends], ends, strict=False)) if a < b}:
        matrices[other] = float("nan")  # of groups without rows nothing is seen
    found = grouped_product(open_sizes, rows, matrices, torch.tensor(ends, dtype=torch.int32))
    torch.testing.assert_close(found, by_group(rows, matrices, torch.tensor(ends)), rtol=1e-5, atol=1e-5)


def test_there_are_blocks_enough_for_any_groups():
    for count, groups, size in [(7, 3, 2), (8, 8, 4), (30, 4, 8), (3, 9, 2), (65, 2, 64)]:
        last_rows = [(count - groups + 1, *[1] * (groups - 1))] if count >= groups else [(1,) * count]
        for counts in (*last_rows, (count,), (count // 2, count - count // 2)):
            assert sum(-(-n // size) for n in counts) <= most_blocks(count, groups, size)


def test_the_other_forms_of_torch_s_grouped_product():
    x, y, ends = torch.randn(3, 4, 6), torch.randn(6, 9), torch.tensor([2, 2, 9])
    columns = [x[g] @ y[:, a:b] for g, (a, b) in enumerate([(0, 2), (2, 2), (2, 9)])]
    torch.testing.assert_close(grouped_mm(False, x, y, ends), torch.cat(columns, 1), rtol=1e-5, atol=1e-5)
    a, b = torch.randn(4, 9), torch.randn(9, 5)
    sums = torch.stack([a[:, i:j] @ b[i:j] for i, j in [(0, 2), (2, 2), (2, 9)]])
    torch.testing.assert_close(grouped_mm(False, a, b, ends), sums, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(grouped_mm(False, x, x.mT), x @ x.mT, rtol=1e-5, atol=1e-5)


class Experts(nn.Module):
    """A router, and two products for each of the experts that it chooses, as transformers computes them."""

    def __init__(self, experts: int, own: bool) -> None:
        super().__init__()
        self.route, self.own = nn.Linear(8, experts), own
        self.up, self.down = nn.Parameter(torch.randn(experts, 16, 8)), nn.Parameter(torch.randn(experts, 8, 16))

    def grouped(self, x: torch.Tensor, weight: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        if self.own:  # which is exported for this dtype alone
            return torch.ops.aten._grouped_mm(x.bfloat16(), weight.bfloat16().mT, offs=ends).float()
        return torch.ops.transformers.grouped_mm_fallback(x, weight.mT, offs=ends)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights, chosen = torch.softmax(self.route(x), -1).topk(2, -1)
        flat, order = torch.sort(chosen.reshape(-1))
        ends = torch.histc(flat.float(), bins=len(self.up), min=0, max=len(self.up) - 1).cumsum(0, dtype=torch.int32)
        made = self.grouped(torch.relu(self.grouped(x[order // 2], self.up, ends)), self.down, ends)
        made = made * weights.reshape(-1)[order, None]
        back = torch.empty_like(order)
        back[order] = torch.arange(order.shape[0])
        return made[back].reshape(-1, 2, 8).sum(1)


@pytest.mark.parametrize(
    ("experts", "own", "is_open"), some_of(itertools.product([4, 20], [False, True], [True, False]), 8)
)
def test_mixtures_of_experts_agree_with_eager(experts, own, is_open):
    module, shapes = Experts(experts, own).eval(), ({0: Dim("tokens", min=2, max=64)},) if is_open else None
    made = tw.compile(module, example_inputs=torch.randn(13, 8), dynamic_shapes=shapes, num_threads=1, cache=False)
    for x in (torch.randn(n, 8) for n in ([13, 3, 40] if is_open else [13])):
        with torch.no_grad():
            near = 2**-5 if own else 1e-4
            torch.testing.assert_close(made(x), module(x), rtol=near, atol=near)


class Loop(nn.Module):
    """Experts one by one, all of them on all rows, weighted by what the router says."""

    def __init__(self) -> None:
        super().__init__()
        self.route = nn.Linear(8, 3)
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights, chosen = torch.softmax(self.route(x), -1).topk(2, -1)
        mask = nn.functional.one_hot(chosen, 3).permute(2, 1, 0)
        made = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            factor = (weights * mask[number].T).sum(-1, keepdim=True)
            made.index_add_(0, torch.arange(x.shape[0]), torch.relu(expert(x)) * factor)
        return made


def test_a_loop_over_experts_agrees_with_eager():
    module, x = Loop().eval(), torch.randn(6, 8)
    with torch.no_grad():
        made = tw.compile(module, example_inputs=x, num_threads=1, cache=False)(x)
        torch.testing.assert_close(made, module(x), rtol=1e-4, atol=1e-5)


class Twice(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.mine.twice(x).relu()


def test_another_operator_is_refused_by_its_name(tmp_path):
    x, path = torch.randn(3, 4), tmp_path / "twice.pt2"
    with pytest.raises(tw.UnsupportedError, match=r"Twice: twice: 'mine::twice' is an operator of another.*: write it"):
        tw.compile(Twice().eval(), example_inputs=x, cache=False)
    torch.export.save(torch.export.export(Twice().eval(), (x,)), path)
    with pytest.raises(tw.ModelError, match=r"not torch's own, 'torch\.ops\.mine\.twice.*: write it with torch's"):
        tw.compile(path, cache=False)


def test_another_operator_runs_in_torch_where_that_may_be():
    torch._dynamo.reset()
    x = torch.randn(3, 4)
    with pytest.warns(RuntimeWarning, match="runs in torch.*'mine::twice'"):
        found = torch.compile(Twice().eval(), backend=backend, options={"fallback": True, "cache": False})(x)
    torch.testing.assert_close(found, Twice()(x))


def test_a_file_may_have_the_grouped_product_of_transformers(tmp_path):
    module, x, path = Experts(4, False).eval(), torch.randn(9, 8), tmp_path / "experts.pt2"
    torch.export.save(torch.export.export(module, (x,)), path)
    made: Any = tw.compile(path, num_threads=1, cache=False)
    with torch.no_grad():
        torch.testing.assert_close(made(x), module(x), rtol=1e-4, atol=1e-4)
