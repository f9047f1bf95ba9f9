// RUN: %opt %s --passes=look-up-bytes --target "x86 -mcpu=znver4" | filecheck %s
// RUN: %opt %s --passes=look-up-bytes --target "x86 -mcpu=haswell" | filecheck %s --check-prefix=AVX2
// RUN: %opt %s --passes=look-up-bytes --target "x86 -mcpu=x86-64-v2" | filecheck %s --check-prefix=NONE

// NONE-NOT: llvm.call_intrinsic

// Bytes at places that are bytes: 64 at once, and the rest as a part of 64.
// CHECK-LABEL: func.func @table(
// CHECK-SAME:    %[[T:[^:]*]]: memref<256xi8>, %[[X:[^:]*]]: vector<80xi8>
// CHECK-COUNT-4: vector.load %[[T]]
// CHECK:         %[[P:.*]] = vector.extract_strided_slice %[[X]] {offsets = [0], sizes = [64]
// CHECK:         %[[L:.*]] = llvm.call_intrinsic "llvm.x86.avx512.vpermi2var.qi.512"(%{{.*}}, %[[P]], %{{.*}})
// CHECK:         %[[H:.*]] = llvm.call_intrinsic "llvm.x86.avx512.vpermi2var.qi.512"(%{{.*}}, %[[P]], %{{.*}})
// CHECK:         arith.select %{{.*}}, %[[H]], %[[L]]
// CHECK:         vector.extract_strided_slice %[[X]] {offsets = [64], sizes = [16]
// CHECK-COUNT-2: llvm.call_intrinsic
// CHECK-NOT:     vector.gather
// CHECK:         return

// Of 32 bytes at once, 16 rows of the table.
// AVX2-LABEL:    func.func @table(
// AVX2-COUNT-16: vector.load {{.*}} vector<16xi8>
// AVX2-COUNT-48: llvm.call_intrinsic "llvm.x86.avx2.pshuf.b"
// AVX2-NOT:      llvm.call_intrinsic
// AVX2-NOT:      vector.gather
// AVX2:          return
func.func @table(%t: memref<256xi8>, %x: vector<80xi8>) -> vector<80xi8> {
  %c0 = arith.constant 0 : index
  %all = arith.constant dense<true> : vector<80xi1>
  %zero = arith.constant dense<0> : vector<80xi8>
  %i = arith.index_castui %x : vector<80xi8> to vector<80xindex>
  %v = vector.gather %t[%c0] [%i], %all, %zero : memref<256xi8>, vector<80xindex>, vector<80xi1>, vector<80xi8> into vector<80xi8>
  return %v : vector<80xi8>
}

// Places that are signed, and shorter tables, stay gathers.
// CHECK-LABEL: func.func @rejects(
// CHECK-COUNT-2: vector.gather
// CHECK:         return
// AVX2-LABEL:    func.func @rejects(
// AVX2-COUNT-2:  vector.gather
func.func @rejects(%t: memref<256xi8>, %u: memref<128xi8>, %x: vector<64xi8>) -> (vector<64xi8>, vector<64xi8>) {
  %c0 = arith.constant 0 : index
  %all = arith.constant dense<true> : vector<64xi1>
  %zero = arith.constant dense<0> : vector<64xi8>
  %i = arith.index_cast %x : vector<64xi8> to vector<64xindex>
  %j = arith.index_castui %x : vector<64xi8> to vector<64xindex>
  %v = vector.gather %t[%c0] [%i], %all, %zero : memref<256xi8>, vector<64xindex>, vector<64xi1>, vector<64xi8> into vector<64xi8>
  %w = vector.gather %u[%c0] [%j], %all, %zero : memref<128xi8>, vector<64xindex>, vector<64xi1>, vector<64xi8> into vector<64xi8>
  return %v, %w : vector<64xi8>, vector<64xi8>
}
