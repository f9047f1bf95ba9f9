// RUN: %opt %s --passes=prefetch-rows{least=0} | filecheck %s
// RUN: %opt %s --passes=prefetch-rows | filecheck %s --check-prefix=LARGE

// The one of two loops over a row that computes more asks for the next one, and for the row of the result: two lines of
// each.
// CHECK-LABEL: func.func @rows(
// CHECK-SAME:    %[[X:.*]]: memref<64x128xf32>, %[[Y:.*]]: memref<64x128xf32>
// CHECK:         scf.for %[[R:[a-z0-9]+]] =
// CHECK:           scf.for
// CHECK-NOT:         memref.prefetch
// CHECK:             arith.maximumf
// CHECK:           scf.for
// CHECK:             %[[NEXT:.*]] = arith.addi %[[R]]
// CHECK:             memref.prefetch %[[X]][%[[NEXT]], %[[AT:.*]]], read, locality<3>, data
// CHECK-NEXT:        memref.prefetch %[[Y]][%[[R]], %[[AT]]], write, locality<3>, data
// CHECK:             memref.prefetch %[[X]][%[[NEXT]], %[[AT:.*]]], read, locality<3>, data
// CHECK-NEXT:        memref.prefetch %[[Y]][%[[R]], %[[AT]]], write, locality<3>, data
// CHECK-NOT:         memref.prefetch
// CHECK:             vector.load
// LARGE-NOT:   memref.prefetch
func.func @rows(%x: memref<64x128xf32>, %y: memref<64x128xf32>, %lo: index, %hi: index) attributes {tw.schedule = "row"} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c32 = arith.constant 32 : index
  %low = arith.constant dense<0xFF800000> : vector<32xf32>
  %row = memref.alloc() : memref<128xf32>
  scf.for %r = %lo to %hi step %c1 {
    %m = scf.for %i = %c0 to %c4 step %c1 iter_args(%acc = %low) -> (vector<32xf32>) {
      %at = arith.muli %i, %c32 : index
      %a = vector.load %x[%r, %at] : memref<64x128xf32>, vector<32xf32>
      %b = arith.maximumf %acc, %a : vector<32xf32>
      scf.yield %b : vector<32xf32>
    }
    scf.for %i = %c0 to %c4 step %c1 {
      %at = arith.muli %i, %c32 : index
      %a = vector.load %x[%r, %at] : memref<64x128xf32>, vector<32xf32>
      %b = arith.subf %a, %m : vector<32xf32>
      vector.store %b, %row[%at] : memref<128xf32>, vector<32xf32>
    }
    scf.for %i = %c0 to %c4 step %c1 {
      %at = arith.muli %i, %c32 : index
      %a = vector.load %row[%at] : memref<128xf32>, vector<32xf32>
      vector.store %a, %y[%r, %at] : memref<64x128xf32>, vector<32xf32>
    }
  }
  return
}

// The loop that stores into the result asks for nothing, though it computes most.
// CHECK-LABEL: func.func @stores_what_it_loads(
// CHECK:         memref.prefetch %arg0{{.*}}, read
// CHECK:         memref.prefetch %arg1{{.*}}, write
// CHECK:         arith.addf
// CHECK-NOT:     memref.prefetch
// CHECK:         return
func.func @stores_what_it_loads(%x: memref<64x128xf32>, %y: memref<64x128xf32>, %lo: index, %hi: index)
    attributes {tw.schedule = "row"} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c32 = arith.constant 32 : index
  %zero = arith.constant dense<0.0> : vector<32xf32>
  scf.for %r = %lo to %hi step %c1 {
    %place = memref.subview %y[%r, 0] [1, 128] [1, 1] : memref<64x128xf32> to memref<128xf32, strided<[1], offset: ?>>
    %s = scf.for %i = %c0 to %c4 step %c1 iter_args(%acc = %zero) -> (vector<32xf32>) {
      %at = arith.muli %i, %c32 : index
      %a = vector.load %x[%r, %at] : memref<64x128xf32>, vector<32xf32>
      %b = arith.addf %acc, %a : vector<32xf32>
      scf.yield %b : vector<32xf32>
    }
    scf.for %i = %c0 to %c4 step %c1 {
      %at = arith.muli %i, %c32 : index
      %a = vector.load %x[%r, %at] : memref<64x128xf32>, vector<32xf32>
      %d = arith.subf %a, %s : vector<32xf32>
      %b = arith.mulf %d, %d : vector<32xf32>
      vector.store %b, %place[%at] : memref<128xf32, strided<[1], offset: ?>>, vector<32xf32>
    }
  }
  return
}

// One loop over each row, rows that the steps of the outer loop are not, or places that are no multiples of a vector: left
// alone.
// CHECK-LABEL: func.func @rejects(
// CHECK-NOT:     memref.prefetch
// CHECK:         return
func.func @rejects(%x: memref<64x128xf32>, %z: memref<64x128xf32>, %y: memref<64x128xf32>, %lo: index, %hi: index)
    attributes {tw.schedule = "row"} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c32 = arith.constant 32 : index
  scf.for %r = %lo to %hi step %c1 {
    scf.for %i = %c0 to %c4 step %c1 {
      %at = arith.muli %i, %c32 : index
      %a = vector.load %x[%r, %at] : memref<64x128xf32>, vector<32xf32>
      %b = vector.load %z[%c0, %at] : memref<64x128xf32>, vector<32xf32>
      %square = arith.muli %i, %i : index
      %d = vector.load %z[%r, %square] : memref<64x128xf32>, vector<32xf32>
      %e = arith.addf %a, %b : vector<32xf32>
      %c = arith.addf %d, %e : vector<32xf32>
      vector.store %c, %y[%r, %at] : memref<64x128xf32>, vector<32xf32>
    }
    scf.for %i = %c0 to %c4 step %c1 {
      %at = arith.muli %i, %c32 : index
      %b = vector.load %z[%c0, %at] : memref<64x128xf32>, vector<32xf32>
      vector.store %b, %y[%r, %at] : memref<64x128xf32>, vector<32xf32>
    }
  }
  return
}
