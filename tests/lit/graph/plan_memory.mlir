// RUN: %opt %s --passes=plan-memory | filecheck %s
// RUN: not %opt --passes=plan-memory %S/outline.mlir 2>&1 | filecheck %s --check-prefix=ERROR

// Results are written where the caller wants them; a view lies where its source does; %b takes the place of %a.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    tw.arena_bytes = 128
// CHECK:       tw.slots = ["input0", "param0", "arena+0"]
// CHECK:       tw.slots = ["arena+0", "arena+64"]
// CHECK:       tw.slots = ["arena+64", "arena+0"]
// CHECK:       tw.slots = ["arena+0", "output0"]
func.func @main(%x: tensor<4x4xf32> {tw.name = "x"}, %w: tensor<4xf32> {tw.param = "w"}) -> tensor<16xf32> {
  %a = call @scale(%x, %w) : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  %b = call @one(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %v = tensor.collapse_shape %b [[0, 1]] : tensor<4x4xf32> into tensor<16xf32>
  %u = tensor.expand_shape %v [[0, 1]] output_shape [4, 4] : tensor<16xf32> into tensor<4x4xf32>
  %c = call @one(%u) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %d = call @one(%c) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %r = tensor.collapse_shape %d [[0, 1]] : tensor<4x4xf32> into tensor<16xf32>
  return %r : tensor<16xf32>
}
func.func private @one(tensor<4x4xf32>) -> tensor<4x4xf32>
func.func private @scale(tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>

#id = affine_map<(i, j) -> (i, j)>
#turned = affine_map<(i, j) -> (j, i)>
#row = affine_map<(i, j) -> (0, j)>
#left = affine_map<(i, j, k) -> (i, k)>
#right = affine_map<(i, j, k) -> (k, j)>
#result = affine_map<(i, j, k) -> (i, j)>
#first = affine_map<(i, j) -> (i)>

// An elementwise kernel's result takes the place of an operand that nobody reads any more, a product's that of what is
// added to it; an operand that lives on keeps its own.
// CHECK-LABEL: func.func @in_place
// CHECK-SAME:    tw.arena_bytes = 128
// CHECK:       call @make{{.*}}tw.slots = ["input0", "arena+0"]
// CHECK:       call @make{{.*}}tw.slots = ["input0", "arena+64"]
// CHECK:       call @add{{.*}}tw.slots = ["arena+64", "arena+0", "arena+64"]
// CHECK:       call @add{{.*}}tw.slots = ["arena+0", "arena+64", "arena+0"]
// CHECK:       call @product{{.*}}tw.slots = ["arena+0", "arena+64", "arena+64"]
// CHECK:       call @make{{.*}}tw.slots = ["arena+64", "output0"]
func.func @in_place(%x: tensor<4x4xf32> {tw.name = "x"}) -> tensor<4x4xf32> {
  %a = call @make(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = call @make(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %c = call @add(%b, %a) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %d = call @add(%a, %c) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %e = call @product(%d, %c) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %f = call @make(%e) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %f : tensor<4x4xf32>
}

// What the caller owns is never written, nor is a weight; a result of the program lies in the caller's memory. What is
// read in two views stays whole until the kernel is done.
// CHECK-LABEL: func.func @rejects_memory
// CHECK:       tw.slots = ["input0", "param0", "arena+0"]
// CHECK:       tw.slots = ["arena+0", "arena+0", "arena+64"]
// CHECK:       tw.slots = ["arena+64", "output0"]
func.func @rejects_memory(%x: tensor<4x4xf32> {tw.name = "x"}, %w: tensor<4x4xf32> {tw.param = "w"}) -> tensor<4x4xf32> {
  %a = call @add(%x, %w) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %v = tensor.collapse_shape %a [[0, 1]] : tensor<4x4xf32> into tensor<16xf32>
  %u = tensor.expand_shape %v [[0, 1]] output_shape [4, 4] : tensor<16xf32> into tensor<4x4xf32>
  %b = call @add(%a, %u) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %c = call @negate(%b) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %c : tensor<4x4xf32>
}

// Only the kernels are at fault here: each operand dies, and has the result's size.
// CHECK-LABEL: func.func @rejects_kernels
func.func @rejects_kernels(%x: tensor<4x4xf32> {tw.name = "x"}) -> tensor<4x4xf32> {
  %0 = call @make(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = call @broadcast(%0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = call @transpose(%1) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = call @both_ways(%2) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %4 = call @square(%3) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %5 = call @rows(%4) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %6 = call @pad(%5) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %7 = call @bits(%6) : (tensor<4x4xf32>) -> tensor<4x4xi32>
  %8 = call @floats(%7) : (tensor<4x4xi32>) -> tensor<4x4xf32>
  %9 = call @gather(%8) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %10 = call @accumulate(%9) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %11:2 = call @two(%10) : (tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
  %12 = call @make(%11#0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %13 = call @make(%11#1) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %14 = call @add(%12, %13) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %14 : tensor<4x4xf32>
}

// CHECK-LABEL: func.func private @add
// CHECK-SAME:    attributes {tw.in_place = array<i64: 0>}
func.func private @add(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %e = tensor.empty() : tensor<4x4xf32>
  %r = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
    ins(%x, %y : tensor<4x4xf32>, tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %v = arith.addf %a, %b : f32
    linalg.yield %v : f32
  } -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// CHECK-LABEL: func.func private @product
// CHECK-SAME:    attributes {tw.in_place = array<i64: 1>}
func.func private @product(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %e = tensor.empty() : tensor<4x4xf32>
  %z = arith.constant 0.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
  %p = linalg.generic {indexing_maps = [#left, #right, #result], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%x, %x : tensor<4x4xf32>, tensor<4x4xf32>) outs(%f : tensor<4x4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    %v = arith.addf %o, %m : f32
    linalg.yield %v : f32
  } -> tensor<4x4xf32>
  %r = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
    ins(%p, %y : tensor<4x4xf32>, tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %v = arith.addf %a, %b : f32
    linalg.yield %v : f32
  } -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// It may be written over its operand, but no call asks for it.
// CHECK-LABEL: func.func private @negate
// CHECK-NOT:     tw.in_place
func.func private @negate(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %e = tensor.empty() : tensor<4x4xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
    ins(%x : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %v = arith.negf %a : f32
    linalg.yield %v : f32
  } -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// An operand that is broadcast.
// CHECK-LABEL: func.func private @broadcast
// CHECK-NOT:     tw.in_place
func.func private @broadcast(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %e = tensor.empty() : tensor<4x4xf32>
  %s = tensor.extract_slice %x[0, 0] [1, 4] [1, 1] : tensor<4x4xf32> to tensor<1x4xf32>
  %r = linalg.generic {indexing_maps = [#row, #id], iterator_types = ["parallel", "parallel"]}
    ins(%s : tensor<1x4xf32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %v = arith.negf %a : f32
    linalg.yield %v : f32
  } -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// An operand in another order.
// CHECK-LABEL: func.func private @transpose
// CHECK-NOT:     tw.in_place
func.func private @transpose(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %e = tensor.empty() : tensor<4x4xf32>
  %r = linalg.generic {indexing_maps = [#turned, #id], iterator_types = ["parallel", "parallel"]}
    ins(%x : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %v = arith.negf %a : f32
    linalg.yield %v : f32
  } -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// An operand that is read in its order and in another.
// CHECK-LABEL: func.func private @both_ways
// CHECK-NOT:     tw.in_place
func.func private @both_ways(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %e = tensor.empty() : tensor<4x4xf32>
  %r = linalg.generic {indexing_maps = [#id, #turned, #id], iterator_types = ["parallel", "parallel"]}
    ins(%x, %x : tensor<4x4xf32>, tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %v = arith.addf %a, %b : f32
    linalg.yield %v : f32
  } -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// What a product reads as well.
// CHECK-LABEL: func.func private @square
// CHECK-NOT:     tw.in_place
func.func private @square(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %e = tensor.empty() : tensor<4x4xf32>
  %z = arith.constant 0.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
  %p = linalg.generic {indexing_maps = [#left, #right, #result], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%x, %x : tensor<4x4xf32>, tensor<4x4xf32>) outs(%f : tensor<4x4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    %v = arith.addf %o, %m : f32
    linalg.yield %v : f32
  } -> tensor<4x4xf32>
  %r = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
    ins(%p, %x : tensor<4x4xf32>, tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %v = arith.addf %a, %b : f32
    linalg.yield %v : f32
  } -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// What a row is computed from.
// CHECK-LABEL: func.func private @rows
// CHECK-NOT:     tw.in_place
func.func private @rows(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %e = tensor.empty() : tensor<4x4xf32>
  %z = arith.constant 0.0 : f32
  %re = tensor.empty() : tensor<4xf32>
  %f = linalg.fill ins(%z : f32) outs(%re : tensor<4xf32>) -> tensor<4xf32>
  %s = linalg.generic {indexing_maps = [#id, #first], iterator_types = ["parallel", "reduction"]}
    ins(%x : tensor<4x4xf32>) outs(%f : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %v = arith.addf %o, %a : f32
    linalg.yield %v : f32
  } -> tensor<4xf32>
  %r = linalg.generic {indexing_maps = [#id, #first, #id], iterator_types = ["parallel", "parallel"]}
    ins(%x, %s : tensor<4x4xf32>, tensor<4xf32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %v = arith.addf %a, %b : f32
    linalg.yield %v : f32
  } -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// A padded result, of which the operand is a slice.
// CHECK-LABEL: func.func private @pad
// CHECK-NOT:     tw.in_place
func.func private @pad(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x4xf32>
  %s = tensor.extract_slice %x[1, 0] [2, 4] [1, 1] : tensor<4x4xf32> to tensor<2x4xf32>
  %n = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
    ins(%s : tensor<2x4xf32>) outs(%e : tensor<2x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %v = arith.negf %a : f32
    linalg.yield %v : f32
  } -> tensor<2x4xf32>
  %r = tensor.pad %n low[1, 0] high[1, 0] {
  ^bb0(%i: index, %j: index):
    tensor.yield %z : f32
  } : tensor<2x4xf32> to tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// Another dtype.
// CHECK-LABEL: func.func private @bits
// CHECK-NOT:     tw.in_place
func.func private @bits(%x: tensor<4x4xf32>) -> tensor<4x4xi32> {
  %e = tensor.empty() : tensor<4x4xi32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
    ins(%x : tensor<4x4xf32>) outs(%e : tensor<4x4xi32>) {
  ^bb0(%a: f32, %o: i32):
    %v = arith.bitcast %a : f32 to i32
    linalg.yield %v : i32
  } -> tensor<4x4xi32>
  return %r : tensor<4x4xi32>
}

// Another dtype.
// CHECK-LABEL: func.func private @floats
// CHECK-NOT:     tw.in_place
func.func private @floats(%x: tensor<4x4xi32>) -> tensor<4x4xf32> {
  %e = tensor.empty() : tensor<4x4xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
    ins(%x : tensor<4x4xi32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%a: i32, %o: f32):
    %v = arith.bitcast %a : i32 to f32
    linalg.yield %v : f32
  } -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// What a body reads at places of its own.
// CHECK-LABEL: func.func private @gather
// CHECK-NOT:     tw.in_place
func.func private @gather(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %e = tensor.empty() : tensor<4x4xf32>
  %r = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<4x4xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %v = tensor.extract %x[%j, %i] : tensor<4x4xf32>
    linalg.yield %v : f32
  } -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// An operand that the result begins as.
// CHECK-LABEL: func.func private @accumulate
// CHECK-NOT:     tw.in_place
func.func private @accumulate(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %r = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]} outs(%x : tensor<4x4xf32>) {
  ^bb0(%o: f32):
    %v = arith.negf %o : f32
    linalg.yield %v : f32
  } -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// Several results.
// CHECK-LABEL: func.func private @two
// CHECK-NOT:     tw.in_place
func.func private @two(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %e = tensor.empty() : tensor<4x4xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
    ins(%x : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %v = arith.negf %a : f32
    linalg.yield %v : f32
  } -> tensor<4x4xf32>
  %s = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
    ins(%x : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %v = arith.negf %a : f32
    linalg.yield %v : f32
  } -> tensor<4x4xf32>
  return %r, %s : tensor<4x4xf32>, tensor<4x4xf32>
}

func.func private @make(tensor<4x4xf32>) -> tensor<4x4xf32>

// ERROR: error: pass 'plan-memory': 'linalg.generic' is no kernel call (node 'first'); run `outline` first

// Where the runtime allocates, a piece of a concat is stored into what the first of them makes, but not into what the
// caller owns, or what somebody else reads too. Who asks for a size reads nothing.
// CHECK-LABEL: func.func @open
// CHECK:       %[[FIRST:.*]] = call @first(%arg0
// CHECK-NOT:   tw.over
// CHECK:       %[[SECOND:.*]] = call @piece(%arg0, %[[FIRST]]
// CHECK-SAME:  {tw.over = 1 : i64}
// CHECK-NOT:   tw.over
// CHECK:       return
func.func @open(%x: tensor<?x4xf32> {tw.name = "x"}, %c: tensor<?x8xf32> {tw.name = "c"})
    -> (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>) {
  %zero = arith.constant 0 : index
  %n = tensor.dim %x, %zero : tensor<?x4xf32>
  %a = call @first(%x, %n) : (tensor<?x4xf32>, index) -> tensor<?x8xf32>
  %m = tensor.dim %a, %zero : tensor<?x8xf32>
  %b = call @piece(%x, %a, %m) : (tensor<?x4xf32>, tensor<?x8xf32>, index) -> tensor<?x8xf32>
  %d = call @piece(%x, %c, %n) : (tensor<?x4xf32>, tensor<?x8xf32>, index) -> tensor<?x8xf32>
  %e = call @piece(%x, %d, %n) : (tensor<?x4xf32>, tensor<?x8xf32>, index) -> tensor<?x8xf32>
  return %b, %d, %e : tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>
}

func.func private @first(%x: tensor<?x4xf32>, %n: index) -> tensor<?x8xf32> {
  %e = tensor.empty(%n) : tensor<?x8xf32>
  %r = tensor.insert_slice %x into %e[0, 0] [%n, 4] [1, 1] : tensor<?x4xf32> into tensor<?x8xf32>
  return %r : tensor<?x8xf32>
}

// CHECK-LABEL: func.func private @piece
// CHECK-SAME:    attributes {tw.in_place = array<i64: 1>}
func.func private @piece(%x: tensor<?x4xf32>, %c: tensor<?x8xf32>, %n: index) -> tensor<?x8xf32> {
  %r = tensor.insert_slice %x into %c[0, 4] [%n, 4] [1, 1] : tensor<?x4xf32> into tensor<?x8xf32>
  return %r : tensor<?x8xf32>
}

// The pieces of a result are written where the caller wants it, unless somebody else reads what is there before.
// CHECK-LABEL: func.func @pieces
// CHECK:       call @left({{.*}} {tw.slots = ["input0", "output0"]}
// CHECK:       call @right({{.*}} {tw.slots = ["input0", "output0", "output0"]}
// CHECK:       call @left({{.*}} {tw.slots = ["input0", "output1"]}
// CHECK:       call @right({{.*}} {tw.slots = ["input0", "output1", "output2"]}
// CHECK:       call @right({{.*}} {tw.slots = ["input0", "input1", "output3"]}
// CHECK:       return
func.func @pieces(%x: tensor<4x4xf32> {tw.name = "x"}, %c: tensor<4x8xf32> {tw.name = "c"})
    -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %a = call @left(%x) : (tensor<4x4xf32>) -> tensor<4x8xf32>
  %b = call @right(%x, %a) : (tensor<4x4xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %d = call @left(%x) : (tensor<4x4xf32>) -> tensor<4x8xf32>
  %e = call @right(%x, %d) : (tensor<4x4xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %f = call @right(%x, %c) : (tensor<4x4xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %b, %d, %e, %f : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}

func.func private @left(%x: tensor<4x4xf32>) -> tensor<4x8xf32> {
  %e = tensor.empty() : tensor<4x8xf32>
  %r = tensor.insert_slice %x into %e[0, 0] [4, 4] [1, 1] : tensor<4x4xf32> into tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}

// CHECK-LABEL: func.func private @right
// CHECK-SAME:    attributes {tw.in_place = array<i64: 1>}
func.func private @right(%x: tensor<4x4xf32>, %c: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %r = tensor.insert_slice %x into %c[0, 4] [4, 4] [1, 1] : tensor<4x4xf32> into tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}

// A kernel that only inserts, and whose argument lies where its result does in all calls, has nothing else to copy.
// CHECK-LABEL: func.func @rest
// CHECK:       call @begin({{.*}} {tw.slots = ["input0", "output0"]}
// CHECK:       call @end({{.*}} {tw.slots = ["input0", "output0", "output0"]}
func.func @rest(%x: tensor<4x4xf32> {tw.name = "x"}) -> tensor<4x8xf32> {
  %a = call @begin(%x) : (tensor<4x4xf32>) -> tensor<4x8xf32>
  %b = call @end(%x, %a) : (tensor<4x4xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %b : tensor<4x8xf32>
}

func.func private @begin(%x: tensor<4x4xf32>) -> tensor<4x8xf32> {
  %e = tensor.empty() : tensor<4x8xf32>
  %r = tensor.insert_slice %x into %e[0, 0] [4, 4] [1, 1] : tensor<4x4xf32> into tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}

// CHECK-LABEL: func.func private @end
// CHECK-SAME:    attributes {tw.in_place = array<i64: 1>, tw.over = 1 : i64}
func.func private @end(%x: tensor<4x4xf32>, %c: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %r = tensor.insert_slice %x into %c[0, 4] [4, 4] [1, 1] : tensor<4x4xf32> into tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}
