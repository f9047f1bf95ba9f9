// RUN: %opt %s --passes=store-concat | filecheck %s

#id = affine_map<(i, j) -> (i, j)>
#sum = affine_map<(i, j) -> (i)>
#maps = {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}

// In the order in which the pieces are made: the second one is the first that is stored.
// CHECK-LABEL: func.func @accepts(
// CHECK:         %[[E:.*]] = tensor.empty() : tensor<4x12xf32>
// CHECK:         %[[B:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<4x4xf32>)
// CHECK:         %[[S:.*]] = tensor.insert_slice %[[B]] into %[[E]][0, 8] [4, 4] [1, 1]
// CHECK:         %[[A:.*]] = linalg.generic
// CHECK:         %[[C:.*]] = tensor.insert_slice %[[A]] into %[[S]][0, 0] [4, 8] [1, 1]
// CHECK-NOT:     tensor.concat
// CHECK:         linalg.generic {{.*}} ins(%[[C]] : tensor<4x12xf32>)
func.func @accepts(%x: tensor<4x8xf32>, %y: tensor<4x4xf32>) -> tensor<4xf32> {
  %f = tensor.empty() : tensor<4x4xf32>
  %b = linalg.generic #maps ins(%y : tensor<4x4xf32>) outs(%f : tensor<4x4xf32>) {
  ^bb0(%i: f32, %o: f32):
    %n = arith.negf %i : f32
    linalg.yield %n : f32
  } -> tensor<4x4xf32>
  %e = tensor.empty() : tensor<4x8xf32>
  %a = linalg.generic #maps ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %n = arith.negf %i : f32
    linalg.yield %n : f32
  } -> tensor<4x8xf32>
  %c = tensor.concat dim(1) %a, %b : (tensor<4x8xf32>, tensor<4x4xf32>) -> tensor<4x12xf32>
  %g = tensor.empty() : tensor<4xf32>
  %z = arith.constant 0.0 : f32
  %h = linalg.fill ins(%z : f32) outs(%g : tensor<4xf32>) -> tensor<4xf32>
  %s = linalg.generic {indexing_maps = [#id, #sum], iterator_types = ["parallel", "reduction"]}
      ins(%c : tensor<4x12xf32>) outs(%h : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32):
    %n = arith.addf %i, %o : f32
    linalg.yield %n : f32
  } -> tensor<4xf32>
  return %s : tensor<4xf32>
}

// A concat that leaves the program, through a view: its pieces are written where the caller wants it.
// CHECK-LABEL: func.func @accepts_results(
// CHECK-NOT:     tensor.concat
// CHECK:         %[[C:.*]] = tensor.insert_slice
// CHECK:         tensor.collapse_shape %[[C]]
func.func @accepts_results(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> tensor<64xf32> {
  %e = tensor.empty() : tensor<4x8xf32>
  %a = linalg.generic #maps ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %n = arith.negf %i : f32
    linalg.yield %n : f32
  } -> tensor<4x8xf32>
  %b = linalg.generic #maps ins(%y : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %n = arith.negf %i : f32
    linalg.yield %n : f32
  } -> tensor<4x8xf32>
  %c = tensor.concat dim(1) %a, %b : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x16xf32>
  %v = tensor.collapse_shape %c [[0, 1]] : tensor<4x16xf32> into tensor<64xf32>
  return %v : tensor<64xf32>
}

// A piece that is an argument is copied, where a kernel makes the other half; one that comes twice is no piece.
// CHECK-LABEL: func.func @copies_pieces(
// CHECK:         %[[A:.*]] = tensor.insert_slice %{{.*}} into %{{.*}}[0, 0] [4, 8] [1, 1]
// CHECK:         tensor.insert_slice %arg0 into %[[A]][0, 8] [4, 8] [1, 1]
// CHECK:         tensor.concat
func.func @copies_pieces(%x: tensor<4x8xf32>) -> tensor<4x16xf32> {
  %e = tensor.empty() : tensor<4x8xf32>
  %a = linalg.generic #maps ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %n = arith.negf %i : f32
    linalg.yield %n : f32
  } -> tensor<4x8xf32>
  %b = linalg.generic #maps ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %n = math.absf %i : f32
    linalg.yield %n : f32
  } -> tensor<4x8xf32>
  %c = tensor.concat dim(1) %a, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x16xf32>
  %d = tensor.concat dim(1) %b, %b : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x16xf32>
  %f = tensor.empty() : tensor<4x16xf32>
  %r = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%c, %d : tensor<4x16xf32>, tensor<4x16xf32>) outs(%f : tensor<4x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %n = arith.addf %i, %j : f32
    linalg.yield %n : f32
  } -> tensor<4x16xf32>
  return %r : tensor<4x16xf32>
}
