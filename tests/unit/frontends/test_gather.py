"""Gather and scatter against onnxruntime, with positions that are known and ones that are not."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator
from onnx_case import check_node, node_model
from reference import run_model

import tilewright as tw
from tilewright.core.errors import ModelError
from tilewright.frontends import import_model

RANDOM = np.random.default_rng(0)
X = np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)
both = pytest.mark.parametrize("known", [[], [1]])


def at(*positions: object) -> np.ndarray:
    return np.array(positions, np.int64)


@both
def test_gather(known):
    check_node("Gather", X, at([0, 2], [-1, 1]), axis=2, known=known)
    check_node("Gather", X, np.array(1), axis=1, known=known)
    check_node("Gather", X, at(3, 2, 1), axis=-1, known=known)
    check_node("Gather", X.astype(np.float16), np.array([1, 1], np.int32), known=known)
    check_node("Gather", X[0, 0, 0], np.array(-2), known=known)


def test_a_known_range_is_a_slice():
    for indices in (at(1, 2), np.array(-1)):
        model, _ = node_model("Gather", [X, indices], known=[1], axis=2)
        assert "linalg" not in str(import_model(model).module)


def test_indices_from_outside_do_not_leave_the_tensor():
    model, _ = node_model("Gather", [X[0, 0, 0], at(7, -100, 3)])
    got = run_model(import_model(model), {"in0": X[0, 0, 0], "in1": at(7, -100, 3)})[0]
    np.testing.assert_array_equal(got, [4, 0, 3])


def test_known_indices_from_outside_are_refused():
    model, _ = node_model("Gather", [X, at(2)], known=[1])
    with pytest.raises(ModelError, match="an index is out of range for the extent 2"):
        import_model(model)


@pytest.mark.parametrize("indices", [at(-1, 0), at(-2, -1), np.array(-1), at(1, 2)])
def test_known_indices_along_an_open_axis(indices):
    module = tw.compile(open_model("Gather", X[0, 0], indices), cache=False, workers=0)
    np.testing.assert_array_equal(module(X[0, 0])[0], X[0, 0][indices])


@pytest.mark.parametrize("indices", [at(1, 5), at(5), np.array(5)])
def test_known_indices_outside_of_an_open_axis_are_refused_when_it_is_known(indices):
    module = tw.compile(open_model("Gather", X[0, 0], indices), cache=False, workers=0)
    with pytest.raises(tw.TilewrightError, match="'node' has an index that is out of range: 5 is not less than"):
        module(X[0, 0])


def test_a_scatter_outside_of_an_open_axis_is_refused():
    module = tw.compile(open_model("ScatterND", X[0, 0], at([5]), X[0, 0, :1]), cache=False, workers=0)
    with pytest.raises(tw.TilewrightError, match="'node' has an index that is out of range"):
        module(X[0, 0])


def open_model(op_type: str, x: np.ndarray, *known: np.ndarray) -> onnx.ModelProto:
    """An op on a tensor whose first axis is open, and on constants."""
    names = [f"k{i}" for i in range(len(known))]
    weights = [onnx.numpy_helper.from_array(array, name) for array, name in zip(known, names, strict=True)]
    given = onnx.helper.make_tensor_value_info("x", 1, ["N", *x.shape[1:]])
    node = onnx.helper.make_node(op_type, ["x", *names], ["y"], name="node")
    graph = onnx.helper.make_graph([node], "g", [given], [onnx.helper.make_tensor_value_info("y", 1, None)], weights)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9)


@both
def test_gather_elements(known):
    check_node("GatherElements", X, RANDOM.integers(-4, 4, (2, 3, 6, 5)), axis=2, known=known)
    check_node("GatherElements", X, RANDOM.integers(-4, 4, (2, 1, 2, 5)), axis=2, known=known)


@both
def test_gather_nd(known):
    check_node("GatherND", X, at([0, 1], [-1, 2]), known=known)
    check_node("GatherND", X, RANDOM.integers(0, 4, (2, 3, 1)), batch_dims=2, known=known)
    check_node("GatherND", X, RANDOM.integers(-2, 2, (3, 2, 4)), known=known)


@both
def test_scatter_elements(known):
    distinct = RANDOM.permuted(np.broadcast_to(np.arange(-2, 2)[:, None], (2, 2, 4, 3)).copy(), axis=2)
    check_node("ScatterElements", X, distinct, -RANDOM.random((2, 2, 4, 3), np.float32), axis=2, known=known)
    check_node("Scatter", X, at([[[2]]]), -X[:1, :1, :1, :1], axis=3, opset=9, known=known)


@both
@pytest.mark.parametrize("reduction", ["add", "mul", "min", "max"])
def test_scatter_with_a_reduction(reduction, known):
    updates = RANDOM.random((2, 2, 6, 3), np.float32) + np.float32(0.5)
    indices = RANDOM.integers(-4, 4, updates.shape)
    check_node("ScatterElements", X, indices, updates, axis=2, known=known, reduction=reduction)
    rows = RANDOM.random((3, 4, 5), np.float32)
    check_node("ScatterND", X, at([0, 1], [-1, 2], [0, 1]), rows, known=known, reduction=reduction)


@pytest.mark.parametrize("reduction", ["min", "max"])
def test_a_scattered_extreme_is_nan_if_either_is(reduction):
    x, updates = np.array([np.nan, 1, 2, 3], np.float32), np.array([1, np.nan, 5, 0], np.float32)
    model, inputs = node_model("ScatterElements", [x, np.arange(4), updates], opset=18, reduction=reduction)
    [got] = run_model(import_model(model), inputs)
    np.testing.assert_array_equal(got, {"min": [np.nan, np.nan, 2, 0], "max": [np.nan, np.nan, 5, 3]}[reduction])


def test_bools_stay_bools():
    indices = RANDOM.integers(-4, 4, (2, 2, 6, 3))
    check_node("ScatterElements", X > 40, indices, RANDOM.random(indices.shape) > 0.5, axis=2, reduction="add")


@both
def test_scatter_nd(known):
    check_node("ScatterND", X, at([0, 1], [-1, 2]), -X[0, :2], known=known)
    check_node("ScatterND", X, at([[0, 1], [0, 2]], [[1, 1], [1, 2]]), -X[:, 1:], known=known)
    check_node("ScatterND", X.astype(np.int64), at([0, 1, 1, 2], [1, 1, 1, 1]), at(-1, -2), known=known)


@pytest.mark.parametrize("reduction", ["none", "add", "max"])
def test_slices_of_short_rows_are_one_row(reduction):
    x, places = RANDOM.standard_normal((6, 4, 5, 3)), RANDOM.permutation(6)[:3].reshape(3, 1)
    check_node("GatherND", x, places)
    check_node("ScatterND", x, places, RANDOM.standard_normal((3, 4, 5, 3)), reduction=reduction)
    model, _ = node_model("GatherND", [x, places])
    assert "tensor<6x60xf64>" in str(import_model(model).module)


def test_a_known_box_is_an_insertion():
    model, _ = node_model("ScatterND", [X, at([[0, 1], [0, 2]], [[1, 1], [1, 2]]), -X[:, 1:]], known=[1])
    assert "scf" not in str(import_model(model).module)


def test_compress():
    check_node("Compress", X, np.array([False, True, True]), known=[1], axis=1)
    check_node("Compress", X, np.array([False, True, True, False, True]), known=[1])


@pytest.mark.parametrize("axis", [1, -2, 3])
@pytest.mark.parametrize("mode", ["linear", "circular"])
def test_tensor_scatter(mode, axis):
    count = {1: 2, -2: 3, 3: 5}[axis]
    update = -X[tuple(slice(0, count if i == axis % 4 else None) for i in range(4))]
    starts = at(4, -3) if mode == "circular" else at(0, X.shape[axis] - count)
    for inputs in ([X, update, starts], [X.astype(np.float16), update.astype(np.float16)]):
        model, given = node_model("TensorScatter", inputs, opset=24, mode=mode, axis=axis)
        [want] = ReferenceEvaluator(model).run(None, given)
        np.testing.assert_array_equal(run_model(import_model(model), given)[0], want)


def test_a_tensor_is_not_written_outside():
    model, given = node_model("TensorScatter", [X, -X[:, :, :2], at(3, -1)], opset=24)
    want = X.copy()
    want[0, :, 3], want[1, :, 0] = -X[0, :, 0], -X[1, :, 1]
    np.testing.assert_array_equal(run_model(import_model(model), given)[0], want)


def test_an_update_that_does_not_fit_is_refused():
    model, _ = node_model("TensorScatter", [X, X], opset=24)
    model.graph.input[1].type.tensor_type.shape.dim[2].dim_value = 5
    with pytest.raises(ModelError, match=r"update of \[2, 3, 5, 5\] does not fit a cache"):
        import_model(model)
