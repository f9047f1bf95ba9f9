// RUN: %opt %s --passes=wrap-narrow-integers | filecheck %s

// CHECK-LABEL: func.func @main
// CHECK:       %[[WIDE:.*]] = arith.fptosi %arg0 : f32 to i32
// CHECK:       %[[BYTE:.*]] = arith.trunci %[[WIDE]] : i32 to i8
// CHECK:       %[[OTHER:.*]] = arith.fptosi %arg0 : f32 to i32
// CHECK:       %[[SHORT:.*]] = arith.trunci %[[OTHER]] : i32 to i16
// CHECK:       return %[[BYTE]], %[[SHORT]]
func.func @main(%x: f32) -> (i8, i16) {
  %a = arith.fptosi %x : f32 to i8
  %b = arith.fptoui %x : f32 to i16
  return %a, %b : i8, i16
}

// CHECK-LABEL: func.func @rejects_what_is_wide
// CHECK:       arith.fptosi %arg0 : f32 to i64
// CHECK-NEXT:  arith.fptoui %arg0 : f32 to i32
// CHECK-NEXT:  return
func.func @rejects_what_is_wide(%x: f32) -> (i64, i32) {
  %a = arith.fptosi %x : f32 to i64
  %b = arith.fptoui %x : f32 to i32
  return %a, %b : i64, i32
}
