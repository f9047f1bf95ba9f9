// RUN: tilewright opt %s --passes=unroll-sums | filecheck %s

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
  }
  return %r : vector<16xf32>
}

// Short loops, those that four does not divide, and what is no sum stay.
// CHECK-LABEL: func.func @rejects(
// CHECK-COUNT-2: vector.fma
// CHECK-NOT:     vector.fma
// CHECK:         arith.maximumf
// CHECK-NOT:     arith.maximumf
func.func @rejects(%x: memref<1024x16xf32>, %v: vector<16xf32>) -> vector<16xf32> attributes {tw.schedule = "s"} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %short = arith.constant 64 : index
  %odd = arith.constant 1023 : index
  %n = arith.constant 1024 : index
  %a = scf.for %k = %c0 to %short step %c1 iter_args(%acc = %v) -> (vector<16xf32>) {
    %w = vector.load %x[%k, %c0] : memref<1024x16xf32>, vector<16xf32>
    %s = vector.fma %w, %v, %acc : vector<16xf32>
    scf.yield %s : vector<16xf32>
  }
  %b = scf.for %k = %c0 to %odd step %c1 iter_args(%acc = %a) -> (vector<16xf32>) {
    %w = vector.load %x[%k, %c0] : memref<1024x16xf32>, vector<16xf32>
    %s = vector.fma %w, %v, %acc : vector<16xf32>
    scf.yield %s : vector<16xf32>
  }
  %c = scf.for %k = %c0 to %n step %c1 iter_args(%acc = %b) -> (vector<16xf32>) {
    %w = vector.load %x[%k, %c0] : memref<1024x16xf32>, vector<16xf32>
    %s = arith.maximumf %w, %acc : vector<16xf32>
    scf.yield %s : vector<16xf32>
  }
  return %c : vector<16xf32>
}
