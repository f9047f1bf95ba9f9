// RUN: %opt %s --passes=collapse-loops | filecheck %s

#all = affine_map<(n, c, h, w) -> (n, c, h, w)>
#channel = affine_map<(n, c, h, w) -> (0, c, 0, 0)>

// The planes are walked together, the scale at the channel alone; the unit dim is gone, and the plan's
// word on the arguments stays.
// CHECK:       #[[MATRIX:.*]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK:       #[[ROW:.*]] = affine_map<(d0, d1) -> (d0)>
// CHECK-LABEL: func.func @scale(
// CHECK-SAME:    %arg0: tensor<64x49xf32>, %arg1: tensor<64xf32>) -> tensor<64x49xf32> attributes {tw.in_place = array<i64: 0>}
// CHECK:         linalg.generic {indexing_maps = [#[[MATRIX]], #[[ROW]], #[[MATRIX]]], iterator_types = ["parallel", "parallel"]}
// CHECK:         arith.mulf
func.func @scale(%a: tensor<1x64x7x7xf32>, %s: tensor<1x64x1x1xf32>) -> tensor<1x64x7x7xf32>
    attributes {tw.in_place = array<i64: 0>} {
  %e = tensor.empty() : tensor<1x64x7x7xf32>
  %r = linalg.generic {indexing_maps = [#all, #channel, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%a, %s : tensor<1x64x7x7xf32>, tensor<1x64x1x1xf32>) outs(%e : tensor<1x64x7x7xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %m = arith.mulf %x, %y : f32
    linalg.yield %m : f32
  } -> tensor<1x64x7x7xf32>
  return %r : tensor<1x64x7x7xf32>
}

// A transpose's operands walk the dims in different orders.
// CHECK-LABEL: func.func @rejects_transpose(
// CHECK-SAME:    %arg0: tensor<3x4xf32>) -> tensor<4x3xf32>
func.func @rejects_transpose(%a: tensor<3x4xf32>) -> tensor<4x3xf32> {
  %e = tensor.empty() : tensor<4x3xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
    ins(%a : tensor<3x4xf32>) outs(%e : tensor<4x3xf32>) {
  ^bb0(%x: f32, %o: f32):
    linalg.yield %x : f32
  } -> tensor<4x3xf32>
  return %r : tensor<4x3xf32>
}

// A body that asks for its indices needs the loops as they are.
// CHECK-LABEL: func.func @rejects_index(
// CHECK-SAME:    -> tensor<3x4xi64>
func.func @rejects_index() -> tensor<3x4xi64> {
  %e = tensor.empty() : tensor<3x4xi64>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
    outs(%e : tensor<3x4xi64>) {
  ^bb0(%o: i64):
    %j = linalg.index 1 : index
    %v = arith.index_cast %j : index to i64
    linalg.yield %v : i64
  } -> tensor<3x4xi64>
  return %r : tensor<3x4xi64>
}

#plane = affine_map<(c, h, w) -> (c, h, w)>
#plane_of = affine_map<(c, h, w) -> (c)>

// A mean over planes and what takes it off: rows of all pixels, in each op. What other passes noted stays.
// CHECK-LABEL: func.func @centre(
// CHECK-SAME:    %arg0: tensor<64x49xf32>) -> tensor<64x49xf32> attributes {tw.flush_denormals}
// CHECK:         linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]} ins(%arg0 : tensor<64x49xf32>) outs(%{{.*}} : tensor<64xf32>)
// CHECK:         linalg.generic {{.*}} iterator_types = ["parallel", "parallel"]} ins(%arg0, %{{.*}} : tensor<64x49xf32>, tensor<64xf32>)
func.func @centre(%a: tensor<64x7x7xf32>) -> tensor<64x7x7xf32> attributes {tw.flush_denormals} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<64xf32>) -> tensor<64xf32>
  %s = linalg.generic {indexing_maps = [#plane, #plane_of], iterator_types = ["parallel", "reduction", "reduction"]}
    ins(%a : tensor<64x7x7xf32>) outs(%f : tensor<64xf32>) {
  ^bb0(%x: f32, %o: f32):
    %t = arith.addf %o, %x : f32
    linalg.yield %t : f32
  } -> tensor<64xf32>
  %g = tensor.empty() : tensor<64x7x7xf32>
  %r = linalg.generic {indexing_maps = [#plane, #plane_of, #plane], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%a, %s : tensor<64x7x7xf32>, tensor<64xf32>) outs(%g : tensor<64x7x7xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %d = arith.subf %x, %y : f32
    linalg.yield %d : f32
  } -> tensor<64x7x7xf32>
  return %r : tensor<64x7x7xf32>
}

#whole = affine_map<(n, c, h, w) -> (n, c, h, w)>

// The elements of a constant of a narrow type keep their bits, NaN's too.
// CHECK-LABEL: func.func @narrow_constant(
// CHECK:         arith.constant dense<[1.000000e+00, 0x7FC0, -5.000000e-01]> : tensor<3xbf16>
func.func @narrow_constant(%a: tensor<1x3x7x7xbf16>) -> tensor<1x3x7x7xbf16> {
  %s = arith.constant dense<[[[[1.0]], [[0x7FC0]], [[-0.5]]]]> : tensor<1x3x1x1xbf16>
  %e = tensor.empty() : tensor<1x3x7x7xbf16>
  %r = linalg.generic {indexing_maps = [#whole, affine_map<(n, c, h, w) -> (0, c, 0, 0)>, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%a, %s : tensor<1x3x7x7xbf16>, tensor<1x3x1x1xbf16>) outs(%e : tensor<1x3x7x7xbf16>) {
  ^bb0(%x: bf16, %y: bf16, %o: bf16):
    linalg.yield %y : bf16
  } -> tensor<1x3x7x7xbf16>
  return %r : tensor<1x3x7x7xbf16>
}

#factors = affine_map<(f, h, w, c) -> (c, f)>
#pixels = affine_map<(f, h, w, c) -> (c, h, w)>
#products = affine_map<(f, h, w, c) -> (f, h, w)>

// The columns of a product, pixels of rows, are one row.
// CHECK-LABEL: func.func @product(
// CHECK-SAME:    %{{.*}}: tensor<8x16xf32>, %{{.*}}: tensor<8x144xf32>) -> tensor<16x144xf32>
func.func @product(%w: tensor<8x16xf32>, %x: tensor<8x12x12xf32>) -> tensor<16x12x12xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<16x12x12xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<16x12x12xf32>) -> tensor<16x12x12xf32>
  %y = linalg.generic {indexing_maps = [#factors, #pixels, #products], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
    ins(%w, %x : tensor<8x16xf32>, tensor<8x12x12xf32>) outs(%z : tensor<16x12x12xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %m fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<16x12x12xf32>
  return %y : tensor<16x12x12xf32>
}

// A table that is read at computed places stays whole.
// CHECK-LABEL: func.func @table(
// CHECK-SAME:    %{{.*}}: tensor<3136xi8>, %[[T:.*]]: tensor<16x16xi8>) -> tensor<3136xi8>
// CHECK:         tensor.extract %[[T]]
func.func @table(%x: tensor<64x7x7xi8>, %t: tensor<16x16xi8>) -> tensor<64x7x7xi8> {
  %c0 = arith.constant 0 : index
  %e = tensor.empty() : tensor<64x7x7xi8>
  %y = linalg.generic {indexing_maps = [affine_map<(c, h, w) -> (c, h, w)>, affine_map<(c, h, w) -> (c, h, w)>], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%x : tensor<64x7x7xi8>) outs(%e : tensor<64x7x7xi8>) {
  ^bb0(%i: i8, %o: i8):
    %at = arith.index_castui %i : i8 to index
    %v = tensor.extract %t[%c0, %at] : tensor<16x16xi8>
    linalg.yield %v : i8
  } -> tensor<64x7x7xi8>
  return %y : tensor<64x7x7xi8>
}

// A sum of one term reads what it writes over: without its loop nothing would tell.
// CHECK-LABEL: func.func @rejects_sum_of_a_table(
// CHECK:         iterator_types = ["parallel", "parallel", "reduction"]
func.func @rejects_sum_of_a_table(%x: tensor<7x7x1xi32>, %t: tensor<16xf32>) -> tensor<7x7xf32> {
  %zero = arith.constant 0.0 : f32
  %none = arith.constant 0 : i32
  %e = tensor.empty() : tensor<7x7xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<7x7xf32>) -> tensor<7x7xf32>
  %r = linalg.generic {
    indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j)>],
    iterator_types = ["parallel", "parallel", "reduction"]
  } ins(%x : tensor<7x7x1xi32>) outs(%f : tensor<7x7xf32>) {
  ^bb0(%place: i32, %sum: f32):
    %inside = arith.cmpi sge, %place, %none : i32
    %at = arith.maxsi %place, %none : i32
    %index = arith.index_cast %at : i32 to index
    %v = tensor.extract %t[%index] : tensor<16xf32>
    %s = arith.select %inside, %v, %sum : f32
    linalg.yield %s : f32
  } -> tensor<7x7xf32>
  return %r : tensor<7x7xf32>
}

#image = affine_map<(n, h, w, c) -> (n, h, w, c)>

// A part of an image in channels last: rows of the slice are pixels and channels, and the image has the same axes.
// CHECK-LABEL: func.func @crop(
// CHECK-SAME:    %arg0: tensor<48x192xi8>) -> tensor<20x90xf32>
// CHECK:         tensor.extract_slice %arg0[8, 36] [20, 90] [1, 1] : tensor<48x192xi8> to tensor<20x90xi8>
// CHECK:         linalg.generic {{.*}} iterator_types = ["parallel", "parallel"]} ins(%{{.*}} : tensor<20x90xi8>)
func.func @crop(%x: tensor<1x48x64x3xi8>) -> tensor<1x20x30x3xf32> {
  %s = tensor.extract_slice %x[0, 8, 12, 0] [1, 20, 30, 3] [1, 1, 1, 1] : tensor<1x48x64x3xi8> to tensor<1x20x30x3xi8>
  %e = tensor.empty() : tensor<1x20x30x3xf32>
  %r = linalg.generic {indexing_maps = [#image, #image], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%s : tensor<1x20x30x3xi8>) outs(%e : tensor<1x20x30x3xf32>) {
  ^bb0(%a: i8, %o: f32):
    %m = arith.uitofp %a : i8 to f32
    linalg.yield %m : f32
  } -> tensor<1x20x30x3xf32>
  return %r : tensor<1x20x30x3xf32>
}

// Every second row, all of it: those of other images lie as far apart.
// CHECK-LABEL: func.func @rows(
// CHECK-SAME:    %arg0: tensor<4x8x192xf32>) -> tensor<4x4x192xf32>
// CHECK:         tensor.extract_slice %arg0[0, 1, 0] [4, 4, 192] [1, 2, 1]
func.func @rows(%x: tensor<4x8x64x3xf32>) -> tensor<4x4x64x3xf32> {
  %s = tensor.extract_slice %x[0, 1, 0, 0] [4, 4, 64, 3] [1, 2, 1, 1] : tensor<4x8x64x3xf32> to tensor<4x4x64x3xf32>
  %e = tensor.empty() : tensor<4x4x64x3xf32>
  %r = linalg.generic {indexing_maps = [#image, #image], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%s : tensor<4x4x64x3xf32>) outs(%e : tensor<4x4x64x3xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<4x4x64x3xf32>
  return %r : tensor<4x4x64x3xf32>
}

// Something else lies between the rows of a slice in channels first.
// CHECK-LABEL: func.func @rejects_parts_of_rows(
// CHECK-SAME:    %arg0: tensor<3x48x64xf32>) -> tensor<3x20x30xf32>
func.func @rejects_parts_of_rows(%x: tensor<1x3x48x64xf32>) -> tensor<1x3x20x30xf32> {
  %s = tensor.extract_slice %x[0, 0, 8, 12] [1, 3, 20, 30] [1, 1, 1, 1] : tensor<1x3x48x64xf32> to tensor<1x3x20x30xf32>
  %e = tensor.empty() : tensor<1x3x20x30xf32>
  %r = linalg.generic {indexing_maps = [#image, #image], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%s : tensor<1x3x20x30xf32>) outs(%e : tensor<1x3x20x30xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.negf %a : f32
    linalg.yield %m : f32
  } -> tensor<1x3x20x30xf32>
  return %r : tensor<1x3x20x30xf32>
}

// CHECK-LABEL: func.func @rejects_a_whole_argument_beside(
// CHECK-SAME:    %arg0: tensor<1x8x8x3xf32>) -> tensor<1x4x8x3xf32>
func.func @rejects_a_whole_argument_beside(%x: tensor<1x8x8x3xf32>) -> tensor<1x4x8x3xf32> {
  %s = tensor.extract_slice %x[0, 2, 0, 0] [1, 4, 8, 3] [1, 1, 1, 1] : tensor<1x8x8x3xf32> to tensor<1x4x8x3xf32>
  %t = tensor.extract_slice %x[0, 4, 0, 0] [1, 4, 8, 3] [1, 1, 1, 1] : tensor<1x8x8x3xf32> to tensor<1x4x8x3xf32>
  %e = tensor.empty() : tensor<1x4x8x3xf32>
  %r = linalg.generic {indexing_maps = [#image, #image, #image], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%s, %t : tensor<1x4x8x3xf32>, tensor<1x4x8x3xf32>) outs(%e : tensor<1x4x8x3xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.addf %a, %b : f32
    linalg.yield %m : f32
  } -> tensor<1x4x8x3xf32>
  return %r : tensor<1x4x8x3xf32>
}
