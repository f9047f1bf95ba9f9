// RUN: %opt %s --passes=generalize | filecheck %s

// A named op becomes a generic, its initial fill stays a fill.
// CHECK-LABEL: func.func @main
// CHECK:       linalg.fill
// CHECK-NOT:   linalg.matmul
// CHECK:       linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "reduction"]
// CHECK:       arith.mulf
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>) -> tensor<4x16xf32> {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x16xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<4x16xf32>) -> tensor<4x16xf32>
  %m = linalg.matmul ins(%x, %w : tensor<4x8xf32>, tensor<8x16xf32>) outs(%z : tensor<4x16xf32>) -> tensor<4x16xf32>
  return %m : tensor<4x16xf32>
}

// A generic that fills is a fill.
// CHECK-LABEL: func.func @fills
// CHECK-NOT:   linalg.generic
// CHECK:       linalg.fill
func.func @fills() -> tensor<4xf32> {
  %c = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]} outs(%e : tensor<4xf32>) {
  ^bb0(%o: f32):
    linalg.yield %c : f32
  } -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// A pack is no structured op of the kind that has a body.
// CHECK-LABEL: func.func @rejects_pack
// CHECK:       linalg.pack
func.func @rejects_pack(%w: tensor<8x32xf32>) -> tensor<2x8x16xf32> {
  %e = tensor.empty() : tensor<2x8x16xf32>
  %p = linalg.pack %w outer_dims_perm = [1, 0] inner_dims_pos = [1] inner_tiles = [16] into %e
    : tensor<8x32xf32> -> tensor<2x8x16xf32>
  return %p : tensor<2x8x16xf32>
}
