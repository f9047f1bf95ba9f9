// RUN: %opt %s --passes=plan-memory | filecheck %s

// Of open sizes, a kernel that maps elements writes over what another call has made if it is the last to read it. An
// input, what somebody reads later and what is seen twice stay.

// CHECK-LABEL: func.func @main(
// CHECK:         %[[MADE:.*]] = call @relu(%arg0, %{{.*}}) : (tensor<?xf32>, index) -> tensor<?xf32>
// CHECK:         %[[OVER:.*]] = call @relu(%[[MADE]], %{{.*}}) {tw.over = 0 : i64}
// CHECK:         %[[LATER:.*]] = call @relu(%[[OVER]], %{{.*}}) : (tensor<?xf32>, index) -> tensor<?xf32>
// CHECK:         %[[SUM:.*]] = call @add(%[[OVER]], %[[LATER]], %{{.*}}) {tw.over = 0 : i64}
// CHECK:         %[[TWICE:.*]] = call @add(%[[SUM]], %[[SUM]], %{{.*}}) : (tensor<?xf32>, tensor<?xf32>, index) -> tensor<?xf32>
// CHECK:         return %[[TWICE]]
// CHECK:       func.func private @relu(
// CHECK-SAME:    attributes {tw.in_place = array<i64: 0>}
func.func @main(%x: tensor<?xf32> {tw.name = "x"}) -> tensor<?xf32> {
  %i = arith.constant 0 : index
  %n = tensor.dim %x, %i : tensor<?xf32>
  %a = call @relu(%x, %n) : (tensor<?xf32>, index) -> tensor<?xf32>
  %b = call @relu(%a, %n) : (tensor<?xf32>, index) -> tensor<?xf32>
  %c = call @relu(%b, %n) : (tensor<?xf32>, index) -> tensor<?xf32>
  %d = call @add(%b, %c, %n) : (tensor<?xf32>, tensor<?xf32>, index) -> tensor<?xf32>
  %e = call @add(%d, %d, %n) : (tensor<?xf32>, tensor<?xf32>, index) -> tensor<?xf32>
  return %e : tensor<?xf32>
}
func.func private @relu(%x: tensor<?xf32>, %n: index) -> tensor<?xf32> {
  %zero = arith.constant 0.0 : f32
  %out = tensor.empty(%n) : tensor<?xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<?xf32>) outs(%out : tensor<?xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.maximumf %a, %zero : f32
    linalg.yield %m : f32
  } -> tensor<?xf32>
  return %y : tensor<?xf32>
}
func.func private @add(%x: tensor<?xf32>, %z: tensor<?xf32>, %n: index) -> tensor<?xf32> {
  %out = tensor.empty(%n) : tensor<?xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]}
      ins(%x, %z : tensor<?xf32>, tensor<?xf32>) outs(%out : tensor<?xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<?xf32>
  return %y : tensor<?xf32>
}
