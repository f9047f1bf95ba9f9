// RUN: %opt %s --passes=hold-inside | filecheck %s

#id = affine_map<(i) -> (i)>

// An index that is data is held within the axis; what is outside is said of the element that it was made of.
// CHECK-LABEL: func.func @main(
// CHECK:         linalg.generic {{.*}}"reduction"]{{.*}} {tw.outside = "has an index that is out of range for an extent of 9"}
// CHECK:           arith.maxui
// CHECK:         linalg.generic
// CHECK:           %[[A:.*]] = arith.index_cast
// CHECK:           %[[B:.*]] = arith.maxsi %[[A]], %{{.*}} : index
// CHECK:           %[[C:.*]] = arith.minsi %[[B]], %{{.*}} : index
// CHECK:           tensor.extract %arg0[%[[C]]]
func.func @main(%x: tensor<9xf32>, %i: tensor<4xi64>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
    ins(%i : tensor<4xi64>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: i64, %o: f32):
    %at = arith.index_cast %a : i64 to index
    %v = tensor.extract %x[%at] : tensor<9xf32>
    linalg.yield %v : f32
  } -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// A place in the loops is none of data.
// CHECK-LABEL: func.func @place(
// CHECK-NOT:     arith.maxsi
// CHECK:         return
func.func @place(%x: tensor<9xf32>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %r = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]} outs(%e : tensor<4xf32>) {
  ^bb0(%o: f32):
    %at = linalg.index 0 : index
    %v = tensor.extract %x[%at] : tensor<9xf32>
    linalg.yield %v : f32
  } -> tensor<4xf32>
  return %r : tensor<4xf32>
}
