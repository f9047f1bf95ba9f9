// RUN: %opt %s --passes=apply-schedule,vectorize | filecheck %s

// The accumulators of a matmul are vectors that its k loop carries: each step is one FMA for each row.
// CHECK-LABEL: func.func @matmul(
// CHECK:         scf.for
// CHECK:           %[[SUM:.*]] = scf.for %{{.*}} = %{{.*}} iter_args(%{{.*}} = %{{.*}}) -> (vector<2x4xf32>)
// CHECK:             %[[B:.*]] = vector.transfer_read {{.*}} : tensor<24x4xf32>, vector<4xf32>
// CHECK:             vector.fma %{{.*}}, %[[B]], %{{.*}} : vector<4xf32>
// CHECK:             vector.fma %{{.*}}, %[[B]], %{{.*}} : vector<4xf32>
// CHECK-NOT:         vector.fma
// CHECK:           vector.transfer_write %[[SUM]]
func.func @matmul(%x: tensor<2x24xf32>, %w: tensor<24x4xf32>) -> tensor<2x4xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x4xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<2x4xf32>) -> tensor<2x4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>],
                       iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%x, %w : tensor<2x24xf32>, tensor<24x4xf32>) outs(%f : tensor<2x4xf32>) {
  ^bb0(%v: f32, %u: f32, %o: f32):
    %m = arith.mulf %v, %u fastmath<contract> : f32
    %s = arith.addf %o, %m fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<2x4xf32>
  return %r : tensor<2x4xf32>
}

// Stored bfloat16 is widened where it is read, and the contraction is one of float32.
// CHECK-LABEL: func.func @narrow_matmul(
// CHECK:         scf.for
// CHECK:             %[[B:.*]] = vector.transfer_read {{.*}} : tensor<24x4xbf16>, vector<4xbf16>
// CHECK:             %[[W:.*]] = arith.extf %[[B]] : vector<4xbf16> to vector<4xf32>
// CHECK:             vector.fma %{{.*}}, %[[W]], %{{.*}} : vector<4xf32>
// CHECK:             vector.fma %{{.*}}, %[[W]], %{{.*}} : vector<4xf32>
func.func @narrow_matmul(%x: tensor<2x24xbf16>, %w: tensor<24x4xbf16>) -> tensor<2x4xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x4xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<2x4xf32>) -> tensor<2x4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>],
                       iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%x, %w : tensor<2x24xbf16>, tensor<24x4xbf16>) outs(%f : tensor<2x4xf32>) {
  ^bb0(%v: bf16, %u: bf16, %o: f32):
    %a = arith.extf %v : bf16 to f32
    %b = arith.extf %u : bf16 to f32
    %m = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %m fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<2x4xf32>
  return %r : tensor<2x4xf32>
}

// What runs as plain loops has no vectors.
// CHECK-LABEL: func.func @rejects_plain_loops(
// CHECK-NOT:     vector.
// CHECK:         tensor.insert_slice
func.func @rejects_plain_loops(%x: tensor<2x3xf32>, %y: tensor<4x3xf32>) -> tensor<4x3xf32> {
  %r = tensor.insert_slice %x into %y[0, 0] [2, 3] [2, 1] : tensor<2x3xf32> into tensor<4x3xf32>
  return %r : tensor<4x3xf32>
}
