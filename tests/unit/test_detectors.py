"""Detectors with all of their post-processing, for scores of which none, one, some or all are high enough."""

from __future__ import annotations

import functools

import numpy as np
import onnx
import onnxruntime
import pytest
from agreement import check_detections
from samples import some_of
from text_model import model, values

import tilewright as tw
from tilewright.tools.debugging.oracle import make_session

SIZE, CLASSES, MOST = 96, 5, 30  # of the image, of what is told apart, and of detections

# The boxes of anchors [n, 4] that are moved by deltas [n, 4] and clipped to the image.
DECODE = """
    {0}_da, {0}_db = Split<axis = 1>({0}_deltas)
    {0}_aa, {0}_ab = Split<axis = 1>({0}_anchors)
    {0}_side = Sub({0}_ab, {0}_aa)
    {0}_move = Mul({0}_da, {0}_side)  {0}_sum = Add({0}_aa, {0}_ab)  {0}_mid = Mul({0}_sum, half)
    {0}_center = Add({0}_mid, {0}_move)
    {0}_capped = Min({0}_db, one)  {0}_grow = Exp({0}_capped)  {0}_grown = Mul({0}_side, {0}_grow)
    {0}_reach = Mul({0}_grown, half)
    {0}_low = Sub({0}_center, {0}_reach)  {0}_high = Add({0}_center, {0}_reach)
    {0}_unclipped = Concat<axis = 1>({0}_low, {0}_high)
    {0}_boxes = Clip({0}_unclipped, zero, size)
"""
# Which of boxes [n, 4] with scores [n] are kept, class by class: those of each class are moved to a place of their own.
KEEP = """
    {0}_all = Reshape({0}_boxes, minus)  {0}_some = Concat<axis = 0>({0}_all, zeros)
    {0}_far = ReduceMax<keepdims = 0>({0}_some)  {0}_next = Add({0}_far, one)
    {0}_kinds = Cast<to = 1>({0}_labels)  {0}_offset = Mul({0}_kinds, {0}_next)  {0}_off = Unsqueeze({0}_offset, i1)
    {0}_apart = Add({0}_boxes, {0}_off)
    {0}_b = Unsqueeze({0}_apart, i0)  {0}_s = Unsqueeze({0}_scores, i01)
    {0}_found = NonMaxSuppression({0}_b, {0}_s, many, overlap)
    {0}_column = Slice({0}_found, i2, i3, i1)  {0}_flat = Reshape({0}_column, minus)
    {0}_kept = Slice({0}_flat, i0, most, i0)
"""
# The features of an image at two scales, and for each what is made of them: rows of so many numbers, place by place.
FEATURES = (
    "f0 = Conv<strides = [8, 8]>(image, stem)  g0 = Relu(f0)  g1 = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(g0)"
)
ROWS = "{0}_c = Conv({1}, {2})  {0}_t = Transpose<perm = [0, 2, 3, 1]>({0}_c)  {0} = Reshape({0}_t, {3})"
# Of a level's places the candidates: class by class those above the threshold, the best 50 of them.
LEVEL = """
    {0}_logits_ = Add({0}_logits, shift)  {0}_p = Sigmoid({0}_logits_)  {0}_flat_p = Reshape({0}_p, minus)
    {0}_high_p = Greater({0}_flat_p, threshold)  {0}_where = NonZero({0}_high_p)  {0}_at = Reshape({0}_where, minus)
    {0}_over = Gather({0}_flat_p, {0}_at)  {0}_n = Shape({0}_over)  {0}_k = Min({0}_n, fifty)
    {0}_scores, {0}_best = TopK({0}_over, {0}_k)
    {0}_chosen = Gather({0}_at, {0}_best)  {0}_place = Div({0}_chosen, classes)  {0}_labels = Mod({0}_chosen, classes)
    {0}_deltas = Gather({0}_moves, {0}_place)  {0}_anchors = Gather({0}_grid, {0}_place)
"""


def anchors(step: int) -> np.ndarray:
    """Two boxes around each place of a level, as (x, y, x, y)."""
    middle = np.arange(step // 2, SIZE, step)
    y, x = np.meshgrid(middle, middle, indexing="ij")
    center = np.repeat(np.stack([x, y], -1).reshape(-1, 2), 2, axis=0)
    side = np.tile([[step, step], [step, 2 * step]], (len(center) // 2, 1))
    return np.concatenate([center - side, center + side], 1).astype(np.float32)


def weights() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(11)
    integers = {"i0": [0], "i1": [1], "i2": [2], "i3": [3], "i01": [0, 1], "minus": [-1], "most": [MOST], "fifty": [50]}
    floats = {"half": 0.5, "zero": 0.0, "one": 1.0, "size": float(SIZE)}

    def normal(*shape: int) -> np.ndarray:
        terms = shape[0] if len(shape) == 2 else np.prod(shape[1:])
        return (rng.standard_normal(shape) * np.sqrt(2 / terms)).astype(np.float32)

    return {
        **{name: np.array(value) for name, value in integers.items()},
        **{name: np.array(value, np.float32) for name, value in floats.items()},
        **{"classes": np.array(CLASSES), "many": np.array([1 << 40]), "overlap": np.array([0.5], np.float32)},
        **{"zeros": np.zeros(1, np.float32), "four": np.array([-1, 4]), "rows": np.array([-1, CLASSES])},
        **{"stem": normal(16, 3, 8, 8), "by_class": normal(2 * CLASSES, 16, 1, 1), "by_box": normal(8, 16, 1, 1)},
        **{"l0_grid": anchors(8), "l1_grid": anchors(16)},
        **{"by_one": normal(2, 16, 1, 1), "dense": normal(400, 32), "score": normal(32, CLASSES)},
        **{"reg": normal(32, 4), "up": normal(16, 8, 2, 2), "mask": normal(CLASSES, 8, 1, 1)},
    }


def levels(made: str) -> str:
    """Text for both levels."""
    return "".join(made.replace("{0}", f"l{i}").replace("{g}", f"g{i}") for i in (0, 1))


ONE_STAGE = (
    FEATURES
    + levels(ROWS.format("{0}_logits", "{g}", "by_class", "rows") + ROWS.format("{0}_moves", "{g}", "by_box", "four"))
    + levels(LEVEL + DECODE)
    + "".join(f"d_{name} = Concat<axis = 0>(l0_{name}, l1_{name})" for name in ("boxes", "scores", "labels"))
    + KEEP.format("d")
    + "".join(f"{name} = Gather(d_{name}, d_kept)" for name in ("boxes", "scores", "labels"))
)
TWO_STAGES = (
    FEATURES
    + levels(ROWS.format("{0}_logit", "{g}", "by_one", "minus") + ROWS.format("{0}_moves", "{g}", "by_box", "four"))
    + "r_logit = Concat<axis = 0>(l0_logit, l1_logit)  r_moves = Concat<axis = 0>(l0_moves, l1_moves)"
    + "r_scores, r_best = TopK(r_logit, fifty)  r_grid = Concat<axis = 0>(l0_grid, l1_grid)"
    + "r_deltas = Gather(r_moves, r_best)  r_anchors = Gather(r_grid, r_best)  r_labels = Mul(r_best, i0)"
    + DECODE.format("r")
    + KEEP.format("r")
    + """
    rois = Gather(r_boxes, r_kept)  n = Shape(r_kept)  images = ConstantOfShape<value = int64[1] {0}>(n)
    pooled = RoiAlign<output_height = 5, output_width = 5, sampling_ratio = 2, spatial_scale = 0.125>(g0, rois, images)
    flat = Flatten(pooled)  hidden = MatMul(flat, dense)  active = Relu(hidden)
    by_kind = MatMul(active, score)  by_kind_ = Add(by_kind, shift)  p = Sigmoid(by_kind_)
    high = Greater(p, threshold)  where = NonZero(high)
    at = Slice(where, i0, i1, i0)  at_roi = Reshape(at, minus)  of = Slice(where, i1, i2, i0)  d_labels = Reshape(of, minus)
    pairs = Transpose(where)  d_scores = GatherND(p, pairs)
    moved = MatMul(active, reg)  d_deltas = Gather(moved, at_roi)  d_anchors = Gather(rois, at_roi)
    """
    + DECODE.format("d")
    + KEEP.format("d")
    + "".join(f"{name} = Gather(d_{name}, d_kept)" for name in ("boxes", "scores", "labels"))
    + """
    m = Shape(d_kept)  again = ConstantOfShape<value = int64[1] {0}>(m)
    seen = RoiAlign<output_height = 6, output_width = 6, sampling_ratio = 2, spatial_scale = 0.125>(g0, boxes, again)
    larger = ConvTranspose<strides = [2, 2]>(seen, up)  drawn = Relu(larger)  each = Conv(drawn, mask)
    first = Constant<value_int = 0>()  last = Squeeze(m)  step = Constant<value_int = 1>()  number = Range(first, last, step)
    column = Unsqueeze(number, i1)  kind = Unsqueeze(labels, i1)  which = Concat<axis = 1>(column, kind)
    own = GatherND(each, which)  masks = Sigmoid(own)
    """
)
NAMED = "float[d, 4] boxes, float[d] scores, int64[d] labels"
KINDS = {"one stage": (NAMED, ONE_STAGE), "two stages": (f"{NAMED}, float[d, h, w] masks", TWO_STAGES)}


@functools.cache
def programs(kind: str) -> tuple[tw.Module, onnxruntime.InferenceSession]:
    outputs, nodes = KINDS[kind]
    inputs = {
        "image": values(1, 3, SIZE, SIZE),
        "shift": np.zeros((), np.float32),
        "threshold": np.zeros((), np.float32),
    }
    made = model(outputs, nodes, inputs, weights())
    onnx.checker.check_model(made)
    return tw.compile(made, workers=0, num_threads=2, cache=False), make_session(made)


def detect(kind: str, image: np.ndarray, shift: float, threshold: float) -> dict[str, np.ndarray]:
    """What both find, after it has been compared."""
    module, session = programs(kind)
    inputs = {"image": image, "shift": np.array(shift, np.float32), "threshold": np.array(threshold, np.float32)}
    names = [info.name for info in module.outputs]
    want = dict(zip(names, map(np.asarray, session.run(names, inputs)), strict=True))
    check_detections(dict(zip(names, module.run(inputs), strict=True)), want)
    return want


@pytest.mark.parametrize("kind", some_of([(kind,) for kind in KINDS], len(KINDS)))
def test_detections(kind):
    image = np.random.default_rng(7).uniform(-1, 1, (1, 3, SIZE, SIZE)).astype(np.float32)
    scores = np.sort(detect(kind, image, 0, 0)["scores"])[::-1]
    assert len(scores) == MOST and scores[0] < 1
    for count in (1, 5):
        assert len(detect(kind, image, 0, float(scores[count - 1] + scores[count]) / 2)["boxes"]) == count
    assert len(detect(kind, image, 0, 1)["boxes"]) == 0
    assert len(detect(kind, image, 3, 0.5)["boxes"]) == MOST
    assert len(np.unique(detect(kind, np.zeros_like(image), 0, 0.4)["scores"])) == 1
