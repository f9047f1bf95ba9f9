// RUN: %opt %s --passes=lower-transfers | filecheck %s

// CHECK-LABEL: func.func @row(
// CHECK:         vector.load %{{.*}} : memref<4x8xf32>, vector<8xf32>
// CHECK-NOT:     vector.transfer
// CHECK:         vector.store %{{.*}} : memref<4x8xf32>, vector<8xf32>
func.func @row(%x: memref<4x8xf32>, %r: memref<4x8xf32>) attributes {tw.schedule = "tile"} {
  %c0 = arith.constant 0 : index
  %p = ub.poison : f32
  %v = vector.transfer_read %x[%c0, %c0], %p {in_bounds = [true]} : memref<4x8xf32>, vector<8xf32>
  %n = arith.negf %v : vector<8xf32>
  vector.transfer_write %n, %r[%c0, %c0] {in_bounds = [true]} : vector<8xf32>, memref<4x8xf32>
  return
}

// Two rounds of interleaving pairs of rows, then rows of four.
// CHECK-LABEL: func.func @transpose(
// CHECK-NOT:     vector.transpose
// CHECK-COUNT-4: vector.shuffle %{{.*}}, %{{.*}} [{{0, 8, 1, 9, 2, 10, 3, 11|4, 12, 5, 13, 6, 14, 7, 15}}] : vector<8xf32>, vector<8xf32>
// CHECK:         vector.shuffle %{{.*}}, %{{.*}} [0, 8, 1, 9, 2, 10, 3, 11]
func.func @transpose(%v: vector<4x8xf32>) -> vector<8x4xf32> attributes {tw.schedule = "tile"} {
  %t = vector.transpose %v, [1, 0] : vector<4x8xf32> to vector<8x4xf32>
  return %t : vector<8x4xf32>
}

// A square of several lanes of 128 bits: four rows within their lanes, then lanes change places.
// CHECK-LABEL: func.func @transpose_lanes(
// CHECK-COUNT-16: vector.shuffle %{{.*}}, %{{.*}} [{{0, 8, 1, 9, 4, 12, 5, 13|2, 10, 3, 11, 6, 14, 7, 15}}] : vector<8xf32>, vector<8xf32>
// CHECK-COUNT-8: vector.shuffle %{{.*}}, %{{.*}} [{{0, 1, 2, 3, 8, 9, 10, 11|4, 5, 6, 7, 12, 13, 14, 15}}] : vector<8xf32>, vector<8xf32>
// CHECK-NOT:     vector.shuffle
// CHECK:         return
func.func @transpose_lanes(%v: vector<8x8xf32>) -> vector<8x8xf32> attributes {tw.schedule = "tile"} {
  %t = vector.transpose %v, [1, 0] : vector<8x8xf32> to vector<8x8xf32>
  return %t : vector<8x8xf32>
}

// Elements that lie apart are loaded one by one where each is used alone.
// CHECK-LABEL: func.func @strided(
// CHECK-NOT:     vector
// CHECK-COUNT-2: memref.load %{{.*}} : memref<4x8xf32, strided<[16, 2]>>
// CHECK:         arith.mulf
func.func @strided(%x: memref<4x8xf32, strided<[16, 2]>>, %i: index) -> f32 attributes {tw.schedule = "tile"} {
  %p = ub.poison : f32
  %v = vector.transfer_read %x[%i, %i], %p {in_bounds = [true]} : memref<4x8xf32, strided<[16, 2]>>, vector<4xf32>
  %a = vector.extract %v[0] : f32 from vector<4xf32>
  %b = vector.extract %v[3] : f32 from vector<4xf32>
  %s = arith.mulf %a, %b : f32
  return %s : f32
}

// So are those of a tile of two rows, pixels that a stride leaves.
// CHECK-LABEL: func.func @strided_tile(
// CHECK-NOT:     vector
// CHECK-COUNT-2: memref.load %{{.*}} : memref<2x7xf32, strided<[64, 4]>>
// CHECK:         arith.mulf
func.func @strided_tile(%x: memref<2x7xf32, strided<[64, 4]>>, %i: index) -> f32 attributes {tw.schedule = "tile"} {
  %p = ub.poison : f32
  %v = vector.transfer_read %x[%i, %i], %p {in_bounds = [true, true]} : memref<2x7xf32, strided<[64, 4]>>, vector<2x7xf32>
  %a = vector.extract %v[0, 1] : f32 from vector<2x7xf32>
  %b = vector.extract %v[1, 3] : f32 from vector<2x7xf32>
  %s = arith.mulf %a, %b : f32
  return %s : f32
}

// Every second element of a row is picked out of two loads, the second of which ends with the last element.
// CHECK-LABEL: func.func @every_second(
// CHECK:         vector.load %arg0[%arg1, %{{.*}}] : memref<4x32xf32>, vector<8xf32>
// CHECK:         %[[PLACE:.*]] = arith.addi %{{.*}}, %c7
// CHECK:         vector.load %arg0[%arg1, %[[PLACE]]] : memref<4x32xf32>, vector<8xf32>
// CHECK:         vector.shuffle %{{.*}}, %{{.*}} [0, 1, 2, 3, 9, 11, 13, 15] : vector<8xf32>, vector<8xf32>
// CHECK-NOT:     vector.transfer_read
func.func @every_second(%x: memref<4x32xf32>, %i: index) -> vector<8xf32> attributes {tw.schedule = "tile"} {
  %c0 = arith.constant 0 : index
  %p = ub.poison : f32
  %s = memref.subview %x[%i, %i] [1, 8] [1, 2] : memref<4x32xf32> to memref<8xf32, strided<[2], offset: ?>>
  %v = vector.transfer_read %s[%c0], %p {in_bounds = [true]} : memref<8xf32, strided<[2], offset: ?>>, vector<8xf32>
  return %v : vector<8xf32>
}

// CHECK-LABEL: func.func @strided_vector(
// CHECK-COUNT-4: memref.load %{{.*}} : memref<4x8xf32, strided<[16, 2]>>
// CHECK:         vector.from_elements %{{.*}} : vector<4xf32>
func.func @strided_vector(%x: memref<4x8xf32, strided<[16, 2]>>, %i: index) -> vector<4xf32>
    attributes {tw.schedule = "tile"} {
  %p = ub.poison : f32
  %v = vector.transfer_read %x[%i, %i], %p {in_bounds = [true]} : memref<4x8xf32, strided<[16, 2]>>, vector<4xf32>
  return %v : vector<4xf32>
}

// CHECK-LABEL: func.func @strided_write(
// CHECK-COUNT-4: memref.store %{{.*}} : memref<8x2xf32>
// CHECK-NOT:     vector.transfer_write
func.func @strided_write(%v: vector<4xf32>, %x: memref<8x2xf32>, %i: index) attributes {tw.schedule = "tile"} {
  vector.transfer_write %v, %x[%i, %i] {in_bounds = [true], permutation_map = affine_map<(i, j) -> (i)>}
    : vector<4xf32>, memref<8x2xf32>
  return
}

// A mask is upstream's to lower.
// CHECK-LABEL: func.func @rejects_masked(
// CHECK:         vector.transfer_read
func.func @rejects_masked(%x: memref<8x2xf32>, %i: index, %m: vector<4xi1>) -> vector<4xf32>
    attributes {tw.schedule = "tile"} {
  %p = ub.poison : f32
  %v = vector.transfer_read %x[%i, %i], %p, %m {in_bounds = [true], permutation_map = affine_map<(i, j) -> (i)>}
    : memref<8x2xf32>, vector<4xf32>
  return %v : vector<4xf32>
}

// Extents that are no powers of two go element by element through one long vector.
// CHECK-LABEL: func.func @rejects_odd_transpose(
// CHECK-NOT:     vector.transpose
// CHECK:         vector.shuffle {{.*}} : vector<15xf32>
func.func @rejects_odd_transpose(%v: vector<3x5xf32>) -> vector<5x3xf32> attributes {tw.schedule = "tile"} {
  %t = vector.transpose %v, [1, 0] : vector<3x5xf32> to vector<5x3xf32>
  return %t : vector<5x3xf32>
}

// More than a row is left to be unrolled, and what has no schedule is not ours.
// CHECK-LABEL: func.func @rejects_tile(
// CHECK:         vector.transfer_read %{{.*}} vector<2x8xf32>
func.func @rejects_tile(%x: memref<4x8xf32>) -> vector<2x8xf32> attributes {tw.schedule = "tile"} {
  %c0 = arith.constant 0 : index
  %p = ub.poison : f32
  %v = vector.transfer_read %x[%c0, %c0], %p {in_bounds = [true, true]} : memref<4x8xf32>, vector<2x8xf32>
  return %v : vector<2x8xf32>
}

// CHECK-LABEL: func.func @rejects_plain_loops(
// CHECK:         vector.transfer_read %{{.*}} vector<8xf32>
func.func @rejects_plain_loops(%x: memref<4x8xf32>) -> vector<8xf32> {
  %c0 = arith.constant 0 : index
  %p = ub.poison : f32
  %v = vector.transfer_read %x[%c0, %c0], %p {in_bounds = [true]} : memref<4x8xf32>, vector<8xf32>
  return %v : vector<8xf32>
}

// A matrix whose columns are all the same has broadcasts for rows, of elements that are loaded alone.
// CHECK-LABEL: func.func @column(
// CHECK-NOT:     vector.transpose
// CHECK-COUNT-3: memref.load %{{.*}} : memref<3x8xf32>
// CHECK-NOT:     vector.transfer_read
func.func @column(%x: memref<3x8xf32>, %i: index) -> vector<3x16xf32> attributes {tw.schedule = "tile"} {
  %p = ub.poison : f32
  %c0 = arith.constant 0 : index
  %v = vector.transfer_read %x[%c0, %i], %p {in_bounds = [true], permutation_map = affine_map<(a, b) -> (a)>}
    : memref<3x8xf32>, vector<3xf32>
  %b = vector.broadcast %v : vector<3xf32> to vector<16x3xf32>
  %t = vector.transpose %b, [1, 0] : vector<16x3xf32> to vector<3x16xf32>
  return %t : vector<3x16xf32>
}

// Rows of two that lie one after another are stored as whole vectors.
// CHECK-LABEL: func.func @pairs(
// CHECK:         %[[FLAT:.*]] = memref.collapse_shape %arg1 {{\[\[}}0], [1, 2]] : memref<4x40x2xf32> into memref<4x80xf32>
// CHECK-COUNT-2: vector.store %{{.*}}, %[[FLAT]][%arg2, %{{.*}}] : memref<4x80xf32>, vector<8xf32>
// CHECK-NOT:     vector.store
func.func @pairs(%v: vector<8xf32>, %r: memref<4x40x2xf32>, %i: index) attributes {tw.schedule = "tile"} {
  %c0 = arith.constant 0 : index
  %b = vector.broadcast %v : vector<8xf32> to vector<2x8xf32>
  %t = vector.transpose %b, [1, 0] : vector<2x8xf32> to vector<8x2xf32>
  vector.transfer_write %t, %r[%i, %i, %c0] {in_bounds = [true, true]} : vector<8x2xf32>, memref<4x40x2xf32>
  return
}

// Rows of two that are those of several channels are turned as one matrix, and written as long ones.
// CHECK-LABEL: func.func @pairs_of_channels(
// CHECK:         %[[FLAT:.*]] = memref.collapse_shape %arg1 {{\[\[}}0], [1], [2, 3]] : memref<4x3x8x2xf32> into memref<4x3x16xf32>
// CHECK:         vector.transfer_write %{{.*}}, %[[FLAT]][%{{.*}}, %arg2, %{{.*}}] {{.*}} : vector<4x1x8xf32>, memref<4x3x16xf32>
func.func @pairs_of_channels(%v: vector<4x2x4xf32>, %r: memref<4x3x8x2xf32>, %i: index) attributes {tw.schedule = "tile"} {
  %c0 = arith.constant 0 : index
  %t = vector.transpose %v, [2, 0, 1] : vector<4x2x4xf32> to vector<4x4x2xf32>
  %b = vector.broadcast %t : vector<4x4x2xf32> to vector<1x4x4x2xf32>
  %u = vector.transpose %b, [1, 0, 2, 3] : vector<1x4x4x2xf32> to vector<4x1x4x2xf32>
  vector.transfer_write %u, %r[%c0, %i, %c0, %c0] {in_bounds = [true, true, true, true]}
    : vector<4x1x4x2xf32>, memref<4x3x8x2xf32>
  return
}

// CHECK-LABEL: func.func @rejects_rows_apart(
// CHECK-NOT:     memref.collapse_shape
// CHECK:         vector.transfer_write %{{.*}} memref<40x3xf32>
func.func @rejects_rows_apart(%v: vector<2x8xf32>, %r: memref<40x3xf32>, %i: index) attributes {tw.schedule = "tile"} {
  %c0 = arith.constant 0 : index
  %t = vector.transpose %v, [1, 0] : vector<2x8xf32> to vector<8x2xf32>
  vector.transfer_write %t, %r[%i, %c0] {in_bounds = [true, true]} : vector<8x2xf32>, memref<40x3xf32>
  return
}

// CHECK-LABEL: func.func @from_pairs(
// CHECK:         %[[FLAT:.*]] = memref.collapse_shape %arg0 {{\[\[}}0, 1]] : memref<40x2xf32> into memref<80xf32>
// CHECK-COUNT-2: vector.load %[[FLAT]]
// CHECK:         vector.shuffle %{{.*}}, %{{.*}} [0, 2, 4, 6, 8, 10, 12, 14] : vector<8xf32>, vector<8xf32>
// CHECK:         vector.shuffle %{{.*}}, %{{.*}} [1, 3, 5, 7, 9, 11, 13, 15] : vector<8xf32>, vector<8xf32>
// CHECK-NOT:     vector.transpose
func.func @from_pairs(%x: memref<40x2xf32>, %i: index) -> vector<2x8xf32> attributes {tw.schedule = "tile"} {
  %c0 = arith.constant 0 : index
  %p = ub.poison : f32
  %v = vector.transfer_read %x[%i, %c0], %p {in_bounds = [true, true]} : memref<40x2xf32>, vector<8x2xf32>
  %t = vector.transpose %v, [1, 0] : vector<8x2xf32> to vector<2x8xf32>
  return %t : vector<2x8xf32>
}

// A column of rows of three is picked out of what they are one after another, a register at a time.
// CHECK-LABEL: func.func @column_of_rows(
// CHECK:         %[[FLAT:.*]] = memref.collapse_shape %arg0 {{\[\[}}0, 1]] : memref<64x3xf32> into memref<192xf32>
// CHECK-COUNT-6: vector.load %[[FLAT]][%{{.*}}] : memref<192xf32>, vector<16xf32>
// CHECK-NOT:     memref.load
func.func @column_of_rows(%x: memref<64x3xf32>, %i: index) -> vector<32xf32> attributes {tw.schedule = "tile"} {
  %c0 = arith.constant 0 : index
  %p = ub.poison : f32
  %s = memref.subview %x[%i, %i] [32, 1] [1, 1] : memref<64x3xf32> to memref<32xf32, strided<[3], offset: ?>>
  %v = vector.transfer_read %s[%c0], %p {in_bounds = [true]} : memref<32xf32, strided<[3], offset: ?>>, vector<32xf32>
  return %v : vector<32xf32>
}

// Of many words, every fifth is picked as well; of few, or of bytes, each is loaded.
// CHECK-LABEL: func.func @every_fifth(
// CHECK-COUNT-5: vector.load %arg0[%{{.*}}] : memref<400xf32>, vector<16xf32>
// CHECK-NOT:     memref.load
func.func @every_fifth(%x: memref<400xf32>, %i: index) -> vector<16xf32> attributes {tw.schedule = "tile"} {
  %c0 = arith.constant 0 : index
  %p = ub.poison : f32
  %s = memref.subview %x[%i] [16] [5] : memref<400xf32> to memref<16xf32, strided<[5], offset: ?>>
  %v = vector.transfer_read %s[%c0], %p {in_bounds = [true]} : memref<16xf32, strided<[5], offset: ?>>, vector<16xf32>
  return %v : vector<16xf32>
}

// CHECK-LABEL: func.func @rejects_every_fifth_of_few(
// CHECK-NOT:     vector.shuffle
func.func @rejects_every_fifth_of_few(%x: memref<400xf32>, %i: index) -> vector<8xf32> attributes {tw.schedule = "tile"} {
  %c0 = arith.constant 0 : index
  %p = ub.poison : f32
  %s = memref.subview %x[%i] [8] [5] : memref<400xf32> to memref<8xf32, strided<[5], offset: ?>>
  %v = vector.transfer_read %s[%c0], %p {in_bounds = [true]} : memref<8xf32, strided<[5], offset: ?>>, vector<8xf32>
  return %v : vector<8xf32>
}

// A matrix of one column is written element by element: upstream's patterns find no end in it.
// CHECK-LABEL: func.func @one_column(
// CHECK-NOT:     vector.transfer
// CHECK-COUNT-4: memref.store %{{.*}} : memref<9x8xf32>
func.func @one_column(%x: memref<72xf32>, %at: vector<4xindex>, %r: memref<9x8xf32>) attributes {tw.schedule = "tile"} {
  %c0 = arith.constant 0 : index
  %m = arith.constant dense<true> : vector<4xi1>
  %p = arith.constant dense<0.0> : vector<4xf32>
  %v = vector.gather %x[%c0] [%at], %m, %p : memref<72xf32>, vector<4xindex>, vector<4xi1>, vector<4xf32> into vector<4xf32>
  %b = vector.broadcast %v : vector<4xf32> to vector<1x4xf32>
  %t = vector.transpose %b, [1, 0] : vector<1x4xf32> to vector<4x1xf32>
  vector.transfer_write %t, %r[%c0, %c0] {in_bounds = [true, true]} : vector<4x1xf32>, memref<9x8xf32>
  return
}

// A column of rows of two, one behind the other, is picked out of the rows.
// CHECK-LABEL: func.func @column_of_pairs(
// CHECK:         %[[F:.*]] = memref.collapse_shape %arg0 {{\[\[}}0], [1, 2]] : memref<4x64x2xf32> into memref<4x128xf32>
// CHECK:         vector.load %[[F]][%arg1, %{{.*}}] : memref<4x128xf32>, vector<16xf32>
// CHECK:         vector.load %[[F]][%arg1, %{{.*}}] : memref<4x128xf32>, vector<16xf32>
// CHECK:         vector.shuffle
// CHECK-NOT:     memref.load
func.func @column_of_pairs(%x: memref<4x64x2xf32>, %i: index) -> vector<16xf32> attributes {tw.schedule = "tile"} {
  %c1 = arith.constant 1 : index
  %p = ub.poison : f32
  %v = vector.transfer_read %x[%i, %i, %c1], %p {in_bounds = [true], permutation_map = affine_map<(a, b, c) -> (b)>} : memref<4x64x2xf32>, vector<16xf32>
  return %v : vector<16xf32>
}

// Rows of five lie farther apart than loads of whole rows pay.
// CHECK-LABEL: func.func @rejects_column_of_fives(
// CHECK-COUNT-16: memref.load
func.func @rejects_column_of_fives(%x: memref<4x64x5xf32>, %i: index) -> vector<16xf32> attributes {tw.schedule = "tile"} {
  %c1 = arith.constant 1 : index
  %p = ub.poison : f32
  %v = vector.transfer_read %x[%i, %i, %c1], %p {in_bounds = [true], permutation_map = affine_map<(a, b, c) -> (b)>} : memref<4x64x5xf32>, vector<16xf32>
  return %v : vector<16xf32>
}

// What is chosen for each column of two vectors is stored as whole vectors.
// CHECK-LABEL: func.func @chosen_pairs(
// CHECK-COUNT-2: vector.store %{{.*}} : memref<8x80xf32>, vector<16xf32>
// CHECK-NOT:     vector.transfer_write
func.func @chosen_pairs(%a: vector<16xf32>, %b: vector<16xf32>, %m: vector<2xi1>, %r: memref<8x40x2xf32>, %i: index)
    attributes {tw.schedule = "tile"} {
  %c0 = arith.constant 0 : index
  %ab = vector.broadcast %a : vector<16xf32> to vector<2x16xf32>
  %at = vector.transpose %ab, [1, 0] : vector<2x16xf32> to vector<16x2xf32>
  %bb = vector.broadcast %b : vector<16xf32> to vector<2x16xf32>
  %bt = vector.transpose %bb, [1, 0] : vector<2x16xf32> to vector<16x2xf32>
  %f = vector.broadcast %m : vector<2xi1> to vector<16x2xi1>
  %s = arith.select %f, %at, %bt : vector<16x2xi1>, vector<16x2xf32>
  vector.transfer_write %s, %r[%i, %i, %c0] {in_bounds = [true, true]} : vector<16x2xf32>, memref<8x40x2xf32>
  return
}

// Axes of one element behind a row leave its elements together: they are loaded and stored whole.
// CHECK-LABEL: func.func @before_units(
// CHECK:         memref.collapse_shape %arg0 {{\[\[}}0], [1, 2, 3]] : memref<4x256x1x1xf32> into memref<4x256xf32>
// CHECK:         vector.load %{{.*}}[%arg2, %arg2] : memref<4x256xf32>, vector<16xf32>
// CHECK-NOT:     vector.transfer
// CHECK:         vector.store %{{.*}}[%arg2] : memref<256xf32>, vector<16xf32>
func.func @before_units(%x: memref<4x256x1x1xf32>, %r: memref<256x1xf32>, %i: index) attributes {tw.schedule = "tile"} {
  %c0 = arith.constant 0 : index
  %p = ub.poison : f32
  %v = vector.transfer_read %x[%i, %i, %c0, %c0], %p {in_bounds = [true], permutation_map = affine_map<(a, b, c, d) -> (b)>} : memref<4x256x1x1xf32>, vector<16xf32>
  %n = arith.negf %v : vector<16xf32>
  vector.transfer_write %n, %r[%i, %c0] {in_bounds = [true], permutation_map = affine_map<(a, b) -> (a)>} : vector<16xf32>, memref<256x1xf32>
  return
}

// Short rows that are no power of two, one behind another: each column is picked out of all vectors, and put back so.
// CHECK-LABEL: func.func @rows_of_three(
// CHECK-COUNT-3: vector.load %{{.*}} : memref<120xf32>, vector<8xf32>
// CHECK:         vector.shuffle %{{.*}}, %{{.*}} [0, 3, 6, 0, 0, 0, 0, 0]
// CHECK-NEXT:    vector.shuffle %{{.*}}, %{{.*}} [0, 1, 2, 9, 12, 15, 6, 7]
// CHECK-NEXT:    vector.shuffle %{{.*}}, %{{.*}} [0, 1, 2, 3, 4, 5, 10, 13]
// CHECK-NOT:     vector.transpose
// CHECK-COUNT-3: vector.store %{{.*}} : memref<120xf32>, vector<8xf32>
func.func @rows_of_three(%x: memref<40x3xf32>, %r: memref<40x3xf32>, %i: index) attributes {tw.schedule = "tile"} {
  %c0 = arith.constant 0 : index
  %p = ub.poison : f32
  %v = vector.transfer_read %x[%i, %c0], %p {in_bounds = [true, true]} : memref<40x3xf32>, vector<8x3xf32>
  %t = vector.transpose %v, [1, 0] : vector<8x3xf32> to vector<3x8xf32>
  %n = arith.negf %t : vector<3x8xf32>
  %b = vector.transpose %n, [1, 0] : vector<3x8xf32> to vector<8x3xf32>
  vector.transfer_write %b, %r[%i, %c0] {in_bounds = [true, true]} : vector<8x3xf32>, memref<40x3xf32>
  return
}

// Rows an open distance apart are numbered in threes before the loop, by numbers that LLVM knows nothing of.
// CHECK-LABEL: func.func @open_rows(
// CHECK:         %[[C3:.*]] = arith.constant 3 : index
// CHECK:         %[[NEXT:.*]] = arith.addi %{{.*}}, %[[C3]] : index
// CHECK-NEXT:    arith.index_cast %[[NEXT]]
// CHECK-NEXT:    llvm.inline_asm
// CHECK-NEXT:    %[[HIDDEN:.*]] = arith.index_cast
// CHECK:         scf.for %[[K:.*]] =
// CHECK:           memref.load %{{.*}}[%{{.*}}, %{{.*}}] : memref<?x?xf32>
// CHECK:           %[[ROW:.*]] = arith.addi %[[HIDDEN]], %{{.*}} : index
// CHECK:           memref.load %{{.*}}[%[[ROW]], %{{.*}}] : memref<?x?xf32>
// CHECK-NOT:     vector.transfer_read
func.func @open_rows(%x: memref<?x?xf32>, %i: index, %n: index) -> f32 attributes {tw.schedule = "tile"} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %z = arith.constant 0.0 : f32
  %p = ub.poison : f32
  %r = scf.for %k = %c0 to %n step %c1 iter_args(%s = %z) -> (f32) {
    %v = vector.transfer_read %x[%i, %k], %p {in_bounds = [true, true]} : memref<?x?xf32>, vector<6x1xf32>
    %a = vector.extract %v[0, 0] : f32 from vector<6x1xf32>
    %b = vector.extract %v[4, 0] : f32 from vector<6x1xf32>
    %ab = arith.mulf %a, %b : f32
    %t = arith.addf %s, %ab : f32
    scf.yield %t : f32
  }
  return %r : f32
}

// Few rows, rows a known distance apart, and those whose numbers a step of the loop tells are left alone.
// CHECK-LABEL: func.func @other_rows(
// CHECK-NOT:     inline_asm
// CHECK:         return
func.func @other_rows(%x: memref<?x?xf32>, %y: memref<64x64xf32>, %i: index, %n: index) -> f32 attributes {tw.schedule = "tile"} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %z = arith.constant 0.0 : f32
  %p = ub.poison : f32
  %r = scf.for %k = %c0 to %n step %c1 iter_args(%s = %z) -> (f32) {
    %v = vector.transfer_read %x[%i, %k], %p {in_bounds = [true, true]} : memref<?x?xf32>, vector<4x1xf32>
    %a = vector.extract %v[3, 0] : f32 from vector<4x1xf32>
    %w = vector.transfer_read %y[%i, %k], %p {in_bounds = [true, true]} : memref<64x64xf32>, vector<6x1xf32>
    %b = vector.extract %w[4, 0] : f32 from vector<6x1xf32>
    %j = arith.addi %i, %k : index
    %u = vector.transfer_read %x[%j, %k], %p {in_bounds = [true, true]} : memref<?x?xf32>, vector<6x1xf32>
    %c = vector.extract %u[5, 0] : f32 from vector<6x1xf32>
    %ab = arith.mulf %a, %b : f32
    %abc = arith.mulf %ab, %c : f32
    %t = arith.addf %s, %abc : f32
    scf.yield %t : f32
  }
  return %r : f32
}
