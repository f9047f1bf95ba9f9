// RUN: %opt %s --passes=narrow-products,dead-code --target "x86 -mcpu=znver4" | filecheck %s
// RUN: %opt %s --passes=narrow-products,dead-code --target "x86 -mcpu=icelake-server" | filecheck %s --check-prefix=WIDE

#mk = affine_map<(m, n, k) -> (m, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(i, j) -> (i, j)>

// Both operands are read as they are, where the target multiplies bfloat16.
// CHECK-LABEL: func.func @main(
// CHECK:         linalg.generic {{.*}} ins(%arg0, %arg1 : tensor<8x4xbf16>, tensor<4x16xbf16>)
// CHECK-COUNT-2:   arith.extf %{{.*}} : bf16 to f32
// CHECK-NEXT:      arith.mulf
// WIDE-LABEL:  func.func @main(
// WIDE:          ins(%{{.*}}, %{{.*}} : tensor<8x4xf32>, tensor<4x16xf32>)
func.func @main(%x: tensor<8x4xbf16> {tw.name = "x"}, %w: tensor<4x16xbf16> {tw.param = "w"}, %v: tensor<4x16xbf16> {tw.name = "v"}) -> (tensor<8x16xf32>, tensor<8x16xf32>) {
  %zero = arith.constant 0.0 : f32
  %ex = tensor.empty() : tensor<8x4xf32>
  %wx = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x4xbf16>) outs(%ex : tensor<8x4xf32>) {
  ^bb0(%a: bf16, %o: f32):
    %t = arith.extf %a : bf16 to f32
    linalg.yield %t : f32
  } -> tensor<8x4xf32>
  %ew = tensor.empty() : tensor<4x16xf32>
  %ww = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%w : tensor<4x16xbf16>) outs(%ew : tensor<4x16xf32>) {
  ^bb0(%a: bf16, %o: f32):
    %t = arith.extf %a : bf16 to f32
    linalg.yield %t : f32
  } -> tensor<4x16xf32>
  %wv = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%v : tensor<4x16xbf16>) outs(%ew : tensor<4x16xf32>) {
  ^bb0(%a: bf16, %o: f32):
    %t = arith.extf %a : bf16 to f32
    linalg.yield %t : f32
  } -> tensor<4x16xf32>
  %e = tensor.empty() : tensor<8x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<8x16xf32>) -> tensor<8x16xf32>
  %c = linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%wx, %ww : tensor<8x4xf32>, tensor<4x16xf32>) outs(%z : tensor<8x16xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %acc, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<8x16xf32>
  // Two operands that the run makes are multiplied as float32: nobody brings their steps together.
  // CHECK:         ins(%{{.*}}, %{{.*}} : tensor<8x4xf32>, tensor<4x16xf32>)
  %d = linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%wx, %wv : tensor<8x4xf32>, tensor<4x16xf32>) outs(%z : tensor<8x16xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %acc, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<8x16xf32>
  return %c, %d : tensor<8x16xf32>, tensor<8x16xf32>
}
