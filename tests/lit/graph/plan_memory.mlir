// RUN: tilewright opt %s --passes=plan-memory | filecheck %s
// RUN: not tilewright opt --passes=plan-memory %S/outline.mlir 2>&1 | filecheck %s --check-prefix=ERROR

// Results are written where the caller wants them; a view lies where its source does; %b takes the place of %a.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    tw.arena_bytes = 128
// CHECK:       tw.slots = ["input0", "param0", "arena+0"]
// CHECK:       tw.slots = ["arena+0", "arena+64"]
// CHECK:       tw.slots = ["arena+64", "arena+0"]
// CHECK:       tw.slots = ["arena+0", "output0"]
func.func @main(%x: tensor<4x4xf32> {tw.name = "x"}, %w: tensor<4xf32> {tw.param = "w"}) -> tensor<16xf32> {
  %a = call @two(%x, %w) : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  %b = call @one(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %v = tensor.collapse_shape %b [[0, 1]] : tensor<4x4xf32> into tensor<16xf32>
  %u = tensor.expand_shape %v [[0, 1]] output_shape [4, 4] : tensor<16xf32> into tensor<4x4xf32>
  %c = call @one(%u) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %d = call @one(%c) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %r = tensor.collapse_shape %d [[0, 1]] : tensor<4x4xf32> into tensor<16xf32>
  return %r : tensor<16xf32>
}
func.func private @one(tensor<4x4xf32>) -> tensor<4x4xf32>
func.func private @two(tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>

// ERROR: error: pass 'plan-memory': 'linalg.generic' is no kernel call (node 'first'); run `outline` first
