// RUN: %opt %s --passes=store-padded | filecheck %s

#id = affine_map<(n, h, w, c) -> (n, h, w, c)>

// The negation reads its place inside of the padding: what is padded is stored once.
// CHECK-LABEL: func.func @two_readers(
// CHECK:         %[[R:.*]] = linalg.generic
// CHECK:         %[[P:.*]] = tensor.pad %[[R]] low[0, 1, 1, 0] high[0, 1, 1, 0]
// CHECK:         %[[Q:.*]] = tensor.extract_slice %[[P]][0, 1, 1, 0] [1, 4, 4, 8] [1, 1, 1, 1]
// CHECK:         linalg.generic {{.*}} ins(%[[Q]] : tensor<1x4x4x8xf32>)
// CHECK:         linalg.generic {{.*}} ins(%[[P]] : tensor<1x6x6x8xf32>)
func.func @two_readers(%x: tensor<1x4x4x8xf32>) -> (tensor<1x4x4x8xf32>, tensor<1x6x6x8xf32>) {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x4x4x8xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%x : tensor<1x4x4x8xf32>) outs(%e : tensor<1x4x4x8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %m = arith.maximumf %i, %z : f32
    linalg.yield %m : f32
  } -> tensor<1x4x4x8xf32>
  %s = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%r : tensor<1x4x4x8xf32>) outs(%e : tensor<1x4x4x8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %m = arith.negf %i : f32
    linalg.yield %m : f32
  } -> tensor<1x4x4x8xf32>
  %p = tensor.pad %r low[0, 1, 1, 0] high[0, 1, 1, 0] {
  ^bb0(%a: index, %b: index, %c: index, %d: index):
    tensor.yield %z : f32
  } : tensor<1x4x4x8xf32> to tensor<1x6x6x8xf32>
  %f = tensor.empty() : tensor<1x6x6x8xf32>
  %t = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%p : tensor<1x6x6x8xf32>) outs(%f : tensor<1x6x6x8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %m = arith.negf %i : f32
    linalg.yield %m : f32
  } -> tensor<1x6x6x8xf32>
  return %s, %t : tensor<1x4x4x8xf32>, tensor<1x6x6x8xf32>
}

// What leaves the program must lie there without a padding.
// CHECK-LABEL: func.func @rejects_result(
// CHECK-NOT:     tensor.extract_slice
func.func @rejects_result(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<6x8xf32>) {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
                       iterator_types = ["parallel", "parallel"]}
    ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %m = arith.negf %i : f32
    linalg.yield %m : f32
  } -> tensor<4x8xf32>
  %p = tensor.pad %r low[1, 0] high[1, 0] {
  ^bb0(%a: index, %b: index):
    tensor.yield %z : f32
  } : tensor<4x8xf32> to tensor<6x8xf32>
  return %r, %p : tensor<4x8xf32>, tensor<6x8xf32>
}

// A padding along the axis of vectors would be written element by element.
// CHECK-LABEL: func.func @rejects_innermost(
// CHECK-NOT:     tensor.extract_slice
func.func @rejects_innermost(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x10xf32>) {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
                       iterator_types = ["parallel", "parallel"]}
    ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %m = arith.negf %i : f32
    linalg.yield %m : f32
  } -> tensor<4x8xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
                       iterator_types = ["parallel", "parallel"]}
    ins(%r : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %m = arith.negf %i : f32
    linalg.yield %m : f32
  } -> tensor<4x8xf32>
  %p = tensor.pad %r low[0, 1] high[0, 1] {
  ^bb0(%a: index, %b: index):
    tensor.yield %z : f32
  } : tensor<4x8xf32> to tensor<4x10xf32>
  return %s, %p : tensor<4x8xf32>, tensor<4x10xf32>
}
