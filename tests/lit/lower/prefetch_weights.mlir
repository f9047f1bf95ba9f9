// RUN: tilewright opt %s --passes=prefetch-weights | filecheck %s
// RUN: tilewright opt %s --passes=prefetch-weights{distance=8} | filecheck %s --check-prefix=NEAR

// Both cache lines of a row, before anything is loaded.
// CHECK-LABEL: func.func @stream(
// CHECK-SAME:    %[[X:.*]]: memref<512xf32>, %[[W:.*]]: memref<8x512x32xf32>
// CHECK:         scf.for %[[K:.*]] = %{{.*}} iter_args
// CHECK:           %[[FAR:.*]] = arith.constant 32 : index
// CHECK:           arith.addi %[[K]], %[[FAR]]
// CHECK:           memref.prefetch %[[W]]{{.*}}, read, locality<3>, data
// CHECK:           memref.prefetch %[[W]]{{.*}}, read, locality<3>, data
// CHECK-NOT:       memref.prefetch
// CHECK:           memref.load
// CHECK:           vector.load
// NEAR-LABEL: func.func @stream(
// NEAR:           arith.constant 8 : index
func.func @stream(%x: memref<512xf32>, %w: memref<8x512x32xf32>, %block: index) -> vector<32xf32>
    attributes {tw.schedule = "tile"} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c512 = arith.constant 512 : index
  %zero = arith.constant dense<0.0> : vector<32xf32>
  %sum = scf.for %k = %c0 to %c512 step %c1 iter_args(%acc = %zero) -> (vector<32xf32>) {
    %a = memref.load %x[%k] : memref<512xf32>
    %b = vector.broadcast %a : f32 to vector<32xf32>
    %row = vector.load %w[%block, %k, %c0] : memref<8x512x32xf32>, vector<32xf32>
    %next = vector.fma %b, %row, %acc : vector<32xf32>
    scf.yield %next : vector<32xf32>
  }
  return %sum : vector<32xf32>
}

// Parts of rows do not follow each other in memory, and a row that the loop does not step through is there already.
// CHECK-LABEL: func.func @rejects_parts(
// CHECK-NOT:     memref.prefetch
func.func @rejects_parts(%w: memref<512x64xf32>, %same: memref<4x32xf32>) -> vector<32xf32>
    attributes {tw.schedule = "tile"} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c512 = arith.constant 512 : index
  %zero = arith.constant dense<0.0> : vector<32xf32>
  %sum = scf.for %k = %c0 to %c512 step %c1 iter_args(%acc = %zero) -> (vector<32xf32>) {
    %part = vector.load %w[%k, %c0] : memref<512x64xf32>, vector<32xf32>
    %row = vector.load %same[%c1, %c0] : memref<4x32xf32>, vector<32xf32>
    %next = vector.fma %part, %row, %acc : vector<32xf32>
    scf.yield %next : vector<32xf32>
  }
  return %sum : vector<32xf32>
}
