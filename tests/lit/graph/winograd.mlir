// RUN: %opt %s "--passes=winograd{everywhere=true outputs=4}" | filecheck %s
// RUN: %opt %s "--passes=winograd{everywhere=true outputs=3}" | filecheck %s --check-prefix=THREE
// RUN: %opt %s --passes=winograd | filecheck %s --check-prefix=PAYS

// The convolution's loops (n, f, h, w, c, i, j) on data with the channels last.
#image = affine_map<(n, f, h, w, c, i, j) -> (n, h + i, w + j, c)>
#filter = affine_map<(n, f, h, w, c, i, j) -> (f, c, i, j)>
#out = affine_map<(n, f, h, w, c, i, j) -> (n, h, w, f)>
#convolution = {indexing_maps = [#image, #filter, #out],
                iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}

// Filters and patches are transformed, 36 batched products are summed over the channels, and 4x4 outputs come of them.
// CHECK-DAG:   #[[PATCH:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d2, d3 * 4 + d6, d4 * 4 + d7, d5)>
// CHECK-DAG:   #[[TILE:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d4, d5, d0, d1 floordiv 4, d2 floordiv 4, d3)>
// CHECK-DAG:   #[[ROW:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d1 mod 4, d4)>
// CHECK-DAG:   #[[COLUMN:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d2 mod 4, d5)>
// CHECK-LABEL: func.func @accepts(
// CHECK:       %[[W:.*]] = linalg.generic {{.*}} ins(%arg1 : tensor<32x16x3x3xf32>) {{.*}}tensor<3x3x16x32xf32>
// CHECK:       %[[U:.*]] = linalg.generic {{.*}} ins(%[[W]], %{{.*}}, %{{.*}} : tensor<3x3x16x32xf32>, tensor<6x3xf32>, tensor<6x3xf32>)
// CHECK:       %[[V:.*]] = linalg.generic {indexing_maps = [#[[PATCH]], {{.*}} ins(%arg0, %{{.*}} : tensor<2x14x10x16xf32>, tensor<6x6xf32>, tensor<6x6xf32>)
// CHECK:       %[[M:.*]] = linalg.generic {{.*}} ins(%[[V]], %[[U]] : tensor<6x6x2x3x2x16xf32>, tensor<6x6x16x32xf32>)
// CHECK:       %[[Y:.*]] = linalg.generic {indexing_maps = [#[[TILE]], #[[ROW]], #[[COLUMN]], {{.*}} ins(%[[M]], {{.*}}tensor<4x6xf32>, tensor<4x6xf32>)
// CHECK:       return %[[Y]] : tensor<2x12x8x32xf32>
func.func @accepts(%x: tensor<2x14x10x16xf32>, %w: tensor<32x16x3x3xf32> {tw.param = "w"}) -> tensor<2x12x8x32xf32> {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x12x8x32xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<2x12x8x32xf32>) -> tensor<2x12x8x32xf32>
  %y = linalg.generic #convolution ins(%x, %w : tensor<2x14x10x16xf32>, tensor<32x16x3x3xf32>) outs(%z : tensor<2x12x8x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<2x12x8x32xf32>
  return %y : tensor<2x12x8x32xf32>
}

// Whole patches: a padding with zeros that is there grows, to rows and columns of 2 x 4 + 2.
// CHECK-LABEL: func.func @grows_the_padding(
// CHECK:       %[[P:.*]] = tensor.pad %arg0 low[0, 1, 1, 0] high[0, 2, 4, 0]
// CHECK:       tensor<1x7x5x16xf32> to tensor<1x10x10x16xf32>
// CHECK-NOT:   tensor.pad
// CHECK:       linalg.generic {indexing_maps = [#[[PATCH]], {{.*}} ins(%[[P]], 
func.func @grows_the_padding(%x: tensor<1x7x5x16xf32>, %w: tensor<32x16x3x3xf32> {tw.param = "w"}) -> tensor<1x7x5x32xf32> {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x7x5x32xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<1x7x5x32xf32>) -> tensor<1x7x5x32xf32>
  %padded = tensor.pad %x low[0, 1, 1, 0] high[0, 1, 1, 0] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %c : f32
  } : tensor<1x7x5x16xf32> to tensor<1x9x7x16xf32>
  %y = linalg.generic #convolution ins(%padded, %w : tensor<1x9x7x16xf32>, tensor<32x16x3x3xf32>) outs(%z : tensor<1x7x5x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x7x5x32xf32>
  return %y : tensor<1x7x5x32xf32>
}

// Another padding stays, and zeros come behind it.
// CHECK-LABEL: func.func @keeps_a_padding_with_ones(
// CHECK:       %[[ONES:.*]] = tensor.pad %arg0 low[0, 1, 1, 0] high[0, 1, 1, 0]
// CHECK:       tensor.pad %[[ONES]] low[0, 0, 0, 0] high[0, 2, 2, 0]
// CHECK:       linalg.generic {indexing_maps = [#[[PATCH]], 
func.func @keeps_a_padding_with_ones(%x: tensor<1x6x6x16xf32>, %w: tensor<32x16x3x3xf32> {tw.param = "w"}) -> tensor<1x6x6x32xf32> {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x6x6x32xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<1x6x6x32xf32>) -> tensor<1x6x6x32xf32>
  %one = arith.constant 1.0 : f32
  %padded = tensor.pad %x low[0, 1, 1, 0] high[0, 1, 1, 0] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %one : f32
  } : tensor<1x6x6x16xf32> to tensor<1x8x8x16xf32>
  %y = linalg.generic #convolution ins(%padded, %w : tensor<1x8x8x16xf32>, tensor<32x16x3x3xf32>) outs(%z : tensor<1x6x6x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x6x6x32xf32>
  return %y : tensor<1x6x6x32xf32>
}

// Steps of two: what the even taps and what the odd ones make of 7x7 patches, of which 3x3 outputs come. Steps of three
// would leave parts of one tap. Of the data the last column is in no window.
// THREE-LABEL: func.func @strides(
// THREE:       %[[P:.*]] = tensor.pad %arg0 low[0, 0, 0, 0] high[0, 0, 3, 0]
// THREE:       tensor<1x13x10x16xf32> to tensor<1x13x13x16xf32>
// THREE:       linalg.generic {{.*}} ins(%[[P]], %{{.*}}, %{{.*}} : tensor<1x13x13x16xf32>, tensor<7x7xf32>, tensor<7x7xf32>) outs(%{{.*}} : tensor<7x7x1x2x2x16xf32>)
// THREE-LABEL: func.func @rejects_stride(
// THREE-NOT:   tensor<7x
// THREE:       return
func.func @strides(%x: tensor<1x13x10x16xf32>, %w: tensor<32x16x3x3xf32> {tw.param = "w"}) -> tensor<1x6x4x32xf32> {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x6x4x32xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<1x6x4x32xf32>) -> tensor<1x6x4x32xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(n, f, h, w, c, i, j) -> (n, h * 2 + i, w * 2 + j, c)>, #filter, #out],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%x, %w : tensor<1x13x10x16xf32>, tensor<32x16x3x3xf32>) outs(%z : tensor<1x6x4x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x6x4x32xf32>
  return %y : tensor<1x6x4x32xf32>
}

func.func @rejects_stride(%x: tensor<1x18x12x16xf32>, %w: tensor<32x16x3x3xf32> {tw.param = "w"}) -> tensor<1x6x4x32xf32> {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x6x4x32xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<1x6x4x32xf32>) -> tensor<1x6x4x32xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(n, f, h, w, c, i, j) -> (n, h * 3 + i, w * 3 + j, c)>, #filter, #out],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%x, %w : tensor<1x18x12x16xf32>, tensor<32x16x3x3xf32>) outs(%z : tensor<1x6x4x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x6x4x32xf32>
  return %y : tensor<1x6x4x32xf32>
}

// A dilated window.
// CHECK-LABEL: func.func @rejects_dilation(
// CHECK-NOT:   tensor<6x
// CHECK:       return
func.func @rejects_dilation(%x: tensor<1x12x12x16xf32>, %w: tensor<32x16x3x3xf32> {tw.param = "w"}) -> tensor<1x8x8x32xf32> {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x8x8x32xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<1x8x8x32xf32>) -> tensor<1x8x8x32xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(n, f, h, w, c, i, j) -> (n, h + i * 2, w + j * 2, c)>, #filter, #out],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%x, %w : tensor<1x12x12x16xf32>, tensor<32x16x3x3xf32>) outs(%z : tensor<1x8x8x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x8x8x32xf32>
  return %y : tensor<1x8x8x32xf32>
}

// Larger windows have other matrices.
// CHECK-LABEL: func.func @rejects_window(
// CHECK-NOT:   tensor<6x
// CHECK:       return
func.func @rejects_window(%x: tensor<1x14x14x16xf32>, %w: tensor<32x16x7x7xf32> {tw.param = "w"}) -> tensor<1x8x8x32xf32> {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x8x8x32xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<1x8x8x32xf32>) -> tensor<1x8x8x32xf32>
  %y = linalg.generic #convolution ins(%x, %w : tensor<1x14x14x16xf32>, tensor<32x16x7x7xf32>) outs(%z : tensor<1x8x8x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x8x8x32xf32>
  return %y : tensor<1x8x8x32xf32>
}

// A filter that comes with each call is transformed with each call.
// CHECK-LABEL: func.func @activation(
// CHECK:       tensor<6x6x16x32xf32>
// CHECK:       return
func.func @activation(%x: tensor<1x10x10x16xf32>, %w: tensor<32x16x3x3xf32> {tw.name = "w"}) -> tensor<1x8x8x32xf32> {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x8x8x32xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<1x8x8x32xf32>) -> tensor<1x8x8x32xf32>
  %y = linalg.generic #convolution ins(%x, %w : tensor<1x10x10x16xf32>, tensor<32x16x3x3xf32>) outs(%z : tensor<1x8x8x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x8x8x32xf32>
  return %y : tensor<1x8x8x32xf32>
}

// Vectors lie along the channels: `convert-layout` comes before.
// CHECK-LABEL: func.func @rejects_channels_first(
// CHECK-NOT:   tensor<6x
// CHECK:       return
func.func @rejects_channels_first(%x: tensor<1x16x10x10xf32>, %w: tensor<32x16x3x3xf32> {tw.param = "w"}) -> tensor<1x32x8x8xf32> {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x32x8x8xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<1x32x8x8xf32>) -> tensor<1x32x8x8xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(n, f, h, w, c, i, j) -> (n, c, h + i, w + j)>, #filter,
                                        affine_map<(n, f, h, w, c, i, j) -> (n, f, h, w)>],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%x, %w : tensor<1x16x10x10xf32>, tensor<32x16x3x3xf32>) outs(%z : tensor<1x32x8x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x32x8x8xf32>
  return %y : tensor<1x32x8x8xf32>
}

// The error is one for float32.
// CHECK-LABEL: func.func @rejects_float64(
// CHECK-NOT:   tensor<6x
// CHECK:       return
func.func @rejects_float64(%x: tensor<1x10x10x16xf64>, %w: tensor<32x16x3x3xf64> {tw.param = "w"}) -> tensor<1x8x8x32xf64> {
  %c = arith.constant 0.0 : f64
  %e = tensor.empty() : tensor<1x8x8x32xf64>
  %z = linalg.fill ins(%c : f64) outs(%e : tensor<1x8x8x32xf64>) -> tensor<1x8x8x32xf64>
  %y = linalg.generic #convolution ins(%x, %w : tensor<1x10x10x16xf64>, tensor<32x16x3x3xf64>) outs(%z : tensor<1x8x8x32xf64>) {
  ^bb0(%a: f64, %b: f64, %o: f64):
    %p = arith.mulf %a, %b fastmath<contract> : f64
    %s = arith.addf %o, %p fastmath<contract> : f64
    linalg.yield %s : f64
  } -> tensor<1x8x8x32xf64>
  return %y : tensor<1x8x8x32xf64>
}

// An odd number of filters grows to whole vectors, as the last one would be a scalar; a slice of the result is left.
// CHECK-LABEL: func.func @odd_filters(
// CHECK:       : tensor<3x3x16x31xf32> to tensor<3x3x16x32xf32>
// CHECK:       tensor.extract_slice {{.*}} : tensor<1x8x8x32xf32> to tensor<1x8x8x31xf32>
// CHECK:       return
func.func @odd_filters(%x: tensor<1x10x10x16xf32>, %w: tensor<31x16x3x3xf32> {tw.param = "w"}) -> tensor<1x8x8x31xf32> {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x8x8x31xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<1x8x8x31xf32>) -> tensor<1x8x8x31xf32>
  %y = linalg.generic #convolution ins(%x, %w : tensor<1x10x10x16xf32>, tensor<31x16x3x3xf32>) outs(%z : tensor<1x8x8x31xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x8x8x31xf32>
  return %y : tensor<1x8x8x31xf32>
}

// Sums that begin with something else than zero.
// CHECK-LABEL: func.func @rejects_other_start(
// CHECK-NOT:   tensor<6x
// CHECK:       return
func.func @rejects_other_start(%x: tensor<1x10x10x16xf32>, %w: tensor<32x16x3x3xf32> {tw.param = "w"}) -> tensor<1x8x8x32xf32> {
  %c = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<1x8x8x32xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<1x8x8x32xf32>) -> tensor<1x8x8x32xf32>
  %y = linalg.generic #convolution ins(%x, %w : tensor<1x10x10x16xf32>, tensor<32x16x3x3xf32>) outs(%z : tensor<1x8x8x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x8x8x32xf32>
  return %y : tensor<1x8x8x32xf32>
}

// Data of which only a part is read: patches would go past what is theirs.
// CHECK-LABEL: func.func @rejects_part_of_the_rows(
// CHECK-NOT:   tensor<6x
// CHECK:       return
func.func @rejects_part_of_the_rows(%x: tensor<1x12x10x16xf32>, %w: tensor<32x16x3x3xf32> {tw.param = "w"}) -> tensor<1x8x8x32xf32> {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x8x8x32xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<1x8x8x32xf32>) -> tensor<1x8x8x32xf32>
  %y = linalg.generic #convolution ins(%x, %w : tensor<1x12x10x16xf32>, tensor<32x16x3x3xf32>) outs(%z : tensor<1x8x8x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x8x8x32xf32>
  return %y : tensor<1x8x8x32xf32>
}

// A grouped convolution.
// CHECK-LABEL: func.func @rejects_groups(
// CHECK-NOT:   tensor<6x
// CHECK:       return
func.func @rejects_groups(%x: tensor<1x10x10x2x16xf32>, %w: tensor<2x32x16x3x3xf32> {tw.param = "w"}) -> tensor<1x8x8x2x32xf32> {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x8x8x2x32xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<1x8x8x2x32xf32>) -> tensor<1x8x8x2x32xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(n, g, f, h, w, c, i, j) -> (n, h + i, w + j, g, c)>, affine_map<(n, g, f, h, w, c, i, j) -> (g, f, c, i, j)>,
                                        affine_map<(n, g, f, h, w, c, i, j) -> (n, h, w, g, f)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%x, %w : tensor<1x10x10x2x16xf32>, tensor<2x32x16x3x3xf32>) outs(%z : tensor<1x8x8x2x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x8x8x2x32xf32>
  return %y : tensor<1x8x8x2x32xf32>
}

// What it costs and saves decides: many pixels and channels pay, four channels are all transform, and filters for one
// patch take longer to read than the direct sum takes.
// PAYS-LABEL: func.func @pays(
// PAYS:       tensor<6x6x
// PAYS:       return
func.func @pays(%x: tensor<1x30x30x64xf32>, %w: tensor<64x64x3x3xf32> {tw.param = "w"}) -> tensor<1x28x28x64xf32> {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x28x28x64xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<1x28x28x64xf32>) -> tensor<1x28x28x64xf32>
  %y = linalg.generic #convolution ins(%x, %w : tensor<1x30x30x64xf32>, tensor<64x64x3x3xf32>) outs(%z : tensor<1x28x28x64xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x28x28x64xf32>
  return %y : tensor<1x28x28x64xf32>
}

// PAYS-LABEL: func.func @rejects_few_channels(
// PAYS-NOT:   tensor<6x
// PAYS:       return
func.func @rejects_few_channels(%x: tensor<1x30x30x4xf32>, %w: tensor<4x4x3x3xf32> {tw.param = "w"}) -> tensor<1x28x28x4xf32> {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x28x28x4xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<1x28x28x4xf32>) -> tensor<1x28x28x4xf32>
  %y = linalg.generic #convolution ins(%x, %w : tensor<1x30x30x4xf32>, tensor<4x4x3x3xf32>) outs(%z : tensor<1x28x28x4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x28x28x4xf32>
  return %y : tensor<1x28x28x4xf32>
}

// PAYS-LABEL: func.func @rejects_few_pixels(
// PAYS-NOT:   tensor<6x
// PAYS:       return
func.func @rejects_few_pixels(%x: tensor<1x6x6x256xf32>, %w: tensor<256x256x3x3xf32> {tw.param = "w"}) -> tensor<1x4x4x256xf32> {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x4x4x256xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<1x4x4x256xf32>) -> tensor<1x4x4x256xf32>
  %y = linalg.generic #convolution ins(%x, %w : tensor<1x6x6x256xf32>, tensor<256x256x3x3xf32>) outs(%z : tensor<1x4x4x256xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x4x4x256xf32>
  return %y : tensor<1x4x4x256xf32>
}

// Reading filters of 6x6 takes longer than the sums: patches of 4x4.
// PAYS-LABEL: func.func @pays_in_small_patches(
// PAYS:       tensor<4x4x
// PAYS:       return
func.func @pays_in_small_patches(%x: tensor<1x9x9x512xf32>, %w: tensor<512x512x3x3xf32> {tw.param = "w"}) -> tensor<1x7x7x512xf32> {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x7x7x512xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<1x7x7x512xf32>) -> tensor<1x7x7x512xf32>
  %y = linalg.generic #convolution ins(%x, %w : tensor<1x9x9x512xf32>, tensor<512x512x3x3xf32>) outs(%z : tensor<1x7x7x512xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x7x7x512xf32>
  return %y : tensor<1x7x7x512xf32>
}

// As many images as only the run knows; zeros around them that are inserted into a filled tensor grow too.
// CHECK-LABEL: func.func @images(
// CHECK-SAME:    %[[N:[a-z0-9]+]]: index
// CHECK:       tensor.empty(%[[N]]) : tensor<?x10x6x16xf32>
// CHECK:       %[[P:.*]] = tensor.insert_slice %arg1 into %{{.*}}[0, 1, 1, 0] [%{{.*}}, 5, 3, 16] [1, 1, 1, 1]
// CHECK:       linalg.generic {{.*}} ins(%[[P]], %{{.*}} : tensor<?x10x6x16xf32>, tensor<6x6xf32>, tensor<6x6xf32>) {{.*}}tensor<6x6x?x2x1x16xf32>
func.func @images(%n: index, %x: tensor<?x5x3x16xf32>, %w: tensor<32x16x3x3xf32> {tw.param = "w"}) -> tensor<?x5x3x32xf32> {
  %c = arith.constant 0.0 : f32
  %d = tensor.empty(%n) : tensor<?x7x5x16xf32>
  %f = linalg.fill ins(%c : f32) outs(%d : tensor<?x7x5x16xf32>) -> tensor<?x7x5x16xf32>
  %i = tensor.insert_slice %x into %f[0, 1, 1, 0] [%n, 5, 3, 16] [1, 1, 1, 1] : tensor<?x5x3x16xf32> into tensor<?x7x5x16xf32>
  %e = tensor.empty(%n) : tensor<?x5x3x32xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<?x5x3x32xf32>) -> tensor<?x5x3x32xf32>
  %y = linalg.generic #convolution ins(%i, %w : tensor<?x7x5x16xf32>, tensor<32x16x3x3xf32>) outs(%z : tensor<?x5x3x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<?x5x3x32xf32>
  return %y : tensor<?x5x3x32xf32>
}

// Of open height and width whole patches are made, of which a slice is left; what is elementwise is made of them too.
// CHECK-LABEL: func.func @open_images(
// CHECK:       %[[V:.*]] = linalg.generic {{.*}}tensor<6x6x1x?x2x16xf32>
// CHECK:       %[[Y:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<1x?x5x32xf32>)
// CHECK-NOT:   tensor.extract_slice
// CHECK:       %[[R:.*]] = linalg.generic {{.*}} ins(%{{.*}} : tensor<1x?x5x32xf32>)
// CHECK:       %[[S:.*]] = tensor.extract_slice %[[R]][0, 0, 0, 0] [1, %{{.*}}, 5, 32] [1, 1, 1, 1]
// CHECK:       return %[[S]]
func.func @open_images(%h: index, %g: index, %x: tensor<1x?x7x16xf32>, %w: tensor<32x16x3x3xf32> {tw.param = "w"}) -> tensor<1x?x5x32xf32> {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty(%h) : tensor<1x?x5x32xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<1x?x5x32xf32>) -> tensor<1x?x5x32xf32>
  %y = linalg.generic #convolution ins(%x, %w : tensor<1x?x7x16xf32>, tensor<32x16x3x3xf32>) outs(%z : tensor<1x?x5x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x?x5x32xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, h, w, f) -> (n, h, w, f)>, affine_map<(n, h, w, f) -> (n, h, w, f)>],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%y : tensor<1x?x5x32xf32>) outs(%e : tensor<1x?x5x32xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.maximumf %a, %c : f32
    linalg.yield %m : f32
  } -> tensor<1x?x5x32xf32>
  return %r : tensor<1x?x5x32xf32>
}

// Along one axis: 8 values of each 4 outputs; the other axis has one column, which is left out of the result.
// CHECK-LABEL: func.func @one_axis(
// CHECK:       %[[X:.*]] = tensor.pad %arg0 low[0, 0, 0] high[0, 2, 0]
// CHECK:       %[[E:.*]] = tensor.expand_shape %[[X]] {{.*}} : tensor<2x16x16xf32> into tensor<2x16x1x16xf32>
// CHECK:       %[[V:.*]] = linalg.generic {{.*}} ins(%[[E]], %{{.*}} : tensor<2x16x1x16xf32>, tensor<8x8xf32>, tensor<1x1xf32>)
// CHECK:       %[[M:.*]] = linalg.generic {{.*}} ins(%[[V]], %{{.*}} : tensor<8x1x2x3x1x16xf32>, tensor<8x1x16x32xf32>)
// CHECK:       %[[Y:.*]] = linalg.generic {{.*}} ins(%[[M]], {{.*}}tensor<4x8xf32>, tensor<1x1xf32>)
// CHECK:       tensor.collapse_shape %[[Y]] {{.*}} : tensor<2x10x1x32xf32> into tensor<2x10x32xf32>
func.func @one_axis(%x: tensor<2x14x16xf32>, %w: tensor<32x16x5xf32> {tw.param = "w"}) -> tensor<2x10x32xf32> {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x10x32xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<2x10x32xf32>) -> tensor<2x10x32xf32>
  %y = linalg.generic {
    indexing_maps = [affine_map<(n, f, h, c, i) -> (n, h + i, c)>, affine_map<(n, f, h, c, i) -> (f, c, i)>,
                     affine_map<(n, f, h, c, i) -> (n, h, f)>],
    iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]
  } ins(%x, %w : tensor<2x14x16xf32>, tensor<32x16x5xf32>) outs(%z : tensor<2x10x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<2x10x32xf32>
  return %y : tensor<2x10x32xf32>
}

// A sound of open length gives whole patches; what is elementwise is computed of these, and a slice of it is left.
// CHECK-LABEL: func.func @open_sound(
// CHECK:       %[[Y:.*]] = linalg.generic {{.*}}tensor<4x8xf32>, tensor<1x1xf32>) outs(%{{.*}} : tensor<1x?x1x32xf32>)
// CHECK:       %[[W:.*]] = tensor.collapse_shape %[[Y]] {{.*}} : tensor<1x?x1x32xf32> into tensor<1x?x32xf32>
// CHECK:       %[[R:.*]] = linalg.generic {{.*}} ins(%[[W]] : tensor<1x?x32xf32>)
// CHECK:       tensor.extract_slice %[[R]][0, 0, 0] [1, %{{.*}}, 32] [1, 1, 1]
func.func @open_sound(%l: index, %x: tensor<1x?x16xf32>, %w: tensor<32x16x5xf32> {tw.param = "w"}) -> tensor<1x?x32xf32> {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty(%l) : tensor<1x?x32xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<1x?x32xf32>) -> tensor<1x?x32xf32>
  %y = linalg.generic {
    indexing_maps = [affine_map<(n, f, h, c, i) -> (n, h + i, c)>, affine_map<(n, f, h, c, i) -> (f, c, i)>,
                     affine_map<(n, f, h, c, i) -> (n, h, f)>],
    iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]
  } ins(%x, %w : tensor<1x?x16xf32>, tensor<32x16x5xf32>) outs(%z : tensor<1x?x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x?x32xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, h, f) -> (n, h, f)>, affine_map<(n, h, f) -> (n, h, f)>],
                       iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%y : tensor<1x?x32xf32>) outs(%e : tensor<1x?x32xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.maximumf %a, %c : f32
    linalg.yield %m : f32
  } -> tensor<1x?x32xf32>
  return %r : tensor<1x?x32xf32>
}
