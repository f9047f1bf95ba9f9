// RUN: %opt %s --passes=split-prepare | filecheck %s

// Floats of a quantised weight are prepared, though they and their padding are more than four times its bytes.
// CHECK-LABEL: func.func @main(
// CHECK-SAME:    tensor<32x512x32xf32> {tw.param = "w.prepared"}
// CHECK-NOT:     arith.sitofp
// CHECK-LABEL: func.func private @prepare_0(
// CHECK:         arith.sitofp
// CHECK:         linalg.pack
func.func @main(%x: tensor<512x1000xf32> {tw.name = "x"}, %w: tensor<512x1000xi8> {tw.param = "w"}) -> tensor<512x1000xf32> {
  %e = tensor.empty() : tensor<512x1000xf32>
  %f = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
    ins(%w : tensor<512x1000xi8>) outs(%e : tensor<512x1000xf32>) {
  ^bb0(%a: i8, %o: f32):
    %v = arith.sitofp %a : i8 to f32
    linalg.yield %v : f32
  } -> tensor<512x1000xf32>
  %c = arith.constant 0.0 : f32
  %pe = tensor.empty() : tensor<32x512x32xf32>
  %p = linalg.pack %f padding_value(%c : f32) outer_dims_perm = [1, 0] inner_dims_pos = [1] inner_tiles = [32] into %pe
    : tensor<512x1000xf32> -> tensor<32x512x32xf32>
  %u = linalg.unpack %p outer_dims_perm = [1, 0] inner_dims_pos = [1] inner_tiles = [32] into %e
    : tensor<32x512x32xf32> -> tensor<512x1000xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
    ins(%x, %u : tensor<512x1000xf32>, tensor<512x1000xf32>) outs(%e : tensor<512x1000xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %v = arith.addf %a, %b : f32
    linalg.yield %v : f32
  } -> tensor<512x1000xf32>
  return %y : tensor<512x1000xf32>
}
