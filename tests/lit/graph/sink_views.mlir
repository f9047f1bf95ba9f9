// RUN: %opt %s --passes=sink-views | filecheck %s

#whole = affine_map<(a, b, c) -> (a, b, c)>
#bias = affine_map<(a, b, c) -> (c)>
#mask = affine_map<(a, b, c) -> (a, c)>

// A bias and another value are added before the rows are taken apart; who wants them together reads them as they were.
// CHECK-LABEL: func.func @bias(
// CHECK-SAME:    %[[Y:.*]]: tensor<?x8xf32>, %[[Z:.*]]: tensor<?x?x8xf32>, %[[B:.*]]: tensor<8xf32>,
// CHECK:         %[[ROWS:.*]] = tensor.collapse_shape %[[Z]] {{\[}}[0, 1], [2]]
// CHECK:         %[[R:.*]] = linalg.generic {indexing_maps = [#[[FULL:.*]], #[[FULL]], #[[LAST:.*]], #[[FULL]]], iterator_types = ["parallel", "parallel"]}
// CHECK-SAME:      ins(%[[Y]], %[[ROWS]], %[[B]]
// CHECK:         %[[E:.*]] = tensor.expand_shape %[[R]]
// CHECK:         return %[[E]], %[[R]]
func.func @bias(%y: tensor<?x8xf32>, %z: tensor<?x?x8xf32>, %b: tensor<8xf32>, %n: index, %m: index)
    -> (tensor<?x?x8xf32>, tensor<?x8xf32>) {
  %v = tensor.expand_shape %y [[0, 1], [2]] output_shape [%n, %m, 8] : tensor<?x8xf32> into tensor<?x?x8xf32>
  %e = tensor.empty(%n, %m) : tensor<?x?x8xf32>
  %r = linalg.generic {indexing_maps = [#whole, #whole, #bias, #whole], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%v, %z, %b : tensor<?x?x8xf32>, tensor<?x?x8xf32>, tensor<8xf32>) outs(%e : tensor<?x?x8xf32>) {
  ^bb0(%i: f32, %j: f32, %k: f32, %o: f32):
    %s = arith.addf %i, %j : f32
    %t = arith.addf %s, %k : f32
    linalg.yield %t : f32
  } -> tensor<?x?x8xf32>
  %c = tensor.collapse_shape %r [[0, 1], [2]] : tensor<?x?x8xf32> into tensor<?x8xf32>
  return %r, %c : tensor<?x?x8xf32>, tensor<?x8xf32>
}

// What differs along one of the dims needs them apart.
// CHECK-LABEL: func.func @mask(
// CHECK:         %[[V:.*]] = tensor.expand_shape
// CHECK:         linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "parallel"]} ins(%[[V]],
func.func @mask(%y: tensor<?x8xf32>, %k: tensor<?x8xf32>, %n: index, %m: index) -> tensor<?x?x8xf32> {
  %v = tensor.expand_shape %y [[0, 1], [2]] output_shape [%n, %m, 8] : tensor<?x8xf32> into tensor<?x?x8xf32>
  %e = tensor.empty(%n, %m) : tensor<?x?x8xf32>
  %r = linalg.generic {indexing_maps = [#whole, #mask, #whole], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%v, %k : tensor<?x?x8xf32>, tensor<?x8xf32>) outs(%e : tensor<?x?x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %s = arith.addf %i, %j : f32
    linalg.yield %s : f32
  } -> tensor<?x?x8xf32>
  return %r : tensor<?x?x8xf32>
}

// Of known sizes too, where rows are taken apart into several of several.
// CHECK-LABEL: func.func @known(
// CHECK:         linalg.generic {{.*}} iterator_types = ["parallel", "parallel"]} ins(%arg0 :
// CHECK:         tensor.expand_shape
func.func @known(%y: tensor<6x8xf32>) -> tensor<2x3x8xf32> {
  %v = tensor.expand_shape %y [[0, 1], [2]] output_shape [2, 3, 8] : tensor<6x8xf32> into tensor<2x3x8xf32>
  %e = tensor.empty() : tensor<2x3x8xf32>
  %r = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%v : tensor<2x3x8xf32>) outs(%e : tensor<2x3x8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = arith.addf %i, %i : f32
    linalg.yield %s : f32
  } -> tensor<2x3x8xf32>
  return %r : tensor<2x3x8xf32>
}

// Heads, and rows of one element, are no matter.
// CHECK-LABEL: func.func @heads(
// CHECK:         tensor.expand_shape
// CHECK:         linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "parallel"]}
func.func @heads(%y: tensor<6x8xf32>) -> tensor<6x2x4xf32> {
  %v = tensor.expand_shape %y [[0], [1, 2]] output_shape [6, 2, 4] : tensor<6x8xf32> into tensor<6x2x4xf32>
  %e = tensor.empty() : tensor<6x2x4xf32>
  %r = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%v : tensor<6x2x4xf32>) outs(%e : tensor<6x2x4xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = arith.addf %i, %i : f32
    linalg.yield %s : f32
  } -> tensor<6x2x4xf32>
  return %r : tensor<6x2x4xf32>
}

// A view of a scalar has no rows to take apart.
// CHECK-LABEL: func.func @rejects_scalars
// CHECK:       tensor.expand_shape
// CHECK:       linalg.generic
func.func @rejects_scalars(%x: tensor<f32>) -> tensor<1x1xf32> {
  %v = tensor.expand_shape %x [] output_shape [1, 1] : tensor<f32> into tensor<1x1xf32>
  %e = tensor.empty() : tensor<1x1xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]} ins(%v : tensor<1x1xf32>) outs(%e : tensor<1x1xf32>) {
  ^bb0(%i: f32, %o: f32):
    %n = arith.negf %i : f32
    linalg.yield %n : f32
  } -> tensor<1x1xf32>
  return %r : tensor<1x1xf32>
}

#image = affine_map<(n, c, h, w) -> (n, c, h, w)>
#channel = affine_map<(n, c, h, w) -> (n, c)>
#row = affine_map<(n, c, k) -> (n, c, k)>
#sum = affine_map<(n, c, k) -> (n, c)>
#pair = affine_map<(n, c) -> (n, c)>

// What is made of the sums of rows reads the rows too: both fuse.
// CHECK-LABEL: func.func @norm(
// CHECK-SAME:    %[[X:[a-z0-9]*]]: tensor<?x8x?x?xf32>
// CHECK:         %[[ROWS:.*]] = tensor.collapse_shape %[[X]]
// CHECK:         %[[SUM:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "reduction"]} ins(%[[ROWS]] :
// CHECK:         %[[MEAN:.*]] = linalg.generic {{.*}} ins(%[[SUM]] :
// CHECK:         %[[Y:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "parallel"]} ins(%[[ROWS]], %[[MEAN]] :
// CHECK:         tensor.expand_shape %[[Y]]
func.func @norm(%x: tensor<?x8x?x?xf32>, %n: index, %h: index, %w: index) -> tensor<?x8x?x?xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : tensor<?x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x8xf32>) -> tensor<?x8xf32>
  %v = tensor.collapse_shape %x [[0], [1], [2, 3]] : tensor<?x8x?x?xf32> into tensor<?x8x?xf32>
  %s = linalg.generic {indexing_maps = [#row, #sum], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%v : tensor<?x8x?xf32>) outs(%f : tensor<?x8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %a = arith.addf %o, %i : f32
    linalg.yield %a : f32
  } -> tensor<?x8xf32>
  %m = linalg.generic {indexing_maps = [#pair, #pair], iterator_types = ["parallel", "parallel"]}
    ins(%s : tensor<?x8xf32>) outs(%e : tensor<?x8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %a = arith.negf %i : f32
    linalg.yield %a : f32
  } -> tensor<?x8xf32>
  %g = tensor.empty(%n, %h, %w) : tensor<?x8x?x?xf32>
  %y = linalg.generic {indexing_maps = [#image, #channel, #image], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%x, %m : tensor<?x8x?x?xf32>, tensor<?x8xf32>) outs(%g : tensor<?x8x?x?xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %a = arith.addf %i, %j : f32
    linalg.yield %a : f32
  } -> tensor<?x8x?x?xf32>
  return %y : tensor<?x8x?x?xf32>
}

// What is made of them otherwise, or not at all, cannot fuse with the sums: the image stays as it is for its readers.
// CHECK-LABEL: func.func @rejects_a_product_between(
// CHECK-SAME:    %[[X:[a-z0-9]*]]: tensor<?x8x?x?xf32>
// CHECK-NOT:     tensor.expand_shape
// CHECK:         linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%[[X]],
// CHECK-NOT:     tensor.expand_shape
func.func @rejects_a_product_between(%x: tensor<?x8x?x?xf32>, %k: tensor<8x8xf32>, %n: index, %h: index, %w: index) -> tensor<?x8x?x?xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : tensor<?x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x8xf32>) -> tensor<?x8xf32>
  %v = tensor.collapse_shape %x [[0], [1], [2, 3]] : tensor<?x8x?x?xf32> into tensor<?x8x?xf32>
  %s = linalg.generic {indexing_maps = [#row, #sum], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%v : tensor<?x8x?xf32>) outs(%f : tensor<?x8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %a = arith.addf %o, %i : f32
    linalg.yield %a : f32
  } -> tensor<?x8xf32>
  %m = linalg.matmul ins(%s, %k : tensor<?x8xf32>, tensor<8x8xf32>) outs(%f : tensor<?x8xf32>) -> tensor<?x8xf32>
  %g = tensor.empty(%n, %h, %w) : tensor<?x8x?x?xf32>
  %y = linalg.generic {indexing_maps = [#image, #channel, #image], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%x, %m : tensor<?x8x?x?xf32>, tensor<?x8xf32>) outs(%g : tensor<?x8x?x?xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %a = arith.addf %i, %j : f32
    linalg.yield %a : f32
  } -> tensor<?x8x?x?xf32>
  return %y : tensor<?x8x?x?xf32>
}

#grouped = affine_map<(n, p, g, f, c) -> (n, p, g, c)>
#filters = affine_map<(n, p, g, f, c) -> (g, c, f)>
#made = affine_map<(n, p, g, f, c) -> (n, p, g, f)>
#all = affine_map<(n, p, c) -> (n, p, c)>
#channels = affine_map<(n, p, c) -> (c)>

// What follows a product with groups has them apart, as the product has, also behind another such op.
// CHECK-LABEL: func.func @groups(
// CHECK-SAME:    %[[X:.*]]: tensor<1x6x3x4xf32>, %[[W:.*]]: tensor<3x4x5xf32>, %[[B:.*]]: tensor<15xf32>, %[[Z:.*]]: tensor<1x6x15xf32>)
// CHECK:         %[[P:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[W]]
// CHECK:         %[[BIAS:.*]] = tensor.expand_shape %[[B]] {{.*}} into tensor<3x5xf32>
// CHECK:         %[[A:.*]] = linalg.generic {{.*}} ins(%[[P]], %[[BIAS]] : tensor<1x6x3x5xf32>, tensor<3x5xf32>)
// CHECK:         %[[OTHER:.*]] = tensor.expand_shape %[[Z]] {{.*}} into tensor<1x6x3x5xf32>
// CHECK:         %[[R:.*]] = linalg.generic {{.*}} ins(%[[A]], %[[OTHER]] : tensor<1x6x3x5xf32>, tensor<1x6x3x5xf32>)
// CHECK:         %[[JOINED:.*]] = tensor.collapse_shape %[[R]]
// CHECK:         return %[[JOINED]]
func.func @groups(%x: tensor<1x6x3x4xf32>, %w: tensor<3x4x5xf32>, %b: tensor<15xf32>, %z: tensor<1x6x15xf32>)
    -> tensor<1x6x15xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x6x3x5xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x6x3x5xf32>) -> tensor<1x6x3x5xf32>
  %p = linalg.generic {indexing_maps = [#grouped, #filters, #made],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
    ins(%x, %w : tensor<1x6x3x4xf32>, tensor<3x4x5xf32>) outs(%f : tensor<1x6x3x5xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j fastmath<contract> : f32
    %s = arith.addf %o, %m fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x6x3x5xf32>
  %v = tensor.collapse_shape %p [[0], [1], [2, 3]] : tensor<1x6x3x5xf32> into tensor<1x6x15xf32>
  %d = tensor.empty() : tensor<1x6x15xf32>
  %a = linalg.generic {indexing_maps = [#all, #channels, #all], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%v, %b : tensor<1x6x15xf32>, tensor<15xf32>) outs(%d : tensor<1x6x15xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %s = arith.addf %i, %j : f32
    linalg.yield %s : f32
  } -> tensor<1x6x15xf32>
  %r = linalg.generic {indexing_maps = [#all, #all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%a, %z : tensor<1x6x15xf32>, tensor<1x6x15xf32>) outs(%d : tensor<1x6x15xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %s = arith.mulf %i, %j : f32
    linalg.yield %s : f32
  } -> tensor<1x6x15xf32>
  return %r : tensor<1x6x15xf32>
}
