// RUN: %opt %s --passes=join-sums | filecheck %s

#image = affine_map<(n, c, h, w) -> (n, h, w, c)>
#channels = affine_map<(n, c, h, w) -> (n, c)>

// The rows and columns of an image are neighbours: their sum goes along one axis.
// CHECK-DAG:     #[[READ:.*]] = affine_map<(d0, d1, d2) -> (d0, d2, d1)>
// CHECK-DAG:     #[[OUT:.*]] = affine_map<(d0, d1, d2) -> (d0, d1)>
// CHECK-LABEL: func.func @accepts(
// CHECK:         %[[V:.*]] = tensor.collapse_shape %arg0 {{\[\[}}0], [1, 2], [3]] : tensor<2x?x?x8xf32> into tensor<2x?x8xf32>
// CHECK:         linalg.generic {indexing_maps = [#[[READ]], #[[OUT]]], iterator_types = ["parallel", "parallel", "reduction"]} ins(%[[V]] : tensor<2x?x8xf32>)
func.func @accepts(%x: tensor<2x?x?x8xf32>) -> tensor<2x8xf32> {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<2x8xf32>) -> tensor<2x8xf32>
  %r = linalg.generic {indexing_maps = [#image, #channels], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
    ins(%x : tensor<2x?x?x8xf32>) outs(%z : tensor<2x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %o, %a : f32
    linalg.yield %s : f32
  } -> tensor<2x8xf32>
  return %r : tensor<2x8xf32>
}

// Axes that do not lie together, and those of known extents, stay.
// CHECK-LABEL: func.func @rejects(
// CHECK-NOT:     tensor.collapse_shape
func.func @rejects(%x: tensor<?x8x?xf32>, %y: tensor<?x4x4xf32>, %n: index) -> (tensor<8xf32>, tensor<?xf32>) {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<8xf32>) -> tensor<8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(c, i, j) -> (i, c, j)>, affine_map<(c, i, j) -> (c)>],
                       iterator_types = ["parallel", "reduction", "reduction"]}
    ins(%x : tensor<?x8x?xf32>) outs(%z : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %o, %a : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %f = tensor.empty(%n) : tensor<?xf32>
  %g = linalg.fill ins(%c : f32) outs(%f : tensor<?xf32>) -> tensor<?xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(n, i, j) -> (n, i, j)>, affine_map<(n, i, j) -> (n)>],
                       iterator_types = ["parallel", "reduction", "reduction"]}
    ins(%y : tensor<?x4x4xf32>) outs(%g : tensor<?xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %o, %a : f32
    linalg.yield %s : f32
  } -> tensor<?xf32>
  return %r, %t : tensor<8xf32>, tensor<?xf32>
}

// A known number of rows of open length stays, too, where something reads their elements again: a kernel holds these.
// CHECK-LABEL: func.func @rejects_rows_that_are_read_again(
// CHECK-NOT:     tensor.collapse_shape
func.func @rejects_rows_that_are_read_again(%x: tensor<4x10x?xf32>, %n: index) -> tensor<4x10x?xf32> {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(g, i, j) -> (g, i, j)>, affine_map<(g, i, j) -> (g)>],
                       iterator_types = ["parallel", "reduction", "reduction"]}
    ins(%x : tensor<4x10x?xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %o, %a : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  %f = tensor.empty(%n) : tensor<4x10x?xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(g, i, j) -> (g, i, j)>, affine_map<(g, i, j) -> (g)>,
                                        affine_map<(g, i, j) -> (g, i, j)>],
                       iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%x, %r : tensor<4x10x?xf32>, tensor<4xf32>) outs(%f : tensor<4x10x?xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.subf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<4x10x?xf32>
  return %y : tensor<4x10x?xf32>
}
