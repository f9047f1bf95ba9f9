// RUN: %opt %s --passes=shuffle-gathers | filecheck %s

// Elements that lie within 16 of each other, as the first 16 of 32 and then the others tell, are loaded and put in order.
// CHECK-LABEL: func.func @near(
// CHECK:         %[[SIZE:.*]] = arith.muli
// CHECK:         %[[START:.*]] = vector.extract %{{.*}}[0] : index from vector<16xindex>
// CHECK:         %[[FITS:.*]] = arith.cmpi sle, %{{.*}}, %[[SIZE]]
// CHECK:         %[[NEAR:.*]] = scf.if
// CHECK:           vector.reduction <and>
// CHECK:         %[[BOTH:.*]] = arith.andi %[[NEAR]], %[[FITS]]
// CHECK:         scf.if %[[BOTH]]
// CHECK:           %[[FLAT:.*]] = memref.reinterpret_cast %{{.*}} to offset: [0], sizes: [%[[SIZE]]], strides: [1]
// CHECK:           %[[PLACE:.*]] = arith.addi %{{.*}}, %[[START]]
// CHECK:           %[[ROW:.*]] = vector.load %[[FLAT]][%[[PLACE]]]
// CHECK:           llvm.call_intrinsic "llvm.x86.avx512.permvar.sf.512"(%[[ROW]], %{{.*}})
// CHECK:           llvm.call_intrinsic
// CHECK:         } else {
// CHECK:           vector.gather
func.func @near(%x: memref<?x?xf32>, %places: vector<32xindex>, %y: memref<32xf32>) {
  %c0 = arith.constant 0 : index
  %all = arith.constant dense<true> : vector<32xi1>
  %zero = arith.constant dense<0.0> : vector<32xf32>
  %v = vector.gather %x[%c0, %c0] [%places], %all, %zero : memref<?x?xf32>, vector<32xindex>, vector<32xi1>, vector<32xf32> into vector<32xf32>
  vector.store %v, %y[%c0] : memref<32xf32>, vector<32xf32>
  return
}

// Where a row begins makes no difference to which elements are near: the numbers of 32 bits are asked.
// CHECK-LABEL: func.func @row(
// CHECK-SAME:    %{{.*}}: memref<?xf32>, %[[NARROW:.*]]: vector<16xi32>, %[[BEGIN:.*]]: index
// CHECK:         %[[PARTS:.*]] = vector.extract_strided_slice %[[NARROW]]
// CHECK:         %[[SHIFTS:.*]] = arith.subi %[[PARTS]], %{{.*}} : vector<16xi32>
// CHECK:         arith.cmpi ult, %[[SHIFTS]]
// CHECK:         scf.if
// CHECK:           llvm.call_intrinsic "llvm.x86.avx512.permvar.sf.512"(%{{.*}}, %[[SHIFTS]])
func.func @row(%x: memref<?xf32>, %narrow: vector<16xi32>, %begin: index) -> vector<16xf32> {
  %c0 = arith.constant 0 : index
  %all = arith.constant dense<true> : vector<16xi1>
  %zero = arith.constant dense<0.0> : vector<16xf32>
  %one = arith.constant dense<1> : vector<16xindex>
  %cast = arith.index_cast %narrow : vector<16xi32> to vector<16xindex>
  %next = arith.addi %cast, %one : vector<16xindex>
  %row = vector.broadcast %begin : index to vector<16xindex>
  %places = arith.addi %next, %row : vector<16xindex>
  %v = vector.gather %x[%c0] [%places], %all, %zero : memref<?xf32>, vector<16xindex>, vector<16xi1>, vector<16xf32> into vector<16xf32>
  return %v : vector<16xf32>
}

// Half of a vector, other types, and what a mask leaves out stay.
// CHECK-LABEL: func.func @rejects(
// CHECK-NOT:     scf.if
// CHECK:         return
func.func @rejects(%x: memref<?xf32>, %n: memref<?xi32>, %few: vector<8xindex>, %places: vector<16xindex>, %some: vector<16xi1>) -> (vector<8xf32>, vector<16xi32>, vector<16xf32>) {
  %c0 = arith.constant 0 : index
  %all = arith.constant dense<true> : vector<16xi1>
  %half = arith.constant dense<true> : vector<8xi1>
  %zero = arith.constant dense<0.0> : vector<16xf32>
  %zeros = arith.constant dense<0.0> : vector<8xf32>
  %numbers = arith.constant dense<0> : vector<16xi32>
  %a = vector.gather %x[%c0] [%few], %half, %zeros : memref<?xf32>, vector<8xindex>, vector<8xi1>, vector<8xf32> into vector<8xf32>
  %b = vector.gather %n[%c0] [%places], %all, %numbers : memref<?xi32>, vector<16xindex>, vector<16xi1>, vector<16xi32> into vector<16xi32>
  %c = vector.gather %x[%c0] [%places], %some, %zero : memref<?xf32>, vector<16xindex>, vector<16xi1>, vector<16xf32> into vector<16xf32>
  return %a, %b, %c : vector<8xf32>, vector<16xi32>, vector<16xf32>
}

// A row that is read from its end is one load, whatever its elements are: nothing is asked.
// CHECK-LABEL: func.func @turned(
// CHECK-SAME:    %{{.*}}: memref<?x12xi8>, %[[LAST:.*]]: index
// CHECK:         %[[FIRST:.*]] = arith.constant -7 : index
// CHECK:         %[[PLACE:.*]] = arith.addi %[[FIRST]], %[[LAST]]
// CHECK:         %[[ROW:.*]] = vector.load %{{.*}}[%[[PLACE]]] : memref<?xi8>, vector<8xi8>
// CHECK:         vector.shuffle %[[ROW]], %[[ROW]] [7, 6, 5, 4, 3, 2, 1, 0]
// CHECK-NOT:     vector.gather
func.func @turned(%x: memref<?x12xi8>, %last: index) -> vector<8xi8> {
  %c0 = arith.constant 0 : index
  %all = arith.constant dense<true> : vector<8xi1>
  %zero = arith.constant dense<0> : vector<8xi8>
  %step = vector.step : vector<8xindex>
  %lasts = vector.broadcast %last : index to vector<8xindex>
  %places = arith.subi %lasts, %step : vector<8xindex>
  %v = vector.gather %x[%c0, %c0] [%places], %all, %zero : memref<?x12xi8>, vector<8xindex>, vector<8xi1>, vector<8xi8> into vector<8xi8>
  return %v : vector<8xi8>
}

// Places with gaps, or twice the same, are no row.
// CHECK-LABEL: func.func @apart(
// CHECK:         vector.gather
// CHECK:         vector.gather
func.func @apart(%x: memref<?xi8>, %at: index) -> (vector<4xi8>, vector<4xi8>) {
  %c0 = arith.constant 0 : index
  %all = arith.constant dense<true> : vector<4xi1>
  %zero = arith.constant dense<0> : vector<4xi8>
  %gaps = arith.constant dense<[0, 2, 4, 6]> : vector<4xindex>
  %twice = arith.constant dense<[0, 1, 1, 2]> : vector<4xindex>
  %v = vector.gather %x[%c0] [%gaps], %all, %zero : memref<?xi8>, vector<4xindex>, vector<4xi1>, vector<4xi8> into vector<4xi8>
  %w = vector.gather %x[%c0] [%twice], %all, %zero : memref<?xi8>, vector<4xindex>, vector<4xi1>, vector<4xi8> into vector<4xi8>
  return %v, %w : vector<4xi8>, vector<4xi8>
}
