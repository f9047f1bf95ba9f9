// RUN: %opt %s --passes=split-prepare | filecheck %s

// Two equal packs become one prepared weight; a param that is read as it is stays; a view of one stays a view.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    (%arg0: tensor<32xf32> {tw.name = "x"}, %arg1: tensor<32xf32> {tw.param = "b"},
// CHECK-SAME:     %arg2: tensor<2x8x16xf32> {tw.param = "w.prepared"})
// CHECK-NOT:   linalg.pack
// CHECK:       tensor.expand_shape %arg1
// CHECK:       return
// CHECK-LABEL: func.func private @prepare_0
// CHECK-SAME:    (%arg0: tensor<8x32xf32> {tw.param = "w"}) -> tensor<2x8x16xf32>
// CHECK-SAME:    tw.prepares = "w.prepared"
// CHECK:       linalg.pack %arg0
// CHECK-NOT:   @prepare_1
func.func @main(%x: tensor<32xf32> {tw.name = "x"}, %w: tensor<8x32xf32> {tw.param = "w"}, %b: tensor<32xf32> {tw.param = "b"})
    -> (tensor<2x8x16xf32>, tensor<2x8x16xf32>, tensor<4x8xf32>, tensor<32xf32>) {
  %e = tensor.empty() : tensor<2x8x16xf32>
  %p = linalg.pack %w outer_dims_perm = [1, 0] inner_dims_pos = [1] inner_tiles = [16] into %e
    : tensor<8x32xf32> -> tensor<2x8x16xf32>
  %f = tensor.empty() : tensor<2x8x16xf32>
  %q = linalg.pack %w outer_dims_perm = [1, 0] inner_dims_pos = [1] inner_tiles = [16] into %f
    : tensor<8x32xf32> -> tensor<2x8x16xf32>
  %v = tensor.expand_shape %b [[0, 1]] output_shape [4, 8] : tensor<32xf32> into tensor<4x8xf32>
  return %p, %q, %v, %x : tensor<2x8x16xf32>, tensor<2x8x16xf32>, tensor<4x8xf32>, tensor<32xf32>
}

