// RUN: %opt %s --passes=lower-to-llvm | filecheck %s
// RUN: not %opt %S/Inputs/no_lowering.mlir --passes=lower-to-llvm 2>&1 | filecheck %s --check-prefix=FAIL

// Buffers are bare pointers; what the passes before have said stays on the function.
// CHECK-LABEL: llvm.func @add(
// CHECK-SAME:    %[[X:.*]]: !llvm.ptr, %[[R:.*]]: !llvm.ptr, %[[LO:.*]]: i64) attributes {tw.extent = 4 : i64}
// CHECK:         llvm.getelementptr %[[X]]
// CHECK:         llvm.load %{{.*}} : !llvm.ptr -> vector<4xf32>
// CHECK:         llvm.fadd %{{.*}} : vector<4xf32>
// CHECK-NOT:     unrealized_conversion_cast
// CHECK:         llvm.return
func.func @add(%x: memref<4x4xf32>, %r: memref<4x4xf32>, %lo: index) attributes {tw.extent = 4 : i64} {
  %c0 = arith.constant 0 : index
  %v = vector.load %x[%lo, %c0] : memref<4x4xf32>, vector<4xf32>
  %s = arith.addf %v, %v : vector<4xf32>
  vector.store %s, %r[%lo, %c0] : memref<4x4xf32>, vector<4xf32>
  return
}

// Rows may be divided into two axes of open sizes.
// CHECK-LABEL: llvm.func @divide(
// CHECK-SAME:    %[[X:.*]]: !llvm.ptr, %{{.*}}: i64, %[[B:[a-z0-9]*]]: i64, %[[LO:[a-z0-9]*]]: i64)
// CHECK-DAG:     llvm.mul %[[B]]
// CHECK:         llvm.load %{{.*}} : !llvm.ptr -> f32
// CHECK-NOT:     unrealized_conversion_cast
// CHECK:         llvm.return
func.func @divide(%x: memref<8xf32>, %a: index, %b: index, %lo: index) -> f32 {
  %n = arith.muli %a, %b : index
  %rows = memref.reinterpret_cast %x to offset: [0], sizes: [%n, 2], strides: [2, 1] : memref<8xf32> to memref<?x2xf32>
  %e = memref.expand_shape %rows [[0, 1], [2]] output_shape [%a, %b, 2] : memref<?x2xf32> into memref<?x?x2xf32>
  %c0 = arith.constant 0 : index
  %v = memref.load %e[%lo, %c0, %c0] : memref<?x?x2xf32>
  return %v : f32
}

// A function that few elements need is called where there is one of them.
// CHECK-LABEL: llvm.func @rare(
// CHECK:         %[[USUAL:.*]] = llvm.fcmp "olt" %{{.*}} : vector<4xf64>
// CHECK:         %[[ALL:.*]] = "llvm.intr.vector.reduce.and"(%[[USUAL]])
// CHECK:         llvm.cond_br %[[ALL]]
// CHECK:         %[[HIDDEN:.*]] = llvm.inline_asm has_side_effects "", "=r,0"
// CHECK:         %[[REACHED:.*]] = llvm.icmp "eq" %[[HIDDEN]]
// CHECK:         %[[X:.*]] = llvm.select %[[REACHED]]
// CHECK:         llvm.intr.sin(%[[X]])
func.func @rare(%x: memref<4xf64>, %r: memref<4xf64>, %lo: index) {
  %zeros = arith.constant dense<0.0> : vector<4xf64>
  %ones = arith.constant dense<1.0> : vector<4xf64>
  %v = vector.load %x[%lo] : memref<4xf64>, vector<4xf64>
  %usual = arith.cmpf olt, %v, %ones : vector<4xf64>
  %w = arith.select %usual, %zeros, %v : vector<4xi1>, vector<4xf64>
  %y = math.sin %w {tw.rare} : vector<4xf64>
  vector.store %y, %r[%lo] : memref<4xf64>, vector<4xf64>
  return
}

// A product with a power of two is one function; with another power than a whole one it is not.
// CHECK-LABEL: llvm.func @scale(
// CHECK:         llvm.call_intrinsic "llvm.ldexp.v4f32.v4i32"(%{{.*}}, %{{.*}}) : (vector<4xf32>, vector<4xi32>) -> vector<4xf32>
// CHECK:         llvm.intr.exp2
// CHECK:         llvm.fmul
func.func @scale(%x: vector<4xf32>, %n: vector<4xi32>) -> (vector<4xf32>, vector<4xf32>) {
  %f = arith.sitofp %n : vector<4xi32> to vector<4xf32>
  %p = math.exp2 %f fastmath<afn> : vector<4xf32>
  %y = arith.mulf %x, %p : vector<4xf32>
  %q = math.exp2 %x : vector<4xf32>
  %z = arith.mulf %x, %q : vector<4xf32>
  return %y, %z : vector<4xf32>, vector<4xf32>
}

// What need not be rounded once may be a product and a sum.
// CHECK-LABEL: llvm.func @multiply_add(
// CHECK-NOT:     llvm.intr.fma(
// CHECK:         llvm.intr.fmuladd(%{{.*}}) : (vector<4xf32>, vector<4xf32>, vector<4xf32>) -> vector<4xf32>
// CHECK-NOT:     llvm.intr.fma(
// CHECK:         llvm.return
func.func @multiply_add(%x: memref<4xf32>) {
  %c0 = arith.constant 0 : index
  %v = vector.load %x[%c0] : memref<4xf32>, vector<4xf32>
  %s = math.fma %v, %v, %v : vector<4xf32>
  vector.store %s, %x[%c0] : memref<4xf32>, vector<4xf32>
  return
}

// Maxima that may lose a NaN: comparisons and choices, of halves of a vector.
// CHECK-LABEL: llvm.func @maxima(
// CHECK-NOT:     llvm.intr.{{.*}}max
// CHECK:         llvm.fcmp "ogt" %{{.*}} : vector<8xf32>
// CHECK:         llvm.fcmp "ogt" %{{.*}} : vector<4xf32>
// CHECK:         llvm.fcmp "ogt" %{{.*}} : vector<2xf32>
// CHECK:         llvm.fcmp "ogt" %{{.*}} : f32
// CHECK-NOT:     llvm.intr.{{.*}}max
// CHECK:         llvm.return
func.func @maxima(%x: memref<8xf32>, %y: memref<8xf32>, %r: memref<1xf32>, %low: f32) attributes {tw.loses_nan} {
  %c0 = arith.constant 0 : index
  %v = vector.load %x[%c0] : memref<8xf32>, vector<8xf32>
  %w = vector.load %y[%c0] : memref<8xf32>, vector<8xf32>
  %m = arith.maximumf %v, %w : vector<8xf32>
  %s = vector.reduction <maximumf>, %m, %low : vector<8xf32> into f32
  memref.store %s, %r[%c0] : memref<1xf32>
  return
}

// Others keep a NaN: that of the operand that is new, and one anywhere in a vector. A constant has none.
// CHECK-LABEL: llvm.func @maxima_with_nan(
// CHECK:         %[[V:.*]] = llvm.load %arg0
// CHECK:         %[[W:.*]] = llvm.load %arg1
// CHECK:         %[[M:.*]] = llvm.intr.maximum(%[[W]], %[[V]]) {fastmathFlags = #llvm.fastmath<nsz>}
// CHECK:         %[[HIGHER:.*]] = llvm.fcmp "ogt" %{{.*}}, %[[M]] : vector<8xf32>
// CHECK:         %[[P:.*]] = llvm.select %[[HIGHER]]
// CHECK:         llvm.fcmp "ogt" %{{.*}} : vector<4xf32>
// CHECK:         %[[NAN:.*]] = llvm.fcmp "uno" %[[P]], %[[P]] : vector<8xf32>
// CHECK:         "llvm.intr.vector.reduce.or"(%[[NAN]])
// CHECK:         llvm.intr.minimum
// CHECK-NOT:     llvm.intr.vector.reduce.f
// CHECK:         llvm.return
func.func @maxima_with_nan(%x: memref<8xf32>, %y: memref<8xf32>, %r: memref<1xf32>, %high: f32) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant dense<0.0> : vector<8xf32>
  %v = vector.load %x[%c0] : memref<8xf32>, vector<8xf32>
  %w = vector.load %y[%c0] : memref<8xf32>, vector<8xf32>
  %m = arith.maximumf %v, %w : vector<8xf32>
  %p = arith.maximumf %zero, %m : vector<8xf32>
  %s = vector.reduction <maximumf>, %p : vector<8xf32> into f32
  %t = arith.minimumf %s, %high : f32
  memref.store %t, %r[%c0] : memref<1xf32>
  return
}

// Integers have instructions of their own.
// CHECK-LABEL: llvm.func @rejects_integers(
// CHECK:         llvm.icmp "sgt"
// CHECK:         "llvm.intr.vector.reduce.smax"
func.func @rejects_integers(%x: memref<8xi32>, %y: memref<8xi32>, %r: memref<1xi32>) {
  %c0 = arith.constant 0 : index
  %v = vector.load %x[%c0] : memref<8xi32>, vector<8xi32>
  %w = vector.load %y[%c0] : memref<8xi32>, vector<8xi32>
  %m = arith.maxsi %v, %w : vector<8xi32>
  %s = vector.reduction <maxsi>, %m : vector<8xi32> into i32
  memref.store %s, %r[%c0] : memref<1xi32>
  return
}

// A bfloat16 that is only moved is 16 bits.
// CHECK-LABEL: llvm.func @splat(
// CHECK:         %[[V:.*]] = llvm.load %{{.*}} : !llvm.ptr -> i16
// CHECK:         llvm.insertelement %[[V]], {{.*}} : vector<4xi16>
// CHECK-NOT:     bf16
// CHECK:         llvm.return
func.func @splat(%x: memref<4xbf16>, %r: memref<4x4xbf16>, %lo: index) {
  %c0 = arith.constant 0 : index
  %s = memref.load %x[%lo] : memref<4xbf16>
  %v = vector.broadcast %s : bf16 to vector<4xbf16>
  vector.store %v, %r[%lo, %c0] : memref<4x4xbf16>, vector<4xbf16>
  return
}

// Where something computes in bfloat16, LLVM is to see the type.
// CHECK-LABEL: llvm.func @rejects_arithmetic(
// CHECK:         llvm.fneg %{{.*}} : bf16
func.func @rejects_arithmetic(%x: memref<4xbf16>, %lo: index) {
  %s = memref.load %x[%lo] : memref<4xbf16>
  %n = arith.negf %s : bf16
  memref.store %n, %x[%lo] : memref<4xbf16>
  return
}

// FAIL: error: upstream pass 'finalize-memref-to-llvm' failed: conversion of memref memory space

// An integer becomes a float32 first, whose rounding is arithmetic on bits: nobody links LLVM's.
// CHECK-LABEL: llvm.func @integer_to_bfloat16(
// CHECK:         llvm.sitofp %{{.*}} : i32 to f32
// CHECK-NOT:     bf16
// CHECK-LABEL: llvm.func @unsigned_vector_to_bfloat16(
// CHECK:         llvm.uitofp %{{.*}} : vector<4xi8> to vector<4xf32>
// CHECK-NOT:     fptrunc
func.func @integer_to_bfloat16(%x: memref<4xi32>, %r: memref<4xbf16>, %lo: index) {
  %i = memref.load %x[%lo] : memref<4xi32>
  %f = arith.sitofp %i : i32 to f32
  %n = arith.truncf %f : f32 to bf16
  memref.store %n, %r[%lo] : memref<4xbf16>
  return
}
func.func @unsigned_vector_to_bfloat16(%x: memref<4xi8>, %r: memref<4xbf16>, %lo: index) {
  %i = vector.load %x[%lo] : memref<4xi8>, vector<4xi8>
  %n = arith.uitofp %i : vector<4xi8> to vector<4xbf16>
  vector.store %n, %r[%lo] : memref<4xbf16>, vector<4xbf16>
  return
}

// To round and to convert are one function, which is one instruction.
// CHECK-LABEL: llvm.func @rounded(
// CHECK-NOT:     llvm.fptosi
// CHECK:         llvm.call_intrinsic "llvm.lrint.v16i32.v16f32"
func.func @rounded(%x: memref<16xf32>, %y: memref<16xi32>) {
  %c0 = arith.constant 0 : index
  %v = vector.load %x[%c0] : memref<16xf32>, vector<16xf32>
  %r = math.roundeven %v : vector<16xf32>
  %i = arith.fptosi %r : vector<16xf32> to vector<16xi32>
  vector.store %i, %y[%c0] : memref<16xi32>, vector<16xi32>
  return
}

// A marked kernel stores the vectors of its result register by register, in the order of their places; LLVM keeps that
// of volatile stores alone. Other buffers are stored into as ever.
// CHECK-LABEL: llvm.func @ordered(
// CHECK-SAME:    %{{.*}}: !llvm.ptr, %[[R:.*]]: !llvm.ptr, %[[S:.*]]: !llvm.ptr, %{{.*}}: i64, %{{.*}}: i64)
// CHECK-NOT:     tw.ordered
// CHECK:         %[[LOW:.*]] = llvm.shufflevector %[[V:.*]], %[[V]] [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]
// CHECK:         llvm.store volatile %[[LOW]], %[[P:.*]] {alignment = 4 : i64} : vector<16xf32>
// CHECK:         %[[HIGH:.*]] = llvm.shufflevector %[[V]], %[[V]] [16,
// CHECK:         %[[Q:.*]] = llvm.getelementptr %[[P]][16] : (!llvm.ptr) -> !llvm.ptr, f32
// CHECK:         llvm.store volatile %[[HIGH]], %[[Q]] {alignment = 4 : i64} : vector<16xf32>
// CHECK:         llvm.store %[[V]], %{{.*}} : vector<32xf32>
func.func @ordered(%x: memref<64x40xf32>, %r: memref<64x40xf32>, %scratch: memref<32xf32>, %lo: index, %hi: index)
    attributes {tw.ordered = 512} {
  %c0 = arith.constant 0 : index
  %v = vector.load %x[%lo, %c0] : memref<64x40xf32>, vector<32xf32>
  vector.store %v, %r[%lo, %c0] : memref<64x40xf32>, vector<32xf32>
  vector.store %v, %scratch[%c0] : memref<32xf32>, vector<32xf32>
  return
}
