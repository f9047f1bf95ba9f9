// RUN: tilewright opt %s --passes=apply-schedule | filecheck %s

#matrix = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (j)>

// One row of the result is one step of the parallel axis.
// CHECK-LABEL: func.func @bias(
// CHECK-SAME:    %[[X:.*]]: memref<4x8xf32>, %[[B:.*]]: memref<8xf32>, %[[R:.*]]: memref<4x8xf32>, %[[LO:.*]]: index, %[[HI:.*]]: index)
// CHECK-SAME:    tw.extent = 4 : i64, tw.schedule = "parallel d0 in 4 x 1:
// CHECK-NOT:     tw.parallel
// CHECK:         %[[XT:.*]] = bufferization.to_tensor %[[X]] restrict
// CHECK:         %[[BT:.*]] = bufferization.to_tensor %[[B]] restrict
// CHECK:         %[[RT:.*]] = bufferization.to_tensor %[[R]] restrict writable
// CHECK:         %[[LOOP:.*]] = scf.for %[[I:.*]] = %[[LO]] to %[[HI]] step %{{.*}} iter_args(%[[D:.*]] = %[[RT]])
// CHECK:           %[[SX:.*]] = tensor.extract_slice %[[XT]][%[[I]], 0] [1, 8] [1, 1]
// CHECK:           linalg.generic {{.*}} ins(%[[SX]], %[[BT]] : tensor<8xf32>, tensor<8xf32>)
// CHECK:           tensor.insert_slice %{{.*}} into %[[D]][%[[I]], 0] [1, 8] [1, 1]
// CHECK:         bufferization.materialize_in_destination %[[LOOP]] in restrict writable %[[R]]
func.func @bias(%x: tensor<4x8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
  %e = tensor.empty() : tensor<4x8xf32>
  %r = linalg.generic {indexing_maps = [#matrix, #row, #matrix], iterator_types = ["parallel", "parallel"]}
    ins(%x, %b : tensor<4x8xf32>, tensor<8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%v: f32, %u: f32, %o: f32):
    %s = arith.addf %v, %u : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}

// A strided convolution (channels last) becomes loops over its window around a matmul: the stride is in the slice.
// CHECK-LABEL: func.func @strided_conv(
// CHECK:         scf.for
// CHECK:           linalg.fill
// CHECK:           scf.for
// CHECK:             tensor.extract_slice %{{.*}} [{{.*}}, 5, 3] [{{.*}}, 2, 1] : tensor<11x11x3xf32>
// CHECK:             linalg.generic {{.*}} iterator_types = ["parallel", "parallel", {{.*}}"reduction"]}
// CHECK-SAME:          attrs =  {tw.role = "contract
func.func @strided_conv(%x: tensor<1x11x11x3xf32>, %w: tensor<3x3x3x4xf32>) -> tensor<1x5x5x4xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x5x5x4xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x5x5x4xf32>) -> tensor<1x5x5x4xf32>
  %r = linalg.generic {
    indexing_maps = [affine_map<(n, f, oh, ow, c, kh, kw) -> (n, oh * 2 + kh, ow * 2 + kw, c)>,
                     affine_map<(n, f, oh, ow, c, kh, kw) -> (kh, kw, c, f)>,
                     affine_map<(n, f, oh, ow, c, kh, kw) -> (n, oh, ow, f)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%x, %w : tensor<1x11x11x3xf32>, tensor<3x3x3x4xf32>) outs(%f : tensor<1x5x5x4xf32>) {
  ^bb0(%v: f32, %u: f32, %o: f32):
    %m = arith.mulf %v, %u fastmath<contract> : f32
    %s = arith.addf %o, %m fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x5x5x4xf32>
  return %r : tensor<1x5x5x4xf32>
}

// No family of schedules takes a padding: it stays whole, and one thread runs it.
// CHECK-LABEL: func.func @rejects_pad(
// CHECK-NOT:     tw.schedule
// CHECK-SAME:    attributes {tw.extent = 1 : i64}
// CHECK-NOT:     scf.for
// CHECK:         tensor.insert_slice
func.func @rejects_pad(%x: tensor<2x3xf32>) -> tensor<4x5xf32> {
  %z = arith.constant 0.5 : f32
  %p = tensor.pad %x low[1, 0] high[1, 2] {
  ^bb0(%i: index, %j: index):
    tensor.yield %z : f32
  } : tensor<2x3xf32> to tensor<4x5xf32>
  return %p : tensor<4x5xf32>
}
