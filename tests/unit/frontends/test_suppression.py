"""Non-maximum suppression keeps the boxes that onnxruntime keeps, in its order."""

from functools import cache
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright
from tilewright.core.errors import InputError, ModelError
from tilewright.dialects import ir
from tilewright.dialects.context import make_context
from tilewright.frontends import import_model
from tilewright.tools.debugging.oracle import make_session

MOST = 1 << 40


NAMES = ["boxes", "scores", "most", "limit", "least"]
LIMITS = ", int64[1] most, float[1] limit, float[1] least"


def model(inputs: str, nodes: str) -> onnx.ModelProto:
    head = '<ir_version: 10, opset_import: ["": 21]> g (float[B, N, 4] boxes, float[B, C, N] scores'
    return onnx.parser.parse_model(f"{head}{inputs}) => (int64[K, 3] y) {{ {nodes} }}")


@cache
def compiled(centered: bool) -> tuple[tilewright.Module, onnxruntime.InferenceSession]:
    made = model(LIMITS, f"y = NonMaxSuppression<center_point_box = {int(centered)}>({', '.join(NAMES)})")
    return compile_here(made), make_session(made)


@cache
def compiled_without_threshold() -> tilewright.Module:
    known = f"most = Constant<value_int = {MOST}>() limit = Constant<value_float = 0.5>()"
    return compile_here(model("", f"{known} y = NonMaxSuppression({', '.join(NAMES[:4])})"))


@cache
def compiled_for_few(most: int) -> tuple[tilewright.Module, onnxruntime.InferenceSession]:
    known = f"most = Constant<value_int = {most}>() limit = Constant<value_float = 0.5>()"
    made = model(", float[1] least", f"{known} y = NonMaxSuppression({', '.join(NAMES)})")
    return compile_here(made), make_session(made)


def compile_here(made: onnx.ModelProto) -> tilewright.Module:
    return tilewright.compile(made, workers=0, num_threads=1, cache=False)


def check(boxes: Any, scores: Any, most: int = MOST, limit: float = 0.5, threshold: float = 0.0, centered=False) -> int:
    """Compare, and say how many were kept."""
    boxes, scores = (np.asarray(a, np.float32) for a in (boxes, scores))
    inputs = [boxes, scores, np.array([most]), np.array([limit], np.float32), np.array([threshold], np.float32)]
    module, session = compiled(centered)
    [want] = session.run(None, dict(zip(NAMES, inputs, strict=True)))
    [got] = module(*inputs)
    np.testing.assert_array_equal(got, np.asarray(want))
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


@pytest.mark.parametrize("side", [3, 1000])  # few overlap; all do, so that all are looked at
@pytest.mark.parametrize("count", [1, 40, 41, 256, 257, 600])
@pytest.mark.parametrize("least", [-1.0, 0.5, 0.99])
def test_few_of_many_boxes(side, count, least):
    """The first ones are looked for one by one, where there are few, and all are sorted where those do not suffice."""
    rng = np.random.default_rng(5)
    boxes, scores = boxes_in(rng, 100, 3, 2, count), rng.integers(-50, 50, (2, 3, count)).astype(np.float32) / 50
    boxes[..., 2:] += np.float32(side - 3)
    least = np.array([least], np.float32)
    for most in (0, 1, 7):
        module, session = compiled_for_few(most)
        [want] = session.run(None, {"boxes": boxes, "scores": scores, "least": least})
        np.testing.assert_array_equal(module(boxes, scores, least)[0], want)


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
    assert compiled_without_threshold()(boxes, scores.astype(np.float32))[0].tolist() == [[0, 0, 0]]


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
    got, want = (compiled_without_threshold()(boxes, given)[0] for given in (scores, least))
    np.testing.assert_array_equal(got, want)


def test_limits_that_make_no_sense_are_refused():
    module, _ = compiled(False)
    boxes, scores, most, least = (np.ones(n, t) for n, t in [((1, 2, 4), "f"), ((1, 1, 2), "f"), (1, "q"), (1, "f")])
    for limit in (1.5, -0.5, np.nan):
        with pytest.raises(InputError, match="iou_threshold must be from 0 to 1"):
            module(boxes, scores, most, np.array([limit], np.float32), least)
    known = "most = Constant<value_int = 3>() limit = Constant<value_float = 1.5>()"
    with pytest.raises(ModelError, match=r"NonMaxSuppression.*iou_threshold must be from 0 to 1, it is 1\.5"):
        compile_here(model("", f"{known} y = NonMaxSuppression(boxes, scores, most, limit)"))


@pytest.mark.parametrize(("most", "kept"), [(-1, 0), (0, 0), (1, 2), (9, 6)])
def test_what_is_known_at_import(most, kept):
    """The most boxes, the threshold and all sizes: places for no more boxes are made."""
    known = f"most = Constant<value_int = {most}>() limit = Constant<value_float = 0.0>()"
    made = model("", f"{known} y = NonMaxSuppression(boxes, scores, most, limit, limit)")
    module = tilewright.compile(
        made, workers=0, num_threads=1, cache=False, input_shapes={"boxes": (2, 3, 4), "scores": (2, 1, 3)}
    )
    boxes = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    scores = np.array([[[1, 2, 3]], [[3, 2, 1]]], np.float32)
    session = make_session(made)
    [want], [got] = session.run(None, {"boxes": boxes, "scores": scores}), module(boxes, scores)
    np.testing.assert_array_equal(got, np.asarray(want).reshape(-1, 3))
    assert len(got) == kept


@pytest.mark.parametrize(("most", "kept"), [(5, "5x16"), (100, "5x112"), (513, "5x?")])
def test_few_of_any_number_of_boxes_are_in_one_strip(most: int, kept: str) -> None:
    """What is known of how many are kept is enough: how many boxes there are, the run may find."""
    known = f"most = Constant<value_int = {most}>() limit = Constant<value_float = 0.5>()"
    made = model("", f"{known} y = NonMaxSuppression(boxes, scores, most, limit)")
    with make_context(), ir.Location.unknown():
        assert f"tensor<{kept}xf32>" in str(import_model(made).module)
