"""Functions of numbers by formulas of our own, at the numbers that formulas get wrong."""

from __future__ import annotations

import pytest
import torch

from tilewright.frontends.torch.special_functions import SPECIAL_FUNCTIONS

aten = torch.ops.aten
NAN, INF = float("nan"), float("inf")
ODD = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.3, -2.5, 170.0, 1e-3, -1e-3, 5.0, 0.5, -7.0, 40.2, 2.0, INF, NAN])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("op", [aten.lgamma.default, aten.digamma.default, aten.erfinv.default])
def test_functions_of_one_number(op, dtype):
    x = torch.cat([ODD, torch.linspace(-0.999, 0.999, 61), torch.linspace(-20, 30, 101) + 0.013]).to(dtype)
    near = 2e-6 if dtype == torch.float32 else 1e-12
    torch.testing.assert_close(SPECIAL_FUNCTIONS[op](x), op(x), equal_nan=True, rtol=near, atol=near)


def test_angles_have_the_signs_of_zeros_and_infinities():
    values = torch.cat([ODD, torch.tensor([-INF])])
    y, x = (t.reshape(-1) for t in torch.meshgrid(values, values, indexing="ij"))
    found, expected = SPECIAL_FUNCTIONS[aten.atan2.default](y, x), torch.atan2(y, x)
    torch.testing.assert_close(found, expected, equal_nan=True)
    assert torch.signbit(found).equal(torch.signbit(expected)) or expected.isnan().any()


def test_a_nan_is_equal_to_nothing():
    assert SPECIAL_FUNCTIONS[aten.eq.Tensor](ODD, ODD).equal(ODD == ODD)
    for equal_nan in (False, True):
        found = SPECIAL_FUNCTIONS[aten.isclose.default](ODD, ODD.clone(), equal_nan=equal_nan)
        assert found.equal(torch.isclose(ODD, ODD, equal_nan=equal_nan))


def test_zero_times_a_logarithm_is_zero():
    x, y = (t.reshape(-1) for t in torch.meshgrid(ODD, ODD, indexing="ij"))
    torch.testing.assert_close(SPECIAL_FUNCTIONS[aten.xlogy.Tensor](x, y), torch.xlogy(x, y), equal_nan=True)


def test_a_remainder_by_a_number():
    torch.testing.assert_close(SPECIAL_FUNCTIONS[aten.fmod.Scalar](ODD, 2.5), torch.fmod(ODD, 2.5), equal_nan=True)
