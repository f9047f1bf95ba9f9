"""Norms, softmax, GELU and attention in elementary ops: each form becomes the kernel of the operator itself.

A form is its nodes in ONNX's own syntax. The result is ``y``; what no node makes is an input or a weight of ``ARRAYS``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from onnx import ModelProto, helper, parser
from onnx_case import model_of
from samples import campaign

import tilewright as tw
from tilewright.core.target import detect_host
from tilewright.driver import api
from tilewright.frontends import import_model
from tilewright.passes.infra.context import PassContext
from tilewright.passes.pipeline import plan

RNG = np.random.default_rng(0)
LINE, CUBIC, EPS = math.sqrt(2 / math.pi), 0.044715, 1e-5
NUMBERS = {"eps": EPS, "one": 1, "two": 2, "three": 3, "half": 0.5, "minus_half": -0.5, "forty": 40, "part": 1 / 40}
NUMBERS |= {"zero": 0, "root": 2**0.5, "rooted": 0.5**0.5, "cubic": CUBIC, "line": LINE, "s": 0.125, "eight": 8}
NUMBERS |= {"fourth": 8**-0.25, "low": -1e9}
SHAPES = {"x": (3, 7, 40), "Q": (2, 3, 20, 64), "K": (2, 3, 64, 33), "V": (2, 3, 33, 32), "mask": (2, 1, 20, 33)}
INPUTS = {name: RNG.standard_normal(shape, dtype=np.float32) for name, shape in SHAPES.items()}
INPUTS["keep"] = RNG.random((2, 1, 20, 33)) > 0.3
INPUTS["KT"] = np.ascontiguousarray(INPUTS["K"].swapaxes(2, 3))
WEIGHTS = {name: RNG.standard_normal(40).astype(np.float32) for name in ("g", "b")}
WEIGHTS |= {name: np.array(number, np.float32) for name, number in NUMBERS.items()}
WEIGHTS |= {"last": np.array([-1]), "middle": np.array([1]), "q3": np.array([6, 20, 64]), "k3": np.array([6, 64, 33])}
WEIGHTS |= {"v3": np.array([6, 33, 32]), "s3": np.array([6, 20, 33]), "s4": np.array([2, 3, 20, 33])}
WEIGHTS |= {"y4": np.array([2, 3, 20, 32])}

Forms = dict[str, str]

_CENTRED = "m = ReduceMean<axes=[-1]>(x); d = Sub(x, m); p = Mul(d, d); w = ReduceMean<axes=[-1]>(p); e = Add(w, eps);"
_MOMENTS = "m = ReduceMean<axes=[-1]>(x); p = Pow(x, two); a = ReduceMean<axes=[-1]>(p); mm = Mul(m, m);"
_AFFINE = "t = Mul(z, g); y = Add(t, b)"
LAYER_NORM: Forms = {
    "the operator": "y = LayerNormalization<axis=-1>(x, g, b)",
    "division": f"{_CENTRED} r = Sqrt(e); z = Div(d, r); {_AFFINE}",
    "turned": f"{_CENTRED} r = Sqrt(e); z = Div(d, r); t = Mul(g, z); y = Add(b, t)",
    "reciprocal": f"{_CENTRED} r = Sqrt(e); i = Reciprocal(r); z = Mul(d, i); {_AFFINE}",
    "power": f"{_CENTRED} r = Pow(e, minus_half); z = Mul(r, d); {_AFFINE}",
    "batch norm's": f"{_CENTRED} r = Sqrt(e); i = Reciprocal(r); f = Mul(i, g); u = Mul(x, f); h = Mul(m, f);"
    "o = Sub(b, h); y = Add(u, o)",
    "moments": f"{_MOMENTS} w = Sub(a, mm); e = Add(w, eps); r = Sqrt(e); d = Sub(x, m); z = Div(d, r); {_AFFINE}",
    "moments, not negative": f"{_MOMENTS} n = Sub(a, mm); w = Relu(n); e = Add(w, eps); r = Sqrt(e); d = Sub(x, m);"
    f"z = Div(d, r); {_AFFINE}",
    "mean twice": "m = ReduceMean<axes=[-1]>(x); d = Sub(x, m); n = ReduceMean<axes=[2], keepdims=0>(x);"
    "nn = Unsqueeze(n, last); c = Sub(x, nn); p = Pow(c, two); w = ReduceMean<axes=[-1]>(p); e = Add(eps, w);"
    f"r = Sqrt(e); z = Div(d, r); {_AFFINE}",
    "sums": "n = ReduceSum(x, last); m = Mul(n, part); d = Sub(x, m); w = ReduceSumSquare<axes=[-1]>(d);"
    f"a = Div(w, forty); e = Add(a, eps); r = Sqrt(e); z = Div(d, r); {_AFFINE}",
}
_SQUARES = "p = Mul(x, x); w = ReduceMean<axes=[-1]>(p); e = Add(w, eps);"
RMS_NORM: Forms = {
    "the operator": "y = RMSNormalization<axis=-1>(x, g)",
    "division": f"{_SQUARES} r = Sqrt(e); z = Div(x, r); y = Mul(z, g)",
    "one over": f"{_SQUARES} r = Sqrt(e); i = Div(one, r); z = Mul(x, i); y = Mul(g, z)",
    "root of the reciprocal": f"{_SQUARES} i = Reciprocal(e); r = Sqrt(i); z = Mul(x, r); y = Mul(z, g)",
    "scale first": f"{_SQUARES} r = Sqrt(e); f = Div(g, r); y = Mul(x, f)",
}
_POWERS = "m = ReduceMax<axes=[-1]>(x); d = Sub(x, m); e = Exp(d); n = ReduceSum(e, last);"
_UNSAFE = "e = Exp(x); n = ReduceSum(e, last);"
SOFTMAX: Forms = {
    "the operator": "y = Softmax(x)",
    "steps": f"{_POWERS} y = Div(e, n)",
    "reciprocal": f"{_POWERS} i = Reciprocal(n); y = Mul(i, e)",
    "twice": f"{_POWERS} c = Sub(x, m); f = Exp(c); y = Div(f, n)",
    "unsafe": f"{_UNSAFE} y = Div(e, n)",
    "unsafe, reciprocal": f"{_UNSAFE} i = Reciprocal(n); y = Mul(e, i)",
}
LOG_SOFTMAX: Forms = {
    "the operator": "y = LogSoftmax(x)",
    "log": "p = Softmax(x); y = Log(p)",
    "steps": f"{_POWERS} l = Log(n); y = Sub(d, l)",
    "log of steps": f"{_POWERS} p = Div(e, n); y = Log(p)",
    "log-sum-exp": f"{_POWERS} l = Log(n); lm = Add(l, m); y = Sub(x, lm)",
    "unsafe": f"{_UNSAFE} l = Log(n); y = Sub(x, l)",
}
GELU: Forms = {
    "the operator": "y = Gelu(x)",
    "division": "z = Div(x, root); e = Erf(z); t = Add(e, one); p = Mul(x, t); y = Mul(p, half)",
    "distribution": "z = Mul(x, rooted); e = Erf(z); h = Mul(e, half); c = Add(half, h); y = Mul(x, c)",
    "sum": "z = Mul(x, rooted); e = Erf(z); h = Mul(x, half); p = Mul(h, e); y = Add(h, p)",
}
_TANH = "w = Pow(x, three); c = Mul(w, cubic); q = Add(x, c); z = Mul(q, line); t = Tanh(z);"
GELU_TANH: Forms = {
    "the operator": 'y = Gelu<approximate="tanh">(x)',
    "power": f"{_TANH} a = Add(t, one); h = Mul(x, half); y = Mul(h, a)",
    "distribution": f"{_TANH} a = Add(t, one); h = Mul(half, a); y = Mul(x, h)",
    "sum": f"{_TANH} h = Mul(x, half); p = Mul(h, t); y = Add(h, p)",
    "square": "w = Mul(x, x); c = Mul(w, cubic); a = Add(c, one); l = Mul(x, line); z = Mul(l, a); t = Tanh(z);"
    "o = Add(one, t); p = Mul(x, o); y = Mul(p, half)",
}


def _attention(before: str, scores: str, q: str = "Q", k: str = "K", softmax: str = "p = Softmax(a);") -> str:
    return f"{before} c = MatMul({q}, {k}); {scores} {softmax} y = MatMul(p, V)"


ATTENTION: Forms = {
    "scale on the scores": _attention("", "d = Mul(c, s); a = Add(d, mask);"),
    "on the query": _attention("qs = Mul(Q, s);", "a = Add(c, mask);", q="qs"),
    "on the key": _attention("ks = Div(K, eight);", "a = Add(c, mask);", k="ks"),
    "unsafe": _attention(
        "", "d = Mul(c, s); a = Add(d, mask);", softmax="e = Exp(a); n = ReduceSum(e, last); p = Div(e, n);"
    ),
    "heads in the batch": "q1 = Reshape(Q, q3); k1 = Reshape(K, k3); v1 = Reshape(V, v3); c = MatMul(q1, k1);"
    "d = Mul(c, s); d4 = Reshape(d, s4); a4 = Add(d4, mask); a = Reshape(a4, s3); p = Softmax(a);"
    "o = MatMul(p, v1); y = Reshape(o, y4)",
}


def _model(text: str) -> tuple[ModelProto, dict[str, np.ndarray]]:
    nodes = [parser.parse_node(line) for line in text.split(";")]
    names = {name for node in nodes for name in node.input}
    opset = {"Gelu": 20, "RMSNormalization": 23, "Attention": 23}.get(nodes[0].op_type, 17)
    inputs = {name: array for name, array in INPUTS.items() if name in names}
    weights = {name: array for name, array in WEIGHTS.items() if name in names}
    return model_of(nodes, inputs, ["y"], weights, opset), inputs


def _kernels(text: str, context: PassContext | None = None) -> list[str]:
    model, _ = _model(text)
    made = plan(import_model(model.SerializeToString()), detect_host(), context or PassContext())
    return [call.kernel for call in made.main.calls]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., np.ndarray]:
    """Compile a form and run it, with some inputs replaced; kernels that are known are not compiled again."""
    cache = tmp_path_factory.mktemp("cache")

    def call(text: str, **others: np.ndarray) -> np.ndarray:
        model, inputs = _model(text)
        (got,) = api.compile(model, workers=0, cache=cache).run(inputs | others)
        return np.asarray(got)

    return call


def _forms(*families: Forms) -> list[tuple[str, str]]:
    """Each form with the operator of its family."""
    return [(text, next(iter(family.values()))) for family in families for text in list(family.values())[1:]]


@pytest.mark.parametrize(
    ("form", "operator"),
    _forms(LAYER_NORM, RMS_NORM, SOFTMAX, LOG_SOFTMAX, GELU, GELU_TANH),
    ids=lambda text: text[-40:],
)
def test_a_form_is_the_kernel_of_its_operator(form: str, operator: str) -> None:
    assert _kernels(form) == _kernels(operator)
    assert len(_kernels(form)) == 1


def _softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _norm(x: np.ndarray, centre: bool) -> np.ndarray:
    d = x - x.mean(-1, keepdims=True) if centre else x
    return d / np.sqrt((d * d).mean(-1, keepdims=True) + EPS) * WEIGHTS["g"] + (WEIGHTS["b"] if centre else 0)


TRUE: list[tuple[Forms, Callable[[np.ndarray], np.ndarray], float]] = [
    (LAYER_NORM, lambda x: _norm(x, True), 4e-6),
    (RMS_NORM, lambda x: _norm(x, False), 4e-6),
    (SOFTMAX, _softmax, 1e-6),
    (LOG_SOFTMAX, lambda x: x - x.max(-1, keepdims=True) - np.log(np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True)), 1e-4),
    (GELU, lambda x: x * np.vectorize(math.erfc)(-x * math.sqrt(0.5)) / 2, 1e-5),
    (GELU_TANH, lambda x: x / (1 + np.exp(-2 * LINE * (x + CUBIC * x**3))), 1e-5),
]  # fmt: skip


@campaign("0", "2", "5")
@pytest.mark.parametrize("number", range(len(TRUE)))
@pytest.mark.filterwarnings("ignore:overflow")
def test_all_forms_are_right(number: int, run: Callable[..., np.ndarray]) -> None:
    forms, true, atol = TRUE[number]
    for text in forms.values():
        for scale in (1, 30):
            x = INPUTS["x"] * np.float32(scale)
            np.testing.assert_allclose(run(text, x=x), true(x.astype(np.float64)), rtol=2e-6, atol=atol, err_msg=text)


def test_a_variance_by_moments_does_not_cancel(run: Callable[..., np.ndarray]) -> None:
    x = INPUTS["x"] + np.float32(1000)
    for form in ("moments", "moments, not negative"):
        np.testing.assert_allclose(run(LAYER_NORM[form], x=x), _norm(x.astype(np.float64), True), atol=1e-3)


@pytest.mark.parametrize("form", ["unsafe", "unsafe, reciprocal"])
def test_a_softmax_does_not_overflow(form: str, run: Callable[..., np.ndarray]) -> None:
    x = INPUTS["x"] * np.float32(200)
    np.testing.assert_allclose(run(SOFTMAX[form], x=x), _softmax(x.astype(np.float64)), atol=1e-6)


def test_a_row_that_is_masked_throughout_has_no_softmax(run: Callable[..., np.ndarray]) -> None:
    x = INPUTS["x"].copy()
    x[1, 2, :], x[0, 0, 5:] = -np.inf, -np.inf
    for form in ("the operator", "steps", "unsafe"):
        got = run(SOFTMAX[form], x=x)
        assert np.isnan(got[1, 2]).all() and np.isnan(got).sum() == 40
        assert (got[0, 0, 5:] == 0).all()


@pytest.mark.parametrize("form", ATTENTION)
def test_attention_is_one_kernel(form: str, run: Callable[..., np.ndarray]) -> None:
    assert len(_kernels(ATTENTION[form])) == 1
    q, k, v, mask = (INPUTS[name].astype(np.float64) for name in ("Q", "K", "V", "mask"))
    np.testing.assert_allclose(run(ATTENTION[form]), _softmax(q @ k / 8 + mask) @ v, atol=1e-5)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_softmax_along_another_axis_is_no_attention(axis: int, run: Callable[..., np.ndarray]) -> None:
    """Its rows lie in several blocks of the scores."""
    form = _attention("", "a = Mul(c, s);", softmax=f"p = Softmax<axis={axis}>(a);")
    assert len(_kernels(form)) > 1
    q, k, v = (INPUTS[name].astype(np.float64) for name in ("Q", "K", "V"))
    weights = np.moveaxis(_softmax(np.moveaxis(q @ k / 8, axis, -1)), -1, axis)
    np.testing.assert_allclose(run(form), weights @ v, atol=1e-5)


def test_filters_that_a_softmax_makes_are_no_heads() -> None:
    """As ConvBERT's: rows and columns of a product are joined, then split in another place."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["c"]),
        helper.make_node("Reshape", ["c", "shape"], ["r"]),
        helper.make_node("Softmax", ["r"], ["p"], axis=1),
        helper.make_node("MatMul", ["v", "p"], ["y"]),
    ]
    rng = np.random.default_rng(0)
    x, w, v = (rng.standard_normal(shape, dtype=np.float32) for shape in ((8, 6), (6, 6), (16, 5, 3)))
    model = model_of(nodes, {"x": x, "v": v}, ["y"], {"w": w, "shape": np.array([16, 3, 1])})
    [got] = api.compile(model, workers=0, cache=False).run({"x": x, "v": v})
    np.testing.assert_allclose(got, v @ np.moveaxis(_softmax((x @ w).reshape(16, 1, 3)), 1, 2), atol=1e-5)


def test_forms_of_attention_are_the_same_kernel() -> None:
    same = ("scale on the scores", "on the query", "on the key", "unsafe", "heads in the batch")
    assert len({_kernels(ATTENTION[form])[0] for form in same}) == 1


def test_a_scale_in_the_exponent_goes_to_the_scores(run: Callable[..., np.ndarray]) -> None:
    steps = "m = ReduceMax<axes=[-1]>(c); f = Sub(c, m); e = Exp(fs); n = ReduceSum(e, last); p = Div(e, n);"
    form = _attention("", "", softmax=steps.replace("e =", "fs = Mul(f, s); e ="))
    plain = _attention("", "a = Mul(c, s);")
    assert _kernels(form) == _kernels(plain)
    np.testing.assert_allclose(run(form), run(plain), atol=1e-6)


def test_flags_of_masked_rows_do_not_keep_attention_apart(run: Callable[..., np.ndarray]) -> None:
    """ONNX's Attention, whose body reads from the mask which rows are 0; its kernel transposes the key."""
    operator = "y = Attention<scale=0.125>(Q, KT, V, mask)"
    kernels = _kernels(operator)
    assert len(kernels) == 2 and sum("matmul" in kernel for kernel in kernels) == 1
    mask = INPUTS["mask"].copy()
    mask[1, 0, 3, :], mask[0, 0, :, 20:] = -np.inf, -np.inf
    q, k, v = (INPUTS[name].astype(np.float64) for name in ("Q", "K", "V"))
    true = np.nan_to_num(_softmax(q @ k / 8 + np.where(np.isinf(mask), -1e300, mask.astype(np.float64))) @ v)
    true[1, :, 3] = 0
    np.testing.assert_allclose(run(operator, mask=mask), true, atol=1e-5)


def test_what_one_kernel_took_before_is_one_kernel_still() -> None:
    """Forms that are no operator's: they keep their own bodies."""
    plain = f"{_CENTRED} r = Sqrt(e); y = Div(d, r)"
    bias_first = f"{_CENTRED} r = Sqrt(e); z = Div(d, r); t = Add(z, b); y = Mul(t, g)"
    root = "l = ReduceL2<axes=[-1]>(x); z = Div(x, l); y = Mul(z, g)"
    sum_exp = "l = ReduceLogSumExp<axes=[-1]>(x); d = Sub(x, l); y = Exp(d)"
    base_two = "m = ReduceMax<axes=[-1]>(x); d = Sub(x, m); e = Pow(two, d); n = ReduceSum(e, last); y = Div(e, n)"
    kept = _attention("", "d = Mul(c, s); a = Where(keep, d, low);")
    kept_after = _attention(
        "", "d = Mul(c, s); a = Where(keep, d, low);", softmax="f = Softmax(a); p = Where(keep, f, zero);"
    )
    for form in (plain, bias_first, root, sum_exp, base_two, kept, kept_after):
        assert len(_kernels(form)) == 1, form


def test_what_would_be_more_kernels_is_left_alone() -> None:
    """Along dims that are not the innermost, a greatest element would be a kernel of its own."""
    off = PassContext(disabled_pass=["recognize-composites"])
    for form in ("e = Exp(x); n = ReduceSum(e, middle); y = Div(e, n)", "y = Softmax<axis=1>(x)"):
        assert _kernels(form) == _kernels(form, off)


def test_the_pass_is_what_does_it() -> None:
    off = PassContext(disabled_pass=["recognize-composites"])
    assert len(_kernels(ATTENTION["on the query"], off)) == 2
    assert len(_kernels(ATTENTION["heads in the batch"], off)) == 4
    assert _kernels(LAYER_NORM["moments"], off) != _kernels(LAYER_NORM["moments"])


@pytest.mark.parametrize("op", ["LayerNormalization", "RMSNormalization"])
def test_a_norm_of_no_elements_compiles(op: str) -> None:
    names = {"x": np.zeros((2, 0), np.float32), "g": np.zeros(0, np.float32)}
    model = model_of([helper.make_node(op, list(names), ["y"])], names, ["y"], opset=23)
    module = tw.compile(model, workers=0, num_threads=1, cache=False)
    assert module.run(names)[0].shape == (2, 0)


@campaign("False-28", "True-100", "False-768", "True-1000")
@pytest.mark.parametrize("length", [28, 100, 768, 1000])
@pytest.mark.parametrize("open_", [False, True])
def test_a_norm_of_one_number_is_zero_and_an_offset_costs_no_digits(length: int, open_: bool) -> None:
    extents = "N, K" if open_ else f"16, {length}"
    kind = f"float[{'K' if open_ else length}]"
    text = f"""<ir_version: 8, opset_import: ["": 17]> g (float[{extents}] x, {kind} w) => (float[{extents}] y) {{
      y = LayerNormalization<epsilon = 0.00001>(x, w) }}"""
    module = tw.compile(parser.parse_model(text), workers=0, cache=False)
    ones = np.ones(length, np.float32)
    numbers = np.logspace(-3, 7, 16).astype(np.float32)[:, None]
    assert not module(np.repeat(numbers, length, axis=1), ones)[0].any()
    x = (np.random.default_rng(0).standard_normal((16, length)) + 1e5).astype(np.float32)
    wide = x.astype(np.float64)
    want = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(module(x, ones)[0], want, rtol=0, atol=3e-6)


def test_a_scalar_of_many_equal_parts_is_read_part_by_part() -> None:
    """Each value is in the next one three times: whoever goes through all of them has 3^12 to go."""
    nodes = []
    for i in range(12):
        nodes += [
            helper.make_node("ReduceMax", [f"v{i}"], [f"m{i}"], axes=[-1]),
            helper.make_node("Sub", [f"v{i}", f"m{i}"], [f"d{i}"]),
            helper.make_node("Tanh", [f"v{i}"], [f"t{i}"]),
            helper.make_node("Mul", [f"d{i}", f"t{i}"], [f"v{i + 1}"]),
        ]
    made = plan(import_model(model_of(nodes, {"v0": INPUTS["x"]}, ["v12"], opset=17)), detect_host(), PassContext())
    assert len(made.main.calls) < 12
