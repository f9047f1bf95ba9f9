// RUN: %opt %s --passes=apply-schedule | filecheck %s
// RUN: not %opt %S/Inputs/unstated_sizes.mlir --passes=apply-schedule 2>&1 | filecheck %s --check-prefix=UNSTATED

// An op that walks two sizes together which the kernel does not state to be one.
// UNSTATED: kernel 'unstated' takes axis 0 of argument 0, axis 0 of argument 1, argument 2, axis 0 of result 0 for one size

#matrix = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#column = affine_map<(i, j) -> (j)>

// Rows go in blocks of 16, the rest in blocks of 4, and what is left one by one. A rest of half a block or more is one
// more block, which begins in the one before. LLVM does not see how the place of a block is computed. The steps are
// those of all blocks together.
// CHECK-LABEL: func.func @bias(
// CHECK-SAME:    %{{.*}}: memref<1xf32>, %{{.*}}: memref<8xf32>, %[[R:.*]]: memref<1xf32>, %[[N:.*]]: index, %[[M:.*]]: index, %[[LO:.*]]: index, %[[HI:.*]]: index)
// CHECK-SAME:    tw.extent = 4096 : i64, tw.parallel, {{.*}}tw.schedule = "blocks of 16 x 8:
// CHECK:         %[[BUFFER:.*]] = memref.reinterpret_cast %[[R]] to offset: [0], sizes: [%[[M]], 8], strides: [8, 1]
// CHECK:         %[[ROWS:.*]] = memref.dim %[[BUFFER]], %c0
// CHECK:         %[[COUNT:.*]] = arith.divui %[[ROWS]], %c16
// CHECK:         %[[REST:.*]] = arith.remui %[[ROWS]], %c16
// CHECK:         %[[LATEST:.*]] = arith.subi %[[ROWS]], %c16
// CHECK:         %[[FIT:.*]] = arith.cmpi uge, %[[ROWS]], %c16
// CHECK:         %[[HALF:.*]] = arith.cmpi uge, %[[REST]], %c8
// CHECK:         %[[MORE:.*]] = arith.andi %[[FIT]], %[[HALF]]
// CHECK:         %[[LEFT:.*]] = arith.select %[[MORE]], %c0, %[[REST]]
// CHECK:         %[[FOURS:.*]] = arith.divui %[[LEFT]], %c4
// CHECK:         scf.for
// CHECK:             %[[NEXT:.*]] = arith.minui %{{.*}}, %[[LATEST]]
// CHECK:             %[[WORD:.*]] = arith.index_cast %[[NEXT]] : index to i64
// CHECK:             %[[HIDDEN:.*]] = llvm.inline_asm "", "=r,0" %[[WORD]] : (i64) -> i64
// CHECK:             %[[AT:.*]] = arith.index_cast %[[HIDDEN]] : i64 to index
// CHECK:             memref.subview %[[BUFFER]][%[[AT]], 0] [16, 8] [1, 1]
// CHECK:             tensor.extract_slice %{{.*}} [16, 8] [1, 1] : tensor<?x8xf32> to tensor<16x8xf32>
// CHECK:             linalg.generic
// CHECK:             bufferization.materialize_in_destination
// CHECK:         scf.for
// CHECK:             memref.subview %[[BUFFER]][%{{.*}}, 0] [4, 8] [1, 1]
// CHECK:         scf.for
// CHECK:             tensor.extract_slice %{{.*}} [1, 8] [1, 1] : tensor<?x8xf32> to tensor<8xf32>
func.func @bias(%x: tensor<?x8xf32>, %b: tensor<8xf32>, %n: index) -> tensor<?x8xf32> attributes {tw.same_sizes = [array<i64: 0, 0, 2, -1, 3, 0>], tw.result_sizes = 1 : i64} {
  %e = tensor.empty(%n) : tensor<?x8xf32>
  %r = linalg.generic {indexing_maps = [#matrix, #column, #matrix], iterator_types = ["parallel", "parallel"]}
    ins(%x, %b : tensor<?x8xf32>, tensor<8xf32>) outs(%e : tensor<?x8xf32>) {
  ^bb0(%v: f32, %u: f32, %o: f32):
    %s = arith.addf %v, %u : f32
    linalg.yield %s : f32
  } -> tensor<?x8xf32>
  return %r : tensor<?x8xf32>
}

// A sum over an open axis stays in registers: so many steps are added up before these sums are.
// CHECK-LABEL: func.func @sums(
// CHECK-NOT:     memref.alloc
// CHECK:         %[[STEPS:.*]] = memref.dim
// CHECK:         %[[CHAINS:.*]] = arith.divui %[[STEPS]], %c32
// CHECK:         scf.for %{{.*}} = %c0 to %[[CHAINS]] step %c1 iter_args
// CHECK:           scf.for %{{.*}} = %c0 to %c32 step %c1 iter_args
// CHECK:         scf.for %{{.*}} to %[[STEPS]] step %c1 iter_args
// CHECK:         bufferization.materialize_in_destination
func.func @sums(%x: tensor<?x8xf32>) -> tensor<8xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<8xf32>) -> tensor<8xf32>
  %r = linalg.generic {indexing_maps = [#matrix, #column], iterator_types = ["reduction", "parallel"]}
    ins(%x : tensor<?x8xf32>) outs(%f : tensor<8xf32>) {
  ^bb0(%v: f32, %o: f32):
    %s = arith.addf %o, %v : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// A body that asks for its place counts from where the block begins; one that asks for a size is given it.
// CHECK-LABEL: func.func @places(
// CHECK-SAME:    %{{.*}}: memref<1xf32>, %{{.*}}: memref<1xf32>, %{{.*}}: index, %[[SIZE:.*]]: index, %{{.*}}: index, %{{.*}}: index, %{{.*}}: index)
// CHECK-SAME:    tw.schedule = "blocks of 16 x 8:
// CHECK:         scf.for
// CHECK:           %[[START:.*]] = arith.muli %{{.*}}, %c16
// CHECK:           %[[NEXT:.*]] = arith.minui %[[START]], %{{.*}}
// CHECK:           %[[WORD:.*]] = arith.index_cast %[[NEXT]] : index to i64
// CHECK:           %[[HIDDEN:.*]] = llvm.inline_asm "", "=r,0" %[[WORD]] : (i64) -> i64
// CHECK:           %[[BEGIN:.*]] = arith.index_cast %[[HIDDEN]] : i64 to index
// CHECK:           scf.for %[[ROW:.*]] = %c0 to %c16
// CHECK:             linalg.generic
// CHECK:               %[[PLACE:.*]] = arith.addi %[[ROW]], %[[BEGIN]]
// CHECK:               arith.index_cast %[[PLACE]]
// CHECK:               arith.index_cast %[[SIZE]]
func.func @places(%x: tensor<?x8xf32>, %size: index, %n: index) -> tensor<?x8xf32> attributes {tw.same_sizes = [array<i64: 0, 0, 2, -1, 3, 0>], tw.result_sizes = 1 : i64} {
  %e = tensor.empty(%n) : tensor<?x8xf32>
  %r = linalg.generic {indexing_maps = [#matrix, #matrix], iterator_types = ["parallel", "parallel"]}
    ins(%x : tensor<?x8xf32>) outs(%e : tensor<?x8xf32>) {
  ^bb0(%v: f32, %o: f32):
    %i = linalg.index 0 : index
    %c = arith.index_cast %i : index to i64
    %t = arith.sitofp %c : i64 to f32
    %d = arith.index_cast %size : index to i64
    %u = arith.sitofp %d : i64 to f32
    %q = arith.divf %t, %u : f32
    %s = arith.addf %v, %q : f32
    linalg.yield %s : f32
  } -> tensor<?x8xf32>
  return %r : tensor<?x8xf32>
}

// Elements of an open tensor at computed places: blocks see all of it. A row of them is read where it lies, from the
// place on where the block begins; rows share nothing, and go one by one.
// CHECK-LABEL: func.func @rows(
// CHECK-SAME:    tw.schedule = "blocks of 1 x 256:
// CHECK:         %[[TABLE:.*]] = bufferization.to_tensor %{{.*}} : memref<?x?xf32> to tensor<?x?xf32>
// CHECK:         %[[ELEMENT:.*]] = tensor.extract %{{.*}}[] : tensor<i64>
// CHECK:         %[[ROW:.*]] = arith.index_cast %[[ELEMENT]] : i64 to index
// CHECK:         tensor.extract_slice %[[TABLE]][%[[ROW]], %{{.*}}] [1, 64] [1, 1] : tensor<?x?xf32> to tensor<64xf32>
func.func @rows(%rows: tensor<?xi64>, %table: tensor<?x?xf32>, %n: index, %m: index) -> tensor<?x?xf32> attributes {tw.same_sizes = [array<i64: 0, 0, 2, -1, 4, 0>, array<i64: 3, -1, 4, 1>], tw.result_sizes = 2 : i64} {
  %e = tensor.empty(%n, %m) : tensor<?x?xf32>
  %r = linalg.generic {indexing_maps = [#row, #matrix], iterator_types = ["parallel", "parallel"]}
    ins(%rows : tensor<?xi64>) outs(%e : tensor<?x?xf32>) {
  ^bb0(%v: i64, %o: f32):
    %i = arith.index_cast %v : i64 to index
    %j = linalg.index 1 : index
    %s = tensor.extract %table[%i, %j] : tensor<?x?xf32>
    linalg.yield %s : f32
  } -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}

// A row of places that grow by one or stay, as its first and its last one tell: elements that lie one behind another,
// the same element all along, or a gather.
// CHECK-LABEL: func.func @clamped(
// CHECK:         %[[X:.*]] = bufferization.to_tensor %{{.*}} : memref<?xf32> to tensor<?xf32>
// CHECK:         %[[FIRST:.*]] = arith.minsi
// CHECK:         %[[LAST:.*]] = arith.minsi
// CHECK:         %[[GROWN:.*]] = arith.subi %[[LAST]], %[[FIRST]]
// CHECK:         %[[ROW:.*]] = arith.cmpi eq, %[[GROWN]], %c63
// CHECK:         scf.if %[[ROW]]
// CHECK:           tensor.extract_slice %[[X]][%[[FIRST]]] [64] [1]
// CHECK:         } else {
// CHECK:           %[[SAME:.*]] = arith.cmpi eq, %[[GROWN]], %c0
// CHECK:           scf.if %[[SAME]]
// CHECK:             tensor.extract_slice %[[X]][%[[FIRST]]] [1] [1]
// CHECK:           } else {
// CHECK:             linalg.generic
// CHECK:               tensor.extract %[[X]]
func.func @clamped(%x: tensor<?xf32>, %end: index, %n: index) -> tensor<?xf32> attributes {tw.same_sizes = [array<i64: 2, -1, 3, 0>], tw.result_sizes = 1 : i64} {
  %e = tensor.empty(%n) : tensor<?xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]} outs(%e : tensor<?xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = arith.minsi %i, %end : index
    %s = tensor.extract %x[%j] : tensor<?xf32>
    linalg.yield %s : f32
  } -> tensor<?xf32>
  return %r : tensor<?xf32>
}

// What reads a block of a tensor, and other elements of it as well, has no blocks: it stays whole.
// CHECK-LABEL: func.func @mirrored(
// CHECK-SAME:    tw.extent = 1 : i64
// CHECK-NOT:     tw.schedule
// CHECK:         linalg.index
func.func @mirrored(%x: tensor<?x8xf32>, %n: index) -> tensor<?x8xf32> attributes {tw.same_sizes = [array<i64: 0, 0, 1, -1, 2, 0>], tw.result_sizes = 1 : i64} {
  %seven = arith.constant 7 : index
  %e = tensor.empty(%n) : tensor<?x8xf32>
  %r = linalg.generic {indexing_maps = [#matrix, #matrix], iterator_types = ["parallel", "parallel"]}
    ins(%x : tensor<?x8xf32>) outs(%e : tensor<?x8xf32>) {
  ^bb0(%v: f32, %o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = arith.subi %seven, %j : index
    %m = tensor.extract %x[%i, %k] : tensor<?x8xf32>
    %s = arith.addf %v, %m : f32
    linalg.yield %s : f32
  } -> tensor<?x8xf32>
  return %r : tensor<?x8xf32>
}

#image = affine_map<(h, w, c) -> (h, w, c)>
#channels = affine_map<(h, w, c) -> (c)>
#turned = affine_map<(h, w, c) -> (w, h, c)>
#images = affine_map<(n, c, h, w) -> (n, c, h, w)>

// Rows and columns that all ops walk together are one axis.
// CHECK-LABEL: func.func @pixels(
// CHECK-SAME:    %{{.*}}: memref<1xf32>, %{{.*}}: memref<8xf32>, %[[R:.*]]: memref<1xf32>, %{{.*}}: index, %{{.*}}: index, %[[H:.*]]: index, %[[W:.*]]: index, %{{.*}}: index, %{{.*}}: index)
// CHECK-SAME:    tw.schedule = "blocks of 16 x 8:
// CHECK:         %[[IMAGE:.*]] = memref.reinterpret_cast %[[R]] to offset: [0], sizes: [%[[H]], %[[W]], 8]
// CHECK:         %[[ROWS:.*]] = memref.dim %[[IMAGE]], %c0
// CHECK:         %[[COLUMNS:.*]] = memref.dim %[[IMAGE]], %c1
// CHECK:         %[[PIXELS:.*]] = arith.muli %[[ROWS]], %[[COLUMNS]]
// CHECK:         memref.reinterpret_cast %[[R]] to offset: [0], sizes: [%[[PIXELS]], 8], strides: [8, 1]
// CHECK:         scf.for
// CHECK:             tensor.extract_slice %{{.*}} [16, 8] [1, 1] : tensor<?x8xf32> to tensor<16x8xf32>
func.func @pixels(%x: tensor<?x?x8xf32>, %b: tensor<8xf32>, %h: index, %w: index) -> tensor<?x?x8xf32> attributes {tw.same_sizes = [array<i64: 0, 0, 2, -1, 4, 0>, array<i64: 0, 1, 3, -1, 4, 1>], tw.result_sizes = 2 : i64} {
  %e = tensor.empty(%h, %w) : tensor<?x?x8xf32>
  %r = linalg.generic {indexing_maps = [#image, #channels, #image], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%x, %b : tensor<?x?x8xf32>, tensor<8xf32>) outs(%e : tensor<?x?x8xf32>) {
  ^bb0(%v: f32, %u: f32, %o: f32):
    %s = arith.addf %v, %u : f32
    linalg.yield %s : f32
  } -> tensor<?x?x8xf32>
  return %r : tensor<?x?x8xf32>
}

// One of them alone, or both in another order, is no such axis.
// CHECK-LABEL: func.func @rejects_axes_that_change_places(
// CHECK-SAME:    tw.schedule = "blocks of 1 x 16 x 8:
func.func @rejects_axes_that_change_places(%x: tensor<?x?x8xf32>, %y: tensor<?x?x8xf32>, %h: index, %w: index) -> tensor<?x?x8xf32> attributes {tw.same_sizes = [array<i64: 0, 0, 1, 1, 2, -1, 4, 0>, array<i64: 0, 1, 1, 0, 3, -1, 4, 1>], tw.result_sizes = 2 : i64} {
  %e = tensor.empty(%h, %w) : tensor<?x?x8xf32>
  %r = linalg.generic {indexing_maps = [#image, #turned, #image], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%x, %y : tensor<?x?x8xf32>, tensor<?x?x8xf32>) outs(%e : tensor<?x?x8xf32>) {
  ^bb0(%v: f32, %u: f32, %o: f32):
    %s = arith.addf %v, %u : f32
    linalg.yield %s : f32
  } -> tensor<?x?x8xf32>
  return %r : tensor<?x?x8xf32>
}

// What is put side by side is copied share by share, all pieces of a share before the next one. A row of eight elements
// is known to be half a vector; a loop goes over rows.
// CHECK-LABEL: func.func @side_by_side(
// CHECK-SAME:    tw.schedule = "piece 0 in rows along d1, and axes that go on from one to the next, copied
// CHECK-SAME:    piece 1 in rows along d1,
// CHECK:         scf.for
// CHECK:           scf.for
// CHECK:             vector.load {{.*}} vector<8xf32>
// CHECK:             vector.load {{.*}} vector<4xf32>
func.func @side_by_side(%x: tensor<?x8xf32>, %y: tensor<?x4xf32>, %n: index) -> tensor<?x12xf32> attributes {tw.same_sizes = [array<i64: 0, 0, 1, 0, 2, -1, 3, 0>], tw.result_sizes = 1 : i64} {
  %e = tensor.empty(%n) : tensor<?x12xf32>
  %a = tensor.insert_slice %x into %e[0, 0] [%n, 8] [1, 1] : tensor<?x8xf32> into tensor<?x12xf32>
  %b = tensor.insert_slice %y into %a[0, 8] [%n, 4] [1, 1] : tensor<?x4xf32> into tensor<?x12xf32>
  return %b : tensor<?x12xf32>
}

// Where the run finds that each has one element of a row, a vector of each becomes two of the result.
// CHECK-LABEL: func.func @elements_in_turn(
// CHECK-SAME:    tw.schedule = "piece 0 in rows along d1,
// CHECK:         scf.if
// CHECK:           vector.interleave {{.*}} vector<16xf32>
// CHECK:           vector.store {{.*}} vector<32xf32>
func.func @elements_in_turn(%x: tensor<?x?xf32>, %y: tensor<?x?xf32>, %n: index, %m: index, %k: index, %all: index, %rows: index, %columns: index) -> tensor<?x?xf32> attributes {tw.same_sizes = [array<i64: 0, 0, 1, 0, 2, -1, 6, -1, 8, 0>, array<i64: 0, 1, 3, -1>, array<i64: 1, 1, 4, -1>, array<i64: 5, -1, 7, -1, 8, 1>], tw.result_sizes = 2 : i64} {
  %e = tensor.empty(%n, %all) : tensor<?x?xf32>
  %a = tensor.insert_slice %x into %e[0, 0] [%n, %m] [1, 1] : tensor<?x?xf32> into tensor<?x?xf32>
  %b = tensor.insert_slice %y into %a[0, %m] [%n, %k] [1, 1] : tensor<?x?xf32> into tensor<?x?xf32>
  return %b : tensor<?x?xf32>
}

// A piece that is computed goes in blocks, beside those that are copied.
// CHECK-LABEL: func.func @computed_beside(
// CHECK-SAME:    tw.schedule = "piece 0 in blocks of 16 x 8:
// CHECK-SAME:    piece 1 in rows along d1,
func.func @computed_beside(%x: tensor<?x8xf32>, %y: tensor<?x4xf32>, %n: index) -> tensor<?x12xf32> attributes {tw.same_sizes = [array<i64: 0, 0, 1, 0, 2, -1, 3, 0>], tw.result_sizes = 1 : i64} {
  %s = tensor.empty(%n) : tensor<?x8xf32>
  %c = linalg.generic {indexing_maps = [#matrix, #matrix], iterator_types = ["parallel", "parallel"]}
    ins(%x : tensor<?x8xf32>) outs(%s : tensor<?x8xf32>) {
  ^bb0(%v: f32, %o: f32):
    %t = arith.addf %v, %v : f32
    linalg.yield %t : f32
  } -> tensor<?x8xf32>
  %e = tensor.empty(%n) : tensor<?x12xf32>
  %a = tensor.insert_slice %c into %e[0, 0] [%n, 8] [1, 1] : tensor<?x8xf32> into tensor<?x12xf32>
  %b = tensor.insert_slice %y into %a[0, 8] [%n, 4] [1, 1] : tensor<?x4xf32> into tensor<?x12xf32>
  return %b : tensor<?x12xf32>
}

// A slice of channels is copied in rows as long as they are in the run: the axes behind them belong to the row.
// CHECK-LABEL: func.func @slice_of_channels(
// CHECK-SAME:    tw.schedule = "rows along d3, and axes that go on from one to the next, copied"
// CHECK:           vector.store {{.*}} vector<16xf32>
// CHECK:           vector.store {{.*}} vector<8xf32>
func.func @slice_of_channels(%x: tensor<?x64x?x?xf32>, %n: index, %h: index, %w: index) -> tensor<?x32x?x?xf32> attributes {tw.same_sizes = [array<i64: 0, 0, 1, -1, 4, 0>, array<i64: 0, 2, 2, -1, 4, 2>, array<i64: 0, 3, 3, -1, 4, 3>], tw.result_sizes = 3 : i64} {
  %s = tensor.extract_slice %x[0, 32, 0, 0] [%n, 32, %h, %w] [1, 1, 1, 1] : tensor<?x64x?x?xf32> to tensor<?x32x?x?xf32>
  %e = tensor.empty(%n, %h, %w) : tensor<?x32x?x?xf32>
  %r = linalg.generic {indexing_maps = [#images, #images], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%s : tensor<?x32x?x?xf32>) outs(%e : tensor<?x32x?x?xf32>) {
  ^bb0(%v: f32, %o: f32):
    linalg.yield %v : f32
  } -> tensor<?x32x?x?xf32>
  return %r : tensor<?x32x?x?xf32>
}

// So are rows that become columns, where the run finds these: as tiles of 16 x 16, or smaller ones, that are turned in
// registers. The last ones of rows begin in the ones before.
// CHECK-LABEL: func.func @columns(
// CHECK-SAME:    tw.schedule = "rows along d1, and axes that go on from one to the next, copied"
// CHECK:           arith.minui
// CHECK-COUNT-16:  vector.load {{.*}} vector<16xf32>
// CHECK-COUNT-64:  vector.shuffle {{.*}} : vector<16xf32>, vector<16xf32>
// CHECK-COUNT-16:  vector.store {{.*}} vector<16xf32>
// CHECK-COUNT-4:   vector.load {{.*}} vector<16xf32>
// CHECK-COUNT-16:  vector.store {{.*}} vector<4xf32>
func.func @columns(%x: tensor<?x?xf32>, %n: index, %m: index) -> tensor<?x?xf32> attributes {tw.same_sizes = [array<i64: 0, 0, 2, -1, 3, 1>, array<i64: 0, 1, 1, -1, 3, 0>], tw.result_sizes = 2 : i64} {
  %e = tensor.empty(%n, %m) : tensor<?x?xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>, #matrix], iterator_types = ["parallel", "parallel"]}
    ins(%x : tensor<?x?xf32>) outs(%e : tensor<?x?xf32>) {
  ^bb0(%v: f32, %o: f32):
    linalg.yield %v : f32
  } -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}

// Of three known columns whole vectors are put together.
// CHECK-LABEL: func.func @three_columns(
// CHECK-SAME:    tw.schedule = "rows along
func.func @three_columns(%x: tensor<?x3xf32>, %n: index) -> tensor<3x?xf32> attributes {tw.same_sizes = [array<i64: 0, 0, 1, -1, 2, 1>], tw.result_sizes = 1 : i64} {
  %e = tensor.empty(%n) : tensor<3x?xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>, #matrix], iterator_types = ["parallel", "parallel"]}
    ins(%x : tensor<?x3xf32>) outs(%e : tensor<3x?xf32>) {
  ^bb0(%v: f32, %o: f32):
    linalg.yield %v : f32
  } -> tensor<3x?xf32>
  return %r : tensor<3x?xf32>
}

// Of a few known columns blocks have no rest.
// CHECK-LABEL: func.func @rejects_five_columns(
// CHECK-SAME:    tw.schedule = "blocks of
func.func @rejects_five_columns(%x: tensor<?x5xf32>, %n: index) -> tensor<5x?xf32> attributes {tw.same_sizes = [array<i64: 0, 0, 1, -1, 2, 1>], tw.result_sizes = 1 : i64} {
  %e = tensor.empty(%n) : tensor<5x?xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>, #matrix], iterator_types = ["parallel", "parallel"]}
    ins(%x : tensor<?x5xf32>) outs(%e : tensor<5x?xf32>) {
  ^bb0(%v: f32, %o: f32):
    linalg.yield %v : f32
  } -> tensor<5x?xf32>
  return %r : tensor<5x?xf32>
}

// Where something lies around the pieces already, they are plain loops.
// CHECK-LABEL: func.func @rejects_pieces_among_others(
// CHECK-NOT:     tw.schedule
// CHECK:         return
func.func @rejects_pieces_among_others(%x: tensor<?x8xf32>, %y: tensor<?x4xf32>, %z: tensor<?x14xf32>, %n: index) -> tensor<?x14xf32> attributes {tw.same_sizes = [array<i64: 0, 0, 1, 0, 2, 0, 3, -1, 4, 0>], tw.result_sizes = 1 : i64} {
  %a = tensor.insert_slice %x into %z[0, 0] [%n, 8] [1, 1] : tensor<?x8xf32> into tensor<?x14xf32>
  %b = tensor.insert_slice %y into %a[0, 8] [%n, 4] [1, 1] : tensor<?x4xf32> into tensor<?x14xf32>
  return %b : tensor<?x14xf32>
}

// A block takes a slice, of whose rows a body reads the places that it is told, of the whole table.
// CHECK-LABEL: func.func @rows_of_a_slice(
// CHECK-SAME:    tw.schedule = "blocks of 16 x 32:
// CHECK:           tensor.extract_slice %{{.*}}[%{{.*}}, 0] [1, 32] [1, 1] : tensor<12x32xf32> to tensor<32xf32>
func.func @rows_of_a_slice(%rows: tensor<?xi64>, %table: tensor<12x32xf32>, %n: index) -> tensor<?x32xf32> attributes {tw.same_sizes = [array<i64: 0, 0, 2, -1, 3, 0>], tw.result_sizes = 1 : i64} {
  %s = tensor.extract_slice %table[1, 0] [10, 32] [1, 1] : tensor<12x32xf32> to tensor<10x32xf32>
  %e = tensor.empty(%n) : tensor<?x32xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i)>, #matrix], iterator_types = ["parallel", "parallel"]}
    ins(%rows : tensor<?xi64>) outs(%e : tensor<?x32xf32>) {
  ^bb0(%p: i64, %o: f32):
    %i = arith.index_cast %p : i64 to index
    %j = linalg.index 1 : index
    %v = tensor.extract %s[%i, %j] : tensor<10x32xf32>
    linalg.yield %v : f32
  } -> tensor<?x32xf32>
  return %r : tensor<?x32xf32>
}

// Of a table of any length the slice might end anywhere: plain loops.
// CHECK-LABEL: func.func @rejects_rows_of_an_open_slice(
// CHECK-NOT:     tw.schedule
// CHECK:         return
func.func @rejects_rows_of_an_open_slice(%rows: tensor<?xi64>, %table: tensor<?x32xf32>, %m: index, %n: index) -> tensor<?x32xf32> attributes {tw.same_sizes = [array<i64: 0, 0, 3, -1, 4, 0>], tw.result_sizes = 1 : i64} {
  %s = tensor.extract_slice %table[1, 0] [%m, 32] [1, 1] : tensor<?x32xf32> to tensor<?x32xf32>
  %e = tensor.empty(%n) : tensor<?x32xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i)>, #matrix], iterator_types = ["parallel", "parallel"]}
    ins(%rows : tensor<?xi64>) outs(%e : tensor<?x32xf32>) {
  ^bb0(%p: i64, %o: f32):
    %i = arith.index_cast %p : i64 to index
    %j = linalg.index 1 : index
    %v = tensor.extract %s[%i, %j] : tensor<?x32xf32>
    linalg.yield %v : f32
  } -> tensor<?x32xf32>
  return %r : tensor<?x32xf32>
}

// Columns that fill no tile are a branch: of a loop all that is computed could go before it, for each call of a panel.
// CHECK-LABEL: func.func @rest_of_columns(
// CHECK:       scf.if %{{.*}} -> (tensor<40xf32>) {
// CHECK-NEXT:    tensor.extract_slice %{{.*}}[32] [8] [1]
// CHECK:         scf.for
func.func @rest_of_columns(%x: tensor<?x24xf32>, %p: tensor<3x24x16xf32>, %n: index) -> tensor<?x40xf32> attributes {tw.same_sizes = [array<i64: 0, 0, 2, -1, 3, 0>], tw.result_sizes = 1 : i64} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : tensor<?x40xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<?x40xf32>) -> tensor<?x40xf32>
  %u = tensor.empty() : tensor<24x40xf32>
  %w = linalg.unpack %p outer_dims_perm = [1, 0] inner_dims_pos = [1] inner_tiles = [16] into %u : tensor<3x24x16xf32> -> tensor<24x40xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>],
                       iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%x, %w : tensor<?x24xf32>, tensor<24x40xf32>) outs(%f : tensor<?x40xf32>) {
  ^bb0(%v: f32, %b: f32, %o: f32):
    %m = arith.mulf %v, %b fastmath<contract> : f32
    %s = arith.addf %o, %m fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<?x40xf32>
  return %r : tensor<?x40xf32>
}

// A convolution that sums over open sizes: the windows of 32 pixels are copied, with room for a vector behind them, and
// all filters, as rows of a product, read the copy.
// CHECK-LABEL: func.func @open_filters(
// CHECK-SAME:    tw.schedule = "panels of copied windows, in
// CHECK:         memref.alloc(%{{.*}}) : memref<?x{{.*}}xf32>
// CHECK:         scf.for
// CHECK:           vector.maskedload
// CHECK:           memref.subview %{{.*}} [1, 24, 32] [1, 1, 1]
func.func @open_filters(%x: tensor<1x?x?xf32>, %w: tensor<?x?x3xf32>, %n: index, %m: index) -> tensor<1x?x?xf32> attributes {tw.same_sizes = [array<i64: 0, 1, 1, 1>, array<i64: 1, 0, 2, -1, 4, 1>, array<i64: 3, -1, 4, 2>], tw.result_sizes = 2 : i64} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty(%n, %m) : tensor<1x?x?xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x?x?xf32>) -> tensor<1x?x?xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, f, w, c, i) -> (n, c, w + i)>, affine_map<(n, f, w, c, i) -> (f, c, i)>, affine_map<(n, f, w, c, i) -> (n, f, w)>],
                       iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
    ins(%x, %w : tensor<1x?x?xf32>, tensor<?x?x3xf32>) outs(%f : tensor<1x?x?xf32>) {
  ^bb0(%v: f32, %b: f32, %o: f32):
    %p = arith.mulf %v, %b fastmath<contract> : f32
    %s = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x?x?xf32>
  return %r : tensor<1x?x?xf32>
}

// Not so in channels last, which the layouts of a program never have beside such filters.
// CHECK-LABEL: func.func @rejects_open_filters_of_channels_last(
// CHECK-NOT:     copied windows
// CHECK:         return
func.func @rejects_open_filters_of_channels_last(%x: tensor<1x?x?xf32>, %w: tensor<?x?x3xf32>, %m: index, %n: index) -> tensor<1x?x?xf32> attributes {tw.same_sizes = [array<i64: 0, 2, 1, 1>, array<i64: 1, 0, 3, -1, 4, 2>, array<i64: 2, -1, 4, 1>], tw.result_sizes = 2 : i64} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty(%m, %n) : tensor<1x?x?xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x?x?xf32>) -> tensor<1x?x?xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, w, f, c, i) -> (n, w + i, c)>, affine_map<(n, w, f, c, i) -> (f, c, i)>, affine_map<(n, w, f, c, i) -> (n, w, f)>],
                       iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
    ins(%x, %w : tensor<1x?x?xf32>, tensor<?x?x3xf32>) outs(%f : tensor<1x?x?xf32>) {
  ^bb0(%v: f32, %b: f32, %o: f32):
    %p = arith.mulf %v, %b fastmath<contract> : f32
    %s = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x?x?xf32>
  return %r : tensor<1x?x?xf32>
}
