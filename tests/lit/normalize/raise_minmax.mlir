// RUN: %opt %s --passes=raise-minmax | filecheck %s

#id = affine_map<(i) -> (i)>

// CHECK-LABEL: func.func @main
// CHECK-NOT:   arith.cmpf
// CHECK:       arith.maximumf %{{.*}}, %[[ZERO:.*]] : f32
// CHECK:       arith.minimumf
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = arith.constant 0.0 : f32
  %six = arith.constant 6.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %c = arith.cmpf ugt, %a, %zero : f32
    %s = arith.select %c, %a, %zero : f32
    %d = arith.cmpf ult, %s, %six : f32
    %t = arith.select %d, %s, %six : f32
    linalg.yield %t : f32
  } -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// An ordered comparison takes the number in place of a NaN, a maximum does not; of two values either may be NaN.
// CHECK-LABEL: func.func @rejects_what_drops_nan
// CHECK-NOT:   arith.maximumf
// CHECK:       return
func.func @rejects_what_drops_nan(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %r = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%x, %y : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %c = arith.cmpf ogt, %a, %zero : f32
    %s = arith.select %c, %a, %zero : f32
    %d = arith.cmpf ugt, %s, %b : f32
    %t = arith.select %d, %s, %b : f32
    linalg.yield %t : f32
  } -> tensor<4xf32>
  return %r : tensor<4xf32>
}
