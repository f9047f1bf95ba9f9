"""Decompositions of our own, held against torch at the numbers that formulas get wrong."""

from __future__ import annotations

import pytest
import torch

from tilewright.frontends.torch.decompositions import make_decompositions

aten = torch.ops.aten
ODD = torch.tensor([0.0, -0.0, 1.0, -2.5, 1e30, -1e30, 1e-30, float("inf"), float("-inf"), float("nan")])


@pytest.mark.parametrize("op", [aten.isfinite.default, aten.signbit.default, aten.erfc.default])
def test_functions_of_one_number(op):
    torch.testing.assert_close(make_decompositions()[op](ODD), op(ODD), equal_nan=True, rtol=1e-6, atol=0)


def test_erfc_keeps_its_digits_where_it_is_small():
    x = torch.linspace(-4, 8, 200)
    torch.testing.assert_close(make_decompositions()[aten.erfc.default](x), torch.erfc(x), rtol=1e-5, atol=0)


@pytest.mark.parametrize("op", [aten.hypot.default, aten.copysign.Tensor])
def test_functions_of_two_numbers(op):
    x, y = (t.reshape(-1) for t in torch.meshgrid(ODD[:-1], ODD[:-1], indexing="ij"))
    torch.testing.assert_close(make_decompositions()[op](x, y), op(x, y), equal_nan=True)


def test_whole_powers_of_integers():
    x = torch.arange(-4, 5)
    for exponent in range(6):
        assert make_decompositions()[aten.pow.Tensor_Scalar](x, exponent).tolist() == (x**exponent).tolist()
    assert make_decompositions()[aten.pow.Tensor_Scalar](ODD, 2) is NotImplemented


def test_a_median_is_the_lower_one_or_a_nan():
    x = torch.tensor([[3.0, 1.0, 2.0, 4.0], [3.0, float("nan"), 2.0, 4.0]])
    found, expected = make_decompositions()[aten.median.dim](x, 1), x.median(1)
    torch.testing.assert_close(found[0], expected.values, equal_nan=True)
    assert found[1].tolist() == expected.indices.tolist()


def test_searched_places_are_left_or_right_of_equal_elements():
    ordered, x = torch.tensor([1.0, 2.0, 2.0, 3.0]), torch.tensor([[0.0, 2.0], [3.0, 9.0]])
    for right in (False, True):
        found = make_decompositions()[aten.searchsorted.Tensor](ordered, x, right=right)
        assert found.tolist() == torch.searchsorted(ordered, x, right=right).tolist()


def test_bags_are_sums_or_means_without_their_padding():
    weight, indices, offsets = torch.randn(9, 4), torch.tensor([1, 0, 5, 8, 0]), torch.tensor([0, 2, 2])
    for mode in (0, 1):
        found = make_decompositions()[aten._embedding_bag.default](weight, indices, offsets, mode=mode, padding_idx=0)
        torch.testing.assert_close(
            found[0], aten._embedding_bag(weight, indices, offsets, False, mode, padding_idx=0)[0]
        )


def test_numbers_are_operands_of_bitwise_operators():
    x = torch.tensor([[0, 7, -200]], dtype=torch.int16)
    for op in (aten.bitwise_or.Scalar, aten.bitwise_xor.Scalar):
        assert make_decompositions()[op](x, 9).equal(op(x, 9))


def test_elements_are_written_where_a_view_has_them():
    x, src = torch.randn(4, 5), torch.randn(4)
    for op, args in ((aten.as_strided_scatter.default, ([4], [6], 0)), (aten.diagonal_scatter.default, (1, 0, 1))):
        assert make_decompositions()[op](x, src, *args).equal(op(x, src, *args))
    assert make_decompositions()[aten.as_strided_scatter.default](x.T, src, [4], [6]) is NotImplemented


def test_an_image_without_a_batch_is_pooled():
    x = torch.randn(3, 6, 8)
    made = make_decompositions()
    found, expected = (of(x, [2, 2], [2, 2]) for of in (made[aten.avg_pool2d.default], aten.avg_pool2d.default))
    torch.testing.assert_close(found, expected)
    with_places = aten.max_pool2d_with_indices.default
    for a, b in zip(made[with_places](x, [2, 2]), with_places(x, [2, 2]), strict=True):
        assert a.equal(b)
    assert made[with_places](x.unsqueeze(0), [2, 2]) is NotImplemented


def test_the_tanh_of_a_gelu_has_all_digits():
    x = torch.linspace(-6, 6, 99)
    found = make_decompositions()[aten.gelu.default](x, approximate="tanh")
    torch.testing.assert_close(found, torch.nn.functional.gelu(x, approximate="tanh"))
    assert make_decompositions()[aten.gelu.default](x) is NotImplemented


@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_running_extremes_are_the_last_ones_and_keep_nan(name):
    op, x = getattr(aten, name).default, torch.randint(0, 4, (3, 13)).float()
    x[1, 5], x[2, 0] = float("nan"), float("inf")
    for dim in (0, 1):
        found, expected = make_decompositions()[op](x, dim), op(x, dim)
        torch.testing.assert_close(found[0], expected[0], equal_nan=True)
        assert found[1].tolist() == expected[1].tolist()


def test_windows_of_an_adaptive_pool_that_are_not_equal():
    for x, size in (
        (torch.randn(2, 3, 8, 7), (5, 5)),
        (torch.randn(3, 5, 7), (2, 7)),
        (torch.randn(1, 5, 6, 7), (2, 3, 4)),
    ):
        op = aten.adaptive_max_pool2d.default if len(size) == 2 else aten.adaptive_max_pool3d.default
        for a, b in zip(make_decompositions()[op](x, size), op(x, size), strict=True):
            assert a.equal(b)
