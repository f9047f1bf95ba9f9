// RUN: %opt %s "--target=x86 -mcpu=sapphirerapids" --passes=skip-padding | filecheck %s --check-prefix=AMX
// RUN: %opt %s "--target=x86 -mcpu=skylake-avx512" --passes=skip-padding | filecheck %s --check-prefix=VECTORS

#data = affine_map<(h, w, f, i, j, c) -> (h + i * 2, w + j * 2, c)>
#weight = affine_map<(h, w, f, i, j, c) -> (f, c, i, j)>
#image = affine_map<(h, w, f, i, j, c) -> (h, w, f)>

// Registers of matrices have pixels of several rows, which no part of a window may leave out.
// AMX-LABEL:     func.func @matrices(
// AMX:           %[[P:.*]] = tensor.pad %arg0 low[2, 2, 0] high[2, 2, 0]
// AMX:           linalg.generic {{.*}} ins(%[[P]], %{{.*}} : tensor<24x32x32xf32>, tensor<64x32x3x3xf32>)
// VECTORS-LABEL: func.func @matrices(
// VECTORS:       tensor.pad %arg0 low[0, 2, 0] high[0, 2, 0]
// VECTORS:       tensor.pad %{{.*}} low[2, 0, 0] high[2, 0, 0]
func.func @matrices(%x: tensor<20x28x32xf32>, %p: tensor<2x3x3x32x32xf32>) -> tensor<20x28x64xf32> {
  %zero = arith.constant 0.0 : f32
  %d = tensor.pad %x low[2, 2, 0] high[2, 2, 0] {
  ^bb0(%i: index, %j: index, %k: index):
    tensor.yield %zero : f32
  } : tensor<20x28x32xf32> to tensor<24x32x32xf32>
  %u = tensor.empty() : tensor<64x32x3x3xf32>
  %w = linalg.unpack %p outer_dims_perm = [0, 2, 3, 1] inner_dims_pos = [0] inner_tiles = [32] into %u
    : tensor<2x3x3x32x32xf32> -> tensor<64x32x3x3xf32>
  %f = tensor.empty() : tensor<20x28x64xf32>
  %z = linalg.fill ins(%zero : f32) outs(%f : tensor<20x28x64xf32>) -> tensor<20x28x64xf32>
  %y = linalg.generic {indexing_maps = [#data, #weight, #image],
      iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%d, %w : tensor<24x32x32xf32>, tensor<64x32x3x3xf32>) outs(%z : tensor<20x28x64xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %m fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<20x28x64xf32>
  return %y : tensor<20x28x64xf32>
}
