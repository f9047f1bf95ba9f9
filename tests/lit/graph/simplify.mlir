// RUN: tilewright opt %s --passes=simplify | filecheck %s

// Two transposes that cancel.
// CHECK-LABEL: func.func @there_and_back
// CHECK-NEXT:  return %arg0
func.func @there_and_back(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  %e = tensor.empty() : tensor<2x4x3xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, c, b)>, affine_map<(a, b, c) -> (a, b, c)>],
                       iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%x : tensor<2x3x4xf32>) outs(%e : tensor<2x4x3xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<2x4x3xf32>
  %f = tensor.empty() : tensor<2x3x4xf32>
  %u = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, c, b)>, affine_map<(a, b, c) -> (a, b, c)>],
                       iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%t : tensor<2x4x3xf32>) outs(%f : tensor<2x3x4xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<2x3x4xf32>
  return %u : tensor<2x3x4xf32>
}

// A transpose that moves a unit dim alone is a view.
// CHECK-LABEL: func.func @moves_no_data
// CHECK-NOT:   linalg.generic
// CHECK:       tensor.collapse_shape
// CHECK:       tensor.expand_shape
func.func @moves_no_data(%x: tensor<2x3x1x4xf32>) -> tensor<2x1x3x4xf32> {
  %e = tensor.empty() : tensor<2x1x3x4xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(a, b, c, d) -> (a, c, b, d)>, affine_map<(a, b, c, d) -> (a, b, c, d)>],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%x : tensor<2x3x1x4xf32>) outs(%e : tensor<2x1x3x4xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<2x1x3x4xf32>
  return %t : tensor<2x1x3x4xf32>
}

// A transpose of data stays, and so does one that also computes.
// CHECK-LABEL: func.func @rejects_work
// CHECK-COUNT-2: linalg.generic
func.func @rejects_work(%x: tensor<3x4xf32>) -> tensor<4x3xf32> {
  %e = tensor.empty() : tensor<4x3xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(a, b) -> (b, a)>, affine_map<(a, b) -> (a, b)>],
                       iterator_types = ["parallel", "parallel"]}
    ins(%x : tensor<3x4xf32>) outs(%e : tensor<4x3xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<4x3xf32>
  %u = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>],
                       iterator_types = ["parallel", "parallel"]}
    ins(%t : tensor<4x3xf32>) outs(%e : tensor<4x3xf32>) {
  ^bb0(%i: f32, %o: f32):
    %n = arith.negf %i : f32
    linalg.yield %n : f32
  } -> tensor<4x3xf32>
  return %u : tensor<4x3xf32>
}
