// RUN: %opt %s --passes=%kernels | filecheck %s

// nn.BatchNorm2d behind a convolution: its factor is in the weight, its addend in the bias.
// CHECK-LABEL: func.func @main
// CHECK:       call @conv_add_max_
// CHECK-NEXT:  call @transpose_
// CHECK-NOT:   call @
// CHECK:       return
// CHECK-LABEL: func.func private @prepare_0
// CHECK:       call @add_rsqrt_mul_
// CHECK-NEXT:  call @mul_
// CHECK-NEXT:  call @pack_

#map = affine_map<(d0) -> (d0)>
#map1 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map2 = affine_map<(d0, d1, d2, d3) -> (d0, d1, 0, 0)>
module {
  func.func @main(%arg0: tensor<1x3x5x5xf32> {tw.name = "x"}, %arg1: tensor<4x3x1x1xf32> {tw.param = "w1"}, %arg2: tensor<4xf32> {tw.param = "w2"}, %arg3: tensor<4xf32> {tw.param = "w3"}, %arg4: tensor<4xf32> {tw.param = "w4"}, %arg5: tensor<4xf32> {tw.param = "w5"}, %arg6: tensor<4xf32> {tw.param = "w6"}) -> tensor<1x4x5x5xf32> {
    %cst = arith.constant 0.000000e+00 : f32
    %cst_0 = arith.constant 1.000000e-05 : f64
    %0 = tensor.empty() : tensor<1x4x5x5xf32>
    %broadcasted = linalg.broadcast ins(%arg2 : tensor<4xf32>) outs(%0 : tensor<1x4x5x5xf32>) dimensions = [0, 2, 3] 
    %1 = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>} ins(%arg0, %arg1 : tensor<1x3x5x5xf32>, tensor<4x3x1x1xf32>) outs(%broadcasted : tensor<1x4x5x5xf32>) -> tensor<1x4x5x5xf32>
    %2 = tensor.empty() : tensor<4xf32>
    %3 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%arg6 : tensor<4xf32>) outs(%2 : tensor<4xf32>) {
    ^bb0(%in: f32, %out: f32):
      %11 = arith.truncf %cst_0 : f64 to f32
      %12 = arith.addf %in, %11 : f32
      linalg.yield %12 : f32
    } -> tensor<4xf32>
    %4 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%3 : tensor<4xf32>) outs(%2 : tensor<4xf32>) {
    ^bb0(%in: f32, %out: f32):
      %11 = math.rsqrt %in : f32
      linalg.yield %11 : f32
    } -> tensor<4xf32>
    %5 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel"]} ins(%4, %arg3 : tensor<4xf32>, tensor<4xf32>) outs(%2 : tensor<4xf32>) {
    ^bb0(%in: f32, %in_2: f32, %out: f32):
      %11 = arith.mulf %in, %in_2 : f32
      linalg.yield %11 : f32
    } -> tensor<4xf32>
    %6 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel"]} ins(%arg5, %5 : tensor<4xf32>, tensor<4xf32>) outs(%2 : tensor<4xf32>) {
    ^bb0(%in: f32, %in_2: f32, %out: f32):
      %11 = arith.mulf %in, %in_2 : f32
      linalg.yield %11 : f32
    } -> tensor<4xf32>
    %7 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel"]} ins(%arg4, %6 : tensor<4xf32>, tensor<4xf32>) outs(%2 : tensor<4xf32>) {
    ^bb0(%in: f32, %in_2: f32, %out: f32):
      %11 = arith.subf %in, %in_2 : f32
      linalg.yield %11 : f32
    } -> tensor<4xf32>
    %expanded = tensor.expand_shape %5 [[0, 1, 2, 3]] output_shape [1, 4, 1, 1] : tensor<4xf32> into tensor<1x4x1x1xf32>
    %8 = linalg.generic {indexing_maps = [#map1, #map2, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%1, %expanded : tensor<1x4x5x5xf32>, tensor<1x4x1x1xf32>) outs(%0 : tensor<1x4x5x5xf32>) {
    ^bb0(%in: f32, %in_2: f32, %out: f32):
      %11 = arith.mulf %in, %in_2 : f32
      linalg.yield %11 : f32
    } -> tensor<1x4x5x5xf32>
    %expanded_1 = tensor.expand_shape %7 [[0, 1, 2, 3]] output_shape [1, 4, 1, 1] : tensor<4xf32> into tensor<1x4x1x1xf32>
    %9 = linalg.generic {indexing_maps = [#map1, #map2, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%8, %expanded_1 : tensor<1x4x5x5xf32>, tensor<1x4x1x1xf32>) outs(%0 : tensor<1x4x5x5xf32>) {
    ^bb0(%in: f32, %in_2: f32, %out: f32):
      %11 = arith.addf %in, %in_2 : f32
      linalg.yield %11 : f32
    } -> tensor<1x4x5x5xf32>
    %10 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%9 : tensor<1x4x5x5xf32>) outs(%0 : tensor<1x4x5x5xf32>) {
    ^bb0(%in: f32, %out: f32):
      %11 = arith.cmpf ugt, %in, %cst : f32
      %12 = arith.select %11, %in, %cst : f32
      linalg.yield %12 : f32
    } -> tensor<1x4x5x5xf32>
    return %10 : tensor<1x4x5x5xf32>
  }
}
