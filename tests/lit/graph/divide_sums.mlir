// RUN: %opt %s --passes=divide-sums --target "x86 -mcpu=sapphirerapids" | filecheck %s
// RUN: %opt %s --passes=divide-sums --target "x86 -mcpu=skylake-avx512" | filecheck %s --check-prefix=VECTORS

#mk = affine_map<(m, n, k) -> (m, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>

// The parts of 128 rows of 3072 numbers are 2.25 MiB: those of four sums of 768 stay in a cache of 2 MiB.
// CHECK-LABEL: func.func @long(
// CHECK:         tensor.extract_slice %arg0[0, 0] [128, 768] [1, 1]
// CHECK:         tensor.extract_slice %arg1[0, 0] [768, 768] [1, 1]
// CHECK:         %[[A:.*]] = linalg.generic
// CHECK:         tensor.extract_slice %arg0[0, 768] [128, 768] [1, 1]
// CHECK:         tensor.extract_slice %arg1[768, 0] [768, 768] [1, 1]
// CHECK:         %[[B:.*]] = linalg.generic
// CHECK:         %[[S:.*]] = linalg.generic {{.*}} ins(%[[B]], %[[A]] :
// CHECK:         tensor.extract_slice %arg0[0, 1536] [128, 768] [1, 1]
// CHECK:         %[[C:.*]] = linalg.generic
// CHECK:         %[[T:.*]] = linalg.generic {{.*}} ins(%[[C]], %[[S]] :
// CHECK:         tensor.extract_slice %arg0[0, 2304] [128, 768] [1, 1]
// CHECK:         %[[D:.*]] = linalg.generic
// CHECK:         %[[U:.*]] = linalg.generic {{.*}} ins(%[[D]], %[[T]] :
// CHECK:         return %[[U]]
// VECTORS-LABEL: func.func @long(
// VECTORS-NOT:     tensor.extract_slice
// VECTORS:         return
func.func @long(%x: tensor<128x3072xf32>, %w: tensor<3072x768xf32> {tw.param = "w"}) -> tensor<128x768xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<128x768xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<128x768xf32>) -> tensor<128x768xf32>
  %c = linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<128x3072xf32>, tensor<3072x768xf32>) outs(%z : tensor<128x768xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %acc, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<128x768xf32>
  return %c : tensor<128x768xf32>
}

// Open rows count as many.
// CHECK-LABEL: func.func @open(
// CHECK-COUNT-8: tensor.extract_slice
// CHECK-NOT:     tensor.extract_slice
// CHECK:         return
func.func @open(%x: tensor<?x3072xf32>, %w: tensor<3072x768xf32> {tw.param = "w"}) -> tensor<?x768xf32> {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %m = tensor.dim %x, %c0 : tensor<?x3072xf32>
  %e = tensor.empty(%m) : tensor<?x768xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<?x768xf32>) -> tensor<?x768xf32>
  %c = linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<?x3072xf32>, tensor<3072x768xf32>) outs(%z : tensor<?x768xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %acc, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<?x768xf32>
  return %c : tensor<?x768xf32>
}

// Few rows are multiplied in vectors, and a right operand that is no weight is read as it is.
// CHECK-LABEL: func.func @few(
// CHECK-NOT:     tensor.extract_slice
// CHECK:         return
func.func @few(%x: tensor<16x3072xf32>, %w: tensor<3072x768xf32> {tw.param = "w"}) -> tensor<16x768xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<16x768xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<16x768xf32>) -> tensor<16x768xf32>
  %c = linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<16x3072xf32>, tensor<3072x768xf32>) outs(%z : tensor<16x768xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %acc, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<16x768xf32>
  return %c : tensor<16x768xf32>
}

// CHECK-LABEL: func.func @activations(
// CHECK-NOT:     tensor.extract_slice
// CHECK:         return
func.func @activations(%x: tensor<128x3072xf32>, %y: tensor<3072x768xf32>) -> tensor<128x768xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<128x768xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<128x768xf32>) -> tensor<128x768xf32>
  %c = linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %y : tensor<128x3072xf32>, tensor<3072x768xf32>) outs(%z : tensor<128x768xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %acc, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<128x768xf32>
  return %c : tensor<128x768xf32>
}
