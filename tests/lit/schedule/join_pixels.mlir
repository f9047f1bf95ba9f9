// RUN: %opt %s --target="x86 -mcpu=znver3" --passes=join-pixels | filecheck %s

#data = affine_map<(n, h, w, f, i, j, c) -> (n, h + i, w + j, c)>
#weight = affine_map<(n, h, w, f, i, j, c) -> (f, c, i, j)>
#result = affine_map<(n, h, w, f, i, j, c) -> (n, h, w, f)>
#all = affine_map<(n, h, w, f) -> (n, h, w, f)>
#channel = affine_map<(n, h, w, f) -> (f)>

// Lines of 7 pixels are tiles of 4 and of 3, which take as long; the image is tiles of 5. What is added walks the pixels,
// too, and rows of the input and of the result have a gap.
// CHECK:       #[[DATA:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1 + d3, d4)>
// CHECK:       #[[WEIGHT:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d2, d4, d3)>
// CHECK:       #[[RESULT:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>
// CHECK:       #[[ALL:.*]] = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
// CHECK:       #[[CHANNEL:.*]] = affine_map<(d0, d1, d2) -> (d2)>
// CHECK-LABEL: func.func @small(
// CHECK-SAME:    %[[W:.*]]: tensor<4x1x32x16xf32>, %[[X:.*]]: tensor<1x49x48xf32>, %[[B:.*]]: tensor<64xf32>, %[[Y:.*]]: tensor<1x49x64xf32>) -> tensor<1x49x80xf32>
// CHECK:         tensor.extract_slice %[[X]][0, 0, 0] [1, 49, 32] [1, 1, 1] : tensor<1x49x48xf32> to tensor<1x49x32xf32>
// CHECK:         linalg.unpack %[[W]] outer_dims_perm = [0, 2, 1] inner_dims_pos = [0] inner_tiles = [16] into %{{.*}} : tensor<4x1x32x16xf32> -> tensor<64x32x1xf32>
// CHECK:         linalg.generic {indexing_maps = [#[[DATA]], #[[WEIGHT]], #[[RESULT]]], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
// CHECK:         linalg.generic {indexing_maps = [#[[ALL]], #[[CHANNEL]], #[[ALL]], #[[ALL]]]
// CHECK:         tensor.insert_slice %{{.*}} into %{{.*}}[0, 0, 0] [1, 49, 64] [1, 1, 1] : tensor<1x49x64xf32> into tensor<1x49x80xf32>
func.func @small(%w: tensor<4x1x1x32x16xf32>, %x: tensor<1x7x7x48xf32>, %b: tensor<64xf32>, %y: tensor<1x7x7x64xf32>) -> tensor<1x7x7x80xf32> {
  %zero = arith.constant 0.0 : f32
  %s = tensor.extract_slice %x[0, 0, 0, 0] [1, 7, 7, 32] [1, 1, 1, 1] : tensor<1x7x7x48xf32> to tensor<1x7x7x32xf32>
  %e = tensor.empty() : tensor<1x7x7x64xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x7x7x64xf32>) -> tensor<1x7x7x64xf32>
  %d = tensor.empty() : tensor<64x32x1x1xf32>
  %u = linalg.unpack %w outer_dims_perm = [0, 2, 3, 1] inner_dims_pos = [0] inner_tiles = [16] into %d : tensor<4x1x1x32x16xf32> -> tensor<64x32x1x1xf32>
  %c = linalg.generic {indexing_maps = [#data, #weight, #result], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%s, %u : tensor<1x7x7x32xf32>, tensor<64x32x1x1xf32>) outs(%z : tensor<1x7x7x64xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %m = arith.mulf %p, %q fastmath<contract> : f32
    %a = arith.addf %o, %m fastmath<contract> : f32
    linalg.yield %a : f32
  } -> tensor<1x7x7x64xf32>
  %r = linalg.generic {indexing_maps = [#all, #channel, #all, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%c, %b, %y : tensor<1x7x7x64xf32>, tensor<64xf32>, tensor<1x7x7x64xf32>) outs(%e : tensor<1x7x7x64xf32>) {
  ^bb0(%p: f32, %q: f32, %t: f32, %o: f32):
    %a = arith.addf %p, %q : f32
    %v = arith.addf %a, %t : f32
    linalg.yield %v : f32
  } -> tensor<1x7x7x64xf32>
  %g = tensor.empty() : tensor<1x7x7x80xf32>
  %k = tensor.insert_slice %r into %g[0, 0, 0, 0] [1, 7, 7, 64] [1, 1, 1, 1] : tensor<1x7x7x64xf32> into tensor<1x7x7x80xf32>
  return %k : tensor<1x7x7x80xf32>
}

// Between lines that are stored with padding around them no tile goes on.
// CHECK-LABEL: func.func @padded(
// CHECK-SAME:    tensor<4x1x1x32x16xf32>, %{{.*}}: tensor<1x7x7x32xf32>) -> tensor<1x9x9x64xf32>
func.func @padded(%w: tensor<4x1x1x32x16xf32>, %x: tensor<1x7x7x32xf32>) -> tensor<1x9x9x64xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x7x7x64xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x7x7x64xf32>) -> tensor<1x7x7x64xf32>
  %d = tensor.empty() : tensor<64x32x1x1xf32>
  %u = linalg.unpack %w outer_dims_perm = [0, 2, 3, 1] inner_dims_pos = [0] inner_tiles = [16] into %d : tensor<4x1x1x32x16xf32> -> tensor<64x32x1x1xf32>
  %c = linalg.generic {indexing_maps = [#data, #weight, #result], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%x, %u : tensor<1x7x7x32xf32>, tensor<64x32x1x1xf32>) outs(%z : tensor<1x7x7x64xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %m = arith.mulf %p, %q fastmath<contract> : f32
    %a = arith.addf %o, %m fastmath<contract> : f32
    linalg.yield %a : f32
  } -> tensor<1x7x7x64xf32>
  %r = tensor.pad %c low[0, 1, 1, 0] high[0, 1, 1, 0] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %zero : f32
  } : tensor<1x7x7x64xf32> to tensor<1x9x9x64xf32>
  return %r : tensor<1x9x9x64xf32>
}

// Lines of 14 pixels are whole tiles.
// CHECK-LABEL: func.func @whole(
// CHECK-SAME:    tensor<4x1x1x32x16xf32>, %{{.*}}: tensor<1x14x14x32xf32>)
func.func @whole(%w: tensor<4x1x1x32x16xf32>, %x: tensor<1x14x14x32xf32>) -> tensor<1x14x14x64xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x14x14x64xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x14x14x64xf32>) -> tensor<1x14x14x64xf32>
  %d = tensor.empty() : tensor<64x32x1x1xf32>
  %u = linalg.unpack %w outer_dims_perm = [0, 2, 3, 1] inner_dims_pos = [0] inner_tiles = [16] into %d : tensor<4x1x1x32x16xf32> -> tensor<64x32x1x1xf32>
  %c = linalg.generic {indexing_maps = [#data, #weight, #result], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%x, %u : tensor<1x14x14x32xf32>, tensor<64x32x1x1xf32>) outs(%z : tensor<1x14x14x64xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %m = arith.mulf %p, %q fastmath<contract> : f32
    %a = arith.addf %o, %m fastmath<contract> : f32
    linalg.yield %a : f32
  } -> tensor<1x14x14x64xf32>
  return %c : tensor<1x14x14x64xf32>
}
