// RUN: %opt %s --passes=expand-powers | filecheck %s

// CHECK-LABEL: func.func @main
// CHECK:       %[[SQUARE:.*]] = arith.mulf %arg0, %arg0
// CHECK:       %[[PRODUCT:.*]] = arith.mulf %arg0, %arg0
// CHECK:       %[[INVERSE:.*]] = arith.divf %{{.*}}, %[[PRODUCT]]
// CHECK:       %[[FIFTH:.*]] = math.powf %arg0, %cst
// CHECK:       return %[[SQUARE]], %[[INVERSE]], %[[FIFTH]]
func.func @main(%x: f32) -> (f32, f32, f32) {
  %two = arith.constant 2 : i64
  %minus = arith.constant -2 : i64
  %five = arith.constant 5 : i64
  %a = math.fpowi %x, %two : f32, i64
  %b = math.fpowi %x, %minus : f32, i64
  %c = math.fpowi %x, %five : f32, i64
  return %a, %b, %c : f32, f32, f32
}

// Powers of floats are left as they are.
// CHECK-LABEL: func.func @rejects_floats
// CHECK:       math.powf %arg0, %arg1
func.func @rejects_floats(%x: f32, %y: f32) -> f32 {
  %r = math.powf %x, %y : f32
  return %r : f32
}
