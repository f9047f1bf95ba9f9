// RUN: %opt %s --passes=multiply-bytes --target "x86 -mcpu=znver4" | filecheck %s
// RUN: %opt %s --passes=multiply-bytes --target "x86 -mcpu=haswell" | filecheck %s --check-prefix=AVX2

// A word of signed bytes for each of two rows, and a vector of words of unsigned ones: an instruction for each 16 lanes.
// CHECK-LABEL: func.func @rows(
// CHECK-SAME:    %[[U:[^:]*]]: vector<32xi32>, %[[S:[^:]*]]: vector<2xi32>, %[[T:[^:]*]]: vector<2x32xi32>
// CHECK-DAG:     %[[U0:.*]] = vector.extract_strided_slice %[[U]] {offsets = [0], sizes = [16]
// CHECK-DAG:     %[[U1:.*]] = vector.extract_strided_slice %[[U]] {offsets = [16], sizes = [16]
// CHECK-DAG:     %[[B0:.*]] = vector.bitcast %[[U0]] : vector<16xi32> to vector<64xi8>
// CHECK:         %[[W:.*]] = vector.extract %[[S]][0]
// CHECK:         vector.broadcast %[[W]] : i32 to vector<16xi32>
// CHECK:         llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"(%{{.*}}, %[[B0]], %{{.*}})
// CHECK:         llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"
// CHECK:         vector.extract %[[S]][1]
// CHECK-COUNT-2: llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"
// CHECK-NOT:     arith.muli
// CHECK:         return

// Two products at once, of even bytes and of odd ones.
// AVX2-LABEL:    func.func @rows(
// AVX2-COUNT-16: llvm.call_intrinsic "llvm.x86.avx2.pmadd.wd"
// AVX2-NOT:      arith.muli
// AVX2:          return
func.func @rows(%u: vector<32xi32>, %s: vector<2xi32>, %t: vector<2x32xi32>) -> vector<2x32xi32> {
  %c8 = arith.constant dense<8> : vector<32xi32>
  %c16 = arith.constant dense<16> : vector<32xi32>
  %c24 = arith.constant dense<24> : vector<32xi32>
  %c255 = arith.constant dense<255> : vector<32xi32>
  %r8 = arith.constant dense<8> : vector<2xi32>
  %r16 = arith.constant dense<16> : vector<2xi32>
  %r24 = arith.constant dense<24> : vector<2xi32>
  %u0 = arith.andi %u, %c255 : vector<32xi32>
  %l0 = arith.shli %s, %r24 : vector<2xi32>
  %s0 = arith.shrsi %l0, %r24 : vector<2xi32>
  %v0 = vector.broadcast %u0 : vector<32xi32> to vector<2x32xi32>
  %w0 = vector.broadcast %s0 : vector<2xi32> to vector<32x2xi32>
  %x0 = vector.transpose %w0, [1, 0] : vector<32x2xi32> to vector<2x32xi32>
  %p0 = arith.muli %v0, %x0 : vector<2x32xi32>
  %h1 = arith.shrui %u, %c8 : vector<32xi32>
  %u1 = arith.andi %h1, %c255 : vector<32xi32>
  %l1 = arith.shli %s, %r16 : vector<2xi32>
  %s1 = arith.shrsi %l1, %r24 : vector<2xi32>
  %v1 = vector.broadcast %u1 : vector<32xi32> to vector<2x32xi32>
  %w1 = vector.broadcast %s1 : vector<2xi32> to vector<32x2xi32>
  %x1 = vector.transpose %w1, [1, 0] : vector<32x2xi32> to vector<2x32xi32>
  %p1 = arith.muli %v1, %x1 : vector<2x32xi32>
  %t1 = arith.addi %p0, %p1 : vector<2x32xi32>
  %h2 = arith.shrui %u, %c16 : vector<32xi32>
  %u2 = arith.andi %h2, %c255 : vector<32xi32>
  %l2 = arith.shli %s, %r8 : vector<2xi32>
  %s2 = arith.shrsi %l2, %r24 : vector<2xi32>
  %v2 = vector.broadcast %u2 : vector<32xi32> to vector<2x32xi32>
  %w2 = vector.broadcast %s2 : vector<2xi32> to vector<32x2xi32>
  %x2 = vector.transpose %w2, [1, 0] : vector<32x2xi32> to vector<2x32xi32>
  %p2 = arith.muli %v2, %x2 : vector<2x32xi32>
  %t2 = arith.addi %t1, %p2 : vector<2x32xi32>
  %u3 = arith.shrui %u, %c24 : vector<32xi32>
  %s3 = arith.shrsi %s, %r24 : vector<2xi32>
  %v3 = vector.broadcast %u3 : vector<32xi32> to vector<2x32xi32>
  %w3 = vector.broadcast %s3 : vector<2xi32> to vector<32x2xi32>
  %x3 = vector.transpose %w3, [1, 0] : vector<32x2xi32> to vector<2x32xi32>
  %p3 = arith.muli %v3, %x3 : vector<2x32xi32>
  %a3 = arith.addi %t2, %p3 : vector<2x32xi32>
  %t3 = arith.addi %t, %a3 : vector<2x32xi32>
  return %t3 : vector<2x32xi32>
}

// The same with a word of unsigned bytes for each row, and signed ones along the lanes.
// CHECK-LABEL: func.func @words_of_rows(
// CHECK-SAME:    %[[S:[^:]*]]: vector<32xi32>, %[[U:[^:]*]]: vector<2xi32>
// CHECK-DAG:     %[[S0:.*]] = vector.extract_strided_slice %[[S]] {offsets = [0], sizes = [16]
// CHECK-DAG:     %[[B0:.*]] = vector.bitcast %[[S0]] : vector<16xi32> to vector<64xi8>
// CHECK:         %[[W:.*]] = vector.extract %[[U]][0]
// CHECK:         vector.broadcast %[[W]] : i32 to vector<16xi32>
// CHECK:         llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"(%{{.*}}, %{{.*}}, %[[B0]])
// CHECK-COUNT-3: llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"
// CHECK-NOT:     arith.muli
// CHECK:         return
func.func @words_of_rows(%s: vector<32xi32>, %u: vector<2xi32>, %t: vector<2x32xi32>) -> vector<2x32xi32> {
  %c8 = arith.constant dense<8> : vector<32xi32>
  %c16 = arith.constant dense<16> : vector<32xi32>
  %c24 = arith.constant dense<24> : vector<32xi32>
  %r8 = arith.constant dense<8> : vector<2xi32>
  %r16 = arith.constant dense<16> : vector<2xi32>
  %r24 = arith.constant dense<24> : vector<2xi32>
  %r255 = arith.constant dense<255> : vector<2xi32>
  %u0 = arith.andi %u, %r255 : vector<2xi32>
  %l0 = arith.shli %s, %c24 : vector<32xi32>
  %s0 = arith.shrsi %l0, %c24 : vector<32xi32>
  %v0 = vector.broadcast %s0 : vector<32xi32> to vector<2x32xi32>
  %w0 = vector.broadcast %u0 : vector<2xi32> to vector<32x2xi32>
  %x0 = vector.transpose %w0, [1, 0] : vector<32x2xi32> to vector<2x32xi32>
  %p0 = arith.muli %x0, %v0 : vector<2x32xi32>
  %h1 = arith.shrui %u, %r8 : vector<2xi32>
  %u1 = arith.andi %h1, %r255 : vector<2xi32>
  %l1 = arith.shli %s, %c16 : vector<32xi32>
  %s1 = arith.shrsi %l1, %c24 : vector<32xi32>
  %v1 = vector.broadcast %s1 : vector<32xi32> to vector<2x32xi32>
  %w1 = vector.broadcast %u1 : vector<2xi32> to vector<32x2xi32>
  %x1 = vector.transpose %w1, [1, 0] : vector<32x2xi32> to vector<2x32xi32>
  %p1 = arith.muli %x1, %v1 : vector<2x32xi32>
  %t1 = arith.addi %p0, %p1 : vector<2x32xi32>
  %h2 = arith.shrui %u, %r16 : vector<2xi32>
  %u2 = arith.andi %h2, %r255 : vector<2xi32>
  %l2 = arith.shli %s, %c8 : vector<32xi32>
  %s2 = arith.shrsi %l2, %c24 : vector<32xi32>
  %v2 = vector.broadcast %s2 : vector<32xi32> to vector<2x32xi32>
  %w2 = vector.broadcast %u2 : vector<2xi32> to vector<32x2xi32>
  %x2 = vector.transpose %w2, [1, 0] : vector<32x2xi32> to vector<2x32xi32>
  %p2 = arith.muli %x2, %v2 : vector<2x32xi32>
  %t2 = arith.addi %t1, %p2 : vector<2x32xi32>
  %u3 = arith.shrui %u, %r24 : vector<2xi32>
  %s3 = arith.shrsi %s, %c24 : vector<32xi32>
  %v3 = vector.broadcast %s3 : vector<32xi32> to vector<2x32xi32>
  %w3 = vector.broadcast %u3 : vector<2xi32> to vector<32x2xi32>
  %x3 = vector.transpose %w3, [1, 0] : vector<32x2xi32> to vector<2x32xi32>
  %p3 = arith.muli %x3, %v3 : vector<2x32xi32>
  %a3 = arith.addi %t2, %p3 : vector<2x32xi32>
  %t3 = arith.addi %t, %a3 : vector<2x32xi32>
  return %t3 : vector<2x32xi32>
}

// Words of both along the lanes.
// CHECK-LABEL: func.func @lanes(
// CHECK-COUNT-1: llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"
// CHECK-NOT:     arith.muli
// CHECK:         return
func.func @lanes(%u: vector<16xi32>, %s: vector<16xi32>, %t: vector<16xi32>) -> vector<16xi32> {
  %c8 = arith.constant dense<8> : vector<16xi32>
  %c16 = arith.constant dense<16> : vector<16xi32>
  %c24 = arith.constant dense<24> : vector<16xi32>
  %c255 = arith.constant dense<255> : vector<16xi32>
  %u0 = arith.andi %u, %c255 : vector<16xi32>
  %l0 = arith.shli %s, %c24 : vector<16xi32>
  %s0 = arith.shrsi %l0, %c24 : vector<16xi32>
  %p0 = arith.muli %u0, %s0 : vector<16xi32>
  %h1 = arith.shrui %u, %c8 : vector<16xi32>
  %u1 = arith.andi %h1, %c255 : vector<16xi32>
  %l1 = arith.shli %s, %c16 : vector<16xi32>
  %s1 = arith.shrsi %l1, %c24 : vector<16xi32>
  %p1 = arith.muli %u1, %s1 : vector<16xi32>
  %t1 = arith.addi %p0, %p1 : vector<16xi32>
  %h2 = arith.shrui %u, %c16 : vector<16xi32>
  %u2 = arith.andi %h2, %c255 : vector<16xi32>
  %l2 = arith.shli %s, %c8 : vector<16xi32>
  %s2 = arith.shrsi %l2, %c24 : vector<16xi32>
  %p2 = arith.muli %u2, %s2 : vector<16xi32>
  %t2 = arith.addi %t1, %p2 : vector<16xi32>
  %u3 = arith.shrui %u, %c24 : vector<16xi32>
  %s3 = arith.shrsi %s, %c24 : vector<16xi32>
  %p3 = arith.muli %u3, %s3 : vector<16xi32>
  %a3 = arith.addi %t2, %p3 : vector<16xi32>
  %t3 = arith.addi %t, %a3 : vector<16xi32>
  return %t3 : vector<16xi32>
}

// One word's bytes come twice, and none of another: these are no products of two words.
// CHECK-LABEL: func.func @rejects(
// CHECK-NOT:     llvm.call_intrinsic
// CHECK:         return
func.func @rejects(%u: vector<16xi32>, %o: vector<16xi32>, %s: vector<16xi32>, %t: vector<16xi32>) -> vector<16xi32> {
  %c8 = arith.constant dense<8> : vector<16xi32>
  %c16 = arith.constant dense<16> : vector<16xi32>
  %c24 = arith.constant dense<24> : vector<16xi32>
  %c255 = arith.constant dense<255> : vector<16xi32>
  %u0 = arith.andi %o, %c255 : vector<16xi32>
  %l0 = arith.shli %s, %c24 : vector<16xi32>
  %s0 = arith.shrsi %l0, %c24 : vector<16xi32>
  %p0 = arith.muli %u0, %s0 : vector<16xi32>
  %h1 = arith.shrui %u, %c8 : vector<16xi32>
  %u1 = arith.andi %h1, %c255 : vector<16xi32>
  %l1 = arith.shli %s, %c16 : vector<16xi32>
  %s1 = arith.shrsi %l1, %c24 : vector<16xi32>
  %p1 = arith.muli %u1, %s1 : vector<16xi32>
  %t1 = arith.addi %p0, %p1 : vector<16xi32>
  %h2 = arith.shrui %u, %c16 : vector<16xi32>
  %u2 = arith.andi %h2, %c255 : vector<16xi32>
  %l2 = arith.shli %s, %c8 : vector<16xi32>
  %s2 = arith.shrsi %l2, %c24 : vector<16xi32>
  %p2 = arith.muli %u2, %s2 : vector<16xi32>
  %t2 = arith.addi %t1, %p2 : vector<16xi32>
  %u3 = arith.shrui %u, %c24 : vector<16xi32>
  %s3 = arith.shrsi %s, %c24 : vector<16xi32>
  %p3 = arith.muli %u3, %s3 : vector<16xi32>
  %a3 = arith.addi %t2, %p3 : vector<16xi32>
  %t3 = arith.addi %t, %a3 : vector<16xi32>
  return %t3 : vector<16xi32>
}
