"""Convolutions by single pixels of small images, whose lines are one axis where tiles of lines leave more rows over."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_runner import CompiledKernel, block_of, schedule_text

from tilewright.core.target import Target


def kernel_text(lines: int, columns: int, channels: int, filters: int) -> str:
    """A kernel that adds a bias and another image to a convolution with a packed weight."""
    block = block_of(filters)
    packed = f"tensor<{-(-filters // block)}x1x1x{channels}x{block}xf32>"
    weight, data = f"tensor<{filters}x{channels}x1x1xf32>", f"tensor<2x{lines}x{columns}x{channels}xf32>"
    made = f"tensor<2x{lines}x{columns}x{filters}xf32>"
    return f"""func.func @k(%w: {packed}, %x: {data}, %b: tensor<{filters}xf32>, %y: {made}) -> {made} {{
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty() : {made}
      %z = linalg.fill ins(%zero : f32) outs(%e : {made}) -> {made}
      %d = tensor.empty() : {weight}
      %u = linalg.unpack %w outer_dims_perm = [0, 2, 3, 1] inner_dims_pos = [0] inner_tiles = [{block}] into %d
        : {packed} -> {weight}
      %c = linalg.generic {{indexing_maps = [affine_map<(n, h, w, f, i, j, c) -> (n, h + i, w + j, c)>,
        affine_map<(n, h, w, f, i, j, c) -> (f, c, i, j)>, affine_map<(n, h, w, f, i, j, c) -> (n, h, w, f)>],
        iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}}
        ins(%x, %u : {data}, {weight}) outs(%z : {made}) {{
      ^bb0(%p: f32, %q: f32, %o: f32):
        %m = arith.mulf %p, %q fastmath<contract> : f32
        %a = arith.addf %o, %m fastmath<contract> : f32
        linalg.yield %a : f32
      }} -> {made}
      %r = linalg.generic {{indexing_maps = [affine_map<(n, h, w, f) -> (n, h, w, f)>,
        affine_map<(n, h, w, f) -> (f)>, affine_map<(n, h, w, f) -> (n, h, w, f)>,
        affine_map<(n, h, w, f) -> (n, h, w, f)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
        ins(%c, %b, %y : {made}, tensor<{filters}xf32>, {made}) outs(%e : {made}) {{
      ^bb0(%p: f32, %q: f32, %t: f32, %o: f32):
        %a = arith.addf %p, %q : f32
        %v = arith.addf %a, %t : f32
        linalg.yield %v : f32
      }} -> {made}
      return %r : {made} }}"""


@pytest.mark.parametrize(
    ("lines", "columns", "channels", "filters"),
    [(7, 7, 48, 64), (3, 3, 40, 80), (2, 2, 16, 128), (13, 13, 24, 64), (3, 7, 17, 100), (14, 14, 16, 32)],
)
def test_a_convolution_of_a_small_image_is_right(lines: int, columns: int, channels: int, filters: int) -> None:
    generator = np.random.default_rng(0)
    shapes = (filters, channels), (2, lines, columns, channels), (filters,), (2, lines, columns, filters)
    w, x, b, y = (generator.standard_normal(shape).astype(np.float32) for shape in shapes)
    block = block_of(filters)
    packed = np.zeros((-(-filters // block) * block, channels), np.float32)
    packed[:filters] = w
    packed = packed.reshape(-1, block, channels).transpose(0, 2, 1)[:, None, None]
    kernel = CompiledKernel(kernel_text(lines, columns, channels, filters))
    for chunks in (1, 3):
        got = kernel([np.ascontiguousarray(packed), x, b, y], y, chunks)
        np.testing.assert_allclose(got, x @ w.T + b + y, rtol=1e-4, atol=1e-4)


def test_tiles_go_over_the_lines_of_a_small_image(target: Target) -> None:
    """Where registers are many, tiles have rows enough for two lines."""
    assert ("in 9 x 5 + 4" in schedule_text(kernel_text(7, 7, 48, 64))) == (target.registers == 16)
    assert "in 10 x 5" not in schedule_text(kernel_text(14, 14, 16, 64)), "whose lines are whole tiles"
