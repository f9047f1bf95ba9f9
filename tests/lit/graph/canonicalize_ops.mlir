// RUN: %opt %s --passes=canonicalize-ops | filecheck %s

// Two transposes that cancel.
// CHECK-LABEL: func.func @there_and_back
// CHECK-NEXT:  return %arg0
func.func @there_and_back(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  %e = tensor.empty() : tensor<2x4x3xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, c, b)>, affine_map<(a, b, c) -> (a, b, c)>],
                       iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%x : tensor<2x3x4xf32>) outs(%e : tensor<2x4x3xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<2x4x3xf32>
  %f = tensor.empty() : tensor<2x3x4xf32>
  %u = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, c, b)>, affine_map<(a, b, c) -> (a, b, c)>],
                       iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%t : tensor<2x4x3xf32>) outs(%f : tensor<2x3x4xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<2x3x4xf32>
  return %u : tensor<2x3x4xf32>
}

// A transpose that moves a unit dim alone is a view.
// CHECK-LABEL: func.func @moves_no_data
// CHECK-NOT:   linalg.generic
// CHECK:       tensor.collapse_shape
// CHECK:       tensor.expand_shape
func.func @moves_no_data(%x: tensor<2x3x1x4xf32>) -> tensor<2x1x3x4xf32> {
  %e = tensor.empty() : tensor<2x1x3x4xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(a, b, c, d) -> (a, c, b, d)>, affine_map<(a, b, c, d) -> (a, b, c, d)>],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%x : tensor<2x3x1x4xf32>) outs(%e : tensor<2x1x3x4xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<2x1x3x4xf32>
  return %t : tensor<2x1x3x4xf32>
}

// A transpose of data stays, and so does one that also computes.
// CHECK-LABEL: func.func @rejects_work
// CHECK-COUNT-2: linalg.generic
func.func @rejects_work(%x: tensor<3x4xf32>) -> tensor<4x3xf32> {
  %e = tensor.empty() : tensor<4x3xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(a, b) -> (b, a)>, affine_map<(a, b) -> (a, b)>],
                       iterator_types = ["parallel", "parallel"]}
    ins(%x : tensor<3x4xf32>) outs(%e : tensor<4x3xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<4x3xf32>
  %u = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>],
                       iterator_types = ["parallel", "parallel"]}
    ins(%t : tensor<4x3xf32>) outs(%e : tensor<4x3xf32>) {
  ^bb0(%i: f32, %o: f32):
    %n = arith.negf %i : f32
    linalg.yield %n : f32
  } -> tensor<4x3xf32>
  return %u : tensor<4x3xf32>
}

// A slice of a slice is one, and one of a concat reads the tensor that it lies in.
// CHECK-LABEL: func.func @slices(
// CHECK-NEXT:    %[[A:.*]] = tensor.extract_slice %arg0[2, 2] [2, 2] [1, 1]
// CHECK-NEXT:    %[[B:.*]] = tensor.extract_slice %arg1[1, 0] [2, 4] [1, 1]
// CHECK-NEXT:    return %[[A]], %[[B]], %arg1
func.func @slices(%x: tensor<8x4xf32>, %y: tensor<4x4xf32>) -> (tensor<2x2xf32>, tensor<2x4xf32>, tensor<4x4xf32>) {
  %a = tensor.extract_slice %x[1, 0] [4, 4] [1, 1] : tensor<8x4xf32> to tensor<4x4xf32>
  %b = tensor.extract_slice %a[1, 2] [2, 2] [1, 1] : tensor<4x4xf32> to tensor<2x2xf32>
  %c = tensor.concat dim(0) %x, %y : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<12x4xf32>
  %d = tensor.extract_slice %c[9, 0] [2, 4] [1, 1] : tensor<12x4xf32> to tensor<2x4xf32>
  %e = tensor.extract_slice %c[8, 0] [4, 4] [1, 1] : tensor<12x4xf32> to tensor<4x4xf32>
  return %b, %d, %e : tensor<2x2xf32>, tensor<2x4xf32>, tensor<4x4xf32>
}

// A slice across two tensors of a concat stays, and so does one that leaves rows out.
// CHECK-LABEL: func.func @rejects_slices(
// CHECK-COUNT-2: tensor.extract_slice
// CHECK:         tensor.concat
// CHECK-NEXT:    tensor.extract_slice
func.func @rejects_slices(%x: tensor<8x4xf32>, %y: tensor<4x4xf32>) -> (tensor<2x2xf32>, tensor<2x4xf32>) {
  %a = tensor.extract_slice %x[1, 0] [4, 4] [2, 1] : tensor<8x4xf32> to tensor<4x4xf32>
  %b = tensor.extract_slice %a[1, 2] [2, 2] [1, 1] : tensor<4x4xf32> to tensor<2x2xf32>
  %c = tensor.concat dim(0) %x, %y : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<12x4xf32>
  %d = tensor.extract_slice %c[7, 0] [2, 4] [1, 1] : tensor<12x4xf32> to tensor<2x4xf32>
  return %b, %d : tensor<2x2xf32>, tensor<2x4xf32>
}

// What moves nothing: a concat of one, a padding by nothing, a slice of the whole, a reshape there and back.
// CHECK-LABEL: func.func @nothing(
// CHECK-NEXT:    return %arg0 : tensor<3x4xf32>
func.func @nothing(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %z = arith.constant 0.0 : f32
  %c = tensor.concat dim(0) %x : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %p = tensor.pad %c low[0, 0] high[0, 0] {
  ^bb0(%h: index, %j: index):
    tensor.yield %z : f32
  } : tensor<3x4xf32> to tensor<3x4xf32>
  %s = tensor.extract_slice %p[0, 0] [3, 4] [1, 1] : tensor<3x4xf32> to tensor<3x4xf32>
  %a = tensor.collapse_shape %s [[0, 1]] : tensor<3x4xf32> into tensor<12xf32>
  %b = tensor.expand_shape %a [[0, 1]] output_shape [3, 4] : tensor<12xf32> into tensor<3x4xf32>
  return %b : tensor<3x4xf32>
}

// Heads are split before the slice is cut, so that a kernel can read them in place; and rows are joined before.
// CHECK-LABEL: func.func @reshapes_of_slices(
// CHECK-NEXT:    %[[A:.*]] = tensor.expand_shape %arg0 {{.*}} : tensor<1x8x24xf32> into tensor<1x8x6x4xf32>
// CHECK-NEXT:    %[[B:.*]] = tensor.extract_slice %[[A]][0, 0, 2, 0] [1, 8, 2, 4] [1, 1, 1, 1]
// CHECK-NEXT:    %[[C:.*]] = tensor.collapse_shape %arg0 {{.*}} : tensor<1x8x24xf32> into tensor<192xf32>
// CHECK-NEXT:    %[[D:.*]] = tensor.extract_slice %[[C]][48] [96] [1]
// CHECK-NEXT:    return %[[B]], %[[D]]
func.func @reshapes_of_slices(%x: tensor<1x8x24xf32>) -> (tensor<1x8x2x4xf32>, tensor<96xf32>) {
  %s = tensor.extract_slice %x[0, 0, 8] [1, 8, 8] [1, 1, 1] : tensor<1x8x24xf32> to tensor<1x8x8xf32>
  %a = tensor.expand_shape %s [[0], [1], [2, 3]] output_shape [1, 8, 2, 4] : tensor<1x8x8xf32> into tensor<1x8x2x4xf32>
  %t = tensor.extract_slice %x[0, 2, 0] [1, 4, 24] [1, 1, 1] : tensor<1x8x24xf32> to tensor<1x4x24xf32>
  %b = tensor.collapse_shape %t [[0, 1, 2]] : tensor<1x4x24xf32> into tensor<96xf32>
  return %a, %b : tensor<1x8x2x4xf32>, tensor<96xf32>
}

// A cut inside of a head, and one of columns whose rows are then joined.
// CHECK-LABEL: func.func @rejects_reshapes_of_slices(
// CHECK-NEXT:    %[[S:.*]] = tensor.extract_slice %arg0[0, 0, 6]
// CHECK-NEXT:    tensor.expand_shape %[[S]]
// CHECK-NEXT:    tensor.collapse_shape %[[S]]
func.func @rejects_reshapes_of_slices(%x: tensor<1x8x24xf32>) -> (tensor<1x8x2x4xf32>, tensor<64xf32>) {
  %s = tensor.extract_slice %x[0, 0, 6] [1, 8, 8] [1, 1, 1] : tensor<1x8x24xf32> to tensor<1x8x8xf32>
  %a = tensor.expand_shape %s [[0], [1], [2, 3]] output_shape [1, 8, 2, 4] : tensor<1x8x8xf32> into tensor<1x8x2x4xf32>
  %b = tensor.collapse_shape %s [[0, 1, 2]] : tensor<1x8x8xf32> into tensor<64xf32>
  return %a, %b : tensor<1x8x2x4xf32>, tensor<64xf32>
}

// A slice of a constant has no tensor to read instead, and one element without dims is no slice of anything.
// CHECK-LABEL: func.func @rejects_slices_of_constants(
// CHECK:         tensor.extract_slice %{{.*}}[1] [1]
// CHECK:         tensor.extract_slice %arg0[1] [1]
// CHECK-NEXT:    tensor.collapse_shape
func.func @rejects_slices_of_constants(%x: tensor<2xf32>) -> (tensor<1xi32>, tensor<f32>) {
  %c = arith.constant dense<[-3, 3]> : tensor<2xi32>
  %a = tensor.extract_slice %c[1] [1] [1] : tensor<2xi32> to tensor<1xi32>
  %s = tensor.extract_slice %x[1] [1] [1] : tensor<2xf32> to tensor<1xf32>
  %b = tensor.collapse_shape %s [] : tensor<1xf32> into tensor<f32>
  return %a, %b : tensor<1xi32>, tensor<f32>
}

// The program reads an element of a slice where the slice lies, and no slice is left.
// CHECK-LABEL: func.func @reads_through_slices(
// CHECK-SAME:    %[[X:.*]]: tensor<6xi64>, %[[AT:.*]]: index
// CHECK-DAG:     %[[C5:.*]] = arith.constant 5 : index
// CHECK-DAG:     %[[A:.*]] = tensor.extract %[[X]][%[[C5]]]
// CHECK-DAG:     %[[I:.*]] = arith.addi %[[AT]], %{{.*}} : index
// CHECK-DAG:     %[[B:.*]] = tensor.extract %[[X]][%[[I]]]
// CHECK-NOT:     tensor.extract_slice
// CHECK:         return %[[A]], %[[B]]
func.func @reads_through_slices(%x: tensor<6xi64>, %at: index) -> (i64, i64) {
  %c2 = arith.constant 2 : index
  %s = tensor.extract_slice %x[1] [3] [2] : tensor<6xi64> to tensor<3xi64>
  %a = tensor.extract %s[%c2] : tensor<3xi64>
  %t = tensor.extract_slice %x[%at] [3] [1] : tensor<6xi64> to tensor<3xi64>
  %b = tensor.extract %t[%c2] : tensor<3xi64>
  return %a, %b : i64, i64
}

// What reads a slice without its unit dims stays.
// CHECK-LABEL: func.func @rejects_reads_of_narrower_slices(
// CHECK:         %[[S:.*]] = tensor.extract_slice %arg0[1, 0] [1, 4]
// CHECK-NEXT:    tensor.extract %[[S]]
func.func @rejects_reads_of_narrower_slices(%x: tensor<2x4xf32>, %i: index) -> f32 {
  %s = tensor.extract_slice %x[1, 0] [1, 4] [1, 1] : tensor<2x4xf32> to tensor<4xf32>
  %a = tensor.extract %s[%i] : tensor<4xf32>
  return %a : f32
}

// So does a body, at a place that is known: of a slice with steps it reads the slice.
// CHECK-LABEL: func.func @reads_inside_slices(
// CHECK-NOT:     tensor.extract_slice %arg1[0, 1]
// CHECK:         %[[S:.*]] = tensor.extract_slice %arg1[0, 0] [%{{.*}}, 2] [1, 2]
// CHECK:         linalg.generic
// CHECK:           %[[K:.*]] = arith.addi %[[J:.*]], %{{.*}} : index
// CHECK:           tensor.extract %arg1[%[[I:.*]], %[[K]]]
// CHECK:           tensor.extract %[[S]][%[[I]], %[[J]]]
func.func @reads_inside_slices(%p: tensor<3x2xi64>, %x: tensor<?x5xf32>, %n: index) -> tensor<3x2xf32> {
  %s = tensor.extract_slice %x[0, 1] [%n, 4] [1, 1] : tensor<?x5xf32> to tensor<?x4xf32>
  %t = tensor.extract_slice %x[0, 0] [%n, 2] [1, 2] : tensor<?x5xf32> to tensor<?x2xf32>
  %e = tensor.empty() : tensor<3x2xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]}
    ins(%p : tensor<3x2xi64>) outs(%e : tensor<3x2xf32>) {
  ^bb0(%q: i64, %o: f32):
    %i = arith.index_cast %q : i64 to index
    %j = linalg.index 1 : index
    %u = tensor.extract %s[%i, %j] : tensor<?x4xf32>
    %v = tensor.extract %t[%i, %j] : tensor<?x2xf32>
    %w = arith.addf %u, %v : f32
    linalg.yield %w : f32
  } -> tensor<3x2xf32>
  return %r : tensor<3x2xf32>
}

// What repeats a slice of one row asks the slice how many it has: what is sliced may have more.
// CHECK-LABEL: func.func @repeats_a_slice(
// CHECK:         %[[S:.*]] = tensor.extract_slice %arg0[0, 0]
// CHECK:           tensor.extract %[[S]]
func.func @repeats_a_slice(%x: tensor<?x?xf32>, %rows: index, %n: index, %m: index) -> tensor<?x?xf32> {
  %c1 = arith.constant 1 : index
  %s = tensor.extract_slice %x[0, 0] [%rows, %m] [1, 1] : tensor<?x?xf32> to tensor<?x?xf32>
  %e = tensor.empty(%n, %m) : tensor<?x?xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]}
    outs(%e : tensor<?x?xf32>) attrs = {tw.broadcast} {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %last = arith.subi %rows, %c1 : index
    %k = arith.minsi %i, %last : index
    %v = tensor.extract %s[%k, %j] : tensor<?x?xf32>
    linalg.yield %v : f32
  } -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}

// An operand has the extent that the result leaves open, though the other operand is repeated.
// CHECK-LABEL: func.func @closed
// CHECK:       linalg.generic
// CHECK-SAME:    outs(%{{.*}} : tensor<2x1xf32>)
// CHECK:       tensor.cast %{{.*}} : tensor<2x1xf32> to tensor<2x?xf32>
func.func @closed(%x: tensor<1x1xf32>, %y: tensor<2x1xf32>, %n: index) -> tensor<2x?xf32> {
  %e = tensor.empty(%n) : tensor<2x?xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a, b) -> (0, 0)>, affine_map<(a, b) -> (a, b)>,
                                        affine_map<(a, b) -> (a, b)>],
                       iterator_types = ["parallel", "parallel"]}
    ins(%x, %y : tensor<1x1xf32>, tensor<2x1xf32>) outs(%e : tensor<2x?xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %s = arith.addf %i, %j : f32
    linalg.yield %s : f32
  } -> tensor<2x?xf32>
  return %r : tensor<2x?xf32>
}

// What no operand has as a number stays open.
// CHECK-LABEL: func.func @open
// CHECK:       outs(%{{.*}} : tensor<2x?xf32>)
// CHECK-NOT:   tensor.cast
func.func @open(%x: tensor<1x1xf32>, %y: tensor<2x?xf32>, %n: index) -> tensor<2x?xf32> {
  %e = tensor.empty(%n) : tensor<2x?xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a, b) -> (0, 0)>, affine_map<(a, b) -> (a, b)>,
                                        affine_map<(a, b) -> (a, b)>],
                       iterator_types = ["parallel", "parallel"]}
    ins(%x, %y : tensor<1x1xf32>, tensor<2x?xf32>) outs(%e : tensor<2x?xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %s = arith.addf %i, %j : f32
    linalg.yield %s : f32
  } -> tensor<2x?xf32>
  return %r : tensor<2x?xf32>
}

// Of packed queries, keys and values, which are put apart by a copy, the parts are slices of what was packed.
// CHECK-LABEL: func.func @packed
// CHECK-NOT:   linalg.generic
// CHECK:       tensor.extract_slice %{{.*}} [12, 32]
// CHECK-NOT:   linalg.generic
// CHECK:       tensor.extract_slice %{{.*}} [12, 32]
// CHECK-NOT:   linalg.generic
// CHECK:       return
func.func @packed(%x: tensor<12x64xf32>) -> (tensor<12x32xf32>, tensor<12x32xf32>) {
  %w = tensor.expand_shape %x [[0, 1], [2, 3, 4]] output_shape [1, 12, 1, 2, 32] : tensor<12x64xf32> into tensor<1x12x1x2x32xf32>
  %e = tensor.empty() : tensor<2x12x1x1x32xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(a, b, c, d, e) -> (d, b, c, a, e)>, affine_map<(a, b, c, d, e) -> (a, b, c, d, e)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%w : tensor<1x12x1x2x32xf32>) outs(%e : tensor<2x12x1x1x32xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<2x12x1x1x32xf32>
  %c = tensor.collapse_shape %t [[0], [1], [2, 3], [4]] : tensor<2x12x1x1x32xf32> into tensor<2x12x1x32xf32>
  %q = tensor.extract_slice %c[0, 0, 0, 0] [1, 12, 1, 32] [1, 1, 1, 1] : tensor<2x12x1x32xf32> to tensor<1x12x1x32xf32>
  %k = tensor.extract_slice %c[1, 0, 0, 0] [1, 12, 1, 32] [1, 1, 1, 1] : tensor<2x12x1x32xf32> to tensor<1x12x1x32xf32>
  %r = tensor.collapse_shape %q [[0, 1, 2], [3]] : tensor<1x12x1x32xf32> into tensor<12x32xf32>
  %s = tensor.collapse_shape %k [[0, 1, 2], [3]] : tensor<1x12x1x32xf32> into tensor<12x32xf32>
  return %r, %s : tensor<12x32xf32>, tensor<12x32xf32>
}

// The copy is there anyway, as it is a result.
// CHECK-LABEL: func.func @rejects_slices_of_a_copy_that_is_read
// CHECK:       %[[T:.*]] = linalg.generic
// CHECK:       tensor.extract_slice %[[T]]
func.func @rejects_slices_of_a_copy_that_is_read(%x: tensor<4x8xf32>) -> (tensor<8x4xf32>, tensor<2x4xf32>) {
  %e = tensor.empty() : tensor<8x4xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(a, b) -> (b, a)>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x8xf32>) outs(%e : tensor<8x4xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<8x4xf32>
  %s = tensor.extract_slice %t[2, 0] [2, 4] [1, 1] : tensor<8x4xf32> to tensor<2x4xf32>
  return %t, %s : tensor<8x4xf32>, tensor<2x4xf32>
}

// A product is transposed before it gets a dim more, and can then be written so.
// CHECK-LABEL: func.func @product
// CHECK:       %[[P:.*]] = linalg.generic {{.*}}"reduction"
// CHECK:       linalg.generic {{.*}} ins(%[[P]] : tensor<2x3x4xf32>)
// CHECK:       } -> tensor<3x2x4xf32>
func.func @product(%x: tensor<2x3x5xf32>, %y: tensor<2x5x4xf32>, %z: tensor<2x3x4xf32>) -> tensor<3x1x2x4xf32> {
  %p = linalg.generic {indexing_maps = [affine_map<(b, m, n, k) -> (b, m, k)>, affine_map<(b, m, n, k) -> (b, k, n)>, affine_map<(b, m, n, k) -> (b, m, n)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%x, %y : tensor<2x3x5xf32>, tensor<2x5x4xf32>) outs(%z : tensor<2x3x4xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<2x3x4xf32>
  %v = tensor.expand_shape %p [[0, 1], [2], [3]] output_shape [1, 2, 3, 4] : tensor<2x3x4xf32> into tensor<1x2x3x4xf32>
  %e = tensor.empty() : tensor<3x1x2x4xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(a, b, c, d) -> (b, c, a, d)>, affine_map<(a, b, c, d) -> (a, b, c, d)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%v : tensor<1x2x3x4xf32>) outs(%e : tensor<3x1x2x4xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<3x1x2x4xf32>
  return %t : tensor<3x1x2x4xf32>
}

// What lies under a fill is read by nobody.
// CHECK-LABEL: func.func @fill
// CHECK-NOT:   tensor.concat
// CHECK:       %[[E:.*]] = tensor.empty() : tensor<3x5xf32>
// CHECK:       linalg.fill {{.*}} outs(%[[E]] : tensor<3x5xf32>)
func.func @fill(%x: tensor<3x2xf32>, %y: tensor<3x3xf32>) -> tensor<3x5xf32> {
  %zero = arith.constant 0.0 : f32
  %c = tensor.concat dim(1) %x, %y : (tensor<3x2xf32>, tensor<3x3xf32>) -> tensor<3x5xf32>
  %f = linalg.fill ins(%zero : f32) outs(%c : tensor<3x5xf32>) -> tensor<3x5xf32>
  return %f : tensor<3x5xf32>
}
