// RUN: %opt %s --passes=prefetch-results{least=4096} | filecheck %s
// RUN: %opt %s --passes=prefetch-results{least=100000000} | filecheck %s --check-prefix=SMALL

// SMALL-NOT: memref.prefetch

// A tile of rows that are no whole lines: each line of each row, and the one in which the row ends.
// CHECK-LABEL: func.func @sums(
// CHECK-SAME:    %[[Y:[a-z0-9]+]]: memref<26x1444xf32>
// CHECK:         scf.for %[[I:[a-z0-9]+]] =
// CHECK-COUNT-3:   memref.prefetch %[[Y]]{{.*}}, write, locality<3>, data
// CHECK:           %[[NEXT:.*]] = arith.addi %[[I]]
// CHECK:           memref.prefetch %[[Y]][%[[NEXT]], {{.*}}], write, locality<3>, data
// CHECK-COUNT-2:   memref.prefetch %[[Y]]{{.*}}, write, locality<3>, data
// CHECK-NOT:       memref.prefetch
// CHECK:           scf.for {{.*}} iter_args
// CHECK-NOT:       memref.prefetch
// CHECK:           vector.transfer_write
func.func @sums(%x: memref<26x33xf32>, %w: memref<33x32xf32>, %y: memref<26x1444xf32>, %lo: index, %hi: index)
    attributes {tw.schedule = "product"} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c33 = arith.constant 33 : index
  %zero = arith.constant dense<0.0> : vector<2x32xf32>
  scf.for %i = %lo to %hi step %c1 {
    %sum = scf.for %k = %c0 to %c33 step %c1 iter_args(%acc = %zero) -> (vector<2x32xf32>) {
      %b = vector.load %w[%k, %c0] : memref<33x32xf32>, vector<32xf32>
      %c = vector.broadcast %b : vector<32xf32> to vector<2x32xf32>
      %d = arith.addf %acc, %c : vector<2x32xf32>
      scf.yield %d : vector<2x32xf32>
    }
    vector.transfer_write %sum, %y[%i, %c0] {in_bounds = [true, true]} : vector<2x32xf32>, memref<26x1444xf32>
  }
  return
}

// Before a tile is read that is turned, the last column of the one beside it.
// CHECK-LABEL: func.func @turns(
// CHECK-SAME:    %[[Y:[a-z0-9]+]]: memref<1000x255xf32>
// CHECK:         scf.for %[[J:[a-z0-9]+]] =
// CHECK:           %[[LAST:.*]] = arith.addi %[[J]], %{{.*}}
// CHECK-NEXT:      memref.prefetch %[[Y]][%{{.*}}, %[[LAST]]], write, locality<3>, data
// CHECK:           memref.prefetch %[[Y]]{{.*}}, write, locality<3>, data
// CHECK-NOT:       memref.prefetch
// CHECK:           vector.transfer_read
func.func @turns(%x: memref<255x1000xf32>, %y: memref<1000x255xf32>, %lo: index, %hi: index)
    attributes {tw.schedule = "turned"} {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %low = arith.constant 0.0 : f32
  scf.for %j = %lo to %hi step %c2 {
    %t = vector.transfer_read %x[%j, %c0], %low {in_bounds = [true, true]} : memref<255x1000xf32>, vector<2x2xf32>
    %u = vector.transpose %t, [1, 0] : vector<2x2xf32> to vector<2x2xf32>
    vector.transfer_write %u, %y[%c0, %j] {in_bounds = [true, true]} : vector<2x2xf32>, memref<1000x255xf32>
  }
  return
}

// Long sums take longer than their tiles take to be written.
// CHECK-LABEL: func.func @rejects_long_sums(
// CHECK-NOT:     memref.prefetch
// CHECK:         return
func.func @rejects_long_sums(%w: memref<512x32xf32>, %y: memref<26x1444xf32>, %lo: index, %hi: index)
    attributes {tw.schedule = "product"} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c512 = arith.constant 512 : index
  %zero = arith.constant dense<0.0> : vector<32xf32>
  scf.for %i = %lo to %hi step %c1 {
    %sum = scf.for %k = %c0 to %c512 step %c1 iter_args(%acc = %zero) -> (vector<32xf32>) {
      %b = vector.load %w[%k, %c0] : memref<512x32xf32>, vector<32xf32>
      %d = arith.addf %acc, %b : vector<32xf32>
      scf.yield %d : vector<32xf32>
    }
    vector.store %sum, %y[%i, %c0] : memref<26x1444xf32>, vector<32xf32>
  }
  return
}

// Rows of whole lines near each other come by themselves.
// CHECK-LABEL: func.func @rejects_near_rows(
// CHECK-NOT:     memref.prefetch
// CHECK:         return
func.func @rejects_near_rows(%x: memref<64x1000xf32>, %w: memref<8x32xf32>, %y: memref<1000x64xf32>, %lo: index, %hi: index)
    attributes {tw.schedule = "product"} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %low = arith.constant 0.0 : f32
  %zero = arith.constant dense<0.0> : vector<32xf32>
  scf.for %i = %lo to %hi step %c1 {
    %sum = scf.for %k = %c0 to %c8 step %c1 iter_args(%acc = %zero) -> (vector<32xf32>) {
      %b = vector.load %w[%k, %c0] : memref<8x32xf32>, vector<32xf32>
      %d = arith.addf %acc, %b : vector<32xf32>
      scf.yield %d : vector<32xf32>
    }
    vector.store %sum, %y[%i, %c0] : memref<1000x64xf32>, vector<32xf32>
  }
  scf.for %j = %lo to %hi step %c1 {
    %t = vector.transfer_read %x[%j, %c0], %low {in_bounds = [true, true]} : memref<64x1000xf32>, vector<2x2xf32>
    %u = vector.transpose %t, [1, 0] : vector<2x2xf32> to vector<2x2xf32>
    vector.transfer_write %u, %y[%c0, %j] {in_bounds = [true, true]} : vector<2x2xf32>, memref<1000x64xf32>
  }
  return
}

// Nor is a place asked for that only the code behind the sum computes.
// CHECK-LABEL: func.func @rejects_late_places(
// CHECK-NOT:     memref.prefetch
// CHECK:         return
func.func @rejects_late_places(%w: memref<8x32xf32>, %y: memref<26x1444xf32>, %lo: index, %hi: index)
    attributes {tw.schedule = "product"} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %zero = arith.constant dense<0.0> : vector<32xf32>
  scf.for %i = %lo to %hi step %c1 {
    %sum = scf.for %k = %c0 to %c8 step %c1 iter_args(%acc = %zero) -> (vector<32xf32>) {
      %b = vector.load %w[%k, %c0] : memref<8x32xf32>, vector<32xf32>
      %d = arith.addf %acc, %b : vector<32xf32>
      scf.yield %d : vector<32xf32>
    }
    %at = arith.addi %i, %c1 : index
    vector.store %sum, %y[%at, %c0] : memref<26x1444xf32>, vector<32xf32>
  }
  return
}
