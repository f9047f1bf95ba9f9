// RUN: %opt %s --passes=fold-transposes,dead-code | filecheck %s

// The left operand is read where it lies, the result is written where its only reader wants it.
// CHECK-DAG:     #[[X:.*]] = affine_map<(d0, d1, d2, d3) -> (d1, d0, d3)>
// CHECK-DAG:     #[[R:.*]] = affine_map<(d0, d1, d2, d3) -> (d1, d0, d2)>
// CHECK-LABEL: func.func @around(
// CHECK-SAME:    %[[ARG:.*]]: tensor<8x2x4xf32>
// CHECK:         linalg.generic {indexing_maps = [#[[X]], #{{.*}}, #[[R]]]
// CHECK-SAME:    ins(%[[ARG]], %{{.*}} : tensor<8x2x4xf32>, tensor<2x4x16xf32>) outs(%{{.*}} : tensor<8x2x16xf32>)
// CHECK-NOT:     linalg.generic
// CHECK:         return %{{.*}} : tensor<8x2x16xf32>
func.func @around(%x: tensor<8x2x4xf32>, %y: tensor<2x4x16xf32>) -> tensor<8x2x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x4xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (b, a, c)>, affine_map<(a, b, c) -> (a, b, c)>],
      iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<8x2x4xf32>) outs(%e : tensor<2x8x4xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<2x8x4xf32>
  %f = tensor.empty() : tensor<2x8x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%f : tensor<2x8x16xf32>) -> tensor<2x8x16xf32>
  %c = linalg.generic {indexing_maps = [affine_map<(h, q, n, d) -> (h, q, d)>, affine_map<(h, q, n, d) -> (h, d, n)>,
      affine_map<(h, q, n, d) -> (h, q, n)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%t, %y : tensor<2x8x4xf32>, tensor<2x4x16xf32>) outs(%z : tensor<2x8x16xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  } -> tensor<2x8x16xf32>
  %g = tensor.empty() : tensor<8x2x16xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (b, a, c)>, affine_map<(a, b, c) -> (a, b, c)>],
      iterator_types = ["parallel", "parallel", "parallel"]} ins(%c : tensor<2x8x16xf32>) outs(%g : tensor<8x2x16xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<8x2x16xf32>
  return %r : tensor<8x2x16xf32>
}

// A transpose that moves the innermost dim stays: its rows could not be read whole.
// CHECK-LABEL: func.func @rejects(
// CHECK-COUNT-2: linalg.generic
func.func @rejects(%x: tensor<4x8xf32>, %y: tensor<4x16xf32>) -> tensor<8x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x4xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(a, b) -> (b, a)>, affine_map<(a, b) -> (a, b)>],
      iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x8xf32>) outs(%e : tensor<8x4xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<8x4xf32>
  %f = tensor.empty() : tensor<8x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%f : tensor<8x16xf32>) -> tensor<8x16xf32>
  %c = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
      affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%t, %y : tensor<8x4xf32>, tensor<4x16xf32>) outs(%z : tensor<8x16xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  } -> tensor<8x16xf32>
  return %c : tensor<8x16xf32>
}
