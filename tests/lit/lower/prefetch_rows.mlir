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

// Rows behind others are as far apart.
// CHECK-LABEL: func.func @rows_from_a_place_on(
// CHECK:         %[[R:.*]] = arith.addi %{{.*}}, %c32
// CHECK:         %[[NEXT:.*]] = arith.addi %[[R]], %c1
// CHECK:         memref.prefetch %arg0[%[[NEXT]], {{.*}}, read
func.func @rows_from_a_place_on(%x: memref<64x128xf32>, %y: memref<64x128xf32>, %lo: index, %hi: index)
    attributes {tw.schedule = "row"} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c32 = arith.constant 32 : index
  %zero = arith.constant dense<0.0> : vector<32xf32>
  scf.for %number = %lo to %hi step %c1 {
    %r = arith.addi %number, %c32 : index
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

// Rows whose length only the run knows, of any size: the loop over whole chunks asks, not that over the rest of a row.
// CHECK-LABEL: func.func @dynamic(
// CHECK:         %[[X:.*]] = memref.reinterpret_cast %arg0
// CHECK:         %[[Y:.*]] = memref.reinterpret_cast %arg1
// CHECK:         scf.for %[[N:[a-z0-9]+]] =
// CHECK:           scf.for %[[HIDDEN:[a-z0-9]+]] =
// CHECK:             %[[R:.*]] = arith.index_cast %{{.*}} : i64 to index
// CHECK:             scf.for
// CHECK-NOT:           memref.prefetch
// CHECK:               arith.maximumf
// CHECK:             scf.for %[[I:[a-z0-9]+]] =
// CHECK:               %[[NEXT:.*]] = arith.addi %[[R]]
// CHECK:               %[[AT:.*]] = arith.addi %[[I]]
// CHECK-NEXT:          memref.prefetch %[[X]][%[[N]], %[[NEXT]], %[[AT]]], read, locality<3>, data
// CHECK-NEXT:          memref.prefetch %[[Y]][%[[N]], %[[R]], %[[AT]]], write, locality<3>, data
// CHECK:               memref.prefetch %[[X]]
// CHECK-NEXT:          memref.prefetch %[[Y]]
// CHECK-NOT:         memref.prefetch
// CHECK:         return
// LARGE-LABEL: func.func @dynamic(
// LARGE-COUNT-4: memref.prefetch
func.func @dynamic(%x: memref<1xf32>, %y: memref<1xf32>, %m: index, %n: index, %k: index, %lo: index, %hi: index)
    attributes {tw.schedule = "row", tw.sizes = 3 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c32 = arith.constant 32 : index
  %low = arith.constant dense<0xFF800000> : vector<32xf32>
  %size = arith.muli %n, %k : index
  %rows = memref.reinterpret_cast %x to offset: [0], sizes: [%m, %n, %k], strides: [%size, %k, 1]
    : memref<1xf32> to memref<?x?x?xf32>
  %result = memref.reinterpret_cast %y to offset: [0], sizes: [%m, %n, %k], strides: [%size, %k, 1]
    : memref<1xf32> to memref<?x?x?xf32>
  %row = memref.alloc(%k) : memref<?xf32>
  %count = arith.divui %k, %c32 : index
  %whole = arith.muli %count, %c32 : index
  scf.for %b = %lo to %hi step %c1 {
    scf.for %number = %c0 to %n step %c1 {
      %word = arith.index_cast %number : index to i64
      %hidden = llvm.inline_asm "", "=r,0" %word : (i64) -> i64
      %r = arith.index_cast %hidden : i64 to index
      %most = scf.for %i = %c0 to %whole step %c32 iter_args(%acc = %low) -> (vector<32xf32>) {
        %a = vector.load %rows[%b, %r, %i] : memref<?x?x?xf32>, vector<32xf32>
        %c = arith.maximumf %acc, %a : vector<32xf32>
        scf.yield %c : vector<32xf32>
      }
      scf.for %i = %c0 to %whole step %c32 {
        %a = vector.load %rows[%b, %r, %i] : memref<?x?x?xf32>, vector<32xf32>
        %c = arith.subf %a, %most : vector<32xf32>
        vector.store %c, %row[%i] : memref<?xf32>, vector<32xf32>
      }
      scf.for %i = %whole to %k step %c8 {
        %a = vector.load %rows[%b, %r, %i] : memref<?x?x?xf32>, vector<8xf32>
        %c = arith.negf %a : vector<8xf32>
        %d = arith.negf %c : vector<8xf32>
        vector.store %d, %row[%i] : memref<?xf32>, vector<8xf32>
      }
      %place = memref.subview %result[%b, %r, 0] [1, 1, %k] [1, 1, 1]
        : memref<?x?x?xf32> to memref<?xf32, strided<[1], offset: ?>>
      scf.for %i = %c0 to %whole step %c32 {
        %a = vector.load %row[%i] : memref<?xf32>, vector<32xf32>
        vector.store %a, %place[%i] : memref<?xf32, strided<[1], offset: ?>>, vector<32xf32>
      }
    }
  }
  return
}

// Rows of which the axes before are joined: a view besides that of the argument, which is what the loops read.
// CHECK-LABEL: func.func @joined(
// CHECK:         memref.reinterpret_cast %arg0
// CHECK:         memref.reinterpret_cast %arg1
// CHECK:         %[[X:.*]] = memref.reinterpret_cast %arg0
// CHECK:         %[[Y:.*]] = memref.reinterpret_cast %arg1
// CHECK:           arith.maximumf
// CHECK:             memref.prefetch %[[X]][%{{.*}}], read, locality<3>, data
// CHECK-NEXT:        memref.prefetch %[[Y]][%{{.*}}], write, locality<3>, data
// CHECK:         return
func.func @joined(%x: memref<1xf32>, %y: memref<1xf32>, %m: index, %n: index, %k: index, %lo: index, %hi: index)
    attributes {tw.schedule = "row", tw.sizes = 3 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %low = arith.constant dense<0xFF800000> : vector<16xf32>
  %size = arith.muli %n, %k : index
  %count = arith.muli %m, %n : index
  %images = memref.reinterpret_cast %x to offset: [0], sizes: [%m, %n, %k], strides: [%size, %k, 1]
    : memref<1xf32> to memref<?x?x?xf32>
  %made = memref.reinterpret_cast %y to offset: [0], sizes: [%m, %n, %k], strides: [%size, %k, 1]
    : memref<1xf32> to memref<?x?x?xf32>
  %rows = memref.reinterpret_cast %x to offset: [0], sizes: [%count, %k], strides: [%k, 1]
    : memref<1xf32> to memref<?x?xf32>
  %result = memref.reinterpret_cast %y to offset: [0], sizes: [%count, %k], strides: [%k, 1]
    : memref<1xf32> to memref<?x?xf32>
  %row = memref.alloc(%k) : memref<?xf32>
  scf.for %r = %lo to %hi step %c1 {
    %most = scf.for %i = %c0 to %k step %c16 iter_args(%acc = %low) -> (vector<16xf32>) {
      %a = vector.load %rows[%r, %i] : memref<?x?xf32>, vector<16xf32>
      %c = arith.maximumf %acc, %a : vector<16xf32>
      scf.yield %c : vector<16xf32>
    }
    scf.for %i = %c0 to %k step %c16 {
      %a = vector.load %rows[%r, %i] : memref<?x?xf32>, vector<16xf32>
      %c = arith.subf %a, %most : vector<16xf32>
      %d = arith.mulf %c, %c : vector<16xf32>
      vector.store %d, %row[%i] : memref<?xf32>, vector<16xf32>
    }
    scf.for %i = %c0 to %k step %c16 {
      %a = vector.load %row[%i] : memref<?xf32>, vector<16xf32>
      vector.store %a, %result[%r, %i] : memref<?x?xf32>, vector<16xf32>
    }
  }
  return
}
