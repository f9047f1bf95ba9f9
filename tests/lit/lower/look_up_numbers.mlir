// RUN: %opt %s --passes=look-up-numbers --target "x86 -mcpu=skylake-avx512" | filecheck %s
// RUN: %opt %s --passes=look-up-numbers --target "x86 -mcpu=haswell" | filecheck %s --check-prefix=NONE

// NONE-NOT: llvm.call_intrinsic

// The lower numbers of bytes lie at the end of an element, and their own bits are places.
// CHECK-LABEL: func.func @lower(
// CHECK-SAME:    %[[X:[^:]*]]: vector<16xi32>
// CHECK:         %[[T:.*]] = arith.constant dense<[0.000000e+00, 1.000000e+00, {{.*}}7.000000e+00, -8.000000e+00, {{.*}}-1.000000e+00]>
// CHECK:         %[[F:.*]] = llvm.call_intrinsic "llvm.x86.avx512.permvar.sf.512"(%[[T]], %[[X]])
// CHECK:         return %[[F]]
func.func @lower(%x: vector<16xi32>) -> vector<16xf32> {
  %by = arith.constant dense<28> : vector<16xi32>
  %up = arith.shli %x, %by : vector<16xi32>
  %number = arith.shrsi %up, %by : vector<16xi32>
  %made = arith.sitofp %number : vector<16xi32> to vector<16xf32>
  return %made : vector<16xf32>
}

// The upper ones need a shift. Two registers.
// CHECK-LABEL: func.func @upper(
// CHECK:         %[[W:.*]] = arith.extsi
// CHECK:         %[[P:.*]] = arith.shrui %[[W]], %{{.*}} : vector<32xi32>
// CHECK:         vector.extract_strided_slice %[[P]] {offsets = [0], sizes = [16]
// CHECK:         llvm.call_intrinsic
// CHECK:         vector.extract_strided_slice %[[P]] {offsets = [16], sizes = [16]
// CHECK:         llvm.call_intrinsic
// CHECK-NOT:     arith.sitofp
// CHECK:         return
func.func @upper(%x: vector<32xi8>) -> vector<32xf32> {
  %by = arith.constant dense<4> : vector<32xi32>
  %wide = arith.extsi %x : vector<32xi8> to vector<32xi32>
  %number = arith.shrsi %wide, %by : vector<32xi32>
  %made = arith.sitofp %number : vector<32xi32> to vector<32xf32>
  return %made : vector<32xf32>
}

// Two bits in the middle: the table repeats, since the two bits above belong to the place, too.
// CHECK-LABEL: func.func @two_bits(
// CHECK:         arith.shrui
// CHECK:         dense<[0.000000e+00, 1.000000e+00, -2.000000e+00, -1.000000e+00, 0.000000e+00, 1.000000e+00,
// CHECK:         llvm.call_intrinsic
func.func @two_bits(%x: vector<16xi32>) -> vector<16xf32> {
  %up = arith.constant dense<28> : vector<16xi32>
  %down = arith.constant dense<30> : vector<16xi32>
  %moved = arith.shli %x, %up : vector<16xi32>
  %number = arith.shrsi %moved, %down : vector<16xi32>
  %made = arith.sitofp %number : vector<16xi32> to vector<16xf32>
  return %made : vector<16xf32>
}

// Five bits, numbers whose sign is not the last bit, half of a register, and float64: nothing is looked up.
// CHECK-LABEL: func.func @others(
// CHECK-NOT:     llvm.call_intrinsic
func.func @others(%x: vector<16xi32>, %b: vector<16xi16>, %s: vector<8xi32>)
    -> (vector<16xf32>, vector<16xf32>, vector<8xf32>, vector<16xf64>) {
  %c27 = arith.constant dense<27> : vector<16xi32>
  %c4 = arith.constant dense<4> : vector<16xi32>
  %c28 = arith.constant dense<28> : vector<8xi32>
  %m0 = arith.shli %x, %c27 : vector<16xi32>
  %n0 = arith.shrsi %m0, %c27 : vector<16xi32>
  %f0 = arith.sitofp %n0 : vector<16xi32> to vector<16xf32>
  %w1 = arith.extsi %b : vector<16xi16> to vector<16xi32>
  %n1 = arith.shrsi %w1, %c4 : vector<16xi32>
  %f1 = arith.sitofp %n1 : vector<16xi32> to vector<16xf32>
  %m2 = arith.shli %s, %c28 : vector<8xi32>
  %n2 = arith.shrsi %m2, %c28 : vector<8xi32>
  %f2 = arith.sitofp %n2 : vector<8xi32> to vector<8xf32>
  %f3 = arith.sitofp %n0 : vector<16xi32> to vector<16xf64>
  return %f0, %f1, %f2, %f3 : vector<16xf32>, vector<16xf32>, vector<8xf32>, vector<16xf64>
}
