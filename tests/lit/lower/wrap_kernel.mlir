// RUN: %opt %s --passes=wrap-kernel | filecheck %s

// Stores that pass the caches want a result that begins at a line: one body with them, and one without.
// CHECK-LABEL: llvm.func internal @large__body(
// CHECK:         llvm.store %{{.*}}, %{{.*}} {alignment = 4 : i64} : vector<16xf32>
// CHECK-LABEL: llvm.func internal @large__streams(
// CHECK:         llvm.store %{{.*}}, %{{.*}} {alignment = 64 : i64, nontemporal} : vector<16xf32>
llvm.func @large(%x: !llvm.ptr, %r: !llvm.ptr, %scratch: !llvm.ptr, %lo: i64, %hi: i64)
    attributes {tw.extent = 1 : i64, tw.scratch = 1 : i64, tw.streams} {
  %v = llvm.load %x {alignment = 4 : i64} : !llvm.ptr -> vector<16xf32>
  llvm.store %v, %r {alignment = 64 : i64, nontemporal} : vector<16xf32>, !llvm.ptr
  llvm.return
}

// CHECK-LABEL: llvm.func internal @k__body(
// CHECK-SAME:    %{{.*}}: !llvm.ptr {llvm.noalias}, %{{.*}}: !llvm.ptr {llvm.noalias}, %{{.*}}: !llvm.ptr {llvm.noalias}, %{{.*}}: i64, %{{.*}}: i64)
// CHECK-NOT:     tw.
llvm.func @k(%x: !llvm.ptr, %r: !llvm.ptr, %scratch: !llvm.ptr, %lo: i64, %hi: i64)
    attributes {tw.extent = 4 : i64, tw.parallel, tw.scratch = 128 : i64} {
  llvm.return
}

// The second operand may lie where the result does: nothing is promised of these two.
// CHECK-LABEL: llvm.func internal @in_place__body(
// CHECK-SAME:    %{{.*}}: !llvm.ptr {llvm.noalias}, %{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr {llvm.noalias}, %{{.*}}: i64, %{{.*}}: i64)
// CHECK-NOT:     tw.
llvm.func @in_place(%x: !llvm.ptr, %y: !llvm.ptr, %r: !llvm.ptr, %scratch: !llvm.ptr, %lo: i64, %hi: i64)
    attributes {tw.extent = 4 : i64, tw.in_place = array<i64: 1>, tw.scratch = 128 : i64} {
  llvm.return
}

// A function that is no kernel, such as one of libm.
// CHECK-LABEL: llvm.func @expf(f32) -> f32
// CHECK-NOT:   @expf__body
llvm.func @expf(f32) -> f32

// CHECK-LABEL: llvm.func @large(
// CHECK:         %[[ADDRESS:.*]] = llvm.ptrtoint
// CHECK:         %[[WITHIN:.*]] = llvm.and %[[ADDRESS]]
// CHECK:         %[[ALIGNED:.*]] = llvm.icmp "eq" %[[WITHIN]]
// CHECK:         llvm.cond_br %[[ALIGNED]]
// CHECK:         llvm.call @large__streams(
// CHECK-NEXT:    llvm.call_intrinsic "llvm.x86.sse.sfence"()
// CHECK:         llvm.call @large__body(

// CHECK-LABEL: llvm.func @k(
// CHECK-SAME:    %[[ARGS:.*]]: !llvm.ptr, %[[LO:.*]]: i64, %[[HI:.*]]: i64, %[[SCRATCH:.*]]: !llvm.ptr)
// CHECK-SAME:    tw.extent = 4 : i64, tw.parallel, tw.scratch = 128 : i64
// CHECK:         %[[X:.*]] = llvm.load
// CHECK:         %[[R:.*]] = llvm.load
// CHECK:         %[[KEEPING:.*]] = llvm.mlir.constant(8064 : i32)
// CHECK:         llvm.store %[[KEEPING]], %[[WITHIN:.*]] : i32, !llvm.ptr
// CHECK-NEXT:    llvm.call_intrinsic "llvm.x86.sse.ldmxcsr"(%[[WITHIN]]) :
// CHECK-NEXT:    llvm.call @k__body(%[[X]], %[[R]], %[[SCRATCH]], %[[LO]], %[[HI]])
// CHECK-NEXT:    llvm.call_intrinsic "llvm.x86.sse.ldmxcsr"(

// CHECK-LABEL: llvm.func @softmax(
// CHECK:         llvm.mlir.constant(40896 : i32)
// CHECK:         llvm.call_intrinsic "llvm.x86.sse.stmxcsr"(%[[BEFORE:.*]]) :
// CHECK:         llvm.call_intrinsic "llvm.x86.sse.ldmxcsr"(%{{.*}}) :
// CHECK-NEXT:    llvm.call @softmax__body(
// CHECK-NEXT:    llvm.call_intrinsic "llvm.x86.sse.ldmxcsr"(%[[BEFORE]]) :
llvm.func @softmax(%r: !llvm.ptr, %scratch: !llvm.ptr, %lo: i64, %hi: i64)
    attributes {tw.extent = 1 : i64, tw.scratch = 1 : i64, tw.flush_denormals} {
  llvm.return
}

// The entry, into which LLVM moves the body, has its stack.
// CHECK-LABEL: llvm.func @stacked(
// CHECK-SAME:    passthrough = ["stackrealign"]
llvm.func @stacked(%x: !llvm.ptr, %r: !llvm.ptr, %scratch: !llvm.ptr, %lo: i64, %hi: i64)
    attributes {passthrough = ["stackrealign"], tw.extent = 4 : i64, tw.scratch = 128 : i64} {
  llvm.return
}
