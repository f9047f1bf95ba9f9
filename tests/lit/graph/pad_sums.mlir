// RUN: %opt %s --passes=pad-sums --target "x86 -mcpu=sapphirerapids" | filecheck %s
// RUN: %opt %s --passes=pad-sums --target "x86 -mcpu=znver4" | filecheck %s --check-prefix=VECTORS

// Vectors need no padding.
// VECTORS-NOT:   tensor.pad

#mk = affine_map<(m, n, k) -> (m, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>

// 257 bytes are four lines of 64 and one byte: five lines.
// CHECK-LABEL: func.func @odd(
// CHECK:         %[[X:.*]] = tensor.pad %arg0 low[0, 0] high[0, 63]
// CHECK:         tensor.yield %c0_i8
// CHECK:         %[[W:.*]] = tensor.pad %arg1 low[0, 0] high[63, 0]
// CHECK:         linalg.generic {{.*}} ins(%[[X]], %[[W]] : tensor<64x320xi8>, tensor<320x64xi8>)
func.func @odd(%x: tensor<64x257xi8>, %w: tensor<257x64xi8> {tw.param = "w"}) -> tensor<64x64xi32> {
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<64x64xi32>
  %z = linalg.fill ins(%zero : i32) outs(%e : tensor<64x64xi32>) -> tensor<64x64xi32>
  %c = linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<64x257xi8>, tensor<257x64xi8>) outs(%z : tensor<64x64xi32>) {
  ^bb0(%a: i8, %b: i8, %acc: i32):
    %i = arith.extui %a : i8 to i32
    %j = arith.extsi %b : i8 to i32
    %p = arith.muli %i, %j : i32
    %s = arith.addi %acc, %p : i32
    linalg.yield %s : i32
  } -> tensor<64x64xi32>
  return %c : tensor<64x64xi32>
}

// 272 bytes are 17 times 16: five lines are fewer.
// CHECK-LABEL: func.func @short_parts(
// CHECK:         linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<64x320xi8>, tensor<320x64xi8>)
func.func @short_parts(%x: tensor<64x272xi8>, %w: tensor<272x64xi8>) -> tensor<64x64xi32> {
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<64x64xi32>
  %z = linalg.fill ins(%zero : i32) outs(%e : tensor<64x64xi32>) -> tensor<64x64xi32>
  %c = linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<64x272xi8>, tensor<272x64xi8>) outs(%z : tensor<64x64xi32>) {
  ^bb0(%a: i8, %b: i8, %acc: i32):
    %i = arith.extui %a : i8 to i32
    %j = arith.extsi %b : i8 to i32
    %p = arith.muli %i, %j : i32
    %s = arith.addi %acc, %p : i32
    linalg.yield %s : i32
  } -> tensor<64x64xi32>
  return %c : tensor<64x64xi32>
}

// Equal parts already; few rows; few products.
// CHECK-LABEL: func.func @whole(
// CHECK-NOT:     tensor.pad
func.func @whole(%x: tensor<64x300xi8>, %w: tensor<300x64xi8> {tw.param = "w"}) -> tensor<64x64xi32> {
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<64x64xi32>
  %z = linalg.fill ins(%zero : i32) outs(%e : tensor<64x64xi32>) -> tensor<64x64xi32>
  %c = linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<64x300xi8>, tensor<300x64xi8>) outs(%z : tensor<64x64xi32>) {
  ^bb0(%a: i8, %b: i8, %acc: i32):
    %i = arith.extui %a : i8 to i32
    %j = arith.extsi %b : i8 to i32
    %p = arith.muli %i, %j : i32
    %s = arith.addi %acc, %p : i32
    linalg.yield %s : i32
  } -> tensor<64x64xi32>
  return %c : tensor<64x64xi32>
}
func.func @few_rows(%x: tensor<8x513xi8>, %w: tensor<513x512xi8> {tw.param = "w"}) -> tensor<8x512xi32> {
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<8x512xi32>
  %z = linalg.fill ins(%zero : i32) outs(%e : tensor<8x512xi32>) -> tensor<8x512xi32>
  %c = linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<8x513xi8>, tensor<513x512xi8>) outs(%z : tensor<8x512xi32>) {
  ^bb0(%a: i8, %b: i8, %acc: i32):
    %i = arith.extui %a : i8 to i32
    %j = arith.extsi %b : i8 to i32
    %p = arith.muli %i, %j : i32
    %s = arith.addi %acc, %p : i32
    linalg.yield %s : i32
  } -> tensor<8x512xi32>
  return %c : tensor<8x512xi32>
}
func.func @small(%x: tensor<32x129xi8>, %w: tensor<129x32xi8> {tw.param = "w"}) -> tensor<32x32xi32> {
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<32x32xi32>
  %z = linalg.fill ins(%zero : i32) outs(%e : tensor<32x32xi32>) -> tensor<32x32xi32>
  %c = linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<32x129xi8>, tensor<129x32xi8>) outs(%z : tensor<32x32xi32>) {
  ^bb0(%a: i8, %b: i8, %acc: i32):
    %i = arith.extui %a : i8 to i32
    %j = arith.extsi %b : i8 to i32
    %p = arith.muli %i, %j : i32
    %s = arith.addi %acc, %p : i32
    linalg.yield %s : i32
  } -> tensor<32x32xi32>
  return %c : tensor<32x32xi32>
}
