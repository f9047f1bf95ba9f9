"""Operators of tvm.topi beside numpy, and beside ONNX's reference of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import tilewright.tvm as tvm
from tilewright.core.errors import ExpressionError
from tilewright.te.tensor import ComputeOp
from tilewright.tvm import te, topi
from tilewright.tvm.topi import tag

_RANDOM = np.random.default_rng(3)


def _floats(*shape: int) -> np.ndarray:
    return _RANDOM.standard_normal(shape).astype(np.float32)


def _evaluate(made: te.Tensor, given: dict[te.Tensor, np.ndarray]) -> np.ndarray:
    """What numpy makes of an expression: no kernel is compiled."""
    [result] = te.evaluate([made], given)
    return result


def _run(function: Callable[..., te.Tensor], *arrays: np.ndarray) -> np.ndarray:
    tensors = [te.placeholder(a.shape, str(a.dtype), name=f"x{n}") for n, a in enumerate(arrays)]
    return _evaluate(function(*tensors), dict(zip(tensors, arrays, strict=True)))


def _ask(op: str, *arrays: np.ndarray, **attributes: Any) -> np.ndarray:
    names = [f"x{n}" for n in range(len(arrays))]
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for name, a in zip(names, arrays, strict=True)
    ]
    graph = helper.make_graph(
        [helper.make_node(op, names, ["y"], **attributes)], "g", infos, [helper.make_empty_tensor_value_info("y")]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)])
    [made] = ReferenceEvaluator(model).run(None, dict(zip(names, arrays, strict=True)))
    assert isinstance(made, np.ndarray)
    return made


def _spread(x: np.ndarray) -> np.ndarray:
    made = np.zeros((3, 7, 13), x.dtype)
    made[:, ::2, ::3] = x
    return made


X, Y, ROW = _floats(3, 4, 5), _floats(3, 1, 5), _floats(5)
N = np.array([[7, -7, 9], [2, 5, -8]], np.int32)
B = X > 0

CASES: dict[str, tuple[Callable[..., te.Tensor], tuple[np.ndarray, ...], Callable[..., Any]]] = {
    "exp": (topi.exp, (X,), np.exp),
    "sign": (topi.sign, (X,), np.sign),
    "clip": (lambda x: topi.clip(x, -0.5, 0.5), (X,), lambda x: np.clip(x, -0.5, 0.5)),
    "cast": (lambda x: topi.cast(x, "int32"), (X,), lambda x: x.astype(np.int32)),
    "full_like": (lambda x: topi.full_like(x, 2), (X,), lambda x: np.full_like(x, 2)),
    "add": (topi.add, (X, Y), np.add),
    "subtract a number": (lambda x: topi.subtract(x, 2.0), (X,), lambda x: x - 2),
    "divide": (topi.divide, (X, ROW), np.divide),
    "divide integers": (lambda n: topi.divide(n, 2), (N,), lambda n: np.trunc(n / 2).astype(np.int32)),
    "mod": (lambda n: topi.mod(n, 3), (N,), lambda n: np.fmod(n, 3)),
    "floor_mod": (lambda n: topi.floor_mod(n, 3), (N,), lambda n: np.mod(n, 3)),
    "operators": (lambda x, y: 2 * -x + y / 4 - x, (X, Y), lambda x, y: -3 * x + y / 4),
    "maximum": (topi.maximum, (Y, X), np.maximum),
    "less": (topi.less, (X, Y), np.less),
    "broadcast_to": (lambda x: topi.broadcast_to(x, (2, 3, 4, 5)), (Y,), lambda x: np.broadcast_to(x, (2, 3, 4, 5))),
    "where": (topi.where, (B, X, ROW), np.where),
    "sum": (lambda x: topi.sum(x, axis=(0, 2)), (X,), lambda x: x.sum((0, 2))),
    "sum of all": (topi.sum, (X,), np.sum),
    "max kept": (lambda x: topi.max(x, axis=-1, keepdims=True), (X,), lambda x: x.max(-1, keepdims=True)),
    "any": (lambda x: topi.any(x, axis=1), (B,), lambda x: x.any(1)),
    "argmax": (lambda x: topi.argmax(x, axis=1), (X,), lambda x: x.argmax(1)),
    "argmin of all": (topi.argmin, (X,), np.argmin),
    "argmax of equal ones": (lambda x: topi.argmax(x, 1), (np.zeros((2, 3), np.float32),), lambda x: [0, 0]),
    "argmax of the least": (lambda x: topi.argmax(x, 1), (np.full((2, 3), -np.inf, np.float32),), lambda x: [0, 0]),
    "the last of them": (
        lambda x: topi.argmax(x, 1, select_last_index=True),
        (np.zeros((2, 3), np.float32),),
        lambda x: [2, 2],
    ),
    "transpose": (lambda x: topi.transpose(x, (1, 0, 2)), (X,), lambda x: x.transpose(1, 0, 2)),
    "reshape": (lambda x: topi.reshape(x, (6, -1)), (X,), lambda x: x.reshape(6, -1)),
    "squeeze": (topi.squeeze, (Y,), np.squeeze),
    "expand_dims": (lambda x: topi.expand_dims(x, 1, 2), (X,), lambda x: x[:, None, None]),
    "flip": (lambda x: topi.flip(x, 1), (X,), lambda x: x[:, ::-1]),
    "concatenate": (lambda x, y: topi.concatenate([x, y, x], 1), (X, Y), lambda x, y: np.concatenate([x, y, x], 1)),
    "stack": (lambda x: topi.stack([x, x], 1), (X,), lambda x: np.stack([x, x], 1)),
    "split": (lambda x: topi.split(x, (1, 3), 1)[1], (X,), lambda x: x[:, 1:3]),
    "strided_slice": (
        lambda x: topi.strided_slice(x, (2, 1), (-4, 4), (-1, 2)),
        (X,),
        lambda x: x[2::-1, 1:4:2],
    ),
    "take": (lambda x, n: topi.take(x, n, 1), (X, N), lambda x, n: x.take(n, 1, mode="clip")),
    "repeat": (lambda x: topi.repeat(x, 2, 1), (X,), lambda x: x.repeat(2, 1)),
    "tile": (lambda x: topi.tile(x, (2, 1, 1, 3)), (X,), lambda x: np.tile(x, (2, 1, 1, 3))),
    "matmul": (lambda x, y: topi.matmul(x, y, transp_b=True), (X[0], X[1]), lambda x, y: x @ y.T),
    "prod and min": (
        lambda x: topi.multiply(topi.prod(x, 1), topi.min(x, 1)),
        (X,),
        lambda x: x.prod(1) * x.min(1),
    ),
    "all": (topi.all, (B,), np.all),
    "power": (lambda x: topi.power(x, 2.0), (np.abs(X),), lambda x: x**2),
    "bits": (
        lambda n: topi.bitwise_xor(
            topi.left_shift(n, 2), topi.bitwise_or(topi.bitwise_and(n, 5), topi.right_shift(n, 1))
        ),
        (N,),
        lambda n: (n << 2) ^ ((n & 5) | (n >> 1)),
    ),
    "comparisons": (
        lambda x, y: topi.logical_or(topi.logical_and(topi.greater(x, y), topi.less_equal(x, 0.5)), topi.equal(x, y)),
        (X, Y),
        lambda x, y: ((x > y) & (x <= 0.5)) | (x == y),
    ),
    "prelu": (lambda x, s: topi.nn.prelu(x, s, -1), (X, ROW), lambda x, s: np.where(x > 0, x, x * s)),
    "scale_shift": (
        topi.nn.scale_shift_nchw,
        (X.reshape(1, 3, 4, 5), X[:, 0, 0], X[:, 0, 1]),
        lambda x, a, b: x * a.reshape(3, 1, 1) + b.reshape(3, 1, 1),
    ),
    "rms_norm": (
        lambda x, g: topi.nn.rms_norm(x, g, (-1,)),
        (X, ROW),
        lambda x, g: x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * g,
    ),
    "nn.matmul": (
        lambda x, y, b: topi.nn.matmul(x, y, b, transpose_a=True),
        (X[0], X[1], ROW),
        lambda x, y, b: x.T @ y + b,
    ),
    "dilate": (lambda x: topi.nn.dilate(x, (1, 2, 3)), (X,), lambda x: _spread(x)),
    "dense": (topi.nn.dense, (X[0], X[1][:3], ROW[:3]), lambda x, w, b: x @ w.T + b),
    "batch_matmul": (topi.nn.batch_matmul, (X, X[:1]), lambda x, y: x @ y.transpose(0, 2, 1)),
    "relu": (topi.nn.relu, (X,), lambda x: np.maximum(x, 0)),
    "leaky_relu": (lambda x: topi.nn.leaky_relu(x, 0.1), (X,), lambda x: np.where(x > 0, x, x * np.float32(0.1))),
    "bias_add": (lambda x, b: topi.nn.bias_add(x, b, -1), (X, ROW), np.add),
    "flatten": (topi.nn.flatten, (X,), lambda x: x.reshape(3, 20)),
    "pad": (
        lambda x: topi.nn.pad(x, (0, 1, 2), (1, 0, 2), 3.0),
        (X,),
        lambda x: np.pad(x, ((0, 1), (1, 0), (2, 2)), constant_values=3),
    ),
    "softmax": (lambda x: topi.nn.softmax(x, 1), (X,), lambda x: _ask("Softmax", x, axis=1)),
    "log_softmax": (topi.nn.log_softmax, (X,), lambda x: _ask("LogSoftmax", x)),
    "layer_norm": (
        lambda x, g, b: topi.nn.layer_norm(x, g, b, (-1,)),
        (X, ROW, _floats(5)),
        lambda x, g, b: _ask("LayerNormalization", x, g, b),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_operators(name: str):
    function, arrays, want = CASES[name]
    np.testing.assert_allclose(_run(function, *arrays), want(*arrays), rtol=1e-5, atol=1e-6)


IMAGE, FILTER = _floats(1, 4, 7, 6), _floats(6, 4, 3, 2)


@pytest.mark.parametrize("stride", [1, (2, 1)])
@pytest.mark.parametrize("padding", [0, (1, 0, 2, 1), "VALID"])
@pytest.mark.parametrize("dilation", [1, 2])
def test_convolutions(stride: Any, padding: Any, dilation: int):
    pads = [0] * 4 if padding in (0, "VALID") else list(padding)
    options = {"pads": pads, "strides": [stride] * 2 if stride == 1 else list(stride), "dilations": [dilation] * 2}
    want = _ask("Conv", IMAGE, FILTER, **options)
    made = _run(lambda x, w: topi.nn.conv2d(x, w, stride, padding, dilation), IMAGE, FILTER)
    np.testing.assert_allclose(made, want, rtol=1e-4, atol=1e-5)
    made = _run(
        lambda x, w: topi.nn.conv2d(x, w, stride, padding, dilation, "NHWC"),
        IMAGE.transpose(0, 2, 3, 1).copy(),
        FILTER.transpose(2, 3, 1, 0).copy(),
    )
    np.testing.assert_allclose(made.transpose(0, 3, 1, 2), want, rtol=1e-4, atol=1e-5)
    made = _run(lambda x, w: topi.nn.group_conv2d_nchw(x, w, stride, padding, dilation, 2), IMAGE, FILTER[:, :2].copy())
    np.testing.assert_allclose(made, _ask("Conv", IMAGE, FILTER[:, :2], group=2, **options), rtol=1e-4, atol=1e-5)
    depthwise = FILTER[:4, :2].copy()
    made = _run(lambda x, w: topi.nn.depthwise_conv2d_nchw(x, w, stride, padding, dilation), IMAGE, depthwise)
    want = _ask("Conv", IMAGE, depthwise.reshape(8, 1, 3, 2), group=4, **options)
    np.testing.assert_allclose(made, want, rtol=1e-4, atol=1e-5)


def test_a_transposed_convolution():
    weight = FILTER[:4, :3].copy()
    made = _run(lambda x, w: topi.nn.conv2d_transpose_nchw(x, w, (2, 1), (1, 0), "float32", (1, 0)), IMAGE, weight)
    want = _ask("ConvTranspose", IMAGE, weight, strides=[2, 1], pads=[1, 0, 1, 0], output_padding=[1, 0])
    np.testing.assert_allclose(made, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["max", "avg"])
@pytest.mark.parametrize("ceil", [False, True])
@pytest.mark.parametrize("include", [False, True])
def test_pools(kind: str, ceil: bool, include: bool):
    made = _run(lambda x: topi.nn.pool2d(x, (3, 2), 2, 1, (1, 0, 1, 1), kind, ceil, "NCHW", include), IMAGE)
    options: dict[str, Any] = {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 1], "ceil_mode": int(ceil)}
    if kind == "avg":
        options["count_include_pad"] = int(include)
    want = _ask("MaxPool" if kind == "max" else "AveragePool", IMAGE, **options)
    assert made.shape == (1, 4, 4, 3 + ceil)  # TVM keeps a window that begins behind the image
    np.testing.assert_allclose(made[..., :3], want, rtol=1e-5, atol=1e-6)
    made = _run(lambda x: topi.nn.global_pool(x, kind), IMAGE)
    np.testing.assert_allclose(made[..., 0, 0], getattr(IMAGE, {"max": "max", "avg": "mean"}[kind])((2, 3)), rtol=1e-5)


@pytest.mark.parametrize("rank", [1, 3])
def test_signals_and_volumes(rank: int):
    x, w = _floats(2, 4, *[5] * rank), _floats(6, 4, *[3] * rank)
    convolve, pool = (topi.nn.conv1d_ncw, topi.nn.pool1d) if rank == 1 else (topi.nn.conv3d_ncdhw, topi.nn.pool3d)
    window: dict[str, Any] = {"pads": [1] * 2 * rank, "strides": [2] * rank}
    made = _run(lambda x, w: convolve(x, w, 2, 1, 1), x, w)
    np.testing.assert_allclose(made, _ask("Conv", x, w, **window), rtol=1e-4, atol=1e-4)
    made = _run(lambda x: pool(x, 3, 2, 1, 1, "max"), x)
    np.testing.assert_array_equal(made, _ask("MaxPool", x, kernel_shape=[3] * rank, **window))


def test_a_layer_of_open_size_is_scheduled_and_built():
    """The layer of TVM's tutorial of auto_scheduler, with open batch."""
    n = te.var("n")
    data, kernel = te.placeholder((n, 4, 7, 6), name="data"), te.placeholder(FILTER.shape, name="kernel")
    bias = te.placeholder((1, 6, 1, 1), name="bias")
    conv = topi.nn.conv2d_nchw(data, kernel, stride=1, padding=1, dilation=1, out_dtype="float32")
    out = topi.nn.relu(conv + bias)
    assert isinstance(out.op, ComputeOp) and tag.is_broadcast(out.op.tag)
    assert isinstance(conv.op, ComputeOp) and not tag.is_injective(conv.op.tag)
    built = tvm.build(topi.generic.schedule_conv2d_nchw([out]), [data, kernel, bias, out], "llvm")
    want = _ask("Conv", IMAGE, FILTER, pads=[1, 1, 1, 1]) + np.arange(6, dtype=np.float32).reshape(1, 6, 1, 1)
    made = tvm.nd.array(np.zeros_like(want))
    built(*map(tvm.nd.array, (IMAGE, FILTER, np.arange(6, dtype=np.float32).reshape(1, 6, 1, 1))), made)
    tvm.testing.assert_allclose(made.numpy(), np.maximum(want, 0), rtol=1e-4, atol=1e-5)


X0 = te.placeholder((2, 3), name="X0")

REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "shapes": (lambda: topi.add(X0, te.placeholder((4,), name="b")), r"'T_add' of shapes .*: 3 and 4 differ"),
    "an axis": (lambda: topi.sum(X0, 2), "there is no axis 2 of 2"),
    "a shape": (lambda: topi.reshape(X0, (4, 2)), "has not the elements of"),
    "sections": (lambda: topi.split(X0, 2, 1), "3 elements are not 2 equal parts"),
    "an order": (lambda: topi.transpose(X0, (0, 0)), "no order of 2 axes"),
    "a product": (lambda: topi.nn.dense(X0, te.placeholder((4, 2), name="w")), "3 and 2 are summed"),
    "a layout": (lambda: topi.nn.conv2d(X0, X0, 1, 0, 1, "NCHW4c"), "no layout NCHW4c"),
    "a pool": (lambda: topi.nn.pool2d(X0, 1, 1, 1, 0, "sum"), "there are max and avg"),
    "a window": (lambda: topi.nn.conv2d(te.placeholder((1, 4, 2, 2), name="i"), te.placeholder(FILTER.shape, name="w"), 1, 0, 1), "does not fit"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused(name: str):
    make, reason = REFUSED[name]
    with pytest.raises(ExpressionError, match=reason):
        make()


def test_what_is_not_there_is_said():
    with pytest.raises(AttributeError, match=r"tilewright.tvm has no 'topi.nn.lstm'"):
        _ = topi.nn.lstm
    with pytest.raises(AttributeError, match=r"tilewright.tvm has no 'topi.generic.default'"):
        _ = topi.x86.default


_WINDOWS = [((1, 1), (1, 1)), ((2, 1), (0, 1, 1, 2)), (1, "SAME"), (2, "VALID")]


@pytest.mark.parametrize(("stride", "padding"), _WINDOWS)
def test_references_of_convolutions(stride: Any, padding: Any):
    """What scripts compare with is what operators give, in each layout; "SAME" pads even windows as TVM does."""
    x, w, of_two, apart = _floats(2, 4, 7, 8), _floats(6, 4, 2, 3), _floats(6, 2, 2, 3), _floats(4, 2, 2, 3)
    made = _run(lambda a, b: topi.nn.conv2d_nchw(a, b, stride, padding, 1), x, w)
    seen, kernel = x.transpose(0, 2, 3, 1), w.transpose(2, 3, 1, 0)
    in_layouts = (
        topi.testing.conv2d_nchw_python(x, w, stride, padding),
        topi.testing.conv2d_nhwc_python(seen, kernel, stride, padding).transpose(0, 3, 1, 2),
        topi.testing.conv2d_hwcn_python(x.transpose(2, 3, 1, 0), kernel, stride, padding).transpose(3, 2, 0, 1),
    )
    for each in in_layouts:
        np.testing.assert_allclose(each, made, rtol=1e-4, atol=1e-5)
    for groups, weight in ((2, of_two), (4, apart.reshape(8, 1, 2, 3))):
        made = _run(lambda a, b, g=groups: topi.nn.group_conv2d_nchw(a, b, stride, padding, 1, g), x, weight)
        found = topi.testing.conv2d_nchw_python(x, weight, stride, padding, groups)
        np.testing.assert_allclose(found, made, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(topi.testing.depthwise_conv2d_python_nchw(x, apart, stride, padding), found)
    last = topi.testing.depthwise_conv2d_python_nhwc(seen, apart.transpose(2, 3, 0, 1), stride, padding)
    np.testing.assert_array_equal(last.transpose(0, 3, 1, 2), found)


def test_references_of_signals_volumes_and_transposes():
    x, w = _floats(1, 2, 9), _floats(3, 2, 3)
    made = _run(lambda a, b: topi.nn.conv1d_ncw(a, b, 2, 1, 2), x, w)
    np.testing.assert_allclose(topi.testing.conv1d_ncw_python(x, w, 2, 1, 2), made, rtol=1e-4, atol=1e-5)
    x, w = _floats(1, 2, 5, 6, 7), _floats(3, 2, 3, 2, 3)
    made = _run(lambda a, b: topi.nn.conv3d_ncdhw(a, b, 1, 1, 1, 1), x, w)
    found = topi.testing.conv3d_ncdhw_python(x, w, 1, 1)
    np.testing.assert_allclose(found, made, rtol=1e-4, atol=1e-5)
    last = topi.testing.conv3d_ndhwc_python(x.transpose(0, 2, 3, 4, 1), w.transpose(2, 3, 4, 1, 0), 1, 1)
    np.testing.assert_array_equal(last.transpose(0, 4, 1, 2, 3), found)
    x, w = _floats(2, 3, 4, 5), _floats(3, 4, 3, 3)
    for stride, padding, more in ((2, 1, 1), (1, 0, 0), ((2, 3), (0, 1), (1, 2))):
        given = {"strides": _pair(stride), "pads": [*_pair(padding)] * 2, "output_padding": _pair(more)}
        found = topi.testing.conv2d_transpose_nchw_python(x, w, stride, padding, more)
        np.testing.assert_allclose(found, _ask("ConvTranspose", x, w, **given), rtol=1e-4, atol=1e-5)
        last = topi.testing.conv2d_transpose_nhwc_python(x.transpose(0, 2, 3, 1), w, "IOHW", stride, padding, more)
        np.testing.assert_array_equal(last.transpose(0, 3, 1, 2), found)
    row = topi.testing.conv1d_transpose_ncw_python(x[:, :, 0], w[:, :, 0], 2, 1)
    np.testing.assert_allclose(row, _ask("ConvTranspose", x[:, :, 0], w[:, :, 0], strides=[2], pads=[1, 1]), rtol=1e-4)


def _pair(given: Any) -> tuple[int, int]:
    return given if isinstance(given, tuple) else (given, given)


@pytest.mark.parametrize("kind", ["avg", "max"])
@pytest.mark.parametrize("ceil", [False, True])
@pytest.mark.parametrize("include", [False, True])
def test_references_of_pools(kind: str, ceil: bool, include: bool):
    x = _floats(2, 3, 9, 10)
    pads = (1, 0), (1, 2)
    made = _run(lambda a: topi.nn.pool2d(a, (3, 2), (2, 3), (1, 1), (1, 0, 1, 2), kind, ceil, "NCHW", include), x)
    found = topi.testing.poolnd_python(x, (3, 2), (2, 3), (1, 1), *pads, kind, include, ceil)
    np.testing.assert_allclose(found, made, rtol=1e-5, atol=1e-6)


def test_references_of_rows():
    x, w = _floats(4, 6), _floats(5, 6)
    np.testing.assert_allclose(topi.testing.softmax_python(x), _run(topi.nn.softmax, x), rtol=1e-5)
    np.testing.assert_allclose(topi.testing.log_softmax_python(x), _run(topi.nn.log_softmax, x), rtol=1e-4)
    np.testing.assert_allclose(topi.testing.dense(x, w, w[:, 0], True, True), np.maximum(x @ w.T + w[:, 0], 0))
    np.testing.assert_allclose(topi.testing.matmul(x, w, transpose_b=True), x @ w.T)
    np.testing.assert_allclose(topi.testing.batch_matmul(x[None], w[None])[0], x @ w.T)
    gamma, beta = _floats(6), _floats(6)
    made = _run(lambda a, g, b: topi.nn.layer_norm(a, g, b, (1,)), x, gamma, beta)
    np.testing.assert_allclose(topi.testing.layer_norm_python(x, gamma, beta, 1), made, rtol=1e-3, atol=1e-5)
    made = _run(lambda a, g: topi.nn.rms_norm(a, g, (1,)), x, gamma)
    np.testing.assert_allclose(topi.testing.rms_norm_python(x, gamma, 1), made, rtol=1e-3, atol=1e-5)
    mean, variance = _floats(6), abs(_floats(6))
    given = (x.T[None], gamma, beta, mean, variance)
    found = topi.testing.batch_norm(*given, 1, 1e-5, True, True)[0]
    np.testing.assert_allclose(found, _ask("BatchNormalization", *given), rtol=1e-4, atol=1e-5)
    images = _floats(1, 5, 3, 4)
    found = topi.testing.lrn_python(images, 3, 1, 1.0, 0.1, 0.75)
    near = np.square(images[:, 1:4]).sum(1)
    np.testing.assert_allclose(found[:, 2], images[:, 2] / np.power(1 + 0.1 * near / 3, 0.75), rtol=1e-5)
    np.testing.assert_allclose(np.square(topi.testing.l2_normalize_python(x, 1e-9, [1])).sum(1), 1, rtol=1e-5)
    blocks = _floats(2, 8, 3, 4)
    spread = topi.testing.depth_to_space_python(blocks, 2)
    np.testing.assert_array_equal(spread, _ask("DepthToSpace", blocks, blocksize=2))
    np.testing.assert_array_equal(topi.testing.space_to_depth_python(spread, 2), blocks)
    np.testing.assert_array_equal(
        topi.testing.depth_to_space_python(blocks, 2, "CRD"), _ask("DepthToSpace", blocks, blocksize=2, mode="CRD")
    )
    assert topi.testing.upsampling_python(blocks, (2, 3)).shape == (2, 8, 6, 12)
    indices = np.array([[0, 2], [5, 1]])
    np.testing.assert_array_equal(topi.testing.gather_python(x[:2], 1, indices), np.take_along_axis(x[:2], indices, 1))
    np.testing.assert_array_equal(topi.testing.gather_nd_python(x, np.array([[0, 3], [1, 2]])), x[[0, 3], [1, 2]])
    assert topi.testing.one_hot(np.array([1, 0]), 2, -1, 3, -1, "int32").tolist() == [[-1, 2, -1], [2, -1, -1]]
    np.testing.assert_array_equal(topi.testing.strided_slice_python(x, [0, 4], [3, 1], [1, -2]), x[0:3, 4:1:-2])
    np.testing.assert_array_equal(topi.testing.strided_slice_python(x, [1], [-1], None, "size", [1]), x[:, 1:])


def test_tensors_are_summed_up_and_schedules_found_by_target():
    x, y, z = _floats(2, 3), _floats(2, 3), _floats(2, 3)
    np.testing.assert_allclose(_run(lambda *a: topi.elemwise_sum(a), x, y, z), x + y + z, rtol=1e-6)
    tensor = te.placeholder((3,), name="x")
    out = topi.exp(tensor)
    assert topi.testing.get_injective_schedule("llvm")(out)[out].stage.automatic
