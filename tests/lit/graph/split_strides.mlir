// RUN: %opt %s --passes=split-strides,dead-code | filecheck %s

#x = affine_map<(i, k) -> (i * 4 + k)>
#w = affine_map<(i, k) -> (k)>
#y = affine_map<(i, k) -> (i)>

// 18 elements in steps of 4: four windows of rows, and two elements that are left. Rows end where the data does.
// CHECK-DAG: #[[PICK:.*]] = affine_map<(d0, d1) -> (d1 * 4 + d0)>
// CHECK-DAG: #[[ROWS:.*]] = affine_map<(d0, d1, d2) -> (d2, d0 + d1)>
// CHECK-DAG: #[[TAPS:.*]] = affine_map<(d0, d1, d2) -> (d1, d2)>
// CHECK-DAG: #[[LAST:.*]] = affine_map<(d0, d1) -> (d1, d0)>
// CHECK-LABEL: func.func @filter(
// CHECK-SAME:    %[[X:.*]]: tensor<54xf32>, %[[W:.*]]: tensor<18xf32>
// CHECK:         %[[PADDED:.*]] = tensor.pad %[[X]] low[0] high[2]
// CHECK:         %[[R:.*]] = linalg.generic {indexing_maps = [#[[PICK]], {{.*}}ins(%[[PADDED]] : tensor<56xf32>) outs(%{{.*}} : tensor<4x14xf32>)
// CHECK:         %[[FIRST:.*]] = tensor.extract_slice %[[W]][0] [16] [1]
// CHECK:         %[[BLOCKS:.*]] = tensor.expand_shape %[[FIRST]] {{\[}}[0, 1]] output_shape [4, 4]
// CHECK:         %[[READ:.*]] = tensor.extract_slice %[[R]][0, 0] [4, 13] [1, 1]
// CHECK:         %[[A:.*]] = linalg.generic {indexing_maps = [#[[ROWS]], #[[TAPS]], {{.*}} iterator_types = ["parallel", "reduction", "reduction"]} ins(%[[READ]], %[[BLOCKS]]
// CHECK:         %[[REST:.*]] = tensor.extract_slice %[[W]][16] [2] [1]
// CHECK:         %[[TAIL:.*]] = tensor.extract_slice %[[R]][0, 4] [2, 10] [1, 1]
// CHECK:         linalg.generic {indexing_maps = [#[[LAST]], {{.*}} ins(%[[TAIL]], %[[REST]] {{.*}} outs(%[[A]] : tensor<10xf32>)
func.func @filter(%x: tensor<54xf32>, %w: tensor<18xf32>) -> tensor<10xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<10xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<10xf32>) -> tensor<10xf32>
  %c = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "reduction"]}
      ins(%x, %w : tensor<54xf32>, tensor<18xf32>) outs(%z : tensor<10xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %acc, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<10xf32>
  return %c : tensor<10xf32>
}

// A short window that is no whole steps stays.
// CHECK-LABEL: func.func @short(
// CHECK:         linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<44xf32>, tensor<7xf32>)
func.func @short(%x: tensor<44xf32>, %w: tensor<7xf32>) -> tensor<10xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<10xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<10xf32>) -> tensor<10xf32>
  %c = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "reduction"]}
      ins(%x, %w : tensor<44xf32>, tensor<7xf32>) outs(%z : tensor<10xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %acc, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<10xf32>
  return %c : tensor<10xf32>
}

// Two whole steps are two windows of rows.
// CHECK-LABEL: func.func @whole_steps(
// CHECK:         linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<4x11xf32>, tensor<2x4xf32>)
func.func @whole_steps(%x: tensor<44xf32>, %w: tensor<8xf32>) -> tensor<10xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<10xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<10xf32>) -> tensor<10xf32>
  %c = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "reduction"]}
      ins(%x, %w : tensor<44xf32>, tensor<8xf32>) outs(%z : tensor<10xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %acc, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<10xf32>
  return %c : tensor<10xf32>
}

// Of open sizes, whole steps are a view of the data, turned: all of them lie in it.
// CHECK-LABEL: func.func @open(
// CHECK-SAME:    %[[X:.*]]: tensor<?xf32>
// CHECK:         %[[STEPS:.*]] = tensor.extract_slice %[[X]][0] [%{{.*}}] [1]
// CHECK:         %[[VIEW:.*]] = tensor.expand_shape %[[STEPS]] {{\[}}[0, 1]] output_shape [%{{.*}}, 4] : tensor<?xf32> into tensor<?x4xf32>
// CHECK:         %[[R:.*]] = linalg.generic {{.*}} ins(%[[VIEW]] : tensor<?x4xf32>) outs(%{{.*}} : tensor<4x?xf32>)
// CHECK:         linalg.generic {indexing_maps = [#[[ROWS]], #[[TAPS]], {{.*}} ins(%{{.*}}, %{{.*}} : tensor<4x?xf32>, tensor<2x4xf32>)
func.func @open(%x: tensor<?xf32>, %w: tensor<8xf32>, %n: index) -> tensor<?xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : tensor<?xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  %c = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "reduction"]}
      ins(%x, %w : tensor<?xf32>, tensor<8xf32>) outs(%z : tensor<?xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %acc, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<?xf32>
  return %c : tensor<?xf32>
}

// A rest would end behind data of open size.
// CHECK-LABEL: func.func @open_rest(
// CHECK:         linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<?xf32>, tensor<18xf32>)
func.func @open_rest(%x: tensor<?xf32>, %w: tensor<18xf32>, %n: index) -> tensor<?xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : tensor<?xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  %c = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "reduction"]}
      ins(%x, %w : tensor<?xf32>, tensor<18xf32>) outs(%z : tensor<?xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %acc, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<?xf32>
  return %c : tensor<?xf32>
}
