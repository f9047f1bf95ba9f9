// RUN: %opt %s --passes=%kernels | filecheck %s

// A convolution between permutations, for channels that come last: nothing is moved.
// CHECK-LABEL: func.func @main
// CHECK:       call @conv_add_{{[0-9a-f]+}}(%arg2, %arg0, %arg1)
// CHECK-NOT:   call @
// CHECK:       return

module {
  func.func @main(%arg0: tensor<1x8x8x3xf32> {tw.name = "x"}, %arg1: tensor<4x3x3x3xf32> {tw.param = "w1"}, %arg2: tensor<4xf32> {tw.param = "w2"}) -> tensor<1x6x6x4xf32> {
    %0 = tensor.empty() : tensor<1x3x8x8xf32>
    %transposed = linalg.transpose ins(%arg0 : tensor<1x8x8x3xf32>) outs(%0 : tensor<1x3x8x8xf32>) permutation = [0, 3, 1, 2] 
    %1 = tensor.empty() : tensor<1x4x6x6xf32>
    %broadcasted = linalg.broadcast ins(%arg2 : tensor<4xf32>) outs(%1 : tensor<1x4x6x6xf32>) dimensions = [0, 2, 3] 
    %2 = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>} ins(%transposed, %arg1 : tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) outs(%broadcasted : tensor<1x4x6x6xf32>) -> tensor<1x4x6x6xf32>
    %3 = tensor.empty() : tensor<1x6x6x4xf32>
    %transposed_0 = linalg.transpose ins(%2 : tensor<1x4x6x6xf32>) outs(%3 : tensor<1x6x6x4xf32>) permutation = [0, 2, 3, 1] 
    return %transposed_0 : tensor<1x6x6x4xf32>
  }
}
