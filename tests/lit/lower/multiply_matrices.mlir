// RUN: %opt %s --passes=multiply-matrices | filecheck %s

#data = affine_map<(m, n, k, j) -> (m, k, j)>
#weight = affine_map<(m, n, k, j) -> (k, n, j)>
#sums = affine_map<(m, n, k, j) -> (m, n)>

// 20 rows are two matrices of ten, 96 steps two of 48. Sums begin before the loop over taps, and are stored behind it.
// CHECK:       memref.global "private" constant @matrix_shape_10x12
// CHECK-LABEL: func.func @taps(
// CHECK:         "llvm.x86.ldtilecfg"
// CHECK-COUNT-2: "llvm.x86.tilezero"
// CHECK-NOT:     "llvm.x86.tilezero"
// CHECK:         scf.for
// CHECK:           scf.for
// CHECK-COUNT-2:     "llvm.x86.tdpbusd"
// CHECK-NOT:     linalg.generic
// CHECK-COUNT-2: "llvm.x86.tilestored64"
// CHECK-NOT:     "llvm.x86.tilestored64"
// CHECK:         "llvm.x86.tilerelease"
// CHECK-NEXT:    return
func.func @taps(%data: memref<3x20x24x4xi8>, %weight: memref<3x24x16x4xi8>, %y: memref<20x16xi32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  scf.for %tap = %c0 to %c3 step %c1 {
    %x = memref.subview %data[%tap, 0, 0, 0] [1, 20, 24, 4] [1, 1, 1, 1] : memref<3x20x24x4xi8> to memref<20x24x4xi8, strided<[96, 4, 1], offset: ?>>
    %w = memref.subview %weight[%tap, 0, 0, 0] [1, 24, 16, 4] [1, 1, 1, 1] : memref<3x24x16x4xi8> to memref<24x16x4xi8, strided<[64, 4, 1], offset: ?>>
    linalg.generic {indexing_maps = [#data, #weight, #sums], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
        ins(%x, %w : memref<20x24x4xi8, strided<[96, 4, 1], offset: ?>>, memref<24x16x4xi8, strided<[64, 4, 1], offset: ?>>)
        outs(%y : memref<20x16xi32>) attrs = {tw.matrix_product = 1 : i64} {
    ^bb0(%u: i8, %s: i8, %t: i32):
      %a = arith.extui %u : i8 to i32
      %b = arith.extsi %s : i8 to i32
      %p = arith.muli %a, %b : i32
      %r = arith.addi %t, %p : i32
      linalg.yield %r : i32
    }
  }
  return
}

// Without the mark it is none.
// CHECK-LABEL: func.func @unmarked(
// CHECK-NOT:     llvm.x86
// CHECK:         linalg.generic
func.func @unmarked(%x: memref<20x24x4xi8>, %w: memref<24x16x4xi8>, %y: memref<20x16xi32>) {
  linalg.generic {indexing_maps = [#data, #weight, #sums], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%x, %w : memref<20x24x4xi8>, memref<24x16x4xi8>) outs(%y : memref<20x16xi32>) {
  ^bb0(%u: i8, %s: i8, %t: i32):
    %a = arith.extui %u : i8 to i32
    %b = arith.extsi %s : i8 to i32
    %p = arith.muli %a, %b : i32
    %r = arith.addi %t, %p : i32
    linalg.yield %r : i32
  }
  return
}

#parts = affine_map<(m, r, c, n, s, p, q, j, i) -> (m, s, p, r, j, i)>
#columns = affine_map<(m, r, c, n, s, p, q, j, i) -> (s, q, c, j, n, i)>
#total = affine_map<(m, r, c, n, s, p, q, j, i) -> (m, r, c, n)>

// Of the products of three parts by three the six largest: 24 for two matrices of rows by two of columns. A register that
// the next pair has, too, keeps its matrix.
// CHECK-LABEL: func.func @split(
// CHECK:         "llvm.x86.ldtilecfg"
// CHECK-COUNT-4: "llvm.x86.tilezero"
// CHECK:         scf.for
// CHECK-COUNT-4:   "llvm.x86.tileloadd64"
// CHECK-COUNT-24:  "llvm.x86.tdpbf16ps"
// CHECK-NOT:       "llvm.x86.tdpbf16ps"
// CHECK-COUNT-4: "llvm.x86.tilestored64"
// CHECK-NOT:     linalg.generic
// CHECK:         "llvm.x86.tilerelease"
func.func @split(%data: memref<2x8x3x16x16x2xbf16>, %weight: memref<8x3x2x16x16x2xbf16>, %y: memref<2x16x2x16xf32>) {
  linalg.generic {indexing_maps = [#parts, #columns, #total], iterator_types = ["parallel", "parallel", "parallel",
      "parallel", "reduction", "reduction", "reduction", "reduction", "reduction"]}
      ins(%data, %weight : memref<2x8x3x16x16x2xbf16>, memref<8x3x2x16x16x2xbf16>)
      outs(%y : memref<2x16x2x16xf32>) attrs = {tw.split_product} {
  ^bb0(%a: bf16, %b: bf16, %t: f32):
    %u = arith.extf %a : bf16 to f32
    %v = arith.extf %b : bf16 to f32
    %p = arith.mulf %u, %v : f32
    %r = arith.addf %t, %p : f32
    linalg.yield %r : f32
  }
  return
}
