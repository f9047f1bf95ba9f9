"""Pools whose windows move along rows, through the whole compiler: each is one kernel with a schedule."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from cpu_targets import FOR_THIS_MACHINE
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_runner import TARGET, CompiledKernel, CompiledPlan
from onnx import helper
from onnx_case import model_of, node_model
from samples import campaign

import tilewright as tw
from tilewright.core.target import Target, detect_host
from tilewright.dialects.context import make_context
from tilewright.frontends import import_model
from tilewright.passes import pipeline
from tilewright.passes.infra.context import PassContext

RNG = np.random.default_rng(0)
OPS = {"MaxPool": np.max, "AveragePool": np.mean}
DTYPES = [np.float32, np.float64, np.float16, np.int8, np.uint8]


def random(shape: tuple[int, ...], dtype: type = np.float32) -> np.ndarray:
    return RNG.integers(0, 100, shape).astype(dtype)


def pooled(op: str, x: np.ndarray, kernel: list[int], strides: list[int], dilations: list[int], pads: list[int]) -> Any:
    """What windows of the elements that are no padding give."""
    rank = len(kernel)
    low, high = pads[:rank], pads[rank:]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    sizes = zip(x.shape[2:], low, high, reach, strides, strict=True)
    out = [(n + a + b - r) // s + 1 for n, a, b, r, s in sizes]
    made = np.empty((*x.shape[:2], *out), np.float64)
    for place in itertools.product(*map(range, out)):
        window: Any = x
        for axis, (o, k, s, d, a) in enumerate(zip(place, kernel, strides, dilations, low, strict=True), 2):
            at = np.arange(k) * d + o * s - a
            window = window.take(at[(at >= 0) & (at < x.shape[axis])], axis)
        made[(slice(None), slice(None), *place)] = OPS[op](window.astype(np.float64), tuple(range(2, 2 + rank)))
    return made


def compiled(op: str, x: np.ndarray, target: Target, **attributes: Any) -> tuple[CompiledPlan, dict[str, np.ndarray]]:
    model, _ = node_model(op, [x], opset=19, **attributes)
    imported = import_model(model)
    with make_context():
        plan = pipeline.plan(imported, target, PassContext())
    return CompiledPlan(plan), {name: param.array() for name, param in imported.params.items()}


def check(
    op: str,
    x: np.ndarray,
    kernel: list[int],
    strides: list[int] | None = None,
    dilations: list[int] | None = None,
    pads: list[int] | None = None,
) -> CompiledPlan:
    ones = [1] * len(kernel)
    strides, dilations, pads = strides or ones, dilations or ones, pads or [0, 0] * len(kernel)
    attributes = {"kernel_shape": kernel, "strides": strides, "dilations": dilations, "pads": pads}
    made, params = compiled(op, x, TARGET.get(detect_host()), **attributes)
    want = pooled(op, x, kernel, strides, dilations, pads)
    assert want.size == 1 or all(kernel.kernel.schedule for kernel in made.kernels.values())  # one window has no vector
    for chunks in (1, 3):
        (got,) = made({"in0": x}, params, chunks)
        np.testing.assert_allclose(got.astype(np.float64), want, rtol=2e-3 if x.dtype == np.float16 else 1e-5)
    return made


@settings(max_examples=5, deadline=None)
@given(st.data())
def test_windows_of_any_form(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 3))
    op = data.draw(st.sampled_from(["MaxPool", "AveragePool"]))
    dtype = data.draw(st.sampled_from(DTYPES if op == "MaxPool" else DTYPES[:2]))
    kernel = [data.draw(st.integers(1, 5)) for _ in range(rank)]
    kernel[data.draw(st.integers(0, rank - 1))] += 1  # a window of one element is no pool
    dilations = [data.draw(st.sampled_from([1, 1, 2])) for _ in range(rank)]
    strides = [data.draw(st.integers(1, 5)) for _ in range(rank)]
    pads = [data.draw(st.integers(0, k - 1)) for k in (*kernel, *kernel)]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    extents = [r + data.draw(st.sampled_from([0, 1, 5, 12])) for r in reach]
    extents[-1] += data.draw(st.sampled_from([0, 20, 33]))
    x = random((data.draw(st.integers(1, 2)), data.draw(st.sampled_from([1, 3, 8])), *extents), dtype)
    check(op, x, kernel, strides, dilations, pads)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("width", [2, 7, 35])
def test_rows_are_combined_ahead_and_the_padding_is_left_out(op: str, width: int) -> None:
    made = check(op, random((1, 8, 10, width)), [3, 3], [2, 2], pads=[1, 1, 1, 1])
    [kernel] = made.kernels.values()
    assert "stage" in str(kernel.kernel.schedule)


@pytest.mark.parametrize("window", [5, 17])
def test_large_windows(window: int) -> None:
    check("MaxPool", random((1, 4, 13, 13)), [window, window], pads=[window // 2] * 4)


@pytest.mark.parametrize(
    ("stride", "dtype"), [(2, np.uint8), (2, np.float64), (3, np.float32), (4, np.float16), (5, np.int8)]
)
def test_steps_along_rows(stride: int, dtype: type) -> None:
    check("MaxPool", random((1, 3, 200), dtype), [3], [stride])


def test_a_window_as_large_as_its_input_and_beyond_it() -> None:
    """Of one result the rows of a window are reduced one by one: as a vector they were read from before the input."""
    check("MaxPool", random((1, 1, 2, 4), np.float32), [2, 4], [2, 2], pads=[1, 1, 0, 0])
    check("MaxPool", random((1, 1, 1, 2, 4), np.float32), [1, 2, 4], [1, 2, 2], pads=[0, 1, 1, 0, 0, 0])


def test_nan_and_infinities_of_a_window_are_kept() -> None:
    x = np.full((1, 1, 9, 20), -np.inf, np.float32)
    x[0, 0, 4, 7] = np.nan
    made, params = compiled("MaxPool", x, TARGET.get(detect_host()), kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    (got,) = made({"in0": x}, params, 1)
    assert np.isnan(got[0, 0, 3:6, 6:9]).all()
    assert np.isnan(got).sum() == 9
    assert np.isneginf(got).sum() == got.size - 9


def test_one_window_is_a_reduction() -> None:
    for shape, kernel in (((2, 8, 7, 7), [7, 7]), ((1, 8, 5, 40), [1, 40]), ((1, 8, 100), [100])):
        check("AveragePool", random(shape), kernel)


@FOR_THIS_MACHINE
@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 0, 1, 1]])
def test_indices_have_schedules_and_are_those_of_the_first_greatest(pads: list[int]) -> None:
    x = RNG.integers(0, 3, (1, 8, 12, 21)).astype(np.float32)
    x[0, 0] = -np.inf
    model, inputs = node_model("MaxPool", [x], outputs=2, kernel_shape=[3, 2], strides=[2, 2], pads=pads)
    module = tw.compile(model, workers=0, num_threads=1, cache=False)
    best, places = module(*inputs.values())
    np.testing.assert_array_equal(x.reshape(-1)[places], best)
    for c, i, j in itertools.product(range(8), *map(range, best.shape[2:])):
        rows, columns = (max(n * 2 - a, 0) for n, a in zip((i, j), pads, strict=False))
        window = x[0, c, rows : i * 2 - pads[0] + 3, columns : j * 2 - pads[1] + 2]
        first = np.unravel_index(window.argmax(), window.shape)
        assert places[0, c, i, j] == np.ravel_multi_index((0, c, rows + first[0], columns + first[1]), x.shape)


def test_a_pool_of_a_constant_has_nothing_to_compute_ahead() -> None:
    kernel = CompiledKernel("""
    #window = affine_map<(c, w, k) -> (c, w + k)>
    func.func @k() -> tensor<1x46xf32> {
      %zero = arith.constant 0.0 : f32
      %x = arith.constant dense<2.0> : tensor<1x48xf32>
      %w = tensor.empty() : tensor<3xf32>
      %e = tensor.empty() : tensor<1x46xf32>
      %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x46xf32>) -> tensor<1x46xf32>
      %y = linalg.generic {indexing_maps = [#window, affine_map<(c, w, k) -> (k)>, affine_map<(c, w, k) -> (c, w)>],
          iterator_types = ["parallel", "parallel", "reduction"]}
          ins(%x, %w : tensor<1x48xf32>, tensor<3xf32>) outs(%f : tensor<1x46xf32>) {
      ^bb0(%in: f32, %unused: f32, %out: f32):
        %s = arith.addf %out, %in : f32
        linalg.yield %s : f32
      } -> tensor<1x46xf32>
      return %y : tensor<1x46xf32>
    }""")
    assert kernel.kernel.schedule
    np.testing.assert_array_equal(kernel([], np.empty((1, 46), np.float32)), np.full((1, 46), 6, np.float32))


@FOR_THIS_MACHINE
@pytest.mark.parametrize("sizes", ["1,1,1,n", "n,1,h,1", "1,1,h,w"])
def test_a_window_over_the_only_channel_of_open_images_reads_its_padding_where_it_lies(sizes: str) -> None:
    text = f"g (float[{sizes}] x) => (float[{sizes}] y) {{ y = LRN <size = 3, alpha = 0.5, beta = 1.0> (x) }}"
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 18]> {text}')
    module = tw.compile(model, workers=0, num_threads=2, cache=False)
    x = random(tuple(int(n) if n == "1" else 7 for n in sizes.split(",")))
    np.testing.assert_allclose(module(x)[0], x / (1 + x**2 * 0.5 / 3), rtol=1e-5)


@campaign(every=3)
@FOR_THIS_MACHINE
@pytest.mark.parametrize(("op", "window"), list(itertools.product(OPS, [1, 2, 3])))
@pytest.mark.parametrize("rank", [1, 2])
def test_a_pool_reads_a_part_of_an_input_where_it_lies(op: str, window: int, rank: int) -> None:
    """A slice in the pool's kernel is nothing that could be computed ahead."""
    x = random((3, 5, *[9] * rank))
    nodes = [
        helper.make_node("Slice", ["x", "first", "last"], ["part"]),
        helper.make_node(op, ["part"], ["y"], kernel_shape=[window] * rank),
    ]
    model = model_of(nodes, {"x": x}, ["y"], {"first": np.array([1, 1]), "last": np.array([2, 4])})
    [got] = tw.compile(model, workers=0, num_threads=1, cache=False)(x)
    want = pooled(op, x[1:2, 1:4], [window] * rank, [1] * rank, [1] * rank, [0] * 2 * rank)
    np.testing.assert_allclose(got, want, rtol=1e-6)
