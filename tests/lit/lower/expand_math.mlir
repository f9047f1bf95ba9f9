// RUN: %opt %s --passes=expand-math --target "x86 -mcpu=haswell" | filecheck %s
// RUN: %opt %s --passes=expand-math --target "x86 -mcpu=znver4" | filecheck %s --check-prefix=SCALE

// SCALE-LABEL: func.func @exp(
// SCALE:         %[[N:.*]] = arith.sitofp
// SCALE-COUNT-7: math.fma
// SCALE:         %[[POWER:.*]] = math.exp2 %[[N]] fastmath<afn>
// SCALE:         arith.mulf %{{.*}}, %[[POWER]]
// SCALE-NOT:     {{math.exp |arith.shli}}
// SCALE:         linalg.yield

#id = affine_map<(i) -> (i)>

// CHECK-LABEL: func.func @exp(
// CHECK-NOT:     math.exp
// CHECK:         %[[WORD:.*]] = math.fma
// CHECK:         %[[N:.*]] = arith.subf %[[WORD]]
// CHECK:         %[[BITS:.*]] = arith.bitcast %[[WORD]]
// CHECK:         arith.shrui %[[BITS]]
// CHECK:         math.fma %[[N]]
// CHECK-NOT:     math.exp
// CHECK:         linalg.yield
func.func @exp(%x: tensor<8xf32>) -> tensor<8xf32> {
  %e = tensor.empty() : tensor<8xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
    ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%v: f32, %o: f32):
    %y = math.exp %v : f32
    linalg.yield %y : f32
  } -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// One that is at most 1: bits that cannot overflow, and a product.
// CHECK-LABEL: func.func @at_most_one(
// CHECK-NOT:     arith.shrui
// CHECK:         arith.shli
// CHECK:         arith.mulf
// CHECK-NOT:     {{arith.mulf|math.exp}}
// CHECK:         return
func.func @at_most_one(%x: f32) -> f32 {
  %y = math.exp %x {tw.at_most_one} : f32
  return %y : f32
}

// Odd and continuous: no branch, no division.
// CHECK-LABEL: func.func @erf(
// CHECK-NOT:     {{math.erf|arith.divf}}
// CHECK:         return
func.func @erf(%x: f32) -> f32 {
  %y = math.erf %x : f32
  return %y : f32
}

// 1 / (1 + exp(-x)) has no exp of its own that could overflow.
// CHECK-LABEL: func.func @sigmoid(
// CHECK-NOT:     arith.negf
// CHECK:         %[[Y:.*]] = arith.divf
// CHECK-NEXT:    return %[[Y]]
func.func @sigmoid(%x: f32) -> f32 {
  %one = arith.constant 1.0 : f32
  %m = arith.negf %x : f32
  %p = math.exp %m : f32
  %s = arith.addf %one, %p : f32
  %y = arith.divf %one, %s : f32
  return %y : f32
}

// However the half and the root of 2 are written; the result is max(x, 0) less a tail.
// CHECK-LABEL: func.func @gelu(
// CHECK:         arith.cmpf ogt
// CHECK-NEXT:    %[[MAX:.*]] = arith.select
// CHECK-NEXT:    %[[Y:.*]] = math.fma %{{.*}}, %{{.*}}, %[[MAX]]
// CHECK-NEXT:    return %[[Y]]
func.func @gelu(%x: f32) -> f32 {
  %one = arith.constant 1.0 : f32
  %two = arith.constant 2.0 : f32
  %root = arith.constant 0.707106769 : f32
  %z = arith.mulf %root, %x : f32
  %e = math.erf %z : f32
  %s = arith.addf %one, %e : f32
  %p = arith.mulf %s, %x : f32
  %y = arith.divf %p, %two : f32
  return %y : f32
}

// CHECK-LABEL: func.func @gelu_tanh(
// CHECK-COUNT-1: arith.divf
// CHECK-NOT:     arith.divf
// CHECK:         return
func.func @gelu_tanh(%x: f32) -> f32 {
  %one = arith.constant 1.0 : f32
  %half = arith.constant 0.5 : f32
  %three = arith.constant 3.0 : f32
  %k = arith.constant 0.044715 : f32
  %c = arith.constant 0.797884583 : f32
  %cube = math.powf %x, %three : f32
  %kc = arith.mulf %k, %cube : f32
  %sum = arith.addf %x, %kc : f32
  %z = arith.mulf %c, %sum : f32
  %t = math.tanh %z : f32
  %s = arith.addf %t, %one : f32
  %h = arith.mulf %x, %half : f32
  %y = arith.mulf %h, %s : f32
  return %y : f32
}

// A square is a product; 0.5 is a root but for -0 and -inf; what is not known is 2^(y log2(x)) in double precision.
// CHECK-LABEL: func.func @powers(
// CHECK:         arith.mulf %[[X:.*]], %[[X]] : f32
// CHECK:         math.sqrt
// CHECK:         arith.extf {{.*}} : f32 to f64
// CHECK-NOT:     math.powf
// CHECK:         return
func.func @powers(%x: f32, %y: f32) -> (f32, f32, f32) {
  %two = arith.constant 2.0 : f32
  %half = arith.constant 0.5 : f32
  %a = math.powf %x, %two : f32
  %b = math.powf %x, %half : f32
  %c = math.powf %x, %y : f32
  return %a, %b, %c : f32, f32, f32
}

// Another constant is another function: 1 + erf and the product stay.
// CHECK-LABEL: func.func @no_gelu(
// CHECK-SAME:    %[[X:.*]]: f32
// CHECK:         %[[S:.*]] = arith.addf %{{.*}}, %{{.*}} : f32
// CHECK-NEXT:    %[[P:.*]] = arith.mulf %[[X]], %[[S]]
// CHECK-NEXT:    %[[Y:.*]] = arith.mulf %[[P]]
// CHECK-NEXT:    return %[[Y]]
func.func @no_gelu(%x: f32) -> f32 {
  %one = arith.constant 1.0 : f32
  %half = arith.constant 0.5 : f32
  %root = arith.constant 0.7 : f32
  %z = arith.mulf %x, %root : f32
  %e = math.erf %z : f32
  %s = arith.addf %e, %one : f32
  %p = arith.mulf %x, %s : f32
  %y = arith.mulf %p, %half : f32
  return %y : f32
}

// float64 has longer polynomials.
// CHECK-LABEL: func.func @double(
// CHECK-COUNT-12: math.fma {{.*}} : f64
// CHECK-NOT:     math.tanh
// CHECK:         arith.divf {{.*}} : f64
func.func @double(%x: f64) -> f64 {
  %a = math.tanh %x : f64
  return %a : f64
}

// Other functions of float64 are left to libm, and sqrt is an instruction.
// CHECK-LABEL: func.func @rejects(
// CHECK:         math.sin %{{.*}} : f64
// CHECK:         math.sqrt %{{.*}} : f32
func.func @rejects(%x: f64, %y: f32) -> (f64, f32) {
  %a = math.sin %x : f64
  %b = math.sqrt %y : f32
  return %a, %b : f64, f32
}

// A double that has made many turns is left to libm, which is asked for 0 otherwise.
// CHECK-LABEL: func.func @sine_of_double(
// CHECK-SAME:    %[[X:.*]]: f64
// CHECK:         %[[USUAL:.*]] = arith.cmpf olt
// CHECK:         %[[RARE:.*]] = arith.select %[[USUAL]], %{{.*}}, %[[X]] : f64
// CHECK:         math.sin %[[RARE]] {tw.rare} : f64
// CHECK:         arith.select %[[USUAL]]
func.func @sine_of_double(%x: f64) -> f64 {
  %y = math.sin %x : f64
  return %y : f64
}
