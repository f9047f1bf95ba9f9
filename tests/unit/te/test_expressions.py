"""Expressions of ``te``: what they are, what numpy makes of them, and what is refused."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te
from tilewright.te import expr
from tilewright.te.evaluate import NUMPY
from tilewright.te.scalar_ops import EMIT

A = te.placeholder((4, 6), name="A")
V = te.placeholder((6,), name="V")
INTEGERS = te.placeholder((6,), "int32", name="I")


def test_each_operation_has_a_meaning_in_numpy_and_in_ir():
    names = set(expr.OPERATIONS) - {"cast", "select"}
    assert set(NUMPY) == names == set(EMIT)


def test_axes_have_the_names_of_parameters():
    made = te.compute((4, 6), lambda row, column: A[row, column] + 1, name="C")
    assert [axis.name for axis in made.op.axis] == ["row", "column"]
    assert [str(axis.dom) for axis in made.op.axis] == ["[0, 4)", "[0, 6)"]
    assert made.op.input_tensors == (A,) and made.shape == (4, 6) and made.dtype == "float32"
    made = te.compute((4, 6), lambda *i: A(*i), name="C", varargs_names=["a", "b"])
    assert [axis.name for axis in made.op.axis] == ["a", "b"]


def test_a_tensor_is_read_by_one_index_after_another():
    made = te.compute((4, 6), lambda i, j: A[i][j] * 2)
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    np.testing.assert_array_equal(te.evaluate([made], {A: x})[0], 2 * x)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (lambda x: te.exp(x), np.exp),
        (lambda x: te.sigmoid(x), lambda x: 1 / (1 + np.exp(-x))),
        (lambda x: te.round(x), lambda x: np.trunc(x + np.copysign(0.5, x))),
        (lambda x: te.nearbyint(x), np.rint),
        (lambda x: x // 2.0, lambda x: np.floor(x / 2)),
        (lambda x: x % 2.0, lambda x: np.mod(x, 2)),
        (lambda x: te.erf(x), lambda x: np.array([math.erf(v) for v in x])),
        (lambda x: te.if_then_else(te.any(x < -1, x > 1), 0, x), lambda x: np.where(abs(x) > 1, 0, x)),
        (lambda x: x.astype("int32").astype("float32"), np.trunc),
        (lambda x: te.power(te.abs(x), 0.5), lambda x: abs(x) ** 0.5),
        (lambda x: te.min(te.max(x, -1), 1), lambda x: np.clip(x, -1, 1)),
    ],
)
def test_arithmetic_of_floats(made: Callable[[Any], te.Expr], expected: Callable[[np.ndarray], np.ndarray]):
    x = np.array([-2.5, -1.2, -0.5, 0.5, 1.5, 2.6], np.float32)
    op = te.compute((6,), lambda i: made(V[i]), name="C")
    np.testing.assert_allclose(te.evaluate([op], {V: x})[0], expected(x).astype(np.float32), rtol=1e-6)
    found = tw.build(te.create_schedule(op), [V, op]).run([x])[0]
    np.testing.assert_allclose(found, expected(x).astype(np.float32), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (lambda x: x // 3, lambda x: x // 3),
        (lambda x: x % -3, lambda x: x % -3),
        (lambda x: 7 // x, lambda x: np.where(x == 0, 0, 7 // np.where(x == 0, 1, x))),
        (lambda x: 7 % x, lambda x: np.where(x == 0, 0, 7 % np.where(x == 0, 1, x))),
        (lambda x: (x << 2) ^ (x & 5) | ~x, lambda x: (x << 2) ^ (x & 5) | ~x),
        (lambda x: (x > 0).astype("int32") * x, lambda x: np.maximum(x, 0)),
    ],
)
def test_arithmetic_of_integers(made: Callable[[Any], te.Expr], expected: Callable[[np.ndarray], np.ndarray]):
    x = np.array([-7, -3, 0, 1, 5, 9], np.int32)
    op = te.compute((6,), lambda i: made(INTEGERS[i]), name="C")
    np.testing.assert_array_equal(te.evaluate([op], {INTEGERS: x})[0], expected(x))
    np.testing.assert_array_equal(tw.build(te.create_schedule(op), [INTEGERS, op]).run([x])[0], expected(x))


def test_a_reducer_of_several_values():
    k = te.reduce_axis((0, 6), "k")
    largest = te.comm_reducer(
        lambda a, b: (te.if_then_else(a[1] >= b[1], a[0], b[0]), te.max(a[1], b[1])),
        lambda index, value: (te.const(-1, index), te.const(-1e9, value)),
        "argmax",
    )
    index, value = te.compute((4,), lambda i: largest((k, A[i, k]), axis=k), name="C")
    x = np.random.default_rng(0).permutation(24).astype(np.float32).reshape(4, 6)
    schedule = te.create_schedule(index.op)
    for made in (te.evaluate([index, value], {A: x}), tw.build(schedule, [A, index, value]).run([x])):
        np.testing.assert_array_equal(made[0], x.argmax(1))
        np.testing.assert_array_equal(made[1], x.max(1))


def test_a_reduction_with_a_condition():
    k = te.reduce_axis((0, 6), "k")
    made = te.compute((4,), lambda i: te.sum(A[i, k], axis=k, where=k > 2), name="C")
    x = np.random.default_rng(0).random((4, 6), np.float32)
    [found] = tw.build(te.create_schedule(made.op), [A, made]).run([x])
    np.testing.assert_allclose(found, x[:, 3:].sum(1), rtol=1e-6)


def test_a_read_outside_that_a_condition_leaves_out():
    made = te.compute((8,), lambda i: te.if_then_else(te.all(i >= 1, i < 7), V[i - 1], -1), name="C")
    x = np.arange(6, dtype=np.float32)
    [found] = tw.build(te.create_schedule(made.op), [V, made]).run([x])
    np.testing.assert_array_equal(found, [-1, *x, -1])


def test_a_read_that_data_leads_outside_ends_the_run():
    made = te.compute((6,), lambda i: V[INTEGERS[i]], name="C")
    library = tw.build(te.create_schedule(made.op), [INTEGERS, V, made])
    x, at = np.arange(6, dtype=np.float32), np.array([5, 0, 3, 3, 1, 2], np.int32)
    np.testing.assert_array_equal(library.run([at, x])[0], x[at])
    for wrong in (6, -1):
        at[2] = wrong
        with pytest.raises(tw.InputError, match=rf"'C' reads axis 0 of 'V' outside of its 6 elements: {wrong}"):
            library.run([at, x])


def test_sizes_that_only_the_run_knows():
    n = te.var("n")
    x, y = te.placeholder((n,), name="x"), te.placeholder((n,), name="y")
    made = te.compute((n,), lambda i: x[i] + y[n - 1 - i], name="C")
    library = tw.build(te.create_schedule(made.op), [x, y, made])
    for size in (0, 1, 5, 1000):
        a, b = (np.random.default_rng(seed).random(size, np.float32) for seed in (1, 2))
        np.testing.assert_array_equal(library.run([a, b])[0], a + b[::-1])
        into = np.empty(size, np.float32)
        library(a, b, into)
        np.testing.assert_array_equal(into, a + b[::-1])


K = te.reduce_axis((0, 6), "k")
WRONG: Any = 3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: A[0, 0] + te.placeholder((1,), "float64")[0], "cannot add float32 and float64: cast one of them"),
        (lambda: INTEGERS[0] / 2, "cannot divide int32: it takes floats"),
        (lambda: V[0] & 1, "1.0 is no|it takes integers"),
        (lambda: INTEGERS[0] + 1.5, "1.5 is no int32"),
        (lambda: INTEGERS[0] + (1 << 40), "is no int32, which goes from"),
        (lambda: te.placeholder((2,), "float99"), "there is no dtype 'float99'"),
        (lambda: te.placeholder((-2,)), "must be from 0 to"),
        (lambda: te.placeholder((2,), name="a b"), "is no name"),
        (lambda: A(0), "has 2 axes, and is read with 1 indices"),
        (lambda: A[0, 0, 0], "has 2 axes, and is read with 3 indices"),
        (lambda: V[V[0]], "indices are integers"),
        (lambda: bool(V[0] > 1), "use te.if_then_else"),
        (lambda: list(V), "is a tensor: read its elements"),
        (lambda: te.sqrt("x"), "not of a str"),
        (lambda: te.if_then_else(V[0], 1, 2), "a condition is a bool"),
        (lambda: te.if_then_else(V[0] > 0, V[0], INTEGERS[0]), "two sides of a choice are float32 and int32"),
        (lambda: te.compute((4,), lambda i: A[i + 1, 0]), "'compute' reads 'A' at 1 to 4 of axis 0"),
        (lambda: te.compute((4,), lambda i, j: A[i, j]), "has 1 axes, and its function takes 2"),
        (lambda: te.compute((4,), WRONG), "is computed by a function"),
        (lambda: te.compute((4,), lambda i: te.sum(A[i, K], axis=K) + 1), "give the reduction a compute of its own"),
        (lambda: te.compute((4,), lambda i: A[i, K]), "no reduction of it goes along"),
        (lambda: te.sum(V[K], axis=te.compute((2,), lambda i: V[i]).op.axis), "goes along te.reduce_axis"),
        (lambda: te.sum(V[K], axis=[K, K]), "goes along axis 'k' twice"),
        (lambda: te.reduce_axis((3, 1)), "ends at 1, before it begins at 3"),
        (lambda: te.reduce_axis(5), "is \\(begin, end\\)"),
        (lambda: te.compute((6,), lambda i: V[i // 0]), "divide 'i' by 0"),
        (lambda: te.compute((6,), lambda i: functools.reduce(lambda a, _: a + V[i], range(5000), V[i])), "5002 operations"),
        (lambda: te.create_schedule(A), "is a placeholder"),
        (lambda: te.create_schedule(3), "is made of ops or tensors"),
    ],
)  # fmt: skip
def test_what_is_no_expression_is_refused(make: Callable[[], object], message: str):
    with pytest.raises(tw.ExpressionError, match=message):
        make()


def _twice() -> te.Tensor:
    first = te.compute((4,), lambda i: te.sum(A[i, K], axis=K), name="P")
    return te.compute((6,), lambda j: te.sum(V[K] + first[0], axis=K), name="Q")


C = te.compute((4,), lambda i: A[i, 0], name="C")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: te.create_schedule(_twice()), "'P' and 'Q' reduce along one axis, 'k'"),
        (lambda: tw.build(te.create_schedule(C), [C, A]), "its inputs, then its outputs"),
        (lambda: tw.build(te.create_schedule(C), [A, A, C]), "'A' is an argument twice"),
        (lambda: tw.build(te.create_schedule(C), [A, C, C]), "'C' is an argument twice"),
        (lambda: tw.build(te.create_schedule(C), [C]), "'A' is read and no argument"),
        (lambda: tw.build(te.create_schedule(C), [A]), "'C' is an output of the schedule"),
        (lambda: tw.build(te.create_schedule(C), WRONG), "a list of tensors, not a int"),
        (lambda: tw.lower(te.create_schedule(C), [A, WRONG]), "are tensors, not a int"),
    ],
)
def test_programs_of_other_arguments_are_refused(make: Callable[[], object], message: str):
    with pytest.raises(tw.ExpressionError, match=message):
        make()


def test_wrong_arrays_are_refused():
    library = tw.build(te.create_schedule(C), [A, C])
    x, into = np.zeros((4, 6), np.float32), np.zeros(4, np.float32)
    for given, message in (
        ([x.astype(np.float64), into], "'A' must be a contiguous float32"),
        ([x[:3], into], "'A' must be a contiguous float32 tensor of shape"),
        ([x, x], "'C' must be a contiguous"),
        ([x, into, into], "the program has 1 inputs, 3 were given"),
    ):
        with pytest.raises(tw.InputError, match=message):
            library(*given)


def test_an_argument_that_nothing_reads_may_tell_a_size():
    n = te.var("n")
    a, b = te.placeholder((4,), name="A"), te.placeholder((n, 2), "int8", name="B")
    c = te.compute((n,), lambda i: a[0] + 1, name="C")
    library = tw.build(te.create_schedule(c.op), [a, b, c])
    assert library.run([np.ones(4, np.float32), np.zeros((3, 2), np.int8)])[0].tolist() == [2, 2, 2]


def test_what_is_printed_of_expressions():
    a, k = te.placeholder((4, 3), name="A"), te.reduce_axis((0, 3), "k")
    c = te.compute((4,), lambda i: te.sum(a[i, k] * 2, axis=k), name="C")
    assert repr(c.op.body) == "(sum(multiply(A[i, k], 2.0), axis=[k]),)"
    assert f"{c!r} {c.op!r}" == "<te.Tensor C: float32[4]> ComputeOp 'C'"
