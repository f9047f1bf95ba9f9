"""Reductions, scans and the softmax family against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_case import check_node, node_model
from reference import run_model
from samples import campaign

from tilewright.core.errors import ModelError
from tilewright.driver import api
from tilewright.frontends import import_model

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((2, 3, 4)).astype(np.float32)
POSITIVE = np.abs(X) + np.float32(0.1)
REDUCTIONS = ["Sum", "Mean", "Prod", "Max", "Min", "L1", "L2", "SumSquare", "LogSum", "LogSumExp"]


@pytest.mark.parametrize("name", REDUCTIONS)
def test_axes_as_input_as_attribute_and_left_out(name):
    check_node(f"Reduce{name}", POSITIVE, np.array([0, -1]), known=[1])
    check_node(f"Reduce{name}", POSITIVE, opset=12, axes=[1], keepdims=0)
    check_node(f"Reduce{name}", POSITIVE)
    check_node(f"Reduce{name}", POSITIVE, keepdims=0)


@pytest.mark.parametrize("name", ["Sum", "Mean", "Prod", "Max", "Min", "L1", "SumSquare"])
def test_integers(name):
    check_node(f"Reduce{name}", (X * 10).astype(np.int32), opset=12, axes=[1])


@pytest.mark.parametrize("name", ["LogSum", "LogSumExp", "L2"])
def test_logarithms_and_roots_of_integers_are_cut_off(name):
    numbers = np.array([[3, 5, 90], [1, 0, 0]], np.int32)
    check_node(f"Reduce{name}", numbers, opset=13, axes=[1])
    check_node(f"Reduce{name}", numbers.astype(np.int64), opset=13, axes=[0, 1])


def test_unsigned_magnitudes():
    numbers = np.array([[2**31 + 5, 2], [0, 1]], np.uint32)
    for name in ("ReduceL1", "ReduceL2"):
        model, inputs = node_model(name, [numbers], opset=13, axes=[0], keepdims=0)
        want = [2**31 + 5, 3] if name == "ReduceL1" else [5, 2]  # of the sum of squares modulo 2 ** 32
        np.testing.assert_array_equal(run_model(import_model(model), inputs)[0], want)


def test_unsigned_maximum():
    check_node("ReduceMax", np.array([[1, 250], [3, 4]], np.uint8))


def test_half_precision_accumulates_in_single():
    ones = np.ones((1, 5000), np.float16)
    model, inputs = node_model("ReduceSum", [ones, np.array([1])], known=[1])
    assert run_model(import_model(model), inputs)[0].item() == 5000  # in half precision it would stop at 2048


def test_log_sum_exp_does_not_overflow():
    check_node("ReduceLogSumExp", X * 100)


def test_no_axes_can_mean_no_reduction():
    check_node("ReduceSum", X, noop_with_empty_axes=1)


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin", "Hardmax"])
@pytest.mark.parametrize("size", [1, 7, 65, 300])
def test_extremes_along_rows_of_ties_and_of_infinities(op, size):
    x = RANDOM.integers(-3, 4, (6, size)).astype(np.float32)
    x[0], x[1] = -np.inf, np.inf
    check_node(op, x)
    if op != "Hardmax":
        check_node(op, np.nan_to_num(x, posinf=9, neginf=-9).astype(np.int32), axis=1, select_last_index=1)
        check_node(op, x.astype(np.float64), axis=-1, keepdims=0)


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("size", [2, 3, 6, 17, 21, 23])
def test_extremes_of_many_short_rows(op, size):
    """A vector's rows at once: the last of 37 and of 2 x 19 rows fill none."""
    x = RANDOM.integers(-3, 4, (37, size)).astype(np.float32)
    x[5], x[7], x[36] = np.nan, -np.inf, np.inf
    check_node(op, x, axis=1, keepdims=0)
    check_node(op, RANDOM.integers(-3, 4, (2, 19, size)).astype(np.int64), axis=-1, select_last_index=1)


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
def test_what_is_no_number_is_no_extreme(op):
    x = np.array([[np.nan, 2, 5, np.nan, 5, 2], [np.nan] * 6], np.float32)
    model, inputs = node_model(op, [x], axis=1)
    [got] = run_model(import_model(model), inputs)
    np.testing.assert_array_equal(got, [[2 if op == "ArgMax" else 1], [0]])


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("last", [0, 1])
def test_arg_extremes_take_the_first_or_the_last(op, last):
    ties = RANDOM.integers(0, 3, (3, 5, 4)).astype(np.float32)
    check_node(op, ties, axis=1, select_last_index=last)
    check_node(op, ties.astype(np.int32), axis=-1, keepdims=0, select_last_index=last)


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_arg_extremes_of_short_columns(last, keepdims):
    ties = RANDOM.integers(0, 3, (2, 9, 3, 2)).astype(np.float32)
    check_node("ArgMax", ties, axis=1, select_last_index=last, keepdims=keepdims)
    check_node("ArgMin", ties.astype(np.int64), axis=1, select_last_index=last, keepdims=keepdims)


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
def test_cumulative_sum(exclusive, reverse):
    check_node("CumSum", X, np.array(1), known=[1], exclusive=exclusive, reverse=reverse)
    long = np.arange(3 * 1100, dtype=np.float32).reshape(3, 1100)  # more columns than registers
    check_node("CumSum", long, np.array(0), known=[1], exclusive=exclusive, reverse=reverse)


@campaign("float32-1", "float32-7", "float32-64", "float32-8192", "int64-4", "int64-33", "int64-256")
@pytest.mark.parametrize("columns", [1, 4, 7, 33, 64, 100, 255, 256, 338, 601, 8192])
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_cumulative_sums_of_blocks_of_columns(columns, dtype):
    x = RANDOM.integers(0, 9, (2, 5, columns)).astype(dtype)
    check_node("CumSum", x, np.array(1), known=[1])
    check_node("CumSum", x, np.array(1), known=[1], exclusive=1, reverse=1)


@campaign("0-1-768-float32", "0-3-768-float32", "1-1-768-float32")
@pytest.mark.parametrize(("columns", "dtype"), [(300, np.float64), (768, np.float32), (1000, np.int32)])
@pytest.mark.parametrize("outer", [1, 3])
@pytest.mark.parametrize("exclusive", [0, 1])
def test_cumulative_sums_of_rows_longer_than_registers(columns, dtype, outer, exclusive):
    x = RANDOM.integers(0, 9, (outer, 5, columns)).astype(dtype)
    check_node("CumSum", x, np.array(1), known=[1], exclusive=exclusive)
    check_node("CumSum", x, np.array(1), known=[1], exclusive=exclusive, reverse=1)


@campaign("0-1", "1-1")
@pytest.mark.parametrize("rows", [1, 2, 8, 9, 17, 30])
@pytest.mark.parametrize("exclusive", [0, 1])
def test_cumulative_sums_of_groups_of_rows(rows, exclusive):
    x = RANDOM.integers(0, 9, (2, rows, 95)).astype(np.int32)
    check_node("CumSum", x, np.array(1), known=[1], exclusive=exclusive)
    check_node("CumSum", x, np.array(1), known=[1], exclusive=exclusive, reverse=1)


@pytest.mark.parametrize("columns", [4, 17, 768])
def test_running_sums_of_rows_have_no_memory_of_their_own(columns):
    """Those of short rows stay in registers, and long rows are made of the row before; one kernel, without copies."""
    model, _ = node_model("CumSum", [np.zeros((1, 50, columns), np.float32), np.array(1)], [1])
    [kernel] = api.stepwise(model, options=api.make_options("x86")).kernels.values()
    assert kernel.scratch_bytes <= 256  # what the first row is added to: a piece of zeros
    assert kernel.schedule.startswith("loops around nests")


def test_cumulative_sums_of_rows_that_are_one_tile():
    check_node("CumSum", RANDOM.standard_normal((5, 32)).astype(np.float32), np.array(0), known=[1], exclusive=1)


@pytest.mark.parametrize("axis", [0, 1])
def test_cumulative_sums_of_nothing(axis):
    check_node("CumSum", X[:0], np.array(axis), known=[1], exclusive=1)


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
def test_softmax_on_an_axis_and_flattened(op):
    check_node(op, X * 5)
    check_node(op, X * 5, axis=1)
    check_node(op, X * 5, opset=11)
    check_node(op, X * 5, opset=12, axis=2)


def test_softmax_in_half_precision():
    check_node("Softmax", X.astype(np.float16), rtol=2e-3)


def test_an_axis_out_of_range_is_refused():
    model, _ = node_model("Softmax", [X])
    model.graph.node[0].attribute.add(name="axis", type=2, i=7)
    with pytest.raises(ModelError, match=r"node 'the_Softmax' \(Softmax\): axis 7 is out of range for rank 3"):
        import_model(model)
