// RUN: %opt %s --passes=unroll-sums | filecheck %s

// CHECK-LABEL: func.func @long(
// CHECK:         %[[FOUR:.*]] = arith.constant 4 : index
// CHECK:         scf.for {{.*}} step %[[FOUR]] iter_args
// CHECK-COUNT-4: vector.fma
// CHECK-NOT:     vector.fma
// CHECK-NOT:     tw.unroll
func.func @long(%x: memref<1024x16xf32>, %v: vector<16xf32>) -> vector<16xf32> attributes {tw.schedule = "s"} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.constant 1024 : index
  %r = scf.for %k = %c0 to %n step %c1 iter_args(%acc = %v) -> (vector<16xf32>) {
    %w = vector.load %x[%k, %c0] : memref<1024x16xf32>, vector<16xf32>
    %s = vector.fma %w, %v, %acc : vector<16xf32>
    scf.yield %s : vector<16xf32>
  } {tw.unroll = 4 : i64}
  return %r : vector<16xf32>
}

// Each loop by its own factor; the steps that a factor does not divide come after.
// CHECK-LABEL: func.func @factors(
// CHECK-COUNT-2: vector.fma
// CHECK:         scf.yield
// CHECK:         scf.for
// CHECK-COUNT-3: vector.fma
// CHECK:         scf.yield
// CHECK:         vector.fma
// CHECK-NOT:     vector.fma
func.func @factors(%x: memref<1024x16xf32>, %v: vector<16xf32>) -> vector<16xf32> attributes {tw.schedule = "s"} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.constant 1024 : index
  %a = scf.for %k = %c0 to %n step %c1 iter_args(%acc = %v) -> (vector<16xf32>) {
    %w = vector.load %x[%k, %c0] : memref<1024x16xf32>, vector<16xf32>
    %s = vector.fma %w, %v, %acc : vector<16xf32>
    scf.yield %s : vector<16xf32>
  } {tw.unroll = 2 : i64}
  %b = scf.for %k = %c0 to %n step %c1 iter_args(%acc = %a) -> (vector<16xf32>) {
    %w = vector.load %x[%k, %c0] : memref<1024x16xf32>, vector<16xf32>
    %s = vector.fma %w, %v, %acc : vector<16xf32>
    scf.yield %s : vector<16xf32>
  } {tw.unroll = 3 : i64}
  return %b : vector<16xf32>
}

// A loop that the schedule does not mark stays, however long.
// CHECK-LABEL: func.func @rejects(
// CHECK-COUNT-1: vector.fma
// CHECK-NOT:     vector.fma
func.func @rejects(%x: memref<1024x16xf32>, %v: vector<16xf32>) -> vector<16xf32> attributes {tw.schedule = "s"} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.constant 1024 : index
  %a = scf.for %k = %c0 to %n step %c1 iter_args(%acc = %v) -> (vector<16xf32>) {
    %w = vector.load %x[%k, %c0] : memref<1024x16xf32>, vector<16xf32>
    %s = vector.fma %w, %v, %acc : vector<16xf32>
    scf.yield %s : vector<16xf32>
  }
  return %a : vector<16xf32>
}
