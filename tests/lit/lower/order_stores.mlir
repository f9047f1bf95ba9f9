// RUN: %opt %s --passes=order-stores --target "x86 -mcpu=sapphirerapids" | filecheck %s
// RUN: %opt %s --passes=order-stores --target "x86 -mcpu=znver4" | filecheck %s --check-prefix=AMD

// AMD-NOT: tw.ordered

// Rows of 1000 elements begin within lines, also where they are seen through a view.
// CHECK-LABEL: func.func @ragged_rows(
// CHECK-SAME:    tw.ordered = 512
func.func @ragged_rows(%x: memref<64x1000xf32>, %r: memref<64x1000xf32>, %lo: index, %hi: index) attributes {tw.schedule = ""} {
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  scf.for %i = %lo to %hi step %c1 {
    %row = memref.subview %r[%i, 0] [1, 1000] [1, 1] : memref<64x1000xf32> to memref<1000xf32, strided<[1], offset: ?>>
    %v = vector.load %x[%i, %c64] : memref<64x1000xf32>, vector<64xf32>
    vector.store %v, %row[%c64] : memref<1000xf32, strided<[1], offset: ?>>, vector<64xf32>
  }
  return
}

// Whole lines, in whatever order.
// CHECK-LABEL: func.func @rejects_lines(
// CHECK-NOT:     tw.ordered
// CHECK:         return
func.func @rejects_lines(%x: memref<64x1024xf32>, %r: memref<64x1024xf32>, %lo: index, %hi: index) attributes {tw.schedule = ""} {
  %c64 = arith.constant 64 : index
  %v = vector.load %x[%lo, %c64] : memref<64x1024xf32>, vector<64xf32>
  vector.store %v, %r[%lo, %c64] : memref<64x1024xf32>, vector<64xf32>
  return
}

// What stays in the first cache.
// CHECK-LABEL: func.func @rejects_small(
// CHECK-NOT:     tw.ordered
// CHECK:         return
func.func @rejects_small(%x: memref<4x1000xf32>, %r: memref<4x1000xf32>, %lo: index, %hi: index) attributes {tw.schedule = ""} {
  %c64 = arith.constant 64 : index
  %v = vector.load %x[%lo, %c64] : memref<4x1000xf32>, vector<64xf32>
  vector.store %v, %r[%lo, %c64] : memref<4x1000xf32>, vector<64xf32>
  return
}

// A kernel that reads what it has written.
// CHECK-LABEL: func.func @rejects_sums(
// CHECK-NOT:     tw.ordered
// CHECK:         return
func.func @rejects_sums(%x: memref<64x1000xf32>, %r: memref<64x1000xf32>, %lo: index, %hi: index) attributes {tw.schedule = ""} {
  %c64 = arith.constant 64 : index
  %v = vector.load %x[%lo, %c64] : memref<64x1000xf32>, vector<64xf32>
  %w = vector.load %r[%lo, %c64] : memref<64x1000xf32>, vector<64xf32>
  %s = arith.addf %v, %w : vector<64xf32>
  vector.store %s, %r[%hi, %c64] : memref<64x1000xf32>, vector<64xf32>
  return
}

// A product's tile takes longer than to store it.
// CHECK-LABEL: func.func @rejects_products(
// CHECK-NOT:     tw.ordered
// CHECK:         return
func.func @rejects_products(%x: memref<64x1000xf32>, %r: memref<64x1000xf32>, %lo: index, %hi: index) attributes {tw.schedule = ""} {
  %c64 = arith.constant 64 : index
  %v = vector.load %x[%lo, %c64] : memref<64x1000xf32>, vector<64xf32>
  %s = vector.fma %v, %v, %v : vector<64xf32>
  vector.store %s, %r[%lo, %c64] : memref<64x1000xf32>, vector<64xf32>
  return
}

// Rows of open length, whatever they are in a run.
// CHECK-LABEL: func.func @open_rows(
// CHECK-SAME:    tw.ordered = 512
func.func @open_rows(%x: memref<1xf32>, %r: memref<1xf32>, %m: index, %n: index, %k: index, %l: index, %lo: index, %hi: index) attributes {tw.schedule = "", tw.sizes = 4 : i64} {
  %c64 = arith.constant 64 : index
  %from = memref.reinterpret_cast %x to offset: [0], sizes: [%m, %n], strides: [%n, 1] : memref<1xf32> to memref<?x?xf32>
  %to = memref.reinterpret_cast %r to offset: [0], sizes: [%k, %l], strides: [%l, 1] : memref<1xf32> to memref<?x?xf32>
  %v = vector.load %from[%lo, %c64] : memref<?x?xf32>, vector<64xf32>
  vector.store %v, %to[%lo, %c64] : memref<?x?xf32>, vector<64xf32>
  return
}

// An open number of rows that are whole lines, and one row.
// CHECK-LABEL: func.func @rejects_open_lines(
// CHECK-NOT:     tw.ordered
// CHECK:         return
func.func @rejects_open_lines(%x: memref<1xf32>, %r: memref<1xf32>, %m: index, %k: index, %lo: index, %hi: index) attributes {tw.schedule = "", tw.sizes = 2 : i64} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %from = memref.reinterpret_cast %x to offset: [0], sizes: [%m, 1024], strides: [1024, 1] : memref<1xf32> to memref<?x1024xf32>
  %to = memref.reinterpret_cast %r to offset: [0], sizes: [%k, 1024], strides: [1024, 1] : memref<1xf32> to memref<?x1024xf32>
  %line = memref.reinterpret_cast %r to offset: [0], sizes: [%k], strides: [1] : memref<1xf32> to memref<?xf32>
  %v = vector.load %from[%lo, %c64] : memref<?x1024xf32>, vector<64xf32>
  vector.store %v, %to[%lo, %c64] : memref<?x1024xf32>, vector<64xf32>
  vector.store %v, %line[%lo] : memref<?xf32>, vector<64xf32>
  return
}
