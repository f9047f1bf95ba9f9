// RUN: tilewright opt %s --passes=report-outside,outline-control,dead-code | filecheck %s
// RUN: tilewright opt %s --passes='report-outside{enabled=false},outline-control,dead-code' | filecheck %s --check-prefix=NONE

#id = affine_map<(i) -> (i)>
#all = affine_map<(i) -> ()>

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
