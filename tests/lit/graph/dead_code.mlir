// RUN: %opt %s --passes=dead-code | filecheck %s

#id = affine_map<(i) -> (i)>

// What feeds an input that the body does not use goes with it.
// CHECK-LABEL: func.func @unused(%arg0: tensor<4xf32>, %arg1: tensor<4xf32>)
// CHECK-NEXT:    tensor.empty
// CHECK-NEXT:    linalg.generic {{.*}} ins(%arg0 : tensor<4xf32>)
// CHECK-NOT:     math.exp
// CHECK:         return
func.func @unused(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
    ins(%y : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32):
    %m = math.exp %i : f32
    linalg.yield %m : f32
  } -> tensor<4xf32>
  %b = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]}
    ins(%x, %a : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = math.log %i : f32
    linalg.yield %m : f32
  } -> tensor<4xf32>
  return %b : tensor<4xf32>
}

// An input that alone says how far a loop goes is needed.
// CHECK-LABEL: func.func @rejects(
// CHECK:         linalg.generic {{.*}} ins(%arg0, %arg1
func.func @rejects(%x: tensor<4xf32>, %y: tensor<3xf32>, %i: tensor<4xf32>) -> tensor<4xf32> {
  %b = linalg.generic {indexing_maps = [affine_map<(i, k) -> (i)>, affine_map<(i, k) -> (k)>, affine_map<(i, k) -> (i)>],
                       iterator_types = ["parallel", "reduction"]}
    ins(%x, %y : tensor<4xf32>, tensor<3xf32>) outs(%i : tensor<4xf32>) {
  ^bb0(%a: f32, %j: f32, %o: f32):
    %m = arith.addf %a, %o : f32
    linalg.yield %m : f32
  } -> tensor<4xf32>
  return %b : tensor<4xf32>
}
