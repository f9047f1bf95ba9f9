// RUN: %opt %s --passes=report-outside,outline-control,dead-code | filecheck %s
// RUN: %opt %s --passes='report-outside{enabled=false},outline-control,dead-code' | filecheck %s --check-prefix=NONE

#id = affine_map<(i) -> (i)>
#all = affine_map<(i) -> ()>

// The word of code that a code generator of a user's has made is read in any case.
// CHECK-LABEL: func.func @external(
// CHECK:         %[[R:.*]]:2 = call @codegen_c(%arg0)
// CHECK:         call @tw.report(%[[R]]#1) {tw.report = "is computed by code generator 'c', whose code has failed with status"}
// CHECK:         return %[[R]]#0
// NONE-LABEL:  func.func @external(
// NONE:          call @tw.report(
func.func @external(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y, %s = call @codegen_c(%x) {tw.codegen = "code generator 'c'"} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<i64>)
  return %y : tensor<4xf32>
}
func.func private @codegen_c(tensor<4xf32>) -> (tensor<4xf32>, tensor<i64>) attributes {tw.codegen = "c"}

// The program reads the word; else nobody does, and nothing computes it.
// CHECK-LABEL: func.func @main(
// CHECK:         %[[S:.*]] = linalg.generic {{.*}} ins(%arg0 :
// CHECK:           arith.maxui
// CHECK:         call @tw.report(%[[S]]) {tw.report = "has an index outside of 9 rows"} : (tensor<i64>) -> ()
// NONE-LABEL:  func.func @main(
// NONE-NOT:      arith.maxui
// NONE:          return
func.func @main(%i: tensor<4xi64>, %w: tensor<4xi64> {tw.param = "w"}) -> tensor<4xi64> {
  %zero = arith.constant 0 : i64
  %e = tensor.empty() : tensor<i64>
  %f = linalg.fill ins(%zero : i64) outs(%e : tensor<i64>) -> tensor<i64>
  %s = linalg.generic {indexing_maps = [#id, #all], iterator_types = ["reduction"]}
    ins(%i : tensor<4xi64>) outs(%f : tensor<i64>) attrs = {tw.outside = "has an index outside of 9 rows"} {
  ^bb0(%a: i64, %o: i64):
    %m = arith.maxui %o, %a : i64
    linalg.yield %m : i64
  } -> tensor<i64>
  // What depends on weights alone is not reported.
  // CHECK-NOT:   "of a weight"
  %t = linalg.generic {indexing_maps = [#id, #all], iterator_types = ["reduction"]}
    ins(%w : tensor<4xi64>) outs(%f : tensor<i64>) attrs = {tw.outside = "of a weight"} {
  ^bb0(%a: i64, %o: i64):
    %m = arith.maxui %o, %a : i64
    linalg.yield %m : i64
  } -> tensor<i64>
  // CHECK:       return
  return %i : tensor<4xi64>
}

// Out of a loop or a branch that becomes one kernel a word is handed as one more result.
// CHECK-LABEL: func.func @loops(
// CHECK:         %[[F:.*]]:2 = scf.for {{.*}} iter_args(%[[X:.*]] = %arg0, %[[OLD:.*]] = %{{.*}}) -> (tensor<4xi64>, tensor<i64>)
// CHECK:           %[[W:.*]]:2 = scf.while (%[[Y:.*]] = %[[X]], %[[WORD:.*]] = %{{.*}}) : (tensor<4xi64>, tensor<i64>)
// CHECK:             scf.condition(%{{.*}}) %[[Y]], %[[WORD]]
// CHECK:           do
// CHECK:             %[[I:.*]]:2 = scf.if
// CHECK:               %[[S:.*]] = linalg.generic
// CHECK:               scf.yield %{{.*}}, %[[S]]
// CHECK:             else
// CHECK:               linalg.fill
// CHECK:               scf.yield
// CHECK:             arith.maxui
// CHECK:             scf.yield %[[I]]#0,
// CHECK:           arith.maxui
// CHECK:           scf.yield %[[W]]#0,
// CHECK:         call @tw.report(%[[F]]#1) {tw.report = "in a branch"}
func.func @loops(%i: tensor<4xi64>, %n: index, %c: i1) -> tensor<4xi64> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = scf.for %k = %c0 to %n step %c1 iter_args(%x = %i) -> (tensor<4xi64>) {
    %w = scf.while (%y = %x) : (tensor<4xi64>) -> tensor<4xi64> {
      scf.condition(%c) %y : tensor<4xi64>
    } do {
    ^bb0(%z: tensor<4xi64>):
      %b = scf.if %c -> (tensor<4xi64>) {
        %zero = arith.constant 0 : i64
        %e = tensor.empty() : tensor<i64>
        %f = linalg.fill ins(%zero : i64) outs(%e : tensor<i64>) -> tensor<i64>
        %s = linalg.generic {indexing_maps = [#id, #all], iterator_types = ["reduction"]}
          ins(%z : tensor<4xi64>) outs(%f : tensor<i64>) attrs = {tw.outside = "in a branch"} {
        ^bb0(%a: i64, %o: i64):
          %m = arith.maxui %o, %a : i64
          linalg.yield %m : i64
        } -> tensor<i64>
        scf.yield %z : tensor<4xi64>
      } else {
        scf.yield %i : tensor<4xi64>
      }
      scf.yield %b : tensor<4xi64>
    }
    scf.yield %w : tensor<4xi64>
  }
  return %r : tensor<4xi64>
}

// A region that the program carries out reports as well.
// CHECK-LABEL: func.func @branch(
// CHECK:       func.func private @branch.if.0(
// CHECK:         call @tw.report(%{{.*}}) {tw.report = "has an index outside"}
func.func @branch(%i: tensor<?xi64>, %c: i1) -> tensor<?xi64> {
  %r = scf.if %c -> (tensor<?xi64>) {
    %zero = arith.constant 0 : i64
    %e = tensor.empty() : tensor<i64>
    %f = linalg.fill ins(%zero : i64) outs(%e : tensor<i64>) -> tensor<i64>
    %s = linalg.generic {indexing_maps = [#id, #all], iterator_types = ["reduction"]}
      ins(%i : tensor<?xi64>) outs(%f : tensor<i64>) attrs = {tw.outside = "has an index outside"} {
    ^bb0(%a: i64, %o: i64):
      %m = arith.maxui %o, %a : i64
      linalg.yield %m : i64
    } -> tensor<i64>
    scf.yield %i : tensor<?xi64>
  } else {
    scf.yield %i : tensor<?xi64>
  } {tw.control}
  return %r : tensor<?xi64>
}
