// RUN: %opt %s --passes=split-prepare | filecheck %s

#four = affine_map<(f, c) -> (f, c)>
#rows = affine_map<(f, c) -> (f, 0)>
#one = affine_map<(f) -> (f)>

// The scales of a batch norm that was never trained are one number: a fill of a view, and a generic that yields it.
// CHECK-LABEL: func.func @main(
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<8x4xf32>, %[[W:[a-z0-9]+]]: tensor<8x4xf32> {tw.param = "w.prepared"})
// CHECK-NOT:     arith.mulf
// CHECK:         linalg.generic {{.*}} ins(%[[X]], %[[W]]
// CHECK-LABEL: func.func private @prepare_0
// CHECK-COUNT-2: arith.mulf
func.func @main(%x: tensor<8x4xf32>, %w: tensor<8x4xf32> {tw.param = "w"}) -> tensor<8x4xf32> {
  %half = arith.constant 0.5 : f32
  %e = tensor.empty() : tensor<8x4xf32>
  %row = tensor.empty() : tensor<8xf32>
  %column = tensor.expand_shape %row [[0, 1]] output_shape [8, 1] : tensor<8xf32> into tensor<8x1xf32>
  %filled = linalg.fill ins(%half : f32) outs(%column : tensor<8x1xf32>) -> tensor<8x1xf32>
  %yielded = linalg.generic {indexing_maps = [#one], iterator_types = ["parallel"]} outs(%row : tensor<8xf32>) {
  ^bb0(%o: f32):
    linalg.yield %half : f32
  } -> tensor<8xf32>
  %again = tensor.expand_shape %yielded [[0, 1]] output_shape [8, 1] : tensor<8xf32> into tensor<8x1xf32>
  %scaled = linalg.generic {indexing_maps = [#four, #rows, #rows, #four], iterator_types = ["parallel", "parallel"]} ins(%w, %filled, %again : tensor<8x4xf32>, tensor<8x1xf32>, tensor<8x1xf32>) outs(%e : tensor<8x4xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    %n = arith.mulf %m, %c : f32
    linalg.yield %n : f32
  } -> tensor<8x4xf32>
  %y = linalg.generic {indexing_maps = [#four, #four, #four], iterator_types = ["parallel", "parallel"]} ins(%x, %scaled : tensor<8x4xf32>, tensor<8x4xf32>) outs(%e : tensor<8x4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}
