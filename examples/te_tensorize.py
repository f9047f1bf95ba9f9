"""A C function in place of loops, in TVM's spellings: the imports are all that tells this from a script for TVM."""

from typing import Any

import numpy as np

import tilewright.tvm as tvm
from tilewright.tvm import te

CODE = """
extern "C" int gemv_update(float *cc, float *aa, float *bb, int m, int l, int stride) {
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < l; ++j) cc[i] += aa[j] * bb[i * stride + j];
  return 0;
}
extern "C" int gemv_reset(float *cc, int m) {
  for (int i = 0; i < m; ++i) cc[i] = 0;
  return 0;
}
"""


def gemv(m: int, n: int) -> te.TensorIntrin:
    """``c[i] = sum over k of a[k] * b[i, k]``: as a whole, what it begins with, and what adds to it."""
    a, b = te.placeholder((n,), name="a"), te.placeholder((m, n), name="b")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((m,), lambda i: te.sum(a[k] * b[i, k], axis=k), name="c")
    rows = tvm.tir.decl_buffer(b.shape, b.dtype, name="B", offset_factor=1, strides=[te.var("s1"), 1])

    def calls(ins: Any, outs: Any) -> Any:
        (aa, bb), (cc,) = ins, outs
        pointers = (cc.access_ptr("w"), aa.access_ptr("r"), bb.access_ptr("r"))
        update = tvm.tir.call_extern("int32", "gemv_update", *pointers, m, n, bb.strides[0])
        return update, tvm.tir.call_extern("int32", "gemv_reset", cc.access_ptr("w"), m), update

    return te.decl_tensor_intrin(c.op, calls, binds={b: rows})


N, M, L = 64, 64, 64
A, B = te.placeholder((N, L), name="A"), te.placeholder((M, L), name="B")
k = te.reduce_axis((0, L), name="k")
C = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[j, k], axis=k), name="C")

s = te.create_schedule(C.op)
(x, y), (z,) = C.op.axis, C.op.reduce_axis
yo, yi = s[C].split(y, factor=16)
zo, zi = s[C].split(z, factor=16)
s[C].reorder(x, yo, zo, yi, zi)
s[C].tensorize(yi, gemv(16, 16))
s[C].pragma(x, "import_c", CODE)
s[C].parallel(x)
print(tvm.lower(s, [A, B, C], simple_mode=True))

multiply = tvm.build(s, [A, B, C], target="llvm", name="gemv")
a, b = (tvm.nd.array(np.random.uniform(size=(64, 64)).astype("float32")) for _ in range(2))
c = tvm.nd.array(np.zeros((64, 64), dtype="float32"))
multiply(a, b, c)
tvm.testing.assert_allclose(c.numpy(), a.numpy() @ b.numpy().T, rtol=1e-4)
print("a C function computes a product")
