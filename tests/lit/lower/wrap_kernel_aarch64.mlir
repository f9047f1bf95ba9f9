// RUN: %opt %s --passes=wrap-kernel{arch=aarch64} | filecheck %s

// A kernel that takes denormals for zero sets its thread's mode, and gives it back as it was.
// CHECK-LABEL: llvm.func @k(
// CHECK:         %[[MODE:.*]] = llvm.mlir.constant(16777216 : i64) : i64
// CHECK:         %[[BEFORE:.*]] = llvm.call_intrinsic "llvm.aarch64.get.fpcr"() : () -> i64
// CHECK:         llvm.call_intrinsic "llvm.aarch64.set.fpcr"(%[[MODE]])
// CHECK:         llvm.call @k__body
// CHECK:         llvm.call_intrinsic "llvm.aarch64.set.fpcr"(%[[BEFORE]])
llvm.func @k(%x: !llvm.ptr, %r: !llvm.ptr, %scratch: !llvm.ptr, %lo: i64, %hi: i64)
    attributes {tw.extent = 4 : i64, tw.flush_denormals, tw.scratch = 0 : i64} {
  llvm.return
}

// One without the mark keeps denormals, whatever the thread's mode is.
// CHECK-LABEL: llvm.func @plain(
// CHECK:         %[[KEEPING:.*]] = llvm.mlir.constant(0 : i64) : i64
// CHECK:         llvm.call_intrinsic "llvm.aarch64.set.fpcr"(%[[KEEPING]])
// CHECK:         llvm.call @plain__body
// CHECK:         llvm.call_intrinsic "llvm.aarch64.set.fpcr"
llvm.func @plain(%x: !llvm.ptr, %r: !llvm.ptr, %scratch: !llvm.ptr, %lo: i64, %hi: i64)
    attributes {tw.extent = 4 : i64, tw.scratch = 0 : i64} {
  llvm.return
}
