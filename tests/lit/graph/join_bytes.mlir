// RUN: %opt %s --passes=join-bytes | filecheck %s

#rows = affine_map<(m, n, k) -> (m, k)>
#columns = affine_map<(m, n, k) -> (k, n)>
#turned = affine_map<(m, n, k) -> (n, k)>
#out = affine_map<(m, n, k) -> (m, n)>

// Four bytes along the sum become one word: zeros stand behind the last ones, where the run needs some.
// CHECK-LABEL: func.func @accepts(
// CHECK:         %[[Z:.*]] = tensor.insert_slice %{{.*}} into
// CHECK:         %[[P:.*]] = arith.select %{{.*}}, %arg0, %[[Z]] : tensor<?x?xi8>
// CHECK:         %[[A:.*]] = tensor.expand_shape %[[P]] {{\[\[}}0], [1, 2]] {{.*}} into tensor<?x?x4xi8>
// CHECK:         %[[V:.*]] = linalg.generic {{.*}} ins(%[[A]], %[[A]], %[[A]], %[[A]]
// CHECK:         %[[Q:.*]] = arith.select %{{.*}}, %arg1, %{{.*}} : tensor<?x?xi8>
// CHECK:         %[[B:.*]] = tensor.expand_shape %[[Q]] {{\[\[}}0, 1], [2]] {{.*}} into tensor<?x4x?xi8>
// CHECK:         %[[U:.*]] = linalg.generic {{.*}} ins(%[[B]], %[[B]], %[[B]], %[[B]]
// CHECK:         linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "reduction"]} ins(%[[V]], %[[U]] : tensor<?x?xi32>, tensor<?x?xi32>)
func.func @accepts(%a: tensor<?x?xi8>, %b: tensor<?x?xi8>, %m: index, %n: index) -> tensor<?x?xi32> {
  %c = arith.constant 0 : i32
  %e = tensor.empty(%m, %n) : tensor<?x?xi32>
  %z = linalg.fill ins(%c : i32) outs(%e : tensor<?x?xi32>) -> tensor<?x?xi32>
  %r = linalg.generic {indexing_maps = [#rows, #columns, #out], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%a, %b : tensor<?x?xi8>, tensor<?x?xi8>) outs(%z : tensor<?x?xi32>) {
  ^bb0(%x: i8, %w: i8, %t: i32):
    %0 = arith.extui %x : i8 to i32
    %1 = arith.extsi %w : i8 to i32
    %2 = arith.muli %0, %1 : i32
    %3 = arith.addi %2, %t : i32
    linalg.yield %3 : i32
  } -> tensor<?x?xi32>
  return %r : tensor<?x?xi32>
}

// Of a sum of known length, of whole words, nothing is padded. Words of a turned operand are turned.
// CHECK-LABEL: func.func @accepts_turned(
// CHECK-NOT:     tensor.insert_slice
// CHECK:         tensor.expand_shape %arg1 {{\[\[}}0], [1, 2]] {{.*}} into tensor<?x16x4xi8>
// CHECK:         %[[U:.*]] = linalg.generic {{.*}} : tensor<?x16x4xi8>, tensor<?x16x4xi8>, tensor<?x16x4xi8>, tensor<?x16x4xi8>) outs(
// CHECK:         %[[T:.*]] = linalg.generic {{.*}} ins(%[[U]] : tensor<?x16xi32>) {{.*}} {
// CHECK:         linalg.generic {{.*}} ins(%{{.*}}, %[[T]] : tensor<?x16xi32>, tensor<16x?xi32>)
func.func @accepts_turned(%a: tensor<?x64xi8>, %b: tensor<?x64xi8>, %m: index, %n: index) -> tensor<?x?xi32> {
  %c = arith.constant 0 : i32
  %e = tensor.empty(%m, %n) : tensor<?x?xi32>
  %z = linalg.fill ins(%c : i32) outs(%e : tensor<?x?xi32>) -> tensor<?x?xi32>
  %r = linalg.generic {indexing_maps = [#rows, #turned, #out], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%a, %b : tensor<?x64xi8>, tensor<?x64xi8>) outs(%z : tensor<?x?xi32>) {
  ^bb0(%x: i8, %w: i8, %t: i32):
    %0 = arith.extui %x : i8 to i32
    %1 = arith.extsi %w : i8 to i32
    %2 = arith.muli %0, %1 : i32
    %3 = arith.addi %2, %t : i32
    linalg.yield %3 : i32
  } -> tensor<?x?xi32>
  return %r : tensor<?x?xi32>
}

// A right operand of known sizes is packed later.
// CHECK-LABEL: func.func @rejects(
// CHECK-NOT:     tensor.expand_shape
// CHECK:         return
func.func @rejects(%a: tensor<?x64xi8>, %b: tensor<64x32xi8>, %m: index) -> tensor<?x32xi32> {
  %c = arith.constant 0 : i32
  %e = tensor.empty(%m) : tensor<?x32xi32>
  %z = linalg.fill ins(%c : i32) outs(%e : tensor<?x32xi32>) -> tensor<?x32xi32>
  %r = linalg.generic {indexing_maps = [#rows, #columns, #out], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%a, %b : tensor<?x64xi8>, tensor<64x32xi8>) outs(%z : tensor<?x32xi32>) {
  ^bb0(%x: i8, %w: i8, %t: i32):
    %0 = arith.extui %x : i8 to i32
    %1 = arith.extsi %w : i8 to i32
    %2 = arith.muli %0, %1 : i32
    %3 = arith.addi %2, %t : i32
    linalg.yield %3 : i32
  } -> tensor<?x32xi32>
  return %r : tensor<?x32xi32>
}
