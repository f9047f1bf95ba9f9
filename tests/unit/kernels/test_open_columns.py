"""Softmax and norms along open axes that are not the innermost one: columns, of any length and any number."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest
from cpu_targets import FOR_THIS_MACHINE
from open_case import check_open, open_model
from samples import campaign
from shared_kernels import describe_kernels, noting_kernels

import tilewright as tw
from tilewright.core.target import Target
from tilewright.tools.debugging.oracle import make_session

RNG = np.random.default_rng(17)
_NORM = (
    "axis = Constant<value_ints = [1]>() mean = ReduceMean(x, axis) d = Sub(x, mean) s = Mul(d, d) v = ReduceMean(s, axis)"
    " e = Constant<value_float = 0.1>() w = Add(v, e) q = Sqrt(w) n = Div(d, q) m = Mul(n, scale) y = Add(m, bias)"
)
# Inputs and nodes; the numbers of a shape that the run gives stand for A and B.
MODELS = {
    "softmax": ("float[A, B] x", "y = Softmax<axis = 0>(x)"),
    "softmax of channels": ("float[2, A, B, C] x", "y = Softmax<axis = 1>(x)"),
    "logsoftmax of channels": ("float[1, A, 3, B] x", "y = LogSoftmax<axis = 1>(x)"),
    "logsumexp of channels": (
        "float[1, A, B] x",
        "axis = Constant<value_ints = [1]>() y = ReduceLogSumExp<keepdims = 0>(x, axis)",
    ),
    "softmax of known width": ("float[B, A, 40] x", "y = Softmax<axis = 1>(x)"),
    "softmax of few known columns": ("float[B, A, 7] x", "y = Softmax<axis = 1>(x)"),
    "softmax of half": ("float16[1, A, B] x", "y = Softmax<axis = 1>(x)"),
    "softmax of double": ("double[A, B] x", "y = Softmax<axis = 0>(x)"),
    "norm": ("float[1, A, B] x, float[A, 1] scale, float[1] bias", _NORM),
    "norm of channels": ("float[1, A, B] x, float[1, B] scale, float[A, B] bias", _NORM),
    "softmax of a sum that is padded": (
        "float[1, A, B] x, float[1, A, B] z",
        "s = Add(x, z) e = Softmax<axis = 1>(s) p = Constant<value_ints = [0, 1, 2, 0, 1, 0]>() y = Pad(e, p)",
    ),
    "in place": ("float[A, B] x", "e = Softmax<axis = 0>(x) f = Softmax<axis = 0>(e) y = Softmax<axis = 0>(f)"),
}
SIZES = ((1, 1), (3, 5), (21, 16), (4, 17), (1, 70), (33, 33), (90, 300), (5, 1030), (0, 4), (4, 0))


def make_model(name: str) -> onnx.ModelProto:
    inputs, body = MODELS[name]
    made = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 18]> g ({inputs}) => (float y) {{ {body} }}')
    made.graph.output[0].type.CopyFrom(made.graph.input[0].type)
    made.graph.output[0].type.tensor_type.ClearField("shape")
    return made


def draw_inputs(made: onnx.ModelProto, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    found = {}
    for info in made.graph.input:
        kind = info.type.tensor_type
        shape = [sizes[dim.dim_param] if dim.dim_param else dim.dim_value for dim in kind.shape.dim]
        found[info.name] = RNG.standard_normal(shape).astype(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type))
    return found


@campaign(
    "x86-softmax-x86",
    "x86-logsoftmax of channels-x86",
    "x86-softmax of few known columns-x86",
    "x86-softmax of half-x86",
    "x86-norm-x86",
    "x86-softmax of a sum that is padded-x86",
    "x86-in place-x86",
    "x86 -mcpu=haswell-softmax of channels-x86",
    "x86 -mcpu=haswell-logsumexp of channels-x86",
    "x86 -mcpu=haswell-softmax of known width-x86",
    "x86 -mcpu=haswell-softmax of double-x86",
    "x86 -mcpu=haswell-norm of channels-x86",
)
@FOR_THIS_MACHINE
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("cpu", ["x86", "x86 -mcpu=haswell"])
def test_columns_of_any_length_and_number(name: str, cpu: str) -> None:
    made = make_model(name)
    module, session = tw.compile(made, cpu, workers=0), make_session(made)
    for a, b in SIZES:
        inputs = draw_inputs(made, {"A": a, "B": b, "C": 3})
        want = np.asarray(session.run(None, inputs)[0])
        for module.num_threads in (1, 3):
            [got] = module.run(inputs)
            assert got.shape == want.shape and got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=2e-3 if want.dtype == np.float16 else 2e-5, atol=1e-5)


@FOR_THIS_MACHINE
@pytest.mark.parametrize("name", [name for name in MODELS if "few" not in name and name != "in place"])
def test_columns_are_read_by_one_kernel(name: str) -> None:
    with noting_kernels() as found:
        tw.compile(make_model(name), workers=0, cache=False)
    assert [kernel.schedule.startswith("columns of any length") for kernel in found] == [True]


@FOR_THIS_MACHINE
def test_columns_whose_length_only_the_result_shows() -> None:
    """The weights of neighbours, which add up to one: how many these are is computed by the run."""
    body = 'y = Resize<mode = "linear", antialias = 1>(x, "", "", sizes)'
    made = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["": 18]> g (float[1, 2, A, B] x) => (float y) {{'
        f" sizes = Constant<value_ints = [1, 2, 40, 48]>() {body} }}"
    )
    made.graph.output[0].type.tensor_type.ClearField("shape")
    with noting_kernels() as found:
        module = tw.compile(made, workers=0, cache=False)
    assert not [kernel.name for kernel in found if not kernel.schedule]
    assert len([kernel for kernel in found if kernel.schedule.startswith("columns of any length")]) == 2
    session = make_session(made)
    for shape in ((1, 2, 90, 70), (1, 2, 333, 50)):
        x = RNG.standard_normal(shape).astype(np.float32)
        np.testing.assert_allclose(module(x)[0], session.run(None, {"x": x})[0], rtol=1e-4, atol=1e-4)


@FOR_THIS_MACHINE
@pytest.mark.parametrize("op", ["ReduceMax", "ReduceMean", "ReduceSum"])
def test_columns_that_are_read_once_are_summed_up_in_registers(op: str) -> None:
    body = f"axis = Constant<value_ints = [1]>() y = {op}(x, axis)"
    made = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["": 18]> g (float[1, A, B] x) => (float y) {{ {body} }}'
    )
    made.graph.output[0].type.tensor_type.ClearField("shape")
    with noting_kernels() as found:
        tw.compile(made, workers=0, cache=False)
    assert not [kernel for kernel in found if kernel.schedule.startswith("columns of any length")]


@campaign(
    "Softmax-x86-x86", "LogSoftmax-x86 -mcpu=haswell-x86", "ReduceMax-x86-x86", "ReduceMean-x86 -mcpu=haswell-x86"
)
@FOR_THIS_MACHINE
@pytest.mark.parametrize("cpu", ["x86", "x86 -mcpu=haswell"])
@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "ReduceMax", "ReduceMean"])
def test_short_rows_of_half_words_are_turned(op: str, cpu: str) -> None:
    body = f"y = {op}<axis = 1>(x)" if "Soft" in op else f"a = Constant<value_ints = [1]>() y = {op}(x, a)"
    made = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["": 18]> g (float16[A, B] x) => (float16 y) {{ {body} }}'
    )
    made.graph.output[0].type.tensor_type.ClearField("shape")
    module, session = tw.compile(made, cpu, workers=0), make_session(made)
    for shape in ((1, 1), (16, 3), (40, 2), (17, 21), (33, 47), (64, 16), (15, 5), (20, 100)):
        x = RNG.standard_normal(shape).astype(np.float16)
        np.testing.assert_allclose(module(x)[0], session.run(None, {"x": x})[0], rtol=2e-3, atol=2e-3)


@FOR_THIS_MACHINE
def test_rows_of_products_of_open_columns_fill_registers() -> None:
    """Tiles of four rows, of two vectors of AVX2 each, have so few sums that one waits for the other."""
    text = "(float[M, K] x, float[K, N] w) => (float[M, N] y) { y = MatMul(x, w) }"
    made = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 18]> g {text}')
    with noting_kernels() as found:
        module = tw.compile(made, "x86 -mcpu=haswell", workers=0)
    [kernel] = found
    assert "blocks of 24 x 128:" in kernel.schedule and "tile m.1 x n.1 of 6 x 16" in kernel.schedule
    random = np.random.default_rng(2)
    for m, k, n in ((1, 3, 5), (24, 70, 128), (53, 66, 171)):
        x, w = random.standard_normal((m, k), np.float32), random.standard_normal((k, n), np.float32)
        np.testing.assert_allclose(module(x, w)[0], x.astype(np.float64) @ w, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("cpu", ["x86 -mcpu=x86-64-v3", "x86 -mcpu=x86-64-v4"])
def test_greatest_channels_of_open_images_wait_for_few(cpu: str) -> None:
    """Blocks have eight vectors: what is compared of one channel does not wait for the channel before."""
    target = Target.parse(cpu)
    rows = [RNG.integers(0, 5, shape).astype(np.float32) for shape in ((1, 21, 3, 300), (2, 21, 1, 64), (1, 21, 65, 7))]
    options = {"results": ["int64"], "axis": 1, "keepdims": 0}
    made = open_model("ArgMax", [rows[0]], fixed=[(0, 1)], **options)
    [schedule] = [kernel.schedule for kernel in describe_kernels(made, target).values()]
    width = 8 * target.lanes // 2  # of whole numbers of 64 bits
    assert re.search(rf"stage .*\n.* by {width}:\n.* in 21 x 1:", schedule)
    check_open("ArgMax", *[[x] for x in rows], fixed=[(0, 1)], **options)
