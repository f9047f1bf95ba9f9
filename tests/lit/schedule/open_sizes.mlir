// RUN: tilewright opt %s --passes=apply-schedule | filecheck %s

#matrix = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#column = affine_map<(i, j) -> (j)>

// Rows go in blocks of 16, the rest in blocks of 4, and what is left one by one. The steps are those of all blocks together.
// CHECK-LABEL: func.func @bias(
// CHECK-SAME:    %{{.*}}: memref<1xf32>, %{{.*}}: memref<8xf32>, %[[R:.*]]: memref<1xf32>, %[[N:.*]]: index, %[[M:.*]]: index, %[[LO:.*]]: index, %[[HI:.*]]: index)
// CHECK-SAME:    tw.extent = 4096 : i64, tw.parallel, {{.*}}tw.schedule = "blocks of 16 x 8:
// CHECK:         %[[BUFFER:.*]] = memref.reinterpret_cast %[[R]] to offset: [0], sizes: [%[[M]], 8], strides: [8, 1]
// CHECK:         %[[ROWS:.*]] = memref.dim %[[BUFFER]], %c0
// CHECK:         %[[COUNT:.*]] = arith.divui %[[ROWS]], %c16
// CHECK:         %[[REST:.*]] = arith.remui %[[ROWS]], %c16
// CHECK:         %[[FOURS:.*]] = arith.divui %[[REST]], %c4
// CHECK:         scf.for
// CHECK:             memref.subview %[[BUFFER]][%{{.*}}, 0] [16, 8] [1, 1]
// CHECK:             tensor.extract_slice %{{.*}} [16, 8] [1, 1] : tensor<?x8xf32> to tensor<16x8xf32>
// CHECK:             linalg.generic
// CHECK:             bufferization.materialize_in_destination
// CHECK:         scf.for
// CHECK:             memref.subview %[[BUFFER]][%{{.*}}, 0] [4, 8] [1, 1]
// CHECK:         scf.for
// CHECK:             tensor.extract_slice %{{.*}} [1, 8] [1, 1] : tensor<?x8xf32> to tensor<8xf32>
func.func @bias(%x: tensor<?x8xf32>, %b: tensor<8xf32>, %n: index) -> tensor<?x8xf32> attributes {tw.result_sizes = 1 : i64} {
  %e = tensor.empty(%n) : tensor<?x8xf32>
  %r = linalg.generic {indexing_maps = [#matrix, #column, #matrix], iterator_types = ["parallel", "parallel"]}
    ins(%x, %b : tensor<?x8xf32>, tensor<8xf32>) outs(%e : tensor<?x8xf32>) {
  ^bb0(%v: f32, %u: f32, %o: f32):
    %s = arith.addf %v, %u : f32
    linalg.yield %s : f32
  } -> tensor<?x8xf32>
  return %r : tensor<?x8xf32>
}

// A sum over an open axis: chunks of 64, of 8 and of 1, each added to what is in a buffer of the thread's own.
// CHECK-LABEL: func.func @sums(
// CHECK:         %[[TOTAL:.*]] = memref.alloc() : memref<8xf32>
// CHECK:         scf.for %{{.*}} step %c64
// CHECK:           bufferization.to_tensor %[[TOTAL]] restrict
// CHECK:         scf.for %{{.*}} step %c8
// CHECK:         scf.for %{{.*}} step %c1
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

// What computes with its place has no blocks: it stays whole.
// CHECK-LABEL: func.func @places(
// CHECK-SAME:    tw.extent = 1 : i64
// CHECK-NOT:     tw.schedule
// CHECK:         linalg.index
func.func @places(%x: tensor<?x8xf32>, %n: index) -> tensor<?x8xf32> attributes {tw.result_sizes = 1 : i64} {
  %e = tensor.empty(%n) : tensor<?x8xf32>
  %r = linalg.generic {indexing_maps = [#matrix, #matrix], iterator_types = ["parallel", "parallel"]}
    ins(%x : tensor<?x8xf32>) outs(%e : tensor<?x8xf32>) {
  ^bb0(%v: f32, %o: f32):
    %i = linalg.index 0 : index
    %c = arith.index_cast %i : index to i64
    %t = arith.sitofp %c : i64 to f32
    %s = arith.addf %v, %t : f32
    linalg.yield %s : f32
  } -> tensor<?x8xf32>
  return %r : tensor<?x8xf32>
}
