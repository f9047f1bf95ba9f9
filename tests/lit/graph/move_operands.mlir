// RUN: %opt %s --passes=move-operands | filecheck %s

// What all rows of the first operand read lies along the result.
// CHECK-DAG:   #[[TURNED:.*]] = affine_map<(d0, d1) -> (d1, d0)>
// CHECK-DAG:   #[[COLUMNS:.*]] = affine_map<(d0, d1, d2) -> (d2, d1)>
// CHECK-LABEL: func.func @distances(
// CHECK:         %[[T:.*]] = linalg.generic {indexing_maps = [#[[TURNED]], {{.*}} ins(%arg1 : tensor<48x40xf32>) outs(%{{.*}} : tensor<40x48xf32>)
// CHECK:         linalg.generic {indexing_maps = [#{{.*}}, #[[COLUMNS]], #{{.*}}], {{.*}} ins(%arg0, %[[T]] : tensor<32x40xf32>, tensor<40x48xf32>)
func.func @distances(%x: tensor<32x40xf32>, %y: tensor<48x40xf32>) -> tensor<32x48xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<32x48xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<32x48xf32>) -> tensor<32x48xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (j, k)>,
      affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %y : tensor<32x40xf32>, tensor<48x40xf32>) outs(%f : tensor<32x48xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %d = arith.subf %a, %b : f32
    %n = math.absf %d : f32
    %s = arith.addf %o, %n : f32
    linalg.yield %s : f32
  } -> tensor<32x48xf32>
  return %r : tensor<32x48xf32>
}

// Each element is read once: to move it takes as long.
// CHECK-LABEL: func.func @pairs(
// CHECK-NOT:     outs(%{{.*}} : tensor<40x32xf32>)
// CHECK:         return
func.func @pairs(%x: tensor<32x40xf32>, %y: tensor<32x40xf32>) -> tensor<32xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<32xf32>) -> tensor<32xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, k) -> (i, k)>, affine_map<(i, k) -> (i, k)>,
      affine_map<(i, k) -> (i)>], iterator_types = ["parallel", "reduction"]}
      ins(%x, %y : tensor<32x40xf32>, tensor<32x40xf32>) outs(%f : tensor<32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %d = arith.subf %a, %b : f32
    %n = math.absf %d : f32
    %s = arith.addf %o, %n : f32
    linalg.yield %s : f32
  } -> tensor<32xf32>
  return %r : tensor<32xf32>
}
