// RUN: %opt %s --passes=drop-asserts | filecheck %s

#id = affine_map<(i) -> (i)>

// A check inside of a body goes, and the arithmetic stays.
// CHECK-LABEL: func.func @main
// CHECK:       linalg.generic
// CHECK-NOT:   cf.assert
// CHECK:       arith.divf
// CHECK:       linalg.yield
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %c = arith.cmpf one, %a, %zero : f32
    cf.assert %c, "tensor with zero element"
    %q = arith.divf %one, %a : f32
    linalg.yield %q : f32
  } -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// A check of the program stays.
// CHECK-LABEL: func.func @rejects_program
// CHECK:       cf.assert
func.func @rejects_program(%x: tensor<?xf32>) -> tensor<?xf32> {
  %zero = arith.constant 0 : index
  %n = tensor.dim %x, %zero : tensor<?xf32>
  %c = arith.cmpi ne, %n, %zero : index
  cf.assert %c, "nothing to do"
  return %x : tensor<?xf32>
}
