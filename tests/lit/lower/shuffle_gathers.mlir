// RUN: %opt %s --passes=shuffle-gathers | filecheck %s

// Elements that lie within 16 of each other, as the first 16 of 32 and then the others tell, are loaded and put in order.
// CHECK-LABEL: func.func @near(
// CHECK:         %[[SIZE:.*]] = arith.muli
// CHECK:         %[[LATEST:.*]] = arith.subi %[[SIZE]], %c16
// CHECK:         %[[START:.*]] = arith.minsi %{{.*}}, %[[LATEST]]
// CHECK:         %[[NEAR:.*]] = scf.if
// CHECK:           vector.reduction <and>
// CHECK:         scf.if %[[NEAR]]
// CHECK:           %[[FLAT:.*]] = memref.reinterpret_cast %{{.*}} to offset: [0], sizes: [%[[SIZE]]], strides: [1]
// CHECK:           %[[ROW:.*]] = vector.load %[[FLAT]][%[[START]]]
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
