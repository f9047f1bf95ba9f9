// RUN: %opt %s --passes=widen-operands,dead-code --target "x86 -mcpu=haswell" | filecheck %s
// RUN: %opt %s --passes=widen-operands,dead-code --target "x86 -mcpu=znver4" | filecheck %s --check-prefix=PAIRS

#mk = affine_map<(m, n, k) -> (m, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>

// The right operand, whose rows are read as vectors, stays as it is.
// CHECK-LABEL: func.func @product(
// CHECK:         %[[W:.*]] = linalg.generic {{.*}} ins(%arg0 : tensor<8x4xf16>) outs(%{{.*}} : tensor<8x4xf32>)
// CHECK:         linalg.generic {{.*}} ins(%[[W]], %arg1 : tensor<8x4xf32>, tensor<4x16xf16>)
// CHECK-NEXT:    ^bb0(%[[A:.*]]: f32, %[[B:.*]]: f16, %{{.*}}: f32):
// CHECK-NEXT:      %[[X:.*]] = arith.extf %[[B]] : f16 to f32
// CHECK-NEXT:      arith.mulf %[[A]], %[[X]] : f32
func.func @product(%x: tensor<8x4xf16>, %y: tensor<4x16xf16>) -> tensor<8x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<8x16xf32>) -> tensor<8x16xf32>
  %c = linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %y : tensor<8x4xf16>, tensor<4x16xf16>) outs(%z : tensor<8x16xf32>) {
  ^bb0(%a: f16, %b: f16, %acc: f32):
    %i = arith.extf %a : f16 to f32
    %j = arith.extf %b : f16 to f32
    %p = arith.mulf %i, %j : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  } -> tensor<8x16xf32>
  return %c : tensor<8x16xf32>
}

// Weights stay small.
// CHECK-LABEL: func.func @weight(
// CHECK-NOT:     tensor<8x4xf32>
// CHECK:         return
func.func @weight(%y: tensor<4x16xf16>, %x: tensor<8x4xf16> {tw.param = "w"}) -> tensor<8x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<8x16xf32>) -> tensor<8x16xf32>
  %c = linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %y : tensor<8x4xf16>, tensor<4x16xf16>) outs(%z : tensor<8x16xf32>) {
  ^bb0(%a: f16, %b: f16, %acc: f32):
    %i = arith.extf %a : f16 to f32
    %j = arith.extf %b : f16 to f32
    %p = arith.mulf %i, %j : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  } -> tensor<8x16xf32>
  return %c : tensor<8x16xf32>
}

#x = affine_map<(n, f, o, c, k) -> (n, c, o + k)>
#w = affine_map<(n, f, o, c, k) -> (f, c, k)>
#y = affine_map<(n, f, o, c, k) -> (n, f, o)>

// A convolution's data are widened before they are padded.
// CHECK-LABEL: func.func @padded(
// CHECK:         %[[W:.*]] = linalg.generic {{.*}} ins(%arg0 : tensor<1x4x9xbf16>) outs(%{{.*}} : tensor<1x4x9xf32>)
// CHECK:         %[[P:.*]] = tensor.pad %[[W]] low[0, 0, 1] high[0, 0, 1]
// CHECK:         tensor.yield %{{.*}} : f32
// CHECK:         linalg.generic {{.*}} ins(%[[P]], %arg1 : tensor<1x4x11xf32>, tensor<6x4x3xbf16>)
func.func @padded(%x: tensor<1x4x9xbf16>, %w: tensor<6x4x3xbf16>) -> tensor<1x6x9xf32> {
  %zero = arith.constant 0.0 : f32
  %none = arith.constant 0.0 : bf16
  %q = tensor.pad %x low[0, 0, 1] high[0, 0, 1] {
  ^bb0(%d0: index, %d1: index, %d2: index):
    tensor.yield %none : bf16
  } : tensor<1x4x9xbf16> to tensor<1x4x11xbf16>
  %e = tensor.empty() : tensor<1x6x9xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x6x9xf32>) -> tensor<1x6x9xf32>
  %c = linalg.generic {indexing_maps = [#x, #w, #y],
      iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
      ins(%q, %w : tensor<1x4x11xbf16>, tensor<6x4x3xbf16>) outs(%z : tensor<1x6x9xf32>) {
  ^bb0(%a: bf16, %b: bf16, %acc: f32):
    %i = arith.extf %a : bf16 to f32
    %j = arith.extf %b : bf16 to f32
    %p = arith.mulf %i, %j : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x6x9xf32>
  return %c : tensor<1x6x9xf32>
}

// A target that multiplies bfloat16 reads rows of a product with a weight as they are.
// CHECK-LABEL: func.func @weight_of_pairs(
// CHECK:         ins(%{{.*}}, %arg1 : tensor<8x4xf32>, tensor<4x16xbf16>)
// PAIRS-LABEL: func.func @weight_of_pairs(
// PAIRS:         ins(%arg0, %arg1 : tensor<8x4xbf16>, tensor<4x16xbf16>)
func.func @weight_of_pairs(%x: tensor<8x4xbf16>, %y: tensor<4x16xbf16> {tw.param = "w"}) -> tensor<8x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<8x16xf32>) -> tensor<8x16xf32>
  %c = linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %y : tensor<8x4xbf16>, tensor<4x16xbf16>) outs(%z : tensor<8x16xf32>) {
  ^bb0(%a: bf16, %b: bf16, %acc: f32):
    %u = arith.extf %a : bf16 to f32
    %v = arith.extf %b : bf16 to f32
    %p = arith.mulf %u, %v : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  } -> tensor<8x16xf32>
  return %c : tensor<8x16xf32>
}
