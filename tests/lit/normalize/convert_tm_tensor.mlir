// RUN: %opt %s --passes=convert-tm-tensor | filecheck %s

// A running sum in order, which the loop along the axis carries.
// CHECK-LABEL: func.func @scan
// CHECK:       scf.for {{.*}} iter_args(%[[M:.*]] = %{{.*}}, %[[T:.*]] = %{{.*}}) -> (tensor<2x8x1xf32>, f32)
// CHECK:         %[[X:.*]] = tensor.extract
// CHECK:         %[[N:.*]] = arith.addf %[[T]], %[[X]]
// CHECK:         tensor.insert %[[N]] into %[[M]]
// CHECK-NOT:   tm_tensor
// CHECK:       return
func.func @scan(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8xf32>) -> tensor<2x8xf32>
  %f = tensor.empty() : tensor<2xf32>
  %a = linalg.fill ins(%zero : f32) outs(%f : tensor<2xf32>) -> tensor<2xf32>
  %r:2 = "tm_tensor.scan"(%x, %z, %a) ({
  ^bb0(%p: f32, %q: f32):
    %s = arith.addf %p, %q : f32
    "tm_tensor.yield"(%s) : (f32) -> ()
  }) {tm_tensor.properties = {dimension = 1 : i64, inclusive = true}} : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<2xf32>) -> (tensor<2x8xf32>, tensor<2xf32>)
  return %r#0 : tensor<2x8xf32>
}

// NaN is the largest of all numbers.
// CHECK-LABEL: func.func @sort
// CHECK:       scf.for
// CHECK:       arith.cmpf olt
// CHECK:       arith.cmpf une
// CHECK-NOT:   tm_tensor
// CHECK:       linalg.generic
// CHECK:         tensor.extract %{{.*}} : tensor<3x8xf32>
func.func @sort(%x: tensor<3x8xf32>) -> tensor<3x8xf32> {
  %r = "tm_tensor.sort"(%x) ({
  ^bb0(%p: f32, %q: f32):
    %s = arith.cmpf ole, %p, %q : f32
    "tm_tensor.yield"(%s) : (i1) -> ()
  }) {tm_tensor.properties = {dimension = 0 : i64}} : (tensor<3x8xf32>) -> tensor<3x8xf32>
  return %r : tensor<3x8xf32>
}

// Updates are added one after another, at positions that are held within the tensor.
// CHECK-LABEL: func.func @scatter
// CHECK:       scf.for
// CHECK:       arith.maxsi
// CHECK:       arith.minsi
// CHECK:       arith.addf
// CHECK:       tensor.insert
// CHECK-NOT:   tm_tensor
func.func @scatter(%x: tensor<9x8xf32>, %u: tensor<3x1x8xf32>, %i: tensor<3x1xi64>) -> tensor<9x8xf32> {
  %r = "tm_tensor.scatter"(%u, %i, %x) ({
  ^bb0(%new: f32, %old: f32):
    %s = arith.addf %old, %new : f32
    "tm_tensor.yield"(%s) : (f32) -> ()
  }) {tm_tensor.properties = {dimension_map = array<i64: 0>, unique_indices = false}} : (tensor<3x1x8xf32>, tensor<3x1xi64>, tensor<9x8xf32>) -> tensor<9x8xf32>
  return %r : tensor<9x8xf32>
}

// Ops of other dialects are not this pass's.
// CHECK-LABEL: func.func @rejects_others
// CHECK:       "other.scan"
func.func @rejects_others(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = "other.scan"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}
