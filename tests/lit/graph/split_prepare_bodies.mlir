// RUN: %opt %s --passes=outline-control,split-prepare | filecheck %s

// What bodies of control flow compute of weights alone is prepared as well, once for both branches; the call of a body in
// a body passes it on. A weight that is read as it is stays.
// CHECK-LABEL: func.func @main(
// CHECK-SAME:    %[[C:.*]]: i1, %[[X:.*]]: tensor<?xf32> {tw.name = "x"}, %[[B:.*]]: tensor<16xf32> {tw.param = "b"},
// CHECK-SAME:    %[[P:.*]]: tensor<2x8x16xf32> {tw.param = "w.prepared"})
// CHECK:         scf.if %[[C]]
// CHECK:           func.call @main.if.0(%[[P]]) {tw.body}
// CHECK:           func.call @main.if.1({{.*}}%[[B]]{{.*}}%[[P]]) {tw.body}
// CHECK:       func.func private @main.if.0(%arg0: tensor<2x8x16xf32>)
// CHECK-NOT:     linalg.pack
// CHECK:         return
// CHECK:       func.func private @main.if.1(
// CHECK-NOT:     tw.param
// CHECK:         scf.if
// CHECK:           func.call @main.if.1.if.2(%{{.*}}) {tw.body}
// CHECK:       func.func private @main.if.1.if.2(%arg0: tensor<2x8x16xf32>) -> tensor<2x8x16xf32>
// CHECK-NEXT:    return %arg0
// CHECK:       func.func private @prepare_0(%arg0: tensor<8x32xf32> {tw.param = "w"})
// CHECK-NOT:   @prepare_1
func.func @main(%c: i1, %x: tensor<?xf32> {tw.name = "x"}, %w: tensor<8x32xf32> {tw.param = "w"}, %b: tensor<16xf32> {tw.param = "b"}) -> tensor<2x8x16xf32> {
  %r = scf.if %c -> (tensor<2x8x16xf32>) {
    %e = tensor.empty() : tensor<2x8x16xf32>
    %p = linalg.pack %w outer_dims_perm = [1, 0] inner_dims_pos = [1] inner_tiles = [16] into %e : tensor<8x32xf32> -> tensor<2x8x16xf32>
    scf.yield %p : tensor<2x8x16xf32>
  } else {
    %s = scf.if %c -> (tensor<2x8x16xf32>) {
      %e = tensor.empty() : tensor<2x8x16xf32>
      %p = linalg.pack %w outer_dims_perm = [1, 0] inner_dims_pos = [1] inner_tiles = [16] into %e : tensor<8x32xf32> -> tensor<2x8x16xf32>
      scf.yield %p : tensor<2x8x16xf32>
    } else {
      %q = func.call @host(%x, %b) : (tensor<?xf32>, tensor<16xf32>) -> tensor<2x8x16xf32>
      scf.yield %q : tensor<2x8x16xf32>
    } {tw.control}
    scf.yield %s : tensor<2x8x16xf32>
  } {tw.control}
  return %r : tensor<2x8x16xf32>
}
func.func private @host(tensor<?xf32>, tensor<16xf32>) -> tensor<2x8x16xf32>
