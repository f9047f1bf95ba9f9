// RUN: %opt %s --passes=eliminate-common-subexpr --locations | filecheck %s

// CHECK-LABEL: func.func @equal(
// CHECK-COUNT-1: math.exp
// CHECK:         loc("first")
// CHECK-NOT:     math.exp
// CHECK-NOT:     "second"
// CHECK:         return
func.func @equal(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %e = tensor.empty() : tensor<4xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
    ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32):
    %m = math.exp %i : f32 loc("first")
    linalg.yield %m : f32 loc("first")
  } -> tensor<4xf32> loc("first")
  %b = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
    ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32):
    %m = math.exp %i : f32 loc("second")
    linalg.yield %m : f32 loc("second")
  } -> tensor<4xf32> loc("second")
  return %a, %b : tensor<4xf32>, tensor<4xf32>
}

// Bodies that differ, and attributes that differ.
// CHECK-LABEL: func.func @rejects(
// CHECK-COUNT-2: math.exp
// CHECK:         math.log
func.func @rejects(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %e = tensor.empty() : tensor<4xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
    ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32):
    %m = math.exp %i : f32
    linalg.yield %m : f32
  } -> tensor<4xf32>
  %b = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
    ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) attrs = {tw.group = 1 : i64} {
  ^bb0(%i: f32, %o: f32):
    %m = math.exp %i : f32
    linalg.yield %m : f32
  } -> tensor<4xf32>
  %c = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
    ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32):
    %m = math.log %i : f32
    linalg.yield %m : f32
  } -> tensor<4xf32>
  return %a, %b, %c : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
