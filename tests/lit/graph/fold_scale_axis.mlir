// RUN: %opt %s --passes=fold-scale-axis | filecheck %s

#x = affine_map<(n, f, h, w, c, i, j) -> (n, c, h + i, w + j)>
#w = affine_map<(n, f, h, w, c, i, j) -> (f, c, i, j)>
#y = affine_map<(n, f, h, w, c, i, j) -> (n, f, h, w)>
#id = affine_map<(n, f, h, w) -> (n, f, h, w)>
#channel = affine_map<(n, f, h, w) -> (f)>
#m = affine_map<(i, j, k) -> (i, k)>
#k = affine_map<(i, j, k) -> (k, j)>
#o = affine_map<(i, j, k) -> (i, j)>
#two = affine_map<(i, j) -> (i, j)>
#column = affine_map<(i, j) -> (j)>
#turned = affine_map<(i, j) -> (j, i)>

// A batch normalisation's factor goes to the weight, and to the bias that was added before it.
// CHECK-LABEL: func.func @backward(
// CHECK:         %[[W:.*]] = linalg.generic {{.*}} ins(%arg1, %arg3 : tensor<8x4x3x3xf32>, tensor<8xf32>)
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      arith.mulf
// CHECK:         %[[C:.*]] = linalg.generic {{.*}} ins(%arg0, %[[W]]
// CHECK:         %[[D:.*]] = linalg.generic {{.*}} ins(%arg2, %arg3 : tensor<8xf32>, tensor<8xf32>)
// CHECK:         %[[B:.*]] = linalg.generic {{.*}} ins(%[[C]], %[[D]]
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      arith.addf
// CHECK:         linalg.generic {{.*}} ins(%[[B]], %arg4 : tensor<1x8x4x4xf32>, tensor<8xf32>)
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      %[[S:.*]] = arith.addf
// CHECK-NEXT:      linalg.yield %[[S]]
func.func @backward(%x: tensor<1x4x6x6xf32> {tw.name = "x"}, %w: tensor<8x4x3x3xf32> {tw.param = "w"},
                    %b: tensor<8xf32> {tw.param = "b"}, %f: tensor<8xf32> {tw.param = "f"},
                    %s: tensor<8xf32> {tw.param = "s"}) -> tensor<1x8x4x4xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x8x4x4xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<1x8x4x4xf32>) -> tensor<1x8x4x4xf32>
  %c = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%x, %w : tensor<1x4x6x6xf32>, tensor<8x4x3x3xf32>) outs(%i : tensor<1x8x4x4xf32>) {
  ^bb0(%a: f32, %v: f32, %o: f32):
    %p = arith.mulf %a, %v fastmath<contract> : f32
    %q = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %q : f32
  } -> tensor<1x8x4x4xf32>
  %d = linalg.generic {indexing_maps = [#id, #channel, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%c, %b : tensor<1x8x4x4xf32>, tensor<8xf32>) outs(%e : tensor<1x8x4x4xf32>) {
  ^bb0(%a: f32, %v: f32, %o: f32):
    %q = arith.addf %a, %v : f32
    linalg.yield %q : f32
  } -> tensor<1x8x4x4xf32>
  %r = linalg.generic {indexing_maps = [#id, #channel, #channel, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%d, %f, %s : tensor<1x8x4x4xf32>, tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<1x8x4x4xf32>) {
  ^bb0(%a: f32, %u: f32, %v: f32, %o: f32):
    %p = arith.mulf %a, %u : f32
    %q = arith.addf %p, %v : f32
    linalg.yield %q : f32
  } -> tensor<1x8x4x4xf32>
  return %r : tensor<1x8x4x4xf32>
}

// A scale of the input channels goes on to the weight, through a padding by zeros.
// CHECK-LABEL: func.func @forward(
// CHECK:         %[[P:.*]] = tensor.pad %arg0
// CHECK:         %[[W:.*]] = linalg.generic {{.*}} ins(%arg1, %arg2 : tensor<8x4x3x3xf32>, tensor<4xf32>)
// CHECK:         linalg.generic {{.*}} ins(%[[P]], %[[W]]
func.func @forward(%x: tensor<1x4x4x4xf32> {tw.name = "x"}, %w: tensor<8x4x3x3xf32> {tw.param = "w"},
                   %f: tensor<4xf32> {tw.param = "f"}) -> tensor<1x8x4x4xf32> {
  %z = arith.constant 0.0 : f32
  %g = tensor.empty() : tensor<1x4x4x4xf32>
  %d = linalg.generic {indexing_maps = [#id, #channel, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%x, %f : tensor<1x4x4x4xf32>, tensor<4xf32>) outs(%g : tensor<1x4x4x4xf32>) {
  ^bb0(%a: f32, %v: f32, %o: f32):
    %q = arith.mulf %v, %a : f32
    linalg.yield %q : f32
  } -> tensor<1x4x4x4xf32>
  %t = tensor.pad %d low[0, 0, 1, 1] high[0, 0, 1, 1] {
  ^bb0(%h: index, %j: index, %l: index, %n: index):
    tensor.yield %z : f32
  } : tensor<1x4x4x4xf32> to tensor<1x4x6x6xf32>
  %e = tensor.empty() : tensor<1x8x4x4xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<1x8x4x4xf32>) -> tensor<1x8x4x4xf32>
  %c = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%t, %w : tensor<1x4x6x6xf32>, tensor<8x4x3x3xf32>) outs(%i : tensor<1x8x4x4xf32>) {
  ^bb0(%a: f32, %v: f32, %o: f32):
    %p = arith.mulf %a, %v fastmath<contract> : f32
    %q = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %q : f32
  } -> tensor<1x8x4x4xf32>
  return %c : tensor<1x8x4x4xf32>
}

// A number goes through the product of two activations, and a transpose, to the weight of the first one.
// CHECK-LABEL: func.func @scores(
// CHECK:         %[[F:.*]] = linalg.fill ins(%{{.*}} : f32) outs(%{{.*}} : tensor<f32>)
// CHECK:         %[[W:.*]] = linalg.generic {{.*}} ins(%arg1, %[[F]] : tensor<4x4xf32>, tensor<f32>)
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      arith.divf
// CHECK:         linalg.generic {{.*}} ins(%arg0, %[[W]]
// CHECK-NOT:       arith.divf
// CHECK:         return
func.func @scores(%x: tensor<4x4xf32> {tw.name = "x"}, %w: tensor<4x4xf32> {tw.param = "w"},
                  %y: tensor<4x4xf32> {tw.name = "y"}) -> tensor<4x4xf32> {
  %z = arith.constant 0.0 : f32
  %eight = arith.constant 8.0 : f32
  %e = tensor.empty() : tensor<4x4xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
  %c = linalg.generic {indexing_maps = [#m, #k, #o], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%x, %w : tensor<4x4xf32>, tensor<4x4xf32>) outs(%i : tensor<4x4xf32>) {
  ^bb0(%a: f32, %v: f32, %o: f32):
    %p = arith.mulf %a, %v fastmath<contract> : f32
    %q = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %q : f32
  } -> tensor<4x4xf32>
  %t = linalg.generic {indexing_maps = [#turned, #two], iterator_types = ["parallel", "parallel"]}
    ins(%c : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<4x4xf32>
  %d = linalg.generic {indexing_maps = [#m, #k, #o], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%t, %y : tensor<4x4xf32>, tensor<4x4xf32>) outs(%i : tensor<4x4xf32>) {
  ^bb0(%a: f32, %v: f32, %o: f32):
    %p = arith.mulf %a, %v fastmath<contract> : f32
    %q = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %q : f32
  } -> tensor<4x4xf32>
  %r = linalg.generic {indexing_maps = [#two, #two], iterator_types = ["parallel", "parallel"]}
    ins(%d : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %q = arith.divf %a, %eight : f32
    linalg.yield %q : f32
  } -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// The first product has another reader, the second product's scale is no weight, and the third one's type is narrow.
// CHECK-LABEL: func.func @rejects(
// CHECK:         linalg.generic {{.*}} ins(%arg0, %arg1
// CHECK:         arith.mulf %{{.*}}, %{{.*}} : f32
// CHECK:         arith.mulf %{{.*}}, %{{.*}} : f32
// CHECK:         arith.mulf %{{.*}}, %{{.*}} : f16
// CHECK:         return
func.func @rejects(%x: tensor<4x4xf32> {tw.name = "x"}, %w: tensor<4x4xf32> {tw.param = "w"},
                   %f: tensor<4xf32> {tw.param = "f"}, %y: tensor<4xf32> {tw.name = "y"},
                   %n: tensor<4x4xf16> {tw.name = "n"}, %g: tensor<4xf16> {tw.param = "g"},
                   %h: tensor<4xf16> {tw.param = "h"})
    -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf16>) {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x4xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
  %c = linalg.generic {indexing_maps = [#m, #k, #o], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%x, %w : tensor<4x4xf32>, tensor<4x4xf32>) outs(%i : tensor<4x4xf32>) {
  ^bb0(%a: f32, %v: f32, %o: f32):
    %p = arith.mulf %a, %v fastmath<contract> : f32
    %q = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %q : f32
  } -> tensor<4x4xf32>
  %r = linalg.generic {indexing_maps = [#two, #column, #two], iterator_types = ["parallel", "parallel"]}
    ins(%c, %f : tensor<4x4xf32>, tensor<4xf32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%a: f32, %v: f32, %o: f32):
    %q = arith.mulf %a, %v : f32
    linalg.yield %q : f32
  } -> tensor<4x4xf32>
  %s = linalg.generic {indexing_maps = [#two, #column, #two], iterator_types = ["parallel", "parallel"]}
    ins(%r, %y : tensor<4x4xf32>, tensor<4xf32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%a: f32, %v: f32, %o: f32):
    %q = arith.mulf %a, %v : f32
    linalg.yield %q : f32
  } -> tensor<4x4xf32>
  %b = tensor.empty() : tensor<4x4xf16>
  %t = linalg.generic {indexing_maps = [#two, #column, #column, #two], iterator_types = ["parallel", "parallel"]}
    ins(%n, %g, %h : tensor<4x4xf16>, tensor<4xf16>, tensor<4xf16>) outs(%b : tensor<4x4xf16>) {
  ^bb0(%a: f16, %u: f16, %v: f16, %o: f16):
    %p = arith.mulf %a, %u : f16
    %q = arith.mulf %p, %v : f16
    linalg.yield %q : f16
  } -> tensor<4x4xf16>
  return %c, %r, %s, %t : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf16>
}

// Bytes that a product makes numbers of are not scaled: what they are multiplied by is.
// CHECK-LABEL: func.func @rejects_bytes(
// CHECK:         linalg.generic {{.*}} ins(%arg0, %arg2 : tensor<3x8xf32>, tensor<8xf32>)
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      arith.mulf
// CHECK:         linalg.generic {{.*}} ins(%{{[0-9]+}}, %arg1 : tensor<3x8xf32>, tensor<8x20xi8>)
func.func @rejects_bytes(%x: tensor<3x8xf32>, %q: tensor<8x20xi8> {tw.param = "q"}, %s: tensor<8xf32> {tw.param = "s"})
    -> tensor<3x20xf32> {
  %c = arith.constant 0.0 : f32
  %xe = tensor.empty() : tensor<3x8xf32>
  %scaled = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>,
                                             affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
    ins(%x, %s : tensor<3x8xf32>, tensor<8xf32>) outs(%xe : tensor<3x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    linalg.yield %p : f32
  } -> tensor<3x8xf32>
  %e = tensor.empty() : tensor<3x20xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<3x20xf32>) -> tensor<3x20xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
                                        affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%scaled, %q : tensor<3x8xf32>, tensor<8x20xi8>) outs(%z : tensor<3x20xf32>) {
  ^bb0(%a: f32, %b: i8, %o: f32):
    %f = arith.sitofp %b : i8 to f32
    %m = arith.mulf %a, %f fastmath<contract> : f32
    %t = arith.addf %o, %m fastmath<contract> : f32
    linalg.yield %t : f32
  } -> tensor<3x20xf32>
  return %y : tensor<3x20xf32>
}

// So does the factor of a product with an open number of rows.
// CHECK-LABEL: func.func @open_rows(
// CHECK:         %[[W:.*]] = linalg.generic {{.*}} ins(%arg1, %arg2 : tensor<16x8xf32>, tensor<8xf32>)
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      arith.mulf
// CHECK:         %[[Y:.*]] = linalg.generic {{.*}} ins(%arg0, %[[W]] : tensor<?x16xf32>, tensor<16x8xf32>)
// CHECK:         linalg.generic {{.*}} ins(%[[Y]], %arg3 : tensor<?x8xf32>, tensor<8xf32>)
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      %[[S:.*]] = arith.addf
// CHECK-NEXT:      linalg.yield %[[S]]
func.func @open_rows(%x: tensor<?x16xf32> {tw.name = "x"}, %w: tensor<16x8xf32> {tw.param = "w"},
                     %f: tensor<8xf32> {tw.param = "f"}, %s: tensor<8xf32> {tw.param = "s"}) -> tensor<?x8xf32> {
  %z = arith.constant 0.0 : f32
  %0 = arith.constant 0 : index
  %n = tensor.dim %x, %0 : tensor<?x16xf32>
  %e = tensor.empty(%n) : tensor<?x8xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<?x8xf32>) -> tensor<?x8xf32>
  %c = linalg.generic {indexing_maps = [#m, #k, #o], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%x, %w : tensor<?x16xf32>, tensor<16x8xf32>) outs(%i : tensor<?x8xf32>) {
  ^bb0(%a: f32, %v: f32, %o: f32):
    %p = arith.mulf %a, %v fastmath<contract> : f32
    %q = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %q : f32
  } -> tensor<?x8xf32>
  %d = tensor.empty(%n) : tensor<?x8xf32>
  %y = linalg.generic {indexing_maps = [#two, #column, #column, #two], iterator_types = ["parallel", "parallel"]}
    ins(%c, %f, %s : tensor<?x8xf32>, tensor<8xf32>, tensor<8xf32>) outs(%d : tensor<?x8xf32>) {
  ^bb0(%a: f32, %g: f32, %h: f32, %o: f32):
    %p = arith.mulf %a, %g : f32
    %q = arith.addf %p, %h : f32
    linalg.yield %q : f32
  } -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// A weight does not take on the rows of a factor where the op's own are open.
// CHECK-LABEL: func.func @rejects_open_rows(
// CHECK:         linalg.generic {{.*}} ins(%arg0, %arg1 : tensor<?x8xf32>, tensor<8xf32>)
// CHECK:         arith.mulf
func.func @rejects_open_rows(%x: tensor<?x8xf32> {tw.name = "x"}, %b: tensor<8xf32> {tw.param = "b"},
                             %f: tensor<4xf32> {tw.param = "f"}) -> tensor<?x8xf32> {
  %0 = arith.constant 0 : index
  %n = tensor.dim %x, %0 : tensor<?x8xf32>
  %e = tensor.empty(%n) : tensor<?x8xf32>
  %c = linalg.generic {indexing_maps = [#two, #column, #two], iterator_types = ["parallel", "parallel"]}
    ins(%x, %b : tensor<?x8xf32>, tensor<8xf32>) outs(%e : tensor<?x8xf32>) {
  ^bb0(%a: f32, %g: f32, %o: f32):
    %p = arith.mulf %a, %g : f32
    linalg.yield %p : f32
  } -> tensor<?x8xf32>
  %d = tensor.empty(%n) : tensor<?x8xf32>
  %y = linalg.generic {indexing_maps = [#two, affine_map<(i, j) -> (i)>, #two], iterator_types = ["parallel", "parallel"]}
    ins(%c, %f : tensor<?x8xf32>, tensor<4xf32>) outs(%d : tensor<?x8xf32>) {
  ^bb0(%a: f32, %g: f32, %o: f32):
    %p = arith.mulf %a, %g : f32
    linalg.yield %p : f32
  } -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// Nor does a constant of open extents, such as the mask of a text without padding.
// CHECK-LABEL: func.func @rejects_open_constant(
// CHECK:         arith.subf
// CHECK-NEXT:    arith.mulf
func.func @rejects_open_constant(%x: tensor<?x8xf32> {tw.name = "x"}) -> tensor<?x8xf32> {
  %0 = arith.constant 0 : index
  %one = arith.constant 1.0 : f32
  %many = arith.constant -3.0e38 : f32
  %n = tensor.dim %x, %0 : tensor<?x8xf32>
  %e = tensor.empty(%n) : tensor<?x8xf32>
  %ones = linalg.fill ins(%one : f32) outs(%e : tensor<?x8xf32>) -> tensor<?x8xf32>
  %c = linalg.generic {indexing_maps = [#two, #two], iterator_types = ["parallel", "parallel"]}
    ins(%ones : tensor<?x8xf32>) outs(%e : tensor<?x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.subf %one, %a : f32
    %p = arith.mulf %s, %many : f32
    linalg.yield %p : f32
  } -> tensor<?x8xf32>
  return %c : tensor<?x8xf32>
}
