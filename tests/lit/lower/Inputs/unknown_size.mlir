func.func @unknown_size(%lo: index, %hi: index) {
  %a = memref.alloc(%hi) : memref<?xf32> loc("topk1")
  return
}
