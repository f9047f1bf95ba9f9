"""Hybrid functions: their loops as tensor expressions, beside themselves on numpy's arrays."""

# pyright: reportUndefinedVariable=false
# ruff: noqa: F821  (the words of hybrid functions are not imported)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright.tvm as tvm
from tilewright.core.errors import ExpressionError
from tilewright.tvm import te
from tilewright.tvm.te.hybrid import script

_RANDOM = np.random.default_rng(2)


def _floats(*shape: int) -> np.ndarray:
    return _RANDOM.standard_normal(shape).astype(np.float32)


@script
def outer_product(n, m, a, b):
    """A documented function."""
    c = output_tensor((n, m), a.dtype)
    for i in range(n):
        for j in range(m):
            assert i < n and j < m, "index out of range!"
            c[i, j] = a[i] * b[j]
    return c


@script
def fanout(a):
    three = 3.0
    b = output_tensor((a.shape[0] - 3,), a.dtype)
    for i in range(a.shape[0] - 3):
        sigma = 0.0
        for j in range(3):
            sigma += a[i + j]
        sigma = sigma / three
        b[i] = sigma
    return b


@script
def matmul(a, b):
    c = output_tensor((a.shape[0], b.shape[1]), "float32")
    for i in parallel(a.shape[0]):
        for j in vectorize(b.shape[1]):
            c[i, j] = 0.0
            for k in range(a.shape[1]):
                c[i, j] += a[i, k] * b[k, j]
    return c


@script
def matmul_in_other_order(a, b):
    c = output_tensor((a.shape[0], b.shape[1]), "float32")
    for i in range(a.shape[0]):
        for k in range(a.shape[1]):
            for j in range(b.shape[1]):
                c[i, j] = c[i, j] + a[i, k] * b[k, j]
    return c


@script
def choose(a):
    b = output_tensor((10,), "float32")
    for i in range(10):
        if 0 <= i < 5 and not (i == 2 or i > 8):
            b[i] = a[i]
        elif i % 2 == 0:
            b[i] = a[i] + 1
        else:
            b[i] = -1.0 if a[i] > 0 else 1.0
    return b


@script
def blur(a):
    b = output_tensor((30, 30), "float32")
    for i in range(2, 32):
        for j in range(2, 32):
            s = 0.0
            for di in range(3):
                for dj in range(3):
                    s += a[i - di, j - dj]
            b[i - 2, j - 2] = s / 9.0
    return b


@script
def triangle(a, b):
    c = output_tensor((10, 10), dtype="float32")
    for i in range(10):
        for j in range(i, 10):
            c[i, j] = a[i] * b[j]
    return c


@script
def lower_sums(a):
    c = output_tensor((10,), "float32")
    for i in range(10):
        for j in range(i + 1):
            c[i] += a[j]
    return c


@script
def blur_by_rows(a):
    b = output_tensor((30, 30), "float32")
    for i in range(30):
        ha = allocate((3, 30), "float32")
        for j in range(3):
            for k in range(30):
                ha[j, k] = a[i + j, k] + a[i + j, k + 1] + a[i + j, k + 2]
        for j in range(30):
            b[i, j] = (ha[0, j] + ha[1, j] + ha[2, j]) / 9.0
    return b


@script
def softmax(a):
    b = output_tensor(a.shape, a.dtype)
    for i in range(a.shape[0]):
        top = a[i, 0]
        for j in range(a.shape[1]):
            top = max(top, a[i, j])
        total = 0.0
        for j in range(a.shape[1]):
            b[i, j] = exp(a[i, j] - top)
            total += exp(a[i, j] - top)
        for j in range(a.shape[1]):
            b[i, j] = b[i, j] / total
    return b


@script
def functions(a):
    b = output_tensor((8,), "float32")
    b[0] = sqrt(a[0])
    b[1] = log(a[1])
    b[2] = exp(a[2])
    b[3] = sigmoid(a[3])
    b[4] = power(a[4], a[5])
    b[5] = tanh(a[5])
    b[6] = min(a[4], a[5])
    b[7] = max(a[5], a[6])
    return b


@script
def three(a, b):
    d = output_tensor((16,), "int32")
    e = output_tensor((16,), "int32")
    for i in unroll(16):
        d[i] = a[i] + int32(b[i])
    for j in range(16):
        e[j] = d[j] * 2
    return d, e


def by_list(offsets: list[int]) -> Callable[..., Any]:
    @script
    def shifted(a):
        b = output_tensor((8,), "float32")
        for i in range(8):
            b[i] = 0.0
        for k in const_range(len(offsets)):
            for i in range(8):
                b[i] += a[i + offsets[k]]
        return b

    return shifted


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "outer_product": (outer_product, (5, 7, _floats(5), _floats(7))),
    "fanout": (fanout, (_floats(10),)),
    "matmul": (matmul, (_floats(6, 5), _floats(5, 7))),
    "matmul in another order": (matmul_in_other_order, (_floats(6, 5), _floats(5, 7))),
    "choose": (choose, (_floats(10),)),
    "blur": (blur, (_floats(32, 32),)),
    "triangle": (triangle, (_floats(10), _floats(10))),
    "lower_sums": (lower_sums, (_floats(10),)),
    "blur_by_rows": (blur_by_rows, (_floats(32, 32),)),
    "softmax": (softmax, (_floats(4, 9),)),
    "functions": (functions, (np.arange(2, 10).astype(np.float32),)),
    "three": (three, (np.arange(16, dtype=np.int32), np.arange(16, dtype=np.float32))),
    "by_list": (by_list([0, 2, 1]), (_floats(10),)),
}


@pytest.mark.parametrize("name", CASES)
def test_what_a_function_computes(name: str):
    function, args = CASES[name]
    wanted = function(*args)
    wanted = [*wanted] if isinstance(wanted, tuple) else [wanted]
    tensors = [
        te.placeholder(a.shape, str(a.dtype), f"x{n}") if isinstance(a, np.ndarray) else a for n, a in enumerate(args)
    ]
    made = function(*tensors)
    outputs = [*made] if isinstance(made, tuple) else [made]
    s = te.create_schedule(outputs[0].op)
    given = [each for each in tensors if isinstance(each, te.Tensor)]
    build = tvm.build(s, [*given, *outputs], "llvm")
    arrays = [each for each in args if isinstance(each, np.ndarray)]
    for found, own in zip(build(*arrays), wanted, strict=True):
        np.testing.assert_allclose(found, own, rtol=1e-5, atol=1e-6)


def test_sizes_that_the_run_gives():
    n, m = te.size_var("n"), te.size_var("m")
    a, b = te.placeholder((n,), name="a"), te.placeholder((m,), name="b")
    c = outer_product(n, m, a, b)
    s = te.create_schedule(c.op)
    s[c].parallel(c.op.axis[0])
    build = tvm.build(s, [a, b, c], "llvm")
    x, y = _floats(4), _floats(6)
    np.testing.assert_allclose(build(x, y)[0], np.outer(x, y), rtol=1e-6)


@script
def prefix(a):
    b = output_tensor((10,), "float32")
    b[0] = a[0]
    for i in range(1, 10):
        b[i] = b[i - 1] + a[i]
    return b


@script
def running(a):
    b = output_tensor((10,), "float32")
    s = 0.0
    for i in range(10):
        s += a[i]
        b[i] = s
    return b


@script
def last(a):
    b = output_tensor((1,), "float32")
    for i in range(10):
        b[0] = a[i]
    return b


@script
def forward(a):
    b = output_tensor((10,), "float32")
    for i in range(9):
        b[i + 1] = a[i]
        b[i] = a[i] * 2.0
    return b


@script
def doubling(a):
    b = output_tensor((10,), "float32")
    for i in range(10):
        for k in range(3):
            b[i] += b[i] * a[k]
    return b


@script
def partial_sums(a):
    b = output_tensor((10,), "float32")
    c = output_tensor((10, 3), "float32")
    for i in range(10):
        for k in range(3):
            b[i] += a[k]
            c[i, k] = b[i]
    return b, c


@script
def outside(a):
    b = output_tensor((10,), "float32")
    for i in range(10):
        b[i + 1] = a[i]
    return b


@script
def unknown(a):
    b = output_tensor((10,), "float32")
    for i in range(10):
        b[i] = popcount(a[i])
    return b


@script
def endless(a):
    b = output_tensor((10,), "float32")
    while True:
        b[0] = a[0]
    return b


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (prefix, r"'prefix', line 6: array 'b' cannot be computed: a step of 'i' reads or writes .* te\.scan"),
        (running, "line 7: 's' carries a value from step to step"),
        (last, "each step of 'i' writes the same element"),
        (forward, "a step of 'i' reads or writes elements of another step"),
        (doubling, "steps of 'k' read elements on which they sum"),
        (partial_sums, "steps of 'k' read elements on which they sum"),
        (outside, "it has 10 elements along an axis, and 1 to 10 are written"),
        (unknown, "'popcount' is no function of hybrid functions"),
        (endless, "'while True:' is no statement"),
    ],
)
def test_what_is_no_computation_is_refused_with_its_line(function: Callable[..., Any], message: str):
    with pytest.raises(ExpressionError, match=message):
        function(te.placeholder((10,), name="a"))
