// RUN: %opt %s --passes=store-bools | filecheck %s

#id = affine_map<(i) -> (i)>

// Bits in memory are bytes; bodies compute with bits.
// CHECK-LABEL: func.func @main
// CHECK-SAME:  %[[B:[a-z0-9]+]]: tensor<4xi8>) -> tensor<4xi8>
// CHECK:       arith.constant dense<[1, 0, 1, 1]> : tensor<4xi8>
// CHECK:       linalg.generic {{.*}} outs(%{{.*}} : tensor<4xi8>)
// CHECK:       arith.trunci %{{.*}} : i8 to i1
// CHECK:       arith.andi
// CHECK:       %[[R:.*]] = arith.andi {{.*}} : i1
// CHECK:       arith.extui %[[R]] : i1 to i8
func.func @main(%x: tensor<4xf32>, %b: tensor<4xi1>) -> tensor<4xi1> {
  %known = arith.constant dense<[true, false, true, true]> : tensor<4xi1>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4xi1>
  %r = linalg.generic {indexing_maps = [#id, #id, #id, #id], iterator_types = ["parallel"]} ins(%x, %b, %known : tensor<4xf32>, tensor<4xi1>, tensor<4xi1>) outs(%e : tensor<4xi1>) {
  ^bb0(%a: f32, %p: i1, %q: i1, %o: i1):
    %c = arith.cmpf ogt, %a, %zero : f32
    %d = arith.andi %c, %p : i1
    %s = arith.andi %d, %q : i1
    linalg.yield %s : i1
  } -> tensor<4xi1>
  return %r : tensor<4xi1>
}

// What only moves bits, or fills, moves bytes, and fills with one.
// CHECK-LABEL: func.func @moves
// CHECK:       %[[ONE:.*]] = arith.constant 1 : i8
// CHECK:       linalg.fill ins(%[[ONE]] : i8)
// CHECK:       linalg.generic
// CHECK-NEXT:  ^bb0(%[[B:.*]]: i8, %{{.*}}: i8):
// CHECK-NEXT:    linalg.yield %[[B]] : i8
func.func @moves(%b: tensor<4xi1>) -> (tensor<4xi1>, tensor<4x2xi1>) {
  %true = arith.constant true
  %e = tensor.empty() : tensor<4xi1>
  %f = linalg.fill ins(%true : i1) outs(%e : tensor<4xi1>) -> tensor<4xi1>
  %w = tensor.empty() : tensor<4x2xi1>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%b : tensor<4xi1>) outs(%w : tensor<4x2xi1>) {
  ^bb0(%p: i1, %o: i1):
    linalg.yield %p : i1
  } -> tensor<4x2xi1>
  return %f, %r : tensor<4xi1>, tensor<4x2xi1>
}

// Bytes are left as they are.
// CHECK-LABEL: func.func @rejects_bytes
// CHECK-NOT:   arith.trunci
// CHECK:       return %{{.*}} : tensor<4xi8>
func.func @rejects_bytes(%x: tensor<4xi8>) -> tensor<4xi8> {
  return %x : tensor<4xi8>
}
