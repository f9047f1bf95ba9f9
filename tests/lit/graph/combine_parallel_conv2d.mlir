// RUN: %opt %s --passes=combine-parallel-conv2d | filecheck %s

#x = affine_map<(n, f, h, w, c, i, j) -> (n, c, h + i, w + j)>
#stride = affine_map<(n, f, h, w, c, i, j) -> (n, c, h * 2 + i, w * 2 + j)>
#w = affine_map<(n, f, h, w, c, i, j) -> (f, c, i, j)>
#y = affine_map<(n, f, h, w, c, i, j) -> (n, f, h, w)>
#id = affine_map<(n, f, h, w) -> (n, f, h, w)>

// An activation that reads its input twice is combined too.
// CHECK-LABEL: func.func @convolutions(
// CHECK:         %[[W:.*]] = tensor.concat dim(0) %arg1, %arg2 : (tensor<5x3x1x1xf32>, tensor<6x3x1x1xf32>) -> tensor<11x3x1x1xf32>
// CHECK:         %[[C:.*]] = linalg.generic {{.*}} ins(%arg0, %[[W]]
// CHECK:         %[[T:.*]] = linalg.generic {{.*}} ins(%[[C]] : tensor<1x11x4x4xf32>)
// CHECK:         %[[S:.*]] = linalg.generic {{.*}} ins(%[[C]], %[[T]]
// CHECK:         %[[A:.*]] = tensor.extract_slice %[[S]][0, 0, 0, 0] [1, 5, 4, 4]
// CHECK:         %[[B:.*]] = tensor.extract_slice %[[S]][0, 5, 0, 0] [1, 6, 4, 4]
// CHECK:         tensor.concat dim(1) %[[B]], %[[A]]
func.func @convolutions(%x: tensor<1x3x4x4xf32> {tw.name = "x"}, %v: tensor<5x3x1x1xf32> {tw.param = "v"}, %w: tensor<6x3x1x1xf32> {tw.param = "w"}) -> tensor<1x11x4x4xf32> {
  %z = arith.constant 0.0 : f32
  %e5_4 = tensor.empty() : tensor<1x5x4x4xf32>
  %i5_4 = linalg.fill ins(%z : f32) outs(%e5_4 : tensor<1x5x4x4xf32>) -> tensor<1x5x4x4xf32>
  %e6_4 = tensor.empty() : tensor<1x6x4x4xf32>
  %i6_4 = linalg.fill ins(%z : f32) outs(%e6_4 : tensor<1x6x4x4xf32>) -> tensor<1x6x4x4xf32>
  %a = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%x, %v : tensor<1x3x4x4xf32>, tensor<5x3x1x1xf32>) outs(%i5_4 : tensor<1x5x4x4xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %product = arith.mulf %in, %by fastmath<contract> : f32
    %sum = arith.addf %out, %product fastmath<contract> : f32
    linalg.yield %sum : f32
  } -> tensor<1x5x4x4xf32>
  %ass = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%a : tensor<1x5x4x4xf32>) outs(%e5_4 : tensor<1x5x4x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %sum = math.tanh %in : f32
    linalg.yield %sum : f32
  } -> tensor<1x5x4x4xf32>
  %as = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%a, %ass : tensor<1x5x4x4xf32>, tensor<1x5x4x4xf32>) outs(%e5_4 : tensor<1x5x4x4xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %sum = arith.mulf %in, %by : f32
    linalg.yield %sum : f32
  } -> tensor<1x5x4x4xf32>
  %b = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%x, %w : tensor<1x3x4x4xf32>, tensor<6x3x1x1xf32>) outs(%i6_4 : tensor<1x6x4x4xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %product = arith.mulf %in, %by fastmath<contract> : f32
    %sum = arith.addf %out, %product fastmath<contract> : f32
    linalg.yield %sum : f32
  } -> tensor<1x6x4x4xf32>
  %bss = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%b : tensor<1x6x4x4xf32>) outs(%e6_4 : tensor<1x6x4x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %sum = math.tanh %in : f32
    linalg.yield %sum : f32
  } -> tensor<1x6x4x4xf32>
  %bs = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%b, %bss : tensor<1x6x4x4xf32>, tensor<1x6x4x4xf32>) outs(%e6_4 : tensor<1x6x4x4xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %sum = arith.mulf %in, %by : f32
    linalg.yield %sum : f32
  } -> tensor<1x6x4x4xf32>
  %r = tensor.concat dim(1) %bs, %as : (tensor<1x6x4x4xf32>, tensor<1x5x4x4xf32>) -> tensor<1x11x4x4xf32>
  return %r : tensor<1x11x4x4xf32>
}

// Another window, another stride, and one that is padded: in place of a slice it would need a copy.
// CHECK-LABEL: func.func @rejects(
// CHECK-NOT:     tensor.concat
// CHECK:         return
func.func @rejects(%x: tensor<1x3x4x4xf32> {tw.name = "x"}, %v: tensor<5x3x1x1xf32> {tw.param = "v"}, %w: tensor<5x3x3x3xf32> {tw.param = "w"}, %u: tensor<5x3x1x1xf32> {tw.param = "u"}, %t: tensor<5x3x1x1xf32> {tw.param = "t"})
    -> (tensor<1x5x2x2xf32>, tensor<1x5x2x2xf32>, tensor<1x5x6x6xf32>, tensor<1x5x6x6xf32>) {
  %z = arith.constant 0.0 : f32
  %e5_4 = tensor.empty() : tensor<1x5x4x4xf32>
  %i5_4 = linalg.fill ins(%z : f32) outs(%e5_4 : tensor<1x5x4x4xf32>) -> tensor<1x5x4x4xf32>
  %e5_2 = tensor.empty() : tensor<1x5x2x2xf32>
  %i5_2 = linalg.fill ins(%z : f32) outs(%e5_2 : tensor<1x5x2x2xf32>) -> tensor<1x5x2x2xf32>
  %a = linalg.generic {indexing_maps = [#stride, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%x, %v : tensor<1x3x4x4xf32>, tensor<5x3x1x1xf32>) outs(%i5_2 : tensor<1x5x2x2xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %product = arith.mulf %in, %by fastmath<contract> : f32
    %sum = arith.addf %out, %product fastmath<contract> : f32
    linalg.yield %sum : f32
  } -> tensor<1x5x2x2xf32>
  %b = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%x, %w : tensor<1x3x4x4xf32>, tensor<5x3x3x3xf32>) outs(%i5_2 : tensor<1x5x2x2xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %product = arith.mulf %in, %by fastmath<contract> : f32
    %sum = arith.addf %out, %product fastmath<contract> : f32
    linalg.yield %sum : f32
  } -> tensor<1x5x2x2xf32>
  %c = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%x, %u : tensor<1x3x4x4xf32>, tensor<5x3x1x1xf32>) outs(%i5_4 : tensor<1x5x4x4xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %product = arith.mulf %in, %by fastmath<contract> : f32
    %sum = arith.addf %out, %product fastmath<contract> : f32
    linalg.yield %sum : f32
  } -> tensor<1x5x4x4xf32>
  %d = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%x, %t : tensor<1x3x4x4xf32>, tensor<5x3x1x1xf32>) outs(%i5_4 : tensor<1x5x4x4xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %product = arith.mulf %in, %by fastmath<contract> : f32
    %sum = arith.addf %out, %product fastmath<contract> : f32
    linalg.yield %sum : f32
  } -> tensor<1x5x4x4xf32>
  %p = tensor.pad %c low[0, 0, 1, 1] high[0, 0, 1, 1] {
  ^bb0(%h: index, %j: index, %k: index, %l: index):
    tensor.yield %z : f32
  } : tensor<1x5x4x4xf32> to tensor<1x5x6x6xf32>
  %q = tensor.pad %d low[0, 0, 1, 1] high[0, 0, 1, 1] {
  ^bb0(%h: index, %j: index, %k: index, %l: index):
    tensor.yield %z : f32
  } : tensor<1x5x4x4xf32> to tensor<1x5x6x6xf32>
  return %a, %b, %p, %q : tensor<1x5x2x2xf32>, tensor<1x5x2x2xf32>, tensor<1x5x6x6xf32>, tensor<1x5x6x6xf32>
}
