// RUN: %opt %s --passes=call-intrinsics | filecheck %s

// Pointers are those of the first elements that the op reads; strides are numbers of elements.
// CHECK:       llvm.func @gemv()
// CHECK-LABEL: func.func @tile(
// CHECK-SAME:    %[[A:.*]]: memref<66xf32>, %[[B:.*]]: memref<64x64xf32>, %[[C:.*]]: memref<64xf32>, %[[I:.*]]: index
// CHECK-DAG:     memref.extract_aligned_pointer_as_index %{{.*}} : memref<16xf32
// CHECK-DAG:     memref.extract_aligned_pointer_as_index %[[A]] : memref<66xf32>
// CHECK-DAG:     llvm.inttoptr %{{.*}} : i64 to !llvm.ptr
// CHECK:         llvm.call %{{.*}}(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) : !llvm.ptr, (!llvm.ptr, !llvm.ptr, !llvm.ptr, i32, f64) -> ()
// CHECK-NOT:     linalg.generic
func.func @tile(%a: memref<66xf32>, %b: memref<64x64xf32>, %c: memref<64xf32>, %i: index) {
  %rows = memref.subview %b[%i, 0] [16, 64] [1, 1] : memref<64x64xf32> to memref<16x64xf32, strided<[64, 1], offset: ?>>
  %out = memref.subview %c[%i] [16] [1] : memref<64xf32> to memref<16xf32, strided<[1], offset: ?>>
  linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1 + 2)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>],
      iterator_types = ["parallel", "reduction"]}
      ins(%a, %rows : memref<66xf32>, memref<16x64xf32, strided<[64, 1], offset: ?>>)
      outs(%out : memref<16xf32, strided<[1], offset: ?>>)
      attrs = {tw.intrinsic = "[[\"gemv\", [[\"pointer\", 2, 0], [\"pointer\", 0, 0], [\"pointer\", 1, 3], [\"stride\", 1, 0], [\"number\", \"float64\", 0.5]]]]"} {
  ^bb0(%x: f32, %y: f32, %sum: f32):
    %p = arith.mulf %x, %y : f32
    %s = arith.addf %sum, %p : f32
    linalg.yield %s : f32
  }
  return
}

// An op without a note stays.
// CHECK-LABEL: func.func @other(
// CHECK:         linalg.fill
func.func @other(%c: memref<64xf32>, %x: f32) {
  linalg.fill ins(%x : f32) outs(%c : memref<64xf32>)
  return
}
