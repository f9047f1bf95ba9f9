// RUN: %opt %s --passes=drop-unused-results | filecheck %s

#all = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>

// Of greatest elements and their places the places go, with all that they alone are made of.
// CHECK-LABEL: func.func @main
// CHECK:       %[[M:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<4xf32>)
// CHECK-NEXT:  ^bb0(%{{.*}}: f32, %{{.*}}: f32):
// CHECK-NEXT:    %[[G:.*]] = arith.maximumf
// CHECK-NEXT:    linalg.yield %[[G]] : f32
// CHECK:       return %[[M]] : tensor<4xf32>
func.func @main(%x: tensor<4x8xf32>, %least: tensor<4xf32>, %zero: tensor<4xi64>) -> tensor<4xf32> {
  %m:2 = linalg.generic {indexing_maps = [#all, #row, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x8xf32>) outs(%least, %zero : tensor<4xf32>, tensor<4xi64>) {
  ^bb0(%a: f32, %m0: f32, %p0: i64):
    %i = linalg.index 1 : index
    %p = arith.index_cast %i : index to i64
    %g = arith.maximumf %a, %m0 : f32
    %c = arith.cmpf ogt, %a, %m0 : f32
    %s = arith.select %c, %p, %p0 : i64
    linalg.yield %g, %s : f32, i64
  } -> (tensor<4xf32>, tensor<4xi64>)
  return %m#0 : tensor<4xf32>
}

// The places are compared by the greatest elements so far, which stay.
// CHECK-LABEL: func.func @rejects_what_is_needed
// CHECK:       %[[M:.*]]:2 = linalg.generic
// CHECK:       return %[[M]]#1
func.func @rejects_what_is_needed(%x: tensor<4x8xf32>, %least: tensor<4xf32>, %zero: tensor<4xi64>) -> tensor<4xi64> {
  %m:2 = linalg.generic {indexing_maps = [#all, #row, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x8xf32>) outs(%least, %zero : tensor<4xf32>, tensor<4xi64>) {
  ^bb0(%a: f32, %m0: f32, %p0: i64):
    %i = linalg.index 1 : index
    %p = arith.index_cast %i : index to i64
    %g = arith.maximumf %a, %m0 : f32
    %c = arith.cmpf ogt, %a, %m0 : f32
    %s = arith.select %c, %p, %p0 : i64
    linalg.yield %g, %s : f32, i64
  } -> (tensor<4xf32>, tensor<4xi64>)
  return %m#1 : tensor<4xi64>
}
