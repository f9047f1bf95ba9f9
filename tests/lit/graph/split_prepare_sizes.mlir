// RUN: %opt %s --passes=split-prepare | filecheck %s

#i = affine_map<(i) -> (i)>

// What is prepared reads its sizes from what is prepared with it, and nothing of that stays. What has a size that an
// input gives is not prepared.
// CHECK-LABEL: func.func @main(
// CHECK-SAME:    tensor<1xf32> {tw.param = "w.prepared"})
// CHECK-NOT:     scf.for
// CHECK:         tensor.extract_slice %arg1
// CHECK:         %[[REST:.*]] = linalg.generic
// CHECK:         return %arg2, %[[REST]]
// CHECK-LABEL: func.func private @prepare_0(
// CHECK-SAME:    %[[W:.*]]: tensor<4xf32> {tw.param = "w"}) -> tensor<1xf32>
// CHECK:         %[[N:.*]] = scf.for
// CHECK:         tensor.extract %[[N]]
// CHECK:         tensor.extract_slice %[[W]]
func.func @main(%x: tensor<1xindex> {tw.name = "x"}, %w: tensor<4xf32> {tw.param = "w"}) -> (tensor<1xf32>, tensor<1xf32>) {
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %4 = arith.constant 4 : index
  %none = tensor.empty() : tensor<1xindex>
  %zero = linalg.fill ins(%0 : index) outs(%none : tensor<1xindex>) -> tensor<1xindex>
  %counted = scf.for %k = %0 to %4 step %1 iter_args(%c = %zero) -> (tensor<1xindex>) {
    %a = tensor.extract %w[%k] : tensor<4xf32>
    %on = arith.cmpf ord, %a, %a : f32
    %old = tensor.extract %c[%0] : tensor<1xindex>
    %next = arith.addi %old, %1 : index
    %new = arith.select %on, %next, %old : index
    %d = tensor.insert %new into %c[%0] : tensor<1xindex>
    scf.yield %d : tensor<1xindex>
  }
  %n = tensor.extract %counted[%0] : tensor<1xindex>
  %first = tensor.extract_slice %w[0] [%n] [1] : tensor<4xf32> to tensor<?xf32>
  %start = arith.constant dense<0.0> : tensor<1xf32>
  %sum = linalg.generic {indexing_maps = [#i, affine_map<(i) -> (0)>], iterator_types = ["reduction"]}
    ins(%first : tensor<?xf32>) outs(%start : tensor<1xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %o : f32
    linalg.yield %s : f32
  } -> tensor<1xf32>
  %m = tensor.extract %x[%0] : tensor<1xindex>
  %given = tensor.extract_slice %w[0] [%m] [1] : tensor<4xf32> to tensor<?xf32>
  %rest = linalg.generic {indexing_maps = [#i, affine_map<(i) -> (0)>], iterator_types = ["reduction"]}
    ins(%given : tensor<?xf32>) outs(%start : tensor<1xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %o : f32
    linalg.yield %s : f32
  } -> tensor<1xf32>
  return %sum, %rest : tensor<1xf32>, tensor<1xf32>
}
// CHECK-NOT:   @prepare_1
