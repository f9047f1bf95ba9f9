// RUN: %opt %s --passes=group-heads | filecheck %s

#repeat = affine_map<(b, s, g, n, d) -> (b, s, 0, n, d)>
#all = affine_map<(b, s, g, n, d) -> (b, s, g, n, d)>
#q = affine_map<(b, h, m, n, d) -> (b, h, m, d)>
#k = affine_map<(b, h, m, n, d) -> (b, h, n, d)>
#s = affine_map<(b, h, m, n, d) -> (b, h, m, n)>
#w = affine_map<(b, h, m, d, n) -> (b, h, m, n)>
#v = affine_map<(b, h, m, d, n) -> (b, h, n, d)>
#y = affine_map<(b, h, m, d, n) -> (b, h, m, d)>
#id = affine_map<(b, h, m, n) -> (b, h, m, n)>
#mask = affine_map<(b, h, m, n) -> (b, 0, m, n)>
#row = affine_map<(b, h, m, n) -> (b, h, m)>
#last = affine_map<(b, h, m, n) -> (b, h, m, 0)>

// Heads are groups, and the heads of each, from the scores to the weighed values; a mask of all heads stays as it is.
// CHECK-DAG:   #[[K:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d4, d5)>
// CHECK-DAG:   #[[MASK:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, 0, d3, d4)>
// CHECK-LABEL: func.func @attention(
// CHECK-SAME:    %[[Q:[a-z0-9]+]]: tensor<1x6x1x8xf32>, %[[KEYS:[a-z0-9]+]]: tensor<1x2x1x?x8xf32>, %[[M:[a-z0-9]+]]: tensor<1x1x1x?xf32>
// CHECK:         %[[E:.*]] = tensor.expand_shape %[[Q]] {{\[}}[0], [1, 2], [3], [4]]{{.*}} into tensor<1x2x3x1x8xf32>
// CHECK:         %[[C:.*]] = tensor.collapse_shape %[[KEYS]] {{\[}}[0], [1], [2, 3], [4]]
// CHECK:         linalg.generic {{.*}}#[[K]], {{.*}} ins(%[[E]], %[[C]] : tensor<1x2x3x1x8xf32>, tensor<1x2x?x8xf32>)
// CHECK:         %[[ADDED:.*]] = linalg.generic {{.*}}#[[MASK]], {{.*}} ins(%{{.*}}, %[[M]] : tensor<1x2x3x1x?xf32>, tensor<1x1x1x?xf32>)
// CHECK:         %[[TOP:.*]] = linalg.generic {{.*}} ins(%[[ADDED]] : tensor<1x2x3x1x?xf32>) outs({{.*}} : tensor<1x2x3x1xf32>)
// CHECK:         tensor.expand_shape %[[TOP]] {{\[}}[0], [1], [2], [3, 4]]
// CHECK:         %[[Y:.*]] = linalg.generic {{.*}} ins(%{{.*}} : tensor<1x2x3x1x?xf32>, tensor<1x2x?x8xf32>) outs({{.*}} : tensor<1x2x3x1x8xf32>)
// CHECK:         %[[R:.*]] = tensor.collapse_shape %[[Y]] {{\[}}[0], [1, 2], [3], [4]]
// CHECK:         return %[[R]] : tensor<1x6x1x8xf32>
func.func @attention(%q: tensor<1x6x1x8xf32>, %keys: tensor<1x2x1x?x8xf32>, %m: tensor<1x1x1x?xf32>, %n: index) -> tensor<1x6x1x8xf32> {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %re = tensor.empty(%n) : tensor<1x2x3x?x8xf32>
  %r = linalg.generic {indexing_maps = [#repeat, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%keys : tensor<1x2x1x?x8xf32>) outs(%re : tensor<1x2x3x?x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<1x2x3x?x8xf32>
  %k = tensor.collapse_shape %r [[0], [1, 2], [3], [4]] : tensor<1x2x3x?x8xf32> into tensor<1x6x?x8xf32>
  %se = tensor.empty(%n) : tensor<1x6x1x?xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<1x6x1x?xf32>) -> tensor<1x6x1x?xf32>
  %s = linalg.generic {indexing_maps = [#q, #k, #s], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%q, %k : tensor<1x6x1x8xf32>, tensor<1x6x?x8xf32>) outs(%sf : tensor<1x6x1x?xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %o, %p : f32
    linalg.yield %t : f32
  } -> tensor<1x6x1x?xf32>
  %x = linalg.generic {indexing_maps = [#id, #mask, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%s, %m : tensor<1x6x1x?xf32>, tensor<1x1x1x?xf32>) outs(%se : tensor<1x6x1x?xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %t = arith.addf %a, %b : f32
    linalg.yield %t : f32
  } -> tensor<1x6x1x?xf32>
  %te = tensor.empty() : tensor<1x6x1xf32>
  %tf = linalg.fill ins(%low : f32) outs(%te : tensor<1x6x1xf32>) -> tensor<1x6x1xf32>
  %top = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%x : tensor<1x6x1x?xf32>) outs(%tf : tensor<1x6x1xf32>) {
  ^bb0(%a: f32, %o: f32):
    %t = arith.maximumf %a, %o : f32
    linalg.yield %t : f32
  } -> tensor<1x6x1xf32>
  %tops = tensor.expand_shape %top [[0], [1], [2, 3]] output_shape [1, 6, 1, 1] : tensor<1x6x1xf32> into tensor<1x6x1x1xf32>
  %w = linalg.generic {indexing_maps = [#id, #last, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x, %tops : tensor<1x6x1x?xf32>, tensor<1x6x1x1xf32>) outs(%se : tensor<1x6x1x?xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %t = arith.subf %a, %b : f32
    linalg.yield %t : f32
  } -> tensor<1x6x1x?xf32>
  %ye = tensor.empty() : tensor<1x6x1x8xf32>
  %yf = linalg.fill ins(%zero : f32) outs(%ye : tensor<1x6x1x8xf32>) -> tensor<1x6x1x8xf32>
  %y = linalg.generic {indexing_maps = [#w, #v, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%w, %k : tensor<1x6x1x?xf32>, tensor<1x6x?x8xf32>) outs(%yf : tensor<1x6x1x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %o, %p : f32
    linalg.yield %t : f32
  } -> tensor<1x6x1x8xf32>
  return %y : tensor<1x6x1x8xf32>
}

// Of any number of queries, too. What asks for sizes of the old scores asks what these were made of.
// CHECK-LABEL: func.func @open_rows(
// CHECK-SAME:    %[[Q:[a-z0-9]+]]: tensor<1x6x?x8xf32>
// CHECK-NOT:     tensor.dim %{{.*}} : tensor<1x6x?x?xf32>
// CHECK:         linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<1x2x3x?x8xf32>, tensor<1x2x?x8xf32>) outs({{.*}} : tensor<1x2x3x?x?xf32>)
// CHECK-NOT:     tensor.dim %{{.*}} : tensor<1x6x?x?xf32>
// CHECK:         linalg.generic {{.*}} ins(%{{.*}} : tensor<1x2x3x?x?xf32>) outs({{.*}} : tensor<1x2x3x?x?xf32>)
// CHECK:         linalg.generic {{.*}} ins(%{{.*}} : tensor<1x2x3x?x?xf32>, tensor<1x2x?x8xf32>) outs({{.*}} : tensor<1x2x3x?x8xf32>)
func.func @open_rows(%q: tensor<1x6x?x8xf32>, %keys: tensor<1x2x1x?x8xf32>, %m: index, %n: index) -> tensor<1x6x?x8xf32> {
  %zero = arith.constant 0.0 : f32
  %two = arith.constant 2 : index
  %three = arith.constant 3 : index
  %re = tensor.empty(%n) : tensor<1x2x3x?x8xf32>
  %r = linalg.generic {indexing_maps = [#repeat, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%keys : tensor<1x2x1x?x8xf32>) outs(%re : tensor<1x2x3x?x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<1x2x3x?x8xf32>
  %k = tensor.collapse_shape %r [[0], [1, 2], [3], [4]] : tensor<1x2x3x?x8xf32> into tensor<1x6x?x8xf32>
  %se = tensor.empty(%m, %n) : tensor<1x6x?x?xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<1x6x?x?xf32>) -> tensor<1x6x?x?xf32>
  %s = linalg.generic {indexing_maps = [#q, #k, #s], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%q, %k : tensor<1x6x?x8xf32>, tensor<1x6x?x8xf32>) outs(%sf : tensor<1x6x?x?xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %o, %p : f32
    linalg.yield %t : f32
  } -> tensor<1x6x?x?xf32>
  %rows = tensor.dim %s, %two : tensor<1x6x?x?xf32>
  %columns = tensor.dim %s, %three : tensor<1x6x?x?xf32>
  %xe = tensor.empty(%rows, %columns) : tensor<1x6x?x?xf32>
  %x = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%s : tensor<1x6x?x?xf32>) outs(%xe : tensor<1x6x?x?xf32>) {
  ^bb0(%a: f32, %o: f32):
    %t = math.exp %a : f32
    linalg.yield %t : f32
  } -> tensor<1x6x?x?xf32>
  %ye = tensor.empty(%rows) : tensor<1x6x?x8xf32>
  %yf = linalg.fill ins(%zero : f32) outs(%ye : tensor<1x6x?x8xf32>) -> tensor<1x6x?x8xf32>
  %y = linalg.generic {indexing_maps = [#w, #v, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%x, %k : tensor<1x6x?x?xf32>, tensor<1x6x?x8xf32>) outs(%yf : tensor<1x6x?x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %o, %p : f32
    linalg.yield %t : f32
  } -> tensor<1x6x?x8xf32>
  return %y : tensor<1x6x?x8xf32>
}

// What mixes heads on the way needs them together.
// CHECK-LABEL: func.func @rejects_mixed_heads(
// CHECK:         %[[K:.*]] = tensor.collapse_shape {{.*}} into tensor<1x6x4x8xf32>
// CHECK:         linalg.generic {{.*}} ins(%{{.*}}, %[[K]] : tensor<1x6x5x8xf32>, tensor<1x6x4x8xf32>)
// CHECK:         linalg.generic {{.*}} ins(%{{.*}}, %[[K]] : tensor<1x6x5x4xf32>, tensor<1x6x4x8xf32>)
#turned = affine_map<(b, h, m, n) -> (b, m, h, n)>
func.func @rejects_mixed_heads(%q: tensor<1x6x5x8xf32>, %keys: tensor<1x2x1x4x8xf32>, %other: tensor<1x6x6xf32>) -> tensor<1x6x5x8xf32> {
  %zero = arith.constant 0.0 : f32
  %re = tensor.empty() : tensor<1x2x3x4x8xf32>
  %r = linalg.generic {indexing_maps = [#repeat, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%keys : tensor<1x2x1x4x8xf32>) outs(%re : tensor<1x2x3x4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<1x2x3x4x8xf32>
  %k = tensor.collapse_shape %r [[0], [1, 2], [3], [4]] : tensor<1x2x3x4x8xf32> into tensor<1x6x4x8xf32>
  %se = tensor.empty() : tensor<1x6x5x4xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<1x6x5x4xf32>) -> tensor<1x6x5x4xf32>
  %s = linalg.generic {indexing_maps = [#q, #k, #s], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%q, %k : tensor<1x6x5x8xf32>, tensor<1x6x4x8xf32>) outs(%sf : tensor<1x6x5x4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %o, %p : f32
    linalg.yield %t : f32
  } -> tensor<1x6x5x4xf32>
  %m = linalg.generic {indexing_maps = [affine_map<(b, h, m, n, g) -> (b, g, m, n)>, affine_map<(b, h, m, n, g) -> (b, h, g)>, affine_map<(b, h, m, n, g) -> (b, h, m, n)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%s, %other : tensor<1x6x5x4xf32>, tensor<1x6x6xf32>) outs(%sf : tensor<1x6x5x4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %o, %p : f32
    linalg.yield %t : f32
  } -> tensor<1x6x5x4xf32>
  %ye = tensor.empty() : tensor<1x6x5x8xf32>
  %yf = linalg.fill ins(%zero : f32) outs(%ye : tensor<1x6x5x8xf32>) -> tensor<1x6x5x8xf32>
  %y = linalg.generic {indexing_maps = [#w, #v, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%m, %k : tensor<1x6x5x4xf32>, tensor<1x6x4x8xf32>) outs(%yf : tensor<1x6x5x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %o, %p : f32
    linalg.yield %t : f32
  } -> tensor<1x6x5x8xf32>
  return %y : tensor<1x6x5x8xf32>
}

// Views that join heads with the batch for a product, and take them apart behind it, go.
// CHECK-LABEL: func.func @joined_heads(
// CHECK-SAME:    %[[A:[a-z0-9]+]]: tensor<2x3x4x8xf32>, %[[B:[a-z0-9]+]]: tensor<2x3x8x5xf32>
// CHECK-NOT:     collapse_shape
// CHECK:         %[[P:.*]] = linalg.generic {{.*}} ins(%[[A]], %[[B]] : {{.*}}) outs({{.*}} : tensor<2x3x4x5xf32>)
// CHECK:         return %[[P]]
func.func @joined_heads(%a: tensor<2x3x4x8xf32>, %b: tensor<2x3x8x5xf32>) -> tensor<2x3x4x5xf32> {
  %zero = arith.constant 0.0 : f32
  %x = tensor.collapse_shape %a [[0, 1], [2], [3]] : tensor<2x3x4x8xf32> into tensor<6x4x8xf32>
  %y = tensor.collapse_shape %b [[0, 1], [2], [3]] : tensor<2x3x8x5xf32> into tensor<6x8x5xf32>
  %e = tensor.empty() : tensor<6x4x5xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<6x4x5xf32>) -> tensor<6x4x5xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(h, m, n, k) -> (h, m, k)>, affine_map<(h, m, n, k) -> (h, k, n)>, affine_map<(h, m, n, k) -> (h, m, n)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%x, %y : tensor<6x4x8xf32>, tensor<6x8x5xf32>) outs(%f : tensor<6x4x5xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %t = arith.mulf %l, %r : f32
    %u = arith.addf %o, %t : f32
    linalg.yield %u : f32
  } -> tensor<6x4x5xf32>
  %s = tensor.expand_shape %p [[0, 1], [2], [3]] output_shape [2, 3, 4, 5] : tensor<6x4x5xf32> into tensor<2x3x4x5xf32>
  return %s : tensor<2x3x4x5xf32>
}
