"""Kernels of loops around ops that families schedule one by one: products, gates and sums inside of ``scf.for``."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_runner import CompiledKernel, kernels_for
from samples import campaign

RNG = np.random.default_rng(0)

# Of %x (steps, batch, inputs): h = tanh-like(x[t] + h @ w), and a running sum of h * h, whose last value is the result.
TEXT = """
#id = affine_map<(i, j) -> (i, j)>
#lhs = affine_map<(i, j, k) -> (i, k)>
#rhs = affine_map<(i, j, k) -> (k, j)>
#out = affine_map<(i, j, k) -> (i, j)>
func.func @k(%x: tensor<{steps}x{batch}x{hidden}xf32>, %w: tensor<{hidden}x{hidden}xf32>) -> tensor<{batch}x{hidden}xf32> {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %steps = arith.constant {steps} : index
  %zero = arith.constant 0.0 : f32
  %half = arith.constant 0.5 : f32
  %e = tensor.empty() : tensor<{batch}x{hidden}xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<{batch}x{hidden}xf32>) -> tensor<{batch}x{hidden}xf32>
  %r:2 = scf.for %t = %c0 to %steps step %c1 iter_args(%h = %f, %s = %f)
      -> (tensor<{batch}x{hidden}xf32>, tensor<{batch}x{hidden}xf32>) {{
    %row = tensor.extract_slice %x[%t, 0, 0] [1, {batch}, {hidden}] [1, 1, 1]
      : tensor<{steps}x{batch}x{hidden}xf32> to tensor<{batch}x{hidden}xf32>
    %p = linalg.generic {{indexing_maps = [#lhs, #rhs, #out], iterator_types = ["parallel", "parallel", "reduction"]}}
      ins(%h, %w : tensor<{batch}x{hidden}xf32>, tensor<{hidden}x{hidden}xf32>) outs(%f : tensor<{batch}x{hidden}xf32>) {{
    ^bb0(%a: f32, %b: f32, %o: f32):
      %m = arith.mulf %a, %b fastmath<contract> : f32
      %n = arith.addf %o, %m fastmath<contract> : f32
      linalg.yield %n : f32
    }} -> tensor<{batch}x{hidden}xf32>
    %q:2 = linalg.generic {{indexing_maps = [#id, #id, #id, #id, #id], iterator_types = ["parallel", "parallel"]}}
      ins(%p, %row, %s : tensor<{batch}x{hidden}xf32>, tensor<{batch}x{hidden}xf32>, tensor<{batch}x{hidden}xf32>)
      outs(%h, %s : tensor<{batch}x{hidden}xf32>, tensor<{batch}x{hidden}xf32>) {{
    ^bb0(%a: f32, %b: f32, %c: f32, %o: f32, %u: f32):
      %sum = arith.addf %a, %b : f32
      %new = arith.mulf %sum, %half : f32
      %square = arith.mulf %new, %new : f32
      %total = arith.addf %square, %c : f32
      linalg.yield %new, %total : f32, f32
    }} -> (tensor<{batch}x{hidden}xf32>, tensor<{batch}x{hidden}xf32>)
    scf.yield %q#0, %q#1 : tensor<{batch}x{hidden}xf32>, tensor<{batch}x{hidden}xf32>
  }}
  return %r#1 : tensor<{batch}x{hidden}xf32>
}}"""


@pytest.mark.parametrize(("steps", "batch", "hidden"), [(5, 1, 64), (3, 1, 37), (4, 5, 48), (2, 16, 130), (1, 4, 16)])
def test_a_recurrence(steps: int, batch: int, hidden: int) -> None:
    """A product, and an op of two results that are written over what it reads."""
    kernel = CompiledKernel(TEXT.format(steps=steps, batch=batch, hidden=hidden))
    assert kernel.kernel.schedule.startswith("loops around nests:")
    assert kernel.kernel.schedule.count("tile") >= 3  # the product, and one for each result
    _check_recurrence(kernel, (steps, batch, hidden))


@campaign(every=3)
@pytest.mark.parametrize(("batch", "hidden"), [(1, 512), (3, 448), (1, 720), (16, 727)])
@pytest.mark.parametrize("chunks", [1, 2, 3, 16])
def test_threads_share_the_blocks_of_a_product(batch: int, hidden: int, chunks: int) -> None:
    """They wait for each other in each step; what a thread changes is its own, also the result: it is a running sum."""
    kernel = CompiledKernel(TEXT.format(steps=7, batch=batch, hidden=hidden))
    assert kernel.kernel.parallel and kernel.kernel.exchanges and kernel.kernel.extent == 16
    assert kernel.kernel.pieces == -1
    assert kernel.kernel.schedule.splitlines().count("each thread a part of the blocks") == 1
    _check_recurrence(kernel, (7, batch, hidden), chunks)


def test_one_thread_has_a_product_of_few_elements() -> None:
    kernel = CompiledKernel(TEXT.format(steps=100, batch=1, hidden=256))
    assert not kernel.kernel.exchanges and not kernel.kernel.parallel
    _check_recurrence(kernel, (100, 1, 256))


def _check_recurrence(kernel: CompiledKernel, shape: tuple[int, int, int], chunks: int = 1) -> None:
    """Compare with numpy, for %x of this shape."""
    x = RNG.standard_normal(shape, np.float32)
    w = RNG.standard_normal((shape[-1], shape[-1]), np.float32) / shape[-1] ** 0.5
    state, total = np.zeros(shape[1:]), np.zeros(shape[1:])
    for row in x.astype(np.float64):
        state = (state @ w + row) / 2
        total += state**2
    np.testing.assert_allclose(kernel([x, w], total.astype(np.float32), chunks), total, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("hidden", [256, 272])
def test_a_recurrence_goes_over_its_weight_back_and_forth(hidden: int) -> None:
    """Where the second cache does not hold it (here 256 kB): every second step begins with what is there."""
    with kernels_for("x86 -mcpu=haswell") as target:
        assert target.l2_bytes == 256 << 10
        kernel = CompiledKernel(TEXT.format(steps=5, batch=1, hidden=hidden))
        small = CompiledKernel(TEXT.format(steps=5, batch=1, hidden=128))
    again = "every second step from the last block to the first"
    assert kernel.kernel.schedule.splitlines().count(again) == 1  # of three nests
    assert again not in small.kernel.schedule
    _check_recurrence(kernel, (5, 1, hidden))


def test_ops_of_a_few_elements_stay_whole() -> None:
    kernel = CompiledKernel(TEXT.format(steps=3, batch=1, hidden=3))
    assert kernel.kernel.schedule == ""
    x, w = RNG.standard_normal((3, 1, 3), np.float32), np.zeros((3, 3), np.float32)
    want = (x.astype(np.float64) / 2) ** 2
    np.testing.assert_allclose(kernel([x, w], np.empty((1, 3), np.float32)), want.sum(axis=0), rtol=1e-5)


# Of %x (steps, 5, width): a sum of its steps, each written over a part of the result that begins one place further on.
IN_PLACE = """
#id = affine_map<(i, j) -> (i, j)>
func.func @k(%x: tensor<{steps}x5x{width}xf32>, %y: tensor<5x{whole}xf32>) -> tensor<5x{whole}xf32> {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %steps = arith.constant {steps} : index
  %r = scf.for %t = %c0 to %steps step %c1 iter_args(%s = %y) -> (tensor<5x{whole}xf32>) {{
    %a = tensor.extract_slice %x[%t, 0, 0] [1, 5, {width}] [1, 1, 1] : tensor<{steps}x5x{width}xf32> to tensor<5x{width}xf32>
    %b = tensor.extract_slice %s[0, %t] [5, {width}] [1, {step}] : tensor<5x{whole}xf32> to tensor<5x{width}xf32>
    %c = linalg.generic {{indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}}
      ins(%a : tensor<5x{width}xf32>) outs(%b : tensor<5x{width}xf32>) {{
    ^bb0(%v: f32, %o: f32):
      %n = arith.addf %v, %o : f32
      linalg.yield %n : f32
    }} -> tensor<5x{width}xf32>
    %d = tensor.insert_slice %c into %s[0, %t] [5, {width}] [1, {step}] : tensor<5x{width}xf32> into tensor<5x{whole}xf32>
    scf.yield %d : tensor<5x{whole}xf32>
  }}
  return %r : tensor<5x{whole}xf32>
}}"""


@pytest.mark.parametrize(("width", "step"), [(64, 1), (28, 1), (37, 2), (9, 3)])
def test_an_op_that_changes_what_is_there(width: int, step: int) -> None:
    """Its tiles never overlap, an argument is copied into the result once, and nothing is kept in scratch memory."""
    steps = 4
    whole = (width - 1) * step + steps
    kernel = CompiledKernel(IN_PLACE.format(steps=steps, width=width, step=step, whole=whole))
    assert "tile" in kernel.kernel.schedule
    assert kernel.kernel.scratch_bytes == 0
    x, y = (RNG.standard_normal(shape).astype(np.float32) for shape in ((steps, 5, width), (5, whole)))
    want = y.copy()
    for t in range(steps):
        want[:, t : t + (width - 1) * step + 1 : step] += x[t]
    np.testing.assert_allclose(kernel([x, y], want), want, rtol=1e-6)


SCATTER = """func.func @k(%i: tensor<9xi64>, %u: tensor<9xf32>) -> tensor<40xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 9 : index
  %c39 = arith.constant 39 : index
  %before = arith.constant dense<NUMBERS> : tensor<40xf32>
  %y = scf.for %n = %c0 to %c9 step %c1 iter_args(%r = %before) -> (tensor<40xf32>) {
    %at = tensor.extract %i[%n] : tensor<9xi64>
    %place = arith.index_cast %at : i64 to index
    %low = arith.maxsi %place, %c0 : index
    %inside = arith.minsi %low, %c39 : index
    %v = tensor.extract %u[%n] : tensor<9xf32>
    %next = tensor.insert %v into %r[%inside] : tensor<40xf32>
    scf.yield %next : tensor<40xf32>
  }
  return %y : tensor<40xf32>
}"""


@pytest.mark.parametrize("numbers", [np.full(40, 2.5), np.arange(40.0)], ids=["one number", "several"])
def test_a_loop_writes_over_constants_where_the_result_lies(numbers: np.ndarray) -> None:
    text = "2.5" if numbers[0] == numbers[1] else str(numbers.tolist())
    kernel = CompiledKernel(SCATTER.replace("NUMBERS", text))
    places, want = np.random.default_rng(0).integers(0, 40, 9), numbers.astype(np.float32)
    values = np.arange(9, dtype=np.float32)
    for place, value in zip(places, values, strict=True):
        want[place] = value
    np.testing.assert_array_equal(kernel([places, values], want), want)
    assert kernel.kernel.scratch_bytes == 0
