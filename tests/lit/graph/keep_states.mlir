// RUN: %opt %s --passes=keep-states | filecheck %s
// RUN: sed 's/past into/other into/; s/new into/past into/; s/other into/new into/' %s > %t
// RUN: %opt %t --passes=keep-states | filecheck %s --check-prefix=BEFORE

// The growing axis comes first; what reads the concat, or the argument, reads it in the order that it had.
// CHECK-LABEL: func.func @main(
// CHECK-SAME:    %[[P:.*]]: tensor<?x4x64xf32> {tw.name = "past", tw.state = 1 : i64}, %[[N:.*]]: tensor<4x?x64xf32> {
// CHECK-SAME:    -> (tensor<4x?x64xf32>, tensor<?x4x64xf32>, tensor<4x?x64xf32>)
// CHECK:         %[[T:.*]] = linalg.generic {{.*}} ins(%[[N]] : tensor<4x?x64xf32>)
// CHECK:         %[[A:.*]] = call @state.append.0(%[[P]], %[[T]], %{{.*}}) {tw.state = 0 : i64}
// CHECK-NOT:     tensor.insert_slice
// CHECK:         %[[U:.*]] = linalg.generic {{.*}} ins(%[[A]] : tensor<?x4x64xf32>)
// CHECK:         %[[Y:.*]] = linalg.generic {{.*}} ins(%[[U]] : tensor<4x?x64xf32>)
// CHECK:         %[[W:.*]] = linalg.generic {{.*}} ins(%[[P]] : tensor<?x4x64xf32>)
// CHECK:         %[[Z:.*]] = linalg.generic {{.*}} ins(%[[W]] : tensor<4x?x64xf32>)
// CHECK:         return %[[Y]], %[[A]], %[[Z]]

// An argument that comes behind what is new does not grow at its end.
// BEFORE-LABEL: func.func @main(
// BEFORE-SAME:    %{{.*}}: tensor<4x?x64xf32> {tw.name = "past", tw.state = 1 : i64}
// BEFORE-NOT:     @state.append
// BEFORE-COUNT-2: tensor.insert_slice
#id = affine_map<(a, n, d) -> (a, n, d)>
func.func @main(%past: tensor<4x?x64xf32> {tw.name = "past", tw.state = 1 : i64}, %new: tensor<4x?x64xf32> {tw.name = "new"})
    -> (tensor<4x?x64xf32>, tensor<4x?x64xf32>, tensor<4x?x64xf32>) {
  %c1 = arith.constant 1 : index
  %p = tensor.dim %past, %c1 : tensor<4x?x64xf32>
  %n = tensor.dim %new, %c1 : tensor<4x?x64xf32>
  %size = arith.addi %p, %n : index
  %e = tensor.empty(%size) : tensor<4x?x64xf32>
  %a = tensor.insert_slice %past into %e[0, 0, 0] [4, %p, 64] [1, 1, 1] : tensor<4x?x64xf32> into tensor<4x?x64xf32>
  %b = tensor.insert_slice %new into %a[0, %p, 0] [4, %n, 64] [1, 1, 1] : tensor<4x?x64xf32> into tensor<4x?x64xf32>
  %f = tensor.empty(%size) : tensor<4x?x64xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%b : tensor<4x?x64xf32>) outs(%f : tensor<4x?x64xf32>) {
  ^bb0(%i: f32, %o: f32):
    %m = arith.negf %i : f32
    linalg.yield %m : f32
  } -> tensor<4x?x64xf32>
  %g = tensor.empty(%p) : tensor<4x?x64xf32>
  %z = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%past : tensor<4x?x64xf32>) outs(%g : tensor<4x?x64xf32>) {
  ^bb0(%i: f32, %o: f32):
    %m = math.exp %i : f32
    linalg.yield %m : f32
  } -> tensor<4x?x64xf32>
  return %y, %b, %z : tensor<4x?x64xf32>, tensor<4x?x64xf32>, tensor<4x?x64xf32>
}
