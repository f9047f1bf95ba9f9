// RUN: %opt %s --passes=start-at-zero | filecheck %s

#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>

// A product that begins with a bias begins with zero, and the bias is added behind it.
// CHECK-LABEL: func.func @main
// CHECK-SAME:  %[[BIAS:[a-z0-9]+]]: tensor<4x16xf32>)
// CHECK:       %[[ZERO:.*]] = linalg.fill
// CHECK:       %[[SUM:.*]] = linalg.generic {{.*}} outs(%[[ZERO]]
// CHECK:       arith.mulf {{.*}} fastmath<contract>
// CHECK:       arith.addf {{.*}} fastmath<contract>
// CHECK:       linalg.generic {{.*}} ins(%[[SUM]], %[[BIAS]]
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>, %bias: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %r = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<4x8xf32>, tensor<8x16xf32>) outs(%bias : tensor<4x16xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %m = arith.mulf %p, %q : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<4x16xf32>
  return %r : tensor<4x16xf32>
}

// Open sizes are those of what it began with.
// CHECK-LABEL: func.func @of_open_sizes
// CHECK-SAME:  %[[BIAS:[a-z0-9]+]]: tensor<?x16xf32>)
// CHECK:       %[[N:.*]] = tensor.dim %[[BIAS]]
// CHECK:       %[[ZERO:.*]] = linalg.fill
// CHECK:       %[[SUM:.*]] = linalg.generic {{.*}} outs(%[[ZERO]]
// CHECK-NOT:   cf.assert
// CHECK:       %[[OUT:.*]] = tensor.empty(%[[N]])
// CHECK:       linalg.generic {{.*}} ins(%[[SUM]], %[[BIAS]] {{.*}} outs(%[[OUT]]
func.func @of_open_sizes(%x: tensor<?x8xf32>, %w: tensor<8x16xf32>, %bias: tensor<?x16xf32>) -> tensor<?x16xf32> {
  %r = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<?x8xf32>, tensor<8x16xf32>) outs(%bias : tensor<?x16xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %m = arith.mulf %p, %q : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<?x16xf32>
  return %r : tensor<?x16xf32>
}

// A bias that is repeated for each row is read where it is.
// CHECK-LABEL: func.func @of_a_repeated_bias
// CHECK-SAME:  %[[BIAS:[a-z0-9]+]]: tensor<16xf32>)
// CHECK:       %[[SUM:.*]] = linalg.generic {{.*}} ins(%arg0, %arg1
// CHECK:       linalg.generic {{.*}} ins(%[[SUM]], %[[BIAS]]
func.func @of_a_repeated_bias(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>, %bias: tensor<16xf32>) -> tensor<4x16xf32> {
  %e = tensor.empty() : tensor<4x16xf32>
  %start = linalg.generic {indexing_maps = [affine_map<(m, n) -> (n)>, affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]} ins(%bias : tensor<16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%p: f32, %o: f32):
    linalg.yield %p : f32
  } -> tensor<4x16xf32>
  %r = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<4x8xf32>, tensor<8x16xf32>) outs(%start : tensor<4x16xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %m = arith.mulf %p, %q : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<4x16xf32>
  return %r : tensor<4x16xf32>
}

// A maximum begins where it does.
// CHECK-LABEL: func.func @rejects_other_reductions
// CHECK-NOT:   linalg.fill
// CHECK:       return
func.func @rejects_other_reductions(%x: tensor<4x8xf32>, %start: tensor<4xf32>) -> tensor<4xf32> {
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x8xf32>) outs(%start : tensor<4xf32>) {
  ^bb0(%p: f32, %o: f32):
    %s = arith.maximumf %o, %p : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  return %r : tensor<4xf32>
}
