// RUN: %opt %s --passes=reparameterize-branches | filecheck %s

#x = affine_map<(n, f, h, w, c, i, j) -> (n, c, h + i, w + j)>
#dilated = affine_map<(n, f, h, w, c, i, j) -> (n, c, h + i * 2, w + j * 2)>
#w = affine_map<(n, f, h, w, c, i, j) -> (f, c, i, j)>
#y = affine_map<(n, f, h, w, c, i, j) -> (n, f, h, w)>
#dx = affine_map<(n, c, h, w, i, j) -> (n, c, h + i, w + j)>
#dw = affine_map<(n, c, h, w, i, j) -> (c, i, j)>
#dy = affine_map<(n, c, h, w, i, j) -> (n, c, h, w)>
#id = affine_map<(n, f, h, w) -> (n, f, h, w)>
#f = affine_map<(n, f, h, w) -> (f, 0, 0)>

// A window of one element is put where the larger one begins after its padding; biases are added ahead of time.
// CHECK-LABEL: func.func @windows(
// CHECK-SAME:      %[[X:[a-z0-9]+]]: tensor<1x3x4x4xf32> {tw.name = "x"}, %[[V:[a-z0-9]+]]: tensor<5x3x3x3xf32>
// CHECK-SAME:      %[[W:[a-z0-9]+]]: tensor<5x3x1x1xf32> {tw.param = "w"}, %[[B:[a-z0-9]+]]: tensor<5x1x1xf32> {tw.param = "b"}, %[[D:[a-z0-9]+]]: tensor<5x1x1xf32>
// CHECK:         %[[P:.*]] = tensor.pad %[[X]] low[0, 0, 1, 1]
// CHECK:         %[[Q:.*]] = tensor.insert_slice %[[W]] into %{{.*}}[0, 0, 1, 1] [5, 3, 1, 1] [1, 1, 1, 1] : tensor<5x3x1x1xf32> into tensor<5x3x3x3xf32>
// CHECK:         %[[U:.*]] = linalg.generic {{.*}} ins(%[[V]], %[[Q]] : tensor<5x3x3x3xf32>, tensor<5x3x3x3xf32>)
// CHECK:         %[[C:.*]] = linalg.generic {{.*}} ins(%[[P]], %[[U]] : tensor<1x3x6x6xf32>, tensor<5x3x3x3xf32>)
// CHECK:         %[[A:.*]] = linalg.generic {{.*}} ins(%[[D]], %[[B]] : tensor<5x1x1xf32>, tensor<5x1x1xf32>)
// CHECK:         %[[Y:.*]] = linalg.generic {{.*}} ins(%[[C]], %[[A]] : tensor<1x5x4x4xf32>, tensor<5x1x1xf32>)
// CHECK:         return %[[Y]]
func.func @windows(%x: tensor<1x3x4x4xf32> {tw.name = "x"}, %v: tensor<5x3x3x3xf32> {tw.param = "v"}, %w: tensor<5x3x1x1xf32> {tw.param = "w"}, %b: tensor<5x1x1xf32> {tw.param = "b"}, %d: tensor<5x1x1xf32> {tw.param = "d"}) -> tensor<1x5x4x4xf32> {
  %z = arith.constant 0.0 : f32
  %p = tensor.pad %x low[0, 0, 1, 1] high[0, 0, 1, 1] {
  ^bb0(%i0: index, %i1: index, %i2: index, %i3: index):
    tensor.yield %z : f32
  } : tensor<1x3x4x4xf32> to tensor<1x3x6x6xf32>
  %e = tensor.empty() : tensor<1x5x4x4xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<1x5x4x4xf32>) -> tensor<1x5x4x4xf32>
  %a = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%p, %v : tensor<1x3x6x6xf32>, tensor<5x3x3x3xf32>) outs(%i : tensor<1x5x4x4xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %product = arith.mulf %in, %by fastmath<contract> : f32
    %sum = arith.addf %out, %product fastmath<contract> : f32
    linalg.yield %sum : f32
  } -> tensor<1x5x4x4xf32>
  %s = linalg.generic {indexing_maps = [#id, #f, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%a, %b : tensor<1x5x4x4xf32>, tensor<5x1x1xf32>) outs(%e : tensor<1x5x4x4xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %sum = arith.addf %in, %by : f32
    linalg.yield %sum : f32
  } -> tensor<1x5x4x4xf32>
  %c = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%x, %w : tensor<1x3x4x4xf32>, tensor<5x3x1x1xf32>) outs(%i : tensor<1x5x4x4xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %product = arith.mulf %in, %by fastmath<contract> : f32
    %sum = arith.addf %out, %product fastmath<contract> : f32
    linalg.yield %sum : f32
  } -> tensor<1x5x4x4xf32>
  %t = linalg.generic {indexing_maps = [#id, #f, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%c, %d : tensor<1x5x4x4xf32>, tensor<5x1x1xf32>) outs(%e : tensor<1x5x4x4xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %sum = arith.addf %in, %by : f32
    linalg.yield %sum : f32
  } -> tensor<1x5x4x4xf32>
  %r = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%s, %t : tensor<1x5x4x4xf32>, tensor<1x5x4x4xf32>) outs(%e : tensor<1x5x4x4xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %sum = arith.addf %in, %by : f32
    linalg.yield %sum : f32
  } -> tensor<1x5x4x4xf32>
  return %r : tensor<1x5x4x4xf32>
}

// The image itself is a window of one, of one filter for each channel.
// CHECK-LABEL: func.func @image(
// CHECK-SAME:      %[[X:[a-z0-9]+]]: tensor<1x5x4x4xf32> {tw.name = "x"}, %[[V:[a-z0-9]+]]: tensor<5x3x3xf32>
// CHECK:         %[[Q:.*]] = tensor.insert_slice %{{.*}} into %{{.*}}[0, 1, 1] [5, 1, 1] [1, 1, 1] : tensor<5x1x1xf32> into tensor<5x3x3xf32>
// CHECK:         %[[U:.*]] = linalg.generic {{.*}} ins(%[[V]], %[[Q]] : tensor<5x3x3xf32>, tensor<5x3x3xf32>)
// CHECK:         %[[C:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %[[U]] : tensor<1x5x6x6xf32>, tensor<5x3x3xf32>)
// CHECK-NEXT:      ^bb0
// CHECK:         return %[[C]]
func.func @image(%x: tensor<1x5x4x4xf32> {tw.name = "x"}, %v: tensor<5x3x3xf32> {tw.param = "v"}) -> tensor<1x5x4x4xf32> {
  %z = arith.constant 0.0 : f32
  %p = tensor.pad %x low[0, 0, 1, 1] high[0, 0, 1, 1] {
  ^bb0(%i0: index, %i1: index, %i2: index, %i3: index):
    tensor.yield %z : f32
  } : tensor<1x5x4x4xf32> to tensor<1x5x6x6xf32>
  %e = tensor.empty() : tensor<1x5x4x4xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<1x5x4x4xf32>) -> tensor<1x5x4x4xf32>
  %a = linalg.generic {indexing_maps = [#dx, #dw, #dy], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]}
    ins(%p, %v : tensor<1x5x6x6xf32>, tensor<5x3x3xf32>) outs(%i : tensor<1x5x4x4xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %product = arith.mulf %in, %by fastmath<contract> : f32
    %sum = arith.addf %out, %product fastmath<contract> : f32
    linalg.yield %sum : f32
  } -> tensor<1x5x4x4xf32>
  %r = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%x, %a : tensor<1x5x4x4xf32>, tensor<1x5x4x4xf32>) outs(%e : tensor<1x5x4x4xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %sum = arith.addf %in, %by : f32
    linalg.yield %sum : f32
  } -> tensor<1x5x4x4xf32>
  return %r : tensor<1x5x4x4xf32>
}

// A window of two by two, two apart, has no place in one of three by three that begins one before it, whose last
// element would be the fourth; and a result that something else reads stays.
// CHECK-LABEL: func.func @rejects(
// CHECK-NOT:     tensor.insert_slice
// CHECK:         return
func.func @rejects(%x: tensor<1x3x6x6xf32> {tw.name = "x"}, %v: tensor<5x3x3x3xf32> {tw.param = "v"}, %w: tensor<5x3x2x2xf32> {tw.param = "w"}, %u: tensor<5x3x3x3xf32> {tw.param = "u"}) -> (tensor<1x5x6x6xf32>, tensor<1x5x6x6xf32>, tensor<1x5x6x6xf32>) {
  %z = arith.constant 0.0 : f32
  %p = tensor.pad %x low[0, 0, 1, 1] high[0, 0, 1, 1] {
  ^bb0(%i0: index, %i1: index, %i2: index, %i3: index):
    tensor.yield %z : f32
  } : tensor<1x3x6x6xf32> to tensor<1x3x8x8xf32>
  %q = tensor.pad %x low[0, 0, 0, 0] high[0, 0, 2, 2] {
  ^bb0(%i0: index, %i1: index, %i2: index, %i3: index):
    tensor.yield %z : f32
  } : tensor<1x3x6x6xf32> to tensor<1x3x8x8xf32>
  %e = tensor.empty() : tensor<1x5x6x6xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<1x5x6x6xf32>) -> tensor<1x5x6x6xf32>
  %a = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%p, %v : tensor<1x3x8x8xf32>, tensor<5x3x3x3xf32>) outs(%i : tensor<1x5x6x6xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %product = arith.mulf %in, %by fastmath<contract> : f32
    %sum = arith.addf %out, %product fastmath<contract> : f32
    linalg.yield %sum : f32
  } -> tensor<1x5x6x6xf32>
  %c = linalg.generic {indexing_maps = [#dilated, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%q, %w : tensor<1x3x8x8xf32>, tensor<5x3x2x2xf32>) outs(%i : tensor<1x5x6x6xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %product = arith.mulf %in, %by fastmath<contract> : f32
    %sum = arith.addf %out, %product fastmath<contract> : f32
    linalg.yield %sum : f32
  } -> tensor<1x5x6x6xf32>
  %r = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%a, %c : tensor<1x5x6x6xf32>, tensor<1x5x6x6xf32>) outs(%e : tensor<1x5x6x6xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %sum = arith.addf %in, %by : f32
    linalg.yield %sum : f32
  } -> tensor<1x5x6x6xf32>
  %d = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%p, %u : tensor<1x3x8x8xf32>, tensor<5x3x3x3xf32>) outs(%i : tensor<1x5x6x6xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %product = arith.mulf %in, %by fastmath<contract> : f32
    %sum = arith.addf %out, %product fastmath<contract> : f32
    linalg.yield %sum : f32
  } -> tensor<1x5x6x6xf32>
  %g = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%p, %v : tensor<1x3x8x8xf32>, tensor<5x3x3x3xf32>) outs(%i : tensor<1x5x6x6xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %product = arith.mulf %in, %by fastmath<contract> : f32
    %sum = arith.addf %out, %product fastmath<contract> : f32
    linalg.yield %sum : f32
  } -> tensor<1x5x6x6xf32>
  %s = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%g, %d : tensor<1x5x6x6xf32>, tensor<1x5x6x6xf32>) outs(%e : tensor<1x5x6x6xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %sum = arith.addf %in, %by : f32
    linalg.yield %sum : f32
  } -> tensor<1x5x6x6xf32>
  return %r, %s, %d : tensor<1x5x6x6xf32>, tensor<1x5x6x6xf32>, tensor<1x5x6x6xf32>
}
