// RUN: %opt %s --passes=fold-quantization | filecheck %s

#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (k, n)>
#y = affine_map<(m, n, k) -> (m, n)>
#two = affine_map<(i, j) -> (i, j)>
#column = affine_map<(i, j) -> (j)>
#scalar = affine_map<(i, j) -> ()>
#four = affine_map<(a, b, c, d) -> (a, b, c, d)>
#product = {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]}
#elementwise = {indexing_maps = [#two, #two], iterator_types = ["parallel", "parallel"]}

// Bytes are multiplied; bias, zero point and sums of weights are one number for each channel, scales and step another.
// CHECK-LABEL: func.func @products(
// CHECK:         %[[FACTOR:.*]] = linalg.generic {{.*}} ins(%arg2 : tensor<6xf32>)
// CHECK:           arith.mulf %cst{{.*}}, %in
// CHECK:         %[[WHOLE:.*]] = linalg.generic {{.*}} ins(%arg3, %[[FACTOR]] : tensor<6xf32>, tensor<6xf32>)
// CHECK:           arith.divf
// CHECK-NEXT:      math.roundeven
// CHECK:         %[[REST:.*]] = linalg.generic {{.*}} ins(%arg3, %[[FACTOR]], %[[WHOLE]] :
// CHECK:         linalg.generic {{.*}} ins(%[[REST]] : tensor<6xf32>)
// CHECK:           arith.divf
// CHECK:         %[[SUMS:.*]] = linalg.generic {{.*}} ins(%arg0, %arg1 : tensor<4x8xi8>, tensor<8x6xi8>)
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      arith.extui
// CHECK-NEXT:      arith.extsi
// CHECK-NEXT:      arith.muli
// CHECK-NEXT:      arith.addi
// CHECK:         %[[TOTALS:.*]] = linalg.generic {{.*}} ins(%arg1 : tensor<8x6xi8>)
// CHECK:         %[[OFFSET:.*]] = linalg.generic {{.*}} ins(%[[TOTALS]], %[[WHOLE]] : tensor<6xi32>, tensor<6xi32>)
// CHECK:           arith.muli %in, %c-100_i32
// CHECK:         %[[ADDED:.*]] = linalg.generic {{.*}} ins(%[[SUMS]], %[[OFFSET]] : tensor<4x6xi32>, tensor<6xi32>)
// CHECK:         %[[OVER:.*]] = linalg.generic {{.*}} ins(%[[FACTOR]] : tensor<6xf32>)
// CHECK:           arith.divf
// CHECK:         linalg.generic {{.*}} ins(%[[ADDED]], %[[OVER]] : tensor<4x6xi32>, tensor<6xf32>)
// CHECK:           arith.sitofp
// CHECK-NEXT:      arith.mulf
// CHECK:           arith.maximumf
// CHECK:         linalg.generic {{.*}} : tensor<4x6xf32>) outs({{.*}} : tensor<4x6xi8>)
// CHECK-NOT:     arith.divf
// CHECK:           arith.fptosi
func.func @products(%q: tensor<4x8xi8>, %v: tensor<8x6xi8> {tw.param = "v"}, %s: tensor<6xf32> {tw.param = "s"},
                    %b: tensor<6xf32> {tw.param = "b"}) -> tensor<4x6xi8> {
  %xe = tensor.empty() : tensor<4x8xf32>
  %x = linalg.generic #elementwise ins(%q : tensor<4x8xi8>) outs(%xe : tensor<4x8xf32>) {
  ^bb0(%a: i8, %o: f32):
    %zero = arith.constant 100 : i32
    %scale = arith.constant 0.5 : f32
    %i = arith.extui %a : i8 to i32
    %d = arith.subi %i, %zero : i32
    %f = arith.sitofp %d : i32 to f32
    %p = arith.mulf %f, %scale : f32
    linalg.yield %p : f32
  } -> tensor<4x8xf32>
  %we = tensor.empty() : tensor<8x6xf32>
  %w = linalg.generic {indexing_maps = [#two, #column, #two], iterator_types = ["parallel", "parallel"]}
    ins(%v, %s : tensor<8x6xi8>, tensor<6xf32>) outs(%we : tensor<8x6xf32>) {
  ^bb0(%a: i8, %scale: f32, %o: f32):
    %i = arith.extsi %a : i8 to i32
    %f = arith.sitofp %i : i32 to f32
    %p = arith.mulf %f, %scale : f32
    linalg.yield %p : f32
  } -> tensor<8x6xf32>
  %c0 = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x6xf32>
  %z = linalg.fill ins(%c0 : f32) outs(%e : tensor<4x6xf32>) -> tensor<4x6xf32>
  %c = linalg.generic #product ins(%x, %w : tensor<4x8xf32>, tensor<8x6xf32>) outs(%z : tensor<4x6xf32>) {
  ^bb0(%a: f32, %u: f32, %o: f32):
    %p = arith.mulf %a, %u fastmath<contract> : f32
    %t = arith.addf %o, %p fastmath<contract> : f32
    linalg.yield %t : f32
  } -> tensor<4x6xf32>
  %d = linalg.generic {indexing_maps = [#two, #column, #two], iterator_types = ["parallel", "parallel"]}
    ins(%c, %b : tensor<4x6xf32>, tensor<6xf32>) outs(%e : tensor<4x6xf32>) {
  ^bb0(%a: f32, %u: f32, %o: f32):
    %t = arith.addf %a, %u : f32
    linalg.yield %t : f32
  } -> tensor<4x6xf32>
  %r = linalg.generic #elementwise ins(%d : tensor<4x6xf32>) outs(%e : tensor<4x6xf32>) {
  ^bb0(%a: f32, %o: f32):
    %zero = arith.constant 0.0 : f32
    %t = arith.maximumf %a, %zero : f32
    linalg.yield %t : f32
  } -> tensor<4x6xf32>
  %ye = tensor.empty() : tensor<4x6xi8>
  %y = linalg.generic #elementwise ins(%r : tensor<4x6xf32>) outs(%ye : tensor<4x6xi8>) {
  ^bb0(%a: f32, %o: i8):
    %step = arith.constant 0.25 : f32
    %t = arith.divf %a, %step : f32
    %n = math.roundeven %t : f32
    %i = arith.fptosi %n : f32 to i32
    %u = arith.trunci %i : i32 to i8
    linalg.yield %u : i8
  } -> tensor<4x6xi8>
  return %y : tensor<4x6xi8>
}

// Signed bytes become unsigned ones where they are made, and whatever else reads them flips them back. Of products of
// integers no float is made; the zero point, which only the run knows, is multiplied there.
// CHECK-LABEL: func.func @signed_integers(
// CHECK:         %[[U:.*]] = linalg.generic {{.*}} ins(%arg0 : tensor<4x8xi8>)
// CHECK:           arith.xori %in, %c-128_i8
// CHECK:         %[[OTHER:.*]] = linalg.generic {{.*}} ins(%[[U]] : tensor<4x8xi8>)
// CHECK:           %[[BACK:.*]] = arith.xori %in, %c-128_i8
// CHECK-NEXT:      arith.extsi %[[BACK]]
// CHECK:         %[[SUMS:.*]] = linalg.generic {{.*}} ins(%[[U]], %arg1 : tensor<4x8xi8>, tensor<8x6xi8>)
// CHECK:           arith.extui
// CHECK:         %[[TOTALS:.*]] = linalg.generic {{.*}} ins(%arg1 : tensor<8x6xi8>)
// CHECK:         %[[Y:.*]] = linalg.generic {{.*}} ins(%[[SUMS]], %[[TOTALS]], %{{.*}} : tensor<4x6xi32>, tensor<6xi32>, tensor<i32>)
// CHECK:           arith.subi
// CHECK:         return %[[Y]], %[[OTHER]]
func.func @signed_integers(%q: tensor<4x8xi8>, %v: tensor<8x6xi8> {tw.param = "v"}, %zero: tensor<i32>)
    -> (tensor<4x6xi32>, tensor<4x8xi32>) {
  %xe = tensor.empty() : tensor<4x8xi32>
  %other = linalg.generic #elementwise ins(%q : tensor<4x8xi8>) outs(%xe : tensor<4x8xi32>) {
  ^bb0(%a: i8, %o: i32):
    %i = arith.extsi %a : i8 to i32
    linalg.yield %i : i32
  } -> tensor<4x8xi32>
  %x = linalg.generic {indexing_maps = [#two, #scalar, #two], iterator_types = ["parallel", "parallel"]}
    ins(%q, %zero : tensor<4x8xi8>, tensor<i32>) outs(%xe : tensor<4x8xi32>) {
  ^bb0(%a: i8, %n: i32, %o: i32):
    %i = arith.extsi %a : i8 to i32
    %d = arith.subi %i, %n : i32
    linalg.yield %d : i32
  } -> tensor<4x8xi32>
  %c0 = arith.constant 0 : i32
  %e = tensor.empty() : tensor<4x6xi32>
  %z = linalg.fill ins(%c0 : i32) outs(%e : tensor<4x6xi32>) -> tensor<4x6xi32>
  %c = linalg.generic #product ins(%x, %v : tensor<4x8xi32>, tensor<8x6xi8>) outs(%z : tensor<4x6xi32>) {
  ^bb0(%a: i32, %u: i8, %o: i32):
    %wide = arith.extsi %u : i8 to i32
    %p = arith.muli %a, %wide : i32
    %t = arith.addi %o, %p : i32
    linalg.yield %t : i32
  } -> tensor<4x6xi32>
  return %c, %other : tensor<4x6xi32>, tensor<4x8xi32>
}

// A padding holds the zero point.
// CHECK-LABEL: func.func @padded(
// CHECK:         %[[PAD:.*]] = tensor.pad %arg0 low[0, 0, 1, 1] high[0, 0, 1, 1]
// CHECK:           tensor.yield %c7_i8
// CHECK:         linalg.generic {{.*}} ins(%[[PAD]], %arg1 : tensor<1x3x6x6xi8>, tensor<8x3x3x3xi8>)
func.func @padded(%q: tensor<1x3x4x4xi8>, %v: tensor<8x3x3x3xi8> {tw.param = "v"}) -> tensor<1x8x4x4xi32> {
  %xe = tensor.empty() : tensor<1x3x4x4xi32>
  %x = linalg.generic {indexing_maps = [#four, #four], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%q : tensor<1x3x4x4xi8>) outs(%xe : tensor<1x3x4x4xi32>) {
  ^bb0(%a: i8, %o: i32):
    %zero = arith.constant 7 : i32
    %i = arith.extui %a : i8 to i32
    %d = arith.subi %i, %zero : i32
    linalg.yield %d : i32
  } -> tensor<1x3x4x4xi32>
  %c0 = arith.constant 0 : i32
  %p = tensor.pad %x low[0, 0, 1, 1] high[0, 0, 1, 1] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %c0 : i32
  } : tensor<1x3x4x4xi32> to tensor<1x3x6x6xi32>
  %e = tensor.empty() : tensor<1x8x4x4xi32>
  %z = linalg.fill ins(%c0 : i32) outs(%e : tensor<1x8x4x4xi32>) -> tensor<1x8x4x4xi32>
  %c = linalg.generic {indexing_maps = [affine_map<(n, f, h, w, c, i, j) -> (n, c, h + i, w + j)>,
                                        affine_map<(n, f, h, w, c, i, j) -> (f, c, i, j)>,
                                        affine_map<(n, f, h, w, c, i, j) -> (n, f, h, w)>],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%p, %v : tensor<1x3x6x6xi32>, tensor<8x3x3x3xi8>) outs(%z : tensor<1x8x4x4xi32>) {
  ^bb0(%a: i32, %u: i8, %o: i32):
    %wide = arith.extsi %u : i8 to i32
    %m = arith.muli %a, %wide : i32
    %t = arith.addi %o, %m : i32
    linalg.yield %t : i32
  } -> tensor<1x8x4x4xi32>
  return %c : tensor<1x8x4x4xi32>
}

// Of two activations one is what lies above its zero point; a zero point that a weight's signed bytes have adds the sum
// of each row.
// CHECK-LABEL: func.func @others(
// CHECK:         %[[WIDE:.*]] = linalg.generic {{.*}} ins(%arg1 : tensor<8x6xi8>) outs({{.*}} : tensor<8x6xi16>)
// CHECK:           arith.extui {{.*}} i8 to i16
// CHECK:         %[[C:.*]] = linalg.generic {{.*}} ins(%arg0, %[[WIDE]] : tensor<4x8xi8>, tensor<8x6xi16>)
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      arith.extui
// CHECK-NEXT:      arith.extsi
// CHECK:         %[[SUMS:.*]] = linalg.generic {{.*}} ins(%arg0, %arg2 : tensor<4x8xi8>, tensor<8x6xi8>)
// CHECK:         %[[ROWS:.*]] = linalg.generic {{.*}} ins(%arg0 : tensor<4x8xi8>) outs({{.*}} : tensor<4xi32>)
// CHECK:           arith.extui
// CHECK:         %[[D:.*]] = linalg.generic {{.*}} ins(%[[SUMS]], %[[ROWS]], %{{.*}} : tensor<4x6xi32>, tensor<4xi32>, tensor<6xi32>)
// CHECK:           arith.subi
// CHECK:         return %{{.*}}, %{{.*}} :
func.func @others(%q: tensor<4x8xi8>, %r: tensor<8x6xi8>, %v: tensor<8x6xi8> {tw.param = "v"},
                  %zeros: tensor<6xi32> {tw.param = "z"}) -> (tensor<4x6xi32>, tensor<4x6xi32>) {
  %xe = tensor.empty() : tensor<4x8xi32>
  %x = linalg.generic #elementwise ins(%q : tensor<4x8xi8>) outs(%xe : tensor<4x8xi32>) {
  ^bb0(%a: i8, %o: i32):
    %zero = arith.constant 7 : i32
    %i = arith.extui %a : i8 to i32
    %d = arith.subi %i, %zero : i32
    linalg.yield %d : i32
  } -> tensor<4x8xi32>
  %we = tensor.empty() : tensor<8x6xi32>
  %s = linalg.generic #elementwise ins(%r : tensor<8x6xi8>) outs(%we : tensor<8x6xi32>) {
  ^bb0(%a: i8, %o: i32):
    %zero = arith.constant 130 : i32
    %i = arith.extui %a : i8 to i32
    %d = arith.subi %i, %zero : i32
    linalg.yield %d : i32
  } -> tensor<8x6xi32>
  %w = linalg.generic {indexing_maps = [#two, #column, #two], iterator_types = ["parallel", "parallel"]}
    ins(%v, %zeros : tensor<8x6xi8>, tensor<6xi32>) outs(%we : tensor<8x6xi32>) {
  ^bb0(%a: i8, %zero: i32, %o: i32):
    %i = arith.extsi %a : i8 to i32
    %d = arith.subi %i, %zero : i32
    linalg.yield %d : i32
  } -> tensor<8x6xi32>
  %c0 = arith.constant 0 : i32
  %e = tensor.empty() : tensor<4x6xi32>
  %z = linalg.fill ins(%c0 : i32) outs(%e : tensor<4x6xi32>) -> tensor<4x6xi32>
  %c = linalg.generic #product ins(%x, %s : tensor<4x8xi32>, tensor<8x6xi32>) outs(%z : tensor<4x6xi32>) {
  ^bb0(%a: i32, %u: i32, %o: i32):
    %p = arith.muli %a, %u : i32
    %t = arith.addi %o, %p : i32
    linalg.yield %t : i32
  } -> tensor<4x6xi32>
  %d = linalg.generic #product ins(%x, %w : tensor<4x8xi32>, tensor<8x6xi32>) outs(%z : tensor<4x6xi32>) {
  ^bb0(%a: i32, %u: i32, %o: i32):
    %p = arith.muli %a, %u : i32
    %t = arith.addi %o, %p : i32
    linalg.yield %t : i32
  } -> tensor<4x6xi32>
  return %c, %d : tensor<4x6xi32>, tensor<4x6xi32>
}

// A weight with a zero point for each step of the sum, which no row's sum corrects, and data that are no bytes.
// CHECK-LABEL: func.func @rejects(
// CHECK:         ins({{.*}} : tensor<4x8xi32>, tensor<8x6xi32>)
// CHECK:         arith.muli
// CHECK:         ins(%arg1, %arg2 : tensor<4x8xi32>, tensor<8x6xi8>)
// CHECK:         arith.muli
func.func @rejects(%q: tensor<4x8xi8>, %n: tensor<4x8xi32>, %v: tensor<8x6xi8> {tw.param = "v"},
                   %zeros: tensor<8xi32> {tw.param = "z"}) -> (tensor<4x6xi32>, tensor<4x6xi32>) {
  %xe = tensor.empty() : tensor<4x8xi32>
  %x = linalg.generic #elementwise ins(%q : tensor<4x8xi8>) outs(%xe : tensor<4x8xi32>) {
  ^bb0(%a: i8, %o: i32):
    %i = arith.extsi %a : i8 to i32
    linalg.yield %i : i32
  } -> tensor<4x8xi32>
  %we = tensor.empty() : tensor<8x6xi32>
  %w = linalg.generic {indexing_maps = [#two, affine_map<(i, j) -> (i)>, #two], iterator_types = ["parallel", "parallel"]}
    ins(%v, %zeros : tensor<8x6xi8>, tensor<8xi32>) outs(%we : tensor<8x6xi32>) {
  ^bb0(%a: i8, %zero: i32, %o: i32):
    %i = arith.extsi %a : i8 to i32
    %d = arith.subi %i, %zero : i32
    linalg.yield %d : i32
  } -> tensor<8x6xi32>
  %c0 = arith.constant 0 : i32
  %e = tensor.empty() : tensor<4x6xi32>
  %z = linalg.fill ins(%c0 : i32) outs(%e : tensor<4x6xi32>) -> tensor<4x6xi32>
  %c = linalg.generic #product ins(%x, %w : tensor<4x8xi32>, tensor<8x6xi32>) outs(%z : tensor<4x6xi32>) {
  ^bb0(%a: i32, %u: i32, %o: i32):
    %p = arith.muli %a, %u : i32
    %t = arith.addi %o, %p : i32
    linalg.yield %t : i32
  } -> tensor<4x6xi32>
  %d = linalg.generic #product ins(%n, %v : tensor<4x8xi32>, tensor<8x6xi8>) outs(%z : tensor<4x6xi32>) {
  ^bb0(%a: i32, %u: i8, %o: i32):
    %wide = arith.extsi %u : i8 to i32
    %p = arith.muli %a, %wide : i32
    %t = arith.addi %o, %p : i32
    linalg.yield %t : i32
  } -> tensor<4x6xi32>
  return %c, %d : tensor<4x6xi32>, tensor<4x6xi32>
}
