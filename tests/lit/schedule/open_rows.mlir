// RUN: %opt %s --passes=apply-schedule | filecheck %s

#matrix = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#lhs = affine_map<(i, j, k) -> (i, k)>
#rhs = affine_map<(i, j, k) -> (k, j)>
#out = affine_map<(i, j, k) -> (i, j)>

// Rows of any length. Fewer than three vectors: as many rows at once as a vector has lanes, turned in
// registers before and after; of the rows left over vectors, the last of which begins in the one before, or single elements
// where there is not one. A few vectors: no loops, and the last ones begin where the row's last does. More: chunks of 64,
// then vectors, whose partial results become those of one vector. What is made on the way has a buffer of the row's length.
// CHECK-LABEL: func.func @less_greatest(
// CHECK-SAME:    tw.extent = 4096 : i64, tw.parallel, {{.*}}tw.schedule = "rows of any length in steps of 64, 16 of fewer than 48 elements at once, of 4 6 8 vectors without loops"
// CHECK:         %[[LENGTH:.*]] = memref.dim %{{.*}}, %c1
// CHECK:         %[[COLUMNS:.*]] = memref.alloc() : memref<48x16xf32>
// CHECK:         %[[LINE:.*]] = memref.reinterpret_cast
// CHECK:         vector.load {{.*}} : memref<?xf32, strided<[1], offset: ?>>, vector<16xf32>
// CHECK:         vector.shuffle
// CHECK:         memref.alloc() : memref<48x16xf32>
// CHECK:         arith.cmpi ule, %[[LENGTH]], %c47
// CHECK:         memref.subview %{{.*}} [1, %{{.*}}] [1, 1] : memref<?x?xf32> to memref<?xf32
// CHECK:         %[[FITS:.*]] = arith.cmpi uge, %[[LENGTH]], %c16
// CHECK:         arith.select %[[FITS]], %[[LENGTH]]
// CHECK:         scf.for %[[LAST:.*]] = %{{.*}} step %c16
// CHECK:           arith.subi %[[LENGTH]], %c16
// CHECK:           arith.minui %[[LAST]]
// CHECK:         scf.for %{{.*}} step %c1
// CHECK:         arith.cmpi ule, %[[LENGTH]], %c64
// CHECK:         tensor.extract_slice %[[ROW:.*]][0] [16] [1]
// CHECK:         tensor.extract_slice %[[ROW]][16] [16] [1]
// CHECK:         tensor.extract_slice %[[ROW]][32] [16] [1]
// CHECK:         %[[END:.*]] = arith.subi %[[LENGTH]], %c16
// CHECK:         %[[PLACE:.*]] = arith.minui %[[END]], %c48
// CHECK:         tensor.extract_slice %[[ROW]][%[[PLACE]]] [16] [1]
// CHECK:         arith.cmpi ule, %[[LENGTH]], %c96
// CHECK:         arith.cmpi ule, %[[LENGTH]], %c128
// CHECK:         %[[VECTOR:.*]] = linalg.fill {{.*}} -> tensor<64xf32>
// CHECK:         scf.for %{{.*}} step %c64 iter_args(%{{.*}} = %[[VECTOR]])
// CHECK:         scf.for %{{.*}} step %c16
// CHECK:         vector.shuffle {{.*}} : vector<64xf32>, vector<64xf32>
// CHECK:         arith.maximumf {{.*}} : vector<16xf32>
// CHECK:         linalg.generic {{.*}}iterator_types = ["reduction"]} ins(%{{.*}} : tensor<16xf32>) outs(%{{.*}} : tensor<f32>)
// CHECK:         arith.subf
func.func @less_greatest(%x: tensor<?x?xf32>, %n: index, %m: index) -> tensor<?x?xf32> attributes {tw.same_sizes = [array<i64: 0, 0, 1, -1, 3, 0>, array<i64: 0, 1, 2, -1, 3, 1>], tw.result_sizes = 2 : i64} {
  %low = arith.constant 0xFF800000 : f32
  %e = tensor.empty(%n) : tensor<?xf32>
  %f = linalg.fill ins(%low : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  %g = linalg.generic {indexing_maps = [#matrix, #row], iterator_types = ["parallel", "reduction"]}
    ins(%x : tensor<?x?xf32>) outs(%f : tensor<?xf32>) {
  ^bb0(%v: f32, %o: f32):
    %s = arith.maximumf %o, %v : f32
    linalg.yield %s : f32
  } -> tensor<?xf32>
  %h = tensor.empty(%n, %m) : tensor<?x?xf32>
  %r = linalg.generic {indexing_maps = [#matrix, #row, #matrix], iterator_types = ["parallel", "parallel"]}
    ins(%x, %g : tensor<?x?xf32>, tensor<?xf32>) outs(%h : tensor<?x?xf32>) {
  ^bb0(%v: f32, %u: f32, %o: f32):
    %s = arith.subf %v, %u : f32
    linalg.yield %s : f32
  } -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}

// Attention: blocks of 16, 4 and 1 rows. The scores of a block and their weights are in buffers, as many rows of them
// as the block has; each size of blocks along the keys ends where the keys do. Products with the values add up all keys in registers.
// CHECK-LABEL: func.func @attention(
// CHECK-SAME:    tw.schedule = "blocks of 16 x 8:\0Ascores in blocks:
// CHECK:         %[[KEYS:.*]] = memref.dim %{{.*}}, %c1
// CHECK:         %[[PITCH:.*]] = arith.addi %[[KEYS]], %c16
// CHECK:         %[[SCORES:.*]] = memref.alloc(%[[PITCH]]) : memref<16x?xf32>
// CHECK:         %[[WEIGHTS:.*]] = memref.alloc(%[[PITCH]]) : memref<16x?xf32>
// CHECK:         memref.alloc(%[[PITCH]]) : memref<4x?xf32>
// CHECK:         memref.alloc(%[[PITCH]]) : memref<1x?xf32>
// CHECK:         scf.for %[[J:.*]] = %c0 to %{{.*}} step %c64 {
// CHECK:           arith.minui %[[J]]
// CHECK:           memref.subview {{.*}} [16, 64] [1, 1]
// CHECK:         memref.subview {{.*}} [16, 16] [1, 1]
// CHECK:         memref.subview {{.*}} [16, 4] [1, 1]
// CHECK:         memref.subview {{.*}} [16, 1] [1, 1]
// CHECK:         arith.maximumf
// CHECK:         arith.subf
// CHECK:         %[[ROWS:.*]] = tensor.extract_slice %{{.*}}[0, 0] [16, %[[KEYS]]] [1, 1]
// CHECK:         linalg.generic {{.*}}"reduction"]} ins(%[[ROWS]], %{{.*}} : tensor<16x?xf32>, tensor<?x8xf32>)
func.func @attention(%q: tensor<?x4xf32>, %k: tensor<4x?xf32>, %v: tensor<?x8xf32>, %n: index, %t: index, %m: index) -> tensor<?x8xf32> attributes {tw.same_sizes = [array<i64: 0, 0, 3, -1, 5, -1, 6, 0>, array<i64: 1, 1, 2, 0, 4, -1>], tw.result_sizes = 1 : i64} {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %e = tensor.empty(%n, %t) : tensor<?x?xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x?xf32>) -> tensor<?x?xf32>
  %s = linalg.generic {indexing_maps = [#lhs, #rhs, #out], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%q, %k : tensor<?x4xf32>, tensor<4x?xf32>) outs(%f : tensor<?x?xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %c = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %c : f32
  } -> tensor<?x?xf32>
  %e1 = tensor.empty(%n) : tensor<?xf32>
  %f1 = linalg.fill ins(%low : f32) outs(%e1 : tensor<?xf32>) -> tensor<?xf32>
  %g = linalg.generic {indexing_maps = [#matrix, #row], iterator_types = ["parallel", "reduction"]}
    ins(%s : tensor<?x?xf32>) outs(%f1 : tensor<?xf32>) {
  ^bb0(%a: f32, %o: f32):
    %c = arith.maximumf %o, %a : f32
    linalg.yield %c : f32
  } -> tensor<?xf32>
  %w = linalg.generic {indexing_maps = [#matrix, #row, #matrix], iterator_types = ["parallel", "parallel"]}
    ins(%s, %g : tensor<?x?xf32>, tensor<?xf32>) outs(%e : tensor<?x?xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %c = arith.subf %a, %b : f32
    linalg.yield %c : f32
  } -> tensor<?x?xf32>
  %e2 = tensor.empty(%m) : tensor<?x8xf32>
  %f2 = linalg.fill ins(%zero : f32) outs(%e2 : tensor<?x8xf32>) -> tensor<?x8xf32>
  %r = linalg.generic {indexing_maps = [#lhs, #rhs, #out], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%w, %v : tensor<?x?xf32>, tensor<?x8xf32>) outs(%f2 : tensor<?x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %c = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %c : f32
  } -> tensor<?x8xf32>
  return %r : tensor<?x8xf32>
}

// Elements of a row may be computed with a size. Rows that become one element each go by themselves from one vector on.
// CHECK-LABEL: func.func @mean(
// CHECK-SAME:    tw.schedule = "rows of any length in steps of 64, 16 of fewer than 16 elements at once, of 2 3 4 6 8 vectors without loops"
// CHECK:         arith.sitofp
func.func @mean(%x: tensor<?x?xf32>, %count: index, %n: index) -> tensor<?xf32> attributes {tw.same_sizes = [array<i64: 0, 0, 2, -1, 3, 0>], tw.result_sizes = 1 : i64} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : tensor<?xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  %r = linalg.generic {indexing_maps = [#matrix, #row], iterator_types = ["parallel", "reduction"]}
    ins(%x : tensor<?x?xf32>) outs(%f : tensor<?xf32>) {
  ^bb0(%v: f32, %o: f32):
    %i = arith.index_cast %count : index to i32
    %d = arith.sitofp %i : i32 to f32
    %q = arith.divf %v, %d : f32
    %s = arith.addf %o, %q : f32
    linalg.yield %s : f32
  } -> tensor<?xf32>
  return %r : tensor<?xf32>
}

// Rows that read other elements of an open tensor as well are summed up element by element, but by several threads.
// CHECK-LABEL: func.func @chosen(
// CHECK-SAME:    tw.parallel
// CHECK-SAME:    tw.schedule = "blocks of 1:
func.func @chosen(%x: tensor<?x?xf32>, %table: tensor<?xf32>, %n: index) -> tensor<?xf32> attributes {tw.same_sizes = [array<i64: 0, 0, 2, -1, 3, 0>], tw.result_sizes = 1 : i64} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : tensor<?xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  %r = linalg.generic {indexing_maps = [#matrix, #row], iterator_types = ["parallel", "reduction"]}
    ins(%x : tensor<?x?xf32>) outs(%f : tensor<?xf32>) {
  ^bb0(%v: f32, %o: f32):
    %i = arith.fptosi %v : f32 to i64
    %j = arith.index_cast %i : i64 to index
    %t = tensor.extract %table[%j] : tensor<?xf32>
    %s = arith.addf %o, %t : f32
    linalg.yield %s : f32
  } -> tensor<?xf32>
  return %r : tensor<?xf32>
}
