// RUN: %opt %s --passes=skip-padding | filecheck %s

#data = affine_map<(h, w, f, i, j, c) -> (h + i * 2, w + j * 2, c)>
#weight = affine_map<(h, w, f, i, j, c) -> (f, c, i, j)>
#image = affine_map<(h, w, f, i, j, c) -> (h, w, f)>

// Of three rows of a window two lie in the padding, for four rows of pixels in eight: these are left out. The columns are
// stored with their padding; the kernel may leave out what lies there.
// CHECK-LABEL: func.func @rows(
// CHECK:         %[[Q:.*]] = tensor.pad %arg0 low[0, 2, 0] high[0, 2, 16]
// CHECK:         } : tensor<8x8x8xf32> to tensor<8x12x24xf32>
// CHECK:         %[[S:.*]] = tensor.extract_slice %[[Q]][0, 0, 0] [8, 12, 8] [1, 1, 1]
// CHECK:         %[[P:.*]] = tensor.pad %[[S]] low[2, 0, 0] high[2, 0, 0]
// CHECK:         linalg.generic {{.*}} ins(%[[P]], %{{.*}} : tensor<12x12x8xf32>, tensor<32x8x3x3xf32>)
// CHECK-SAME:    attrs = {tw.image_columns = array<i64: 2, 8>}
func.func @rows(%x: tensor<8x8x8xf32>, %p: tensor<1x3x3x8x32xf32>) -> tensor<8x8x32xf32> {
  %zero = arith.constant 0.0 : f32
  %d = tensor.pad %x low[2, 2, 0] high[2, 2, 16] {
  ^bb0(%i: index, %j: index, %k: index):
    tensor.yield %zero : f32
  } : tensor<8x8x8xf32> to tensor<12x12x24xf32>
  %v = tensor.extract_slice %d[0, 0, 0] [12, 12, 8] [1, 1, 1] : tensor<12x12x24xf32> to tensor<12x12x8xf32>
  %u = tensor.empty() : tensor<32x8x3x3xf32>
  %w = linalg.unpack %p outer_dims_perm = [0, 2, 3, 1] inner_dims_pos = [0] inner_tiles = [32] into %u
    : tensor<1x3x3x8x32xf32> -> tensor<32x8x3x3xf32>
  %f = tensor.empty() : tensor<8x8x32xf32>
  %z = linalg.fill ins(%zero : f32) outs(%f : tensor<8x8x32xf32>) -> tensor<8x8x32xf32>
  %y = linalg.generic {indexing_maps = [#data, #weight, #image],
      iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%v, %w : tensor<12x12x8xf32>, tensor<32x8x3x3xf32>) outs(%z : tensor<8x8x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %m fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<8x8x32xf32>
  return %y : tensor<8x8x32xf32>
}

// A padding of other numbers counts, and one that the program returns is needed.
// CHECK-LABEL: func.func @rejects(
// CHECK:         tensor.pad %arg0 low[2, 2, 0] high[2, 2, 0]
// CHECK:         tensor.pad %arg0 low[2, 2, 0] high[2, 2, 0]
// CHECK-NOT:     tensor.pad
// CHECK-NOT:     tw.image_columns
func.func @rejects(%x: tensor<8x8x8xf32>, %p: tensor<1x3x3x8x32xf32>)
    -> (tensor<8x8x32xf32>, tensor<8x8x32xf32>, tensor<12x12x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %c = tensor.pad %x low[2, 2, 0] high[2, 2, 0] {
  ^bb0(%i: index, %j: index, %k: index):
    tensor.yield %one : f32
  } : tensor<8x8x8xf32> to tensor<12x12x8xf32>
  %d = tensor.pad %x low[2, 2, 0] high[2, 2, 0] {
  ^bb0(%i: index, %j: index, %k: index):
    tensor.yield %zero : f32
  } : tensor<8x8x8xf32> to tensor<12x12x8xf32>
  %u = tensor.empty() : tensor<32x8x3x3xf32>
  %w = linalg.unpack %p outer_dims_perm = [0, 2, 3, 1] inner_dims_pos = [0] inner_tiles = [32] into %u
    : tensor<1x3x3x8x32xf32> -> tensor<32x8x3x3xf32>
  %f = tensor.empty() : tensor<8x8x32xf32>
  %z = linalg.fill ins(%zero : f32) outs(%f : tensor<8x8x32xf32>) -> tensor<8x8x32xf32>
  %y = linalg.generic {indexing_maps = [#data, #weight, #image],
      iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%c, %w : tensor<12x12x8xf32>, tensor<32x8x3x3xf32>) outs(%z : tensor<8x8x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %m fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<8x8x32xf32>
  %t = linalg.generic {indexing_maps = [#data, #weight, #image],
      iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%d, %w : tensor<12x12x8xf32>, tensor<32x8x3x3xf32>) outs(%z : tensor<8x8x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %m fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<8x8x32xf32>
  return %y, %t, %d : tensor<8x8x32xf32>, tensor<8x8x32xf32>, tensor<12x12x8xf32>
}

// A window of one element has no loop that could leave it out.
// CHECK-LABEL: func.func @rejects_single_pixels(
// CHECK:         tensor.pad %arg0 low[0, 2, 0] high[4, 2, 0]
// CHECK-NOT:     tensor.pad
// CHECK-NOT:     tw.image_columns
func.func @rejects_single_pixels(%x: tensor<8x8x8xf32>, %p: tensor<1x1x1x8x32xf32>) -> tensor<12x12x32xf32> {
  %zero = arith.constant 0.0 : f32
  %c = tensor.pad %x low[0, 2, 0] high[4, 2, 0] {
  ^bb0(%i: index, %j: index, %k: index):
    tensor.yield %zero : f32
  } : tensor<8x8x8xf32> to tensor<12x12x8xf32>
  %u = tensor.empty() : tensor<32x8x1x1xf32>
  %w = linalg.unpack %p outer_dims_perm = [0, 2, 3, 1] inner_dims_pos = [0] inner_tiles = [32] into %u
    : tensor<1x1x1x8x32xf32> -> tensor<32x8x1x1xf32>
  %f = tensor.empty() : tensor<12x12x32xf32>
  %z = linalg.fill ins(%zero : f32) outs(%f : tensor<12x12x32xf32>) -> tensor<12x12x32xf32>
  %y = linalg.generic {indexing_maps = [#data, #weight, #image],
      iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%c, %w : tensor<12x12x8xf32>, tensor<32x8x1x1xf32>) outs(%z : tensor<12x12x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %m fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<12x12x32xf32>
  return %y : tensor<12x12x32xf32>
}
