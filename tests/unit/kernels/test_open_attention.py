"""Attention and softmax over open axes, as one kernel each: one program for all numbers of rows and keys."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

import numpy as np
import onnx
import onnxruntime
import pytest
from cpu_targets import FOR_THIS_MACHINE, OTHERS_ARE_SLOW
from kernel_runner import TARGET
from samples import campaign, leaving
from shared_kernels import describe_kernels

import tilewright as tw
from tilewright.core.target import detect_host
from tilewright.tools.debugging.oracle import make_session

RNG = np.random.default_rng(5)
# Batch, rows and keys.
SIZES = (
    (1, 1, 1),
    (2, 3, 3),
    (1, 17, 2),
    (1, 1, 200),
    (1, 64, 64),
    (2, 77, 77),
    (1, 130, 65),
    (1, 200, 128),
    (1, 5, 31),
    (2, 23, 70),
)

Q, K, V = "float[B, 3, S, 16] q", "float[B, 3, 16, T] k", "float[B, 3, T, 24] v"
PRODUCTS = "s = MatMul(q, k) {} y = MatMul(p, v)"

# Inputs (a letter is an open size) and nodes.
KINDS = {
    "plain": ((Q, K, V), PRODUCTS.format("p = Softmax<axis = -1>(s)")),
    "mask of keys": (
        (Q, K, V, "float[B, 1, 1, T] m"),
        PRODUCTS.format("d = Div(s, eight) a = Add(d, m) p = Softmax<axis = -1>(a)"),
    ),
    "mask of rows and keys": ((Q, K, V, "float[S, T] m"), PRODUCTS.format("a = Add(s, m) p = Softmax<axis = -1>(a)")),
    "boolean mask": (
        (Q, K, V, "bool[B, 1, S, T] m"),
        PRODUCTS.format("a = Where(m, s, low) p = Softmax<axis = -1>(a)"),
    ),
    "weights that are masked": (
        (Q, K, V, "bool[B, 1, S, T] m"),
        PRODUCTS.format("w = Softmax<axis = -1>(s) p = Where(m, w, zero)"),
    ),
    "scaled queries": ((Q, K, V), "d = Mul(q, half) s = MatMul(d, k) p = Softmax<axis = -1>(s) y = MatMul(p, v)"),
    "heads that share keys": (
        ("float[B, 6, S, 16] q", "float[B, 2, 16, T] k", "float[B, 2, T, 24] v", "float[S, T] m"),
        "axis = Constant<value_ints = [2]>() each = Constant<value_ints = [1, 1, 3, 1, 1]>()"
        "kg = Unsqueeze(k, axis) ke = Expand(kg, each) ks = Constant<value_ints = [0, 6, 16, -1]>() kh = Reshape(ke, ks)"
        "vg = Unsqueeze(v, axis) ve = Expand(vg, each) vs = Constant<value_ints = [0, 6, -1, 24]>() vh = Reshape(ve, vs)"
        "s = MatMul(q, kh) a = Add(s, m) p = Softmax<axis = -1>(a) y = MatMul(p, vh)",
    ),
    "three dims": (
        ("float[B, S, 16] q", "float[B, 16, T] k", "float[B, T, 24] v"),
        PRODUCTS.format("p = Softmax<axis = -1>(s)"),
    ),
    "heads within rows": (
        ("float[B, S, 3, 16] h", "float[B, T, 3, 16] g", "float[B, T, 3, 24] u"),
        "q = Transpose<perm = [0, 2, 1, 3]>(h) k = Transpose<perm = [0, 2, 3, 1]>(g) v = Transpose<perm = [0, 2, 1, 3]>(u)"
        " s = MatMul(q, k) p = Softmax<axis = -1>(s) o = MatMul(p, v) y = Transpose<perm = [0, 2, 1, 3]>(o)",
    ),
    "rows of known number": (
        ("float[B, 3, 37, 16] q", K, V),
        PRODUCTS.format("p = Softmax<axis = -1>(s)"),
    ),
}
# Their scores pass through maps as those of others do: a sum, a choice, or a factor before the products.
SIMILAR = {"mask of rows and keys", "boolean mask", "scaled queries", "three dims"}
NUMBERS = {"eight": 8.0, "half": 0.5, "low": -1e9, "zero": 0.0}


def model(inputs: Sequence[str], body: str) -> onnx.ModelProto:
    made = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["": 18]> g ({", ".join(inputs)}) => (float y) {{ {body} }}'
    )
    made.graph.output[0].type.tensor_type.ClearField("shape")
    read = {name for node in made.graph.node for name in node.input}
    numbers = {name: np.array(number, np.float32) for name, number in NUMBERS.items() if name in read}
    made.graph.initializer.extend(onnx.numpy_helper.from_array(a, name) for name, a in numbers.items())
    return made


@functools.cache
def program(kind: str) -> tw.Module:
    """The kind's program, which takes a second or two to compile: tests share it."""
    return tw.compile(model(*KINDS[kind]), workers=0, num_threads=2)


def values(inputs: Sequence[str], batch: int, rows: int, keys: int) -> dict[str, np.ndarray]:
    """Random inputs; of a mask each row has elements that stay."""
    sizes, made = {"B": batch, "S": rows, "T": keys}, {}
    for given in inputs:
        kind, shape, name = given.replace("]", "[").split("[")
        extents = [sizes.get(word) or int(word) for word in shape.split(", ")]
        array = RNG.standard_normal(extents, dtype=np.float32)
        made[name.strip()] = array if kind == "float" else (array > 0) | (np.arange(keys) == 0)
    return made


def check(module: tw.Module, session: onnxruntime.InferenceSession, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """Compare a result with onnxruntime's; returns it."""
    want = np.asarray(session.run(None, inputs)[0])
    [got] = module(*(inputs[info.name] for info in module.inputs))
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=0, atol=2e-5 * max(1.0, float(np.abs(want).max())))
    return got


def schedules(made: onnx.ModelProto) -> list[str]:
    """The schedules of the program's kernels, "" where one runs as plain loops."""
    target = TARGET.get(detect_host())
    return [kernel.schedule for kernel in describe_kernels(made, target).values()]


@campaign("plain-x86", "weights that are masked-x86", "heads within rows-x86", "rows of known number-x86")
@FOR_THIS_MACHINE
@pytest.mark.parametrize("kind", leaving(KINDS, SIMILAR))
def test_attention_over_open_keys_is_right(kind: str):
    inputs, body = KINDS[kind]
    session, module = make_session(model(inputs, body)), program(kind)
    for sizes in SIZES:
        given, made = values(inputs, *sizes), []
        for module.num_threads in (1, 2):
            made.append(check(module, session, given))
        np.testing.assert_array_equal(*made)


@OTHERS_ARE_SLOW
@pytest.mark.parametrize("kind", leaving(KINDS, SIMILAR))
def test_attention_over_open_keys_is_one_kernel(kind: str):
    texts = schedules(model(*KINDS[kind]))
    assert "" not in texts
    assert [text.startswith("blocks") and "scores in blocks" in text for text in texts].count(True) == 1
    assert len(texts) == 1
    [text] = texts
    blocks, between = re.split("blocks of .*:\n", text)[1:], kind == "heads within rows"
    assert [block.startswith("keys turned") for block in blocks] == [between] * 2 + [False] * 2
    assert ["values copied" in block for block in blocks] == [between] * 2 + [False] * 2, (
        "few rows read them as they lie"
    )


def test_rows_that_heads_lie_between_are_copied_where_only_the_batch_is_open():
    _, body = KINDS["heads within rows"]
    inputs = "float[B, 40, 3, 16] h", "float[B, 33, 3, 16] g", "float[B, 33, 3, 24] u"
    [text] = [text for text in schedules(model(inputs, body)) if "outer_product" in text]
    blocks = re.split("blocks of .*:\n", text)[1:]
    copied = [sorted(re.findall("stage (%arg[0-9]+):", block)) for block in blocks]
    assert blocks and all(len(names) == 2 for names in copied), "queries and values, as in a program of one size"


def test_keys_that_others_read_as_columns_too_are_turned_once():
    inputs, body = KINDS["heads within rows"]
    made = model(inputs, body)
    made.graph.output.append(onnx.helper.make_tensor_value_info("k", onnx.TensorProto.FLOAT, None))
    made.graph.output[-1].type.tensor_type.ClearField("shape")
    assert not any("keys turned" in text for text in schedules(made))


@FOR_THIS_MACHINE
def test_rows_without_a_key_that_stays_are_no_numbers():
    (inputs, _), module = KINDS["mask of keys"], program("mask of keys")
    given = values(inputs, 2, 20, 18)
    given["m"][0] = -np.inf
    [got] = module(*(given[info.name] for info in module.inputs))
    assert np.isnan(got[0]).all() and np.isfinite(got[1]).all()


@FOR_THIS_MACHINE
def test_keys_at_minus_infinity_count_for_nothing():
    (inputs, _), module = KINDS["mask of keys"], program("mask of keys")
    given = values(inputs, 1, 9, 40)
    given["m"][..., 21:] = -np.inf
    [got] = module(*(given[info.name] for info in module.inputs))
    cut = {"q": given["q"], "k": given["k"][..., :21], "v": given["v"][:, :, :21], "m": given["m"][..., :21]}
    [want] = module(*(np.ascontiguousarray(cut[info.name]) for info in module.inputs))
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5)


# Rows of open length with nothing but rows, and the number of kernels.
ROWS = {
    "softmax": ("y = Softmax<axis = -1>(x)", 1),
    "log softmax": ("y = LogSoftmax<axis = -1>(x)", 1),
    "softmax of a sum": ("a = Add(x, x) y = Softmax<axis = -1>(a)", 1),
    "norm of rows": ("y = ReduceL2<axes = [2], keepdims = 1>(x)", 1),
    "greatest": ("y = ReduceMax<axes = [2], keepdims = 0>(x)", 1),
}


def model_of_rows(kind: str) -> onnx.ModelProto:
    body, _ = ROWS[kind]
    text = f'<ir_version: 9, opset_import: ["": 13]> g (float[A, 3, B] x) => (float y) {{ {body} }}'
    made = onnx.parser.parse_model(text)
    made.graph.output[0].type.tensor_type.ClearField("shape")
    return made


@pytest.mark.parametrize("kind", ROWS)
def test_rows_of_open_length_are_one_kernel(kind: str):
    texts = schedules(model_of_rows(kind))
    assert len(texts) == ROWS[kind][1] and all(texts)


@FOR_THIS_MACHINE
@pytest.mark.parametrize("kind", ROWS)
def test_rows_of_open_length_are_right(kind: str):
    made = model_of_rows(kind)
    session, module = make_session(made), tw.compile(made, workers=0, num_threads=2)
    for a, b in ((1, 1), (2, 3), (1, 15), (3, 16), (2, 17), (1, 64), (2, 77), (1, 128), (5, 200), (40, 1000)):
        check(module, session, {"x": RNG.standard_normal((a, 3, b), dtype=np.float32)})
