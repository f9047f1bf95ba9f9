// RUN: %opt %s --passes=tabulate-bytes --target "x86 -mcpu=znver4" | filecheck %s
// RUN: %opt %s --passes=tabulate-bytes --target "x86 -mcpu=haswell" | filecheck %s
// RUN: %opt %s --passes=tabulate-bytes --target "x86 -mcpu=x86-64-v2" | filecheck %s --check-prefix=NONE

#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (j)>

// NONE-NOT: tensor.extract

// A byte times a function of it, which was a byte in between: the table of all bytes, and a look-up.
// CHECK-LABEL: func.func @chain(
// CHECK-SAME:    %[[Q:[^:]*]]: tensor<?x8xi8>
// CHECK:         %[[ALL:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<16x16xi8>)
// CHECK:         linalg.generic {{.*}} ins(%[[ALL]] : tensor<16x16xi8>)
// CHECK:           math.exp
// CHECK:         %[[TABLE:.*]] = tensor.collapse_shape %{{.*}} {{\[\[}}0, 1]] : tensor<16x16xi8> into tensor<256xi8>
// CHECK:         %[[Y:.*]] = linalg.generic {{.*}} ins(%[[Q]] : tensor<?x8xi8>)
// CHECK:           %[[AT:.*]] = arith.index_castui
// CHECK:           tensor.extract %[[TABLE]][%[[AT]]]
// CHECK:         return %[[Y]]
func.func @chain(%q: tensor<?x8xi8> {tw.name = "q"}) -> tensor<?x8xi8> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %q, %c0 : tensor<?x8xi8>
  %ef = tensor.empty(%n) : tensor<?x8xf32>
  %e = tensor.empty(%n) : tensor<?x8xi8>
  %f = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
    ins(%q : tensor<?x8xi8>) outs(%ef : tensor<?x8xf32>) {
  ^bb0(%i: i8, %o: f32):
    %v = arith.sitofp %i : i8 to f32
    linalg.yield %v : f32
  } -> tensor<?x8xf32>
  %s = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
    ins(%f : tensor<?x8xf32>) outs(%e : tensor<?x8xi8>) {
  ^bb0(%i: f32, %o: i8):
    %v = math.exp %i : f32
    %b = arith.fptosi %v : f32 to i8
    linalg.yield %b : i8
  } -> tensor<?x8xi8>
  %y = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
    ins(%f, %s : tensor<?x8xf32>, tensor<?x8xi8>) outs(%e : tensor<?x8xi8>) {
  ^bb0(%i: f32, %t: i8, %o: i8):
    %v = arith.sitofp %t : i8 to f32
    %p = arith.mulf %i, %v : f32
    %b = arith.fptosi %p : f32 to i8
    linalg.yield %b : i8
  } -> tensor<?x8xi8>
  return %y : tensor<?x8xi8>
}

// What depends on a second tensor, or is cheap, stays.
// CHECK-LABEL: func.func @rejects(
// CHECK-NOT:     tensor.extract
// CHECK:         return
func.func @rejects(%q: tensor<4x8xi8> {tw.name = "q"}, %w: tensor<8xf32> {tw.param = "w"}) -> (tensor<4x8xi8>, tensor<4x8xi8>) {
  %e = tensor.empty() : tensor<4x8xi8>
  %a = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
    ins(%q, %w : tensor<4x8xi8>, tensor<8xf32>) outs(%e : tensor<4x8xi8>) {
  ^bb0(%i: i8, %s: f32, %o: i8):
    %v = arith.sitofp %i : i8 to f32
    %m = arith.mulf %v, %s : f32
    %x = math.exp %m : f32
    %b = arith.fptosi %x : f32 to i8
    linalg.yield %b : i8
  } -> tensor<4x8xi8>
  %c = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
    ins(%q : tensor<4x8xi8>) outs(%e : tensor<4x8xi8>) {
  ^bb0(%i: i8, %o: i8):
    %one = arith.constant 1 : i8
    %n = arith.xori %i, %one : i8
    linalg.yield %n : i8
  } -> tensor<4x8xi8>
  return %a, %c : tensor<4x8xi8>, tensor<4x8xi8>
}
