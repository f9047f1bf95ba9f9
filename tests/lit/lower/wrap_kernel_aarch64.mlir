// RUN: tilewright opt %s --passes=wrap-kernel{arch=aarch64} | filecheck %s

// A kernel that takes denormals for zero sets a bit of its thread's mode, and gives the mode back as it was.
// CHECK-LABEL: llvm.func @k(
// CHECK:         %[[BEFORE:.*]] = llvm.call_intrinsic "llvm.aarch64.get.fpcr"() : () -> i64
// CHECK:         %[[MODE:.*]] = llvm.or %[[BEFORE]], %{{.*}} : i64
// CHECK:         llvm.call_intrinsic "llvm.aarch64.set.fpcr"(%[[MODE]])
// CHECK:         llvm.call @k__body
// CHECK:         llvm.call_intrinsic "llvm.aarch64.set.fpcr"(%[[BEFORE]])
llvm.func @k(%x: !llvm.ptr, %r: !llvm.ptr, %scratch: !llvm.ptr, %lo: i64, %hi: i64)
    attributes {tw.extent = 4 : i64, tw.flush_denormals, tw.scratch = 0 : i64} {
  llvm.return
}

// One without the mark keeps the mode.
// CHECK-LABEL: llvm.func @plain(
// CHECK-NOT:     fpcr
// CHECK:         llvm.return
llvm.func @plain(%x: !llvm.ptr, %r: !llvm.ptr, %scratch: !llvm.ptr, %lo: i64, %hi: i64)
    attributes {tw.extent = 4 : i64, tw.scratch = 0 : i64} {
  llvm.return
}
