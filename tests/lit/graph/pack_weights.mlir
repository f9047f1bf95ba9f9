// RUN: %opt %s --passes=pack-weights{n_tile=16} | filecheck %s

// The second operand of a contraction, padded to whole blocks.
// CHECK-LABEL: func.func @matmul
// CHECK:       %[[PACK:.*]] = linalg.pack %arg1 padding_value({{.*}} : f32) outer_dims_perm = [1, 0] inner_dims_pos = [1]
// CHECK-SAME:    inner_tiles = [16] into {{.*}} : tensor<8x20xf32> -> tensor<2x8x16xf32>
// CHECK:       %[[UNPACK:.*]] = linalg.unpack %[[PACK]] outer_dims_perm = [1, 0] inner_dims_pos = [1] inner_tiles = [16]
// CHECK:       linalg.generic {{.*}} ins(%arg0, %[[UNPACK]] : tensor<4x8xf32>, tensor<8x20xf32>)
func.func @matmul(%x: tensor<4x8xf32>, %w: tensor<8x20xf32> {tw.param = "w"}) -> tensor<4x20xf32> {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x20xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<4x20xf32>) -> tensor<4x20xf32>
  %m = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
                                        affine_map<(m, n, k) -> (m, n)>],
                       iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%x, %w : tensor<4x8xf32>, tensor<8x20xf32>) outs(%z : tensor<4x20xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<4x20xf32>
  return %m : tensor<4x20xf32>
}

// A convolution's weight: blocks of output channels, then the window, then the input channels.
// CHECK-LABEL: func.func @conv
// CHECK:       linalg.pack %arg1 outer_dims_perm = [0, 2, 1] inner_dims_pos = [0] inner_tiles = [16]
// CHECK-SAME:    tensor<32x5x3xf32> -> tensor<2x3x5x16xf32>
func.func @conv(%x: tensor<1x6x5xf32>, %w: tensor<32x5x3xf32> {tw.param = "w"}, %z: tensor<1x4x32xf32>) -> tensor<1x4x32xf32> {
  %m = linalg.generic {indexing_maps = [affine_map<(n, h, f, i, c) -> (n, h + i, c)>, affine_map<(n, h, f, i, c) -> (f, c, i)>,
                                        affine_map<(n, h, f, i, c) -> (n, h, f)>],
                       iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
    ins(%x, %w : tensor<1x6x5xf32>, tensor<32x5x3xf32>) outs(%z : tensor<1x4x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x4x32xf32>
  return %m : tensor<1x4x32xf32>
}

// One that is computed in each run is copied in each run, by a transpose.
// CHECK-LABEL: func.func @computed_filters
// CHECK-NOT:   linalg.pack
// CHECK:       %[[ROWS:.*]] = tensor.expand_shape %arg1 {{.*}} : tensor<32x5x3xf32> into tensor<2x16x5x3xf32>
// CHECK:       %[[PACK:.*]] = linalg.generic {{.*}} ins(%[[ROWS]] : tensor<2x16x5x3xf32>) outs({{.*}} : tensor<2x3x5x16xf32>)
// CHECK:       linalg.unpack %[[PACK]] outer_dims_perm = [0, 2, 1] inner_dims_pos = [0] inner_tiles = [16]
func.func @computed_filters(%x: tensor<1x6x5xf32>, %w: tensor<32x5x3xf32> {tw.name = "w"}, %z: tensor<1x4x32xf32>) -> tensor<1x4x32xf32> {
  %m = linalg.generic {indexing_maps = [affine_map<(n, h, f, i, c) -> (n, h + i, c)>, affine_map<(n, h, f, i, c) -> (f, c, i)>,
                                        affine_map<(n, h, f, i, c) -> (n, h, f)>],
                       iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
    ins(%x, %w : tensor<1x6x5xf32>, tensor<32x5x3xf32>) outs(%z : tensor<1x4x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x4x32xf32>
  return %m : tensor<1x4x32xf32>
}

// A batched contraction's weight: blocks of columns, then the batch, so that a block holds what one step of it reads.
// CHECK-LABEL: func.func @batched
// CHECK:       linalg.pack %arg1 padding_value({{.*}} : f32) outer_dims_perm = [3, 0, 1, 2] inner_dims_pos = [3] inner_tiles = [16]
// CHECK-SAME:    tensor<6x6x8x20xf32> -> tensor<2x6x6x8x16xf32>
// CHECK:       %[[UNPACK:.*]] = linalg.unpack
// CHECK:       linalg.generic {{.*}} ins(%arg0, %[[UNPACK]] : tensor<6x6x4x8xf32>, tensor<6x6x8x20xf32>)
func.func @batched(%x: tensor<6x6x4x8xf32>, %w: tensor<6x6x8x20xf32> {tw.param = "w"}, %z: tensor<6x6x4x20xf32>) -> tensor<6x6x4x20xf32> {
  %m = linalg.generic {indexing_maps = [affine_map<(p, q, m, n, k) -> (p, q, m, k)>, affine_map<(p, q, m, n, k) -> (p, q, k, n)>,
                                        affine_map<(p, q, m, n, k) -> (p, q, m, n)>],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
    ins(%x, %w : tensor<6x6x4x8xf32>, tensor<6x6x8x20xf32>) outs(%z : tensor<6x6x4x20xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<6x6x4x20xf32>
  return %m : tensor<6x6x4x20xf32>
}

// A weight with two dims of columns: there is no one dim to block.
// CHECK-LABEL: func.func @rejects_two_columns
// CHECK-NOT:   linalg.pack
// CHECK:       return
func.func @rejects_two_columns(%x: tensor<4x8xf32>, %w: tensor<8x5x20xf32> {tw.param = "w"}, %z: tensor<4x5x20xf32>) -> tensor<4x5x20xf32> {
  %m = linalg.generic {indexing_maps = [affine_map<(m, h, n, k) -> (m, k)>, affine_map<(m, h, n, k) -> (k, h, n)>,
                                        affine_map<(m, h, n, k) -> (m, h, n)>],
                       iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
    ins(%x, %w : tensor<4x8xf32>, tensor<8x5x20xf32>) outs(%z : tensor<4x5x20xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<4x5x20xf32>
  return %m : tensor<4x5x20xf32>
}

// An operand that is computed from the input is no weight.
// CHECK-LABEL: func.func @rejects_activation
// CHECK-NOT:   linalg.pack
// CHECK:       return
func.func @rejects_activation(%x: tensor<4x8xf32>, %y: tensor<8x16xf32> {tw.name = "y"}, %z: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %m = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
                                        affine_map<(m, n, k) -> (m, n)>],
                       iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%x, %y : tensor<4x8xf32>, tensor<8x16xf32>) outs(%z : tensor<4x16xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<4x16xf32>
  return %m : tensor<4x16xf32>
}

// A sum of scaled sums over blocks: its weight's bytes and scales go in blocks of columns, which come last.
// CHECK-LABEL: func.func @blocks
// CHECK:       %[[BYTES:.*]] = linalg.pack %arg1 {{.*}} outer_dims_perm = [2, 0, 1] inner_dims_pos = [2] inner_tiles = [16]
// CHECK:       %[[NUMBERS:.*]] = linalg.unpack %[[BYTES]] {{.*}} : tensor<2x2x4x16xi8> -> tensor<2x4x20xi8>
// CHECK:       %[[SUMS:.*]] = linalg.generic {{.*}} ins(%arg0, %[[NUMBERS]] :
// CHECK:       %[[SCALES:.*]] = linalg.pack %arg2 {{.*}} outer_dims_perm = [1, 0] inner_dims_pos = [1] inner_tiles = [16]
// CHECK:       %[[FACTORS:.*]] = linalg.unpack %[[SCALES]] {{.*}} : tensor<2x2x16xf32> -> tensor<2x20xf32>
// CHECK:       linalg.generic {{.*}} ins(%[[SUMS]], %[[FACTORS]] :
func.func @blocks(%x: tensor<3x2x4xf32>, %q: tensor<2x4x20xi8> {tw.param = "q"}, %s: tensor<2x20xf32> {tw.param = "s"})
    -> tensor<3x20xf32> {
  %c = arith.constant 0.0 : f32
  %pe = tensor.empty() : tensor<2x3x20xf32>
  %pz = linalg.fill ins(%c : f32) outs(%pe : tensor<2x3x20xf32>) -> tensor<2x3x20xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(m, n, b, j) -> (m, b, j)>, affine_map<(m, n, b, j) -> (b, j, n)>,
                                        affine_map<(m, n, b, j) -> (b, m, n)>],
                       iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
    ins(%x, %q : tensor<3x2x4xf32>, tensor<2x4x20xi8>) outs(%pz : tensor<2x3x20xf32>) {
  ^bb0(%a: f32, %b: i8, %o: f32):
    %f = arith.sitofp %b : i8 to f32
    %m = arith.mulf %a, %f fastmath<contract> : f32
    %t = arith.addf %o, %m fastmath<contract> : f32
    linalg.yield %t : f32
  } -> tensor<2x3x20xf32>
  %ye = tensor.empty() : tensor<3x20xf32>
  %yz = linalg.fill ins(%c : f32) outs(%ye : tensor<3x20xf32>) -> tensor<3x20xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(m, n, b) -> (b, m, n)>, affine_map<(m, n, b) -> (b, n)>,
                                        affine_map<(m, n, b) -> (m, n)>],
                       iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%p, %s : tensor<2x3x20xf32>, tensor<2x20xf32>) outs(%yz : tensor<3x20xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b fastmath<contract> : f32
    %t = arith.addf %o, %m fastmath<contract> : f32
    linalg.yield %t : f32
  } -> tensor<3x20xf32>
  return %y : tensor<3x20xf32>
}

// Signed bytes that unsigned ones are multiplied with lie in fours along k, too, for any target; other bytes do not.
// CHECK-LABEL: func.func @bytes
// CHECK:       linalg.pack %arg1 padding_value({{.*}} : i8) outer_dims_perm = [1, 0] inner_dims_pos = [1, 0]
// CHECK-SAME:    inner_tiles = [16, 4] into {{.*}} : tensor<6x20xi8> -> tensor<2x2x16x4xi8>
// CHECK:       linalg.pack %arg1 padding_value({{.*}} : i8) outer_dims_perm = [1, 0] inner_dims_pos = [1] inner_tiles = [16]
func.func @bytes(%x: tensor<4x6xi8>, %w: tensor<6x20xi8> {tw.param = "w"}) -> (tensor<4x20xi32>, tensor<4x20xi32>) {
  %c = arith.constant 0 : i32
  %e = tensor.empty() : tensor<4x20xi32>
  %z = linalg.fill ins(%c : i32) outs(%e : tensor<4x20xi32>) -> tensor<4x20xi32>
  %m = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
                                        affine_map<(m, n, k) -> (m, n)>],
                       iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%x, %w : tensor<4x6xi8>, tensor<6x20xi8>) outs(%z : tensor<4x20xi32>) {
  ^bb0(%a: i8, %b: i8, %o: i32):
    %u = arith.extui %a : i8 to i32
    %s = arith.extsi %b : i8 to i32
    %p = arith.muli %u, %s : i32
    %t = arith.addi %o, %p : i32
    linalg.yield %t : i32
  } -> tensor<4x20xi32>
  %signed = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
                                             affine_map<(m, n, k) -> (m, n)>],
                            iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%x, %w : tensor<4x6xi8>, tensor<6x20xi8>) outs(%z : tensor<4x20xi32>) {
  ^bb0(%a: i8, %b: i8, %o: i32):
    %u = arith.extsi %a : i8 to i32
    %s = arith.extsi %b : i8 to i32
    %p = arith.muli %u, %s : i32
    %t = arith.addi %o, %p : i32
    linalg.yield %t : i32
  } -> tensor<4x20xi32>
  return %m, %signed : tensor<4x20xi32>, tensor<4x20xi32>
}

// In a loop that is a kernel: packed before it, read in blocks inside.
// CHECK-LABEL: func.func @recurrence
// CHECK:       %[[PACK:.*]] = linalg.pack %arg1 outer_dims_perm = [1, 0] inner_dims_pos = [1] inner_tiles = [16]
// CHECK-SAME:    tensor<32x32xf32> -> tensor<2x32x16xf32>
// CHECK:       scf.for
// CHECK:         %[[UNPACK:.*]] = linalg.unpack %[[PACK]]
// CHECK:         linalg.generic {{.*}} ins(%{{.*}}, %[[UNPACK]] : tensor<4x32xf32>, tensor<32x32xf32>)
func.func @recurrence(%x: tensor<4x32xf32>, %w: tensor<32x32xf32> {tw.param = "w"}) -> tensor<4x32xf32> {
  %c = arith.constant 0.0 : f32
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %steps = arith.constant 5 : index
  %e = tensor.empty() : tensor<4x32xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<4x32xf32>) -> tensor<4x32xf32>
  %r = scf.for %t = %zero to %steps step %one iter_args(%h = %x) -> (tensor<4x32xf32>) {
    %m = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
                                          affine_map<(m, n, k) -> (m, n)>],
                         iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%h, %w : tensor<4x32xf32>, tensor<32x32xf32>) outs(%z : tensor<4x32xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %p = arith.mulf %a, %b fastmath<contract> : f32
      %s = arith.addf %o, %p fastmath<contract> : f32
      linalg.yield %s : f32
    } -> tensor<4x32xf32>
    scf.yield %m : tensor<4x32xf32>
  }
  return %r : tensor<4x32xf32>
}
