// RUN: %opt %s --passes=outline | filecheck %s

// The ops of a function that a user has scheduled become kernels of their own, with their scripts.
// CHECK-LABEL: func.func @main(
// CHECK:         %[[A:.*]] = call @[[OWN:.*]](%arg0)
// CHECK-NEXT:    %[[B:.*]] = call @[[OWN]](%[[A]])
// CHECK-NEXT:    return %[[B]]
// CHECK:       func.func private @[[OWN]](
// CHECK:         linalg.generic
// CHECK-SAME:      tw.script = "a script"
func.func private @operator.1(tensor<4xf32>) -> tensor<4xf32>
func.func @main(%x: tensor<4xf32> {tw.name = "x"}) -> tensor<4xf32> {
  %y = call @operator.1(%x) {tw.operator = "func.func @operator(%x: tensor<4xf32>) -> tensor<4xf32> { %e = tensor.empty() : tensor<4xf32> %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = [\"parallel\"]} ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) attrs = {tw.group = 0 : i64, tw.script = \"a script\"} { ^bb0(%a: f32, %b: f32): %s = arith.addf %a, %a : f32 linalg.yield %s : f32 } -> tensor<4xf32> return %r : tensor<4xf32> }"} : (tensor<4xf32>) -> tensor<4xf32>
  %z = call @operator.1(%y) {tw.operator = "func.func @operator(%x: tensor<4xf32>) -> tensor<4xf32> { %e = tensor.empty() : tensor<4xf32> %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = [\"parallel\"]} ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) attrs = {tw.group = 0 : i64, tw.script = \"a script\"} { ^bb0(%a: f32, %b: f32): %s = arith.addf %a, %a : f32 linalg.yield %s : f32 } -> tensor<4xf32> return %r : tensor<4xf32> }"} : (tensor<4xf32>) -> tensor<4xf32>
  return %z : tensor<4xf32>
}
