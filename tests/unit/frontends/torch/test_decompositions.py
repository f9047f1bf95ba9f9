"""What operators are decomposed into, held against the operators themselves."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

from tilewright.frontends.torch.decompositions import make_decompositions

aten = torch.ops.aten
TABLE: dict[Any, Callable[..., Any]] = make_decompositions()


def check(operator: Any, *arguments: Any, **options: Any) -> None:
    """The first result is as the operator's own."""
    found, expected = TABLE[operator](*arguments, **options), operator(*arguments, **options)
    if isinstance(expected, tuple):
        found, expected = found[0], expected[0]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5, equal_nan=True)


def numbers(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize(
    ("window", "stride", "padding", "more", "groups"),
    [(2, 2, 0, 0, 1), (3, 2, 1, 1, 1), (4, 2, 1, 0, 2), (2, 2, 0, 1, 1), (3, 3, 0, 2, 1), (1, 2, 0, 1, 1)],
)
def test_transposed_convolutions(window: int, stride: int, padding: int, more: int, groups: int):
    x, weight, bias = numbers(2, 4, 5, 7), numbers(4, 6 // groups, window, window), numbers(6)
    sides = [[n, n] for n in (stride, padding, 1)]
    check(aten.convolution.default, x, weight, bias, *sides, True, [more, more], groups)


def test_other_convolutions_are_left():
    x, weight = numbers(1, 3, 5), numbers(2, 3, 3)
    assert TABLE[aten.convolution.default](x, weight, None, [1], [0], [1], False, [0], 1) is NotImplemented
    assert TABLE[aten.convolution.default](x, numbers(3, 2, 3), None, [2], [0], [2], True, [0], 1) is NotImplemented


def test_norms():
    x = numbers(2, 6, 4, 5)
    check(aten.native_layer_norm.default, x, [4, 5], numbers(4, 5), None, 1e-5)
    check(aten.native_group_norm.default, x, numbers(6), numbers(6), 2, 6, 20, 3, 1e-5)
    statistics = (numbers(6), numbers(6).abs() + 0.5)
    check(aten._native_batch_norm_legit_no_training.default, x, numbers(6), None, *statistics, 0.1, 1e-5)
    check(aten.native_layer_norm.default, x.bfloat16(), [5], None, None, 1e-5)


@pytest.mark.parametrize("correction", [None, 0, 2])
def test_variances(correction: int | None):
    check(aten.var.correction, numbers(3, 4, 5), [0, 2], correction=correction)
    check(aten.var_mean.correction, numbers(3, 4), None, correction=correction, keepdim=True)


def test_clamp_keeps_nan():
    x = torch.tensor([-9.0, math.nan, 0.5, 9.0])
    check(aten.clamp.default, x, -1.0, 6.0)
    check(aten.hardtanh.default, x, 0.0, 6.0)
    assert TABLE[aten.clamp.default](torch.tensor([1, 2]), 0, 1) is NotImplemented


def test_gelu():
    check(aten.gelu.default, torch.linspace(-5, 5, 101), approximate="tanh")
    assert TABLE[aten.gelu.default](numbers(3)) is NotImplemented


@pytest.mark.parametrize("kind", [None, 0, 1])
def test_attention_of_all_heads_in_one_operator(kind: int | None):
    x, split, join = numbers(2, 5, 8), (numbers(24, 8), numbers(24)), (numbers(8, 8), numbers(8))
    masks = {0: torch.arange(5)[:, None] < torch.arange(5), 1: torch.arange(5) > torch.tensor([[4], [2]])}
    mask = None if kind is None else masks[kind]
    weights = {"need_weights": False, "mask_type": kind}
    check(aten._native_multi_head_attention.default, x, x, x, 8, 2, *split, *join, mask, **weights)


def test_places_are_copied():
    x = numbers(2, 5, 3)
    check(aten.index_copy.default, x, 1, torch.tensor([3]), numbers(2, 1, 3))
    check(aten.index_copy.default, x, 1, torch.tensor([3, 0]), numbers(2, 2, 3))


@pytest.mark.parametrize("mask", [None, "causal", "bool", "heads", "batches", "rows"])
def test_attention(mask: str | None):
    query, key, value = numbers(2, 3, 5, 8), numbers(2, 3, 7, 8), numbers(2, 3, 7, 4)
    masks = {
        "bool": numbers(5, 7) > 0,
        "heads": numbers(1, 3, 1, 7),
        "batches": numbers(2, 1, 1, 7),
        "rows": torch.tensor([[0.0], [-math.inf], [1.0], [0.0], [0.0]]).expand(5, 7),  # one row has nothing
    }
    options = {"attn_mask": masks.get(mask or ""), "is_causal": mask == "causal"}
    made = TABLE[aten.scaled_dot_product_attention.default](query, key, value, **options)
    torch.testing.assert_close(
        made, functional.scaled_dot_product_attention(query, key, value, **options), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("amounts", [(0, 0, 1, -1), (1, -1, 0, 0), (-1, 1), (2, -1, -3, 1), (-2, -2, -1, -1)])
def test_paddings_by_negative_amounts(amounts: tuple[int, ...]):
    check(aten.constant_pad_nd.default, numbers(4, 6), list(amounts), 0.5)
