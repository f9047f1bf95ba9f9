// RUN: %opt %s --passes=report-outside,outline,plan-memory | filecheck %s

#id = affine_map<(i) -> (i)>

// Code of a user's code generator stays a call of a function without a body, on memory as any kernel. What it reads is
// copied where it is a constant, and its result is never written over what it reads.
// CHECK-LABEL: func.func @main(
// CHECK:         %[[E:.*]] = call @exp_{{[0-9a-f]*}}(%arg0)
// CHECK-SAME:      tw.slots = ["input0", "arena+[[AT:[0-9]+]]"]
// CHECK:         %[[C:.*]] = call @copy_{{[0-9a-f]*}}()
// CHECK:         %[[R:.*]]:2 = call @codegen_c(%[[E]], %[[C]])
// CHECK-SAME:      tw.codegen = "code generator 'c'"
// CHECK-SAME:      tw.slots = ["arena+[[AT]]", "arena+{{[0-9]+}}", "output0", "arena+{{[0-9]+}}"]
// CHECK:         call @tw.report(%[[R]]#1)
// CHECK:       func.func private @codegen_c(tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<i64>)
func.func @main(%x: tensor<4xf32> {tw.name = "x"}) -> tensor<4xf32> {
  %c = arith.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %o = tensor.empty() : tensor<4xf32>
  %e = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
    ins(%x : tensor<4xf32>) outs(%o : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %p = math.exp %a : f32
    linalg.yield %p : f32
  } -> tensor<4xf32>
  %y, %s = call @codegen_c(%e, %c) {tw.codegen = "code generator 'c'", tw.nodes = ["n"]}
    : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<i64>)
  return %y : tensor<4xf32>
}
func.func private @codegen_c(tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<i64>) attributes {tw.codegen = "c"}
