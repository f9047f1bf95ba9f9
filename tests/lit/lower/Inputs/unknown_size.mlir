func.func @unknown_size(%lo: index, %hi: index) {
  %c0 = arith.constant 0 : index
  %r = memref.alloc() : memref<1xindex>
  %n = memref.load %r[%c0] : memref<1xindex>
  %a = memref.alloc(%n) : memref<?xf32> loc("topk1")
  return
}
