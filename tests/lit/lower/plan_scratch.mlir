// RUN: %opt %s --passes=plan-scratch | filecheck %s
// RUN: not %opt %S/Inputs/unknown_size.mlir --passes=plan-scratch 2>&1 | filecheck %s --check-prefix=SIZE
// RUN: not %opt %S/Inputs/hands_on.mlir --passes=plan-scratch 2>&1 | filecheck %s --check-prefix=LOOP

// Two buffers lie one behind the other, each at a multiple of 64 bytes.
// CHECK-LABEL: func.func @two(
// CHECK-SAME:    %{{.*}}: memref<3xf32>, %[[SCRATCH:.*]]: memref<192xi8>, %{{.*}}: index, %{{.*}}: index)
// CHECK-SAME:    tw.scratch = 192 : i64
// CHECK-DAG:     %[[A:.*]] = arith.constant 0 : index
// CHECK-DAG:     %[[B:.*]] = arith.constant 64 : index
// CHECK-DAG:     memref.view %[[SCRATCH]][%[[A]]][] : memref<192xi8> to memref<3xf32>
// CHECK-DAG:     memref.view %[[SCRATCH]][%[[B]]][] : memref<192xi8> to memref<20xf32>
// CHECK-NOT:     memref.alloc
// CHECK-NOT:     memref.dealloc
// CHECK:         return
func.func @two(%r: memref<3xf32>, %lo: index, %hi: index) {
  %a = memref.alloc() : memref<3xf32>
  %b = memref.alloc() {alignment = 64 : i64} : memref<20xf32>
  %z = arith.constant 0.0 : f32
  linalg.fill ins(%z : f32) outs(%a : memref<3xf32>)
  linalg.fill ins(%z : f32) outs(%b : memref<20xf32>)
  linalg.copy ins(%a : memref<3xf32>) outs(%r : memref<3xf32>)
  memref.dealloc %b : memref<20xf32>
  return
}

// A kernel that allocates nothing has the argument all the same.
// CHECK-LABEL: func.func @none(
// CHECK-SAME:    %{{.*}}: memref<1xi8>, %{{.*}}: index, %{{.*}}: index) attributes {tw.scratch = 0 : i64}
func.func @none(%lo: index, %hi: index) {
  return
}

// A kernel with a buffer of a size that it is given says how many bytes it needs when it is called with hi = -1.
// CHECK-LABEL: func.func @asks(
// CHECK-SAME:    %[[N:.*]]: index, %[[SCRATCH:.*]]: memref<1xi8>, %{{.*}}: index, %[[HI:.*]]: index)
// CHECK-SAME:    tw.asks_scratch
// CHECK:         %[[BUFFER:.*]] = memref.view %[[SCRATCH]][{{.*}}][%[[N]]] : memref<1xi8> to memref<?xf32>
// CHECK:         %[[ASKED:.*]] = arith.cmpi eq, %[[HI]]
// CHECK:         scf.if %[[ASKED]] {
// CHECK:           memref.store
// CHECK:         } else {
// CHECK:           linalg.fill ins(%{{.*}}) outs(%[[BUFFER]] : memref<?xf32>)
func.func @asks(%n: index, %lo: index, %hi: index) {
  %z = arith.constant 0.0 : f32
  %a = memref.alloc(%n) : memref<?xf32>
  linalg.fill ins(%z : f32) outs(%a : memref<?xf32>)
  return
}

// A size that the kernel's first op computes is there before the buffer is placed.
// CHECK-LABEL: func.func @computes(
// CHECK:         %[[DOUBLE:.*]] = arith.addi
// CHECK:         memref.view %{{.*}}[{{.*}}][%[[DOUBLE]]] : memref<1xi8> to memref<?xf32>
// CHECK:         scf.if
func.func @computes(%n: index, %lo: index, %hi: index) {
  %double = arith.addi %n, %n : index
  %z = arith.constant 0.0 : f32
  %a = memref.alloc(%double) : memref<?xf32>
  linalg.fill ins(%z : f32) outs(%a : memref<?xf32>)
  return
}

// The size of a view of a buffer is that of the buffer, also where the view itself is made later.
// CHECK-LABEL: func.func @views(
// CHECK-SAME:    %[[N:.*]]: index, %[[SCRATCH:.*]]: memref<1xi8>
// CHECK:         %[[SAME:.*]] = arith.muli %{{.*}}, %[[N]]
// CHECK:         memref.view %[[SCRATCH]][{{.*}}][%[[N]]] : memref<1xi8> to memref<?x3xf32>
// CHECK:         memref.view %[[SCRATCH]][{{.*}}][%[[SAME]]] : memref<1xi8> to memref<?x3xf32>
func.func @views(%n: index, %lo: index, %hi: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    %a = memref.alloc(%n) : memref<?x3xf32>
    %e = memref.expand_shape %a [[0, 1], [2]] output_shape [1, %n, 3] : memref<?x3xf32> into memref<1x?x3xf32>
    %c = memref.collapse_shape %e [[0, 1], [2]] : memref<1x?x3xf32> into memref<?x3xf32>
    %size = memref.dim %c, %c0 : memref<?x3xf32>
    %b = memref.alloc(%size) : memref<?x3xf32>
    linalg.copy ins(%c : memref<?x3xf32>) outs(%b : memref<?x3xf32>)
  }
  return
}

// SIZE: error: pass 'plan-scratch': a buffer's size depends on a kernel's data at node 'topk1'
// LOOP: error: pass 'plan-scratch': a loop or branch of a kernel hands on a buffer at node 'loop1'
