// RUN: %opt %s --passes=outline | filecheck %s

#id = affine_map<(a) -> (a)>

// Equal kernels exist once; the nodes' names are on the call; a constant is cloned into its kernel.
// CHECK-LABEL: func.func @main
// CHECK:       %[[A:.*]] = call @[[K:max_[0-9a-f]*]](%arg0) {tw.nodes = ["first"]} : (tensor<4xf32>) -> tensor<4xf32>
// CHECK:       %[[B:.*]] = call @[[K]](%[[A]]) {tw.nodes = ["second"]} : (tensor<4xf32>) -> tensor<4xf32>
// CHECK:       return %[[B]]
func.func @main(%x: tensor<4xf32> {tw.name = "x"}) -> tensor<4xf32> {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.maximumf %a, %c : f32
    linalg.yield %m : f32
  } -> tensor<4xf32> loc("first")
  %z = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%y : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.maximumf %a, %c : f32
    linalg.yield %m : f32
  } -> tensor<4xf32> loc("second")
  return %z : tensor<4xf32>
}

// Results that no kernel computes are copied; a view of a result is a view of the kernel's.
// CHECK-LABEL: func.func @copies
// CHECK:       %[[X:.*]] = call @copy_{{.*}}(%arg0)
// CHECK:       %[[C:.*]] = call @copy_{{.*}}() {{.*}} : () -> tensor<3xf32>
// CHECK:       return %[[X]], %[[C]]
func.func @copies(%x: tensor<4xf32> {tw.name = "x"}) -> (tensor<4xf32>, tensor<3xf32>) {
  %c = arith.constant dense<1.0> : tensor<3xf32>
  return %x, %c : tensor<4xf32>, tensor<3xf32>
}

// An op that nothing is known of is a kernel of its own, with what its regions capture as arguments.
// CHECK-LABEL: func.func @loop
// CHECK:       call @for_{{.*}}(%arg0, %arg1)
// CHECK-NOT:   scf.for
// CHECK:       return
func.func @loop(%x: tensor<4xf32> {tw.name = "x"}, %y: tensor<4xf32> {tw.name = "y"}) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %r = scf.for %i = %c0 to %c4 step %c1 iter_args(%t = %x) -> tensor<4xf32> {
    %v = tensor.extract %y[%i] : tensor<4xf32>
    %n = tensor.insert %v into %t[%i] : tensor<4xf32>
    scf.yield %n : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}

// A copy of a slice is told the sizes of the slice, which has fewer axes than what it is taken from.
// CHECK-LABEL: func.func @part
// CHECK:       call @copy_{{.*}}(%arg0, %arg1, %arg2, %arg3, %arg2, %arg3)
// CHECK:       return
func.func @part(%x: tensor<?x?x?x4xf32> {tw.name = "x"}, %i: index, %h: index, %w: index) -> tensor<?x?x4xf32> {
  %s = tensor.extract_slice %x[%i, 0, 0, 0] [1, %h, %w, 4] [1, 1, 1, 1] : tensor<?x?x?x4xf32> to tensor<?x?x4xf32>
  return %s : tensor<?x?x4xf32>
}

// A kernel states which of its sizes are one: what it reads along its loop, what it is called with, and its result's.
// CHECK-LABEL: func.func @same
// CHECK:       call @[[SUM:add_[0-9a-f]*]](%arg0, %arg1, %arg2, %arg2)
// CHECK-LABEL: func.func @two
// CHECK:       call @[[TWO:add_[0-9a-f]*]](%arg0, %arg1, %arg2, %arg2)
func.func @same(%x: tensor<?xf32> {tw.name = "x"}, %y: tensor<?xf32> {tw.name = "y"}, %n: index) -> tensor<?xf32> {
  %e = tensor.empty(%n) : tensor<?xf32>
  %r = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%x, %y : tensor<?xf32>, tensor<?xf32>) outs(%e : tensor<?xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<?xf32>
  return %r : tensor<?xf32>
}

#first = affine_map<(a) -> (0)>
func.func @two(%x: tensor<?xf32> {tw.name = "x"}, %y: tensor<?xf32> {tw.name = "y"}, %n: index) -> tensor<?xf32> {
  %e = tensor.empty(%n) : tensor<?xf32>
  %r = linalg.generic {indexing_maps = [#id, #first, #id], iterator_types = ["parallel"]} ins(%x, %y : tensor<?xf32>, tensor<?xf32>) outs(%e : tensor<?xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<?xf32>
  return %r : tensor<?xf32>
}

// The kernels come after what they are called from.
// CHECK:       func.func private @[[K]](%arg0: tensor<4xf32>) -> tensor<4xf32>
// CHECK:       arith.constant 0.000000e+00
// CHECK:       func.func private @for_
// CHECK:       func.func private @[[SUM]]({{.*}}tw.same_sizes = [array<i64: 0, 0, 1, 0, 2, -1, 3, -1, 4, 0>]
// CHECK:       func.func private @[[TWO]]({{.*}}tw.same_sizes = [array<i64: 0, 0, 2, -1, 3, -1, 4, 0>]
