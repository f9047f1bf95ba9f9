// RUN: %opt %s "--target=x86 -mcpu=haswell" --passes=winograd | filecheck %s --check-prefix=AVX2
// RUN: %opt %s "--target=x86 -mcpu=skylake-avx512" --passes=winograd | filecheck %s --check-prefix=AVX512
// RUN: %opt %s "--target=x86 -mcpu=znver4" --passes=winograd | filecheck %s --check-prefix=AVX2
// RUN: %opt %s "--target=x86 -mcpu=sapphirerapids" --passes=winograd | filecheck %s --check-prefix=AMX

#image = affine_map<(n, f, h, w, c, i, j) -> (n, h + i, w + j, c)>
#steps = affine_map<(n, f, h, w, c, i, j) -> (n, h * 2 + i, w * 2 + j, c)>
#filter = affine_map<(n, f, h, w, c, i, j) -> (f, c, i, j)>
#out = affine_map<(n, f, h, w, c, i, j) -> (n, h, w, f)>
#types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]

// Of narrow vectors products take longer beside the reading of filters: fewer products of more filters are faster. Zen 4
// takes wide ones in halves.
// AVX2-LABEL:   func.func @few_patches(
// AVX2:         tensor<6x6x1x4x4x128xf32>
// AVX512-LABEL: func.func @few_patches(
// AVX512:       tensor<4x4x1x7x7x128xf32>
func.func @few_patches(%x: tensor<1x16x16x128xf32>, %w: tensor<128x128x3x3xf32> {tw.param = "w"}) -> tensor<1x14x14x128xf32> {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x14x14x128xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<1x14x14x128xf32>) -> tensor<1x14x14x128xf32>
  %y = linalg.generic {indexing_maps = [#image, #filter, #out], iterator_types = #types}
    ins(%x, %w : tensor<1x16x16x128xf32>, tensor<128x128x3x3xf32>) outs(%z : tensor<1x14x14x128xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x14x14x128xf32>
  return %y : tensor<1x14x14x128xf32>
}

// Filters that grow to 49 values from 9 would be transformed in each run: `split-prepare` keeps none so large.
// AVX2-LABEL:   func.func @large_filters(
// AVX2-NOT:     tensor<7x7x
// AVX2:         return
// AVX512-LABEL: func.func @large_filters(
// AVX512-NOT:   tensor<7x7x
// AVX512:       return
func.func @large_filters(%x: tensor<1x113x113x64xf32>, %w: tensor<128x64x3x3xf32> {tw.param = "w"}) -> tensor<1x56x56x128xf32> {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x56x56x128xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<1x56x56x128xf32>) -> tensor<1x56x56x128xf32>
  %y = linalg.generic {indexing_maps = [#steps, #filter, #out], iterator_types = #types}
    ins(%x, %w : tensor<1x113x113x64xf32>, tensor<128x64x3x3xf32>) outs(%z : tensor<1x56x56x128xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x56x56x128xf32>
  return %y : tensor<1x56x56x128xf32>
}

// In steps of two there are two thirds of the products. In parts of bfloat16 all of them take less time than that.
// AVX512-LABEL: func.func @in_parts(
// AVX512:       tensor<5x5x1x14x14x64xf32>
// AMX-LABEL:    func.func @in_parts(
// AMX-NOT:      tensor<5x5x
// AMX:          return
func.func @in_parts(%x: tensor<1x57x57x64xf32>, %w: tensor<128x64x3x3xf32> {tw.param = "w"}) -> tensor<1x28x28x128xf32> {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x28x28x128xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<1x28x28x128xf32>) -> tensor<1x28x28x128xf32>
  %y = linalg.generic {indexing_maps = [#steps, #filter, #out], iterator_types = #types}
    ins(%x, %w : tensor<1x57x57x64xf32>, tensor<128x64x3x3xf32>) outs(%z : tensor<1x28x28x128xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x28x28x128xf32>
  return %y : tensor<1x28x28x128xf32>
}
