// RUN: %opt %s --passes=keep-packed | filecheck %s

#full = affine_map<(b, j, n) -> (b, j, n)>
#each = affine_map<(b, j, n) -> (b, 0, n)>
#first = affine_map<(b, j, n) -> (b, j, 0)>
#step = affine_map<(b, j, n) -> (0, j, n)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (k, n)>
#y = affine_map<(m, n, k) -> (m, n)>
#product = {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]}

// CHECK-DAG: #[[LOW:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d2, 0, d3)>
// CHECK-DAG: #[[HIGH:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d2, 1, d3)>
// CHECK-DAG: #[[BYTES:.*]] = affine_map<(d0, d1, d2, d3) -> (d2, d3, d1)>
// CHECK-DAG: #[[POINTS:.*]] = affine_map<(d0, d1, d2, d3) -> (d2, d1)>
// CHECK-DAG: #[[SUMS:.*]] = affine_map<(d0, d1, d2, d3) -> (d2, d0, d1)>
// CHECK-DAG: #[[TOTAL:.*]] = affine_map<(d0, d1, d2) -> (d2, d0, d1)>
// CHECK-DAG: #[[SCALES:.*]] = affine_map<(d0, d1, d2) -> (d2, d1)>
// CHECK-DAG: #[[RESULT:.*]] = affine_map<(d0, d1, d2) -> (d0, d1)>

// Two numbers of four bits share a byte; those and their zero points become signed.
// CHECK-LABEL: func.func @nibbles(
// CHECK-DAG:     %[[EIGHT:.*]] = arith.constant 8 : i8
// CHECK-DAG:     %[[DATA:.*]] = tensor.expand_shape %arg0 {{.*}} : tensor<3x16xf32> into tensor<3x2x2x4xf32>
// CHECK-DAG:     %[[PARTS:.*]] = tensor.expand_shape %arg1 {{.*}} : tensor<2x8x6xi8> into tensor<2x2x4x6xi8>
// CHECK-DAG:     %[[BYTES_:.*]] = linalg.generic {{.*}} ins(%[[PARTS]], %[[PARTS]] : {{.*}}) outs(%{{.*}} : tensor<2x4x6xi8>)
// CHECK:         %[[SUM:.*]] = linalg.generic {indexing_maps = [#[[LOW]], #[[HIGH]], #[[BYTES]], #[[POINTS]], #[[SUMS]]]
// CHECK-SAME:      ins(%[[DATA]], %[[DATA]], %{{[0-9]+}}, %{{[0-9]+}} : {{.*}}, tensor<2x4x6xi8>, tensor<2x6xi8>)
// CHECK:           arith.extsi %{{.*}} : i8 to i32
// CHECK:           arith.shli
// CHECK:           arith.shrsi
// CHECK:           arith.subf
// CHECK:           arith.mulf
// CHECK-NEXT:      arith.addf
// CHECK:           arith.shrsi
// CHECK:           arith.addf
// CHECK:           linalg.yield
// CHECK:         linalg.generic {indexing_maps = [#[[TOTAL]], #[[SCALES]], #[[RESULT]]]
// CHECK-SAME:      ins(%[[SUM]], %{{[0-9]+}} : tensor<2x3x6xf32>, tensor<2x6xf32>) outs(%{{[0-9]+}} : tensor<3x6xf32>)
func.func @nibbles(%x: tensor<3x16xf32> {tw.name = "x"}, %q: tensor<2x8x6xi8> {tw.param = "q"},
                   %z: tensor<2x1x6xi8> {tw.param = "z"}, %s: tensor<2x1x6xf32> {tw.param = "s"}) -> tensor<3x6xf32> {
  %four = arith.constant 4 : i8
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x6xf32>
  %f = linalg.generic {indexing_maps = [#full, #each, #each, #full], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%q, %z, %s : tensor<2x8x6xi8>, tensor<2x1x6xi8>, tensor<2x1x6xf32>) outs(%e : tensor<2x8x6xf32>) {
  ^bb0(%a: i8, %point: i8, %scale: f32, %o: f32):
    %high = arith.shli %a, %four : i8
    %number = arith.shrui %high, %four : i8
    %real = arith.uitofp %number : i8 to f32
    %less = arith.uitofp %point : i8 to f32
    %above = arith.subf %real, %less : f32
    %scaled = arith.mulf %above, %scale : f32
    linalg.yield %scaled : f32
  } -> tensor<2x8x6xf32>
  %w = tensor.collapse_shape %f [[0, 1], [2]] : tensor<2x8x6xf32> into tensor<16x6xf32>
  %n = tensor.empty() : tensor<3x6xf32>
  %i = linalg.fill ins(%zero : f32) outs(%n : tensor<3x6xf32>) -> tensor<3x6xf32>
  %y = linalg.generic #product ins(%x, %w : tensor<3x16xf32>, tensor<16x6xf32>) outs(%i : tensor<3x6xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %t = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %t : f32
  } -> tensor<3x6xf32>
  return %y : tensor<3x6xf32>
}

// Each step of a block has a scale of its own: no scale can be multiplied with a block's sum.
// CHECK-LABEL: func.func @rejects_scales_in_blocks(
// CHECK:         linalg.generic {{.*}} ins(%arg0, %{{.*}} : tensor<3x16xf32>, tensor<16x6xf32>)
func.func @rejects_scales_in_blocks(%x: tensor<3x16xf32> {tw.name = "x"}, %q: tensor<2x8x6xi8> {tw.param = "q"},
                                    %s: tensor<1x8x6xf32> {tw.param = "s"}) -> tensor<3x6xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x6xf32>
  %f = linalg.generic {indexing_maps = [#full, #step, #full], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%q, %s : tensor<2x8x6xi8>, tensor<1x8x6xf32>) outs(%e : tensor<2x8x6xf32>) {
  ^bb0(%a: i8, %scale: f32, %o: f32):
    %real = arith.sitofp %a : i8 to f32
    %scaled = arith.mulf %real, %scale : f32
    linalg.yield %scaled : f32
  } -> tensor<2x8x6xf32>
  %w = tensor.collapse_shape %f [[0, 1], [2]] : tensor<2x8x6xf32> into tensor<16x6xf32>
  %n = tensor.empty() : tensor<3x6xf32>
  %i = linalg.fill ins(%zero : f32) outs(%n : tensor<3x6xf32>) -> tensor<3x6xf32>
  %y = linalg.generic #product ins(%x, %w : tensor<3x16xf32>, tensor<16x6xf32>) outs(%i : tensor<3x6xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %t = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %t : f32
  } -> tensor<3x6xf32>
  return %y : tensor<3x6xf32>
}

// A weight that the run gives is dequantised then.
// CHECK-LABEL: func.func @rejects_inputs(
// CHECK:         linalg.generic {{.*}} ins(%arg0, %{{.*}} : tensor<3x16xf32>, tensor<16x6xf32>)
func.func @rejects_inputs(%x: tensor<3x16xf32> {tw.name = "x"}, %q: tensor<2x8x6xi8> {tw.name = "q"},
                          %s: tensor<2x1x6xf32> {tw.param = "s"}) -> tensor<3x6xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x6xf32>
  %f = linalg.generic {indexing_maps = [#full, #each, #full], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%q, %s : tensor<2x8x6xi8>, tensor<2x1x6xf32>) outs(%e : tensor<2x8x6xf32>) {
  ^bb0(%a: i8, %scale: f32, %o: f32):
    %real = arith.sitofp %a : i8 to f32
    %scaled = arith.mulf %real, %scale : f32
    linalg.yield %scaled : f32
  } -> tensor<2x8x6xf32>
  %w = tensor.collapse_shape %f [[0, 1], [2]] : tensor<2x8x6xf32> into tensor<16x6xf32>
  %n = tensor.empty() : tensor<3x6xf32>
  %i = linalg.fill ins(%zero : f32) outs(%n : tensor<3x6xf32>) -> tensor<3x6xf32>
  %y = linalg.generic #product ins(%x, %w : tensor<3x16xf32>, tensor<16x6xf32>) outs(%i : tensor<3x6xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %t = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %t : f32
  } -> tensor<3x6xf32>
  return %y : tensor<3x6xf32>
}

// Rows that are bytes times a scale of each block: words of four bytes, and sums of integers.
// CHECK-LABEL: func.func @rounded_rows(
// CHECK-SAME:    %[[B:[^:]*]]: tensor<3x2x8xi8>
// CHECK:         %[[P:.*]] = tensor.expand_shape %[[B]] {{.*}} : tensor<3x2x8xi8> into tensor<3x2x2x1x4xi8>
// CHECK:         %[[D:.*]] = linalg.generic {{.*}} ins(%[[P]], %[[P]], %[[P]], %[[P]] : {{.*}}) outs(%{{.*}} : tensor<3x2x2x1xi32>)
// CHECK:         %[[W:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<2x1x6xi32>)
// CHECK:         %[[S:.*]] = linalg.generic {{.*}} ins(%[[D]], %[[D]], %[[W]] : {{.*}}) outs(%{{.*}} : tensor<2x3x6xi32>)
// CHECK-COUNT-8:   arith.muli
// CHECK:         linalg.generic {{.*}} ins(%[[S]], {{.*}}) outs(%{{.*}} : tensor<3x6xf32>)
func.func @rounded_rows(%b: tensor<3x2x8xi8> {tw.name = "b"}, %r: tensor<3x2x1xf32> {tw.name = "r"},
                        %q: tensor<2x8x6xi8> {tw.param = "q"}, %s: tensor<2x1x6xf32> {tw.param = "s"}) -> tensor<3x6xf32> {
  %four = arith.constant 4 : i8
  %zero = arith.constant 0.0 : f32
  %d = tensor.empty() : tensor<3x2x8xf32>
  %g = linalg.generic {indexing_maps = [#full, #first, #full], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%b, %r : tensor<3x2x8xi8>, tensor<3x2x1xf32>) outs(%d : tensor<3x2x8xf32>) {
  ^bb0(%a: i8, %scale: f32, %o: f32):
    %real = arith.sitofp %a : i8 to f32
    %scaled = arith.mulf %real, %scale : f32
    linalg.yield %scaled : f32
  } -> tensor<3x2x8xf32>
  %x = tensor.collapse_shape %g [[0], [1, 2]] : tensor<3x2x8xf32> into tensor<3x16xf32>
  %e = tensor.empty() : tensor<2x8x6xf32>
  %f = linalg.generic {indexing_maps = [#full, #each, #full], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%q, %s : tensor<2x8x6xi8>, tensor<2x1x6xf32>) outs(%e : tensor<2x8x6xf32>) {
  ^bb0(%a: i8, %scale: f32, %o: f32):
    %high = arith.shli %a, %four : i8
    %number = arith.shrsi %high, %four : i8
    %real = arith.sitofp %number : i8 to f32
    %scaled = arith.mulf %real, %scale : f32
    linalg.yield %scaled : f32
  } -> tensor<2x8x6xf32>
  %w = tensor.collapse_shape %f [[0, 1], [2]] : tensor<2x8x6xf32> into tensor<16x6xf32>
  %n = tensor.empty() : tensor<3x6xf32>
  %i = linalg.fill ins(%zero : f32) outs(%n : tensor<3x6xf32>) -> tensor<3x6xf32>
  %y = linalg.generic #product ins(%x, %w : tensor<3x16xf32>, tensor<16x6xf32>) outs(%i : tensor<3x6xf32>) {
  ^bb0(%a: f32, %c: f32, %o: f32):
    %p = arith.mulf %a, %c fastmath<contract> : f32
    %t = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %t : f32
  } -> tensor<3x6xf32>
  return %y : tensor<3x6xf32>
}
