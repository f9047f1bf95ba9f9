"""Operators on inputs of open sizes: one program for all of them, which demands what only the run knows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from open_case import check_open, check_refused, open_model
from samples import leaving

import tilewright as tw
from tilewright.core.errors import InputError
from tilewright.tools.debugging.oracle import make_session

RNG = np.random.default_rng(5)


def f(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def u8(*shape: int) -> np.ndarray:
    return RNG.integers(0, 256, shape).astype(np.uint8)


FILTERS, TAPS = f(3, 4, 3, 3), f(3, 1, 4)
HALVES = np.full((3, 2, 2), 0.5, np.float32)

# Name of the case: operator, runs, and what `check_open` takes besides.
CASES: dict[str, tuple[str, list[list[np.ndarray]], dict[str, Any]]] = {
    "windows that stick out": (
        "MaxPool",
        [[f(2, 3, h, w)] for h, w in ((7, 8), (8, 7), (3, 3), (12, 5))],
        {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1},
    ),
    "rows that lie beside each other where the last axis has one element": (
        "Transpose",
        [[f(2, m, n, k)] for m, n, k in ((17, 5, 1), (16, 16, 1), (40, 3, 1), (3, 40, 1), (20, 33, 2), (1, 70, 1))],
        {"perm": [0, 2, 1, 3]},
    ),
    "tiles of all sizes that are turned in registers": (
        "Transpose",
        [[f(*shape)] for shape in ((5, 7, 12), (2, 17, 16), (16, 4, 150), (130, 3, 35), (1, 9, 2), (33, 2, 6))],
        {"perm": [2, 0, 1]},
    ),
    "a few rows of which whole vectors are read, and rows of a few elements of which they are written": (
        "Transpose",
        [[f(*s)] for s in ((2, 40, 3), (1, 2000, 2), (3, 33, 4), (2, 3, 40), (1, 2, 1100), (2, 4, 16), (1, 3, 15))],
        {"perm": [0, 2, 1]},
    ),
    "a few channels of images": (
        "Transpose",
        [[f(2, c, h, w)] for c, h, w in ((2, 5, 7), (3, 4, 4), (4, 40, 30), (5, 4, 6), (1, 3, 3), (3, 1, 5))],
        {"perm": [0, 2, 3, 1]},
    ),
    "large matrices, before whose tiles lines are asked for": (
        "Transpose",
        [[f(2, m, n)] for m, n in ((130, 129), (200, 80), (91, 257))],
        {"perm": [0, 2, 1]},
    ),
    "several tiles of four rows as one": (
        "Transpose",
        [[f(m, n)] for m, n in ((17, 5), (16, 12), (100, 15), (15, 7), (33, 6))],
        {"perm": [1, 0]},
    ),
    "a few channels of bytes": (
        "Transpose",
        [[u8(2, h, w, c)] for h, w, c in ((9, 9, 3), (8, 8, 4), (1, 70, 2), (11, 7, 12), (4, 4, 16))],
        {"perm": [0, 3, 1, 2], "results": ["uint8"]},
    ),
    "tiles of bytes": (
        "Transpose",
        [[u8(3, m, n)] for m, n in ((70, 65), (16, 15), (4, 200), (2, 2))],
        {"perm": [0, 2, 1], "results": ["uint8"]},
    ),
    "tiles of integers": (
        "Transpose",
        [[u8(m, n).astype(np.int64)] for m, n in ((19, 33), (8, 7), (4, 2), (3, 300))],
        {"perm": [1, 0], "results": ["int64"]},
    ),
    "blocks that begin in the one before, of axes that are turned": (
        "Transpose",
        [[f(2, 17, 130)], [f(2, 15, 16)], [f(1, 40, 1)], [f(3, 7, 239)], [f(0, 2, 5)]],
        {"perm": [2, 0, 1]},
    ),
    "blocks of windows that begin in the one before": (
        "AveragePool",
        [[f(2, 3, h, w)] for h, w in ((28, 28), (19, 87), (2, 15), (2, 2))],
        {"kernel_shape": [2, 2], "strides": [2, 2]},
    ),
    "the last window would start in the padding": (
        "MaxPool",
        [[f(1, 1, h, w)] for h, w in ((2, 3), (3, 2), (5, 4))],
        {"kernel_shape": [1, 1], "strides": [2, 2], "ceil_mode": 1},
    ),
    "means of windows that stick out": (
        "AveragePool",
        [[f(1, 2, h, w)] for h, w in ((5, 6), (6, 5), (3, 4))],
        {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 0], "ceil_mode": 1, "opset": 19},
    ),
    "windows larger than some inputs": (
        "MaxPool",
        [[f(2, 3, h, w)] for h, w in ((2, 30), (41, 3), (90, 1))],
        {"kernel_shape": [40, 7], "strides": [40, 7], "ceil_mode": 1},
    ),
    "means of windows larger than some inputs": (
        "AveragePool",
        [[f(1, 2, n)] for n in (5, 61, 2)],
        {
            "kernel_shape": [20],
            "strides": [60],
            "dilations": [3],
            "pads": [2, 1],
            "ceil_mode": 1,
            "count_include_pad": 1,
            "opset": 19,
        },
    ),
    "norms of windows larger than some inputs": (
        "LpPool",
        [[f(1, 2, n)] for n in (5, 61, 40)],
        {"kernel_shape": [40], "strides": [40], "ceil_mode": 1, "opset": 22, "tolerance": 1e-4},
    ),
    "means of as many windows as there are pixels": (
        "AveragePool",
        [[f(1, 2, n)] for n in (5, 6, 1)],
        {"kernel_shape": [4], "strides": [2], "auto_pad": "SAME_UPPER"},
    ),
    "a convolution of as many windows as there are pixels": (
        "Conv",
        [[f(1, 4, h, w), FILTERS] for h, w in ((5, 6), (6, 5), (1, 9))],
        {"known": [1], "strides": [2, 2], "auto_pad": "SAME_LOWER"},
    ),
    "groups": ("Conv", [[f(1, 4, n, 5), f(6, 2, 3, 3)] for n in (5, 3)], {"group": 2, "fixed": [(1, 2), (1, 3)]}),
    "groups of a transposed convolution": (
        "ConvTranspose",
        [[f(1, c, n, 5), f(c, 3, 3, 3)] for c, n in ((4, 5), (2, 1))],
        {"group": 2, "fixed": [(1, 2), (1, 3)]},
    ),
    "channels to pixels": ("DepthToSpace", [[f(1, 8, 2, 3)], [f(2, 12, 1, 5)]], {"blocksize": 2}),
    "pixels to channels": ("SpaceToDepth", [[f(1, 3, 4, 6)], [f(2, 1, 2, 8)]], {"blocksize": 2}),
    "layer": ("LayerNormalization", [[f(n, k), f(k), f(k)] for n, k in ((2, 5), (1, 1), (3, 64))], {}),
    "image": ("InstanceNormalization", [[f(2, 3, h, w), f(3), f(3)] for h, w in ((5, 4), (1, 9))], {"fixed": [(0, 1)]}),
    "groups of channels": (
        "GroupNormalization",
        [[f(1, c, h, 5), f(c), f(c)] for c, h in ((6, 2), (4, 3))],
        {"num_groups": 2, "opset": 21, "reference": True},
    ),
    "dropout": ("Dropout", [[f(2, 3)], [f(5, 1)]], {"results": ("float32", "bool")}),
    "dropout of old": ("Dropout", [[f(2, 3)], [f(5, 1)]], {"opset": 7}),
    "a sum of products": ("Einsum", [[f(a, b), f(b, c)] for a, b, c in ((2, 3, 4), (1, 5, 1))], {"equation": "ij,jk"}),
    "products of heads that lie along the sum": (
        "Einsum",
        [[f(q, 3, 8), f(33, 3, 8)] for q in (1, 19)],
        {"equation": "qhd,khd->hqk", "fixed": [(0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]},
    ),
    "a diagonal": ("Einsum", [[f(2, n, n)] for n in (3, 1)], {"equation": "...ii->...i"}),
    "matrices that are repeated": (
        "MatMul",
        [[f(a, 2, 3), f(b, 3, 4)] for a, b in ((2, 2), (1, 3), (3, 1))],
        {"fixed": [(0, 2), (1, 1)]},
    ),
    "a border by attributes": ("Pad", [[f(2, n)] for n in (3, 5)], {"opset": 10, "pads": [0, 1, 1, 2], "mode": "edge"}),
    "a border of long rows": (
        "Pad",
        [[f(2, n)] for n in (90, 23)],
        {"opset": 10, "pads": [0, 19, 1, 22], "mode": "edge"},
    ),
    "a reflection of long rows": (
        "Pad",
        [[f(2, n)] for n in (90, 24)],
        {"opset": 10, "pads": [0, 19, 1, 22], "mode": "reflect"},
    ),
    "zeros by attributes": ("Pad", [[f(2, n)] for n in (3, 1)], {"opset": 10, "pads": [1, -1, 0, 2]}),
    "a part by attributes": (
        "Slice",
        [[f(2, n)] for n in (9, 2)],
        {"opset": 9, "starts": [1], "ends": [-1], "axes": [1]},
    ),
    "a zero point that is alone": (
        "ConvInteger",
        [[u8(1, 1, n, 4), u8(2, 1, 2, 2), u8(), u8(k)] for n, k in ((4, 1), (3, 1))],
        {"results": ("int32",), "opset": 10, "fixed": [(1, 0), (1, 1), (1, 2), (1, 3)]},
    ),
    "determinants": ("Det", [[f(n, 3, 3)] for n in (2, 5)], {"opset": 11, "tolerance": 1e-4}),
    "integers and their grids in blocks": (
        "DequantizeLinear",
        [[u8(n, k, 3), np.ones((n, -(-k // 4), 3), np.float32) / 4] for n, k in ((2, 8), (1, 6))],
        {"axis": 1, "block_size": 4, "opset": 21},
    ),
    "blocks of given scales": (
        "QuantizeLinear",
        [[f(3, n, 2) * 9, HALVES, np.zeros_like(HALVES, np.uint8)] for n in (8, 7)],
        {"axis": 1, "block_size": 4, "opset": 21, "known": [1, 2], "results": ("uint8",)},
    ),
    "channels behind what came before them": (
        "CausalConvWithState",
        [[f(2, c, n), f(c, 1, k), f(c), f(2, c, k - 1)] for c, n, k in ((3, 4, 3), (1, 1, 4), (5, 2, 1))],
        {"activation": "silu", "results": ("float32",) * 2, "opset": 27, "reference": True},
    ),
    "channels behind nothing": (
        "CausalConvWithState",
        [[f(b, 3, n), TAPS] for b, n in ((2, 4), (1, 1))],
        {"known": [1], "results": ("float32",) * 2, "opset": 27, "reference": True},
    ),
    "sums of which one factor is alone": (
        "Einsum",
        [[f(1), f(k, 2)] for k in (3, 1, 70)],
        {"equation": "b,kn->n", "fixed": [(0, 0)]},
    ),
    "sums over rows of columns": (
        "Einsum",
        [[f(a, 1, c), f(a, 1, 1, k, c)] for a, c, k in ((3, 2, 4), (1, 1, 1), (2, 3, 70))],
        {"equation": "...l,...jkl->...", "fixed": [(0, 1), (1, 1), (1, 2)]},
    ),
    "real or complex sequences": (
        "DFT",
        [[f(2, n, parts)] for n, parts in ((4, 1), (5, 2))],
        {
            "axis": 1,
            "opset": 17,
            "reference": True,
        },
    ),
    "an axis at a place that the run gives": (
        "ExpandDims",
        [[f(2, 3), np.array(at, np.int32)] for at in (0, 2, -2)],
        {"domain": "com.microsoft"},
    ),
    "weights of four bits": (
        "MatMulNBits",
        [[f(b, n, 32), u8(6, 2, 8), f(12), u8(6)] for b, n in ((2, 3), (1, 1))],
        {"domain": "com.microsoft", "K": 32, "N": 6, "bits": 4, "block_size": 16, "tolerance": 1e-3},
    ),
    "as many elements of rows of any length as a transform takes": (
        "DFT",
        [[f(2, n, parts), np.array(6)] for n, parts in ((4, 1), (9, 1))],
        {"axis": 1, "opset": 17, "known": [1], "reference": True},
    ),
    "pieces of open extents side by side": (
        "Concat",
        [[f(2, a, n), f(2, b, n), f(2, 1, n)] for a, b, n in ((3, 2, 70), (1, 40, 1), (0, 2, 5))],
        {"axis": 1},
    ),
    "scans of blocks of columns, where rows are few or short, and of whole rows": (
        "CumSum",
        [
            [f(n, m, k), np.array(1)]
            for n, m, k in ((1, 40, 33), (3, 3, 200), (2, 33, 129), (1, 34, 300), (2, 1, 81), (1, 5, 0), (2, 0, 7))
        ],
        {"known": [1], "exclusive": 1, "reverse": 1},
    ),
    "running sums of columns": (
        "CumSum",
        [[f(2, 5, n), np.array(1)] for n in (77, 3, 64)],
        {"known": [1], "exclusive": 1, "reverse": 1},
    ),
    "the last places of the greatest": (
        "ArgMax",
        [[np.round(f(3, n))] for n in (1, 15, 90)],
        {"axis": 1, "select_last_index": 1, "results": ("int64",), "opset": 13},
    ),
    "the greatest of short columns": (
        "ArgMax",
        [[np.round(f(b, n, 3))] for b, n in ((2, 70), (5, 1))],
        {"axis": 1, "fixed": [(0, 2)], "results": ("int64",), "opset": 13},
    ),
    "products with a vector": ("MatMul", [[f(3, k), f(k)] for k in (5, 100)], {"fixed": [(0, 0)]}),
    "real frames": (
        "STFT",
        [[f(b, n, 1), np.array(2), f(4)] for b, n in ((2, 9), (1, 4))],
        {"opset": 17, "reference": True},
    ),
    "integers and their grids": (
        "DequantizeLinear",
        [[u8(2, c, 3), np.abs(f(c)) + 1, u8(c)] for c in (4, 2)],
        {"axis": 1},
    ),
}


# Each line of the package that runs for these runs for others.
COVERED = {
    "rows that lie beside each other where the last axis has one element",
    "a few rows of which whole vectors are read, and rows of a few elements of which they are written",
    "large matrices, before whose tiles lines are asked for",
    "several tiles of four rows as one",
    "tiles of bytes",
    "tiles of integers",
    "blocks that begin in the one before, of axes that are turned",
    "means of as many windows as there are pixels",
    "groups",
    "a border by attributes",
    "a border of long rows",
    "integers and their grids in blocks",
    "running sums of columns",
    "image",
    "pieces of open extents side by side",
    "pixels to channels",
    "a few channels of bytes",
    "the last places of the greatest",
    "zeros by attributes",
    "blocks of windows that begin in the one before",
}


def test_means_of_squares() -> None:
    """How many pixels a window has is read along both axes, of one vector where they are equally long."""
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
        g (float[n, 2, m, m] x) => (float[n, 2, o, o] y) { y = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x) }
    """)
    module, oracle = tw.compile(model, workers=0, num_threads=1, cache=False), make_session(model)
    for n, m in ((2, 5), (1, 70)):
        x = f(n, 2, m, m)
        np.testing.assert_allclose(module(x)[0], oracle.run(None, {"x": x})[0], 1e-5, 1e-5)


@pytest.mark.parametrize("name", leaving(CASES, COVERED))
def test_one_program_for_all_sizes(name: str):
    op, runs, options = CASES[name]
    check_open(op, *runs, **options)


def test_windows_in_an_open_input_without_padding_read_it_where_it_lies():
    model = open_model("MaxPool", [f(1, 2, 8, 8)], kernel_shape=[2, 2], strides=[2, 2])
    assert tw.compile(model, workers=0, num_threads=1, cache=False).manifest.call_count == 1


MISFITS = {
    "DepthToSpace<blocksize = 2>(x)": ([f(1, 3, 2, 2)], r"axis 1 is not blocksize\*blocksize\*c \(blocksize=2\)"),
    "SpaceToDepth<blocksize = 2>(x)": ([f(1, 3, 3, 2)], r"axis 2 is not blocksize\*h \(blocksize=2\)"),
    "Det(x)": ([f(1, 1, 3, 2)], r"axis 3 is not m = C: .*\(2 and 3\)"),
    'Einsum<equation = "abcd,abcd->a">(x, z)': ([f(1, 2, 3, 4), f(1, 2, 5, 4)], "does not fit term 'abcd'"),
    "Conv<group = 2>(x, z)": ([f(1, 4, 3, 3), f(3, 2, 3, 3)], r"axis 0 is not group\*m \(group=2\)"),
}


@pytest.mark.parametrize("node", MISFITS)
def test_sizes_that_do_not_fit_are_refused_by_the_run(node: str):
    inputs, why = MISFITS[node]
    made = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 18]> '
        f"g (float[A, B, C, D] x, float[E, F, G, H] z) => (float y) {{ [the_node] y = {node} }}"
    )
    made.graph.output[0].type.tensor_type.ClearField("shape")
    del made.graph.input[len(inputs) :]
    with pytest.raises(InputError, match=rf"node 'the_node'.*({why})"):
        tw.compile(made, workers=0, cache=False)(*inputs)


def test_legacy_broadcasting_of_open_sizes():
    text = """<ir_version: 9, opset_import: ["": 6]> g (float[A, B, C] x, float[D] z) => (float[A, B, C] y)
    { y = Add<broadcast = 1, axis = 1>(x, z) }"""
    module = tw.compile(onnx.parser.parse_model(text), workers=0, cache=False)
    for n in (3, 1):
        x, z = f(2, n, 4), f(n)
        np.testing.assert_array_equal(module(x, z)[0], x + z[:, None])


def test_halves_of_an_open_axis():
    """BiasSplitGelu, of which onnxruntime's CPU has no kernel: by its definition."""
    made = open_model("BiasSplitGelu", [f(2, 6), f(6)], domain="com.microsoft")
    module = tw.compile(made, workers=0, num_threads=1, cache=False)
    for n in (6, 2):
        x, bias = f(2, n), f(n)
        left, right = np.split(x + bias, 2, axis=1)
        erf = np.vectorize(math.erf)(right / np.sqrt(2))
        np.testing.assert_allclose(module(x, bias)[0], left * right * (1 + erf) / 2, 1e-5, 1e-6)
    check_refused(module, "BiasSplitGelu", [f(2, 5), f(5)], r"axis 1 is not 2\*half")
    check_refused(module, "BiasSplitGelu", [f(2, 6), f(4)], "bias has shape")


@pytest.mark.parametrize("op", ["Softmax", "LayerNormalization"])
def test_rows_of_all_lengths_in_one_program(op: str) -> None:
    """Shorter than a vector, of some numbers of vectors, each of which has code of its own, and longer ones."""
    lengths = (1, 7, 15, 16, 17, 31, 32, 33, 48, 49, 63, 64, 65, 80, 81, 96, 97, 113, 127, 128, 129, 145)
    runs = [[f(19, length), *([f(length)] if op == "LayerNormalization" else [])] for length in lengths]
    check_open(op, *runs, axis=-1)


def test_one_optimiser_step_of_any_size():
    """Momentum of ``ai.onnx.preview.training``, which onnxruntime's inference does not have: by its definition."""
    text = """<ir_version: 9, opset_import: ["": 18, "ai.onnx.preview.training": 1]>
    g (float r, int64 t, float[A] x, float[B] g, float[C] v) => (float[A] y, float[A] w) {
      y, w = ai.onnx.preview.training.Momentum<alpha = 0.9, beta = 0.5, mode = "standard", norm_coefficient = 0.0>(
        r, t, x, g, v) }"""
    module = tw.compile(onnx.parser.parse_model(text), workers=0, cache=False)
    for n in (3, 1):
        x, gradient, v = f(n), f(n), f(n)
        moved, speed = module(np.float32(0.1), np.int64(2), x, gradient, v)
        np.testing.assert_allclose(speed, 0.9 * v + 0.5 * gradient, 1e-6, 1e-6)
        np.testing.assert_allclose(moved, x - 0.1 * speed, 1e-6, 1e-6)
