// No address space of LLVM is called "far".
func.func @far(%x: memref<4xf32, "far">) -> f32 {
  %c0 = arith.constant 0 : index
  %v = memref.load %x[%c0] : memref<4xf32, "far"> loc("gather1")
  return %v : f32
}
