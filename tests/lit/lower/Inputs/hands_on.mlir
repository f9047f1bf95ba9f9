func.func @hands_on(%lo: index, %hi: index) {
  %one = arith.constant 1 : index
  %a = memref.alloc() : memref<3xf32>
  %r = scf.for %i = %lo to %hi step %one iter_args(%b = %a) -> (memref<3xf32>) {
    %c = memref.alloc() : memref<3xf32>
    scf.yield %c : memref<3xf32>
  } loc("loop1")
  return
}
