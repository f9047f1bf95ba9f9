// RUN: %opt %s --passes=fuse-ops,fuse-broadcasts | filecheck %s

#id = affine_map<(a, b) -> (a, b)>
#row = affine_map<(a) -> (a)>
#column = affine_map<(a, b) -> (b)>

// An elementwise op repeats the operand itself, of the sizes of its result.
// CHECK-LABEL: func.func @map(
// CHECK:         %[[ALL:.*]] = tensor.empty(%arg3) : tensor<?xf32>
// CHECK:         %[[R:.*]] = linalg.generic {{.*}} outs(%[[ALL]] {{.*}} {tw.broadcast, tw.group = [[GROUP:[0-9]+]] : i64}
// CHECK:         tensor.extract %arg1
// CHECK-NOT:     arith.select
// CHECK:         linalg.generic {{.*}} ins(%arg0, %[[R]] {{.*}} {tw.group = [[GROUP]] : i64}
func.func @map(%x: tensor<?x?xf32>, %b: tensor<?xf32>, %n: index, %m: index, %k: index, %none: index, %fits: i1)
    -> tensor<?x?xf32> {
  %c1 = arith.constant 1 : index
  %e = tensor.empty(%none) : tensor<?xf32>
  %r = linalg.generic {indexing_maps = [#row], iterator_types = ["parallel"]} outs(%e : tensor<?xf32>) attrs = {tw.broadcast} {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %last = arith.subi %k, %c1 : index
    %at = arith.minsi %i, %last : index
    %v = tensor.extract %b[%at] : tensor<?xf32>
    linalg.yield %v : f32
  } -> tensor<?xf32>
  %s = arith.select %fits, %b, %r : tensor<?xf32>
  %f = tensor.empty(%n, %m) : tensor<?x?xf32>
  %y = linalg.generic {indexing_maps = [#id, #column, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %s : tensor<?x?xf32>, tensor<?xf32>) outs(%f : tensor<?x?xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %v = arith.addf %i, %j : f32
    linalg.yield %v : f32
  } -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}

// A sum reads what the program chooses.
// CHECK-LABEL: func.func @sum(
// CHECK:         %[[S:.*]] = arith.select
// CHECK:         linalg.generic {{.*}} "reduction"]} ins(%[[S]] :
func.func @sum(%b: tensor<?x?xf32>, %n: index, %m: index, %k: index, %none: index, %fits: i1) -> tensor<?xf32> {
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%n, %none) : tensor<?x?xf32>
  %r = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<?x?xf32>) attrs = {tw.broadcast} {
  ^bb0(%o: f32):
    %h = linalg.index 0 : index
    %i = linalg.index 1 : index
    %last = arith.subi %k, %c1 : index
    %at = arith.minsi %i, %last : index
    %v = tensor.extract %b[%h, %at] : tensor<?x?xf32>
    linalg.yield %v : f32
  } -> tensor<?x?xf32>
  %s = arith.select %fits, %b, %r : tensor<?x?xf32>
  %f = tensor.empty(%n) : tensor<?xf32>
  %z = linalg.fill ins(%zero : f32) outs(%f : tensor<?xf32>) -> tensor<?xf32>
  %y = linalg.generic {indexing_maps = [#id, affine_map<(a, b) -> (a)>], iterator_types = ["parallel", "reduction"]}
      ins(%s : tensor<?x?xf32>) outs(%z : tensor<?xf32>) {
  ^bb0(%i: f32, %o: f32):
    %v = arith.addf %o, %i : f32
    linalg.yield %v : f32
  } -> tensor<?xf32>
  return %y : tensor<?xf32>
}

// What converts the operand does so in the kernel that reads it, which repeats what that converts.
// CHECK-LABEL: func.func @converted(
// CHECK:         linalg.generic {{.*}} outs(%{{.*}} : tensor<?xi8>) {{.*}}tw.broadcast, tw.group = [[GROUP:[0-9]+]] : i64
// CHECK:         tensor.extract %arg1
// CHECK:         linalg.generic {{.*}} ins(%{{.*}}, %arg0 : tensor<?xi8>, tensor<?x?xf32>) {{.*}}tw.group = [[GROUP]] : i64
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:    arith.uitofp
// CHECK-NEXT:    arith.addf
func.func @converted(%x: tensor<?x?xf32>, %b: tensor<?xi8>, %n: index, %m: index, %k: index, %none: index, %fits: i1)
    -> tensor<?x?xf32> {
  %c1 = arith.constant 1 : index
  %g = tensor.empty(%k) : tensor<?xf32>
  %c = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel"]}
      ins(%b : tensor<?xi8>) outs(%g : tensor<?xf32>) {
  ^bb0(%i: i8, %o: f32):
    %v = arith.uitofp %i : i8 to f32
    linalg.yield %v : f32
  } -> tensor<?xf32>
  %e = tensor.empty(%none) : tensor<?xf32>
  %r = linalg.generic {indexing_maps = [#row], iterator_types = ["parallel"]} outs(%e : tensor<?xf32>) attrs = {tw.broadcast} {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %last = arith.subi %k, %c1 : index
    %at = arith.minsi %i, %last : index
    %v = tensor.extract %c[%at] : tensor<?xf32>
    linalg.yield %v : f32
  } -> tensor<?xf32>
  %s = arith.select %fits, %c, %r : tensor<?xf32>
  %f = tensor.empty(%n, %m) : tensor<?x?xf32>
  %y = linalg.generic {indexing_maps = [#id, #column, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %s : tensor<?x?xf32>, tensor<?xf32>) outs(%f : tensor<?x?xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %v = arith.addf %i, %j : f32
    linalg.yield %v : f32
  } -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}

// An exponential is computed once for each element of the operand.
// CHECK-LABEL: func.func @computed(
// CHECK:         arith.uitofp
// CHECK:         math.exp
// CHECK:         linalg.generic {{.*}} outs(%{{.*}} : tensor<?xf32>) {{.*}}tw.broadcast, tw.group
// CHECK:         arith.addf
func.func @computed(%x: tensor<?x?xf32>, %b: tensor<?xi8>, %n: index, %m: index, %k: index, %none: index, %fits: i1)
    -> tensor<?x?xf32> {
  %c1 = arith.constant 1 : index
  %g = tensor.empty(%k) : tensor<?xf32>
  %c = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel"]}
      ins(%b : tensor<?xi8>) outs(%g : tensor<?xf32>) {
  ^bb0(%i: i8, %o: f32):
    %v = arith.uitofp %i : i8 to f32
    %w = math.exp %v : f32
    linalg.yield %w : f32
  } -> tensor<?xf32>
  %e = tensor.empty(%none) : tensor<?xf32>
  %r = linalg.generic {indexing_maps = [#row], iterator_types = ["parallel"]} outs(%e : tensor<?xf32>) attrs = {tw.broadcast} {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %last = arith.subi %k, %c1 : index
    %at = arith.minsi %i, %last : index
    %v = tensor.extract %c[%at] : tensor<?xf32>
    linalg.yield %v : f32
  } -> tensor<?xf32>
  %s = arith.select %fits, %c, %r : tensor<?xf32>
  %f = tensor.empty(%n, %m) : tensor<?x?xf32>
  %y = linalg.generic {indexing_maps = [#id, #column, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %s : tensor<?x?xf32>, tensor<?xf32>) outs(%f : tensor<?x?xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %v = arith.addf %i, %j : f32
    linalg.yield %v : f32
  } -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}
