// RUN: %opt %s --passes=outline-control | filecheck %s

#id = affine_map<(a) -> (a)>

// Each region becomes a function; what is cheap goes with it, sizes and tensors are arguments.
// CHECK-LABEL: func.func @main(%arg0: tensor<?xf32>, %arg1: i1)
// CHECK:         %[[D:.*]] = tensor.dim
// CHECK:         %[[R:.*]] = scf.if %arg1 -> (tensor<?xf32>) {
// CHECK-NEXT:      %[[A:.*]] = func.call @main.if.0(%[[D]], %arg0) {tw.body}
// CHECK-NEXT:      scf.yield %[[A]]
// CHECK-NEXT:    } else {
// CHECK-NEXT:      %[[B:.*]] = func.call @main.if.1(%arg0) {tw.body}
// CHECK-NEXT:      scf.yield %[[B]]
// CHECK-NEXT:    } {tw.control}
// CHECK:         return %[[R]]
func.func @main(%x: tensor<?xf32>, %c: i1) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %f = arith.constant 2.0 : f32
  %d = tensor.dim %x, %c0 : tensor<?xf32>
  %r = scf.if %c -> (tensor<?xf32>) {
    %e = tensor.empty(%d) : tensor<?xf32>
    %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<?xf32>) outs(%e : tensor<?xf32>) {
    ^bb0(%a: f32, %o: f32):
      %m = arith.mulf %a, %f : f32
      linalg.yield %m : f32
    } -> tensor<?xf32>
    scf.yield %y : tensor<?xf32>
  } else {
    scf.yield %x : tensor<?xf32>
  } {tw.control}
  return %r : tensor<?xf32>
}

// The test of a loop stays; a body that has control flow itself is outlined in turn.
// CHECK-LABEL: func.func @loop
// CHECK:         scf.while
// CHECK-NEXT:      %[[B:.*]] = arith.cmpi slt
// CHECK-NEXT:      scf.condition(%[[B]])
// CHECK-NEXT:    } do {
// CHECK-NEXT:    ^bb0(%[[I:.*]]: index, %[[S:.*]]: none):
// CHECK-NEXT:      %[[N:.*]]:2 = func.call @loop.while.2({{.*}}%[[S]]{{.*}}%[[I]]) {tw.body}
// CHECK-NEXT:      scf.yield %[[N]]#0, %[[N]]#1
// CHECK-NEXT:    } attributes {tw.control}
func.func @loop(%x: tensor<?xf32>, %n: index, %s: none, %c: i1) -> none {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r:2 = scf.while (%i = %c0, %a = %s) : (index, none) -> (index, none) {
    %b = arith.cmpi slt, %i, %n : index
    scf.condition(%b) %i, %a : index, none
  } do {
  ^bb0(%i: index, %a: none):
    %v = scf.if %c -> (none) {
      %w = func.call @host(%a, %x) {tw.host = "SequenceInsert"} : (none, tensor<?xf32>) -> none
      scf.yield %w : none
    } else {
      scf.yield %a : none
    } {tw.control}
    %k = arith.addi %i, %c1 : index
    scf.yield %k, %v : index, none
  } attributes {tw.control}
  return %r#1 : none
}
func.func private @host(none, tensor<?xf32>) -> none

// An op without the mark is a kernel's, and stays as it is.
// CHECK-LABEL: func.func @kernel
// CHECK:         scf.if
// CHECK-NEXT:      tensor.empty
// CHECK-NOT:     call
// CHECK:         return
func.func @kernel(%x: tensor<4xf32>, %c: i1) -> tensor<4xf32> {
  %r = scf.if %c -> (tensor<4xf32>) {
    %e = tensor.empty() : tensor<4xf32>
    scf.yield %e : tensor<4xf32>
  } else {
    scf.yield %x : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}

// CHECK:       func.func private @main.if.0(%arg0: index, %arg1: tensor<?xf32>) -> tensor<?xf32> attributes {tw.body} {
// CHECK-NEXT:    %[[F:.*]] = arith.constant 2.0
// CHECK:         arith.mulf %{{.*}}, %[[F]]
// CHECK:       func.func private @main.if.1(%arg0: tensor<?xf32>) -> tensor<?xf32> attributes {tw.body} {
// CHECK-NEXT:    return %arg0
// CHECK:       func.func private @loop.while.2(
// CHECK:         scf.if
// CHECK-NEXT:      func.call @loop.while.2.if.3(
// CHECK:       func.func private @loop.while.2.if.3(%arg0: none, %arg1: tensor<?xf32>) -> none attributes {tw.body} {
// CHECK-NEXT:    call @host
