// RUN: tilewright opt %s --passes=bufferize | filecheck %s

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
