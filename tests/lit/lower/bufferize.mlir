// RUN: %opt %s --passes=bufferize | filecheck %s

#id = affine_map<(i) -> (i)>

// The result is written into its buffer, without a temporary and without a copy.
// CHECK-LABEL: func.func @in_place(
// CHECK-SAME:    %[[X:.*]]: memref<8xf32>, %[[R:.*]]: memref<8xf32>)
// CHECK-NOT:     memref.alloc
// CHECK:         linalg.generic {{.*}} ins(%[[X]] : memref<8xf32>) outs(%[[R]] : memref<8xf32>)
// CHECK-NOT:     copy
// CHECK:         return
func.func @in_place(%x: memref<8xf32>, %r: memref<8xf32>) {
  %t = bufferization.to_tensor %x restrict : memref<8xf32> to tensor<8xf32>
  %d = bufferization.to_tensor %r restrict writable : memref<8xf32> to tensor<8xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
    ins(%t : tensor<8xf32>) outs(%d : tensor<8xf32>) {
  ^bb0(%v: f32, %o: f32):
    %n = arith.negf %v : f32
    linalg.yield %n : f32
  } -> tensor<8xf32>
  bufferization.materialize_in_destination %y in restrict writable %r : (tensor<8xf32>, memref<8xf32>) -> ()
  return
}

// An input must not be written: the part that is read goes to the result by a copy that is a loop.
// CHECK-LABEL: func.func @rejects_writing_an_input(
// CHECK-SAME:    %[[X:.*]]: memref<4x8xf32>, %[[R:.*]]: memref<4x4xf32>)
// CHECK-NOT:     memref.copy
// CHECK:         linalg.copy {{.*}}ins(%{{.*}} : memref<4x4xf32, strided<[8, 1]>>) outs(%[[R]] : memref<4x4xf32>)
func.func @rejects_writing_an_input(%x: memref<4x8xf32>, %r: memref<4x4xf32>) {
  %t = bufferization.to_tensor %x restrict : memref<4x8xf32> to tensor<4x8xf32>
  %s = tensor.extract_slice %t[0, 0] [4, 4] [1, 1] : tensor<4x8xf32> to tensor<4x4xf32>
  bufferization.materialize_in_destination %s in restrict writable %r : (tensor<4x4xf32>, memref<4x4xf32>) -> ()
  return
}

// A loop carries the same buffers all along: a state that is a row of the output too is copied, never the output.
// CHECK-LABEL: func.func @carried(
// CHECK-SAME:    %{{.*}}: memref<8xf32>, %{{.*}}: memref<8xf32>, %[[Y:.*]]: memref<4x8xf32>)
// CHECK:         scf.for %[[I:.*]] = %{{.*}} to %{{.*}} step %{{.*}} {
// CHECK-NOT:     memref<4x8xf32>)
// CHECK:         %[[ROW:.*]] = memref.subview %[[Y]][%[[I]], 0]
// CHECK-NEXT:    linalg.copy {{.*}} outs(%[[ROW]]
// CHECK-NOT:     memref<4x8xf32>)
// CHECK:         return
func.func @carried(%s: memref<8xf32>, %r: memref<8xf32>, %y: memref<4x8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %t = bufferization.to_tensor %s restrict : memref<8xf32> to tensor<8xf32>
  %e = tensor.empty() : tensor<4x8xf32>
  %f:2 = scf.for %i = %c0 to %c4 step %c1 iter_args(%a = %t, %b = %e) -> (tensor<8xf32>, tensor<4x8xf32>) {
    %o = tensor.empty() : tensor<8xf32>
    %n = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%a : tensor<8xf32>) outs(%o : tensor<8xf32>) {
    ^bb0(%v: f32, %w: f32):
      %m = arith.negf %v : f32
      linalg.yield %m : f32
    } -> tensor<8xf32>
    %d = tensor.insert_slice %n into %b[%i, 0] [1, 8] [1, 1] : tensor<8xf32> into tensor<4x8xf32>
    scf.yield %n, %d : tensor<8xf32>, tensor<4x8xf32>
  }
  bufferization.materialize_in_destination %f#0 in restrict writable %r : (tensor<8xf32>, memref<8xf32>) -> ()
  bufferization.materialize_in_destination %f#1 in restrict writable %y : (tensor<4x8xf32>, memref<4x8xf32>) -> ()
  return
}

// States that change places are copied before one is written over the other, and no loop or branch hands on a buffer.
// CHECK-LABEL: func.func @exchanged(
// CHECK:         scf.while
// CHECK-SAME:    (index) -> index
// CHECK:         scf.if %{{.*}} {
// CHECK:         linalg.copy
// CHECK:         } else {
func.func @exchanged(%x: memref<8xf32>, %n: memref<index>, %p: memref<8xf32>, %q: memref<8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %t = bufferization.to_tensor %x restrict : memref<8xf32> to tensor<8xf32>
  %l = memref.load %n[] : memref<index>
  %z = arith.constant dense<0.0> : tensor<8xf32>
  %f:3 = scf.while (%i = %c0, %a = %t, %b = %z) : (index, tensor<8xf32>, tensor<8xf32>)
      -> (index, tensor<8xf32>, tensor<8xf32>) {
    %go = arith.cmpi slt, %i, %l : index
    scf.condition(%go) %i, %b, %a : index, tensor<8xf32>, tensor<8xf32>
  } do {
  ^bb0(%i: index, %b: tensor<8xf32>, %a: tensor<8xf32>):
    %first = arith.cmpi eq, %i, %c0 : index
    %c = scf.if %first -> tensor<8xf32> {
      scf.yield %z : tensor<8xf32>
    } else {
      scf.yield %a : tensor<8xf32>
    }
    %j = arith.addi %i, %c1 : index
    scf.yield %j, %b, %c : index, tensor<8xf32>, tensor<8xf32>
  }
  bufferization.materialize_in_destination %f#1 in restrict writable %p : (tensor<8xf32>, memref<8xf32>) -> ()
  bufferization.materialize_in_destination %f#2 in restrict writable %q : (tensor<8xf32>, memref<8xf32>) -> ()
  return
}

// What a loop hands on is what it was handed with an element written into it: the element alone is stored.
// CHECK-LABEL: func.func @elements(
// CHECK-NOT:     memref.alloc
// CHECK:         scf.for
// CHECK-NOT:     copy
// CHECK:           memref.store
// CHECK-NOT:     copy
// CHECK:         return
func.func @elements(%x: memref<8xf32>, %r: memref<8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %t = bufferization.to_tensor %x restrict : memref<8xf32> to tensor<8xf32>
  %d = bufferization.to_tensor %r restrict writable : memref<8xf32> to tensor<8xf32>
  %y = scf.for %i = %c0 to %c8 step %c1 iter_args(%a = %d) -> tensor<8xf32> {
    %v = tensor.extract %t[%i] : tensor<8xf32>
    %n = arith.negf %v : f32
    %b = tensor.insert %n into %a[%i] : tensor<8xf32>
    scf.yield %b : tensor<8xf32>
  }
  bufferization.materialize_in_destination %y in restrict writable %r : (tensor<8xf32>, memref<8xf32>) -> ()
  return
}

// Each branch stores a tile of what the loop was handed: the tile alone is stored, as where there are no branches.
// CHECK-LABEL: func.func @tiles_of_branches(
// CHECK-NOT:     memref.alloc
// CHECK:         scf.for
// CHECK:           scf.if
// CHECK-NOT:     copy
// CHECK:           } else {
// CHECK-NOT:     copy
// CHECK:         return
func.func @tiles_of_branches(%x: memref<8xf32>, %r: memref<8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %t = bufferization.to_tensor %x restrict : memref<8xf32> to tensor<8xf32>
  %d = bufferization.to_tensor %r restrict writable : memref<8xf32> to tensor<8xf32>
  %y = scf.for %i = %c0 to %c3 step %c1 iter_args(%a = %d) -> tensor<8xf32> {
    %last = arith.cmpi eq, %i, %c2 : index
    %b = scf.if %last -> tensor<8xf32> {
      %v = tensor.extract_slice %t[6] [2] [1] : tensor<8xf32> to tensor<2xf32>
      %o = tensor.extract_slice %a[6] [2] [1] : tensor<8xf32> to tensor<2xf32>
      %n = linalg.negf ins(%v : tensor<2xf32>) outs(%o : tensor<2xf32>) -> tensor<2xf32>
      %s = tensor.insert_slice %n into %a[6] [2] [1] : tensor<2xf32> into tensor<8xf32>
      scf.yield %s : tensor<8xf32>
    } else {
      %j = arith.muli %i, %c3 : index
      %v = tensor.extract_slice %t[%j] [3] [1] : tensor<8xf32> to tensor<3xf32>
      %o = tensor.extract_slice %a[%j] [3] [1] : tensor<8xf32> to tensor<3xf32>
      %n = linalg.negf ins(%v : tensor<3xf32>) outs(%o : tensor<3xf32>) -> tensor<3xf32>
      %s = tensor.insert_slice %n into %a[%j] [3] [1] : tensor<3xf32> into tensor<8xf32>
      scf.yield %s : tensor<8xf32>
    }
    scf.yield %b : tensor<8xf32>
  }
  bufferization.materialize_in_destination %y in restrict writable %r : (tensor<8xf32>, memref<8xf32>) -> ()
  return
}

// One that reads the state as it was before the element was written has a copy of it.
// CHECK-LABEL: func.func @rejects_elements_under_a_reader(
// CHECK:         scf.for
// CHECK:           linalg.copy
// CHECK:         return
func.func @rejects_elements_under_a_reader(%x: memref<8xf32>, %r: memref<8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c7 = arith.constant 7 : index
  %t = bufferization.to_tensor %x restrict : memref<8xf32> to tensor<8xf32>
  %d = bufferization.to_tensor %r restrict writable : memref<8xf32> to tensor<8xf32>
  %y = scf.for %i = %c0 to %c7 step %c1 iter_args(%a = %d) -> tensor<8xf32> {
    %v = tensor.extract %t[%i] : tensor<8xf32>
    %b = tensor.insert %v into %a[%c0] : tensor<8xf32>
    %w = tensor.extract %a[%c0] : tensor<8xf32>
    %j = arith.addi %i, %c1 : index
    %c = tensor.insert %w into %b[%j] : tensor<8xf32>
    scf.yield %c : tensor<8xf32>
  }
  bufferization.materialize_in_destination %y in restrict writable %r : (tensor<8xf32>, memref<8xf32>) -> ()
  return
}

// Rows that are written in two pieces, the first of them by a loop, lie in what the loop around was handed.
// CHECK-LABEL: func.func @pieces(
// CHECK-NOT:     memref.alloc
// CHECK-NOT:     copy
// CHECK:         return
func.func @pieces(%x: memref<4x2xf32>, %r: memref<4x6xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %t = bufferization.to_tensor %x restrict : memref<4x2xf32> to tensor<4x2xf32>
  %d = bufferization.to_tensor %r restrict writable : memref<4x6xf32> to tensor<4x6xf32>
  %y = scf.for %i = %c0 to %c4 step %c1 iter_args(%a = %d) -> tensor<4x6xf32> {
    %row = tensor.extract_slice %t[%i, 0] [1, 2] [1, 1] : tensor<4x2xf32> to tensor<2xf32>
    %b = scf.for %j = %c0 to %c2 step %c1 iter_args(%e = %a) -> tensor<4x6xf32> {
      %k = arith.muli %j, %c2 : index
      %place = tensor.extract_slice %e[%i, %k] [1, 2] [1, 1] : tensor<4x6xf32> to tensor<2xf32>
      %v = linalg.exp ins(%row : tensor<2xf32>) outs(%place : tensor<2xf32>) -> tensor<2xf32>
      %f = tensor.insert_slice %v into %e[%i, %k] [1, 2] [1, 1] : tensor<2xf32> into tensor<4x6xf32>
      scf.yield %f : tensor<4x6xf32>
    }
    %last = tensor.extract_slice %b[%i, 4] [1, 2] [1, 1] : tensor<4x6xf32> to tensor<2xf32>
    %w = linalg.negf ins(%row : tensor<2xf32>) outs(%last : tensor<2xf32>) -> tensor<2xf32>
    %c = tensor.insert_slice %w into %b[%i, 4] [1, 2] [1, 1] : tensor<2xf32> into tensor<4x6xf32>
    scf.yield %c : tensor<4x6xf32>
  }
  bufferization.materialize_in_destination %y in restrict writable %r : (tensor<4x6xf32>, memref<4x6xf32>) -> ()
  return
}

// A row that a tile copies is one vector; one of five would be scalars.
// CHECK-LABEL: func.func @rows(
// CHECK:         vector.transfer_read %{{.*}} vector<8xf32>
// CHECK:         vector.transfer_write %{{.*}} vector<8xf32>
// CHECK:         linalg.copy
// CHECK-NOT:     memref.copy
func.func @rows(%x: memref<4x8xf32>, %y: memref<4x5xf32>, %r: memref<4x16xf32>, %i: index)
    attributes {tw.schedule = "tile"} {
  %t = bufferization.to_tensor %x restrict : memref<4x8xf32> to tensor<4x8xf32>
  %u = bufferization.to_tensor %y restrict : memref<4x5xf32> to tensor<4x5xf32>
  %d = bufferization.to_tensor %r restrict writable : memref<4x16xf32> to tensor<4x16xf32>
  %a = tensor.extract_slice %t[%i, 0] [1, 8] [1, 1] : tensor<4x8xf32> to tensor<8xf32>
  %b = tensor.insert_slice %a into %d[%i, 0] [1, 8] [1, 1] : tensor<8xf32> into tensor<4x16xf32>
  %c = tensor.extract_slice %u[%i, 0] [1, 5] [1, 1] : tensor<4x5xf32> to tensor<5xf32>
  %e = tensor.insert_slice %c into %b[%i, 8] [1, 5] [1, 1] : tensor<5xf32> into tensor<4x16xf32>
  bufferization.materialize_in_destination %e in restrict writable %r : (tensor<4x16xf32>, memref<4x16xf32>) -> ()
  return
}
