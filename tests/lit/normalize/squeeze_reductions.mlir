// RUN: %opt %s --passes=squeeze-reductions | filecheck %s

#all = affine_map<(i, j) -> (i, j)>
#kept = affine_map<(i, j) -> (i, 0)>

// A sum that keeps the dim that it reduces is one that drops it, and a view.
// CHECK-LABEL: func.func @main
// CHECK:       %[[Z:.*]] = linalg.fill {{.*}} -> tensor<4xf32>
// CHECK:       %[[S:.*]] = linalg.generic {{.*}} outs(%[[Z]] : tensor<4xf32>)
// CHECK:       %[[W:.*]] = tensor.expand_shape %[[S]] {{\[}}[0, 1]] output_shape [4, 1]
// CHECK:       return %[[W]] : tensor<4x1xf32>
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x1xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x1xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<4x1xf32>) -> tensor<4x1xf32>
  %s = linalg.generic {indexing_maps = [#all, #kept], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x8xf32>) outs(%z : tensor<4x1xf32>) {
  ^bb0(%a: f32, %t: f32):
    %r = arith.addf %a, %t : f32
    linalg.yield %r : f32
  } -> tensor<4x1xf32>
  return %s : tensor<4x1xf32>
}

// CHECK-LABEL: func.func @open_rows
// CHECK:       linalg.generic {{.*}} outs(%{{.*}} : tensor<?xf32>)
// CHECK:       tensor.expand_shape %{{.*}} {{\[}}[0, 1]] output_shape [%{{.*}}, 1]
func.func @open_rows(%x: tensor<?x8xf32>) -> tensor<?x1xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %x, %c0 : tensor<?x8xf32>
  %e = tensor.empty(%n) : tensor<?x1xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<?x1xf32>) -> tensor<?x1xf32>
  %s = linalg.generic {indexing_maps = [#all, #kept], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<?x8xf32>) outs(%z : tensor<?x1xf32>) {
  ^bb0(%a: f32, %t: f32):
    %r = arith.addf %a, %t : f32
    linalg.yield %r : f32
  } -> tensor<?x1xf32>
  return %s : tensor<?x1xf32>
}

// What a sum is added to is no number.
// CHECK-LABEL: func.func @rejects_a_start_of_numbers
// CHECK-NOT:   tensor.expand_shape
// CHECK:       return %{{.*}} : tensor<4x1xf32>
func.func @rejects_a_start_of_numbers(%x: tensor<4x8xf32>, %start: tensor<4x1xf32>) -> tensor<4x1xf32> {
  %s = linalg.generic {indexing_maps = [#all, #kept], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x8xf32>) outs(%start : tensor<4x1xf32>) {
  ^bb0(%a: f32, %t: f32):
    %r = arith.addf %a, %t : f32
    linalg.yield %r : f32
  } -> tensor<4x1xf32>
  return %s : tensor<4x1xf32>
}
