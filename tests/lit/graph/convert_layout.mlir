// RUN: %opt %s --passes=convert-layout | filecheck %s
// RUN: %opt %s --passes=convert-layout{desired=none} | filecheck %s --check-prefix=NONE

// A convolution and what follows get channels last; transposes stay at the borders.
// CHECK-DAG: #[[DATA:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1 + d4, d2 + d5, d6)>
// CHECK-DAG: #[[WEIGHT:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d3, d6, d4, d5)>
// CHECK-DAG: #[[OUT:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3)>
// CHECK-LABEL: func.func @conv
// CHECK:       linalg.generic {{.*}} ins(%arg0 : tensor<1x5x6x7xf32>) outs({{.*}} : tensor<1x6x7x5xf32>)
// CHECK:       tensor.pad {{.*}} low[0, 1, 2, 0] high[0, 1, 2, 0]
// CHECK:       tensor<1x6x7x5xf32> to tensor<1x8x11x5xf32>
// CHECK:       linalg.generic {indexing_maps = [#[[DATA]], #[[WEIGHT]], #[[OUT]]]
// CHECK-SAME:    ins({{.*}}, %arg1 : tensor<1x8x11x5xf32>, tensor<8x5x3x3xf32>) outs({{.*}} : tensor<1x6x9x8xf32>)
// CHECK:       linalg.generic {{.*}} outs({{.*}} : tensor<1x6x9x8xf32>)
// CHECK:         arith.maximumf
// CHECK:       %[[BACK:.*]] = linalg.generic {{.*}} outs({{.*}} : tensor<1x8x6x9xf32>)
// CHECK:       return %[[BACK]]
// NONE-LABEL:  func.func @conv
// NONE-NOT:    tensor<1x6x7x5xf32>
func.func @conv(%x: tensor<1x5x6x7xf32> {tw.name = "x"}, %w: tensor<8x5x3x3xf32> {tw.param = "w"}) -> tensor<1x8x6x9xf32> {
  %c = arith.constant 0.0 : f32
  %p = tensor.pad %x low[0, 0, 1, 2] high[0, 0, 1, 2] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %c : f32
  } : tensor<1x5x6x7xf32> to tensor<1x5x8x11xf32>
  %e = tensor.empty() : tensor<1x8x6x9xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<1x8x6x9xf32>) -> tensor<1x8x6x9xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(n, f, h, w, c, i, j) -> (n, c, h + i, w + j)>,
                                        affine_map<(n, f, h, w, c, i, j) -> (f, c, i, j)>,
                                        affine_map<(n, f, h, w, c, i, j) -> (n, f, h, w)>],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%p, %w : tensor<1x5x8x11xf32>, tensor<8x5x3x3xf32>) outs(%z : tensor<1x8x6x9xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %m fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x8x6x9xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, f, h, w) -> (n, f, h, w)>, affine_map<(n, f, h, w) -> (n, f, h, w)>],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%y : tensor<1x8x6x9xf32>) outs(%e : tensor<1x8x6x9xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.maximumf %a, %c : f32
    linalg.yield %m : f32
  } -> tensor<1x8x6x9xf32>
  return %r : tensor<1x8x6x9xf32>
}

// Elements of so few channels are read one by one; the result has channels last all the same.
// CHECK-LABEL: func.func @few_channels_of_an_input
// CHECK:       tensor.pad %arg0 low[0, 0, 1, 2] high[0, 0, 1, 2]
// CHECK:       linalg.generic {{.*}} ins({{.*}}, %arg1 : tensor<1x3x8x11xf32>, tensor<8x3x3x3xf32>) outs({{.*}} : tensor<1x6x9x8xf32>)
func.func @few_channels_of_an_input(%x: tensor<1x3x6x7xf32> {tw.name = "x"}, %w: tensor<8x3x3x3xf32> {tw.param = "w"}) -> tensor<1x8x6x9xf32> {
  %c = arith.constant 0.0 : f32
  %p = tensor.pad %x low[0, 0, 1, 2] high[0, 0, 1, 2] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %c : f32
  } : tensor<1x3x6x7xf32> to tensor<1x3x8x11xf32>
  %e = tensor.empty() : tensor<1x8x6x9xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<1x8x6x9xf32>) -> tensor<1x8x6x9xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(n, f, h, w, c, i, j) -> (n, c, h + i, w + j)>,
                                        affine_map<(n, f, h, w, c, i, j) -> (f, c, i, j)>,
                                        affine_map<(n, f, h, w, c, i, j) -> (n, f, h, w)>],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%p, %w : tensor<1x3x8x11xf32>, tensor<8x3x3x3xf32>) outs(%z : tensor<1x8x6x9xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %m fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x8x6x9xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, f, h, w) -> (n, f, h, w)>, affine_map<(n, f, h, w) -> (n, f, h, w)>],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%y : tensor<1x8x6x9xf32>) outs(%e : tensor<1x8x6x9xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.maximumf %a, %c : f32
    linalg.yield %m : f32
  } -> tensor<1x8x6x9xf32>
  return %r : tensor<1x8x6x9xf32>
}

// A program that is one convolution of few channels keeps its result: vectors lie along the rows of pixels.
// CHECK-LABEL: func.func @rows_of_pixels
// CHECK:       linalg.generic {{.*}} ins(%arg0, %arg1 : tensor<1x1x44xf32>, tensor<8x1x5xf32>) outs({{.*}} : tensor<1x8x40xf32>)
// CHECK-NEXT:  ^bb0
func.func @rows_of_pixels(%x: tensor<1x1x44xf32> {tw.name = "x"}, %w: tensor<8x1x5xf32> {tw.param = "w"}) -> tensor<1x8x40xf32> {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x8x40xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<1x8x40xf32>) -> tensor<1x8x40xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(n, f, o, c, k) -> (n, c, o + k)>,
                                        affine_map<(n, f, o, c, k) -> (f, c, k)>,
                                        affine_map<(n, f, o, c, k) -> (n, f, o)>],
                       iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
    ins(%x, %w : tensor<1x1x44xf32>, tensor<8x1x5xf32>) outs(%z : tensor<1x8x40xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %m fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x8x40xf32>
  return %y : tensor<1x8x40xf32>
}

// So does one of short filters of more channels, along a row, and its input.
// CHECK-LABEL: func.func @short_filters
// CHECK:       linalg.generic {{.*}} ins(%arg0, %arg1 : tensor<1x7x44xf32>, tensor<8x7x5xf32>) outs({{.*}} : tensor<1x8x40xf32>)
// CHECK-NEXT:  ^bb0
func.func @short_filters(%x: tensor<1x7x44xf32> {tw.name = "x"}, %w: tensor<8x7x5xf32> {tw.param = "w"}) -> tensor<1x8x40xf32> {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x8x40xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<1x8x40xf32>) -> tensor<1x8x40xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(n, f, o, c, k) -> (n, c, o + k)>,
                                        affine_map<(n, f, o, c, k) -> (f, c, k)>,
                                        affine_map<(n, f, o, c, k) -> (n, f, o)>],
                       iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
    ins(%x, %w : tensor<1x7x44xf32>, tensor<8x7x5xf32>) outs(%z : tensor<1x8x40xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %m fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x8x40xf32>
  return %y : tensor<1x8x40xf32>
}

// And one that is a depthwise convolution of long rows.
// CHECK-LABEL: func.func @long_rows_of_channels
// CHECK:       linalg.generic {{.*}} ins(%arg0, %arg1 : tensor<1x8x44xf32>, tensor<8x5xf32>) outs({{.*}} : tensor<1x8x40xf32>)
// CHECK-NEXT:  ^bb0
func.func @long_rows_of_channels(%x: tensor<1x8x44xf32> {tw.name = "x"}, %w: tensor<8x5xf32> {tw.param = "w"}) -> tensor<1x8x40xf32> {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x8x40xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<1x8x40xf32>) -> tensor<1x8x40xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(n, c, o, k) -> (n, c, o + k)>,
                                        affine_map<(n, c, o, k) -> (c, k)>,
                                        affine_map<(n, c, o, k) -> (n, c, o)>],
                       iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
    ins(%x, %w : tensor<1x8x44xf32>, tensor<8x5xf32>) outs(%z : tensor<1x8x40xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %m fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x8x40xf32>
  return %y : tensor<1x8x40xf32>
}

// Inside of a program the layout is the other convolution's.
// CHECK-LABEL: func.func @rejects_rows_of_pixels_inside
// CHECK:       linalg.generic {{.*}} ins(%arg0, %arg1 : tensor<1x1x44xf32>, tensor<8x1x5xf32>) outs({{.*}} : tensor<1x40x8xf32>)
// CHECK:       linalg.generic {{.*}} ins({{.*}}, %arg2 : tensor<1x40x8xf32>, tensor<9x8x2xf32>) outs({{.*}} : tensor<1x39x9xf32>)
func.func @rejects_rows_of_pixels_inside(%x: tensor<1x1x44xf32> {tw.name = "x"}, %w: tensor<8x1x5xf32> {tw.param = "w"},
    %v: tensor<9x8x2xf32> {tw.param = "v"}) -> tensor<1x9x39xf32> {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x8x40xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<1x8x40xf32>) -> tensor<1x8x40xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(n, f, o, c, k) -> (n, c, o + k)>,
                                        affine_map<(n, f, o, c, k) -> (f, c, k)>,
                                        affine_map<(n, f, o, c, k) -> (n, f, o)>],
                       iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
    ins(%x, %w : tensor<1x1x44xf32>, tensor<8x1x5xf32>) outs(%z : tensor<1x8x40xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %m fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x8x40xf32>
  %g = tensor.empty() : tensor<1x9x39xf32>
  %h = linalg.fill ins(%c : f32) outs(%g : tensor<1x9x39xf32>) -> tensor<1x9x39xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, f, o, c, k) -> (n, c, o + k)>,
                                        affine_map<(n, f, o, c, k) -> (f, c, k)>,
                                        affine_map<(n, f, o, c, k) -> (n, f, o)>],
                       iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
    ins(%y, %v : tensor<1x8x40xf32>, tensor<9x8x2xf32>) outs(%h : tensor<1x9x39xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %m fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x9x39xf32>
  return %r : tensor<1x9x39xf32>
}

// Between norms over all channels, whose rows are a view with channels and pixels in one dim, it stays as well.
// CHECK-LABEL: func.func @long_rows_of_channels_between_norms
// CHECK:       %[[X:.*]] = tensor.expand_shape
// CHECK:       linalg.generic {{.*}} ins(%[[X]], %arg1 : tensor<1x8x44xf32>, tensor<8x5xf32>) outs({{.*}} : tensor<1x8x40xf32>)
// CHECK-NEXT:  ^bb0
func.func @long_rows_of_channels_between_norms(%x: tensor<1x352xf32> {tw.name = "x"}, %w: tensor<8x5xf32> {tw.param = "w"})
    -> tensor<1x320xf32> {
  %v = tensor.expand_shape %x [[0], [1, 2]] output_shape [1, 8, 44] : tensor<1x352xf32> into tensor<1x8x44xf32>
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x8x40xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<1x8x40xf32>) -> tensor<1x8x40xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(n, c, o, k) -> (n, c, o + k)>,
                                        affine_map<(n, c, o, k) -> (c, k)>,
                                        affine_map<(n, c, o, k) -> (n, c, o)>],
                       iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
    ins(%v, %w : tensor<1x8x44xf32>, tensor<8x5xf32>) outs(%z : tensor<1x8x40xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %m fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x8x40xf32>
  %r = tensor.collapse_shape %y [[0], [1, 2]] : tensor<1x8x40xf32> into tensor<1x320xf32>
  return %r : tensor<1x320xf32>
}

// Tokens that the model turns to channels first are read as they lie by a product by pixels.
// CHECK-LABEL: func.func @tokens
// CHECK:       %[[T:.*]] = linalg.generic {{.*}} ins(%arg0 : tensor<1x144x8xf32>)
// CHECK:       linalg.generic {{.*}} ins({{.*}}, %arg1 : tensor<1x144x8xf32>, tensor<16x8x1xf32>) outs({{.*}} : tensor<1x144x16xf32>)
func.func @tokens(%x: tensor<1x144x8xf32> {tw.name = "x"}, %w: tensor<16x8x1xf32> {tw.param = "w"}) -> tensor<1x144x16xf32> {
  %i = tensor.empty() : tensor<1x144x8xf32>
  %n = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> (a, b, c)>],
                       iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%x : tensor<1x144x8xf32>) outs(%i : tensor<1x144x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.negf %a : f32
    linalg.yield %m : f32
  } -> tensor<1x144x8xf32>
  %j = tensor.empty() : tensor<1x8x144xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, c, b)>, affine_map<(a, b, c) -> (a, b, c)>],
                       iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%n : tensor<1x144x8xf32>) outs(%j : tensor<1x8x144xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<1x8x144xf32>
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x16x144xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<1x16x144xf32>) -> tensor<1x16x144xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(n, f, o, c, k) -> (n, c, o + k)>,
                                        affine_map<(n, f, o, c, k) -> (f, c, k)>,
                                        affine_map<(n, f, o, c, k) -> (n, f, o)>],
                       iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
    ins(%t, %w : tensor<1x8x144xf32>, tensor<16x8x1xf32>) outs(%z : tensor<1x16x144xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %m fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x16x144xf32>
  %k = tensor.empty() : tensor<1x144x16xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, c, b)>, affine_map<(a, b, c) -> (a, b, c)>],
                       iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%y : tensor<1x16x144xf32>) outs(%k : tensor<1x144x16xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<1x144x16xf32>
  return %r : tensor<1x144x16xf32>
}

// Without a convolution nothing wants another layout.
// CHECK-LABEL: func.func @rejects_no_convolution
// CHECK-NEXT:  tensor.empty
// CHECK-NEXT:  linalg.generic {{.*}} ins(%arg0 : tensor<2x3x4x5xf32>)
// CHECK:       return
func.func @rejects_no_convolution(%x: tensor<2x3x4x5xf32> {tw.name = "x"}) -> tensor<2x3x4x5xf32> {
  %e = tensor.empty() : tensor<2x3x4x5xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, f, h, w) -> (n, f, h, w)>, affine_map<(n, f, h, w) -> (n, f, h, w)>],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%x : tensor<2x3x4x5xf32>) outs(%e : tensor<2x3x4x5xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.negf %a : f32
    linalg.yield %m : f32
  } -> tensor<2x3x4x5xf32>
  return %r : tensor<2x3x4x5xf32>
}

#pixel = affine_map<(n, f, h, w, c, i, j) -> (n, c, h + i, w + j)>
#single = affine_map<(n, f, h, w, c, i, j) -> (f, c, i, j)>
#made = affine_map<(n, f, h, w, c, i, j) -> (n, f, h, w)>

// Between values in channels first, a convolution by single pixels is a product; of a few pixels it is none.
// CHECK-LABEL: func.func @pixels(
// CHECK:         %[[W:.*]] = tensor.collapse_shape %arg2 {{.*}} into tensor<16x8xf32>
// CHECK:         linalg.generic {{.*}}"parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%[[W]], %arg0 : tensor<16x8xf32>, tensor<1x8x12x12xf32>)
// CHECK:         linalg.generic {{.*}} ins(%arg1 : tensor<1x8x7x7xf32>) outs(%{{.*}} : tensor<1x7x7x8xf32>)
func.func @pixels(%x: tensor<1x8x12x12xf32>, %y: tensor<1x8x7x7xf32>, %w: tensor<16x8x1x1xf32> {tw.param = "w"})
    -> (tensor<1x16x12x12xf32>, tensor<1x16x7x7xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x16x12x12xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x16x12x12xf32>) -> tensor<1x16x12x12xf32>
  %a = linalg.generic {indexing_maps = [#pixel, #single, #made],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%x, %w : tensor<1x8x12x12xf32>, tensor<16x8x1x1xf32>) outs(%z : tensor<1x16x12x12xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %m = arith.mulf %p, %q fastmath<contract> : f32
    %s = arith.addf %o, %m fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x16x12x12xf32>
  %f = tensor.empty() : tensor<1x16x7x7xf32>
  %g = linalg.fill ins(%zero : f32) outs(%f : tensor<1x16x7x7xf32>) -> tensor<1x16x7x7xf32>
  %b = linalg.generic {indexing_maps = [#pixel, #single, #made],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%y, %w : tensor<1x8x7x7xf32>, tensor<16x8x1x1xf32>) outs(%g : tensor<1x16x7x7xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %m = arith.mulf %p, %q fastmath<contract> : f32
    %s = arith.addf %o, %m fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x16x7x7xf32>
  return %a, %b : tensor<1x16x12x12xf32>, tensor<1x16x7x7xf32>
}

// In steps of two the product reads a copy of the pixels that are read.
// CHECK-LABEL: func.func @pixels_apart(
// CHECK:         %[[READ:.*]] = linalg.generic {{.*}} ins(%arg0 : tensor<1x8x24x23xf32>) outs(%{{.*}} : tensor<1x8x12x12xf32>)
// CHECK:         linalg.generic {{.*}} ins(%{{.*}}, %[[READ]] : tensor<16x8xf32>, tensor<1x8x12x12xf32>)
func.func @pixels_apart(%x: tensor<1x8x24x23xf32>, %w: tensor<16x8x1x1xf32> {tw.param = "w"}) -> tensor<1x16x12x12xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x16x12x12xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x16x12x12xf32>) -> tensor<1x16x12x12xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(n, f, h, w, c, i, j) -> (n, c, 2 * h + i, 2 * w + j)>, #single, #made],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%x, %w : tensor<1x8x24x23xf32>, tensor<16x8x1x1xf32>) outs(%z : tensor<1x16x12x12xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %m = arith.mulf %p, %q fastmath<contract> : f32
    %s = arith.addf %o, %m fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x16x12x12xf32>
  return %a : tensor<1x16x12x12xf32>
}

// A gate of pooled channels: for a single pixel both layouts are the same bytes, so the image keeps its own.
// CHECK-LABEL: func.func @gate(
// CHECK-NOT:     tensor<2x6x6x8xf32>
// CHECK:         linalg.generic {{.*}} ins(%arg0, %{{.*}} : tensor<2x8x6x6xf32>, tensor<2x1x1x8xf32>) outs(%{{.*}} : tensor<2x8x6x6xf32>)
// CHECK-NOT:     tensor<2x6x6x8xf32>
// CHECK:         return
func.func @gate(%x: tensor<2x8x6x6xf32>, %w: tensor<8x8x1x1xf32> {tw.param = "w"}) -> tensor<2x8x6x6xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x1x1xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x1x1xf32>) -> tensor<2x8x1x1xf32>
  %g = linalg.generic {indexing_maps = [affine_map<(n, c, h, w) -> (n, c, h, w)>, affine_map<(n, c, h, w) -> (n, c, 0, 0)>],
      iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
    ins(%x : tensor<2x8x6x6xf32>) outs(%z : tensor<2x8x1x1xf32>) {
  ^bb0(%p: f32, %o: f32):
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  } -> tensor<2x8x1x1xf32>
  %a = linalg.generic {indexing_maps = [#pixel, #single, #made],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%g, %w : tensor<2x8x1x1xf32>, tensor<8x8x1x1xf32>) outs(%z : tensor<2x8x1x1xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %m = arith.mulf %p, %q fastmath<contract> : f32
    %s = arith.addf %o, %m fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<2x8x1x1xf32>
  %f = tensor.empty() : tensor<2x8x6x6xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(n, c, h, w) -> (n, c, h, w)>, affine_map<(n, c, h, w) -> (n, c, 0, 0)>,
      affine_map<(n, c, h, w) -> (n, c, h, w)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%x, %a : tensor<2x8x6x6xf32>, tensor<2x8x1x1xf32>) outs(%f : tensor<2x8x6x6xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %m = arith.mulf %p, %q : f32
    linalg.yield %m : f32
  } -> tensor<2x8x6x6xf32>
  return %y : tensor<2x8x6x6xf32>
}

// A convolution with a weight of open sizes is a product of its filters in channels first.
// CHECK-LABEL: func.func @open_filters(
// CHECK-NOT:     linalg.generic {{.*}} outs(%{{.*}} : tensor<1x6x7x?xf32>)
// CHECK:         linalg.generic {{.*}} ins(%arg0, %arg1 : tensor<1x?x6x7xf32>, tensor<?x?x1x1xf32>) outs(%{{.*}} : tensor<1x?x6x7xf32>)
func.func @open_filters(%x: tensor<1x?x6x7xf32>, %w: tensor<?x?x1x1xf32>) -> tensor<1x?x6x7xf32> {
  %zero = arith.constant 0.0 : f32
  %first = arith.constant 0 : index
  %filters = tensor.dim %w, %first : tensor<?x?x1x1xf32>
  %e = tensor.empty(%filters) : tensor<1x?x6x7xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x?x6x7xf32>) -> tensor<1x?x6x7xf32>
  %a = linalg.generic {indexing_maps = [#pixel, #single, #made],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%x, %w : tensor<1x?x6x7xf32>, tensor<?x?x1x1xf32>) outs(%z : tensor<1x?x6x7xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %m = arith.mulf %p, %q fastmath<contract> : f32
    %s = arith.addf %o, %m fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x?x6x7xf32>
  return %a : tensor<1x?x6x7xf32>
}
