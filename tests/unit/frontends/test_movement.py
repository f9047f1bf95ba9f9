"""Data movement against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_case import check_node, node_model

import tilewright as tw
from tilewright.core.errors import ModelError
from tilewright.frontends import import_model
from tilewright.tools.debugging.oracle import make_session

X = np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)


def known(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def test_transpose_and_concat():
    check_node("Transpose", X)
    check_node("Transpose", X, perm=[0, 2, 1, 3])
    check_node("Concat", X, X[:, :1], axis=1)
    check_node("Concat", X, X, axis=-1)


def test_concat_of_shapes_that_do_not_fit_is_refused():
    model, _ = node_model("Concat", [X, X], axis=1)
    model.graph.input[1].type.tensor_type.shape.dim[2].dim_value = 7
    with pytest.raises(ModelError, match=r"shapes .* differ in more than axis 1"):
        import_model(model)


def test_split_by_sizes_by_count_and_evenly():
    check_node("Split", X, known(1, 2), known=[1], axis=1, outputs=2)
    check_node("Split", X, axis=-1, num_outputs=3, outputs=3)  # 2, 2 and 1
    check_node("Split", X, axis=2, outputs=2, opset=13)
    check_node("Split", X, axis=1, split=[2, 1], outputs=2, opset=11)


def test_slice():
    check_node("Slice", X, known(1, -1), known(2, -100), known(1, 3), known(1, -2), known=[1, 2, 3, 4])
    check_node("Slice", X, known(0, 1), known(2**62, 3), known=[1, 2])
    check_node("Slice", X.astype(np.float16), known(-1), known(-(2**63)), known(0), known(-1), known=[1, 2, 3, 4])
    check_node("Slice", X, opset=9, axes=[2], starts=[-3], ends=[100])


def test_a_slice_down_from_below_the_first_element_takes_it():
    check_node("Slice", X, known(-100, 2), known(-200, -200), known(0, 3), known(-1, -1), known=[1, 2, 3, 4])
    check_node("Slice", X[:, :0], known(-1), known(-9), known(1), known(-1), known=[1, 2, 3, 4])


def test_a_slice_that_keeps_order_is_no_copy():
    model, _ = node_model("Slice", [X, known(1), known(3), known(1)], known=[1, 2, 3])
    assert "linalg" not in str(import_model(model).module)


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
def test_pad(mode):
    check_node("Pad", X, known(0, 1, 3, 2, 1, 0, 2, 4), known=[1], mode=mode, opset=19)
    check_node("Pad", X, known(0, -1, 1, 2, 1, 0, -2, 4), known=[1], mode=mode, opset=19)


def test_pad_of_what_is_empty():
    check_node("Pad", X[0, 0, :, :2], known(2, -1, 3, -1), known=[1], opset=19)
    check_node("Pad", X[0, 0, :0], known(2, 1, 0, 0), np.array(3, np.float32), known=[1], opset=19)
    check_node("Pad", X[0, 0, :, :0], known(2, 0, 1, 0), known=[1], mode="reflect", opset=19)


def test_pad_with_a_value_and_axes():
    check_node("Pad", X, known(0, 1, 2, 2), np.array(3.5, np.float32), known(1, -1), known=[1, 3])
    check_node("Pad", X.astype(np.int64), known(0, 1, 2, 2, 1, 0, 0, 0), np.array(-3), known=[1, 2])
    check_node("Pad", X, opset=10, pads=[0, 0, 1, 1, 0, 0, 2, 2], value=2.5)


def test_tile():
    check_node("Tile", X, known(1, 2, 3, 1), known=[1])
    check_node("Tile", X[:1, :1], known(3, 2, 3, 1), known=[1])
    check_node("Tile", known(4, 5), known(3), known=[0, 1])


@pytest.mark.parametrize(
    ("repeats", "steps"),
    [((5, 3, 2, 4), 3), ((5, 1, 2, 4), 3), ((1, 3, 0, 4), 3), ((2, 1, 1, 1), 1), ((1, 1, 1, 3), 1), ((2, 9, 9, 9), 3)],
)
def test_short_runs_are_repeated_before_what_is_outside(repeats, steps):
    x = np.arange(2 * 3 * 2 * 3, dtype=np.int8).reshape(2, 3, 2, 3)
    check_node("Tile", x, known(*repeats), known=[1])
    model, _ = node_model("Tile", [x, known(*repeats)], known=[1])
    assert str(import_model(model).module).count("linalg.generic") == steps


def test_long_runs_are_repeated_at_once():
    model, _ = node_model("Tile", [np.zeros((3, 2, 100), np.int8), known(2, 2, 2)], known=[1])
    assert str(import_model(model).module).count("linalg.generic") == 1


def test_depth_and_space():
    deep = np.arange(2 * 8 * 2 * 3, dtype=np.float32).reshape(2, 8, 2, 3)
    check_node("DepthToSpace", deep, blocksize=2)
    check_node("DepthToSpace", deep, blocksize=2, mode="CRD")
    check_node("SpaceToDepth", deep.reshape(2, 2, 4, 6), blocksize=2)


def test_reverse_sequence():
    check_node("ReverseSequence", X, known(1, 2, 2))
    check_node("ReverseSequence", X, known(1, 3), batch_axis=0, time_axis=1)


def test_center_crop_pad():
    check_node("CenterCropPad", X, known(5, 2, 2, 8), known=[1])
    check_node("CenterCropPad", X, known(9, 2), known=[1], axes=[1, -1])


def test_concat_of_what_is_empty():
    empty = np.empty((1, 0), np.int32)
    check_node("Concat", empty, empty, axis=0)
    check_node("Concat", empty, np.ones((1, 2), np.int32), empty, axis=1)


def test_center_crop_pad_to_a_shape_that_the_run_tells():
    x = np.arange(30, dtype=np.float32).reshape(5, 6)
    model, _ = node_model("CenterCropPad", [x, known(2, 9)], axes=[1, -2])
    module = tw.compile(model, workers=0, num_threads=1, cache=False)
    for width, height in ((2, 9), (9, 2), (6, 5), (0, 7)):
        static, inputs = node_model("CenterCropPad", [x, known(width, height)], known=[1], axes=[1, -2])
        want = make_session(static).run(None, inputs)[0]
        np.testing.assert_array_equal(module(x, known(width, height))[0], want)
