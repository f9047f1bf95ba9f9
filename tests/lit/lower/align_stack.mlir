// RUN: %opt %s --passes=align-stack --target "x86 -mcpu=skylake-avx512" | filecheck %s

// Sums over blocks wait while a block's are made: 24 vectors of 16, twice.
// CHECK-LABEL: func.func @nested(
// CHECK-SAME:  passthrough = ["stackrealign"]
func.func @nested(%v: vector<6x64xf32>) -> vector<6x64xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.constant 32 : index
  %r = scf.for %b = %c0 to %n step %c1 iter_args(%sum = %v) -> (vector<6x64xf32>) {
    %own = scf.for %k = %c0 to %n step %c1 iter_args(%block = %v) -> (vector<6x64xf32>) {
      %s = vector.fma %v, %v, %block : vector<6x64xf32>
      scf.yield %s : vector<6x64xf32>
    }
    %s = vector.fma %own, %v, %sum : vector<6x64xf32>
    scf.yield %s : vector<6x64xf32>
  }
  return %r : vector<6x64xf32>
}

// Loops one after another use the same registers.
// CHECK-LABEL: func.func @rejects(
// CHECK-NOT:   passthrough
// CHECK:       return
func.func @rejects(%v: vector<6x64xf32>) -> vector<6x64xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.constant 32 : index
  %a = scf.for %k = %c0 to %n step %c1 iter_args(%sum = %v) -> (vector<6x64xf32>) {
    %s = vector.fma %v, %v, %sum : vector<6x64xf32>
    scf.yield %s : vector<6x64xf32>
  }
  %b = scf.for %k = %c0 to %n step %c1 iter_args(%sum = %a) -> (vector<6x64xf32>) {
    %s = vector.fma %v, %v, %sum : vector<6x64xf32>
    scf.yield %s : vector<6x64xf32>
  }
  return %b : vector<6x64xf32>
}
