"""What one program for all sizes demands of those that only the run knows: else a line that names the node."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from open_case import check_open, check_refused, open_model

import tilewright as tw
from tilewright.tools.debugging.oracle import make_session

RNG = np.random.default_rng(7)


def f(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def u8(*shape: int) -> np.ndarray:
    return RNG.integers(0, 256, shape).astype(np.uint8)


def i(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


# Operator, attributes and opset, inputs that do not fit, and what is said of them.
SETS: dict[str, tuple[dict[str, Any], list[tuple[list[np.ndarray], str]]]] = {
    "CausalConvWithState": (
        {"opset": 27, "results": ("float32",) * 2},
        [
            ([f(2, 3, 4), f(4, 1, 3), f(3), f(2, 3, 2)], r"w has shape .* axis 0 is not c.*\(4 and 3\)"),
            ([f(2, 3, 4), f(3, 2, 3), f(3), f(2, 3, 2)], r"w has shape .* axis 1 is not 1.*\(2 and 1\)"),
            ([f(2, 3, 4), f(3, 1, 3), f(2), f(2, 3, 2)], r"b has shape .* axis 0 is not c.*\(2 and 3\)"),
            ([f(2, 3, 4), f(3, 1, 3), f(3), f(2, 3, 3)], r"past has shape .* axis 2 is not k-1.*\(3 and 2\)"),
            ([f(2, 3, 4), f(3, 1, 3), f(3), f(1, 3, 2)], r"past has shape .* axis 0 is not n.*\(1 and 2\)"),
        ],
    ),
    "DFT": (
        {"opset": 17},
        [([f(2, 4, 3)], "no sequences of complex numbers"), ([f(2, 4, 0)], "no sequences of complex numbers")],
    ),
    "STFT": ({"opset": 17}, [([f(1, 9, 2), np.array(2), f(4)], "onesided is for real input")]),
    "ExpandDims": (
        {"domain": "com.microsoft"},
        [
            ([f(2), np.array([0, 1], np.int32)], "axis has shape"),
            ([f(2), np.array([2], np.int32)], "axis is out of range"),
        ],
    ),
    "MatMulNBits": (
        {"domain": "com.microsoft", "K": 32, "N": 6, "bits": 4, "block_size": 16},
        [
            ([f(1, 1, 31), u8(6, 2, 8), f(12), u8(6)], "a has shape .* axis 2 is not K = 32"),
            ([f(1, 1, 32), u8(6, 2, 8), f(11), u8(6)], "scales of shape .* for 6 rows of 2 blocks"),
            ([f(1, 1, 32), u8(6, 2, 7), f(12), u8(6)], "B has shape"),
            ([f(1, 1, 32), u8(6, 2, 8), f(12), u8(5)], "zero_points of shape"),
        ],
    ),
    "Squeeze": (
        {"known": [1]},
        [([f(4, 3), i(1)], "are not all of extent 1"), ([f(4, 0), i(1)], "are not all of extent 1")],
    ),
    "OneHot": ({}, [([i(1, 2), i(4), f(1)], "values has shape"), ([i(1, 2), i(4), f(3)], "values has shape")]),
    "Multinomial": ({"opset": 10, "results": ("int32",)}, [([f(2, 0)], "nothing to draw 1 samples from")]),
    "DequantizeLinear": (
        {"opset": 21, "axis": 1, "block_size": 4},
        [
            ([u8(2, 8, 3), f(2, 3, 3)], "parameters of shape .* for blocks of 4"),
            ([u8(2, 8, 3), f(1, 2, 3)], "parameters of shape .* for blocks of 4"),
        ],
    ),
}


@pytest.mark.parametrize("op", SETS)
def test_what_the_run_demands_of_sizes(op: str):
    options, misfits = SETS[op]
    module = tw.compile(open_model(op, misfits[0][0], **options), workers=0, num_threads=1, cache=False)
    known = options.get("known", ())
    for arrays, why in misfits:
        check_refused(module, op, [a for n, a in enumerate(arrays) if n not in known], why)


# Operator, inputs with a vector whose length the op determines, inputs with one of another length, and attributes.
VECTORS: dict[str, tuple[list[Any], list[Any], dict[str, Any]]] = {
    "Pad": ([f(4, 5), i(1, 1, 0, 2)], [f(4, 5), i(1, 1, 0)], {}),
    "Tile": ([f(4, 5), i(2, 3)], [f(4, 5), i(2, 3, 1)], {}),
    "Split": ([f(4, 5), i(1, 3)], [f(4, 5), i(1, 2, 1)], {"results": ("float32",) * 2}),
    "TopK": ([f(4, 5), i(2)], [f(4, 5), i(2, 1)], {"results": ("float32", "int64")}),
    "OneHot": ([i(1, 2), i(4), f(2)], [i(1, 2), i(), f(2)], {}),
    "CumSum": ([f(4, 5), i(1)], [f(4, 5), i(1, 0)], {}),
    "CenterCropPad": ([f(4, 5), i(3, 7)], [f(4, 5), i(3)], {}),
}


@pytest.mark.parametrize("op", VECTORS)
def test_lengths_of_vectors_are_demanded(op: str):
    arrays, misfit, options = VECTORS[op]
    module = check_open(op, arrays, **options)
    check_refused(module, op, misfit, r"input '\w+' of shape .* must have \d elements")


def test_a_squeeze_without_axes_drops_all_that_are_1():
    runs = [[f(b, 1, n)] for b, n in ((4, 3), (1, 3), (2, 1), (1, 1))]
    check_open("Squeeze", *runs, fixed=[(0, 1)])


def test_what_reads_a_squeeze_without_axes_is_there_for_each_rank():
    """As in models of speech, whose file says one rank for all batches."""
    text = """<ir_version: 9, opset_import: ["": 18]> g (float[B, 1, T] x, float[5, 7] m) => (float[B, 5] y, float[B, 7] z) {
      c = Concat<axis = 1>(x, x, x, x, x)  a = Constant<value_ints = [2]>()  r = ReduceMax(c, a)
      y = Squeeze(r)  z = MatMul(y, m) }"""
    made = onnx.parser.parse_model(text)
    module, oracle = tw.compile(made, workers=0, cache=False), make_session(made)
    for batch, length in ((3, 4), (1, 4), (1, 1)):
        given = {"x": f(batch, 1, length), "m": f(5, 7)}
        for got, want in zip(module.run(given), oracle.run(None, given), strict=True):
            assert got.shape == np.asarray(want).shape
            np.testing.assert_allclose(got, np.asarray(want), 1e-5, 1e-5)


def test_axes_that_the_run_gives_to_squeeze_have_one_element():
    module = check_open("Squeeze", [f(4, 1), i(1)], [f(1, 3), i(-2)], fixed=[(1, 0)])
    check_refused(module, "Squeeze", [f(4, 2), i(1)], "are not all of extent 1")
