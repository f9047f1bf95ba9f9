// RUN: %opt %s --passes=apply-schedule | filecheck %s

// A product of open rows inside of a loop goes in blocks of 8 rows and of fewer, each of which is a nest, and so does an
// op that changes what the loop carries: it reads that where it is written over.
// CHECK-LABEL: func.func @recurrent(
// CHECK-SAME:    tw.parts = "loops around nests:
// CHECK:         scf.for %{{.*}} iter_args(%[[H:arg[0-9]+]] = %{{.*}})
// CHECK:           scf.for %{{.*}} step %c8 iter_args
// CHECK:             tensor.extract_slice %[[H]][%{{.*}}, 0] [8, 64] [1, 1]
// CHECK:             linalg.generic {{.*}} attrs = {{.*}}tw.tile}
// CHECK:             tensor.insert_slice %{{.*}} into %{{.*}}[%{{.*}}, 0] [8, 64] [1, 1]
// CHECK:           scf.for %{{.*}} step %c4 iter_args
// CHECK:           scf.for %{{.*}} step %c1 iter_args
// CHECK:             linalg.generic {{.*}} attrs = {{.*}}{tw.tile}
// CHECK:           scf.for %{{.*}} step %c1 iter_args(%[[S:arg[0-9]+]] = %[[H]])
// CHECK:             tensor.extract_slice %[[S]][%{{.*}}, 0] [1, 64] [1, 1]
// CHECK:             linalg.generic {{.*}} attrs = {{.*}}{tw.tile}
// CHECK:           scf.yield
func.func @recurrent(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>, %n: index) -> tensor<?x64xf32> attributes {tw.same_sizes = [array<i64: 0, 0, 2, -1, 3, 0>], tw.result_sizes = 1 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 9 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : tensor<?x64xf32>
  %r = scf.for %i = %c0 to %c9 step %c1 iter_args(%h = %x) -> (tensor<?x64xf32>) {
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x64xf32>) -> tensor<?x64xf32>
    %p = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, c)>, affine_map<(a, b, c) -> (c, b)>,
        affine_map<(a, b, c) -> (a, b)>], iterator_types = ["parallel", "parallel", "reduction"]}
        ins(%h, %w : tensor<?x64xf32>, tensor<64x64xf32>) outs(%f : tensor<?x64xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %q = arith.mulf %a, %b fastmath<contract> : f32
      %s = arith.addf %o, %q fastmath<contract> : f32
      linalg.yield %s : f32
    } -> tensor<?x64xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>,
        affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]}
        ins(%p, %h : tensor<?x64xf32>, tensor<?x64xf32>) outs(%h : tensor<?x64xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %q = arith.addf %a, %b : f32
      linalg.yield %q : f32
    } -> tensor<?x64xf32>
    scf.yield %y : tensor<?x64xf32>
  }
  return %r : tensor<?x64xf32>
}

// An op may read one value along two axes: a block has a part of it for each.
// CHECK-LABEL: func.func @one_value_twice(
// CHECK:         scf.for %[[J:.*]] = %{{.*}} step %c64
// CHECK:           tensor.extract_slice %[[X:.*]][%{{.*}}] [1] [1] : tensor<?xf32> to tensor<1xf32>
// CHECK:           tensor.extract_slice %[[X]][%[[J]]] [64] [1] : tensor<?xf32> to tensor<64xf32>
func.func @one_value_twice(%x: tensor<?xf32>, %n: index, %m: index) -> tensor<?x?xf32> attributes {tw.same_sizes = [array<i64: 0, 0, 1, -1, 2, -1, 3, 0, 3, 1>], tw.result_sizes = 2 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 9 : index
  %e = tensor.empty(%n, %m) : tensor<?x?xf32>
  %r = scf.for %i = %c0 to %c9 step %c1 iter_args(%h = %e) -> (tensor<?x?xf32>) {
    %y = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a)>, affine_map<(a, b) -> (b)>,
        affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]}
        ins(%x, %x : tensor<?xf32>, tensor<?xf32>) outs(%h : tensor<?x?xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %q = arith.mulf %a, %b : f32
      linalg.yield %q : f32
    } -> tensor<?x?xf32>
    scf.yield %y : tensor<?x?xf32>
  }
  return %r : tensor<?x?xf32>
}

// A sum over an open axis stays whole.
// CHECK-LABEL: func.func @rejects_sums(
// CHECK-NOT:     tw.parts
// CHECK:         linalg.generic {{.*}} ins(%{{.*}} : tensor<?xf32>) outs(%{{.*}} : tensor<1xf32>)
func.func @rejects_sums(%x: tensor<?xf32>) -> tensor<1xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 9 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1xf32>) -> tensor<1xf32>
  %r = scf.for %i = %c0 to %c9 step %c1 iter_args(%h = %f) -> (tensor<1xf32>) {
    %y = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (0)>],
        iterator_types = ["reduction"]} ins(%x : tensor<?xf32>) outs(%h : tensor<1xf32>) {
    ^bb0(%a: f32, %o: f32):
      %q = arith.addf %a, %o : f32
      linalg.yield %q : f32
    } -> tensor<1xf32>
    scf.yield %y : tensor<1xf32>
  }
  return %r : tensor<1xf32>
}
