"""A matrix product by tensor expressions, from plain loops to registers full of multiply-adds."""

import time

import numpy as np

import tilewright as tw
from tilewright import te

SIZE, BLOCK = 512, 32
a, b = (np.random.default_rng(seed).random((SIZE, SIZE), np.float32) for seed in (1, 2))


def product(packed: bool = False) -> tuple[te.Schedule, te.Tensor, list[te.Tensor]]:
    """The computation: the schedule, C and its arguments; B may be laid out in blocks of columns first."""
    A, B = te.placeholder((SIZE, SIZE), name="A"), te.placeholder((SIZE, SIZE), name="B")
    k = te.reduce_axis((0, SIZE), "k")
    if not packed:
        C = te.compute((SIZE, SIZE), lambda m, n: te.sum(A[m, k] * B[k, n], axis=k), name="C")
        return te.create_schedule(C.op), C, [A, B, C]
    P = te.compute((SIZE // BLOCK, SIZE, BLOCK), lambda x, y, z: B[y, x * BLOCK + z], name="P")
    C = te.compute((SIZE, SIZE), lambda m, n: te.sum(A[m, k] * P[n // BLOCK, k, n % BLOCK], axis=k), name="C")
    s = te.create_schedule(C.op)
    s[P].vectorize(P.op.axis[2])
    return s, C, [A, B, C]


def show(title: str, s: te.Schedule, args: list[te.Tensor]) -> None:
    """Print the loops, and how fast the program is."""
    multiply = tw.build(s, args, num_threads=1)
    c = np.empty((SIZE, SIZE), np.float32)
    multiply(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4)
    begin = time.perf_counter()
    multiply(a, b, c)
    seconds = time.perf_counter() - begin
    print(f"{title}: {2 * SIZE**3 / seconds / 1e9:.1f} GFLOP/s")
    print(tw.lower(s, args, simple_mode=True), "\n")


s, C, args = product()
show("as it is written", s, args)

s, C, args = product()
mo, no, mi, ni = s[C].tile(C.op.axis[0], C.op.axis[1], BLOCK, BLOCK)
ko, ki = s[C].split(C.op.reduce_axis[0], factor=4)
s[C].reorder(mo, no, ko, mi, ki, ni)
s[C].vectorize(ni)
show("in blocks, with vectors along the columns", s, args)

s, C, args = product(packed=True)
CC = s.cache_write(C, "global")
mo, no, mi, ni = s[C].tile(C.op.axis[0], C.op.axis[1], BLOCK, BLOCK)
s[CC].compute_at(s[C], no)
mc, nc = s[CC].op.axis
ko, ki = s[CC].split(s[CC].op.reduce_axis[0], factor=4)
s[CC].reorder(ko, mc, ki, nc)
s[CC].unroll(ki)
s[CC].vectorize(nc)
s[C].vectorize(ni)
s[C].parallel(mo)
show("packed, with a block of the result in the cache", s, args)

s, C, args = product()
s[C].auto()
show("with our own schedule", s, args)

tw.testing.assert_same(s, args)
print(f"the last one by our own primitives:\n{tw.build(s, args).get_source('schedule')}")
