#id = affine_map<(i) -> (i)>
func.func @unstated(%x: tensor<?xf32>, %y: tensor<?xf32>, %n: index) -> tensor<?xf32> attributes {tw.result_sizes = 1 : i64, tw.same_sizes = [array<i64: 0, 0, 2, -1, 3, 0>]} {
  %e = tensor.empty(%n) : tensor<?xf32>
  %r = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]}
    ins(%x, %y : tensor<?xf32>, tensor<?xf32>) outs(%e : tensor<?xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<?xf32>
  return %r : tensor<?xf32>
}
