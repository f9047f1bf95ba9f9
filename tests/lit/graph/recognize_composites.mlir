// RUN: %opt %s --passes=recognize-composites | filecheck %s

#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#column = affine_map<(i, j) -> (j)>
#three = affine_map<(i, j, k) -> (i, j, k)>
#mk = affine_map<(b, i, j, k) -> (b, i, k)>
#nk = affine_map<(b, i, j, k) -> (b, j, k)>
#kn = affine_map<(b, i, j, k) -> (b, k, j)>
#mn = affine_map<(b, i, j, k) -> (b, i, j)>
#rows = affine_map<(i, j, k) -> (i, j)>
#four = affine_map<(b, h, i, j) -> (b, h, i, j)>
#mask = affine_map<(b, h, i, j) -> (b, 0, i, j)>
#rowid = affine_map<(i) -> (i)>

// A variance by moments becomes one of what is left without the mean, less the square of that one's own mean.
// CHECK-LABEL: func.func @layer_norm(
// CHECK:         %[[M:.*]] = linalg.generic {{.*}}"reduction"]{{.*}} ins(%arg0 :
// CHECK:           arith.addf
// CHECK:           arith.mulf
// CHECK:         %[[C:.*]] = linalg.generic {{.*}} ins(%arg0, %{{.*}} :
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      arith.subf
// CHECK:         linalg.generic {{.*}}"reduction"]{{.*}} ins(%[[C]] :
// CHECK:           arith.addf
// CHECK:           arith.divf
// CHECK:         %[[S:.*]] = linalg.generic {{.*}} ins(%[[C]] :
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      arith.mulf %[[A:.*]], %[[A]]
// CHECK:         linalg.generic {{.*}}"reduction"]{{.*}} ins(%[[S]] :
// CHECK:           arith.maximumf
// CHECK:           math.sqrt
// CHECK-NEXT:      arith.divf
// CHECK:         %[[D:.*]] = linalg.generic {{.*}} ins(%[[C]], %{{.*}} :
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      arith.subf
// CHECK:         linalg.generic {{.*}} ins(%[[D]], %{{.*}}, %arg1 :
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      arith.mulf
// CHECK-NEXT:      arith.mulf
// CHECK-NEXT:      linalg.yield
func.func @layer_norm(%x0: tensor<4x8xf32>, %g0: tensor<8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %n0 = arith.constant 0.125 : f32
  %eps = arith.constant 1.0e-05 : f32
  %me = tensor.empty() : tensor<4xf32>
  %mi = linalg.fill ins(%zero : f32) outs(%me : tensor<4xf32>) -> tensor<4xf32>
  %m0 = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
    ins(%x0 : tensor<4x8xf32>) outs(%mi : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %t = arith.addf %o, %a : f32
    linalg.yield %t : f32
  } -> tensor<4xf32>
  %ve = tensor.empty() : tensor<4xf32>
  %vi = linalg.fill ins(%zero : f32) outs(%ve : tensor<4xf32>) -> tensor<4xf32>
  %v0 = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
    ins(%x0 : tensor<4x8xf32>) outs(%vi : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.mulf %a, %a : f32
    %t = arith.addf %o, %s : f32
    linalg.yield %t : f32
  } -> tensor<4xf32>
  %r0 = tensor.empty() : tensor<4xf32>
  %d0 = linalg.generic {indexing_maps = [#rowid, #rowid, #rowid], iterator_types = ["parallel"]}
    ins(%v0, %m0 : tensor<4xf32>, tensor<4xf32>) outs(%r0 : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %u = arith.mulf %a, %n0 : f32
    %w = arith.mulf %b, %n0 : f32
    %z = arith.mulf %w, %w : f32
    %p = arith.subf %u, %z : f32
    %q = arith.addf %p, %eps : f32
    %s = math.rsqrt %q : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  %e0 = tensor.empty() : tensor<4x8xf32>
  %y0 = linalg.generic {indexing_maps = [#id, #row, #row, #column, #id], iterator_types = ["parallel", "parallel"]}
    ins(%x0, %m0, %d0, %g0 : tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>, tensor<8xf32>) outs(%e0 : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %d: f32, %o: f32):
    %u = arith.mulf %b, %n0 : f32
    %w = arith.subf %a, %u : f32
    %s = arith.mulf %c, %d : f32
    %t = arith.mulf %w, %s : f32
    linalg.yield %t : f32
  } -> tensor<4x8xf32>
  return %y0 : tensor<4x8xf32>
}

// The mean is a result as well: it would be computed twice.
// CHECK-LABEL: func.func @another_reader(
// CHECK:         math.rsqrt
// CHECK:         linalg.generic {{.*}} ins(%arg0, %[[M:.*]], %{{.*}}, %arg1 :
// CHECK:         return %{{.*}}, %[[M]] :
func.func @another_reader(%x0: tensor<4x8xf32>, %g0: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>) {
  %zero = arith.constant 0.0 : f32
  %n0 = arith.constant 0.125 : f32
  %eps = arith.constant 1.0e-05 : f32
  %me = tensor.empty() : tensor<4xf32>
  %mi = linalg.fill ins(%zero : f32) outs(%me : tensor<4xf32>) -> tensor<4xf32>
  %m0 = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
    ins(%x0 : tensor<4x8xf32>) outs(%mi : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %t = arith.addf %o, %a : f32
    linalg.yield %t : f32
  } -> tensor<4xf32>
  %ve = tensor.empty() : tensor<4xf32>
  %vi = linalg.fill ins(%zero : f32) outs(%ve : tensor<4xf32>) -> tensor<4xf32>
  %v0 = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
    ins(%x0 : tensor<4x8xf32>) outs(%vi : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.mulf %a, %a : f32
    %t = arith.addf %o, %s : f32
    linalg.yield %t : f32
  } -> tensor<4xf32>
  %r0 = tensor.empty() : tensor<4xf32>
  %d0 = linalg.generic {indexing_maps = [#rowid, #rowid, #rowid], iterator_types = ["parallel"]}
    ins(%v0, %m0 : tensor<4xf32>, tensor<4xf32>) outs(%r0 : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %u = arith.mulf %a, %n0 : f32
    %w = arith.mulf %b, %n0 : f32
    %z = arith.mulf %w, %w : f32
    %p = arith.subf %u, %z : f32
    %q = arith.addf %p, %eps : f32
    %s = math.rsqrt %q : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  %e0 = tensor.empty() : tensor<4x8xf32>
  %y0 = linalg.generic {indexing_maps = [#id, #row, #row, #column, #id], iterator_types = ["parallel", "parallel"]}
    ins(%x0, %m0, %d0, %g0 : tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>, tensor<8xf32>) outs(%e0 : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %d: f32, %o: f32):
    %u = arith.mulf %b, %n0 : f32
    %w = arith.subf %a, %u : f32
    %s = arith.mulf %c, %d : f32
    %t = arith.mulf %w, %s : f32
    linalg.yield %t : f32
  } -> tensor<4x8xf32>
  return %y0, %m0 : tensor<4x8xf32>, tensor<4xf32>
}

// The square of the mean of something else is no variance.
// CHECK-LABEL: func.func @another_mean(
// CHECK:         math.rsqrt
func.func @another_mean(%x0: tensor<4x8xf32>, %u0: tensor<4x8xf32>, %g0: tensor<8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %n0 = arith.constant 0.125 : f32
  %eps = arith.constant 1.0e-05 : f32
  %me = tensor.empty() : tensor<4xf32>
  %mi = linalg.fill ins(%zero : f32) outs(%me : tensor<4xf32>) -> tensor<4xf32>
  %m0 = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
    ins(%u0 : tensor<4x8xf32>) outs(%mi : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %t = arith.addf %o, %a : f32
    linalg.yield %t : f32
  } -> tensor<4xf32>
  %ve = tensor.empty() : tensor<4xf32>
  %vi = linalg.fill ins(%zero : f32) outs(%ve : tensor<4xf32>) -> tensor<4xf32>
  %v0 = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
    ins(%x0 : tensor<4x8xf32>) outs(%vi : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.mulf %a, %a : f32
    %t = arith.addf %o, %s : f32
    linalg.yield %t : f32
  } -> tensor<4xf32>
  %r0 = tensor.empty() : tensor<4xf32>
  %d0 = linalg.generic {indexing_maps = [#rowid, #rowid, #rowid], iterator_types = ["parallel"]}
    ins(%v0, %m0 : tensor<4xf32>, tensor<4xf32>) outs(%r0 : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %u = arith.mulf %a, %n0 : f32
    %w = arith.mulf %b, %n0 : f32
    %z = arith.mulf %w, %w : f32
    %p = arith.subf %u, %z : f32
    %q = arith.addf %p, %eps : f32
    %s = math.rsqrt %q : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  %e0 = tensor.empty() : tensor<4x8xf32>
  %y0 = linalg.generic {indexing_maps = [#id, #row, #row, #column, #id], iterator_types = ["parallel", "parallel"]}
    ins(%x0, %m0, %d0, %g0 : tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>, tensor<8xf32>) outs(%e0 : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %d: f32, %o: f32):
    %u = arith.mulf %b, %n0 : f32
    %w = arith.subf %a, %u : f32
    %s = arith.mulf %c, %d : f32
    %t = arith.mulf %w, %s : f32
    linalg.yield %t : f32
  } -> tensor<4x8xf32>
  return %y0 : tensor<4x8xf32>
}

// One division for each row, and the scale last.
// CHECK-LABEL: func.func @rms_norm(
// CHECK:           math.sqrt
// CHECK-NEXT:      arith.divf %[[ONE:.*]], %
// CHECK:         linalg.generic {{.*}} ins(%arg0, %{{.*}}, %arg1 :
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      arith.mulf
// CHECK-NEXT:      arith.mulf
func.func @rms_norm(%x0: tensor<4x8xf32>, %g0: tensor<8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %n0 = arith.constant 0.125 : f32
  %eps = arith.constant 1.0e-05 : f32
  %ve = tensor.empty() : tensor<4xf32>
  %vi = linalg.fill ins(%zero : f32) outs(%ve : tensor<4xf32>) -> tensor<4xf32>
  %v0 = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
    ins(%x0 : tensor<4x8xf32>) outs(%vi : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.mulf %a, %a : f32
    %t = arith.addf %o, %s : f32
    linalg.yield %t : f32
  } -> tensor<4xf32>
  %r0 = tensor.empty() : tensor<4xf32>
  %d0 = linalg.generic {indexing_maps = [#rowid, #rowid], iterator_types = ["parallel"]}
    ins(%v0 : tensor<4xf32>) outs(%r0 : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %u = arith.mulf %a, %n0 : f32
    %q = arith.addf %u, %eps : f32
    %s = math.sqrt %q : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  %e0 = tensor.empty() : tensor<4x8xf32>
  %y0 = linalg.generic {indexing_maps = [#id, #column, #row, #id], iterator_types = ["parallel", "parallel"]}
    ins(%x0, %g0, %d0 : tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>) outs(%e0 : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %o: f32):
    %u = arith.mulf %a, %b : f32
    %w = arith.divf %u, %c : f32
    linalg.yield %w : f32
  } -> tensor<4x8xf32>
  return %y0 : tensor<4x8xf32>
}

// A sum of squares that is not divided by the row's length is no mean.
// CHECK-LABEL: func.func @no_mean(
// CHECK:           math.sqrt
// CHECK-NEXT:      linalg.yield
// CHECK:           arith.divf
func.func @no_mean(%x0: tensor<4x8xf32>, %g0: tensor<8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %n0 = arith.constant 0.125 : f32
  %eps = arith.constant 1.0e-05 : f32
  %k0 = arith.constant 0.25 : f32
  %ve = tensor.empty() : tensor<4xf32>
  %vi = linalg.fill ins(%zero : f32) outs(%ve : tensor<4xf32>) -> tensor<4xf32>
  %v0 = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
    ins(%x0 : tensor<4x8xf32>) outs(%vi : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.mulf %a, %a : f32
    %t = arith.addf %o, %s : f32
    linalg.yield %t : f32
  } -> tensor<4xf32>
  %r0 = tensor.empty() : tensor<4xf32>
  %d0 = linalg.generic {indexing_maps = [#rowid, #rowid], iterator_types = ["parallel"]}
    ins(%v0 : tensor<4xf32>) outs(%r0 : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %u = arith.mulf %a, %k0 : f32
    %q = arith.addf %u, %eps : f32
    %s = math.sqrt %q : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  %e0 = tensor.empty() : tensor<4x8xf32>
  %y0 = linalg.generic {indexing_maps = [#id, #column, #row, #id], iterator_types = ["parallel", "parallel"]}
    ins(%x0, %g0, %d0 : tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>) outs(%e0 : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %o: f32):
    %u = arith.mulf %a, %b : f32
    %w = arith.divf %u, %c : f32
    linalg.yield %w : f32
  } -> tensor<4x8xf32>
  return %y0 : tensor<4x8xf32>
}

// A softmax that can overflow gets the row's greatest element subtracted.
// CHECK-LABEL: func.func @softmax(
// CHECK:         linalg.generic {{.*}}"reduction"]{{.*}} ins(%arg0 :
// CHECK:           arith.maximumf
// CHECK:         %[[P:.*]] = linalg.generic {{.*}} ins(%arg0, %
// CHECK:           arith.subf
// CHECK-NEXT:      math.exp
// CHECK:         linalg.generic {{.*}}"reduction"]{{.*}} ins(%[[P]] :
// CHECK:           arith.divf
func.func @softmax(%x0: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<4x8xf32>
  %p0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
    ins(%x0 : tensor<4x8xf32>) outs(%e0 : tensor<4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = math.exp %a : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  %se = tensor.empty() : tensor<4xf32>
  %si = linalg.fill ins(%zero : f32) outs(%se : tensor<4xf32>) -> tensor<4xf32>
  %s0 = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
    ins(%p0 : tensor<4x8xf32>) outs(%si : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %t = arith.addf %o, %a : f32
    linalg.yield %t : f32
  } -> tensor<4xf32>
  %y0 = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
    ins(%p0, %s0 : tensor<4x8xf32>, tensor<4xf32>) outs(%e0 : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %u = arith.divf %a, %b : f32
    linalg.yield %u : f32
  } -> tensor<4x8xf32>
  return %y0 : tensor<4x8xf32>
}

// Along the outer dim no kernel takes rows.
// CHECK-LABEL: func.func @softmax_of_columns(
// CHECK-NOT:       arith.maximumf
// CHECK:         return
func.func @softmax_of_columns(%x0: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<4x8xf32>
  %p0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
    ins(%x0 : tensor<4x8xf32>) outs(%e0 : tensor<4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = math.exp %a : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  %se = tensor.empty() : tensor<8xf32>
  %si = linalg.fill ins(%zero : f32) outs(%se : tensor<8xf32>) -> tensor<8xf32>
  %s0 = linalg.generic {indexing_maps = [#id, #column], iterator_types = ["reduction", "parallel"]}
    ins(%p0 : tensor<4x8xf32>) outs(%si : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %t = arith.addf %o, %a : f32
    linalg.yield %t : f32
  } -> tensor<8xf32>
  %y0 = linalg.generic {indexing_maps = [#id, #column, #id], iterator_types = ["parallel", "parallel"]}
    ins(%p0, %s0 : tensor<4x8xf32>, tensor<8xf32>) outs(%e0 : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %u = arith.divf %a, %b : f32
    linalg.yield %u : f32
  } -> tensor<4x8xf32>
  return %y0 : tensor<4x8xf32>
}

// What is divided is not what is summed.
// CHECK-LABEL: func.func @no_softmax(
// CHECK-NOT:       arith.maximumf
// CHECK:         return
func.func @no_softmax(%x0: tensor<4x8xf32>, %u0: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<4x8xf32>
  %p0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
    ins(%x0 : tensor<4x8xf32>) outs(%e0 : tensor<4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = math.exp %a : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  %se = tensor.empty() : tensor<4xf32>
  %si = linalg.fill ins(%zero : f32) outs(%se : tensor<4xf32>) -> tensor<4xf32>
  %s0 = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
    ins(%u0 : tensor<4x8xf32>) outs(%si : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %t = arith.addf %o, %a : f32
    linalg.yield %t : f32
  } -> tensor<4xf32>
  %y0 = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
    ins(%p0, %s0 : tensor<4x8xf32>, tensor<4xf32>) outs(%e0 : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %u = arith.divf %a, %b : f32
    linalg.yield %u : f32
  } -> tensor<4x8xf32>
  return %y0 : tensor<4x8xf32>
}

// The logarithm of a softmax is no logarithm of 0 where the softmax is.
// CHECK-LABEL: func.func @log_softmax(
// CHECK:           arith.maximumf
// CHECK:           arith.subf
// CHECK:           math.exp
// CHECK:           math.log
// CHECK-NEXT:      arith.subf
// CHECK-NOT:       arith.divf
// CHECK:         return
func.func @log_softmax(%x0: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<4x8xf32>
  %p0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
    ins(%x0 : tensor<4x8xf32>) outs(%e0 : tensor<4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = math.exp %a : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  %se = tensor.empty() : tensor<4xf32>
  %si = linalg.fill ins(%zero : f32) outs(%se : tensor<4xf32>) -> tensor<4xf32>
  %s0 = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
    ins(%p0 : tensor<4x8xf32>) outs(%si : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %t = arith.addf %o, %a : f32
    linalg.yield %t : f32
  } -> tensor<4xf32>
  %y0 = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
    ins(%p0, %s0 : tensor<4x8xf32>, tensor<4xf32>) outs(%e0 : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %u = arith.divf %a, %b : f32
    %l = math.log %u : f32
    linalg.yield %l : f32
  } -> tensor<4x8xf32>
  return %y0 : tensor<4x8xf32>
}

// x / 2 + x / 2 * erf(x / sqrt(2)), in two ops.
// CHECK-LABEL: func.func @gelu(
// CHECK:         %[[Y:.*]] = linalg.generic {{.*}} ins(%arg0 : tensor<4x8xf32>)
// CHECK:           math.erf
// CHECK:           arith.mulf %in,
// CHECK:           arith.addf
// CHECK-NEXT:      arith.mulf
// CHECK:         return %[[Y]]
func.func @gelu(%x0: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %h0 = arith.constant 0.5 : f32
  %r0 = arith.constant 0.70710678 : f32
  %e0 = tensor.empty() : tensor<4x8xf32>
  %f0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
    ins(%x0 : tensor<4x8xf32>) outs(%e0 : tensor<4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %u = arith.mulf %a, %r0 : f32
    %w = math.erf %u : f32
    linalg.yield %w : f32
  } -> tensor<4x8xf32>
  %y0 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
    ins(%x0, %f0 : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e0 : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %u = arith.mulf %a, %h0 : f32
    %w = arith.mulf %u, %b : f32
    %s = arith.addf %u, %w : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  return %y0 : tensor<4x8xf32>
}

// Not half of it.
// CHECK-LABEL: func.func @no_gelu(
// CHECK:           math.erf
// CHECK-NEXT:      linalg.yield
func.func @no_gelu(%x0: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %h0 = arith.constant 0.50001 : f32
  %r0 = arith.constant 0.70710678 : f32
  %e0 = tensor.empty() : tensor<4x8xf32>
  %f0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
    ins(%x0 : tensor<4x8xf32>) outs(%e0 : tensor<4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %u = arith.mulf %a, %r0 : f32
    %w = math.erf %u : f32
    linalg.yield %w : f32
  } -> tensor<4x8xf32>
  %y0 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
    ins(%x0, %f0 : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e0 : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %u = arith.mulf %a, %h0 : f32
    %w = arith.mulf %u, %b : f32
    %s = arith.addf %u, %w : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  return %y0 : tensor<4x8xf32>
}

// Each step is rounded to 16 bits.
// CHECK-LABEL: func.func @gelu_of_halves(
// CHECK:           math.erf
// CHECK-NEXT:      linalg.yield
func.func @gelu_of_halves(%x0: tensor<4x8xf16>) -> tensor<4x8xf16> {
  %h0 = arith.constant 0.5 : f16
  %r0 = arith.constant 0.70710678 : f16
  %e0 = tensor.empty() : tensor<4x8xf16>
  %f0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
    ins(%x0 : tensor<4x8xf16>) outs(%e0 : tensor<4x8xf16>) {
  ^bb0(%a: f16, %o: f16):
    %u = arith.mulf %a, %r0 : f16
    %w = math.erf %u : f16
    linalg.yield %w : f16
  } -> tensor<4x8xf16>
  %y0 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
    ins(%x0, %f0 : tensor<4x8xf16>, tensor<4x8xf16>) outs(%e0 : tensor<4x8xf16>) {
  ^bb0(%a: f16, %b: f16, %o: f16):
    %u = arith.mulf %a, %h0 : f16
    %w = arith.mulf %u, %b : f16
    %s = arith.addf %u, %w : f16
    linalg.yield %s : f16
  } -> tensor<4x8xf16>
  return %y0 : tensor<4x8xf16>
}

// A number that the query is multiplied by goes to the scores.
// CHECK-LABEL: func.func @attention(
// CHECK:         %[[S:.*]] = linalg.generic {{.*}} ins(%arg0, %arg1 :
// CHECK:         linalg.generic {{.*}} ins(%[[S]] : tensor<6x5x3xf32>)
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      %[[C:.*]] = arith.constant 3.000000e-01 : f32
// CHECK-NEXT:      arith.mulf %{{.*}}, %[[C]] : f32
func.func @attention(%q0: tensor<6x5x4xf32>, %k0: tensor<6x3x4xf32>, %v0: tensor<6x3x2xf32>) -> tensor<6x5x2xf32> {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %c0 = arith.constant 0.3 : f32
  %qe = tensor.empty() : tensor<6x5x4xf32>
  %t0 = linalg.generic {indexing_maps = [#three, #three], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%q0 : tensor<6x5x4xf32>) outs(%qe : tensor<6x5x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %u = arith.mulf %a, %c0 : f32
    linalg.yield %u : f32
  } -> tensor<6x5x4xf32>
  %se = tensor.empty() : tensor<6x5x3xf32>
  %si = linalg.fill ins(%zero : f32) outs(%se : tensor<6x5x3xf32>) -> tensor<6x5x3xf32>
  %s0 = linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
    ins(%t0, %k0 : tensor<6x5x4xf32>, tensor<6x3x4xf32>) outs(%si : tensor<6x5x3xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %u = arith.mulf %a, %b fastmath<contract> : f32
    %w = arith.addf %o, %u fastmath<contract> : f32
    linalg.yield %w : f32
  } -> tensor<6x5x3xf32>
  %re = tensor.empty() : tensor<6x5xf32>
  %li = linalg.fill ins(%low : f32) outs(%re : tensor<6x5xf32>) -> tensor<6x5xf32>
  %l0 = linalg.generic {indexing_maps = [#three, #rows], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%s0 : tensor<6x5x3xf32>) outs(%li : tensor<6x5xf32>) {
  ^bb0(%a: f32, %o: f32):
    %u = arith.maximumf %o, %a : f32
    linalg.yield %u : f32
  } -> tensor<6x5xf32>
  %p0 = linalg.generic {indexing_maps = [#three, #rows, #three], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%s0, %l0 : tensor<6x5x3xf32>, tensor<6x5xf32>) outs(%se : tensor<6x5x3xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %u = arith.subf %a, %b : f32
    %w = math.exp %u : f32
    linalg.yield %w : f32
  } -> tensor<6x5x3xf32>
  %zi = linalg.fill ins(%zero : f32) outs(%re : tensor<6x5xf32>) -> tensor<6x5xf32>
  %z0 = linalg.generic {indexing_maps = [#three, #rows], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%p0 : tensor<6x5x3xf32>) outs(%zi : tensor<6x5xf32>) {
  ^bb0(%a: f32, %o: f32):
    %u = arith.addf %o, %a : f32
    linalg.yield %u : f32
  } -> tensor<6x5xf32>
  %w0 = linalg.generic {indexing_maps = [#three, #rows, #three], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%p0, %z0 : tensor<6x5x3xf32>, tensor<6x5xf32>) outs(%se : tensor<6x5x3xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %u = arith.divf %a, %b : f32
    linalg.yield %u : f32
  } -> tensor<6x5x3xf32>
  %ye = tensor.empty() : tensor<6x5x2xf32>
  %yi = linalg.fill ins(%zero : f32) outs(%ye : tensor<6x5x2xf32>) -> tensor<6x5x2xf32>
  %y0 = linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
    ins(%w0, %v0 : tensor<6x5x3xf32>, tensor<6x3x2xf32>) outs(%yi : tensor<6x5x2xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %u = arith.mulf %a, %b fastmath<contract> : f32
    %w = arith.addf %o, %u fastmath<contract> : f32
    linalg.yield %w : f32
  } -> tensor<6x5x2xf32>
  return %y0 : tensor<6x5x2xf32>
}

// Something else reads the multiplied query.
// CHECK-LABEL: func.func @query_is_read(
// CHECK:         %[[T:.*]] = linalg.generic {{.*}} ins(%arg0 :
// CHECK:         linalg.generic {{.*}} ins(%[[T]], %arg1 :
// CHECK:         return %{{.*}}, %[[T]]
func.func @query_is_read(%q0: tensor<6x5x4xf32>, %k0: tensor<6x3x4xf32>, %v0: tensor<6x3x2xf32>) -> (tensor<6x5x2xf32>, tensor<6x5x4xf32>) {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %c0 = arith.constant 0.3 : f32
  %qe = tensor.empty() : tensor<6x5x4xf32>
  %t0 = linalg.generic {indexing_maps = [#three, #three], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%q0 : tensor<6x5x4xf32>) outs(%qe : tensor<6x5x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %u = arith.mulf %a, %c0 : f32
    linalg.yield %u : f32
  } -> tensor<6x5x4xf32>
  %se = tensor.empty() : tensor<6x5x3xf32>
  %si = linalg.fill ins(%zero : f32) outs(%se : tensor<6x5x3xf32>) -> tensor<6x5x3xf32>
  %s0 = linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
    ins(%t0, %k0 : tensor<6x5x4xf32>, tensor<6x3x4xf32>) outs(%si : tensor<6x5x3xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %u = arith.mulf %a, %b fastmath<contract> : f32
    %w = arith.addf %o, %u fastmath<contract> : f32
    linalg.yield %w : f32
  } -> tensor<6x5x3xf32>
  %re = tensor.empty() : tensor<6x5xf32>
  %li = linalg.fill ins(%low : f32) outs(%re : tensor<6x5xf32>) -> tensor<6x5xf32>
  %l0 = linalg.generic {indexing_maps = [#three, #rows], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%s0 : tensor<6x5x3xf32>) outs(%li : tensor<6x5xf32>) {
  ^bb0(%a: f32, %o: f32):
    %u = arith.maximumf %o, %a : f32
    linalg.yield %u : f32
  } -> tensor<6x5xf32>
  %p0 = linalg.generic {indexing_maps = [#three, #rows, #three], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%s0, %l0 : tensor<6x5x3xf32>, tensor<6x5xf32>) outs(%se : tensor<6x5x3xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %u = arith.subf %a, %b : f32
    %w = math.exp %u : f32
    linalg.yield %w : f32
  } -> tensor<6x5x3xf32>
  %zi = linalg.fill ins(%zero : f32) outs(%re : tensor<6x5xf32>) -> tensor<6x5xf32>
  %z0 = linalg.generic {indexing_maps = [#three, #rows], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%p0 : tensor<6x5x3xf32>) outs(%zi : tensor<6x5xf32>) {
  ^bb0(%a: f32, %o: f32):
    %u = arith.addf %o, %a : f32
    linalg.yield %u : f32
  } -> tensor<6x5xf32>
  %w0 = linalg.generic {indexing_maps = [#three, #rows, #three], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%p0, %z0 : tensor<6x5x3xf32>, tensor<6x5xf32>) outs(%se : tensor<6x5x3xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %u = arith.divf %a, %b : f32
    linalg.yield %u : f32
  } -> tensor<6x5x3xf32>
  %ye = tensor.empty() : tensor<6x5x2xf32>
  %yi = linalg.fill ins(%zero : f32) outs(%ye : tensor<6x5x2xf32>) -> tensor<6x5x2xf32>
  %y0 = linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
    ins(%w0, %v0 : tensor<6x5x3xf32>, tensor<6x3x2xf32>) outs(%yi : tensor<6x5x2xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %u = arith.mulf %a, %b fastmath<contract> : f32
    %w = arith.addf %o, %u fastmath<contract> : f32
    linalg.yield %w : f32
  } -> tensor<6x5x2xf32>
  return %y0, %t0 : tensor<6x5x2xf32>, tensor<6x5x4xf32>
}

// Batch and heads stay two dims from the scores to the end; the mask knows one of them alone.
// CHECK-LABEL: func.func @heads(
// CHECK-DAG:     %[[Q:.*]] = tensor.expand_shape %arg0 {{.*}} into tensor<2x3x5x4xf32>
// CHECK-DAG:     %[[K:.*]] = tensor.expand_shape %arg1 {{.*}} into tensor<2x3x3x4xf32>
// CHECK:         %[[S:.*]] = linalg.generic {{.*}} ins(%[[Q]], %[[K]] :
// CHECK:         %[[A:.*]] = linalg.generic {{.*}} ins(%[[S]], %arg3 :
// CHECK:         linalg.generic {{.*}} ins(%[[A]] : tensor<2x3x5x3xf32>) outs(%{{.*}} : tensor<2x3x5xf32>)
// CHECK-NOT:     tensor.collapse_shape {{.*}} into tensor<6x5x3xf32>
// CHECK:         %[[Y:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<2x3x5x2xf32>)
// CHECK:         tensor.collapse_shape %[[Y]]
func.func @heads(%q0: tensor<6x5x4xf32>, %k0: tensor<6x3x4xf32>, %v0: tensor<6x3x2xf32>, %m0: tensor<2x1x5x3xf32>) -> tensor<6x5x2xf32> {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %c0 = arith.constant 0.3 : f32
  %se = tensor.empty() : tensor<6x5x3xf32>
  %si = linalg.fill ins(%zero : f32) outs(%se : tensor<6x5x3xf32>) -> tensor<6x5x3xf32>
  %s0 = linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
    ins(%q0, %k0 : tensor<6x5x4xf32>, tensor<6x3x4xf32>) outs(%si : tensor<6x5x3xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %u = arith.mulf %a, %b fastmath<contract> : f32
    %w = arith.addf %o, %u fastmath<contract> : f32
    linalg.yield %w : f32
  } -> tensor<6x5x3xf32>
  %s4 = tensor.expand_shape %s0 [[0, 1], [2], [3]] output_shape [2, 3, 5, 3] : tensor<6x5x3xf32> into tensor<2x3x5x3xf32>
  %ae = tensor.empty() : tensor<2x3x5x3xf32>
  %a4 = linalg.generic {indexing_maps = [#four, #mask, #four], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%s4, %m0 : tensor<2x3x5x3xf32>, tensor<2x1x5x3xf32>) outs(%ae : tensor<2x3x5x3xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %u = arith.addf %a, %b : f32
    linalg.yield %u : f32
  } -> tensor<2x3x5x3xf32>
  %x0 = tensor.collapse_shape %a4 [[0, 1], [2], [3]] : tensor<2x3x5x3xf32> into tensor<6x5x3xf32>
  %re = tensor.empty() : tensor<6x5xf32>
  %li = linalg.fill ins(%low : f32) outs(%re : tensor<6x5xf32>) -> tensor<6x5xf32>
  %l0 = linalg.generic {indexing_maps = [#three, #rows], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%x0 : tensor<6x5x3xf32>) outs(%li : tensor<6x5xf32>) {
  ^bb0(%a: f32, %o: f32):
    %u = arith.maximumf %o, %a : f32
    linalg.yield %u : f32
  } -> tensor<6x5xf32>
  %p0 = linalg.generic {indexing_maps = [#three, #rows, #three], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%x0, %l0 : tensor<6x5x3xf32>, tensor<6x5xf32>) outs(%se : tensor<6x5x3xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %u = arith.subf %a, %b : f32
    %w = math.exp %u : f32
    linalg.yield %w : f32
  } -> tensor<6x5x3xf32>
  %zi = linalg.fill ins(%zero : f32) outs(%re : tensor<6x5xf32>) -> tensor<6x5xf32>
  %z0 = linalg.generic {indexing_maps = [#three, #rows], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%p0 : tensor<6x5x3xf32>) outs(%zi : tensor<6x5xf32>) {
  ^bb0(%a: f32, %o: f32):
    %u = arith.addf %o, %a : f32
    linalg.yield %u : f32
  } -> tensor<6x5xf32>
  %w0 = linalg.generic {indexing_maps = [#three, #rows, #three], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%p0, %z0 : tensor<6x5x3xf32>, tensor<6x5xf32>) outs(%se : tensor<6x5x3xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %u = arith.divf %a, %b : f32
    linalg.yield %u : f32
  } -> tensor<6x5x3xf32>
  %ye = tensor.empty() : tensor<6x5x2xf32>
  %yi = linalg.fill ins(%zero : f32) outs(%ye : tensor<6x5x2xf32>) -> tensor<6x5x2xf32>
  %y0 = linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
    ins(%w0, %v0 : tensor<6x5x3xf32>, tensor<6x3x2xf32>) outs(%yi : tensor<6x5x2xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %u = arith.mulf %a, %b fastmath<contract> : f32
    %w = arith.addf %o, %u fastmath<contract> : f32
    linalg.yield %w : f32
  } -> tensor<6x5x2xf32>
  return %y0 : tensor<6x5x2xf32>
}

// The scores are a result in the one form that they have there.
// CHECK-LABEL: func.func @scores_are_read(
// CHECK:         linalg.generic {{.*}} ins(%arg0, %arg1 :
// CHECK:         tensor.collapse_shape {{.*}} into tensor<6x5x3xf32>
func.func @scores_are_read(%q0: tensor<6x5x4xf32>, %k0: tensor<6x3x4xf32>, %v0: tensor<6x3x2xf32>, %m0: tensor<2x1x5x3xf32>) -> (tensor<6x5x2xf32>, tensor<6x5x3xf32>) {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %c0 = arith.constant 0.3 : f32
  %se = tensor.empty() : tensor<6x5x3xf32>
  %si = linalg.fill ins(%zero : f32) outs(%se : tensor<6x5x3xf32>) -> tensor<6x5x3xf32>
  %s0 = linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
    ins(%q0, %k0 : tensor<6x5x4xf32>, tensor<6x3x4xf32>) outs(%si : tensor<6x5x3xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %u = arith.mulf %a, %b fastmath<contract> : f32
    %w = arith.addf %o, %u fastmath<contract> : f32
    linalg.yield %w : f32
  } -> tensor<6x5x3xf32>
  %s4 = tensor.expand_shape %s0 [[0, 1], [2], [3]] output_shape [2, 3, 5, 3] : tensor<6x5x3xf32> into tensor<2x3x5x3xf32>
  %ae = tensor.empty() : tensor<2x3x5x3xf32>
  %a4 = linalg.generic {indexing_maps = [#four, #mask, #four], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%s4, %m0 : tensor<2x3x5x3xf32>, tensor<2x1x5x3xf32>) outs(%ae : tensor<2x3x5x3xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %u = arith.addf %a, %b : f32
    linalg.yield %u : f32
  } -> tensor<2x3x5x3xf32>
  %x0 = tensor.collapse_shape %a4 [[0, 1], [2], [3]] : tensor<2x3x5x3xf32> into tensor<6x5x3xf32>
  %re = tensor.empty() : tensor<6x5xf32>
  %li = linalg.fill ins(%low : f32) outs(%re : tensor<6x5xf32>) -> tensor<6x5xf32>
  %l0 = linalg.generic {indexing_maps = [#three, #rows], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%x0 : tensor<6x5x3xf32>) outs(%li : tensor<6x5xf32>) {
  ^bb0(%a: f32, %o: f32):
    %u = arith.maximumf %o, %a : f32
    linalg.yield %u : f32
  } -> tensor<6x5xf32>
  %p0 = linalg.generic {indexing_maps = [#three, #rows, #three], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%x0, %l0 : tensor<6x5x3xf32>, tensor<6x5xf32>) outs(%se : tensor<6x5x3xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %u = arith.subf %a, %b : f32
    %w = math.exp %u : f32
    linalg.yield %w : f32
  } -> tensor<6x5x3xf32>
  %zi = linalg.fill ins(%zero : f32) outs(%re : tensor<6x5xf32>) -> tensor<6x5xf32>
  %z0 = linalg.generic {indexing_maps = [#three, #rows], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%p0 : tensor<6x5x3xf32>) outs(%zi : tensor<6x5xf32>) {
  ^bb0(%a: f32, %o: f32):
    %u = arith.addf %o, %a : f32
    linalg.yield %u : f32
  } -> tensor<6x5xf32>
  %w0 = linalg.generic {indexing_maps = [#three, #rows, #three], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%p0, %z0 : tensor<6x5x3xf32>, tensor<6x5xf32>) outs(%se : tensor<6x5x3xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %u = arith.divf %a, %b : f32
    linalg.yield %u : f32
  } -> tensor<6x5x3xf32>
  %ye = tensor.empty() : tensor<6x5x2xf32>
  %yi = linalg.fill ins(%zero : f32) outs(%ye : tensor<6x5x2xf32>) -> tensor<6x5x2xf32>
  %y0 = linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
    ins(%w0, %v0 : tensor<6x5x3xf32>, tensor<6x3x2xf32>) outs(%yi : tensor<6x5x2xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %u = arith.mulf %a, %b fastmath<contract> : f32
    %w = arith.addf %o, %u fastmath<contract> : f32
    linalg.yield %w : f32
  } -> tensor<6x5x2xf32>
  return %y0, %x0 : tensor<6x5x2xf32>, tensor<6x5x3xf32>
}
