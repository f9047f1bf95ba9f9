// RUN: %opt %s --passes=arrange-products,dead-code | filecheck %s

// CHECK-DAG:     #[[MK:.*]] = affine_map<(d0, d1, d2) -> (d0, d2)>
// CHECK-DAG:     #[[KN:.*]] = affine_map<(d0, d1, d2) -> (d2, d1)>
// CHECK-DAG:     #[[MN:.*]] = affine_map<(d0, d1, d2) -> (d0, d1)>
// CHECK-DAG:     #[[NK:.*]] = affine_map<(d0, d1, d2) -> (d1, d2)>
// CHECK-DAG:     #[[NM:.*]] = affine_map<(d0, d1, d2) -> (d1, d0)>

// The right operand is transposed.
// CHECK-LABEL: func.func @columns(
// CHECK:         %[[T:.*]] = linalg.generic {{.*}} ins(%arg1 : tensor<16x4xf32>) outs(%{{.*}} : tensor<4x16xf32>)
// CHECK:         linalg.generic {indexing_maps = [#[[MK]], #[[KN]], #[[MN]]]
// CHECK-SAME:    ins(%arg0, %[[T]] :
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#km = affine_map<(m, n, k) -> (k, m)>
#mn = affine_map<(m, n, k) -> (m, n)>
#nm = affine_map<(m, n, k) -> (n, m)>
func.func @columns(%x: tensor<4x4xf32>, %y: tensor<16x4xf32>) -> tensor<4x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<4x16xf32>) -> tensor<4x16xf32>
  %c = linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %y : tensor<4x4xf32>, tensor<16x4xf32>) outs(%z : tensor<4x16xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  } -> tensor<4x16xf32>
  return %c : tensor<4x16xf32>
}

// The left operand lies along the result: they change places, and nothing moves.
// CHECK-LABEL: func.func @exchanged(
// CHECK-NOT:     ins(%arg0 :
// CHECK:         linalg.generic {indexing_maps = [#[[NK]], #{{.*}}, #[[NM]]]
// CHECK-SAME:    ins(%arg1, %arg0 : tensor<16x4xf32>, tensor<4x8xf32>)
// CHECK-NEXT:    ^bb0
// CHECK-NOT:     linalg.generic
// CHECK:         return
func.func @exchanged(%x: tensor<4x8xf32>, %y: tensor<16x4xf32>) -> tensor<16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<16x8xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<16x8xf32>) -> tensor<16x8xf32>
  %c = linalg.generic {indexing_maps = [#km, #nk, #nm], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %y : tensor<4x8xf32>, tensor<16x4xf32>) outs(%z : tensor<16x8xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  } -> tensor<16x8xf32>
  return %c : tensor<16x8xf32>
}

// The result has fewer elements than the operand that would have to move: it is transposed afterwards.
// CHECK-LABEL: func.func @afterwards(
// CHECK:         %[[R:.*]] = linalg.generic {indexing_maps = [#[[MK]], #[[KN]], #[[MN]]]
// CHECK-SAME:    ins(%arg0, %arg1 : tensor<16x64xf32>, tensor<64x8xf32>) outs(%{{.*}} : tensor<16x8xf32>)
// CHECK:         linalg.generic {{.*}} ins(%[[R]] : tensor<16x8xf32>) outs(%{{.*}} : tensor<8x16xf32>)
func.func @afterwards(%x: tensor<16x64xf32>, %y: tensor<64x8xf32>) -> tensor<8x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<8x16xf32>) -> tensor<8x16xf32>
  %c = linalg.generic {indexing_maps = [#mk, #kn, #nm], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %y : tensor<16x64xf32>, tensor<64x8xf32>) outs(%z : tensor<8x16xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  } -> tensor<8x16xf32>
  return %c : tensor<8x16xf32>
}

// Few rows read the right operand as it lies, and so does a weight's product, which `pack-weights` orders.
// CHECK-LABEL: func.func @rejects(
// CHECK-COUNT-2: linalg.generic
// CHECK-NOT:     linalg.generic
func.func @rejects(%x: tensor<2x4xf32>, %u: tensor<8x4xf32>, %y: tensor<16x4xf32>,
    %w: tensor<16x4xf32> {tw.param = "w"}) -> (tensor<2x16xf32>, tensor<8x16xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x16xf32>) -> tensor<2x16xf32>
  %c = linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %y : tensor<2x4xf32>, tensor<16x4xf32>) outs(%z : tensor<2x16xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  } -> tensor<2x16xf32>
  %f = tensor.empty() : tensor<8x16xf32>
  %g = linalg.fill ins(%zero : f32) outs(%f : tensor<8x16xf32>) -> tensor<8x16xf32>
  %d = linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%u, %w : tensor<8x4xf32>, tensor<16x4xf32>) outs(%g : tensor<8x16xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  } -> tensor<8x16xf32>
  return %c, %d : tensor<2x16xf32>, tensor<8x16xf32>
}

// What one row alone reads is read as it lies, without the model's transpose; what many rows read is transposed.
// CHECK-LABEL: func.func @row(
// CHECK:         linalg.generic {indexing_maps = [#[[MK]], #[[NK]], #[[MN]]]
// CHECK-SAME:    ins(%arg0, %arg1 : tensor<1x4xf32>, tensor<16x4xf32>)
// CHECK-LABEL: func.func @rows(
// CHECK:         %[[T:.*]] = linalg.generic {{.*}} ins(%arg1 : tensor<16x4xf32>)
// CHECK:         linalg.generic {indexing_maps = [#[[MK]], #[[KN]], #[[MN]]]
// CHECK-SAME:    ins(%arg0, %[[T]] : tensor<4x4xf32>, tensor<4x16xf32>)
#id = affine_map<(d0, d1) -> (d0, d1)>
#swap = affine_map<(d0, d1) -> (d1, d0)>
func.func @row(%x: tensor<1x4xf32>, %y: tensor<16x4xf32>) -> tensor<1x16xf32> {
  %zero = arith.constant 0.0 : f32
  %et = tensor.empty() : tensor<4x16xf32>
  %t = linalg.generic {indexing_maps = [#swap, #id], iterator_types = ["parallel", "parallel"]}
      ins(%y : tensor<16x4xf32>) outs(%et : tensor<4x16xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  } -> tensor<4x16xf32>
  %e = tensor.empty() : tensor<1x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x16xf32>) -> tensor<1x16xf32>
  %c = linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %t : tensor<1x4xf32>, tensor<4x16xf32>) outs(%z : tensor<1x16xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x16xf32>
  return %c : tensor<1x16xf32>
}
func.func @rows(%x: tensor<4x4xf32>, %y: tensor<16x4xf32>) -> tensor<4x16xf32> {
  %zero = arith.constant 0.0 : f32
  %et = tensor.empty() : tensor<4x16xf32>
  %t = linalg.generic {indexing_maps = [#swap, #id], iterator_types = ["parallel", "parallel"]}
      ins(%y : tensor<16x4xf32>) outs(%et : tensor<4x16xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  } -> tensor<4x16xf32>
  %e = tensor.empty() : tensor<4x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<4x16xf32>) -> tensor<4x16xf32>
  %c = linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %t : tensor<4x4xf32>, tensor<4x16xf32>) outs(%z : tensor<4x16xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  } -> tensor<4x16xf32>
  return %c : tensor<4x16xf32>
}

// Rows of a left operand that lie along another loop than the sum are moved where many columns read them, and those of
// a weight; others are read as they lie.
// CHECK-LABEL: func.func @long(
// CHECK:         %[[T:.*]] = linalg.generic {{.*}} ins(%arg0 : tensor<128x8xf32>) outs(%{{.*}} : tensor<8x128xf32>)
// CHECK:         linalg.generic {indexing_maps = [#[[MK]], #[[KN]], #[[MN]]]
// CHECK-SAME:    ins(%[[T]], %arg1 :
// CHECK-LABEL: func.func @weight(
// CHECK:         %[[T:.*]] = linalg.generic {{.*}} ins(%arg0 : tensor<4x8xf32>) outs(%{{.*}} : tensor<8x4xf32>)
// CHECK:         linalg.generic {indexing_maps = [#[[MK]], #[[KN]], #[[MN]]]
// CHECK-LABEL: func.func @short(
// CHECK:         linalg.generic
// CHECK-SAME:    ins(%arg0, %arg1 :
func.func @long(%x: tensor<128x8xf32>, %y: tensor<128x64xf32>) -> tensor<8x64xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x64xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<8x64xf32>) -> tensor<8x64xf32>
  %c = linalg.generic {indexing_maps = [#km, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %y : tensor<128x8xf32>, tensor<128x64xf32>) outs(%z : tensor<8x64xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  } -> tensor<8x64xf32>
  return %c : tensor<8x64xf32>
}
func.func @weight(%x: tensor<4x8xf32> {tw.param = "w"}, %y: tensor<4x16xf32>) -> tensor<8x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<8x16xf32>) -> tensor<8x16xf32>
  %c = linalg.generic {indexing_maps = [#km, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %y : tensor<4x8xf32>, tensor<4x16xf32>) outs(%z : tensor<8x16xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  } -> tensor<8x16xf32>
  return %c : tensor<8x16xf32>
}
func.func @short(%x: tensor<64x8xf32>, %y: tensor<64x64xf32>) -> tensor<8x64xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x64xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<8x64xf32>) -> tensor<8x64xf32>
  %c = linalg.generic {indexing_maps = [#km, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %y : tensor<64x8xf32>, tensor<64x64xf32>) outs(%z : tensor<8x64xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  } -> tensor<8x64xf32>
  return %c : tensor<8x64xf32>
}

// Few columns that many rows are multiplied by become rows, where sums are long.
// CHECK-LABEL: func.func @few_columns(
// CHECK:         %[[T:.*]] = linalg.generic {{.*}} ins(%arg1 : tensor<64x3xf32>) outs(%{{.*}} : tensor<3x64xf32>)
// CHECK:         linalg.generic {indexing_maps = [#[[MK]], #[[NK]], #[[MN]]]
// CHECK-SAME:    ins(%arg0, %[[T]] :
// CHECK-LABEL: func.func @few_columns_of_short_sums(
// CHECK:         linalg.generic
// CHECK-SAME:    ins(%arg0, %arg1 :
// CHECK-LABEL: func.func @few_columns_for_few_rows(
// CHECK:         linalg.generic
// CHECK-SAME:    ins(%arg0, %arg1 :
func.func @few_columns(%x: tensor<16x64xf32>, %y: tensor<64x3xf32>) -> tensor<16x3xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<16x3xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<16x3xf32>) -> tensor<16x3xf32>
  %c = linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %y : tensor<16x64xf32>, tensor<64x3xf32>) outs(%z : tensor<16x3xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  } -> tensor<16x3xf32>
  return %c : tensor<16x3xf32>
}
func.func @few_columns_of_short_sums(%x: tensor<16x8xf32>, %y: tensor<8x3xf32>) -> tensor<16x3xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<16x3xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<16x3xf32>) -> tensor<16x3xf32>
  %c = linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %y : tensor<16x8xf32>, tensor<8x3xf32>) outs(%z : tensor<16x3xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  } -> tensor<16x3xf32>
  return %c : tensor<16x3xf32>
}
func.func @few_columns_for_few_rows(%x: tensor<4x64xf32>, %y: tensor<64x3xf32>) -> tensor<4x3xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x3xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<4x3xf32>) -> tensor<4x3xf32>
  %c = linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %y : tensor<4x64xf32>, tensor<64x3xf32>) outs(%z : tensor<4x3xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  } -> tensor<4x3xf32>
  return %c : tensor<4x3xf32>
}

#left = affine_map<(m, n, k) -> (m, k)>
#right = affine_map<(m, n, k) -> (k, n)>
#made = affine_map<(m, n, k) -> (m, n)>

// One product is no sum, whose size the run may tell; a sum of two, or of a product and another number, is one.
// CHECK-LABEL: func.func @one_step(
// CHECK:         linalg.generic {{.*}}iterator_types = ["parallel", "parallel"]} ins(%arg0, %arg1
// CHECK:           arith.mulf
// CHECK:           arith.addf %cst{{.*}}, %{{.*}} fastmath<contract>
// CHECK:         iterator_types = ["parallel", "parallel", "reduction"]
// CHECK:         iterator_types = ["parallel", "parallel", "reduction"]
func.func @one_step(%x: tensor<?x1xf32>, %y: tensor<1x4xf32>, %v: tensor<3x2xf32>, %w: tensor<2x4xf32>, %u: tensor<?x4xf32>, %n: index)
    -> (tensor<?x4xf32>, tensor<3x4xf32>, tensor<?x4xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : tensor<?x4xf32>
  %i = linalg.fill ins(%zero : f32) outs(%e : tensor<?x4xf32>) -> tensor<?x4xf32>
  %p = linalg.generic {indexing_maps = [#left, #right, #made], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%x, %y : tensor<?x1xf32>, tensor<1x4xf32>) outs(%i : tensor<?x4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %m fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<?x4xf32>
  %f = tensor.empty() : tensor<3x4xf32>
  %j = linalg.fill ins(%zero : f32) outs(%f : tensor<3x4xf32>) -> tensor<3x4xf32>
  %q = linalg.generic {indexing_maps = [#left, #right, #made], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%v, %w : tensor<3x2xf32>, tensor<2x4xf32>) outs(%j : tensor<3x4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %m fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<3x4xf32>
  %r = linalg.generic {indexing_maps = [#left, #right, #made], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%x, %y : tensor<?x1xf32>, tensor<1x4xf32>) outs(%u : tensor<?x4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %m fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<?x4xf32>
  return %p, %q, %r : tensor<?x4xf32>, tensor<3x4xf32>, tensor<?x4xf32>
}

// A window that is all of the image, by a weight that each run makes, is a row of a product.
// CHECK-LABEL: func.func @whole_window(
// CHECK-DAG:     %[[X:.*]] = tensor.collapse_shape %arg0 {{.*}} into tensor<2x72xf32>
// CHECK-DAG:     %[[W:.*]] = tensor.collapse_shape %arg1 {{.*}} into tensor<5x72xf32>
// CHECK:         iterator_types = ["parallel", "parallel", "reduction"]} ins(%[[X]], %[[W]] :
// CHECK:         tensor.expand_shape %{{.*}} into tensor<2x5x1x1xf32>
#nchw = affine_map<(n, f, h, w, c, i, j) -> (n, c, h + i, w + j)>
#fcij = affine_map<(n, f, h, w, c, i, j) -> (f, c, i, j)>
#nfhw = affine_map<(n, f, h, w, c, i, j) -> (n, f, h, w)>
func.func @whole_window(%x: tensor<2x8x3x3xf32>, %w: tensor<5x8x3x3xf32>) -> tensor<2x5x1x1xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x5x1x1xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x5x1x1xf32>) -> tensor<2x5x1x1xf32>
  %y = linalg.generic {indexing_maps = [#nchw, #fcij, #nfhw],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
      ins(%x, %w : tensor<2x8x3x3xf32>, tensor<5x8x3x3xf32>) outs(%z : tensor<2x5x1x1xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %acc, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<2x5x1x1xf32>
  return %y : tensor<2x5x1x1xf32>
}

// Not two windows, and not a weight that is packed ahead of time.
// CHECK-LABEL: func.func @rejects_windows(
// CHECK-NOT:     tensor.collapse_shape
// CHECK:         return
func.func @rejects_windows(%x: tensor<2x8x3x4xf32>, %w: tensor<5x8x3x3xf32>, %u: tensor<2x8x3x3xf32>,
                           %p: tensor<5x8x3x3xf32> {tw.param = "p"}) -> (tensor<2x5x1x2xf32>, tensor<2x5x1x1xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x5x1x2xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x5x1x2xf32>) -> tensor<2x5x1x2xf32>
  %y = linalg.generic {indexing_maps = [#nchw, #fcij, #nfhw],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
      ins(%x, %w : tensor<2x8x3x4xf32>, tensor<5x8x3x3xf32>) outs(%z : tensor<2x5x1x2xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %q = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %acc, %q fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<2x5x1x2xf32>
  %f = tensor.empty() : tensor<2x5x1x1xf32>
  %o = linalg.fill ins(%zero : f32) outs(%f : tensor<2x5x1x1xf32>) -> tensor<2x5x1x1xf32>
  %v = linalg.generic {indexing_maps = [#nchw, #fcij, #nfhw],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
      ins(%u, %p : tensor<2x8x3x3xf32>, tensor<5x8x3x3xf32>) outs(%o : tensor<2x5x1x1xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %q = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %acc, %q fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<2x5x1x1xf32>
  return %y, %v : tensor<2x5x1x2xf32>, tensor<2x5x1x1xf32>
}
