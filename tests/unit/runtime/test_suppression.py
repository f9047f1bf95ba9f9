"""Non-maximum suppression keeps the boxes that onnxruntime keeps, in its order."""

from functools import cache
from typing import Any

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx_case import node_model

from tilewright.core.errors import InputError
from tilewright.runtime.steps.host import FUNCTIONS
from tilewright.runtime.steps.suppression import suppress
from tilewright.tools.debugging.oracle import make_session

MOST = 1 << 40


@cache
def session(centered: bool) -> onnxruntime.InferenceSession:
    inputs = [*(np.zeros((1, 1, n), np.float32) for n in (4, 1)), np.zeros(1, np.int64), *[np.zeros(1, np.float32)] * 2]
    model, _ = node_model("NonMaxSuppression", inputs, center_point_box=int(centered))
    for value in model.graph.input[:2]:
        for dim in value.type.tensor_type.shape.dim:
            dim.ClearField("value")
    return make_session(model)


def check(boxes: Any, scores: Any, most: int = MOST, limit: float = 0.5, threshold: float = 0.0, centered=False) -> int:
    """Compare, and say how many were kept."""
    boxes, scores = (np.asarray(a, np.float32) for a in (boxes, scores))
    limits = [np.array([most]), np.array([limit], np.float32), np.array([threshold], np.float32)]
    names = [f"in{i}" for i in range(5)]
    [want] = session(centered).run(None, dict(zip(names, [boxes, scores, *limits], strict=True)))
    got = suppress(boxes, scores, most, limit, threshold, centered)
    np.testing.assert_array_equal(got, np.asarray(want))
    assert got.dtype == np.int64
    return len(got)


def boxes_in(rng: np.random.Generator, size: float, side: float, *shape: int) -> np.ndarray:
    """Boxes of such a side at most, by two corners, between 0 and a size."""
    low, sides = rng.uniform(0, size, (*shape, 2)), rng.uniform(0, side, (*shape, 2))
    return np.concatenate([low, low + sides], -1).astype(np.float32)


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.tuples(st.integers(1, 3), st.integers(0, 3), st.integers(0, 40) | st.integers(250, 400)),
    most=st.sampled_from([-1, 0, 1, 7, 129, MOST]),
    limit=st.sampled_from([0.0, 0.25, 0.5, 1.0]),
    side=st.sampled_from([1, 4, 30]),
    levels=st.sampled_from([0, 1, 3, 1000]),
    centered=st.booleans(),
)
def test_random_boxes(seed, shape, most, limit, side, levels, centered):
    """Corners and scores of few values make equal scores, boxes without area, and overlaps of just the limit."""
    batches, classes, count = shape
    rng = np.random.default_rng(seed)
    boxes = np.round(
        rng.uniform(-20, 20, (batches, count, 4)) if side == 1 else boxes_in(rng, 20, side, batches, count)
    )
    scores = rng.integers(-levels, levels + 1, (batches, classes, count)) / 2
    check(boxes, scores, most, limit, -0.5, centered)


@pytest.mark.parametrize("side", [3, 30, 100])
@pytest.mark.parametrize("most", [100, 1000, MOST])
def test_many_boxes(side, most):
    """So many that they are held against each other by halves, sorted along an axis."""
    rng = np.random.default_rng(3)
    kept = check(boxes_in(rng, 320, side, 1, 3000), rng.uniform(0, 1, (1, 2, 3000)), most)
    assert kept >= 2 * min(most, 300)


@pytest.mark.parametrize("axes", [(0, 1), (0,), (1,)])
def test_boxes_of_classes_that_lie_apart(axes):
    rng = np.random.default_rng(4)
    boxes, kinds = boxes_in(rng, 320, 60, 1, 5000), rng.integers(0, 20, 5000)
    for axis in (*axes, *(2 + a for a in axes)):
        boxes[0, :, axis] += np.float32(381) * kinds
    assert check(boxes, rng.uniform(0, 1, (1, 1, 5000))) > 1000


def test_of_equal_scores_the_first_box_is_kept():
    scores = np.zeros((1, 1, 300))
    scores[0, 0, ::2] = -0.0
    boxes = np.tile(np.array([0, 0, 1, 1], np.float32), (1, 300, 1))
    assert check(boxes, scores, threshold=-1) == 1
    assert suppress(boxes, scores.astype(np.float32), MOST, 0.5, None, False).tolist() == [[0, 0, 0]]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38])
@pytest.mark.parametrize("centered", [False, True])
def test_boxes_of_what_is_no_number(value, centered):
    rng = np.random.default_rng(5)
    for count in (12, 700):
        boxes = boxes_in(rng, 20, 8, 1, count)
        boxes[rng.uniform(0, 1, boxes.shape) < 0.1] = value
        check(boxes, rng.uniform(0, 1, (1, 1, count)), centered=centered)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_scores_of_what_is_no_number(value):
    """With a threshold one that is no number is not above it; without one it comes last."""
    rng = np.random.default_rng(6)
    boxes, scores = boxes_in(rng, 20, 8, 1, 50), rng.uniform(-1, 1, (1, 2, 50)).astype(np.float32)
    scores[0, 0, ::3] = value
    check(boxes, scores)
    least = np.where(np.isnan(scores), np.float32(-np.inf), scores)
    got, want = (suppress(boxes, given, MOST, 0.5, None, False) for given in (scores, least))
    np.testing.assert_array_equal(got, want)


def test_limits_and_shapes_that_do_not_fit_are_refused():
    call, ones = FUNCTIONS["NonMaxSuppression"], np.ones
    limits = [ones(1, np.int64), np.array([1.5], np.float32)]
    with pytest.raises(InputError, match=r"an iou_threshold of 1\.5 is not between 0 and 1"):
        call({"center_point_box": 0}, ones((1, 2, 4), np.float32), ones((1, 1, 2), np.float32), *limits)
    with pytest.raises(InputError, match=r"boxes \[1, 2, 4\] do not fit scores \[1, 1, 3\]"):
        call({"center_point_box": 0}, ones((1, 2, 4), np.float32), ones((1, 1, 3), np.float32))
