// RUN: %opt %s --passes=separate-windows | filecheck %s

#data = affine_map<(c, h, w, i, j) -> (c, h * 2 + i, w * 2 + j)>
#window = affine_map<(c, h, w, i, j) -> (i, j)>
#result = affine_map<(c, h, w, i, j) -> (c, h, w)>

// The rows of windows are combined first. What is padded beside them is put around the combined rows.
// CHECK:       #[[ROWS:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1 * 2 + d3, d2)>
// CHECK:       #[[COLUMNS:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2 * 2 + d3)>
// CHECK-LABEL: func.func @maximum(
// CHECK:         tensor.pad %arg0 low[0, 1, 0] high[0, 0, 0]
// CHECK:         tensor<8x21x20xf32>
// CHECK:         linalg.generic {indexing_maps = [#[[ROWS]], {{.*}} outs(%{{.*}} : tensor<8x10x20xf32>)
// CHECK:         arith.maximumf
// CHECK:         tensor.pad %{{.*}} low[0, 0, 1] high[0, 0, 0]
// CHECK:         linalg.generic {indexing_maps = [#[[COLUMNS]], {{.*}} outs(%{{.*}} : tensor<8x10x10xf32>)
// CHECK:         arith.maximumf
func.func @maximum(%x: tensor<8x20x20xf32>) -> tensor<8x10x10xf32> {
  %lowest = arith.constant 0xFF800000 : f32
  %p = tensor.pad %x low[0, 1, 1] high[0, 0, 0] {
  ^bb0(%a: index, %b: index, %c: index):
    tensor.yield %lowest : f32
  } : tensor<8x20x20xf32> to tensor<8x21x21xf32>
  %n = tensor.empty() : tensor<3x3xf32>
  %e = tensor.empty() : tensor<8x10x10xf32>
  %f = linalg.fill ins(%lowest : f32) outs(%e : tensor<8x10x10xf32>) -> tensor<8x10x10xf32>
  %r = linalg.generic {indexing_maps = [#data, #window, #result], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
    ins(%p, %n : tensor<8x21x21xf32>, tensor<3x3xf32>) outs(%f : tensor<8x10x10xf32>) {
  ^bb0(%v: f32, %k: f32, %o: f32):
    %m = arith.maximumf %o, %v : f32
    linalg.yield %m : f32
  } -> tensor<8x10x10xf32>
  return %r : tensor<8x10x10xf32>
}

// A number that is not what sums begin with is part of them: the padding stays where it is.
// CHECK-LABEL: func.func @padded_with_one(
// CHECK:         tensor.pad %arg0 low[0, 1, 1] high[0, 0, 0]
// CHECK:         linalg.generic {indexing_maps = [#[[ROWS]],
// CHECK-NOT:     tensor.pad
// CHECK:         linalg.generic {indexing_maps = [#[[COLUMNS]],
func.func @padded_with_one(%x: tensor<8x20x20xf32>) -> tensor<8x10x10xf32> {
  %one = arith.constant 1.0 : f32
  %zero = arith.constant 0.0 : f32
  %p = tensor.pad %x low[0, 1, 1] high[0, 0, 0] {
  ^bb0(%a: index, %b: index, %c: index):
    tensor.yield %one : f32
  } : tensor<8x20x20xf32> to tensor<8x21x21xf32>
  %n = tensor.empty() : tensor<3x3xf32>
  %e = tensor.empty() : tensor<8x10x10xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x10x10xf32>) -> tensor<8x10x10xf32>
  %r = linalg.generic {indexing_maps = [#data, #window, #result], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
    ins(%p, %n : tensor<8x21x21xf32>, tensor<3x3xf32>) outs(%f : tensor<8x10x10xf32>) {
  ^bb0(%v: f32, %k: f32, %o: f32):
    %m = arith.addf %o, %v : f32
    linalg.yield %m : f32
  } -> tensor<8x10x10xf32>
  return %r : tensor<8x10x10xf32>
}

// A sum that begins with another number than 0 would have it twice.
// CHECK-LABEL: func.func @rejects_start(
// CHECK-COUNT-1: linalg.generic
// CHECK-NOT:     linalg.generic
func.func @rejects_start(%x: tensor<8x21x21xf32>) -> tensor<8x10x10xf32> {
  %one = arith.constant 1.0 : f32
  %n = tensor.empty() : tensor<3x3xf32>
  %e = tensor.empty() : tensor<8x10x10xf32>
  %f = linalg.fill ins(%one : f32) outs(%e : tensor<8x10x10xf32>) -> tensor<8x10x10xf32>
  %r = linalg.generic {indexing_maps = [#data, #window, #result], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
    ins(%x, %n : tensor<8x21x21xf32>, tensor<3x3xf32>) outs(%f : tensor<8x10x10xf32>) {
  ^bb0(%v: f32, %k: f32, %o: f32):
    %m = arith.addf %o, %v : f32
    linalg.yield %m : f32
  } -> tensor<8x10x10xf32>
  return %r : tensor<8x10x10xf32>
}

// Vectors lie along channels, and windows do not.
// CHECK-LABEL: func.func @rejects_channels_last(
// CHECK-COUNT-1: linalg.generic
// CHECK-NOT:     linalg.generic
func.func @rejects_channels_last(%x: tensor<21x21x8xf32>) -> tensor<10x10x8xf32> {
  %lowest = arith.constant 0xFF800000 : f32
  %n = tensor.empty() : tensor<3x3xf32>
  %e = tensor.empty() : tensor<10x10x8xf32>
  %f = linalg.fill ins(%lowest : f32) outs(%e : tensor<10x10x8xf32>) -> tensor<10x10x8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(h, w, c, i, j) -> (h * 2 + i, w * 2 + j, c)>, affine_map<(h, w, c, i, j) -> (i, j)>, affine_map<(h, w, c, i, j) -> (h, w, c)>],
      iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
    ins(%x, %n : tensor<21x21x8xf32>, tensor<3x3xf32>) outs(%f : tensor<10x10x8xf32>) {
  ^bb0(%v: f32, %k: f32, %o: f32):
    %m = arith.maximumf %o, %v : f32
    linalg.yield %m : f32
  } -> tensor<10x10x8xf32>
  return %r : tensor<10x10x8xf32>
}
