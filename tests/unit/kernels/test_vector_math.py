"""Functions of float32 on vectors against float64, at every exponent: within 4 ulp, right limits, no call of libm."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import numpy as np
import pytest
from kernel_runner import CompiledKernel, assembly, schedule_text

from tilewright.passes.lower.wrap_kernel import BODY

MANTISSAS = 128  # of each exponent and sign: the first and last ones, and some between

ONE = "%one = arith.constant 1.0 : f32 "
HALF = "%half = arith.constant 0.5 : f32 "


def _erfc(x: np.ndarray) -> np.ndarray:
    return np.vectorize(math.erfc)(x)


def _product(x: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """x * factor; 0 at -inf, where the factor goes to 0 faster."""
    return np.where(x == -np.inf, -0.0, x * factor)


def _logistic(x: np.ndarray) -> np.ndarray:
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, 1) / (1 + small)


def _gelu_tanh(x: np.ndarray) -> np.ndarray:
    return _product(x, _logistic(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


# Name of an op of `math`, or of a body that computes %y from %v; and the same in float64.
FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "cos": np.cos,
    "cosh": np.cosh,
    "erf": np.vectorize(math.erf),
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "gelu": lambda x: _product(x, _erfc(-x * math.sqrt(0.5)) / 2),
    "gelu_tanh": _gelu_tanh,
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": _logistic,
    "sin": np.sin,
    "sinh": np.sinh,
    "tan": np.tan,
    "tanh": np.tanh,
}
BODIES = {
    "sigmoid": ONE + "%m = arith.negf %v : f32 %p = math.exp %m : f32 %s = arith.addf %p, %one : f32 "
    "%y = arith.divf %one, %s : f32",
    "gelu": ONE + HALF + "%root = arith.constant 1.41421354 : f32 %z = arith.divf %v, %root : f32 "
    "%e = math.erf %z : f32 %s = arith.addf %e, %one : f32 %p = arith.mulf %v, %s : f32 %y = arith.mulf %p, %half : f32",
    "gelu_tanh": ONE + HALF + "%k = arith.constant 0.044715 : f32 %c = arith.constant 0.797884583 : f32 "
    "%three = arith.constant 3.0 : f32 %w = math.powf %v, %three : f32 %kw = arith.mulf %w, %k : f32 "
    "%q = arith.addf %v, %kw : f32 %z = arith.mulf %q, %c : f32 %t = math.tanh %z : f32 "
    "%s = arith.addf %t, %one : f32 %h = arith.mulf %v, %half : f32 %y = arith.mulf %h, %s : f32",
}
POWER = "%y = math.powf %v, %w : f32"
REMAINDER = "%y = arith.remf %v, %w : f32"


def kernel_text(body: str, size: int, operands: int = 1) -> str:
    """A kernel that computes %y of %v (and %w) for each element."""
    kind, names = f"tensor<{size}xf32>", ["v", "w"][:operands]
    arguments = ", ".join(f"%t{n}: {kind}" for n in names)
    maps = ", ".join(["affine_map<(i)->(i)>"] * (operands + 1))
    return f"""func.func @k({arguments}) -> {kind} {{
      %out = tensor.empty() : {kind}
      %r = linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel"]}}
        ins({", ".join(f"%t{n}" for n in names)} : {", ".join([kind] * operands)}) outs(%out : {kind}) {{
      ^bb0({", ".join(f"%{n}: f32" for n in names)}, %o: f32):
        {body}
        linalg.yield %y : f32
      }} -> {kind}
      return %r : {kind} }}"""


def body_of(name: str) -> str:
    return BODIES.get(name, f"%y = math.{name} %v : f32")


def every_exponent(mantissas: int = MANTISSAS) -> np.ndarray:
    """Floats of both signs and all 256 exponents: zeros, denormals, infinities and NaN are among them."""
    generator = np.random.default_rng(0)
    low = np.sort(generator.integers(0, 1 << 23, mantissas, dtype=np.uint32))
    low[:4], low[-4:] = range(4), (1 << 23) - 4 + np.arange(4)
    return (np.arange(512, dtype=np.uint32)[:, None] << 23 | low).ravel().view(np.float32)


def check(got: np.ndarray, want: np.ndarray, *inputs: np.ndarray) -> None:
    """Within 4 ulp of float32; where the true value overflows or is NaN, so is the result; zeros have their sign."""
    with np.errstate(over="ignore"):
        expected = want.astype(np.float32)
    exact = ~np.isfinite(expected) | (want == 0)
    np.testing.assert_array_equal(got[exact], expected[exact])
    zero = want == 0
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(want[zero]))
    ulp = np.zeros(want.shape)
    ulp[~exact] = np.abs(got[~exact] - want[~exact]) / np.spacing(np.abs(expected[~exact]))
    at = ulp.argmax()
    assert ulp[at] <= 4, f"of {[float(x[at]) for x in inputs]}: {got[at]} is off by {ulp[at]:.2f} ulp"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_within_four_ulp_at_every_exponent(name: str) -> None:
    x = np.concatenate([every_exponent(), np.linspace(-110, 110, 1 << 15, dtype=np.float32)])
    got = CompiledKernel(kernel_text(body_of(name), x.size))([x], x)
    with np.errstate(all="ignore"):
        check(got, FUNCTIONS[name](x.astype(np.float64)), x)


def test_an_exponential_under_a_maximum_is_within_four_ulp_or_zero() -> None:
    x = np.concatenate([every_exponent(), np.linspace(-110, 0, 1 << 15, dtype=np.float32)])
    x = x[~(x > 0)]
    got = CompiledKernel(kernel_text("%y = math.exp %v {tw.at_most_one} : f32", x.size))([x], x)
    with np.errstate(all="ignore"):
        want = np.exp(x.astype(np.float64))
    normal = ~(want < np.finfo(np.float32).smallest_normal)
    check(got[normal], want[normal], x[normal])
    assert (got[~normal] <= np.finfo(np.float32).smallest_normal).all() and (got[x < -88] == 0).all()


@pytest.mark.parametrize(("name", "function"), [("floor", np.floor), ("ceil", np.ceil), ("roundeven", np.rint)])
def test_float16_is_rounded_in_vectors(name: str, function: Callable[[np.ndarray], np.ndarray]) -> None:
    """Every number, with its sign: LLVM would take float16 apart."""
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    body = f"%v = arith.extf %h : f16 to f32 %r = math.{name} %v : f32 %y = arith.truncf %r : f32 to f16"
    text = kernel_text(body, x.size).replace("f32>", "f16>").replace("%v: f32, %o: f32", "%h: f16, %o: f16")
    text = text.replace("linalg.yield %y : f32", "linalg.yield %y : f16")
    got = CompiledKernel(text)([x], x)
    np.testing.assert_array_equal(got, function(x))
    kept = ~np.isnan(x)
    np.testing.assert_array_equal(np.signbit(got[kept]), np.signbit(function(x[kept])))
    assert not re.search(r"\bv?round(ss|sd|ps|pd)\s", assembly(text))


def _calls(text: str) -> list[str]:
    """The calls in a kernel's code, but for that of its own body."""
    lines = [line for line in assembly(text).splitlines() if "call" in line or "@PLT" in line]
    return [line for line in lines if not line.endswith(BODY)]


@pytest.mark.parametrize("name", [*FUNCTIONS, "powf", "remf"])
def test_a_function_is_vector_code_without_calls(name: str) -> None:
    of_two = {"powf": POWER, "remf": REMAINDER}
    text = kernel_text(of_two[name], 4096, 2) if name in of_two else kernel_text(body_of(name), 4096)
    assert schedule_text(text) != "None"
    assert not _calls(text)


SPECIAL = [0.0, -0.0, 1, -1, 2, -2, 3, 0.5, -0.5, 1.5, 1e-45, -1e-45, 3e38, -3e38, 16777215, 33554432, -8388607.5]
SPECIAL += [np.inf, -np.inf, np.nan, 127, 128, -126, -149, -150, 1 + 2**-23, 1 - 2**-24]


def test_powers_of_special_numbers_are_those_of_c() -> None:
    x, y = (a.ravel() for a in np.meshgrid(*[np.array(SPECIAL, np.float32)] * 2))
    got = CompiledKernel(kernel_text(POWER, x.size, 2))([x, y], x)
    with np.errstate(all="ignore"):
        check(got, np.power(x.astype(np.float64), y.astype(np.float64)), x, y)


# Numbers whose quotient is rounded to a multiple of 2^48 that is one too many.
NEAR = np.array([[3844538939], [2187435076]], np.uint32).view(np.float32)


def test_remainders_are_exact() -> None:
    numbers = np.concatenate([np.array(SPECIAL, np.float32), every_exponent()[::37]])
    x, y = (np.concatenate([a.ravel(), b]) for a, b in zip(np.meshgrid(*[numbers] * 2), NEAR, strict=True))
    got = CompiledKernel(kernel_text(REMAINDER, x.size, 2))([x, y], x)
    with np.errstate(all="ignore"):
        want = np.fmod(x, y)
    np.testing.assert_array_equal(got, want)
    kept = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[kept]), np.signbit(want[kept]))


def test_powers_are_within_four_ulp_over_the_whole_range_of_results() -> None:
    generator = np.random.default_rng(0)
    x = np.abs(every_exponent())
    x = np.concatenate([x[np.isfinite(x) & (x > 0)], 1 + np.float32(2) ** generator.integers(-23, -1, 4096)])
    x = x.astype(np.float32)
    with np.errstate(all="ignore"):
        y = (generator.uniform(-151, 129, x.size) / np.log2(x.astype(np.float64))).astype(np.float32)
        got = CompiledKernel(kernel_text(POWER, x.size, 2))([x, y], x)
        check(got, np.power(x.astype(np.float64), y.astype(np.float64)), x, y)


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0, 3.0, 4.0, 0.5, -0.5, -1.0, -2.0, 0.75])
def test_a_constant_exponent_is_the_same_power(exponent: float) -> None:
    x = every_exponent()
    body = f"%c = arith.constant {exponent} : f32 %y = math.powf %v, %c : f32"
    got = CompiledKernel(kernel_text(body, x.size))([x], x)
    with np.errstate(all="ignore"):
        check(got, np.power(x.astype(np.float64), np.full(x.shape, exponent)), x)  # of a scalar 0.5 numpy takes sqrt


@pytest.mark.parametrize("name", ["cos", "exp", "log", "sin", "tanh"])
def test_a_function_of_float64_is_within_four_ulp(name: str) -> None:
    """Those of one period call libm for what has made many turns, or is infinite; the others never do."""
    bits = np.arange(4096, dtype=np.uint64)[:, None] << np.uint64(52)
    low = np.array([0, 1, 0x5555555555555, 0xFFFFFFFFFFFFF], np.uint64)
    parts = [np.linspace(*ends, 1 << 12) for ends in ((-760, 720), (-20, 20), (-3, 3), (0.999, 1.001), (1e8, 2e8))]
    quarters = (np.random.default_rng(0).integers(0, 1 << 27, 1 << 12) * np.longdouble(np.pi / 2)).astype(np.float64)
    x = np.concatenate([(bits | low).ravel().view(np.float64), *parts, quarters])
    text = kernel_text(body_of(name), x.size).replace("f32", "f64")
    got = CompiledKernel(text)([x], x)
    with np.errstate(all="ignore"):
        want = getattr(np, name)(x.astype(np.longdouble))
        expected = want.astype(np.float64)
        ulp = np.abs(got - want) / np.spacing(np.abs(expected))
    exact = ~np.isfinite(expected) | (expected == 0)
    np.testing.assert_array_equal(got[exact], expected[exact])
    np.testing.assert_array_equal(np.signbit(got[expected == 0]), np.signbit(expected[expected == 0]))
    assert (ulp[~exact] <= 4).all(), x[~exact][ulp[~exact].argmax()]
    assert bool(_calls(text)) == (name in ("cos", "sin"))


def test_remainders_of_float64_are_exact() -> None:
    """Of quotients of few bits and of many, and of numbers beside a multiple of the divisor."""
    generator = np.random.default_rng(0)
    special = np.array([*SPECIAL, 5e-324, 1e-310, 2.3e-308, 1e300, 1.7e308, 2.0**53 - 1], np.float64)
    x, y = (a.ravel() for a in np.meshgrid(special, special))
    divisors = generator.standard_normal(1 << 12) * 2.0 ** generator.integers(-60, 60, 1 << 12)
    multiples = np.floor(generator.random(1 << 12) * 2.0 ** generator.integers(0, 50, 1 << 12)) * divisors
    far = generator.standard_normal(1 << 12) * 2.0 ** generator.integers(-900, 900, 1 << 12)
    x = np.concatenate([x, multiples, np.nextafter(multiples, 0), np.nextafter(multiples, 1e308), far, multiples])
    y = np.concatenate([y, divisors, divisors, divisors, divisors, -divisors])
    got = CompiledKernel(kernel_text(REMAINDER, x.size, 2).replace("f32", "f64"))([x, y], x)
    with np.errstate(all="ignore"):
        want = np.fmod(x, y)
    np.testing.assert_array_equal(got, want)
    kept = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[kept]), np.signbit(want[kept]))


@pytest.mark.parametrize("number", [0.0, -0.0, np.inf, np.nan, 1e300])
def test_rare_numbers_of_float64_that_have_a_vector_of_their_own(number: float) -> None:
    """Where no other element of a vector would have libm called."""
    x = np.full(64, number)
    for name in ("sin", "cos"):
        got = CompiledKernel(kernel_text(body_of(name), x.size).replace("f32", "f64"))([x], x)
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(got, getattr(np, name)(x), rtol=1e-15)
    for other in (0.0, np.nan, np.inf, 5e-324, 3.0):
        got = CompiledKernel(kernel_text(REMAINDER, x.size, 2).replace("f32", "f64"))([x, np.full(64, other)], x)
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(got, np.fmod(x, other))


@pytest.mark.parametrize("other", [-2.0, -0.5, 0.0, 0.5, 1.0, 7.0, 31.0, 32.0, 1e300, np.inf, -np.inf, np.nan])
def test_powers_of_integers_are_those_of_c(other: float) -> None:
    """Also where all elements of a vector are alike."""
    for x in ([0], [1], [-1], [0, 1, -1, 2, 3, -7, 1 << 30, -(1 << 31)]):
        given = np.resize(np.array(x, np.int32), 64)
        text = kernel_text("%f = arith.sitofp %v : i32 to f64 %y = math.powf %f, %w : f64", 64, 2)
        text = (
            text.replace("f32", "f64")
            .replace("%v: f64", "%v: i32")
            .replace("%tv: tensor<64xf64>", "%tv: tensor<64xi32>")
        )
        text = text.replace("(tensor<64xf64>, ", "(tensor<64xi32>, ").replace(
            " : tensor<64xf64>, tensor", " : tensor<64xi32>, tensor"
        )
        y = np.full(64, other)
        got = CompiledKernel(text)([given, y], y)
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(got, np.power(given.astype(np.float64), y))


@pytest.mark.parametrize("name", ["erf", "tan"])
def test_other_functions_of_float64_are_left_to_libm(name: str) -> None:
    x = np.linspace(-3, 3, 64)
    text = kernel_text(body_of(name), x.size).replace("f32", "f64")
    reference = {"erf": np.vectorize(math.erf), "tan": np.tan}[name]
    np.testing.assert_allclose(CompiledKernel(text)([x], x), reference(x), rtol=1e-14)


def test_a_sigmoid_times_its_argument_keeps_the_sigmoids_other_uses() -> None:
    body = BODIES["sigmoid"].replace("%y", "%g") + " %y = arith.mulf %g, %v : f32"
    x = np.linspace(-20, 20, 4096, dtype=np.float32)
    got = CompiledKernel(kernel_text(body, x.size))([x], x)
    wide = x.astype(np.float64)
    check(got, wide * _logistic(wide), x)
