// RUN: %opt %s --passes=plan-memory | filecheck %s

// A loop writes elements over a state where it lies, in a kernel of its own; what another call makes of the state before
// that may be read later.
// CHECK-LABEL: func.func @main(
// CHECK:         call @negate(%arg0) : (tensor<8xf32>)
// CHECK:         call @write_over(%arg0, %arg1) {tw.over = 0 : i64}
// CHECK:         call @write(%arg2, %arg1) : (tensor<8xf32>, tensor<4xf32>)
// CHECK:         call @negate(%arg2)
// CHECK:       func.func private @write_over(
// CHECK-SAME:    attributes {tw.in_place = array<i64: 0>, tw.over = 0 : i64}
func.func @main(%a: tensor<8xf32> {tw.name = "a", tw.state = 0 : i64}, %x: tensor<4xf32> {tw.name = "x"},
                %b: tensor<8xf32> {tw.name = "b", tw.state = 1 : i64})
    -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %before = call @negate(%a) : (tensor<8xf32>) -> tensor<8xf32>
  %next_a = call @write(%a, %x) : (tensor<8xf32>, tensor<4xf32>) -> tensor<8xf32>
  %next_b = call @write(%b, %x) : (tensor<8xf32>, tensor<4xf32>) -> tensor<8xf32>
  %late = call @negate(%b) : (tensor<8xf32>) -> tensor<8xf32>
  return %next_a, %next_b, %before, %late : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}
func.func private @write(%into: tensor<8xf32>, %x: tensor<4xf32>) -> tensor<8xf32> {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %four = arith.constant 4 : index
  %r = scf.for %i = %zero to %four step %one iter_args(%t = %into) -> tensor<8xf32> {
    %e = tensor.extract %x[%i] : tensor<4xf32>
    %n = tensor.insert %e into %t[%i] : tensor<8xf32>
    scf.yield %n : tensor<8xf32>
  }
  return %r : tensor<8xf32>
}
func.func private @negate(%x: tensor<8xf32>) -> tensor<8xf32> {
  %e = tensor.empty() : tensor<8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %n = arith.negf %i : f32
    linalg.yield %n : f32
  } -> tensor<8xf32>
  return %r : tensor<8xf32>
}
