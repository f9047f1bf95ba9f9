// RUN: %opt %s --passes=share-kernels | filecheck %s
// RUN: %opt %s --passes=share-kernels,plan-memory | filecheck %s --check-prefix=PLAN

// Two steps of a loop: a row of an input is a slice, and lies in it; what an intermediate has for the step has gaps, and
// is read from some elements on. The arena ends where the kernel's type of it does.
// CHECK-LABEL: func.func @main(
// CHECK:         %[[A:.*]] = call @make(
// CHECK:         %[[P:.*]] = tensor.extract_slice %arg0[0, 3, 0] [1, 1, 16] [1, 1, 1]
// CHECK:         call @step_[[N:[0-9a-f]+]](%[[P]], %[[A]]) {tw.nodes = ["a"], tw.offsets = array<i64: 0, 12>}
// CHECK:         %[[Q:.*]] = tensor.extract_slice %arg0[0, 0, 0] [1, 1, 16] [1, 1, 1]
// CHECK:         call @step_[[N]](%[[Q]], %[[A]]) : (
//
// PLAN-LABEL: func.func @main(
// PLAN-SAME:    tw.arena_bytes = 2096
// PLAN:         call @make{{.*}}tw.slots = ["input1", "arena+0"]
// PLAN:         call @step_{{.*}}tw.slots = ["input0+192", "arena+48", "output0"]
// PLAN:         call @step_{{.*}}tw.slots = ["input0", "arena+0", "output1"]
func.func @main(%x: tensor<1x5x16xf32> {tw.name = "x"}, %y: tensor<16x8x4xf32> {tw.name = "y"})
    -> (tensor<16x4xf32>, tensor<16x4xf32>) {
  %m = call @make(%y) : (tensor<16x8x4xf32>) -> tensor<16x8x4xf32>
  %a = call @step_3(%x, %m) {tw.nodes = ["a"]} : (tensor<1x5x16xf32>, tensor<16x8x4xf32>) -> tensor<16x4xf32>
  %b = call @step_0(%x, %m) : (tensor<1x5x16xf32>, tensor<16x8x4xf32>) -> tensor<16x4xf32>
  return %a, %b : tensor<16x4xf32>, tensor<16x4xf32>
}
func.func private @make(tensor<16x8x4xf32>) -> tensor<16x8x4xf32>

#at = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
func.func private @step_3(%x: tensor<1x5x16xf32>, %m: tensor<16x8x4xf32>) -> tensor<16x4xf32> {
  %r = tensor.extract_slice %x[0, 3, 0] [1, 1, 16] [1, 1, 1] : tensor<1x5x16xf32> to tensor<16xf32>
  %s = tensor.extract_slice %m[0, 3, 0] [16, 1, 4] [1, 1, 1] : tensor<16x8x4xf32> to tensor<16x4xf32>
  %e = tensor.empty() : tensor<16x4xf32>
  %v = linalg.generic {indexing_maps = [#at, #row, #at], iterator_types = ["parallel", "parallel"]}
      ins(%s, %r : tensor<16x4xf32>, tensor<16xf32>) outs(%e : tensor<16x4xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %z = arith.mulf %p, %q : f32
    linalg.yield %z : f32
  } -> tensor<16x4xf32>
  return %v : tensor<16x4xf32>
}
func.func private @step_0(%x: tensor<1x5x16xf32>, %m: tensor<16x8x4xf32>) -> tensor<16x4xf32> {
  %r = tensor.extract_slice %x[0, 0, 0] [1, 1, 16] [1, 1, 1] : tensor<1x5x16xf32> to tensor<16xf32>
  %s = tensor.extract_slice %m[0, 0, 0] [16, 1, 4] [1, 1, 1] : tensor<16x8x4xf32> to tensor<16x4xf32>
  %e = tensor.empty() : tensor<16x4xf32>
  %v = linalg.generic {indexing_maps = [#at, #row, #at], iterator_types = ["parallel", "parallel"]}
      ins(%s, %r : tensor<16x4xf32>, tensor<16xf32>) outs(%e : tensor<16x4xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %z = arith.mulf %p, %q : f32
    linalg.yield %z : f32
  } -> tensor<16x4xf32>
  return %v : tensor<16x4xf32>
}

// Left: slices of other sizes, those with gaps of what the caller owns, and kernels that also read all of an operand.
// CHECK-LABEL: func.func @rejects_inputs(
// CHECK:         call @column_1(
// CHECK:         call @column_2(
// CHECK:         call @both_1(
// CHECK:         call @both_2(
func.func @rejects_inputs(%x: tensor<4x5xf32> {tw.name = "x"})
    -> (tensor<4x1xf32>, tensor<4x1xf32>, tensor<1x5xf32>, tensor<1x5xf32>) {
  %a = call @column_1(%x) : (tensor<4x5xf32>) -> tensor<4x1xf32>
  %b = call @column_2(%x) : (tensor<4x5xf32>) -> tensor<4x1xf32>
  %c = call @both_1(%x) : (tensor<4x5xf32>) -> tensor<1x5xf32>
  %d = call @both_2(%x) : (tensor<4x5xf32>) -> tensor<1x5xf32>
  return %a, %b, %c, %d : tensor<4x1xf32>, tensor<4x1xf32>, tensor<1x5xf32>, tensor<1x5xf32>
}
func.func private @column_1(%x: tensor<4x5xf32>) -> tensor<4x1xf32> {
  %r = tensor.extract_slice %x[0, 1] [4, 1] [1, 1] : tensor<4x5xf32> to tensor<4x1xf32>
  %e = tensor.empty() : tensor<4x1xf32>
  %v = linalg.exp ins(%r : tensor<4x1xf32>) outs(%e : tensor<4x1xf32>) -> tensor<4x1xf32>
  return %v : tensor<4x1xf32>
}
func.func private @column_2(%x: tensor<4x5xf32>) -> tensor<4x1xf32> {
  %r = tensor.extract_slice %x[0, 2] [4, 1] [1, 1] : tensor<4x5xf32> to tensor<4x1xf32>
  %e = tensor.empty() : tensor<4x1xf32>
  %v = linalg.exp ins(%r : tensor<4x1xf32>) outs(%e : tensor<4x1xf32>) -> tensor<4x1xf32>
  return %v : tensor<4x1xf32>
}
func.func private @both_1(%x: tensor<4x5xf32>) -> tensor<1x5xf32> {
  %r = tensor.extract_slice %x[1, 0] [1, 5] [1, 1] : tensor<4x5xf32> to tensor<1x5xf32>
  %c = arith.constant 3 : index
  %n = tensor.extract %x[%c, %c] : tensor<4x5xf32>
  %e = tensor.empty() : tensor<1x5xf32>
  %f = linalg.fill ins(%n : f32) outs(%e : tensor<1x5xf32>) -> tensor<1x5xf32>
  %v = linalg.add ins(%r, %f : tensor<1x5xf32>, tensor<1x5xf32>) outs(%e : tensor<1x5xf32>) -> tensor<1x5xf32>
  return %v : tensor<1x5xf32>
}
func.func private @both_2(%x: tensor<4x5xf32>) -> tensor<1x5xf32> {
  %r = tensor.extract_slice %x[2, 0] [1, 5] [1, 1] : tensor<4x5xf32> to tensor<1x5xf32>
  %c = arith.constant 3 : index
  %n = tensor.extract %x[%c, %c] : tensor<4x5xf32>
  %e = tensor.empty() : tensor<1x5xf32>
  %f = linalg.fill ins(%n : f32) outs(%e : tensor<1x5xf32>) -> tensor<1x5xf32>
  %v = linalg.add ins(%r, %f : tensor<1x5xf32>, tensor<1x5xf32>) outs(%e : tensor<1x5xf32>) -> tensor<1x5xf32>
  return %v : tensor<1x5xf32>
}

// CHECK-NOT:   @step_3
// CHECK:       func.func private @step_{{[0-9a-f]+}}(%arg0: tensor<1x1x16xf32>, %arg1: tensor<16x8x4xf32>)
// CHECK:         tensor.extract_slice %arg0[0, 0, 0] [1, 1, 16] [1, 1, 1] : tensor<1x1x16xf32> to tensor<16xf32>
// CHECK:         tensor.extract_slice %arg1[0, 0, 0] [16, 1, 4] [1, 1, 1] : tensor<16x8x4xf32> to tensor<16x4xf32>
