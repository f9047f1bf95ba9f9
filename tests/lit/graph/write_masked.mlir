// RUN: %opt %s --passes=write-masked | filecheck %s

#id = affine_map<(h, s, d) -> (h, s, d)>
#mask = affine_map<(h, s, d) -> (s, 0)>
#row = affine_map<(h, s, d) -> (h, 0, d)>
#id2 = affine_map<(s, d) -> (s, d)>
#mask2 = affine_map<(s, d) -> (s, 0)>

// Rows of the state for which the mask is true are written over it, and nothing of the others is read.
// CHECK-LABEL: func.func @main(
// CHECK-SAME:    %[[P:[a-z0-9]*]]: tensor<8x512x64xf32> {{.*}}, %[[M:[a-z0-9]*]]: tensor<512x1xi8>, %[[N:[a-z0-9]*]]: tensor<8x1x64xf32>)
// CHECK:         %[[Y:.*]] = scf.for %[[S:.*]] = %{{.*}} to %{{.*}} step %{{.*}} iter_args(%[[A:.*]] = %[[P]])
// CHECK:           tensor.extract %[[M]][%[[S]], %{{.*}}]
// CHECK:           %[[COUNT:.*]] = arith.select
// CHECK:           scf.for %{{.*}} = %{{.*}} to %[[COUNT]] step %{{.*}} iter_args(%[[B:.*]] = %[[A]])
// CHECK:             %[[R:.*]] = linalg.generic {{.*}} ins(%{{.*}} : tensor<8x1x64xf32>) outs(%{{.*}} : tensor<8x64xf32>)
// CHECK:             tensor.insert_slice %[[R]] into %[[B]][0, %[[S]], 0] [8, 1, 64]
// CHECK:         return %[[Y]]
func.func @main(%past: tensor<8x512x64xf32> {tw.name = "past", tw.state = 0 : i64}, %mask: tensor<512x1xi8>,
                %new: tensor<8x1x64xf32>) -> tensor<8x512x64xf32> {
  %e = tensor.empty() : tensor<8x512x64xf32>
  %y = linalg.generic {indexing_maps = [#mask, #row, #id, #id], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%mask, %new, %past : tensor<512x1xi8>, tensor<8x1x64xf32>, tensor<8x512x64xf32>) outs(%e : tensor<8x512x64xf32>) {
  ^bb0(%m: i8, %n: f32, %p: f32, %o: f32):
    %zero = arith.constant 0 : i8
    %c = arith.cmpi ne, %m, %zero : i8
    %s = arith.select %c, %n, %p : f32
    linalg.yield %s : f32
  } -> tensor<8x512x64xf32>
  return %y : tensor<8x512x64xf32>
}

// A mask of single elements would be looked at for each of them.
// CHECK-LABEL: func.func @elements(
// CHECK-NOT:     scf.for
// CHECK:         return
func.func @elements(%past: tensor<8x512x64xf32> {tw.name = "past", tw.state = 0 : i64}, %mask: tensor<8x512x64xi8>,
                %new: tensor<8x1x64xf32>) -> tensor<8x512x64xf32> {
  %e = tensor.empty() : tensor<8x512x64xf32>
  %y = linalg.generic {indexing_maps = [#id, #row, #id, #id], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%mask, %new, %past : tensor<8x512x64xi8>, tensor<8x1x64xf32>, tensor<8x512x64xf32>) outs(%e : tensor<8x512x64xf32>) {
  ^bb0(%m: i8, %n: f32, %p: f32, %o: f32):
    %zero = arith.constant 0 : i8
    %c = arith.cmpi ne, %m, %zero : i8
    %s = arith.select %c, %n, %p : f32
    linalg.yield %s : f32
  } -> tensor<8x512x64xf32>
  return %y : tensor<8x512x64xf32>
}

// What the state itself decides reads all of it, and so does what is made of it.
// CHECK-LABEL: func.func @itself(
// CHECK-NOT:     scf.for
// CHECK:         return
func.func @itself(%past: tensor<512x64xf32> {tw.name = "past", tw.state = 0 : i64}, %mask: tensor<512x1xi8>)
    -> tensor<512x64xf32> {
  %e = tensor.empty() : tensor<512x64xf32>
  %y = linalg.generic {indexing_maps = [#mask2, #id2, #id2], iterator_types = ["parallel", "parallel"]}
      ins(%mask, %past : tensor<512x1xi8>, tensor<512x64xf32>) outs(%e : tensor<512x64xf32>) {
  ^bb0(%m: i8, %p: f32, %o: f32):
    %zero = arith.constant 0 : i8
    %c = arith.cmpi ne, %m, %zero : i8
    %n = arith.negf %p : f32
    %s = arith.select %c, %n, %p : f32
    linalg.yield %s : f32
  } -> tensor<512x64xf32>
  return %y : tensor<512x64xf32>
}
