// RUN: %opt %s --passes=%kernels | filecheck %s

// Convolutions with padding: the first one writes what it makes between the columns of zeros that the second one reads.
// Rows of zeros above and below are not stored: the kernels leave them out.
// CHECK-LABEL: func.func @main
// CHECK:       %[[P:.*]] = call @pad_{{[0-9a-f]+}}(%arg0)
// CHECK:       %[[C:.*]] = call @pad_conv_add_max_{{[0-9a-f]+}}({{.*}}%[[P]], {{.*}} -> tensor<1x8x10x4xf32>
// CHECK:       call @pad_conv_add_{{[0-9a-f]+}}({{.*}}%[[C]],
// CHECK-NOT:   call @pad_{{[0-9a-f]+}}(
// CHECK:       return

#map = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
module {
  func.func @main(%arg0: tensor<1x3x8x8xf32> {tw.name = "x"}, %arg1: tensor<4x3x3x3xf32> {tw.param = "w1"}, %arg2: tensor<4xf32> {tw.param = "w2"}, %arg3: tensor<4x4x3x3xf32> {tw.param = "w3"}, %arg4: tensor<4xf32> {tw.param = "w4"}) -> tensor<1x4x8x8xf32> {
    %cst = arith.constant 0.000000e+00 : f32
    %padded = tensor.pad %arg0 low[0, 0, 1, 1] high[0, 0, 1, 1] {
    ^bb0(%arg5: index, %arg6: index, %arg7: index, %arg8: index):
      tensor.yield %cst : f32
    } : tensor<1x3x8x8xf32> to tensor<1x3x10x10xf32>
    %0 = tensor.empty() : tensor<1x4x8x8xf32>
    %broadcasted = linalg.broadcast ins(%arg2 : tensor<4xf32>) outs(%0 : tensor<1x4x8x8xf32>) dimensions = [0, 2, 3] 
    %1 = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>} ins(%padded, %arg1 : tensor<1x3x10x10xf32>, tensor<4x3x3x3xf32>) outs(%broadcasted : tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
    %2 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%1 : tensor<1x4x8x8xf32>) outs(%0 : tensor<1x4x8x8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %4 = arith.cmpf ugt, %in, %cst : f32
      %5 = arith.select %4, %in, %cst : f32
      linalg.yield %5 : f32
    } -> tensor<1x4x8x8xf32>
    %padded_0 = tensor.pad %2 low[0, 0, 1, 1] high[0, 0, 1, 1] {
    ^bb0(%arg5: index, %arg6: index, %arg7: index, %arg8: index):
      tensor.yield %cst : f32
    } : tensor<1x4x8x8xf32> to tensor<1x4x10x10xf32>
    %broadcasted_1 = linalg.broadcast ins(%arg4 : tensor<4xf32>) outs(%0 : tensor<1x4x8x8xf32>) dimensions = [0, 2, 3] 
    %3 = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>} ins(%padded_0, %arg3 : tensor<1x4x10x10xf32>, tensor<4x4x3x3xf32>) outs(%broadcasted_1 : tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
    return %3 : tensor<1x4x8x8xf32>
  }
}
