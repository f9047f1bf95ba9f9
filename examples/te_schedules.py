"""A library of schedules: functions that call primitives are primitives themselves, and go into the trace as such."""

import numpy as np

import tilewright as tw
from tilewright import te


def block(s: te.Schedule, tensor: te.Tensor, rows: int, columns: int) -> tuple[te.IterVar, te.IterVar]:
    """Compute the last two axes in blocks, with vectors along the columns of one; returns the loops over blocks."""
    *_, x, y = s[tensor].op.axis
    xo, yo, _, yi = s[tensor].tile(x, y, rows, columns)
    s[tensor].vectorize(yi)
    return xo, yo


def hold_block(s: te.Schedule, tensor: te.Tensor, rows: int, columns: int, steps: int) -> te.Tensor:
    """Sum up a block of a reduction in memory of its own, so many steps at once."""
    held = s.cache_write(tensor, "local")
    _, yo = block(s, tensor, rows, columns)
    s[held].compute_at(s[tensor], yo)
    *_, x, y = s[held].op.axis
    ko, ki = s[held].split(s[held].op.reduce_axis[0], factor=steps)
    s[held].reorder(ko, x, ki, y)
    s[held].unroll(ki)
    s[held].vectorize(y)
    return held


def share(s: te.Schedule, tensor: te.Tensor) -> None:
    """Let threads share the outermost loop."""
    s[tensor].parallel(s[tensor].leaf_iter_vars[0])


SIZE = 256
A, B = te.placeholder((SIZE, SIZE), name="A"), te.placeholder((SIZE, SIZE), name="B")
k = te.reduce_axis((0, SIZE), "k")
P = te.compute((SIZE, SIZE), lambda m, n: te.sum(A[m, k] * B[k, n], axis=k), name="P")
C = te.compute((SIZE, SIZE), lambda m, n: te.max(P[m, n], 0.0), name="C")

s = te.create_schedule(C.op)
hold_block(s, P, 16, 32, 4)
share(s, P)
block(s, C, 8, 32)
share(s, C)
print(s.trace)

again = te.create_schedule(C.op).apply(s.trace.to_json())
a, b = (np.random.default_rng(seed).standard_normal((SIZE, SIZE), np.float32) for seed in (1, 2))
np.testing.assert_allclose(tw.build(again, [A, B, C])(a, b)[0], np.maximum(a @ b, 0), rtol=1e-3, atol=1e-3)
