// RUN: %opt %s --passes=reduce-strength | filecheck %s

#row = affine_map<(i, j) -> (i)>
#all = affine_map<(i, j) -> (i, j)>

// CHECK-LABEL: func.func @power_of_two(
// CHECK:         %[[C:.*]] = arith.constant 1.250000e-01
// CHECK:         arith.mulf %{{.*}}, %[[C]]
// CHECK-NOT:     arith.divf
func.func @power_of_two(%x: f32) -> f32 {
  %c = arith.constant 8.0 : f32
  %y = arith.divf %x, %c : f32
  return %y : f32
}

// One quotient for each row, not for each element.
// CHECK-LABEL: func.func @softmax(
// CHECK:         arith.addf
// CHECK:         linalg.generic {{.*}} iterator_types = ["parallel"]
// CHECK:         arith.divf
// CHECK:         linalg.generic {{.*}} iterator_types = ["parallel", "parallel"]
// CHECK-NOT:     arith.divf
// CHECK:         arith.mulf
func.func @softmax(%x: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x16xf32>
  %r = tensor.empty() : tensor<4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%r : tensor<4xf32>) -> tensor<4xf32>
  %p = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<4x16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%v: f32, %o: f32):
    %y = math.exp %v : f32
    linalg.yield %y : f32
  } -> tensor<4x16xf32>
  %s = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}
      ins(%p : tensor<4x16xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%v: f32, %acc: f32):
    %y = arith.addf %acc, %v : f32
    linalg.yield %y : f32
  } -> tensor<4xf32>
  %q = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel"]}
      ins(%p, %s : tensor<4x16xf32>, tensor<4xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%v: f32, %sum: f32, %o: f32):
    %y = arith.divf %v, %sum : f32
    linalg.yield %y : f32
  } -> tensor<4x16xf32>
  return %q : tensor<4x16xf32>
}

// Other quotients would be rounded twice, and a divisor that is no sum of exponentials has no bounds.
// CHECK-LABEL: func.func @rejects(
// CHECK-COUNT-3: arith.divf
func.func @rejects(%x: f32, %t: tensor<4x16xf32>, %s: tensor<4xf32>) -> (f32, f32, tensor<4x16xf32>) {
  %three = arith.constant 3.0 : f32
  %inf = arith.constant 0x7F800000 : f32
  %a = arith.divf %x, %three : f32
  %b = arith.divf %x, %inf : f32
  %e = tensor.empty() : tensor<4x16xf32>
  %q = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel"]}
      ins(%t, %s : tensor<4x16xf32>, tensor<4xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%v: f32, %sum: f32, %o: f32):
    %y = arith.divf %v, %sum : f32
    linalg.yield %y : f32
  } -> tensor<4x16xf32>
  return %a, %b, %q : f32, f32, tensor<4x16xf32>
}

// Quotients of integers are those of floats that hold them exactly, cut off; what is left is by a product.
// CHECK-LABEL: func.func @integers(
// CHECK:         arith.sitofp %{{.*}} : i32 to f64
// CHECK:         %[[Q:.*]] = arith.divf %{{.*}} : f64
// CHECK:         %[[W:.*]] = arith.fptosi %[[Q]] : f64 to i32
// CHECK:         %[[P:.*]] = arith.muli %[[W]]
// CHECK:         arith.subi %{{.*}}, %[[P]]
// CHECK:         arith.uitofp %{{.*}} : i8 to f32
// CHECK:         arith.fptoui %{{.*}} : f32 to i8
func.func @integers(%x: tensor<16xi32>, %y: tensor<16xi8>) -> (tensor<16xi32>, tensor<16xi8>) {
  %e = tensor.empty() : tensor<16xi32>
  %f = tensor.empty() : tensor<16xi8>
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<16xi32>) outs(%e : tensor<16xi32>) {
  ^bb0(%a: i32, %o: i32):
    %one = arith.constant 1 : i32
    %b = arith.ori %a, %one : i32
    %v = arith.remsi %a, %b : i32
    linalg.yield %v : i32
  } -> tensor<16xi32>
  %s = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%y : tensor<16xi8>) outs(%f : tensor<16xi8>) {
  ^bb0(%a: i8, %o: i8):
    %one = arith.constant 1 : i8
    %b = arith.ori %a, %one : i8
    %v = arith.divui %a, %b : i8
    linalg.yield %v : i8
  } -> tensor<16xi8>
  return %r, %s : tensor<16xi32>, tensor<16xi8>
}

// What float64 does not hold, and quotients by a constant, which are products already, stay.
// CHECK-LABEL: func.func @rejects_integers(
// CHECK-NOT:     arith.divf
// CHECK:         return
func.func @rejects_integers(%x: tensor<16xi64>, %y: tensor<16xi32>) -> (tensor<16xi64>, tensor<16xi32>) {
  %e = tensor.empty() : tensor<16xi64>
  %f = tensor.empty() : tensor<16xi32>
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<16xi64>) outs(%e : tensor<16xi64>) {
  ^bb0(%a: i64, %o: i64):
    %one = arith.constant 1 : i64
    %b = arith.ori %a, %one : i64
    %v = arith.divsi %a, %b : i64
    linalg.yield %v : i64
  } -> tensor<16xi64>
  %c7 = arith.constant 7 : i32
  %s = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%y : tensor<16xi32>) outs(%f : tensor<16xi32>) {
  ^bb0(%a: i32, %o: i32):
    %v = arith.divsi %a, %c7 : i32
    linalg.yield %v : i32
  } -> tensor<16xi32>
  return %r, %s : tensor<16xi64>, tensor<16xi32>
}

// Places in tensors: not by a power of two, of which the quotient is a shift.
// CHECK-LABEL: func.func @places(
// CHECK:         arith.index_cast %{{.*}} : index to i64
// CHECK:         arith.sitofp %{{.*}} : i64 to f64
// CHECK:         %[[Q:.*]] = arith.divf %{{.*}} : f64
// CHECK:         arith.fptosi %[[Q]] : f64 to i64
// CHECK:         arith.muli
// CHECK:         arith.subi
// CHECK:         arith.divf
// CHECK-NOT:     arith.divf
// CHECK:         arith.divui %{{.*}} : index
// CHECK:         return
func.func @places(%x: tensor<16xi64>, %n: index) -> tensor<16xi64> {
  %e = tensor.empty() : tensor<16xi64>
  %c7 = arith.constant 7 : index
  %c8 = arith.constant 8 : index
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<16xi64>) outs(%e : tensor<16xi64>) {
  ^bb0(%a: i64, %o: i64):
    %i = arith.index_cast %a : i64 to index
    %u = arith.remui %i, %n : index
    %v = arith.divui %u, %c7 : index
    %w = arith.divui %v, %c8 : index
    %y = arith.index_cast %w : index to i64
    linalg.yield %y : i64
  } -> tensor<16xi64>
  return %r : tensor<16xi64>
}

// Tiles of rows that are read in place look at the remainder.
// CHECK-LABEL: func.func @rejects_places_that_are_read(
// CHECK-NOT:     arith.divf
// CHECK:         return
func.func @rejects_places_that_are_read(%x: tensor<16xf32>, %n: index) -> tensor<16xf32> {
  %e = tensor.empty() : tensor<16xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      outs(%e : tensor<16xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %u = arith.remui %i, %n : index
    %y = tensor.extract %x[%u] : tensor<16xf32>
    linalg.yield %y : f32
  } -> tensor<16xf32>
  return %r : tensor<16xf32>
}
