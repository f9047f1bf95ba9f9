// RUN: %opt %s "--passes=winograd{everywhere=true}" | filecheck %s

#image = affine_map<(n, f, h, w, c, i, j) -> (n, h + i, w + j, c)>
#filter = affine_map<(n, f, h, w, c, i, j) -> (f, c, i, j)>
#out = affine_map<(n, f, h, w, c, i, j) -> (n, h, w, f)>
#convolution = {indexing_maps = [#image, #filter, #out],
                iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
#id = affine_map<(n, h, w, c) -> (n, h, w, c)>
#elements = {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}

// Of bytes in 16 bits all is integers: filters are doubled along both axes, and outputs divided by four. Padding grows
// by its own number.
// CHECK-LABEL: func.func @accepts(
// CHECK:       %[[B:.*]] = linalg.generic {{.*}} ins(%arg0 : tensor<1x7x8x16xi8>)
// CHECK:       %[[P:.*]] = tensor.pad %[[B]] low[0, 1, 1, 0] high[0, 2, 1, 0]
// CHECK:         tensor.yield %{{.*}} : i16
// CHECK:       } : tensor<1x7x8x16xi16> to tensor<1x10x10x16xi16>
// CHECK:       %[[U:.*]] = linalg.generic {{.*}} : tensor<3x3x16x32xi16>, tensor<4x3xi16>, tensor<4x3xi16>) {{.*}}tensor<4x4x16x32xi16>
// CHECK:       %[[V:.*]] = linalg.generic {{.*}} ins(%[[P]], %{{.*}} : tensor<1x10x10x16xi16>, tensor<4x4xi16>, tensor<4x4xi16>)
// CHECK:       %[[M:.*]] = linalg.generic {{.*}} ins(%[[V]], %[[U]] : tensor<4x4x1x4x4x16xi16>, tensor<4x4x16x32xi16>) {{.*}}tensor<4x4x1x4x4x32xi32>
// CHECK:       linalg.generic {{.*}} ins(%[[M]], {{.*}}tensor<2x4xi32>, tensor<2x4xi32>)
// CHECK:       arith.shrsi %{{.*}}, %c2{{.*}} : i32
func.func @accepts(%bytes: tensor<1x7x8x16xi8>, %w: tensor<32x16x3x3xi8> {tw.param = "w"}) -> tensor<1x7x8x32xi32> {
  %none = tensor.empty() : tensor<1x7x8x16xi16>
  %x = linalg.generic #elements ins(%bytes : tensor<1x7x8x16xi8>) outs(%none : tensor<1x7x8x16xi16>) {
  ^bb0(%byte: i8, %o: i16):
    %wide = arith.extui %byte : i8 to i16
    linalg.yield %wide : i16
  } -> tensor<1x7x8x16xi16>
  %number = arith.constant 120 : i16
  %p = tensor.pad %x low[0, 1, 1, 0] high[0, 1, 1, 0] {
  ^bb0(%a: index, %b: index, %c: index, %d: index):
    tensor.yield %number : i16
  } : tensor<1x7x8x16xi16> to tensor<1x9x10x16xi16>
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<1x7x8x32xi32>
  %z = linalg.fill ins(%zero : i32) outs(%e : tensor<1x7x8x32xi32>) -> tensor<1x7x8x32xi32>
  %y = linalg.generic #convolution ins(%p, %w : tensor<1x9x10x16xi16>, tensor<32x16x3x3xi8>) outs(%z : tensor<1x7x8x32xi32>) {
  ^bb0(%a: i16, %b: i8, %acc: i32):
    %i = arith.extsi %a : i16 to i32
    %j = arith.extsi %b : i8 to i32
    %m = arith.muli %i, %j : i32
    %s = arith.addi %acc, %m : i32
    linalg.yield %s : i32
  } -> tensor<1x7x8x32xi32>
  return %y : tensor<1x7x8x32xi32>
}

// Four times a sum of so many channels may have more than 32 bits.
// CHECK-LABEL: func.func @too_many_channels(
// CHECK-NOT:     tensor<4x4x
// CHECK:         return
func.func @too_many_channels(%bytes: tensor<1x4x4x2048xi8>, %w: tensor<32x2048x3x3xi8> {tw.param = "w"}) -> tensor<1x2x2x32xi32> {
  %none = tensor.empty() : tensor<1x4x4x2048xi16>
  %x = linalg.generic #elements ins(%bytes : tensor<1x4x4x2048xi8>) outs(%none : tensor<1x4x4x2048xi16>) {
  ^bb0(%byte: i8, %o: i16):
    %wide = arith.extui %byte : i8 to i16
    linalg.yield %wide : i16
  } -> tensor<1x4x4x2048xi16>
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<1x2x2x32xi32>
  %z = linalg.fill ins(%zero : i32) outs(%e : tensor<1x2x2x32xi32>) -> tensor<1x2x2x32xi32>
  %y = linalg.generic #convolution ins(%x, %w : tensor<1x4x4x2048xi16>, tensor<32x2048x3x3xi8>) outs(%z : tensor<1x2x2x32xi32>) {
  ^bb0(%a: i16, %b: i8, %acc: i32):
    %i = arith.extsi %a : i16 to i32
    %j = arith.extsi %b : i8 to i32
    %m = arith.muli %i, %j : i32
    %s = arith.addi %acc, %m : i32
    linalg.yield %s : i32
  } -> tensor<1x2x2x32xi32>
  return %y : tensor<1x2x2x32xi32>
}

// Numbers of 16 bits may be larger than bytes.
// CHECK-LABEL: func.func @no_bytes(
// CHECK-NOT:     tensor<4x4x
// CHECK:         return
func.func @no_bytes(%x: tensor<1x10x10x16xi16>, %w: tensor<32x16x3x3xi8> {tw.param = "w"}) -> tensor<1x8x8x32xi32> {
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<1x8x8x32xi32>
  %z = linalg.fill ins(%zero : i32) outs(%e : tensor<1x8x8x32xi32>) -> tensor<1x8x8x32xi32>
  %y = linalg.generic #convolution ins(%x, %w : tensor<1x10x10x16xi16>, tensor<32x16x3x3xi8>) outs(%z : tensor<1x8x8x32xi32>) {
  ^bb0(%a: i16, %b: i8, %acc: i32):
    %i = arith.extsi %a : i16 to i32
    %j = arith.extsi %b : i8 to i32
    %m = arith.muli %i, %j : i32
    %s = arith.addi %acc, %m : i32
    linalg.yield %s : i32
  } -> tensor<1x8x8x32xi32>
  return %y : tensor<1x8x8x32xi32>
}
