"""The work of a kernel, counted from its ops."""

import pytest

from tilewright.dialects import ir
from tilewright.dialects.context import make_context
from tilewright.passes.analysis.cost import Cost, estimate_cost
from tilewright.passes.ir.kernel import list_functions

MATMUL_BIAS = """func.func @k(%a: tensor<4x8xf32>, %b: tensor<8x16xf32>, %c: tensor<16xf32>) -> tensor<4x16xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x16xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<4x16xf32>) -> tensor<4x16xf32>
  %m = linalg.matmul ins(%a, %b : tensor<4x8xf32>, tensor<8x16xf32>) outs(%f : tensor<4x16xf32>) -> tensor<4x16xf32>
  %r = linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%m, %c : tensor<4x16xf32>, tensor<16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %s = arith.addf %x, %y : f32
    linalg.yield %s : f32
  } -> tensor<4x16xf32>
  return %r : tensor<4x16xf32> }"""

CAST = """func.func @k(%a: tensor<6x5xi8>) -> tensor<6x5xf32> {
  %e = tensor.empty() : tensor<6x5xf32>
  %r = linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]
  } ins(%a : tensor<6x5xi8>) outs(%e : tensor<6x5xf32>) {
  ^bb0(%x: i8, %o: f32):
    %s = arith.sitofp %x : i8 to f32
    linalg.yield %s : f32
  } -> tensor<6x5xf32>
  return %r : tensor<6x5xf32> }"""


# A 4x4 patch by two 2x4 matrices, for each of 8 lanes: 2x4 rows of sums, then 2x2.
TRANSFORM = """func.func @k(%x: tensor<4x4x8xf32>) -> tensor<2x2x8xf32> {
  %a = arith.constant dense<[[1.0, 1.0, 1.0, 0.0], [0.0, 1.0, -1.0, -1.0]]> : tensor<2x4xf32>
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x2x8xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<2x2x8xf32>) -> tensor<2x2x8xf32>
  %r = linalg.generic {
    indexing_maps = [affine_map<(p, q, c, i, j) -> (i, j, c)>, affine_map<(p, q, c, i, j) -> (p, i)>,
                     affine_map<(p, q, c, i, j) -> (q, j)>, affine_map<(p, q, c, i, j) -> (p, q, c)>],
    iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]
  } ins(%x, %a, %a : tensor<4x4x8xf32>, tensor<2x4xf32>, tensor<2x4xf32>) outs(%f : tensor<2x2x8xf32>) {
  ^bb0(%d: f32, %u: f32, %v: f32, %o: f32):
    %w = arith.mulf %u, %v : f32
    %p = arith.mulf %w, %d : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  } -> tensor<2x2x8xf32>
  return %r : tensor<2x2x8xf32> }"""


@pytest.mark.parametrize(
    "text, want",
    [
        (TRANSFORM, Cost(2 * 8 * (2 * 4 * 4 + 2 * 2 * 4), 4 * (128 + 32))),
        (MATMUL_BIAS, Cost(2 * 4 * 8 * 16 + 4 * 16, 4 * (32 + 128 + 16 + 64))),
        (CAST, Cost(0, 30 + 4 * 30)),
    ],
)
def test_cost(text: str, want: Cost) -> None:
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        assert estimate_cost(list_functions(module)[0]) == want
