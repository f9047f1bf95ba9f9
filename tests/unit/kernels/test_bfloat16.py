"""Kernels that move single bfloat16 values, which LLVM does badly on CPUs without the type."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from cpu_targets import FOR_THIS_MACHINE
from kernel_runner import CompiledKernel

from tilewright.core.target import detect_host

RNG = np.random.default_rng(0)


def test_a_broadcast_scalar() -> None:
    text = """func.func @k(%x: tensor<24xbf16>, %s: tensor<bf16>) -> tensor<24xf32> {
      %e = tensor.empty() : tensor<24xf32>
      %r = linalg.generic {
        indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>, affine_map<(i) -> (i)>],
        iterator_types = ["parallel"]
      } ins(%x, %s : tensor<24xbf16>, tensor<bf16>) outs(%e : tensor<24xf32>) {
      ^bb0(%a: bf16, %b: bf16, %o: f32):
        %u = arith.extf %a : bf16 to f32
        %v = arith.extf %b : bf16 to f32
        %m = arith.mulf %u, %v : f32
        linalg.yield %m : f32
      } -> tensor<24xf32>
      return %r : tensor<24xf32> }"""
    x, s = RNG.standard_normal(24).astype(ml_dtypes.bfloat16), np.asarray(0.375, ml_dtypes.bfloat16)
    want = x.astype(np.float32) * np.float32(0.375)
    np.testing.assert_array_equal(CompiledKernel(text)([x, s], want), want)


def test_a_pool_of_channels_that_fill_no_vector() -> None:
    text = """func.func @k(%x: tensor<10x5xbf16>) -> tensor<8x5xf32> {
      %low = arith.constant 0xFF800000 : f32
      %w = tensor.empty() : tensor<3xf32>
      %e = tensor.empty() : tensor<8x5xf32>
      %f = linalg.fill ins(%low : f32) outs(%e : tensor<8x5xf32>) -> tensor<8x5xf32>
      %r = linalg.generic {
        indexing_maps = [affine_map<(i, c, k) -> (i + k, c)>, affine_map<(i, c, k) -> (k)>, affine_map<(i, c, k) -> (i, c)>],
        iterator_types = ["parallel", "parallel", "reduction"]
      } ins(%x, %w : tensor<10x5xbf16>, tensor<3xf32>) outs(%f : tensor<8x5xf32>) {
      ^bb0(%a: bf16, %b: f32, %o: f32):
        %u = arith.extf %a : bf16 to f32
        %m = arith.maximumf %o, %u : f32
        linalg.yield %m : f32
      } -> tensor<8x5xf32>
      return %r : tensor<8x5xf32> }"""
    x = RNG.standard_normal((10, 5)).astype(ml_dtypes.bfloat16)
    want = np.lib.stride_tricks.sliding_window_view(x.astype(np.float32), 3, axis=0).max(-1)
    np.testing.assert_array_equal(CompiledKernel(text)([x], want), want)


def test_a_padding_with_a_constant() -> None:
    text = """func.func @k(%x: tensor<3x5xbf16>) -> tensor<4x7xbf16> {
      %c = arith.constant 0.5 : bf16
      %p = tensor.pad %x low[1, 0] high[0, 2] {
      ^bb0(%i: index, %j: index):
        tensor.yield %c : bf16
      } : tensor<3x5xbf16> to tensor<4x7xbf16>
      return %p : tensor<4x7xbf16> }"""
    x = RNG.standard_normal((3, 5)).astype(ml_dtypes.bfloat16)
    want = np.pad(x, [(1, 0), (0, 2)], constant_values=0.5)
    np.testing.assert_array_equal(CompiledKernel(text)([x], want), want)


@pytest.mark.parametrize("convert, dtype", [("sitofp", np.int32), ("uitofp", np.uint64)])
@pytest.mark.parametrize("extent", [3, 40])
def test_integers_become_bfloat16(convert, dtype, extent) -> None:
    kind = f"i{8 * np.dtype(dtype).itemsize}"
    text = f"""func.func @k(%x: tensor<{extent}x{kind}>) -> tensor<{extent}xbf16> {{
      %e = tensor.empty() : tensor<{extent}xbf16>
      %r = linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}}
        ins(%x : tensor<{extent}x{kind}>) outs(%e : tensor<{extent}xbf16>) {{
      ^bb0(%a: {kind}, %o: bf16):
        %f = arith.{convert} %a : {kind} to f32
        %n = arith.truncf %f : f32 to bf16
        linalg.yield %n : bf16
      }} -> tensor<{extent}xbf16>
      return %r : tensor<{extent}xbf16> }}"""
    x = (RNG.integers(0, 1 << 20, extent) * (1 if dtype == np.uint64 else -1)).astype(dtype)
    want = x.astype(np.float32).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(CompiledKernel(text)([x], want), want)


# One row, few, and such that matrices in registers hold; sums of an odd length, and of no whole row of a matrix;
# columns that end within a vector.
@FOR_THIS_MACHINE
@pytest.mark.skipif(detect_host().find_dot_product(16) is None, reason="this CPU does not multiply bfloat16")
@pytest.mark.parametrize("m, n, k", [(1, 40, 64), (3, 33, 7), (20, 48, 96), (33, 64, 64), (12, 16, 40)])
def test_a_product_with_pairs_of_a_packed_weight(m: int, n: int, k: int) -> None:
    block = 16 if n <= 16 else 32
    packed = [-(-n // block), -(-k // 2), block, 2]
    blocks = "x".join(map(str, packed))
    text = f"""func.func @k(%x: tensor<{m}x{k}xbf16>, %p: tensor<{blocks}xbf16>) -> tensor<{m}x{n}xf32> {{
      %z = arith.constant 0.0 : f32
      %u = tensor.empty() : tensor<{k}x{n}xbf16>
      %w = linalg.unpack %p outer_dims_perm = [1, 0] inner_dims_pos = [1, 0] inner_tiles = [{block}, 2]
        into %u : tensor<{blocks}xbf16> -> tensor<{k}x{n}xbf16>
      %e = tensor.empty() : tensor<{m}x{n}xf32>
      %f = linalg.fill ins(%z : f32) outs(%e : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
      %c = linalg.generic {{
        indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>],
        iterator_types = ["parallel", "parallel", "reduction"]
      }} ins(%x, %w : tensor<{m}x{k}xbf16>, tensor<{k}x{n}xbf16>) outs(%f : tensor<{m}x{n}xf32>) {{
      ^bb0(%a: bf16, %b: bf16, %o: f32):
        %s = arith.extf %a : bf16 to f32
        %t = arith.extf %b : bf16 to f32
        %q = arith.mulf %s, %t fastmath<contract> : f32
        %r = arith.addf %o, %q fastmath<contract> : f32
        linalg.yield %r : f32
      }} -> tensor<{m}x{n}xf32>
      %y = linalg.generic {{
        indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]
      }} ins(%c : tensor<{m}x{n}xf32>) outs(%e : tensor<{m}x{n}xf32>) {{
      ^bb0(%a: f32, %o: f32):
        %r = arith.maximumf %a, %z : f32
        linalg.yield %r : f32
      }} -> tensor<{m}x{n}xf32>
      return %y : tensor<{m}x{n}xf32> }}"""
    x, w = (RNG.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((m, k), (k, n)))
    padded = np.zeros((packed[1] * 2, packed[0] * block), ml_dtypes.bfloat16)
    padded[:k, :n] = w
    pairs = padded.reshape(packed[1], 2, packed[0], block).transpose(2, 0, 3, 1)
    want = np.maximum(x.astype(np.float32) @ w.astype(np.float32), 0)
    made = CompiledKernel(text)
    np.testing.assert_allclose(made([x, np.ascontiguousarray(pairs)], want, 2), want, rtol=1e-5, atol=1e-5)
    assert "dot_product" in made.kernel.schedule
