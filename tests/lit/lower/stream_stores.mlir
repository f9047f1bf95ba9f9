// RUN: %opt %s --passes=stream-stores{least=65536} | filecheck %s

// Rows of whole lines: each step writes at a multiple of 64 bytes. What goes through a view of the row is stored into the
// result itself, since what folds views later forgets the marks.
// CHECK-LABEL: func.func @rows(
// CHECK-SAME:    %{{.*}}: memref<64x1024xf32>, %[[R:.*]]: memref<64x1024xf32>,
// CHECK-SAME:    tw.streams
// CHECK:         vector.store %{{.*}}, %[[R]][%{{.*}}, %{{.*}}] {alignment = 64 : i64, nontemporal = true}
func.func @rows(%x: memref<64x1024xf32>, %r: memref<64x1024xf32>, %lo: index, %hi: index) attributes {tw.schedule = ""} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %c64 = arith.constant 64 : index
  scf.for %i = %lo to %hi step %c1 {
    %row = memref.subview %r[%i, 0] [1, 1024] [1, 1] : memref<64x1024xf32> to memref<1024xf32, strided<[1], offset: ?>>
    scf.for %j = %c0 to %c16 step %c1 {
      %at = arith.muli %j, %c64 : index
      %v = vector.load %x[%i, %at] : memref<64x1024xf32>, vector<64xf32>
      vector.store %v, %row[%at] : memref<1024xf32, strided<[1], offset: ?>>, vector<64xf32>
    }
  }
  return
}

// Rows of 1000 elements begin within lines.
// CHECK-LABEL: func.func @rejects_ragged_rows(
// CHECK-NOT:     nontemporal
// CHECK:         return
func.func @rejects_ragged_rows(%x: memref<64x1000xf32>, %r: memref<64x1000xf32>, %lo: index, %hi: index) attributes {tw.schedule = ""} {
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  scf.for %i = %lo to %hi step %c1 {
    %v = vector.load %x[%i, %c64] : memref<64x1000xf32>, vector<64xf32>
    vector.store %v, %r[%i, %c64] : memref<64x1000xf32>, vector<64xf32>
  }
  return
}

// Half a line, a temporary buffer, an offset that may be anything.
// CHECK-LABEL: func.func @rejects_others(
// CHECK-NOT:     nontemporal
// CHECK:         return
func.func @rejects_others(%x: memref<64x1024xf32>, %r: memref<64x1024xf32>, %lo: index, %hi: index) attributes {tw.schedule = ""} {
  %c0 = arith.constant 0 : index
  %half = vector.load %x[%c0, %c0] : memref<64x1024xf32>, vector<8xf32>
  vector.store %half, %r[%c0, %c0] : memref<64x1024xf32>, vector<8xf32>
  %buffer = memref.alloc() : memref<1024xf32>
  %v = vector.load %x[%c0, %c0] : memref<64x1024xf32>, vector<64xf32>
  vector.store %v, %buffer[%c0] : memref<1024xf32>, vector<64xf32>
  vector.store %v, %r[%c0, %lo] : memref<64x1024xf32>, vector<64xf32>
  return
}

// What lies over an operand is in the cache already, and what is small stays there.
// CHECK-LABEL: func.func @rejects_in_place(
// CHECK-NOT:     nontemporal
// CHECK:         return
func.func @rejects_in_place(%x: memref<64x1024xf32>, %r: memref<64x1024xf32>, %lo: index, %hi: index) attributes {tw.schedule = "", tw.in_place = array<i64: 0>} {
  %c0 = arith.constant 0 : index
  %v = vector.load %x[%lo, %c0] : memref<64x1024xf32>, vector<64xf32>
  vector.store %v, %r[%lo, %c0] : memref<64x1024xf32>, vector<64xf32>
  return
}

// CHECK-LABEL: func.func @rejects_small(
// CHECK-NOT:     nontemporal
// CHECK:         return
func.func @rejects_small(%x: memref<8x1024xf32>, %r: memref<8x1024xf32>, %lo: index, %hi: index) attributes {tw.schedule = ""} {
  %c0 = arith.constant 0 : index
  %v = vector.load %x[%lo, %c0] : memref<8x1024xf32>, vector<64xf32>
  vector.store %v, %r[%lo, %c0] : memref<8x1024xf32>, vector<64xf32>
  return
}
