// RUN: %opt %s --passes=crop-pads | filecheck %s

// CHECK-LABEL: func.func @main
// CHECK:       %[[S:.*]] = tensor.extract_slice %arg0[1, 0] [5, 6] [1, 1]
// CHECK:       %[[P:.*]] = tensor.pad %[[S]] low[0, 2] high[3, 0]
// CHECK:       %[[C:.*]] = tensor.extract_slice %arg0[1, 1] [4, 6] [1, 1]
// CHECK:       return %[[P]], %[[C]]
func.func @main(%x: tensor<6x8xf32>) -> (tensor<8x8xf32>, tensor<4x6xf32>) {
  %zero = arith.constant 0.0 : f32
  %p = tensor.pad %x low[-1, 2] high[3, -2] {
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : f32
  } : tensor<6x8xf32> to tensor<8x8xf32>
  %c = tensor.pad %x low[-1, -1] high[-1, -1] {
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : f32
  } : tensor<6x8xf32> to tensor<4x6xf32>
  return %p, %c : tensor<8x8xf32>, tensor<4x6xf32>
}

// CHECK-LABEL: func.func @rejects_what_only_adds
// CHECK-NOT:   tensor.extract_slice
// CHECK:       tensor.pad %arg0 low[1] high[0]
func.func @rejects_what_only_adds(%x: tensor<6xf32>) -> tensor<7xf32> {
  %zero = arith.constant 0.0 : f32
  %p = tensor.pad %x low[1] high[0] {
  ^bb0(%i: index):
    tensor.yield %zero : f32
  } : tensor<6xf32> to tensor<7xf32>
  return %p : tensor<7xf32>
}

// A row is left out and another one added: the shape is as before, and the elements are not.
// CHECK-LABEL: func.func @moves
// CHECK:       %[[K:.*]] = tensor.extract_slice %arg0[0, 0] [3, 8] [1, 1]
// CHECK:       %[[A:.*]] = tensor.pad %[[K]] low[1, 0] high[0, 0]
// CHECK:       %[[N:.*]] = tensor.extract_slice %arg1[0]
// CHECK:       %[[B:.*]] = tensor.pad %[[N]] low[1] high[0]
// CHECK:       return %[[A]], %[[B]]
func.func @moves(%x: tensor<4x8xf32>, %y: tensor<?xf32>) -> (tensor<4x8xf32>, tensor<?xf32>) {
  %zero = arith.constant 0.0 : f32
  %p = tensor.pad %x low[1, 0] high[-1, 0] {
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : f32
  } : tensor<4x8xf32> to tensor<4x8xf32>
  %q = tensor.pad %y low[1] high[-1] {
  ^bb0(%i: index):
    tensor.yield %zero : f32
  } : tensor<?xf32> to tensor<?xf32>
  return %p, %q : tensor<4x8xf32>, tensor<?xf32>
}
