// RUN: %opt %s --passes=widen-floats | filecheck %s

#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>

// What is computed between is not rounded.
// CHECK-LABEL: func.func @elementwise
// CHECK:       ^bb0(%[[IN:.*]]: f16, %{{.*}}: f16):
// CHECK:       %[[X:.*]] = arith.extf %[[IN]] : f16 to f32
// CHECK:       %[[Y:.*]] = arith.addf %[[X]], %{{.*}} : f32
// CHECK-NEXT:  %[[E:.*]] = math.exp %[[Y]] : f32
// CHECK-NEXT:  %[[R:.*]] = arith.truncf %[[E]] : f32 to f16
// CHECK-NEXT:  linalg.yield %[[R]] : f16
func.func @elementwise(%x: tensor<2x8xf16>) -> tensor<2x8xf16> {
  %one = arith.constant 1.0 : f16
  %e = tensor.empty() : tensor<2x8xf16>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<2x8xf16>) outs(%e : tensor<2x8xf16>) {
  ^bb0(%in: f16, %out: f16):
    %s = arith.addf %in, %one : f16
    %p = math.exp %s : f16
    linalg.yield %p : f16
  } -> tensor<2x8xf16>
  return %r : tensor<2x8xf16>
}

// A sum is rounded when it is done.
// CHECK-LABEL: func.func @sum
// CHECK:       %[[ZERO:.*]] = linalg.fill {{.*}} -> tensor<2xf32>
// CHECK:       %[[SUM:.*]] = linalg.generic {{.*}} outs(%[[ZERO]] : tensor<2xf32>)
// CHECK:       arith.addf {{.*}} : f32
// CHECK-NEXT:  linalg.yield %{{.*}} : f32
// CHECK:       linalg.generic {{.*}} ins(%[[SUM]] : tensor<2xf32>) outs(%{{.*}} : tensor<2xbf16>)
// CHECK:       return %{{.*}} : tensor<2xbf16>
func.func @sum(%x: tensor<2x8xbf16>) -> tensor<2xbf16> {
  %zero = arith.constant 0.0 : bf16
  %e = tensor.empty() : tensor<2xbf16>
  %z = linalg.fill ins(%zero : bf16) outs(%e : tensor<2xbf16>) -> tensor<2xbf16>
  %r = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<2x8xbf16>) outs(%z : tensor<2xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %s = arith.addf %in, %out : bf16
    linalg.yield %s : bf16
  } -> tensor<2xbf16>
  return %r : tensor<2xbf16>
}

// What moves elements, and what has 32 bits, is left as it is.
// CHECK-LABEL: func.func @rejects
// CHECK-NOT:   arith.extf
// CHECK:       return
func.func @rejects(%x: tensor<2x8xf16>, %y: f32) -> (tensor<2x8xf16>, f32) {
  %e = tensor.empty() : tensor<2x8xf16>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<2x8xf16>) outs(%e : tensor<2x8xf16>) {
  ^bb0(%in: f16, %out: f16):
    linalg.yield %in : f16
  } -> tensor<2x8xf16>
  %s = arith.addf %y, %y : f32
  return %r, %s : tensor<2x8xf16>, f32
}
