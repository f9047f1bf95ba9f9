// RUN: %opt %s --passes=split-prepare | filecheck %s

#twice = affine_map<(t, i, j) -> (i, j)>
#out = affine_map<(t, i, j) -> (t, i, j)>

// Values that are four times as large as the weight are prepared, and so are blocks of them, whose last one is filled
// up: 208 columns in blocks of 32. Blocks that are mostly filled up (17 columns) are not: the values of which they are
// made are prepared alone.
// CHECK-LABEL: func.func @main(
// CHECK-SAME:    tensor<4x7x1024x32xf32> {tw.param = "w.prepared"}
// CHECK-SAME:    tensor<4x16384x17xf32> {tw.param = "v.prepared"}
// CHECK-NOT:     linalg.generic
// CHECK:         linalg.pack %{{.*}} : tensor<4x16384x17xf32> -> tensor<4x1x16384x128xf32>
// CHECK-NOT:     linalg.pack
// CHECK:         return
// CHECK-LABEL: func.func private @prepare_0(
func.func @main(%w: tensor<1024x208xf32> {tw.param = "w"}, %v: tensor<16384x17xf32> {tw.param = "v"})
    -> (tensor<4x7x1024x32xf32>, tensor<4x1x16384x128xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x1024x208xf32>
  %t = linalg.generic {indexing_maps = [#twice, #out], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%w : tensor<1024x208xf32>) outs(%e : tensor<4x1024x208xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %a : f32
    linalg.yield %s : f32
  } -> tensor<4x1024x208xf32>
  %b = tensor.empty() : tensor<4x7x1024x32xf32>
  %p = linalg.pack %t padding_value(%zero : f32) outer_dims_perm = [0, 2, 1] inner_dims_pos = [2] inner_tiles = [32]
    into %b : tensor<4x1024x208xf32> -> tensor<4x7x1024x32xf32>
  %f = tensor.empty() : tensor<4x16384x17xf32>
  %u = linalg.generic {indexing_maps = [#twice, #out], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%v : tensor<16384x17xf32>) outs(%f : tensor<4x16384x17xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %a : f32
    linalg.yield %s : f32
  } -> tensor<4x16384x17xf32>
  %c = tensor.empty() : tensor<4x1x16384x128xf32>
  %q = linalg.pack %u padding_value(%zero : f32) outer_dims_perm = [0, 2, 1] inner_dims_pos = [2] inner_tiles = [128]
    into %c : tensor<4x16384x17xf32> -> tensor<4x1x16384x128xf32>
  return %p, %q : tensor<4x7x1024x32xf32>, tensor<4x1x16384x128xf32>
}
