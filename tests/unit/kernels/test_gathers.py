"""Reads at indices, through the whole compiler: gathers, resizes, borders that repeat; all of them have schedules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_runner import TARGET, CompiledKernel, CompiledPlan
from onnx_case import node_model
from samples import campaign
from shared_kernels import describe_kernels

from tilewright.core.target import Target, detect_host
from tilewright.dialects.context import make_context
from tilewright.frontends import import_model
from tilewright.passes import pipeline
from tilewright.passes.infra.context import PassContext
from tilewright.tools.debugging.oracle import make_session

RNG = np.random.default_rng(0)
DTYPES = [np.int8, np.int32, np.int64, np.float16, np.float32, np.float64]
EXTENTS = st.sampled_from([1, 2, 3, 7, 17, 40, 70])


def random(shape: tuple[int, ...], dtype: type = np.float32) -> np.ndarray:
    return RNG.integers(-100, 100, shape).astype(dtype)


def check(op: str, *arrays: np.ndarray | None, known: tuple[int, ...] = (), atol: float = 0, **attributes: Any) -> None:
    """The node's kernels have schedules, and give what onnxruntime does in any number of chunks."""
    model, inputs = node_model(op, arrays, known, **attributes)
    (want,) = make_session(model).run(None, inputs)
    imported = import_model(model)
    with make_context():
        plan = pipeline.plan(imported, TARGET.get(detect_host()), PassContext())
    compiled = CompiledPlan(plan)
    assert all(kernel.kernel.schedule for kernel in compiled.kernels.values())
    params = {name: param.array() for name, param in imported.params.items()}
    for chunks in (1, 3):
        (got,) = compiled(inputs, params, chunks)
        np.testing.assert_allclose(got.astype(np.float64), np.asarray(want).astype(np.float64), rtol=1e-6, atol=atol)


@settings(max_examples=6, deadline=None)
@given(st.data())
def test_gather_along_any_axis(data: st.DataObject) -> None:
    rank, dtype = data.draw(st.integers(1, 3)), data.draw(st.sampled_from(DTYPES))
    shape = tuple(data.draw(st.lists(EXTENTS, min_size=rank, max_size=rank)))
    axis = data.draw(st.integers(0, rank - 1))
    chosen = tuple(data.draw(st.lists(EXTENTS, min_size=1, max_size=2)))
    indices = RNG.integers(-shape[axis], shape[axis], chosen).astype(data.draw(st.sampled_from([np.int32, np.int64])))
    check("Gather", random(shape, dtype), indices, axis=axis)


@pytest.mark.parametrize(("cpu", "lanes"), [("haswell", 32), ("skylake-avx512", 64)])
def test_rows_of_bytes_are_read_in_whole_registers(cpu: str, lanes: int) -> None:
    x, rows = random((9, 2000), np.int8), RNG.integers(-9, 9, 30)
    check("Gather", x, rows)
    target = Target.parse(f"x86 -mcpu={cpu}")
    for op, arrays, tile in (
        ("Gather", (x, rows), 4 * lanes),
        ("Gather", (x.astype(np.float32), rows), lanes),
        ("GatherElements", (x, RNG.integers(-9, 9, (9, 2000))), lanes),  # each of whose elements has a place
    ):
        kernels = describe_kernels(node_model(op, arrays)[0], target).values()
        assert any(f" of {tile}: vectorize" in (kernel.schedule or "") for kernel in kernels)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_gather_elements(axis: int) -> None:
    x = random((5, 6, 37))
    check("GatherElements", x, RNG.integers(-x.shape[axis], x.shape[axis], (5, 6, 37)), axis=axis)


@pytest.mark.parametrize("batch", [0, 1])
def test_gather_nd(batch: int) -> None:
    x = random((3, 6, 5, 37))
    check("GatherND", x, RNG.integers(-3, 3, (3, 4, 2)), batch_dims=batch)


@campaign(every=2)
@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
@pytest.mark.parametrize("pads", [[1, 2, 0, 2, 1, 0], [0, 0, 3, 0, 0, 4], [1, 2, 3, 0, 1, 2]])
def test_borders_that_repeat(mode: str, pads: list[int]) -> None:
    check("Pad", random((3, 5, 37)), np.array(pads), known=(1,), mode=mode, opset=19)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("scales", [[1, 1, 2, 2], [1, 1, 0.7, 1.6], [1, 1, 1, 3]])
def test_resize(mode: str, scales: list[float]) -> None:
    x, given_scales = random((1, 3, 9, 20)), np.array(scales, np.float32)
    check("Resize", x, None, given_scales, known=(2,), mode=mode, atol=1e-4)


def test_reverse_sequence() -> None:
    check("ReverseSequence", random((9, 4, 33)), np.array([9, 1, 5, 3]), time_axis=0, batch_axis=1)


def test_indices_outside_are_moved_to_the_nearest() -> None:
    """Which no program of onnxruntime's allows: ours reads nowhere else."""
    x = random((4, 33))
    model, inputs = node_model("Gather", [x, np.array([7, -9, 2])])
    with make_context():
        compiled = CompiledPlan(pipeline.plan(import_model(model), TARGET.get(detect_host()), PassContext()))
    (got,) = compiled(inputs, {}, 2)
    np.testing.assert_array_equal(got, x[[3, 0, 2]])


@campaign("nearest-3", "linear-8", "cubic-21")
@pytest.mark.parametrize("channels", [3, 8, 21])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_samples_of_few_channels_and_of_rows_of_many(mode: str, channels: int) -> None:
    """Some places are outside, where all of a row is zero."""
    x, grid = RNG.standard_normal((2, channels, 5, 9)), RNG.uniform(-1.5, 1.5, (2, 7, 6, 2))
    check("GridSample", x.astype(np.float32), grid.astype(np.float32), mode=mode, opset=20, atol=1e-5)


def test_a_sum_of_one_gathered_term_begins_with_what_it_is_said_to() -> None:
    """Places before the first element read nothing, as single channels of a GridSample do outside of the image."""
    kernel = CompiledKernel(
        """func.func @k(%x: tensor<9x7x1xi32>, %t: tensor<16xf32>) -> tensor<9x7xf32> {
      %zero = arith.constant 0.0 : f32
      %none = arith.constant 0 : i32
      %e = tensor.empty() : tensor<9x7xf32>
      %f = linalg.fill ins(%zero : f32) outs(%e : tensor<9x7xf32>) -> tensor<9x7xf32>
      %r = linalg.generic {
        indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j)>],
        iterator_types = ["parallel", "parallel", "reduction"]
      } ins(%x : tensor<9x7x1xi32>) outs(%f : tensor<9x7xf32>) {
      ^bb0(%place: i32, %sum: f32):
        %inside = arith.cmpi sge, %place, %none : i32
        %at = arith.maxsi %place, %none : i32
        %index = arith.index_cast %at : i32 to index
        %v = tensor.extract %t[%index] : tensor<16xf32>
        %s = arith.select %inside, %v, %sum : f32
        linalg.yield %s : f32
      } -> tensor<9x7xf32>
      return %r : tensor<9x7xf32>
    }"""
    )
    places, table = np.arange(63, dtype=np.int32).reshape(9, 7, 1) % 19 - 3, np.arange(1, 17, dtype=np.float32)
    want = np.where(places[..., 0] >= 0, table[np.maximum(places[..., 0], 0)], np.float32(0))
    np.testing.assert_array_equal(kernel([places, table], want), want)
