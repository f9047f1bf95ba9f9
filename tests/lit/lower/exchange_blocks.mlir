// RUN: %opt %s --passes=exchange-blocks | filecheck %s

// Threads write their blocks to one of two places that all of them see, and copy it once the count of steps says that
// all are there. A call of all steps begins the count itself.
// CHECK:         llvm.func @sched_yield() -> i32
// CHECK-LABEL: func.func @shared(
// CHECK-SAME:    %[[X:.*]]: memref<64xf32>, %[[R:.*]]: memref<9x64xf32>, %[[LO:.*]]: index, %[[HI:.*]]: index)
// CHECK-SAME:    tw.exchanges
// CHECK:         %[[OWN:.*]] = memref.alloc() : memref<640xi8>
// CHECK:         %[[WORDS:.*]] = memref.view %[[OWN]]
// CHECK:         scf.if
// CHECK-COUNT-2:   memref.store
// CHECK:         %[[BACK:.*]] = arith.index_cast
// CHECK:         scf.for
// CHECK:           %[[SHIFT:.*]] = arith.select
// CHECK:           %[[OFFSET:.*]] = arith.addi %[[BACK]], %[[SHIFT]]
// CHECK:           %[[PLACE:.*]] = memref.view %[[OWN]][%[[OFFSET]]][] : memref<640xi8> to memref<4x16xf32>
// CHECK:           scf.for
// CHECK:             vector.store %{{.*}}, %[[PLACE]][
// CHECK-NOT:       tw.exchange
// CHECK:           llvm.atomicrmw add %{{.*}}, %{{.*}} acq_rel
// CHECK:           scf.while
// CHECK:             llvm.load %{{.*}} atomic acquire
// CHECK:             llvm.call_intrinsic "llvm.x86.sse2.pause"()
// CHECK:             llvm.call @sched_yield()
// CHECK:           linalg.copy ins(%[[PLACE]] : memref<4x16xf32>) outs(%[[ROWS:.*]] : memref<4x16xf32>)
// CHECK:           vector.store %{{.*}}, %[[R]][
func.func @shared(%x: memref<64xf32>, %r: memref<9x64xf32>, %lo: index, %hi: index) attributes {tw.exchanges = 1 : i64, tw.extent = 4 : i64, tw.parallel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 9 : index
  %c16 = arith.constant 16 : index
  %p = memref.alloc() : memref<64xf32>
  %rows = memref.expand_shape %p [[0, 1]] output_shape [4, 16] : memref<64xf32> into memref<4x16xf32>
  scf.for %t = %c0 to %c9 step %c1 {
    scf.for %i = %lo to %hi step %c1 {
      %from = arith.muli %i, %c16 : index
      %v = vector.load %x[%from] : memref<64xf32>, vector<16xf32>
      vector.store %v, %rows[%i, %c0] : memref<4x16xf32>, vector<16xf32>
    } {tw.exchange}
    %all = vector.load %p[%c0] : memref<64xf32>, vector<64xf32>
    vector.store %all, %r[%t, %c0] : memref<9x64xf32>, vector<64xf32>
  }
  return
}

// A result that is read as well is changed by each thread for itself; the first one copies what it has.
// CHECK-LABEL: func.func @own_result(
// CHECK-SAME:    %[[R:.*]]: memref<64xf32>, %[[LO:.*]]: index, %[[HI:.*]]: index)
// CHECK:         %[[OWN:.*]] = memref.alloc() : memref<64xf32>
// CHECK:         memref.load %[[OWN]]
// CHECK:         memref.store %{{.*}}, %[[OWN]]
// CHECK:         %[[FIRST:.*]] = arith.cmpi eq, %[[LO]], %c0
// CHECK:         scf.if %[[FIRST]] {
// CHECK-NEXT:      linalg.copy ins(%[[OWN]] : memref<64xf32>) outs(%[[R]] : memref<64xf32>)
func.func @own_result(%r: memref<64xf32>, %lo: index, %hi: index) attributes {tw.exchanges = 1 : i64, tw.extent = 4 : i64, tw.parallel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 9 : index
  %zero = arith.constant 0.0 : f32
  %p = memref.alloc() : memref<4xf32>
  scf.for %t = %c0 to %c9 step %c1 {
    scf.for %i = %lo to %hi step %c1 {
      memref.store %zero, %p[%i] : memref<4xf32>
    } {tw.exchange}
    %a = memref.load %r[%c0] : memref<64xf32>
    %b = memref.load %p[%c1] : memref<4xf32>
    %s = arith.addf %a, %b : f32
    memref.store %s, %r[%c0] : memref<64xf32>
  }
  return
}

// Where blocks are no buffer of the kernel's own, one thread makes all steps.
// CHECK-LABEL: func.func @rejects_results(
// CHECK-SAME:    attributes {tw.extent = 1 : i64}
// CHECK-NOT:     memref.alloc
// CHECK:         scf.for %{{.*}} = %c0{{.*}} to %c4
// CHECK-NOT:     atomic
// CHECK:         return
func.func @rejects_results(%r: memref<4xf32>, %lo: index, %hi: index) attributes {tw.exchanges = 1 : i64, tw.extent = 4 : i64, tw.parallel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 9 : index
  %zero = arith.constant 0.0 : f32
  scf.for %t = %c0 to %c9 step %c1 {
    scf.for %i = %lo to %hi step %c1 {
      memref.store %zero, %r[%i] : memref<4xf32>
    } {tw.exchange}
  }
  return
}

// So it does where each step writes all of the buffer, and with it what other threads have written.
// CHECK-LABEL: func.func @rejects_whole_copies(
// CHECK-SAME:    attributes {tw.extent = 1 : i64}
// CHECK:         scf.for %{{.*}} = %c0{{.*}} to %c4
// CHECK-NOT:     atomic
// CHECK:         return
func.func @rejects_whole_copies(%r: memref<4xf32>, %lo: index, %hi: index) attributes {tw.exchanges = 1 : i64, tw.extent = 4 : i64, tw.parallel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 9 : index
  %zero = arith.constant 0.0 : f32
  %p = memref.alloc() : memref<4xf32>
  scf.for %t = %c0 to %c9 step %c1 {
    scf.for %i = %lo to %hi step %c1 {
      %q = memref.alloc() : memref<4xf32>
      linalg.copy ins(%p : memref<4xf32>) outs(%q : memref<4xf32>)
      memref.store %zero, %q[%i] : memref<4xf32>
      linalg.copy ins(%q : memref<4xf32>) outs(%p : memref<4xf32>)
    } {tw.exchange}
    linalg.copy ins(%p : memref<4xf32>) outs(%r : memref<4xf32>)
  }
  return
}
