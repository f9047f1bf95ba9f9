// RUN: %opt %s --passes=combine-parallel-dense{always=true} | filecheck %s
// RUN: %opt %s --passes=combine-parallel-dense | filecheck %s --check-prefix=PAYS

#two = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (j)>
#m = affine_map<(i, j, k) -> (i, k)>
#k = affine_map<(i, j, k) -> (k, j)>
#o = affine_map<(i, j, k) -> (i, j)>

// Weights and biases lie side by side, and the parts are slices.
// CHECK-LABEL: func.func @dense(
// CHECK:         %[[W:.*]] = tensor.concat dim(1) %arg1, %arg3 : (tensor<6x8xf32>, tensor<6x5xf32>) -> tensor<6x13xf32>
// CHECK:         %[[P:.*]] = linalg.generic {{.*}} ins(%arg0, %[[W]]
// CHECK:         %[[B:.*]] = tensor.concat dim(0) %arg2, %arg4
// CHECK:         %[[S:.*]] = linalg.generic {{.*}} ins(%[[P]], %[[B]] : tensor<4x13xf32>, tensor<13xf32>)
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      arith.addf
// CHECK:         %[[Q:.*]] = tensor.extract_slice %[[S]][0, 0] [4, 8] [1, 1]
// CHECK:         %[[K:.*]] = tensor.extract_slice %[[S]][0, 8] [4, 5] [1, 1]
// CHECK:         linalg.generic {{.*}} ins(%[[Q]], %[[K]]
// PAYS-LABEL: func.func @dense(
// PAYS:         tensor<4x13xf32>
func.func @dense(%x: tensor<4x6xf32> {tw.name = "x"}, %v: tensor<6x8xf32> {tw.param = "v"}, %a: tensor<8xf32> {tw.param = "a"},
                 %w: tensor<6x5xf32> {tw.param = "w"}, %b: tensor<5xf32> {tw.param = "b"}) -> tensor<8x5xf32> {
  %z = arith.constant 0.0 : f32
  %e8 = tensor.empty() : tensor<4x8xf32>
  %i8 = linalg.fill ins(%z : f32) outs(%e8 : tensor<4x8xf32>) -> tensor<4x8xf32>
  %e5 = tensor.empty() : tensor<4x5xf32>
  %i5 = linalg.fill ins(%z : f32) outs(%e5 : tensor<4x5xf32>) -> tensor<4x5xf32>
  %q = linalg.generic {indexing_maps = [#m, #k, #o], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%x, %v : tensor<4x6xf32>, tensor<6x8xf32>) outs(%i8 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %product = arith.mulf %in, %by fastmath<contract> : f32
    %sum = arith.addf %out, %product fastmath<contract> : f32
    linalg.yield %sum : f32
  } -> tensor<4x8xf32>
  %qb = linalg.generic {indexing_maps = [#two, #row, #two], iterator_types = ["parallel", "parallel"]}
    ins(%q, %a : tensor<4x8xf32>, tensor<8xf32>) outs(%e8 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %sum = arith.addf %in, %by : f32
    linalg.yield %sum : f32
  } -> tensor<4x8xf32>
  %k = linalg.generic {indexing_maps = [#m, #k, #o], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%x, %w : tensor<4x6xf32>, tensor<6x5xf32>) outs(%i5 : tensor<4x5xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %product = arith.mulf %in, %by fastmath<contract> : f32
    %sum = arith.addf %out, %product fastmath<contract> : f32
    linalg.yield %sum : f32
  } -> tensor<4x5xf32>
  %kb = linalg.generic {indexing_maps = [#two, #row, #two], iterator_types = ["parallel", "parallel"]}
    ins(%k, %b : tensor<4x5xf32>, tensor<5xf32>) outs(%e5 : tensor<4x5xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %sum = arith.addf %in, %by : f32
    linalg.yield %sum : f32
  } -> tensor<4x5xf32>
  %s = tensor.empty() : tensor<8x5xf32>
  %t = linalg.fill ins(%z : f32) outs(%s : tensor<8x5xf32>) -> tensor<8x5xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (k, i)>, affine_map<(i, j, k) -> (k, j)>, #o], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%qb, %kb : tensor<4x8xf32>, tensor<4x5xf32>) outs(%t : tensor<8x5xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %product = arith.mulf %in, %by fastmath<contract> : f32
    %sum = arith.addf %out, %product fastmath<contract> : f32
    linalg.yield %sum : f32
  } -> tensor<8x5xf32>
  return %r : tensor<8x5xf32>
}

// Full vectors: nothing is saved.
// CHECK-LABEL: func.func @full(
// CHECK:         tensor<4x128xf32>
// PAYS-LABEL: func.func @full(
// PAYS-NOT:     tensor<4x128xf32>
func.func @full(%x: tensor<4x6xf32> {tw.name = "x"}, %v: tensor<6x64xf32> {tw.param = "v"}, %w: tensor<6x64xf32> {tw.param = "w"}) -> tensor<64x64xf32> {
  %z = arith.constant 0.0 : f32
  %e64 = tensor.empty() : tensor<4x64xf32>
  %i64 = linalg.fill ins(%z : f32) outs(%e64 : tensor<4x64xf32>) -> tensor<4x64xf32>
  %q = linalg.generic {indexing_maps = [#m, #k, #o], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%x, %v : tensor<4x6xf32>, tensor<6x64xf32>) outs(%i64 : tensor<4x64xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %product = arith.mulf %in, %by fastmath<contract> : f32
    %sum = arith.addf %out, %product fastmath<contract> : f32
    linalg.yield %sum : f32
  } -> tensor<4x64xf32>
  %k = linalg.generic {indexing_maps = [#m, #k, #o], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%x, %w : tensor<4x6xf32>, tensor<6x64xf32>) outs(%i64 : tensor<4x64xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %product = arith.mulf %in, %by fastmath<contract> : f32
    %sum = arith.addf %out, %product fastmath<contract> : f32
    linalg.yield %sum : f32
  } -> tensor<4x64xf32>
  %s = tensor.empty() : tensor<64x64xf32>
  %t = linalg.fill ins(%z : f32) outs(%s : tensor<64x64xf32>) -> tensor<64x64xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (k, i)>, affine_map<(i, j, k) -> (k, j)>, #o], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%q, %k : tensor<4x64xf32>, tensor<4x64xf32>) outs(%t : tensor<64x64xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %product = arith.mulf %in, %by fastmath<contract> : f32
    %sum = arith.addf %out, %product fastmath<contract> : f32
    linalg.yield %sum : f32
  } -> tensor<64x64xf32>
  return %r : tensor<64x64xf32>
}

// A result of the program, and layers that go on in different ways.
// CHECK-LABEL: func.func @rejects(
// CHECK-NOT:     tensor.concat
// CHECK:         return
func.func @rejects(%x: tensor<4x6xf32> {tw.name = "x"}, %v: tensor<6x8xf32> {tw.param = "v"}, %w: tensor<6x8xf32> {tw.param = "w"}) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8x8xf32>) {
  %z = arith.constant 0.0 : f32
  %e8 = tensor.empty() : tensor<4x8xf32>
  %i8 = linalg.fill ins(%z : f32) outs(%e8 : tensor<4x8xf32>) -> tensor<4x8xf32>
  %q = linalg.generic {indexing_maps = [#m, #k, #o], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%x, %v : tensor<4x6xf32>, tensor<6x8xf32>) outs(%i8 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %product = arith.mulf %in, %by fastmath<contract> : f32
    %sum = arith.addf %out, %product fastmath<contract> : f32
    linalg.yield %sum : f32
  } -> tensor<4x8xf32>
  %k = linalg.generic {indexing_maps = [#m, #k, #o], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%x, %w : tensor<4x6xf32>, tensor<6x8xf32>) outs(%i8 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %product = arith.mulf %in, %by fastmath<contract> : f32
    %sum = arith.addf %out, %product fastmath<contract> : f32
    linalg.yield %sum : f32
  } -> tensor<4x8xf32>
  %n = linalg.generic {indexing_maps = [#two, #two], iterator_types = ["parallel", "parallel"]}
    ins(%q : tensor<4x8xf32>) outs(%e8 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %sum = arith.negf %in : f32
    linalg.yield %sum : f32
  } -> tensor<4x8xf32>
  %l = linalg.generic {indexing_maps = [#two, #two], iterator_types = ["parallel", "parallel"]}
    ins(%k : tensor<4x8xf32>) outs(%e8 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %sum = math.exp %in : f32
    linalg.yield %sum : f32
  } -> tensor<4x8xf32>
  %s = tensor.empty() : tensor<8x8xf32>
  %t = linalg.fill ins(%z : f32) outs(%s : tensor<8x8xf32>) -> tensor<8x8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (k, i)>, affine_map<(i, j, k) -> (k, j)>, #o], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%n, %l : tensor<4x8xf32>, tensor<4x8xf32>) outs(%t : tensor<8x8xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %product = arith.mulf %in, %by fastmath<contract> : f32
    %sum = arith.addf %out, %product fastmath<contract> : f32
    linalg.yield %sum : f32
  } -> tensor<8x8xf32>
  return %n, %l, %r : tensor<4x8xf32>, tensor<4x8xf32>, tensor<8x8xf32>
}

// Other rows.
// CHECK-LABEL: func.func @rejects_rows(
// CHECK-NOT:     tensor.concat
// CHECK:         return
func.func @rejects_rows(%x: tensor<4x6xf32> {tw.name = "x"}, %y: tensor<4x6xf32> {tw.name = "y"}, %v: tensor<6x8xf32> {tw.param = "v"}, %w: tensor<6x8xf32> {tw.param = "w"}) -> tensor<8x8xf32> {
  %z = arith.constant 0.0 : f32
  %e8 = tensor.empty() : tensor<4x8xf32>
  %i8 = linalg.fill ins(%z : f32) outs(%e8 : tensor<4x8xf32>) -> tensor<4x8xf32>
  %q = linalg.generic {indexing_maps = [#m, #k, #o], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%x, %v : tensor<4x6xf32>, tensor<6x8xf32>) outs(%i8 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %product = arith.mulf %in, %by fastmath<contract> : f32
    %sum = arith.addf %out, %product fastmath<contract> : f32
    linalg.yield %sum : f32
  } -> tensor<4x8xf32>
  %k = linalg.generic {indexing_maps = [#m, #k, #o], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%y, %w : tensor<4x6xf32>, tensor<6x8xf32>) outs(%i8 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %product = arith.mulf %in, %by fastmath<contract> : f32
    %sum = arith.addf %out, %product fastmath<contract> : f32
    linalg.yield %sum : f32
  } -> tensor<4x8xf32>
  %s = tensor.empty() : tensor<8x8xf32>
  %t = linalg.fill ins(%z : f32) outs(%s : tensor<8x8xf32>) -> tensor<8x8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (k, i)>, affine_map<(i, j, k) -> (k, j)>, #o], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%q, %k : tensor<4x8xf32>, tensor<4x8xf32>) outs(%t : tensor<8x8xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %product = arith.mulf %in, %by fastmath<contract> : f32
    %sum = arith.addf %out, %product fastmath<contract> : f32
    linalg.yield %sum : f32
  } -> tensor<8x8xf32>
  return %r : tensor<8x8xf32>
}
