// RUN: %opt %s --passes=arrange-sums | filecheck %s

// Both operands lie along the first axis of the result, which is made along it and turned; the longer steps go around.
// CHECK-DAG:   #[[STEPS:.*]] = affine_map<(d0, d1, d2, d3) -> (d2, d0, d3, d1)>
// CHECK-DAG:   #[[MADE:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1)>
// CHECK-DAG:   #[[TURNED:.*]] = affine_map<(d0, d1) -> (d1, d0)>
// CHECK-LABEL: func.func @turned(
// CHECK:         linalg.generic {indexing_maps = [#[[STEPS]], #{{.*}}, #[[MADE]]], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
// CHECK-SAME:    outs(%{{.*}} : tensor<13x24xf32>)
// CHECK:         linalg.generic {indexing_maps = [#[[TURNED]], {{.*}} outs(%{{.*}} : tensor<24x13xf32>)
func.func @turned(%x: tensor<29x13x7x24xf32>, %y: tensor<29x24xf32>) -> tensor<24x13xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<24x13xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<24x13xf32>) -> tensor<24x13xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j, p, k) -> (k, j, p, i)>, affine_map<(i, j, p, k) -> (k, i)>,
      affine_map<(i, j, p, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%x, %y : tensor<29x13x7x24xf32>, tensor<29x24xf32>) outs(%f : tensor<24x13xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  } -> tensor<24x13xf32>
  return %r : tensor<24x13xf32>
}
