// RUN: %opt %s --passes=apply-schedule --schedules=%S/Inputs/loops.mlir | filecheck %s
// RUN: sed 's/@product/@tiles/' %s > %t.tiles.mlir
// RUN: %opt %t.tiles.mlir --passes=apply-schedule --schedules=%S/Inputs/loops.mlir | filecheck %s --check-prefix=TILES
// RUN: sed 's/@product/@nothing/' %s > %t.nothing.mlir
// RUN: not %opt %t.nothing.mlir --passes=apply-schedule --schedules=%S/Inputs/loops.mlir 2>&1 | filecheck %s --check-prefix=REFUSED

// REFUSED: error: sequence '@nothing' cannot be applied to kernel 'nothing': it changes nothing

#left = affine_map<(m, n, k) -> (m, k)>
#right = affine_map<(m, n, k) -> (k, n)>
#sums = affine_map<(m, n, k) -> (m, n)>
#matrix = affine_map<(m, n) -> (m, n)>
#row = affine_map<(m, n) -> (n)>

// A forall is one loop, of which each call does its share. Each of its tiles is a nest of its own.
// CHECK-LABEL: func.func @product(
// CHECK-SAME:    %[[LO:[a-z0-9]+]]: index, %[[HI:[a-z0-9]+]]: index)
// CHECK-SAME:    tw.extent = 6 : i64, tw.parts = "loops of a sequence, around nests:
// CHECK:         scf.for %[[I:.*]] = %[[LO]] to %[[HI]]
// CHECK:           arith.remui %[[I]], %{{.*}}
// CHECK:           arith.divui %[[I]], %{{.*}}
// CHECK:           linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "reduction"]} {{.*}} outs({{.*}} : tensor<4x16xf32>) attrs =  {tw.role = "contract
// CHECK:           linalg.generic {{.*}} outs({{.*}} : tensor<16xf32>) attrs =  {tw.tile}

// The last step of the outer loop is smaller, and a branch of its own, which one of the calls takes.
// TILES-LABEL: func.func @tiles(
// TILES-SAME:    %[[LO:[a-z0-9]+]]: index, %[[HI:[a-z0-9]+]]: index)
// TILES-SAME:    tw.extent = 3 : i64
// TILES:         %[[WHOLE:.*]] = arith.minui %[[HI]], %{{.*}}
// TILES:         scf.for %{{.*}} = %[[LO]] to %[[WHOLE]]
// TILES:           linalg.generic {{.*}} outs({{.*}} : tensor<5x16xf32>) attrs =  {tw.role = "contract2x1"}
// TILES:         %[[REST:.*]] = arith.maxui %[[LO]], %{{.*}}
// TILES:         %[[TAKEN:.*]] = arith.cmpi ult, %[[REST]], %{{.*}}
// TILES:         scf.if %[[TAKEN]]
// TILES:           linalg.generic {{.*}} outs({{.*}} : tensor<2x16xf32>) attrs =  {tw.role = "contract2x1"}
func.func @product(%x: tensor<12x8xf32>, %w: tensor<8x32xf32>, %b: tensor<32xf32>) -> tensor<12x32xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<12x32xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<12x32xf32>) -> tensor<12x32xf32>
  %p = linalg.generic {indexing_maps = [#left, #right, #sums], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%x, %w : tensor<12x8xf32>, tensor<8x32xf32>) outs(%f : tensor<12x32xf32>) {
  ^bb0(%u: f32, %v: f32, %o: f32):
    %m = arith.mulf %u, %v fastmath<contract> : f32
    %s = arith.addf %o, %m fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<12x32xf32>
  %r = linalg.generic {indexing_maps = [#matrix, #row, #matrix], iterator_types = ["parallel", "parallel"]}
    ins(%p, %b : tensor<12x32xf32>, tensor<32xf32>) outs(%e : tensor<12x32xf32>) {
  ^bb0(%u: f32, %v: f32, %o: f32):
    %s = arith.addf %u, %v : f32
    linalg.yield %s : f32
  } -> tensor<12x32xf32>
  return %r : tensor<12x32xf32>
}
