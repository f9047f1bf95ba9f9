// RUN: %opt %s --passes=fold-scalars | filecheck %s

#id = affine_map<(i) -> (i)>

// CHECK-LABEL: func.func @main
// CHECK:         %[[SIX:.*]] = arith.constant 6.000000e+00 : f32
// CHECK:         %[[C:.*]] = arith.cmpf olt, %[[A:.*]], %[[SIX]] : f32
// CHECK:         %[[EPS:.*]] = arith.constant 9.99999974E-6 : f32
// CHECK:         arith.select %[[C]], %[[A]], %[[EPS]] : f32
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %six = arith.constant 6.0 : f64
  %small = arith.constant 1.0e-5 : f64
  %e = tensor.empty() : tensor<4xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %w = arith.extf %a : f32 to f64
    %c = arith.cmpf olt, %w, %six : f64
    %n = arith.truncf %small : f64 to f32
    %s = arith.select %c, %a, %n : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// Between two neighbours of float32 a number tells them apart only in float64.
// CHECK-LABEL: func.func @rejects_what_rounds
// CHECK:         arith.cmpf olt, %{{.*}}, %{{.*}} : f64
func.func @rejects_what_rounds(%x: tensor<4xf32>) -> tensor<4xf32> {
  %tenth = arith.constant 0.1 : f64
  %e = tensor.empty() : tensor<4xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %w = arith.extf %a : f32 to f64
    %c = arith.cmpf olt, %w, %tenth : f64
    %s = arith.select %c, %o, %a : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  return %r : tensor<4xf32>
}
