// RUN: %opt %s --passes=flush-denormals | filecheck %s

#row = affine_map<(i, j) -> (i)>
#column = affine_map<(i, j) -> (j)>
#all = affine_map<(i, j) -> (i, j)>

// CHECK-LABEL: func.func @softmax(
// CHECK-SAME:    tw.flush_denormals, tw.loses_nan
// CHECK:         math.exp %{{.*}} {tw.at_most_one}
func.func @softmax(%x: tensor<4x16xf32>, %zero: tensor<4xf32>, %least: tensor<4xf32>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4x16xf32>
  %max = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<4x16xf32>) outs(%least : tensor<4xf32>) {
  ^bb0(%v: f32, %acc: f32):
    %y = arith.maximumf %acc, %v : f32
    linalg.yield %y : f32
  } -> tensor<4xf32>
  %p = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x, %max : tensor<4x16xf32>, tensor<4xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%v: f32, %m: f32, %o: f32):
    %d = arith.subf %v, %m : f32
    %y = math.exp %d : f32
    linalg.yield %y : f32
  } -> tensor<4x16xf32>
  %s = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}
      ins(%p : tensor<4x16xf32>) outs(%zero : tensor<4xf32>) {
  ^bb0(%v: f32, %acc: f32):
    %y = arith.addf %acc, %v : f32
    linalg.yield %y : f32
  } -> tensor<4xf32>
  return %s : tensor<4xf32>
}

// Without the maximum the sum may itself be a denormal.
// CHECK-LABEL: func.func @sum_of_exponentials(
// CHECK-NOT:     tw.flush_denormals
// CHECK:         linalg.generic
func.func @sum_of_exponentials(%x: tensor<4x16xf32>, %zero: tensor<4xf32>) -> tensor<4xf32> {
  %s = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<4x16xf32>) outs(%zero : tensor<4xf32>) {
  ^bb0(%v: f32, %acc: f32):
    %p = math.exp %v : f32
    %y = arith.addf %acc, %p : f32
    linalg.yield %y : f32
  } -> tensor<4xf32>
  return %s : tensor<4xf32>
}

// A maximum of other numbers says nothing about the exponentials.
// CHECK-LABEL: func.func @other_maximum(
// CHECK-SAME:    attributes {tw.flush_denormals} {
// CHECK-NOT:     tw.at_most_one
// CHECK:         return
func.func @other_maximum(%x: tensor<4x16xf32>, %w: tensor<4x16xf32>, %zero: tensor<4xf32>, %least: tensor<4xf32>)
    -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4x16xf32>
  %max = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}
      ins(%w : tensor<4x16xf32>) outs(%least : tensor<4xf32>) {
  ^bb0(%v: f32, %acc: f32):
    %y = arith.maximumf %acc, %v : f32
    linalg.yield %y : f32
  } -> tensor<4xf32>
  %p = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x, %max : tensor<4x16xf32>, tensor<4xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%v: f32, %m: f32, %o: f32):
    %d = arith.subf %v, %m : f32
    %y = math.exp %d : f32
    linalg.yield %y : f32
  } -> tensor<4x16xf32>
  %s = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}
      ins(%p : tensor<4x16xf32>) outs(%zero : tensor<4xf32>) {
  ^bb0(%v: f32, %acc: f32):
    %y = arith.addf %acc, %v : f32
    linalg.yield %y : f32
  } -> tensor<4xf32>
  return %s : tensor<4xf32>
}

// Rows and columns exchanged: the maximum is that of another row.
// CHECK-LABEL: func.func @other_row(
// CHECK-NOT:     tw.at_most_one
// CHECK:         return
func.func @other_row(%x: tensor<16x16xf32>, %zero: tensor<16xf32>, %least: tensor<16xf32>) -> tensor<16xf32> {
  %e = tensor.empty() : tensor<16x16xf32>
  %max = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<16x16xf32>) outs(%least : tensor<16xf32>) {
  ^bb0(%v: f32, %acc: f32):
    %y = arith.maximumf %acc, %v : f32
    linalg.yield %y : f32
  } -> tensor<16xf32>
  %p = linalg.generic {indexing_maps = [#all, #column, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x, %max : tensor<16x16xf32>, tensor<16xf32>) outs(%e : tensor<16x16xf32>) {
  ^bb0(%v: f32, %m: f32, %o: f32):
    %d = arith.subf %v, %m : f32
    %y = math.exp %d : f32
    linalg.yield %y : f32
  } -> tensor<16x16xf32>
  %s = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}
      ins(%p : tensor<16x16xf32>) outs(%zero : tensor<16xf32>) {
  ^bb0(%v: f32, %acc: f32):
    %y = arith.addf %acc, %v : f32
    linalg.yield %y : f32
  } -> tensor<16xf32>
  return %s : tensor<16xf32>
}

// Each term of a sum of products changes by next to nothing.
// CHECK-LABEL: func.func @product(
// CHECK-SAME:    attributes {tw.flush_denormals} {
func.func @product(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>, %zero: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %s = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>,
                                        affine_map<(i, j, k) -> (i, j)>],
                       iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<4x8xf32>, tensor<8x16xf32>) outs(%zero : tensor<4x16xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %y = arith.addf %acc, %p : f32
    linalg.yield %y : f32
  } -> tensor<4x16xf32>
  return %s : tensor<4x16xf32>
}
