// RUN: tilewright opt %s --passes=expand-math | filecheck %s

#id = affine_map<(i) -> (i)>

// CHECK-LABEL: func.func @exp(
// CHECK-NOT:     math.exp
// CHECK:         %[[N:.*]] = math.roundeven
// CHECK:         math.fma %[[N]]
// CHECK-NOT:     math.exp
// CHECK:         linalg.yield
func.func @exp(%x: tensor<8xf32>) -> tensor<8xf32> {
  %e = tensor.empty() : tensor<8xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
    ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%v: f32, %o: f32):
    %y = math.exp %v : f32
    linalg.yield %y : f32
  } -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// float64 needs more than a polynomial in single precision, and sqrt is an instruction.
// CHECK-LABEL: func.func @rejects(
// CHECK:         math.exp %{{.*}} : f64
// CHECK:         math.sqrt %{{.*}} : f32
func.func @rejects(%x: f64, %y: f32) -> (f64, f32) {
  %a = math.exp %x : f64
  %b = math.sqrt %y : f32
  return %a, %b : f64, f32
}
