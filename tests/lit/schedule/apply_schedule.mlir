// RUN: %opt %s --passes=apply-schedule | filecheck %s

#matrix = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (j)>

// One row of the result is one step of the parallel axis.
// CHECK-LABEL: func.func @bias(
// CHECK-SAME:    %[[X:.*]]: memref<4x8xf32>, %[[B:.*]]: memref<8xf32>, %[[R:.*]]: memref<4x8xf32>, %[[LO:.*]]: index, %[[HI:.*]]: index)
// CHECK-SAME:    tw.extent = 4 : i64, tw.schedule = "parallel d0 in 4 x 1:\0A  for d1.0 in 1 x 8:\0A    tile d1.1 of 8: vectorize d1.1", tw.schedule_json = "{
// CHECK-NOT:     tw.parallel
// CHECK:         %[[XT:.*]] = bufferization.to_tensor %[[X]] restrict
// CHECK:         %[[BT:.*]] = bufferization.to_tensor %[[B]] restrict
// CHECK:         %[[RT:.*]] = bufferization.to_tensor %[[R]] restrict writable
// CHECK:         %[[LOOP:.*]] = scf.for %[[I:.*]] = %[[LO]] to %[[HI]] step %{{.*}} iter_args(%[[D:.*]] = %[[RT]])
// CHECK:           %[[SX:.*]] = tensor.extract_slice %[[XT]][%[[I]], 0] [1, 8] [1, 1]
// CHECK:           linalg.generic {{.*}} ins(%[[SX]], %[[BT]] : tensor<8xf32>, tensor<8xf32>)
// CHECK:           tensor.insert_slice %{{.*}} into %[[D]][%[[I]], 0] [1, 8] [1, 1]
// CHECK:         bufferization.materialize_in_destination %[[LOOP]] in restrict writable %[[R]]
func.func @bias(%x: tensor<4x8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
  %e = tensor.empty() : tensor<4x8xf32>
  %r = linalg.generic {indexing_maps = [#matrix, #row, #matrix], iterator_types = ["parallel", "parallel"]}
    ins(%x, %b : tensor<4x8xf32>, tensor<8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%v: f32, %u: f32, %o: f32):
    %s = arith.addf %v, %u : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}

// A row that the first cache does not hold is copied part by part, each to all of its places.
// CHECK-LABEL: func.func @copies(
// CHECK-SAME:    tw.schedule = "parallel d1.0 in 256 x 1024:\0A  for d0 in 3 x 1:\0A    for d1.1.0 in
func.func @copies(%x: tensor<262144xf32>) -> tensor<3x262144xf32> {
  %e = tensor.empty() : tensor<3x262144xf32>
  %r = linalg.generic {indexing_maps = [#row, #matrix], iterator_types = ["parallel", "parallel"]}
    ins(%x : tensor<262144xf32>) outs(%e : tensor<3x262144xf32>) {
  ^bb0(%v: f32, %o: f32):
    linalg.yield %v : f32
  } -> tensor<3x262144xf32>
  return %r : tensor<3x262144xf32>
}

// One that stays there is copied as a whole.
// CHECK-LABEL: func.func @short_copies(
// CHECK-SAME:    tw.schedule = "parallel d0*d1.0 in 3 x 1
func.func @short_copies(%x: tensor<2048xf32>) -> tensor<3x2048xf32> {
  %e = tensor.empty() : tensor<3x2048xf32>
  %r = linalg.generic {indexing_maps = [#row, #matrix], iterator_types = ["parallel", "parallel"]}
    ins(%x : tensor<2048xf32>) outs(%e : tensor<3x2048xf32>) {
  ^bb0(%v: f32, %o: f32):
    linalg.yield %v : f32
  } -> tensor<3x2048xf32>
  return %r : tensor<3x2048xf32>
}

// A strided convolution (channels last) becomes loops over its window around a matmul: the stride is in the slice.
// CHECK-LABEL: func.func @strided_conv(
// CHECK:         scf.for
// CHECK:           linalg.fill
// CHECK:           scf.for
// CHECK:             tensor.extract_slice %{{.*}} [{{.*}}, 5, 3] [{{.*}}, 2, 1] : tensor<11x11x3xf32>
// CHECK:             linalg.generic {{.*}} iterator_types = ["parallel", "parallel", {{.*}}"reduction"]}
// CHECK-SAME:          attrs =  {tw.role = "contract
func.func @strided_conv(%x: tensor<1x11x11x3xf32>, %w: tensor<3x3x3x4xf32>) -> tensor<1x5x5x4xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x5x5x4xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x5x5x4xf32>) -> tensor<1x5x5x4xf32>
  %r = linalg.generic {
    indexing_maps = [affine_map<(n, f, oh, ow, c, kh, kw) -> (n, oh * 2 + kh, ow * 2 + kw, c)>,
                     affine_map<(n, f, oh, ow, c, kh, kw) -> (kh, kw, c, f)>,
                     affine_map<(n, f, oh, ow, c, kh, kw) -> (n, oh, ow, f)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%x, %w : tensor<1x11x11x3xf32>, tensor<3x3x3x4xf32>) outs(%f : tensor<1x5x5x4xf32>) {
  ^bb0(%v: f32, %u: f32, %o: f32):
    %m = arith.mulf %v, %u fastmath<contract> : f32
    %s = arith.addf %o, %m fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x5x5x4xf32>
  return %r : tensor<1x5x5x4xf32>
}

#patch = affine_map<(p, q, n, s, t, c, i, j) -> (n, s * 2 + i, t * 2 + j, c)>
#patch_row = affine_map<(p, q, n, s, t, c, i, j) -> (p, i)>
#patch_column = affine_map<(p, q, n, s, t, c, i, j) -> (q, j)>
#transformed = affine_map<(p, q, n, s, t, c, i, j) -> (p, q, n, s, t, c)>
#product_left = affine_map<(p, q, n, s, t, f, c) -> (p, q, n, s, t, c)>
#product_right = affine_map<(p, q, n, s, t, f, c) -> (p, q, c, f)>
#product = affine_map<(p, q, n, s, t, f, c) -> (p, q, n, s, t, f)>
#tile = affine_map<(n, h, w, f, p, q) -> (p, q, n, h floordiv 2, w floordiv 2, f)>
#tile_row = affine_map<(n, h, w, f, p, q) -> (h mod 2, p)>
#tile_column = affine_map<(n, h, w, f, p, q) -> (w mod 2, q)>
#pixel = affine_map<(n, h, w, f, p, q) -> (n, h, w, f)>

// A convolution as products of transformed patches (`winograd`, here with 2x2 outputs of each patch): the transformed
// patches and their products are computed ahead of their readers, into buffers that they share.
// CHECK-LABEL: func.func @stages(
// CHECK-SAME:    tw.extent = 2 : i64, tw.parallel, tw.schedule = "parallel d1.0 in 2 x 2:\0A  stage %5:{{.*}}  for d3.0 in 2 x 16:\0A    stage %10:
// CHECK:         scf.for
// CHECK:           %[[VE:.*]] = tensor.empty() : tensor<4x4x30x16xf32>
// CHECK:           %[[V:.*]] = scf.for {{.*}} iter_args(%{{.*}} = %[[VE]])
// CHECK:             vector.transfer_read
// CHECK-NOT:         mulf
// CHECK:             vector.transfer_write
// CHECK:             tensor.insert_slice {{.*}} into tensor<4x4x30x16xf32>
// CHECK:           scf.for
// CHECK:             %[[M:.*]] = scf.for {{.*}} -> (tensor<4x4x30x16xf32>)
// CHECK:               %[[PATCHES:.*]] = tensor.extract_slice %[[V]][
// CHECK:               linalg.generic {{.*}} ins(%[[PATCHES]], %{{.*}} : tensor<30x16xf32>, tensor<16x16xf32>)
// CHECK-SAME:            attrs =  {tw.role = "contract2x1"}
// CHECK:             scf.for
// CHECK:               tensor.extract_slice %[[M]][
// CHECK:               vector.transfer_read
// CHECK-NOT:           mulf
// CHECK:               vector.transfer_write
func.func @stages(%x: tensor<1x6x62x16xf32>, %packed: tensor<2x4x4x16x16xf32>) -> tensor<1x4x60x32xf32> {
  %forth = arith.constant dense<[[1.0, 0.0, -1.0, 0.0], [0.0, 1.0, 1.0, 0.0], [0.0, -1.0, 1.0, 0.0], [0.0, 1.0, 0.0, -1.0]]> : tensor<4x4xf32>
  %back = arith.constant dense<[[1.0, 1.0, 1.0, 0.0], [0.0, 1.0, -1.0, -1.0]]> : tensor<2x4xf32>
  %zero = arith.constant 0.0 : f32
  %ve = tensor.empty() : tensor<4x4x1x2x30x16xf32>
  %vz = linalg.fill ins(%zero : f32) outs(%ve : tensor<4x4x1x2x30x16xf32>) -> tensor<4x4x1x2x30x16xf32>
  %v = linalg.generic {indexing_maps = [#patch, #patch_row, #patch_column, #transformed],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]}
    ins(%x, %forth, %forth : tensor<1x6x62x16xf32>, tensor<4x4xf32>, tensor<4x4xf32>) outs(%vz : tensor<4x4x1x2x30x16xf32>) {
  ^bb0(%d: f32, %a: f32, %b: f32, %o: f32):
    %ab = arith.mulf %a, %b : f32
    %p = arith.mulf %ab, %d : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  } -> tensor<4x4x1x2x30x16xf32>
  %ue = tensor.empty() : tensor<4x4x16x32xf32>
  %u = linalg.unpack %packed outer_dims_perm = [3, 0, 1, 2] inner_dims_pos = [3] inner_tiles = [16] into %ue
    : tensor<2x4x4x16x16xf32> -> tensor<4x4x16x32xf32>
  %me = tensor.empty() : tensor<4x4x1x2x30x32xf32>
  %mz = linalg.fill ins(%zero : f32) outs(%me : tensor<4x4x1x2x30x32xf32>) -> tensor<4x4x1x2x30x32xf32>
  %m = linalg.generic {indexing_maps = [#product_left, #product_right, #product],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "parallel", "reduction"]}
    ins(%v, %u : tensor<4x4x1x2x30x16xf32>, tensor<4x4x16x32xf32>) outs(%mz : tensor<4x4x1x2x30x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<4x4x1x2x30x32xf32>
  %ye = tensor.empty() : tensor<1x4x60x32xf32>
  %yz = linalg.fill ins(%zero : f32) outs(%ye : tensor<1x4x60x32xf32>) -> tensor<1x4x60x32xf32>
  %y = linalg.generic {indexing_maps = [#tile, #tile_row, #tile_column, #pixel],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]}
    ins(%m, %back, %back : tensor<4x4x1x2x30x32xf32>, tensor<2x4xf32>, tensor<2x4xf32>) outs(%yz : tensor<1x4x60x32xf32>) {
  ^bb0(%d: f32, %a: f32, %b: f32, %o: f32):
    %ab = arith.mulf %a, %b : f32
    %p = arith.mulf %ab, %d : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x4x60x32xf32>
  return %y : tensor<1x4x60x32xf32>
}

// A padding is made of boxes that are copied and filled; the fifth element of a row is written with the four before it.
// CHECK-LABEL: func.func @pad(
// CHECK-SAME:    %[[X:.*]]: memref<2x5xf32>, %[[R:.*]]: memref<4x7xf32>, %[[LO:.*]]: index, %[[HI:.*]]: index)
// CHECK-SAME:    tw.extent = 2 : i64, tw.schedule = "parallel in 2 shares:\0A  copy %arg0[0:, 0:] at [1, 0]: 2 x 5 in steps of 4, shared along d0\0A  fill at [1, 5]: 2 x 2
// CHECK:         scf.for
// CHECK:           %[[A:.*]] = vector.transfer_read {{.*}}[%[[I:.*]], %c0], {{.*}} vector<4xf32>
// CHECK:           vector.transfer_write %[[A]]
// CHECK:           vector.transfer_read {{.*}}[%[[I]], %c1], {{.*}} vector<4xf32>
// CHECK:           vector.transfer_write %{{.*}} : vector<2xf32>, memref<4x7xf32>
// CHECK:         scf.for
// CHECK:           vector.transfer_write %{{.*}} : vector<4xf32>, memref<4x7xf32>
func.func @pad(%x: tensor<2x5xf32>) -> tensor<4x7xf32> {
  %z = arith.constant 0.5 : f32
  %p = tensor.pad %x low[1, 0] high[1, 2] {
  ^bb0(%i: index, %j: index):
    tensor.yield %z : f32
  } : tensor<2x5xf32> to tensor<4x7xf32>
  return %p : tensor<4x7xf32>
}

// No family of schedules takes an insertion with steps: it stays whole, one thread runs it, and it says why.
// CHECK-LABEL: func.func @rejects_steps(
// CHECK-NOT:     tw.schedule
// CHECK-SAME:    attributes {tw.extent = 1 : i64, tw.reason = "{{.+}}"}
// CHECK-NOT:     scf.for
// CHECK:         tensor.insert_slice
func.func @rejects_steps(%x: tensor<2x3xf32>, %y: tensor<4x5xf32>) -> tensor<4x5xf32> {
  %r = tensor.insert_slice %x into %y[0, 1] [2, 3] [2, 1] : tensor<2x3xf32> into tensor<4x5xf32>
  return %r : tensor<4x5xf32>
}

// The plan lets the result be written over the operand: a tile is read before it is written.
// CHECK-LABEL: func.func @in_place(
// CHECK-SAME:    tw.in_place = array<i64: 0>, tw.schedule =
// CHECK-NOT:     bufferization.alloc_tensor
// CHECK:         scf.for
func.func @in_place(%x: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {tw.in_place = array<i64: 0>} {
  %e = tensor.empty() : tensor<4x8xf32>
  %r = linalg.generic {indexing_maps = [#matrix, #matrix], iterator_types = ["parallel", "parallel"]}
    ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%v: f32, %o: f32):
    %s = arith.negf %v : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}

// Ops that stand whole may find the result's memory in use before the last of them reads the operand: it is copied.
// CHECK-LABEL: func.func @rejects_in_place(
// CHECK-SAME:    %{{.*}}: memref<2x3xf32>, %[[X:.*]]: memref<4x5xf32>, %{{.*}}: memref<4x5xf32>,
// CHECK-SAME:    tw.in_place = array<i64: 1>
// CHECK:         %[[T:.*]] = bufferization.to_tensor %[[X]] restrict
// CHECK:         %[[C:.*]] = bufferization.alloc_tensor() copy(%[[T]])
// CHECK:         linalg.generic {{.*}} ins(%{{.*}}, %[[C]] : tensor<4x5xf32>, tensor<4x5xf32>)
func.func @rejects_in_place(%y: tensor<2x3xf32>, %x: tensor<4x5xf32>) -> tensor<4x5xf32>
    attributes {tw.in_place = array<i64: 1>} {
  %z = arith.constant 0.5 : f32
  %p = tensor.pad %y low[1, 0] high[1, 2] {
  ^bb0(%i: index, %j: index):
    tensor.yield %z : f32
  } : tensor<2x3xf32> to tensor<4x5xf32>
  %e = tensor.empty() : tensor<4x5xf32>
  %r = linalg.generic {indexing_maps = [#matrix, #matrix, #matrix], iterator_types = ["parallel", "parallel"]}
    ins(%p, %x : tensor<4x5xf32>, tensor<4x5xf32>) outs(%e : tensor<4x5xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<4x5xf32>
  return %r : tensor<4x5xf32>
}

// A product inside of a loop is a nest of its own; what the loop carries stays as it is, and so does an op of a few
// elements.
// CHECK-LABEL: func.func @recurrent(
// CHECK-SAME:    tw.parts = "loops around nests:
// CHECK:         scf.for %{{.*}} iter_args(%{{.*}} = %{{.*}}, %[[N:.*]] = %{{.*}}) -> (tensor<1x64xf32>, tensor<2xf32>)
// CHECK:           scf.for
// CHECK:             linalg.generic {{.*}} attrs = {{.*}}{tw.tile}
// CHECK:           linalg.generic {{.*}} attrs = {{.*}}{tw.tile}
// CHECK:             math.absf
// CHECK:           linalg.generic {indexing_maps = {{.*}} ins(%[[N]] : tensor<2xf32>)
// CHECK-NOT:         tw.tile
// CHECK:             math.absf
// CHECK:           scf.yield
func.func @recurrent(%x: tensor<1x64xf32>, %w: tensor<64x64xf32>, %n: tensor<2xf32>) -> (tensor<1x64xf32>, tensor<2xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 9 : index
  %zero = arith.constant 0.0 : f32
  %r:2 = scf.for %i = %c0 to %c9 step %c1 iter_args(%h = %x, %m = %n) -> (tensor<1x64xf32>, tensor<2xf32>) {
    %e = tensor.empty() : tensor<1x64xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x64xf32>) -> tensor<1x64xf32>
    %p = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, c)>, affine_map<(a, b, c) -> (c, b)>,
        affine_map<(a, b, c) -> (a, b)>], iterator_types = ["parallel", "parallel", "reduction"]}
        ins(%h, %w : tensor<1x64xf32>, tensor<64x64xf32>) outs(%f : tensor<1x64xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %q = arith.mulf %a, %b fastmath<contract> : f32
      %s = arith.addf %o, %q fastmath<contract> : f32
      linalg.yield %s : f32
    } -> tensor<1x64xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>],
        iterator_types = ["parallel", "parallel"]} ins(%p : tensor<1x64xf32>) outs(%e : tensor<1x64xf32>) {
    ^bb0(%a: f32, %o: f32):
      %q = math.absf %a : f32
      linalg.yield %q : f32
    } -> tensor<1x64xf32>
    %d = tensor.empty() : tensor<2xf32>
    %z = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>],
        iterator_types = ["parallel"]} ins(%m : tensor<2xf32>) outs(%d : tensor<2xf32>) {
    ^bb0(%a: f32, %o: f32):
      %q = math.absf %a : f32
      linalg.yield %q : f32
    } -> tensor<2xf32>
    scf.yield %y, %z : tensor<1x64xf32>, tensor<2xf32>
  }
  return %r#0, %r#1 : tensor<1x64xf32>, tensor<2xf32>
}
