// RUN: %opt %s "--target=x86 -mcpu=skylake-avx512" --passes=winograd | filecheck %s

#image = affine_map<(n, f, h, w, c, i, j) -> (n, h + i, w + j, c)>
#filter = affine_map<(n, f, h, w, c, i, j) -> (f, c, i, j)>
#out = affine_map<(n, f, h, w, c, i, j) -> (n, h, w, f)>
#types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]

// Of many channels the run chooses between 4x4 outputs and 2x2: of the others no rows are asked for.
// CHECK-LABEL: func.func @many_channels(
// CHECK:       %[[LARGE:.*]] = arith.cmpi uge, %{{.*}}, %{{.*}} : index
// CHECK-DAG:   arith.select %[[LARGE]], %{{.*}}, %{{.*}} : index
// CHECK:       outs(%{{.*}} : tensor<6x6x1x?x?x512xf32>)
// CHECK:       outs(%{{.*}} : tensor<4x4x1x?x?x512xf32>)
// CHECK:       %[[WHOLE:.*]] = arith.select %[[LARGE]], %{{.*}}, %{{.*}} : tensor<1x?x?x512xf32>
// CHECK:       tensor.extract_slice %[[WHOLE]]
func.func @many_channels(%x: tensor<1x?x?x512xf32>, %w: tensor<512x512x3x3xf32> {tw.param = "w"}, %height: index, %width: index) -> tensor<1x?x?x512xf32> {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty(%height, %width) : tensor<1x?x?x512xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<1x?x?x512xf32>) -> tensor<1x?x?x512xf32>
  %y = linalg.generic {indexing_maps = [#image, #filter, #out], iterator_types = #types}
    ins(%x, %w : tensor<1x?x?x512xf32>, tensor<512x512x3x3xf32>) outs(%z : tensor<1x?x?x512xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x?x?x512xf32>
  return %y : tensor<1x?x?x512xf32>
}

// Of few channels networks have large images: 4x4 outputs for all.
// CHECK-LABEL: func.func @few_channels(
// CHECK-NOT:   arith.select
// CHECK:       outs(%{{.*}} : tensor<6x6x1x?x?x64xf32>)
// CHECK-NOT:   arith.select
// CHECK:       return
func.func @few_channels(%x: tensor<1x?x?x64xf32>, %w: tensor<64x64x3x3xf32> {tw.param = "w"}, %height: index, %width: index) -> tensor<1x?x?x64xf32> {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty(%height, %width) : tensor<1x?x?x64xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<1x?x?x64xf32>) -> tensor<1x?x?x64xf32>
  %y = linalg.generic {indexing_maps = [#image, #filter, #out], iterator_types = #types}
    ins(%x, %w : tensor<1x?x?x64xf32>, tensor<64x64x3x3xf32>) outs(%z : tensor<1x?x?x64xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x?x?x64xf32>
  return %y : tensor<1x?x?x64xf32>
}

// A view that splits the channels of the pixels that are asked for splits those of whole patches. One that splits rows
// stays behind the slice.
// CHECK-LABEL: func.func @split_channels(
// CHECK:       %[[W:.*]] = tensor.expand_shape %{{.*}} {{\[\[}}0], [1], [2], [3, 4]] {{.*}} : tensor<1x?x?x64xf32> into tensor<1x?x?x4x16xf32>
// CHECK:       %[[S:.*]] = tensor.extract_slice %[[W]]
// CHECK:       return %[[S]]
func.func @split_channels(%x: tensor<1x?x?x64xf32>, %w: tensor<64x64x3x3xf32> {tw.param = "w"}, %height: index, %width: index) -> tensor<1x?x?x4x16xf32> {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty(%height, %width) : tensor<1x?x?x64xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<1x?x?x64xf32>) -> tensor<1x?x?x64xf32>
  %y = linalg.generic {indexing_maps = [#image, #filter, #out], iterator_types = #types}
    ins(%x, %w : tensor<1x?x?x64xf32>, tensor<64x64x3x3xf32>) outs(%z : tensor<1x?x?x64xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x?x?x64xf32>
  %v = tensor.expand_shape %y [[0], [1], [2], [3, 4]] output_shape [1, %height, %width, 4, 16] : tensor<1x?x?x64xf32> into tensor<1x?x?x4x16xf32>
  return %v : tensor<1x?x?x4x16xf32>
}

// CHECK-LABEL: func.func @rejects_split_rows(
// CHECK:       %[[S:.*]] = tensor.extract_slice
// CHECK:       tensor.expand_shape %[[S]]
func.func @rejects_split_rows(%x: tensor<1x?x?x64xf32>, %w: tensor<64x64x3x3xf32> {tw.param = "w"}, %height: index, %width: index, %half: index) -> tensor<1x?x2x?x64xf32> {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty(%height, %width) : tensor<1x?x?x64xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<1x?x?x64xf32>) -> tensor<1x?x?x64xf32>
  %y = linalg.generic {indexing_maps = [#image, #filter, #out], iterator_types = #types}
    ins(%x, %w : tensor<1x?x?x64xf32>, tensor<64x64x3x3xf32>) outs(%z : tensor<1x?x?x64xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x?x?x64xf32>
  %v = tensor.expand_shape %y [[0], [1, 2], [3], [4]] output_shape [1, %half, 2, %width, 64] : tensor<1x?x?x64xf32> into tensor<1x?x2x?x64xf32>
  return %v : tensor<1x?x2x?x64xf32>
}
