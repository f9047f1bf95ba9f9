// RUN: %opt %s --passes=widen-operands,dead-code --target "x86 -mcpu=haswell" | filecheck %s
// RUN: %opt %s --passes=widen-operands,dead-code --target "x86 -mcpu=icelake-server" | filecheck %s --check-prefix=FOURS

#mk = affine_map<(m, n, k) -> (m, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>

// Bytes that are multiplied by those of a weight are widened, where the target multiplies numbers of 16 bits.
// CHECK-LABEL: func.func @product(
// CHECK:         %[[W:.*]] = linalg.generic {{.*}} ins(%arg0 : tensor<8x64xi8>) outs(%{{.*}} : tensor<8x64xi16>)
// CHECK:           arith.extui %{{.*}} : i8 to i16
// CHECK:         linalg.generic {{.*}} ins(%[[W]], %arg1 : tensor<8x64xi16>, tensor<64x16xi8>)
// CHECK-NEXT:    ^bb0(%[[A:.*]]: i16, %[[B:.*]]: i8, %{{.*}}: i32):
// CHECK-DAG:       arith.extsi %[[A]] : i16 to i32
// CHECK-DAG:       arith.extsi %[[B]] : i8 to i32
// FOURS-LABEL: func.func @product(
// FOURS-NOT:     i16
func.func @product(%x: tensor<8x64xi8>, %w: tensor<64x16xi8> {tw.param = "w"}) -> tensor<8x16xi32> {
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<8x16xi32>
  %z = linalg.fill ins(%zero : i32) outs(%e : tensor<8x16xi32>) -> tensor<8x16xi32>
  %c = linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<8x64xi8>, tensor<64x16xi8>) outs(%z : tensor<8x16xi32>) {
  ^bb0(%a: i8, %b: i8, %acc: i32):
    %i = arith.extui %a : i8 to i32
    %j = arith.extsi %b : i8 to i32
    %p = arith.muli %i, %j : i32
    %s = arith.addi %acc, %p : i32
    linalg.yield %s : i32
  } -> tensor<8x16xi32>
  return %c : tensor<8x16xi32>
}

// What is no weight is multiplied as it is.
// CHECK-LABEL: func.func @two_inputs(
// CHECK-NOT:     i16
// CHECK:         return
func.func @two_inputs(%x: tensor<8x64xi8>, %w: tensor<64x16xi8>) -> tensor<8x16xi32> {
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<8x16xi32>
  %z = linalg.fill ins(%zero : i32) outs(%e : tensor<8x16xi32>) -> tensor<8x16xi32>
  %c = linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<8x64xi8>, tensor<64x16xi8>) outs(%z : tensor<8x16xi32>) {
  ^bb0(%a: i8, %b: i8, %acc: i32):
    %i = arith.extui %a : i8 to i32
    %j = arith.extsi %b : i8 to i32
    %p = arith.muli %i, %j : i32
    %s = arith.addi %acc, %p : i32
    linalg.yield %s : i32
  } -> tensor<8x16xi32>
  return %c : tensor<8x16xi32>
}

#image = affine_map<(n, f, h, w, c, i, j) -> (n, c, h + i, w + j)>
#filter = affine_map<(n, f, h, w, c, i, j) -> (f, c, i, j)>
#out = affine_map<(n, f, h, w, c, i, j) -> (n, f, h, w)>

// A convolution's data are widened before they are padded, by the same unsigned number.
// CHECK-LABEL: func.func @padded(
// CHECK:         %[[W:.*]] = linalg.generic {{.*}} ins(%arg0 : tensor<1x4x9x9xi8>) outs(%{{.*}} : tensor<1x4x9x9xi16>)
// CHECK:         %[[N:.*]] = arith.constant 200 : i16
// CHECK:         %[[P:.*]] = tensor.pad %[[W]] low[0, 0, 1, 1] high[0, 0, 1, 1]
// CHECK:         tensor.yield %[[N]] : i16
// CHECK:         linalg.generic {{.*}} ins(%[[P]], %arg1 : tensor<1x4x11x11xi16>, tensor<16x4x3x3xi8>)
func.func @padded(%x: tensor<1x4x9x9xi8>, %w: tensor<16x4x3x3xi8> {tw.param = "w"}) -> tensor<1x16x9x9xi32> {
  %number = arith.constant -56 : i8
  %p = tensor.pad %x low[0, 0, 1, 1] high[0, 0, 1, 1] {
  ^bb0(%a: index, %b: index, %c: index, %d: index):
    tensor.yield %number : i8
  } : tensor<1x4x9x9xi8> to tensor<1x4x11x11xi8>
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<1x16x9x9xi32>
  %z = linalg.fill ins(%zero : i32) outs(%e : tensor<1x16x9x9xi32>) -> tensor<1x16x9x9xi32>
  %y = linalg.generic {indexing_maps = [#image, #filter, #out],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
      ins(%p, %w : tensor<1x4x11x11xi8>, tensor<16x4x3x3xi8>) outs(%z : tensor<1x16x9x9xi32>) {
  ^bb0(%a: i8, %b: i8, %acc: i32):
    %i = arith.extui %a : i8 to i32
    %j = arith.extsi %b : i8 to i32
    %m = arith.muli %i, %j : i32
    %s = arith.addi %acc, %m : i32
    linalg.yield %s : i32
  } -> tensor<1x16x9x9xi32>
  return %y : tensor<1x16x9x9xi32>
}

// Of three channels the last one would be half of a pair: there is a fourth, which is multiplied by zeros.
// CHECK-LABEL: func.func @odd(
// CHECK:         %[[W:.*]] = linalg.generic {{.*}} ins(%arg0 : tensor<1x3x9x9xi8>) outs(%{{.*}} : tensor<1x3x9x9xi16>)
// CHECK:         %[[P:.*]] = tensor.pad %[[W]] low[0, 0, 0, 0] high[0, 1, 0, 0]
// CHECK:         %[[F:.*]] = tensor.pad %arg1 low[0, 0, 0, 0] high[0, 1, 0, 0]
// CHECK:         tensor.yield %c0_i8
// CHECK:         linalg.generic {{.*}} ins(%[[P]], %[[F]] : tensor<1x4x9x9xi16>, tensor<16x4x3x3xi8>)
func.func @odd(%x: tensor<1x3x9x9xi8>, %w: tensor<16x3x3x3xi8> {tw.param = "w"}) -> tensor<1x16x7x7xi32> {
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<1x16x7x7xi32>
  %z = linalg.fill ins(%zero : i32) outs(%e : tensor<1x16x7x7xi32>) -> tensor<1x16x7x7xi32>
  %y = linalg.generic {indexing_maps = [#image, #filter, #out],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
      ins(%x, %w : tensor<1x3x9x9xi8>, tensor<16x3x3x3xi8>) outs(%z : tensor<1x16x7x7xi32>) {
  ^bb0(%a: i8, %b: i8, %acc: i32):
    %i = arith.extui %a : i8 to i32
    %j = arith.extsi %b : i8 to i32
    %m = arith.muli %i, %j : i32
    %s = arith.addi %acc, %m : i32
    linalg.yield %s : i32
  } -> tensor<1x16x7x7xi32>
  return %y : tensor<1x16x7x7xi32>
}
