// RUN: %opt %s --passes=pad-rows | filecheck %s

#id = affine_map<(i, j) -> (i, j)>
#lhs = affine_map<(m, n, k) -> (m, k)>
#rhs = affine_map<(m, n, k) -> (k, n)>
#out = affine_map<(m, n, k) -> (m, n)>

// Rows of 4 kB, made by an op, walked by a product: stored with a gap, through the view, for the other reader too.
// CHECK-LABEL: func.func @rows(
// CHECK:         %[[R:.*]] = linalg.generic
// CHECK:         %[[E:.*]] = tensor.empty() : tensor<16x1040xf32>
// CHECK:         %[[S:.*]] = tensor.insert_slice %[[R]] into %[[E]][0, 0] [16, 1024] [1, 1]
// CHECK:         %[[Q:.*]] = tensor.extract_slice %[[S]][0, 0] [16, 1024] [1, 1]
// CHECK:         %[[V:.*]] = tensor.expand_shape %[[S]] {{\[\[}}0, 1], [2]] output_shape [2, 8, 1040]
// CHECK:         %[[W:.*]] = tensor.collapse_shape %[[V]] {{\[\[}}0, 1], [2]] : tensor<2x8x1040xf32> into tensor<16x1040xf32>
// CHECK:         %[[P:.*]] = tensor.extract_slice %[[W]][0, 0] [16, 1024] [1, 1]
// CHECK:         linalg.generic {{.*}} ins(%[[P]], %{{.*}} : tensor<16x1024xf32>, tensor<1024x32xf32>)
// CHECK:         linalg.generic {{.*}} ins(%[[Q]] : tensor<16x1024xf32>)
func.func @rows(%x: tensor<16x1024xf32>, %p: tensor<1x1024x32xf32>) -> (tensor<16x32xf32>, tensor<16x1024xf32>) {
  %e = tensor.empty() : tensor<16x1024xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
    ins(%x : tensor<16x1024xf32>) outs(%e : tensor<16x1024xf32>) {
  ^bb0(%i: f32, %o: f32):
    %n = arith.negf %i : f32
    linalg.yield %n : f32
  } -> tensor<16x1024xf32>
  %v = tensor.expand_shape %r [[0, 1], [2]] output_shape [2, 8, 1024] : tensor<16x1024xf32> into tensor<2x8x1024xf32>
  %c = tensor.collapse_shape %v [[0, 1], [2]] : tensor<2x8x1024xf32> into tensor<16x1024xf32>
  %u = tensor.empty() : tensor<1024x32xf32>
  %w = linalg.unpack %p outer_dims_perm = [1, 0] inner_dims_pos = [1] inner_tiles = [32] into %u
    : tensor<1x1024x32xf32> -> tensor<1024x32xf32>
  %zero = arith.constant 0.0 : f32
  %f = tensor.empty() : tensor<16x32xf32>
  %z = linalg.fill ins(%zero : f32) outs(%f : tensor<16x32xf32>) -> tensor<16x32xf32>
  %y = linalg.generic {indexing_maps = [#lhs, #rhs, #out], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%c, %w : tensor<16x1024xf32>, tensor<1024x32xf32>) outs(%z : tensor<16x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %m fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<16x32xf32>
  %t = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
    ins(%r : tensor<16x1024xf32>) outs(%e : tensor<16x1024xf32>) {
  ^bb0(%i: f32, %o: f32):
    %n = math.absf %i : f32
    linalg.yield %n : f32
  } -> tensor<16x1024xf32>
  return %y, %t : tensor<16x32xf32>, tensor<16x1024xf32>
}

// Other lengths do not meet in one set, and what leaves the program lies there as it is.
// CHECK-LABEL: func.func @rejects(
// CHECK-NOT:     tensor.insert_slice
func.func @rejects(%x: tensor<16x1000xf32>, %p: tensor<1x1000x32xf32>, %l: tensor<16x1024xf32>, %q: tensor<1x1024x32xf32>)
    -> (tensor<16x32xf32>, tensor<16x32xf32>, tensor<16x1024xf32>) {
  %e = tensor.empty() : tensor<16x1000xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
    ins(%x : tensor<16x1000xf32>) outs(%e : tensor<16x1000xf32>) {
  ^bb0(%i: f32, %o: f32):
    %n = arith.negf %i : f32
    linalg.yield %n : f32
  } -> tensor<16x1000xf32>
  %u = tensor.empty() : tensor<1000x32xf32>
  %w = linalg.unpack %p outer_dims_perm = [1, 0] inner_dims_pos = [1] inner_tiles = [32] into %u
    : tensor<1x1000x32xf32> -> tensor<1000x32xf32>
  %zero = arith.constant 0.0 : f32
  %f = tensor.empty() : tensor<16x32xf32>
  %z = linalg.fill ins(%zero : f32) outs(%f : tensor<16x32xf32>) -> tensor<16x32xf32>
  %y = linalg.generic {indexing_maps = [#lhs, #rhs, #out], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%r, %w : tensor<16x1000xf32>, tensor<1000x32xf32>) outs(%z : tensor<16x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %m fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<16x32xf32>
  %g = tensor.empty() : tensor<16x1024xf32>
  %h = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
    ins(%l : tensor<16x1024xf32>) outs(%g : tensor<16x1024xf32>) {
  ^bb0(%i: f32, %o: f32):
    %n = arith.negf %i : f32
    linalg.yield %n : f32
  } -> tensor<16x1024xf32>
  %k = tensor.empty() : tensor<1024x32xf32>
  %j = linalg.unpack %q outer_dims_perm = [1, 0] inner_dims_pos = [1] inner_tiles = [32] into %k
    : tensor<1x1024x32xf32> -> tensor<1024x32xf32>
  %t = linalg.generic {indexing_maps = [#lhs, #rhs, #out], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%h, %j : tensor<16x1024xf32>, tensor<1024x32xf32>) outs(%z : tensor<16x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %m fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<16x32xf32>
  return %y, %t, %h : tensor<16x32xf32>, tensor<16x32xf32>, tensor<16x1024xf32>
}

// An input is copied for a product that makes much of each element, not for one of a few columns.
// CHECK-LABEL: func.func @inputs(
// CHECK:         %[[S:.*]] = tensor.insert_slice %arg0 into %{{.*}}[0, 0] [16, 1024] [1, 1] : tensor<16x1024xf32> into tensor<16x1040xf32>
// CHECK:         %[[Q:.*]] = tensor.extract_slice %[[S]][0, 0] [16, 1024] [1, 1]
// CHECK:         linalg.generic {{.*}} ins(%[[Q]], %{{.*}} : tensor<16x1024xf32>, tensor<1024x256xf32>)
// CHECK:         linalg.generic {{.*}} ins(%arg1, %{{.*}} : tensor<16x1024xf32>, tensor<1024x32xf32>)
func.func @inputs(%x: tensor<16x1024xf32>, %l: tensor<16x1024xf32>, %p: tensor<8x1024x32xf32>, %q: tensor<1x1024x32xf32>)
    -> (tensor<16x256xf32>, tensor<16x32xf32>) {
  %zero = arith.constant 0.0 : f32
  %u = tensor.empty() : tensor<1024x256xf32>
  %w = linalg.unpack %p outer_dims_perm = [1, 0] inner_dims_pos = [1] inner_tiles = [32] into %u
    : tensor<8x1024x32xf32> -> tensor<1024x256xf32>
  %f = tensor.empty() : tensor<16x256xf32>
  %z = linalg.fill ins(%zero : f32) outs(%f : tensor<16x256xf32>) -> tensor<16x256xf32>
  %y = linalg.generic {indexing_maps = [#lhs, #rhs, #out], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%x, %w : tensor<16x1024xf32>, tensor<1024x256xf32>) outs(%z : tensor<16x256xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %m fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<16x256xf32>
  %k = tensor.empty() : tensor<1024x32xf32>
  %j = linalg.unpack %q outer_dims_perm = [1, 0] inner_dims_pos = [1] inner_tiles = [32] into %k
    : tensor<1x1024x32xf32> -> tensor<1024x32xf32>
  %g = tensor.empty() : tensor<16x32xf32>
  %h = linalg.fill ins(%zero : f32) outs(%g : tensor<16x32xf32>) -> tensor<16x32xf32>
  %t = linalg.generic {indexing_maps = [#lhs, #rhs, #out], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%l, %j : tensor<16x1024xf32>, tensor<1024x32xf32>) outs(%h : tensor<16x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %m fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<16x32xf32>
  return %y, %t : tensor<16x256xf32>, tensor<16x32xf32>
}

// As many rows as only the run knows.
// CHECK-LABEL: func.func @open_rows(
// CHECK-SAME:    %[[N:[a-z0-9]+]]: index
// CHECK:         %[[R:.*]] = linalg.generic
// CHECK:         %[[E:.*]] = tensor.empty(%[[N]]) : tensor<?x1040xf32>
// CHECK:         %[[S:.*]] = tensor.insert_slice %[[R]] into %[[E]][0, 0] [%[[N]], 1024] [1, 1]
// CHECK:         %[[P:.*]] = tensor.extract_slice %[[S]][0, 0] [%[[N]], 1024] [1, 1]
// CHECK:         linalg.generic {{.*}} ins(%[[P]], %{{.*}} : tensor<?x1024xf32>, tensor<1024x32xf32>)
func.func @open_rows(%n: index, %x: tensor<?x1024xf32>, %p: tensor<1x1024x32xf32>) -> tensor<?x32xf32> {
  %e = tensor.empty(%n) : tensor<?x1024xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
    ins(%x : tensor<?x1024xf32>) outs(%e : tensor<?x1024xf32>) {
  ^bb0(%i: f32, %o: f32):
    %g = arith.negf %i : f32
    linalg.yield %g : f32
  } -> tensor<?x1024xf32>
  %u = tensor.empty() : tensor<1024x32xf32>
  %w = linalg.unpack %p outer_dims_perm = [1, 0] inner_dims_pos = [1] inner_tiles = [32] into %u
    : tensor<1x1024x32xf32> -> tensor<1024x32xf32>
  %zero = arith.constant 0.0 : f32
  %f = tensor.empty(%n) : tensor<?x32xf32>
  %z = linalg.fill ins(%zero : f32) outs(%f : tensor<?x32xf32>) -> tensor<?x32xf32>
  %y = linalg.generic {indexing_maps = [#lhs, #rhs, #out], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%r, %w : tensor<?x1024xf32>, tensor<1024x32xf32>) outs(%z : tensor<?x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %m fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<?x32xf32>
  return %y : tensor<?x32xf32>
}

// What reads a cast reads other extents than were made.
// CHECK-LABEL: func.func @cast(
// CHECK-NOT:     tensor.insert_slice
func.func @cast(%x: tensor<?x1024xf32>, %p: tensor<1x1024x32xf32>, %n: index) -> tensor<16x32xf32> {
  %e = tensor.empty(%n) : tensor<?x1024xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
    ins(%x : tensor<?x1024xf32>) outs(%e : tensor<?x1024xf32>) {
  ^bb0(%i: f32, %o: f32):
    %g = arith.negf %i : f32
    linalg.yield %g : f32
  } -> tensor<?x1024xf32>
  %c = tensor.cast %r : tensor<?x1024xf32> to tensor<16x1024xf32>
  %u = tensor.empty() : tensor<1024x32xf32>
  %w = linalg.unpack %p outer_dims_perm = [1, 0] inner_dims_pos = [1] inner_tiles = [32] into %u
    : tensor<1x1024x32xf32> -> tensor<1024x32xf32>
  %zero = arith.constant 0.0 : f32
  %f = tensor.empty() : tensor<16x32xf32>
  %z = linalg.fill ins(%zero : f32) outs(%f : tensor<16x32xf32>) -> tensor<16x32xf32>
  %y = linalg.generic {indexing_maps = [#lhs, #rhs, #out], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%c, %w : tensor<16x1024xf32>, tensor<1024x32xf32>) outs(%z : tensor<16x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %m fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<16x32xf32>
  return %y : tensor<16x32xf32>
}

#data = affine_map<(h, w, g, f, i, j, c) -> (h + i, w + j, g, c)>
#weight = affine_map<(h, w, g, f, i, j, c) -> (g, f, i, j, c)>
#image = affine_map<(h, w, g, f, i, j, c) -> (h, w, g, f)>
#strided = affine_map<(h, f, i, c) -> (h * 2 + i, c)>
#taps = affine_map<(h, f, i, c) -> (f, i, c)>
#made = affine_map<(h, f, i, c) -> (h, f)>

// A padding is made wider; of channels in groups there is one more group. A tile of one vector has twice the rows.
// CHECK-LABEL: func.func @groups(
// CHECK:         %[[P:.*]] = tensor.pad %arg0 low[1, 1, 0] high[1, 1, 16]
// CHECK:         %[[V:.*]] = tensor.expand_shape %[[P]] {{\[\[}}0], [1], [2, 3]] output_shape [16, 16, 33, 16]
// CHECK:         %[[Q:.*]] = tensor.extract_slice %[[V]][0, 0, 0, 0] [16, 16, 32, 16] [1, 1, 1, 1]
// CHECK:         linalg.generic {{.*}} ins(%[[Q]], %{{.*}} : tensor<16x16x32x16xf32>, tensor<32x16x3x3x16xf32>)
func.func @groups(%x: tensor<14x14x512xf32>, %p: tensor<32x1x3x3x16x16xf32>) -> tensor<14x14x32x16xf32> {
  %zero = arith.constant 0.0 : f32
  %d = tensor.pad %x low[1, 1, 0] high[1, 1, 0] {
  ^bb0(%i: index, %j: index, %k: index):
    tensor.yield %zero : f32
  } : tensor<14x14x512xf32> to tensor<16x16x512xf32>
  %v = tensor.expand_shape %d [[0], [1], [2, 3]] output_shape [16, 16, 32, 16] : tensor<16x16x512xf32> into tensor<16x16x32x16xf32>
  %u = tensor.empty() : tensor<32x16x3x3x16xf32>
  %w = linalg.unpack %p inner_dims_pos = [1] inner_tiles = [16] into %u : tensor<32x1x3x3x16x16xf32> -> tensor<32x16x3x3x16xf32>
  %f = tensor.empty() : tensor<14x14x32x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%f : tensor<14x14x32x16xf32>) -> tensor<14x14x32x16xf32>
  %y = linalg.generic {indexing_maps = [#data, #weight, #image],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%v, %w : tensor<16x16x32x16xf32>, tensor<32x16x3x3x16xf32>) outs(%z : tensor<14x14x32x16xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %m fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<14x14x32x16xf32>
  return %y : tensor<14x14x32x16xf32>
}

// Rows of 2 kB, of which a convolution walks each second one.
// CHECK-LABEL: func.func @stride(
// CHECK:         tensor.insert_slice %arg0 into %{{.*}}[0, 0] [33, 512] [1, 1] : tensor<33x512xf32> into tensor<33x528xf32>
func.func @stride(%x: tensor<33x512xf32>, %p: tensor<8x3x512x32xf32>) -> tensor<16x256xf32> {
  %zero = arith.constant 0.0 : f32
  %u = tensor.empty() : tensor<256x3x512xf32>
  %w = linalg.unpack %p outer_dims_perm = [0, 1, 2] inner_dims_pos = [0] inner_tiles = [32] into %u
    : tensor<8x3x512x32xf32> -> tensor<256x3x512xf32>
  %f = tensor.empty() : tensor<16x256xf32>
  %z = linalg.fill ins(%zero : f32) outs(%f : tensor<16x256xf32>) -> tensor<16x256xf32>
  %y = linalg.generic {indexing_maps = [#strided, #taps, #made], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
    ins(%x, %w : tensor<33x512xf32>, tensor<256x3x512xf32>) outs(%z : tensor<16x256xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %m fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<16x256xf32>
  return %y : tensor<16x256xf32>
}

// A product of no weight, whose rows are read for each of many tiles of columns.
// CHECK-LABEL: func.func @columns(
// CHECK:         tensor.insert_slice %arg0 into %{{.*}}[0, 0] [16, 1024] [1, 1] : tensor<16x1024xf32> into tensor<16x1040xf32>
func.func @columns(%x: tensor<16x1024xf32>, %w: tensor<1024x256xf32>) -> tensor<16x256xf32> {
  %zero = arith.constant 0.0 : f32
  %f = tensor.empty() : tensor<16x256xf32>
  %z = linalg.fill ins(%zero : f32) outs(%f : tensor<16x256xf32>) -> tensor<16x256xf32>
  %y = linalg.generic {indexing_maps = [#lhs, #rhs, #out], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%x, %w : tensor<16x1024xf32>, tensor<1024x256xf32>) outs(%z : tensor<16x256xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %m fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<16x256xf32>
  return %y : tensor<16x256xf32>
}

// Of few columns, a copy would cost more than it saves.
// CHECK-LABEL: func.func @few_columns(
// CHECK-NOT:     tensor.insert_slice
func.func @few_columns(%x: tensor<16x1024xf32>, %w: tensor<1024x128xf32>) -> tensor<16x128xf32> {
  %zero = arith.constant 0.0 : f32
  %f = tensor.empty() : tensor<16x128xf32>
  %z = linalg.fill ins(%zero : f32) outs(%f : tensor<16x128xf32>) -> tensor<16x128xf32>
  %y = linalg.generic {indexing_maps = [#lhs, #rhs, #out], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%x, %w : tensor<16x1024xf32>, tensor<1024x128xf32>) outs(%z : tensor<16x128xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %m fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<16x128xf32>
  return %y : tensor<16x128xf32>
}
