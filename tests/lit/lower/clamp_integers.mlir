// RUN: %opt %s --passes=clamp-integers | filecheck %s
// RUN: %opt %s --passes=clamp-integers --target "aarch64 -mcpu=neoverse-n1" | filecheck %s --check-prefix=ARM

// ARM-NOT: arith.maxsi

// CHECK-LABEL: func.func @byte(
// CHECK:         %[[C:.*]] = arith.select %{{.*}}, %{{.*}}, %in : f32
// CHECK:         %[[R:.*]] = math.roundeven %[[C]]
// CHECK:         %[[I:.*]] = arith.fptosi %[[R]]
// CHECK:         %[[S:.*]] = arith.addi %[[I]],
// CHECK:         %[[L:.*]] = arith.maxsi %[[S]],
// CHECK:         %[[M:.*]] = arith.minsi %[[L]],
// CHECK:         arith.trunci %[[M]] : i32 to i8
func.func @byte(%x: tensor<64xf32>) -> tensor<64xi8> {
  %low = arith.constant -120.0 : f32
  %high = arith.constant 135.0 : f32
  %zero = arith.constant 120 : i32
  %e = tensor.empty() : tensor<64xi8>
  %y = linalg.generic {indexing_maps = [affine_map<(d) -> (d)>, affine_map<(d) -> (d)>], iterator_types = ["parallel"]}
      ins(%x : tensor<64xf32>) outs(%e : tensor<64xi8>) {
  ^bb0(%v: f32, %o: i8):
    %r = math.roundeven %v : f32
    %a = arith.cmpf ogt, %r, %low : f32
    %b = arith.select %a, %r, %low : f32
    %c = arith.cmpf olt, %b, %high : f32
    %d = arith.select %c, %b, %high : f32
    %i = arith.fptosi %d : f32 to i32
    %s = arith.addi %i, %zero : i32
    %t = arith.trunci %s : i32 to i8
    linalg.yield %t : i8
  } -> tensor<64xi8>
  return %y : tensor<64xi8>
}

// Below a negative shift, the least integer would become the greatest.
// CHECK-LABEL: func.func @negative(
// CHECK:         arith.select %{{.*}}, %{{.*}}, %in : f32
// CHECK:         %[[I:.*]] = arith.fptosi
// CHECK:         %[[L:.*]] = arith.maxsi %[[I]],
// CHECK:         arith.addi %[[L]],
func.func @negative(%x: tensor<64xf32>) -> tensor<64xi8> {
  %low = arith.constant -118.0 : f32
  %high = arith.constant 137.0 : f32
  %zero = arith.constant -10 : i32
  %e = tensor.empty() : tensor<64xi8>
  %y = linalg.generic {indexing_maps = [affine_map<(d) -> (d)>, affine_map<(d) -> (d)>], iterator_types = ["parallel"]}
      ins(%x : tensor<64xf32>) outs(%e : tensor<64xi8>) {
  ^bb0(%v: f32, %o: i8):
    %r = math.roundeven %v : f32
    %a = arith.cmpf ogt, %r, %low : f32
    %b = arith.select %a, %r, %low : f32
    %c = arith.cmpf olt, %b, %high : f32
    %d = arith.select %c, %b, %high : f32
    %i = arith.fptosi %d : f32 to i32
    %s = arith.addi %i, %zero : i32
    %t = arith.trunci %s : i32 to i8
    linalg.yield %t : i8
  } -> tensor<64xi8>
  return %y : tensor<64xi8>
}

// What is not rounded, or has bounds that only the run knows, stays.
// CHECK-LABEL: func.func @rejects(
// CHECK-NOT:     arith.maxsi
// CHECK:         return
func.func @rejects(%x: tensor<64xf32>, %bound: tensor<f32>) -> (tensor<64xi8>, tensor<64xi8>) {
  %low = arith.constant 0.0 : f32
  %high = arith.constant 255.0 : f32
  %e = tensor.empty() : tensor<64xi8>
  %y:2 = linalg.generic {indexing_maps = [affine_map<(d) -> (d)>, affine_map<(d) -> ()>, affine_map<(d) -> (d)>, affine_map<(d) -> (d)>],
      iterator_types = ["parallel"]} ins(%x, %bound : tensor<64xf32>, tensor<f32>) outs(%e, %e : tensor<64xi8>, tensor<64xi8>) {
  ^bb0(%v: f32, %w: f32, %o: i8, %p: i8):
    %a = arith.cmpf ogt, %v, %low : f32
    %b = arith.select %a, %v, %low : f32
    %c = arith.cmpf olt, %b, %high : f32
    %d = arith.select %c, %b, %high : f32
    %i = arith.fptosi %d : f32 to i32
    %t = arith.trunci %i : i32 to i8
    %r = math.roundeven %v : f32
    %f = arith.cmpf ogt, %r, %w : f32
    %g = arith.select %f, %r, %w : f32
    %h = arith.cmpf olt, %g, %high : f32
    %j = arith.select %h, %g, %high : f32
    %k = arith.fptosi %j : f32 to i32
    %u = arith.trunci %k : i32 to i8
    linalg.yield %t, %u : i8, i8
  } -> (tensor<64xi8>, tensor<64xi8>)
  return %y#0, %y#1 : tensor<64xi8>, tensor<64xi8>
}
