// RUN: %opt %s --passes=simplify-inference | filecheck %s

#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (0, j)>

// A dropout whose mask keeps everything, and a choice that is made.
// CHECK-LABEL: func.func @dropout(
// CHECK-NEXT:    return %arg0
func.func @dropout(%x: tensor<3x4xf32>, %y: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %one = arith.constant 1.0 : f32
  %true = arith.constant true
  %e = tensor.empty() : tensor<3x4xf32>
  %mask = linalg.fill ins(%one : f32) outs(%e : tensor<3x4xf32>) -> tensor<3x4xf32>
  %d = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
    ins(%x, %mask : tensor<3x4xf32>, tensor<3x4xf32>) outs(%e : tensor<3x4xf32>) {
  ^bb0(%a: f32, %m: f32, %o: f32):
    %p = arith.mulf %a, %m : f32
    %q = arith.divf %p, %one : f32
    linalg.yield %q : f32
  } -> tensor<3x4xf32>
  %t = arith.constant dense<true> : tensor<3x4xi1>
  %s = linalg.generic {indexing_maps = [#id, #id, #id, #id], iterator_types = ["parallel", "parallel"]}
    ins(%t, %d, %y : tensor<3x4xi1>, tensor<3x4xf32>, tensor<3x4xf32>) outs(%e : tensor<3x4xf32>) {
  ^bb0(%c: i1, %a: f32, %b: f32, %o: f32):
    %p = arith.select %c, %a, %b : f32
    linalg.yield %p : f32
  } -> tensor<3x4xf32>
  return %s : tensor<3x4xf32>
}

// Adding +0 makes +0 of -0, and a copy of a row to many is work.
// CHECK-LABEL: func.func @rejects(
// CHECK:         arith.addf
// CHECK:         linalg.generic
func.func @rejects(%x: tensor<3x4xf32>, %y: tensor<1x4xf32>) -> (tensor<3x4xf32>, tensor<3x4xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3x4xf32>
  %d = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
    ins(%x : tensor<3x4xf32>) outs(%e : tensor<3x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p = arith.addf %a, %zero : f32
    linalg.yield %p : f32
  } -> tensor<3x4xf32>
  %r = linalg.generic {indexing_maps = [#row, #id], iterator_types = ["parallel", "parallel"]}
    ins(%y : tensor<1x4xf32>) outs(%e : tensor<3x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<3x4xf32>
  return %d, %r : tensor<3x4xf32>, tensor<3x4xf32>
}
