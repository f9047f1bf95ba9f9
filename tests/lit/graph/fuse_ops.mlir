// RUN: %opt %s --passes=fuse-ops | filecheck %s
// RUN: %opt %s --passes=fuse-ops{fuse_opt_level=0} | filecheck %s --check-prefix=ALONE
// RUN: %opt %s "--passes=winograd{everywhere=true outputs=4},fuse-ops" | filecheck %s --check-prefix=PATCHES
// RUN: %opt %s --passes=fuse-ops{max_group_size=2} | filecheck %s --check-prefix=PAIRS

#id = affine_map<(a, b) -> (a, b)>
#row = affine_map<(a, b) -> (a)>
#col = affine_map<(a, b) -> (b)>
#turned = affine_map<(a, b) -> (b, a)>

// A contraction takes bias and a use of the result twice (x * sigmoid(x)); the elementwise ops become one.
// CHECK-LABEL: func.func @epilogue
// CHECK:       %[[M:.*]] = linalg.generic {{.*}} attrs = {tw.group = 0 : i64}
// CHECK:         arith.mulf
// CHECK:       %[[R:.*]] = linalg.generic {{.*}} ins(%[[M]], %arg2 : {{.*}} attrs = {tw.group = 0 : i64}
// CHECK:         arith.addf
// CHECK:         math.tanh
// CHECK:         arith.mulf
// CHECK:       return %[[R]]
// ALONE-LABEL: func.func @epilogue
// ALONE:       tw.group = 0
// ALONE:       tw.group = 1
// ALONE:       tw.group = 2
// ALONE:       tw.group = 3
// PAIRS-LABEL: func.func @epilogue
// PAIRS:       tw.group = 0
// PAIRS:       tw.group = 0
// PAIRS:       tw.group = 1
func.func @epilogue(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>, %bias: tensor<16xf32>) -> tensor<4x16xf32> {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x16xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<4x16xf32>) -> tensor<4x16xf32>
  %m = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
                                        affine_map<(m, n, k) -> (m, n)>],
                       iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%x, %w : tensor<4x8xf32>, tensor<8x16xf32>) outs(%z : tensor<4x16xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<4x16xf32>
  %y = linalg.generic {indexing_maps = [#id, #col, #id], iterator_types = ["parallel", "parallel"]}
    ins(%m, %bias : tensor<4x16xf32>, tensor<16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<4x16xf32>
  %t = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
    ins(%y : tensor<4x16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = math.tanh %a : f32
    linalg.yield %s : f32
  } -> tensor<4x16xf32>
  %r = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
    ins(%y, %t : tensor<4x16xf32>, tensor<4x16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.mulf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<4x16xf32>
  return %r : tensor<4x16xf32>
}

// Softmax: two reductions with keepdims, and what works on their rows, are one kernel.
// CHECK-LABEL: func.func @softmax
// CHECK-NOT:   tensor.expand_shape
// CHECK-NOT:   tw.group = 1
// CHECK:       return
func.func @softmax(%x: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %c = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<4x16xf32>
  %e1 = tensor.empty() : tensor<4xf32>
  %i0 = linalg.fill ins(%low : f32) outs(%e1 : tensor<4xf32>) -> tensor<4xf32>
  %m = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
    ins(%x : tensor<4x16xf32>) outs(%i0 : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.maximumf %o, %a : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  %mk = tensor.expand_shape %m [[0, 1]] output_shape [4, 1] : tensor<4xf32> into tensor<4x1xf32>
  %d = linalg.generic {indexing_maps = [#id, affine_map<(a, b) -> (a, 0)>, #id], iterator_types = ["parallel", "parallel"]}
    ins(%x, %mk : tensor<4x16xf32>, tensor<4x1xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.subf %a, %b : f32
    %t = math.exp %s : f32
    linalg.yield %t : f32
  } -> tensor<4x16xf32>
  %i1 = linalg.fill ins(%c : f32) outs(%e1 : tensor<4xf32>) -> tensor<4xf32>
  %n = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
    ins(%d : tensor<4x16xf32>) outs(%i1 : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %o, %a : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  %nk = tensor.expand_shape %n [[0, 1]] output_shape [4, 1] : tensor<4xf32> into tensor<4x1xf32>
  %r = linalg.generic {indexing_maps = [#id, affine_map<(a, b) -> (a, 0)>, #id], iterator_types = ["parallel", "parallel"]}
    ins(%d, %nk : tensor<4x16xf32>, tensor<4x1xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.divf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<4x16xf32>
  return %r : tensor<4x16xf32>
}

// A convolution that `winograd` rewrites: both transforms, the products, and the epilogue with what it alone reads are
// one kernel (the filters' transform another, which is run ahead of time).
// PATCHES-LABEL: func.func @patches
// PATCHES:       %[[U:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<6x6x16x32xf32>) attrs = {tw.group = {{[0-9]+}} : i64}
// PATCHES:       %[[V:.*]] = linalg.generic {{.*}} attrs = {tw.group = [[G:[0-9]+]] : i64}
// PATCHES:       %[[M:.*]] = linalg.generic {{.*}} ins(%[[V]], %[[U]] : {{.*}} attrs = {tw.group = [[G]] : i64}
// PATCHES:       %[[Y:.*]] = linalg.generic {{.*}} ins(%[[M]], {{.*}} attrs = {tw.group = [[G]] : i64}
// PATCHES:       linalg.generic {{.*}} ins(%arg2, %[[Y]] : {{.*}} attrs = {tw.group = [[G]] : i64}
// PATCHES:         math.absf
// PATCHES:         arith.addf
// PATCHES-NOT:   tw.group
// PATCHES:       return
#same = affine_map<(n, h, w, f) -> (n, h, w, f)>
func.func @patches(%x: tensor<1x10x10x16xf32>, %w: tensor<32x16x3x3xf32> {tw.param = "w"}, %r: tensor<1x8x8x32xf32>) -> tensor<1x8x8x32xf32> {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x8x8x32xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<1x8x8x32xf32>) -> tensor<1x8x8x32xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(n, f, h, w, c, i, j) -> (n, h + i, w + j, c)>,
                                        affine_map<(n, f, h, w, c, i, j) -> (f, c, i, j)>,
                                        affine_map<(n, f, h, w, c, i, j) -> (n, h, w, f)>],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%x, %w : tensor<1x10x10x16xf32>, tensor<32x16x3x3xf32>) outs(%z : tensor<1x8x8x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x8x8x32xf32>
  %t = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%r : tensor<1x8x8x32xf32>) outs(%e : tensor<1x8x8x32xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = math.absf %a : f32
    linalg.yield %s : f32
  } -> tensor<1x8x8x32xf32>
  %q = linalg.generic {indexing_maps = [#same, #same, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%y, %t : tensor<1x8x8x32xf32>, tensor<1x8x8x32xf32>) outs(%e : tensor<1x8x8x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<1x8x8x32xf32>
  return %q : tensor<1x8x8x32xf32>
}

// What is used outside of the group must be stored: it ends the group.
// CHECK-LABEL: func.func @rejects_escaping
// CHECK:       tw.group = 0
// CHECK:       tw.group = 1
// CHECK:       math.tanh
// CHECK:       return
func.func @rejects_escaping(%x: tensor<4x16xf32>) -> (tensor<4x16xf32>, tensor<4x16xf32>) {
  %e = tensor.empty() : tensor<4x16xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
    ins(%x : tensor<4x16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.negf %a : f32
    linalg.yield %s : f32
  } -> tensor<4x16xf32>
  %t = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
    ins(%y : tensor<4x16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = math.tanh %a : f32
    linalg.yield %s : f32
  } -> tensor<4x16xf32>
  return %y, %t : tensor<4x16xf32>, tensor<4x16xf32>
}

// Merging a value that is read by broadcasting would compute it again and again.
// CHECK-LABEL: func.func @rejects_recomputation
// CHECK:       tw.group = 0
// CHECK:       tw.group = 1
// CHECK:       return
func.func @rejects_recomputation(%x: tensor<4x16xf32>, %v: tensor<16xf32>) -> tensor<4x16xf32> {
  %e = tensor.empty() : tensor<4x16xf32>
  %e1 = tensor.empty() : tensor<16xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
    ins(%v : tensor<16xf32>) outs(%e1 : tensor<16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = math.exp %a : f32
    linalg.yield %s : f32
  } -> tensor<16xf32>
  %t = linalg.generic {indexing_maps = [#id, #col, #id], iterator_types = ["parallel", "parallel"]}
    ins(%x, %y : tensor<4x16xf32>, tensor<16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<4x16xf32>
  return %t : tensor<4x16xf32>
}

#before = affine_map<(a, b) -> (b)>

// Sums down columns and what takes them off are one kernel too.
// CHECK-LABEL: func.func @columns
// CHECK:       tw.group = 0
// CHECK:       tw.group = 0
// CHECK-NOT:   tw.group = 1
// CHECK:       return
func.func @columns(%x: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x16xf32>
  %e1 = tensor.empty() : tensor<16xf32>
  %i = linalg.fill ins(%c : f32) outs(%e1 : tensor<16xf32>) -> tensor<16xf32>
  %m = linalg.generic {indexing_maps = [#id, #before], iterator_types = ["reduction", "parallel"]}
    ins(%x : tensor<4x16xf32>) outs(%i : tensor<16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %o, %a : f32
    linalg.yield %s : f32
  } -> tensor<16xf32>
  %r = linalg.generic {indexing_maps = [#id, #col, #id], iterator_types = ["parallel", "parallel"]}
    ins(%x, %m : tensor<4x16xf32>, tensor<16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.subf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<4x16xf32>
  return %r : tensor<4x16xf32>
}

// Sums down columns are not read as sums of rows, though there are as many.
// CHECK-LABEL: func.func @rejects_columns_as_rows
// CHECK:       tw.group = 0
// CHECK:       tw.group = 1
// CHECK:       return
func.func @rejects_columns_as_rows(%x: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<16x16xf32>
  %e1 = tensor.empty() : tensor<16xf32>
  %i = linalg.fill ins(%c : f32) outs(%e1 : tensor<16xf32>) -> tensor<16xf32>
  %m = linalg.generic {indexing_maps = [#id, #before], iterator_types = ["reduction", "parallel"]}
    ins(%x : tensor<16x16xf32>) outs(%i : tensor<16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %o, %a : f32
    linalg.yield %s : f32
  } -> tensor<16xf32>
  %r = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
    ins(%x, %m : tensor<16x16xf32>, tensor<16xf32>) outs(%e : tensor<16x16xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.subf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<16x16xf32>
  return %r : tensor<16x16xf32>
}

// Tensors of open sizes that are put side by side are one kernel.
// CHECK-LABEL: func.func @side_by_side
// CHECK:       tensor.insert_slice %arg0 {{.*}} {tw.group = 0 : i64}
// CHECK:       tensor.insert_slice %arg1 {{.*}} {tw.group = 0 : i64}
// CHECK:       return
// ALONE-LABEL: func.func @side_by_side
// ALONE:       tensor.insert_slice %arg0 {{.*}} {tw.group = 0 : i64}
// ALONE:       tensor.insert_slice %arg1 {{.*}} {tw.group = 1 : i64}
func.func @side_by_side(%x: tensor<?x4xf32>, %y: tensor<?x4xf32>, %n: index) -> tensor<?x8xf32> {
  %e = tensor.empty(%n) : tensor<?x8xf32>
  %a = tensor.insert_slice %x into %e[0, 0] [%n, 4] [1, 1] : tensor<?x4xf32> into tensor<?x8xf32>
  %b = tensor.insert_slice %y into %a[0, 4] [%n, 4] [1, 1] : tensor<?x4xf32> into tensor<?x8xf32>
  return %b : tensor<?x8xf32>
}

// What else reads the first piece, or lies around it before, needs it by itself.
// CHECK-LABEL: func.func @rejects_a_piece_that_others_read
// CHECK:       tensor.insert_slice %arg0 {{.*}} {tw.group = 0 : i64}
// CHECK:       tensor.insert_slice %arg1 {{.*}} {tw.group = 1 : i64}
func.func @rejects_a_piece_that_others_read(%x: tensor<?x4xf32>, %y: tensor<?x4xf32>, %n: index) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %e = tensor.empty(%n) : tensor<?x8xf32>
  %a = tensor.insert_slice %x into %e[0, 0] [%n, 4] [1, 1] : tensor<?x4xf32> into tensor<?x8xf32>
  %b = tensor.insert_slice %y into %a[0, 4] [%n, 4] [1, 1] : tensor<?x4xf32> into tensor<?x8xf32>
  return %a, %b : tensor<?x8xf32>, tensor<?x8xf32>
}

// CHECK-LABEL: func.func @rejects_pieces_into_an_argument
// CHECK:       tensor.insert_slice %arg0 {{.*}} {tw.group = 0 : i64}
// CHECK:       tensor.insert_slice %arg1 {{.*}} {tw.group = 1 : i64}
func.func @rejects_pieces_into_an_argument(%x: tensor<?x4xf32>, %y: tensor<?x4xf32>, %e: tensor<?x9xf32>, %n: index) -> tensor<?x9xf32> {
  %a = tensor.insert_slice %x into %e[0, 0] [%n, 4] [1, 1] : tensor<?x4xf32> into tensor<?x9xf32>
  %b = tensor.insert_slice %y into %a[0, 4] [%n, 4] [1, 1] : tensor<?x4xf32> into tensor<?x9xf32>
  return %b : tensor<?x9xf32>
}

// Rows whose lengths only the run knows are one kernel where one tensor that both ops walk proves that they are equal.
// CHECK-LABEL: func.func @rows_of_one_length
// CHECK:       tw.group = 0
// CHECK:       tw.group = 0
// CHECK:       return
#element = affine_map<(a) -> (a)>
#all = affine_map<(a) -> ()>
func.func @rows_of_one_length(%x: tensor<?xf32>, %n: index) -> tensor<?xf32> {
  %low = arith.constant 0xFF800000 : f32
  %s = tensor.empty() : tensor<f32>
  %f = linalg.fill ins(%low : f32) outs(%s : tensor<f32>) -> tensor<f32>
  %m = linalg.generic {indexing_maps = [#element, #all], iterator_types = ["reduction"]} ins(%x : tensor<?xf32>) outs(%f : tensor<f32>) {
  ^bb0(%a: f32, %o: f32):
    %v = arith.maximumf %o, %a : f32
    linalg.yield %v : f32
  } -> tensor<f32>
  %e = tensor.empty(%n) : tensor<?xf32>
  %r = linalg.generic {indexing_maps = [#element, #all, #element], iterator_types = ["parallel"]} ins(%x, %m : tensor<?xf32>, tensor<f32>) outs(%e : tensor<?xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %v = arith.mulf %a, %b : f32
    linalg.yield %v : f32
  } -> tensor<?xf32>
  return %r : tensor<?xf32>
}

// CHECK-LABEL: func.func @rejects_rows_of_two_lengths
// CHECK:       tw.group = 0
// CHECK:       tw.group = 1
// CHECK:       return
func.func @rejects_rows_of_two_lengths(%x: tensor<?xf32>, %y: tensor<?xf32>, %n: index) -> tensor<?xf32> {
  %low = arith.constant 0xFF800000 : f32
  %s = tensor.empty() : tensor<f32>
  %f = linalg.fill ins(%low : f32) outs(%s : tensor<f32>) -> tensor<f32>
  %m = linalg.generic {indexing_maps = [#element, #all], iterator_types = ["reduction"]} ins(%y : tensor<?xf32>) outs(%f : tensor<f32>) {
  ^bb0(%a: f32, %o: f32):
    %v = arith.maximumf %o, %a : f32
    linalg.yield %v : f32
  } -> tensor<f32>
  %e = tensor.empty(%n) : tensor<?xf32>
  %r = linalg.generic {indexing_maps = [#element, #all, #element], iterator_types = ["parallel"]} ins(%x, %m : tensor<?xf32>, tensor<f32>) outs(%e : tensor<?xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %v = arith.mulf %a, %b : f32
    linalg.yield %v : f32
  } -> tensor<?xf32>
  return %r : tensor<?xf32>
}

// Two loops around products that need nothing of each other are one kernel; what reads the first one's result follows.
// CHECK-LABEL: func.func @directions
// CHECK:       scf.for
// CHECK:       } {tw.group = 0 : i64}
// CHECK-NEXT:  scf.for
// CHECK:       } {tw.group = 0 : i64}
// CHECK:       linalg.negf
// ALONE-LABEL: func.func @directions
// ALONE:       } {tw.group = 0 : i64}
// ALONE:       } {tw.group = 2 : i64}
func.func @directions(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>, %v: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index
  %a:2 = scf.for %t = %c0 to %c5 step %c1 iter_args(%h = %x, %s = %x) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
    %p = linalg.matmul ins(%h, %w : tensor<4x4xf32>, tensor<4x4xf32>) outs(%x : tensor<4x4xf32>) -> tensor<4x4xf32>
    scf.yield %p, %s : tensor<4x4xf32>, tensor<4x4xf32>
  }
  %e = tensor.empty() : tensor<4x4xf32>
  %n = linalg.negf ins(%a#0 : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
  %b:2 = scf.for %t = %c0 to %c5 step %c1 iter_args(%h = %x, %s = %x) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
    %p = linalg.matmul ins(%h, %v : tensor<4x4xf32>, tensor<4x4xf32>) outs(%x : tensor<4x4xf32>) -> tensor<4x4xf32>
    scf.yield %p, %s : tensor<4x4xf32>, tensor<4x4xf32>
  }
  return %n, %b#0 : tensor<4x4xf32>, tensor<4x4xf32>
}

// CHECK-LABEL: func.func @rejects_layers
// CHECK:       } {tw.group = 0 : i64}
// CHECK:       } {tw.group = 2 : i64}
func.func @rejects_layers(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>, %v: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index
  %a:2 = scf.for %t = %c0 to %c5 step %c1 iter_args(%h = %x, %s = %x) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
    %p = linalg.matmul ins(%h, %w : tensor<4x4xf32>, tensor<4x4xf32>) outs(%x : tensor<4x4xf32>) -> tensor<4x4xf32>
    scf.yield %p, %s : tensor<4x4xf32>, tensor<4x4xf32>
  }
  %e = tensor.empty() : tensor<4x4xf32>
  %n = linalg.negf ins(%a#0 : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
  %b:2 = scf.for %t = %c0 to %c5 step %c1 iter_args(%h = %n, %s = %n) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
    %p = linalg.matmul ins(%h, %v : tensor<4x4xf32>, tensor<4x4xf32>) outs(%x : tensor<4x4xf32>) -> tensor<4x4xf32>
    scf.yield %p, %s : tensor<4x4xf32>, tensor<4x4xf32>
  }
  return %n, %b#0 : tensor<4x4xf32>, tensor<4x4xf32>
}

// Products of few rows, or of many columns, turn these; others read what a kernel of its own has turned.
// CHECK-LABEL: func.func @turned_columns
// CHECK:       linalg.generic {{.*}} attrs = {tw.group = 0 : i64}
// CHECK:       linalg.matmul {tw.group = 0 : i64}
// ALONE-LABEL: func.func @turned_columns
// ALONE:       linalg.generic {{.*}} attrs = {tw.group = 0 : i64}
// ALONE:       linalg.matmul {tw.group = 1 : i64}
func.func @turned_columns(%x: tensor<128x8xf32>, %y: tensor<40x8xf32>) -> tensor<128x40xf32> {
  %c = arith.constant 0.0 : f32
  %t = tensor.empty() : tensor<8x40xf32>
  %k = linalg.generic {indexing_maps = [#turned, #id], iterator_types = ["parallel", "parallel"]} ins(%y : tensor<40x8xf32>) outs(%t : tensor<8x40xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<8x40xf32>
  %e = tensor.empty() : tensor<128x40xf32>
  %f = linalg.fill ins(%c : f32) outs(%e : tensor<128x40xf32>) -> tensor<128x40xf32>
  %m = linalg.matmul ins(%x, %k : tensor<128x8xf32>, tensor<8x40xf32>) outs(%f : tensor<128x40xf32>) -> tensor<128x40xf32>
  return %m : tensor<128x40xf32>
}

// CHECK-LABEL: func.func @turned_many_columns
// CHECK:       linalg.generic {{.*}} attrs = {tw.group = 0 : i64}
// CHECK:       linalg.matmul {tw.group = 0 : i64}
func.func @turned_many_columns(%x: tensor<129x8xf32>, %y: tensor<1024x8xf32>) -> tensor<129x1024xf32> {
  %c = arith.constant 0.0 : f32
  %t = tensor.empty() : tensor<8x1024xf32>
  %k = linalg.generic {indexing_maps = [#turned, #id], iterator_types = ["parallel", "parallel"]} ins(%y : tensor<1024x8xf32>) outs(%t : tensor<8x1024xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<8x1024xf32>
  %e = tensor.empty() : tensor<129x1024xf32>
  %f = linalg.fill ins(%c : f32) outs(%e : tensor<129x1024xf32>) -> tensor<129x1024xf32>
  %m = linalg.matmul ins(%x, %k : tensor<129x8xf32>, tensor<8x1024xf32>) outs(%f : tensor<129x1024xf32>) -> tensor<129x1024xf32>
  return %m : tensor<129x1024xf32>
}

// CHECK-LABEL: func.func @rejects_columns_of_long_sums
// CHECK:       linalg.generic {{.*}} attrs = {tw.group = 0 : i64}
// CHECK:       linalg.matmul {tw.group = 1 : i64}
func.func @rejects_columns_of_long_sums(%x: tensor<129x1025xf32>, %y: tensor<1024x1025xf32>) -> tensor<129x1024xf32> {
  %c = arith.constant 0.0 : f32
  %t = tensor.empty() : tensor<1025x1024xf32>
  %k = linalg.generic {indexing_maps = [#turned, #id], iterator_types = ["parallel", "parallel"]} ins(%y : tensor<1024x1025xf32>) outs(%t : tensor<1025x1024xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<1025x1024xf32>
  %e = tensor.empty() : tensor<129x1024xf32>
  %f = linalg.fill ins(%c : f32) outs(%e : tensor<129x1024xf32>) -> tensor<129x1024xf32>
  %m = linalg.matmul ins(%x, %k : tensor<129x1025xf32>, tensor<1025x1024xf32>) outs(%f : tensor<129x1024xf32>) -> tensor<129x1024xf32>
  return %m : tensor<129x1024xf32>
}

// CHECK-LABEL: func.func @rejects_columns_of_many_rows
// CHECK:       linalg.generic {{.*}} attrs = {tw.group = 0 : i64}
// CHECK:       linalg.matmul {tw.group = 1 : i64}
func.func @rejects_columns_of_many_rows(%x: tensor<129x8xf32>, %y: tensor<40x8xf32>) -> tensor<129x40xf32> {
  %c = arith.constant 0.0 : f32
  %t = tensor.empty() : tensor<8x40xf32>
  %k = linalg.generic {indexing_maps = [#turned, #id], iterator_types = ["parallel", "parallel"]} ins(%y : tensor<40x8xf32>) outs(%t : tensor<8x40xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<8x40xf32>
  %e = tensor.empty() : tensor<129x40xf32>
  %f = linalg.fill ins(%c : f32) outs(%e : tensor<129x40xf32>) -> tensor<129x40xf32>
  %m = linalg.matmul ins(%x, %k : tensor<129x8xf32>, tensor<8x40xf32>) outs(%f : tensor<129x40xf32>) -> tensor<129x40xf32>
  return %m : tensor<129x40xf32>
}

// A convolution with a weight of open sizes is a kernel of its own, which copies windows.
// CHECK-LABEL: func.func @rejects_what_follows_open_filters
// CHECK:       linalg.generic {{.*}} attrs = {tw.group = 0 : i64}
// CHECK:       linalg.generic {{.*}} attrs = {tw.group = 1 : i64}
func.func @rejects_what_follows_open_filters(%x: tensor<1x4x8x8xf32>, %w: tensor<?x4x3x3xf32>) -> tensor<1x?x6x6xf32> {
  %c = arith.constant 0.0 : f32
  %first = arith.constant 0 : index
  %n = tensor.dim %w, %first : tensor<?x4x3x3xf32>
  %e = tensor.empty(%n) : tensor<1x?x6x6xf32>
  %f = linalg.fill ins(%c : f32) outs(%e : tensor<1x?x6x6xf32>) -> tensor<1x?x6x6xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(n, f, h, w, c, i, j) -> (n, c, h + i, w + j)>,
      affine_map<(n, f, h, w, c, i, j) -> (f, c, i, j)>, affine_map<(n, f, h, w, c, i, j) -> (n, f, h, w)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%x, %w : tensor<1x4x8x8xf32>, tensor<?x4x3x3xf32>) outs(%f : tensor<1x?x6x6xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %o, %m fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<1x?x6x6xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, f, h, w) -> (n, f, h, w)>, affine_map<(n, f, h, w) -> (n, f, h, w)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%y : tensor<1x?x6x6xf32>) outs(%e : tensor<1x?x6x6xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.maximumf %a, %c : f32
    linalg.yield %m : f32
  } -> tensor<1x?x6x6xf32>
  return %r : tensor<1x?x6x6xf32>
}

// Rows of open length whose squares are summed up are divided by the root in the same kernel: the squares, which are
// made of them, have their length.
// CHECK-LABEL: func.func @open_rows_over_their_length(
// CHECK:         iterator_types = ["parallel", "reduction"]} {{.*}} attrs = {{.*}}{tw.group = 0 : i64}
// CHECK:         math.sqrt
// CHECK:         arith.divf
// CHECK-NOT:     tw.group = 1
func.func @open_rows_over_their_length(%x: tensor<?x?xf32>, %m: index, %n: index) -> tensor<?x?xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%m, %n) : tensor<?x?xf32>
  %r = tensor.empty(%m) : tensor<?xf32>
  %z = linalg.fill ins(%zero : f32) outs(%r : tensor<?xf32>) -> tensor<?xf32>
  %q = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<?x?xf32>) outs(%e : tensor<?x?xf32>) {
  ^bb0(%a: f32, %out: f32):
    %p = arith.mulf %a, %a : f32
    linalg.yield %p : f32
  } -> tensor<?x?xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]}
      ins(%q : tensor<?x?xf32>) outs(%z : tensor<?xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %p = arith.addf %acc, %a : f32
    linalg.yield %p : f32
  } -> tensor<?xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%x, %s : tensor<?x?xf32>, tensor<?xf32>) outs(%e : tensor<?x?xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %c = math.sqrt %b : f32
    %d = arith.divf %a, %c : f32
    linalg.yield %d : f32
  } -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}
