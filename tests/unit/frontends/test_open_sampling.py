"""GridSample, DeformConv, regions, Col2Im, MaxUnpool and embeddings whose sizes are all open."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx_case import node_model
from open_case import check_open, check_refused, open_model
from reference import run_model
from samples import campaign

import tilewright as tw
from tilewright.core.errors import InputError
from tilewright.dialects.tw import CONTROL
from tilewright.frontends import import_model

RNG = np.random.default_rng(11)


def f(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def i(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


@pytest.mark.parametrize(
    ("mode", "padding", "aligned"),
    [
        ("nearest", "zeros", 0),
        ("linear", "border", 1),
        ("cubic", "reflection", 0),
        pytest.param("linear", "reflection", 1, marks=pytest.mark.slow),
        pytest.param("nearest", "border", 0, marks=pytest.mark.slow),
    ],
)
def test_grid_sample(mode: str, padding: str, aligned: int):
    sizes = [((2, 2, 5, 6), (3, 4)), ((1, 3, 2, 2), (2, 1)), ((1, 1, 1, 1), (2, 1)), ((3, 2, 1, 4), (1, 1))]
    sizes.append(((1, 3, 4, 2), (0, 3)))
    runs = [[f(*x), RNG.uniform(-2.5, 2.5, (x[0], *grid, 2)).astype(np.float32)] for x, grid in sizes]
    attributes: dict[str, Any] = {"mode": mode, "padding_mode": padding, "align_corners": aligned}
    module = check_open("GridSample", *runs[:2], opset=22, reference=True, **attributes)
    for arrays in runs[2:]:  # where the reference divides by zero
        model, inputs = node_model("GridSample", arrays, opset=22, **attributes)
        [got], [want] = module(*arrays), run_model(import_model(model), inputs)
        np.testing.assert_allclose(got, want, atol=1e-5)


def test_the_program_chooses_whether_channels_are_rows():
    """Of few channels rows would be short: these are read as many places at once, as where their number is known."""
    runs = [[f(2, channels, 5, 6), RNG.uniform(-1.5, 1.5, (2, 3, 7, 2)).astype(np.float32)] for channels in (9, 1)]
    check_open("GridSample", *runs, opset=22)
    chosen, known = (
        import_model(open_model("GridSample", runs[0], opset=22, fixed=fixed)).module for fixed in ((), ((0, 1),))
    )
    assert CONTROL in str(chosen) and CONTROL not in str(known)


def test_grid_sample_of_volumes():
    sizes = [((2, 2, 3, 4, 5), (2, 3, 2)), ((1, 1, 2, 1, 3), (1, 4, 1))]
    runs = [[f(*x), RNG.uniform(-1.5, 1.5, (x[0], *grid, 3)).astype(np.float32)] for x, grid in sizes]
    check_open("GridSample", *runs, opset=22)


def moved(x: tuple[int, ...], filters: int, group: int, groups: int, outs: tuple[int, int]) -> list[np.ndarray]:
    """x, w, offset, b and mask of a DeformConv with windows of 2 by 3."""
    n, c = x[:2]
    return [f(*x), f(filters, c // group, 2, 3), f(n, groups * 12, *outs), f(filters), f(n, groups * 6, *outs)]


def test_deform_conv():
    attributes: dict[str, Any] = {"group": 2, "offset_group": 2, "pads": [1, 0, 1, 0]}
    sizes = [((2, 4, 5, 6), 4, (6, 4)), ((1, 2, 2, 3), 2, (3, 1)), ((1, 6, 3, 4), 2, (4, 2))]
    runs = [moved(x, filters, 2, 2, outs) for x, filters, outs in sizes]
    module = check_open("DeformConv", *runs, opset=22, tolerance=1e-4, **attributes)
    x, w, *rest = runs[0]
    for wrong in (
        [x[:, :2], w, *rest],
        [x[:, :, :, :2], w, *rest],
        [x, w[:3], *rest],
        [x, w, rest[0][:, :, 1:], *rest[1:]],
    ):
        with pytest.raises(InputError, match="node 'the_DeformConv'"):
            module(*wrong)


def test_a_deform_conv_knows_its_window_from_kernel_shape():
    arrays = moved((2, 4, 5, 6), 4, 1, 1, (4, 4))[:3]
    cases: list[tuple[dict[str, Any], str]] = [({"kernel_shape": [2, 3]}, "in0_2 - 1"), ({}, "in0_2 - in1_2 + 1")]
    for attributes, wanted in cases:
        made = import_model(open_model("DeformConv", arrays, opset=22, **attributes))
        assert str(made.outputs[0].shape[2]) == wanted


@pytest.mark.parametrize("mode", ["avg", "max"])
def test_roi_align(mode: str):
    runs = []
    for shape, count in (((2, 3, 6, 8), 3), ((1, 1, 1, 1), 1), ((2, 2, 4, 3), 0)):
        corners = RNG.uniform(0, 4, (count, 2)).astype(np.float32)
        rois = np.concatenate([corners, corners + RNG.uniform(0.5, 3, (count, 2)).astype(np.float32)], axis=1)
        runs.append([f(*shape), rois, RNG.integers(0, shape[0], count)])
    module = check_open("RoiAlign", *runs, mode=mode, output_height=2, output_width=3, sampling_ratio=2)
    with pytest.raises(InputError, match="node 'the_RoiAlign'"):
        module(f(2, 3, 0, 8), *runs[0][1:])


@pytest.mark.parametrize("said", [True, False])
def test_col2im(said: bool):
    attributes: dict[str, Any] = {"strides": [2, 1], "pads": [1, 0, 1, 0]} if said else {}
    runs = []
    for image, block, blocks in (((5, 6), (3, 2), (3, 5)), ((4, 4), (2, 2), (3, 3)), ((1, 1), (1, 1), (1 + said, 1))):
        runs.append([f(2, 3 * block[0] * block[1], int(np.prod(blocks))), i(*image), i(*block)])
    fixed = [] if said else [(2, 0)]  # attributes, or one of the operands, say how many axes an image has
    module = check_open("Col2Im", *runs, fixed=fixed, **attributes)
    with pytest.raises(InputError, match="node 'the_Col2Im'"):
        module(runs[0][0][:, :, 1:], *runs[0][1:])


def test_col2im_of_any_rank():
    runs = [[f(1, 3, 4), i(6), i(3)], [f(2, 4, 4), i(3, 3), i(2, 2)], [f(1, 8, 8), i(3, 3, 3), i(2, 2, 2)]]
    module = check_open("Col2Im", *runs)
    check_refused(module, "Col2Im", [f(1, 1, 1), i(*[1] * 6), i(*[1] * 6)], "'image_shape' .* must have 1 to 5")
    check_refused(module, "Col2Im", [f(1, 4, 4), i(3, 3), i(2)], "block_shape of shape .* for 2 axes")


def test_affine_grids_of_two_axes_or_three():
    runs = [[f(2, 2, 3), i(2, 3, 4, 5)], [f(2, 3, 4), i(2, 3, 4, 5, 2)]]
    module = check_open("AffineGrid", *runs, opset=20, reference=True)
    check_refused(module, "AffineGrid", [f(2, 2, 3), i(2, 3, 4, 5, 2)], "does not fit a size of 5 extents")
    check_refused(module, "AffineGrid", [f(2, 2, 3), i(2, 3, 4)], "'size' .* must have 4 to 5")


def pooled(n: int, c: int, h: int, w: int) -> list[np.ndarray]:
    """Maxima of windows of 2 by 2, and where they are in the flat input."""
    places = np.arange(n * c * 4 * h * w).reshape(n, c, 2 * h, 2 * w)
    rows, columns = RNG.integers(0, 2, (2, n, c, h, w))
    lines, pixels = np.arange(h)[:, None] * 2 + rows, np.arange(w) * 2 + columns
    batch, channel = np.arange(n)[:, None, None, None], np.arange(c)[None, :, None, None]
    return [f(n, c, h, w), places[batch, channel, lines, pixels]]


@campaign("None", "larger2")
@pytest.mark.parametrize("larger", [None, (0, 0), (1, 2)])
def test_max_unpool(larger: tuple[int, int] | None):
    runs = []
    for n, c, h, w in ((2, 3, 2, 3), (1, 1, 1, 1), (1, 2, 4, 2)):
        shape = [] if larger is None else [i(n, c, 2 * h + larger[0], 2 * w + larger[1])]
        runs.append([*pooled(n, c, h, w), *shape])
    made = open_model("MaxUnpool", runs[0], kernel_shape=[2, 2], strides=[2, 2])
    module = tw.compile(made, workers=0, num_threads=1, cache=False)
    for x, places, *_ in runs:
        n, c, h, w = x.shape
        want = np.zeros((n * c * 4 * h * w), np.float32)
        want[places] = x
        above = [(0, 0), (0, 0), *((0, more) for more in larger or (0, 0))]
        [got] = module(*[x, places, *_])
        np.testing.assert_array_equal(got, np.pad(want.reshape(n, c, 2 * h, 2 * w), above))
    wrong = [*runs[0][:2], i(2, 3, 3, 6)] if larger else [runs[0][0], runs[0][1][:1]]
    with pytest.raises(InputError, match="node 'the_MaxUnpool'"):
        module(*wrong)


@pytest.mark.parametrize("given", ["all", "words"])
def test_embed_layer_normalization(given: str):
    runs = []
    for batch, length, width in ((2, 3, 4), (1, 1, 2), (3, 6, 5)):
        ids, kinds = (RNG.integers(0, n, (batch, length)).astype(np.int32) for n in (9, 2))
        words, places, segments = f(9, width), f(6, width), f(2, width)
        mask = RNG.integers(0, 2, (batch, length)).astype(np.int32)
        more = (kinds, segments, mask) if given == "all" else (None, None, None)
        runs.append([ids, more[0], words, places, more[1], f(width), f(width), more[2]])
    options = {"domain": "com.microsoft", "results": ["float32", "int32"], "tolerance": 1e-4}
    module = check_open("EmbedLayerNormalization", *runs, **options)
    ids, kinds, *rest = runs[0]
    longer = [ids.repeat(3, axis=1), kinds if kinds is None else kinds.repeat(3, axis=1), *rest]
    with pytest.raises(InputError, match="node 'the_EmbedLayerNormalization'"):
        module(*(a for a in longer if a is not None))


def test_non_max_suppression():
    runs = []
    for batch, classes, boxes in ((1, 2, 6), (2, 1, 1), (1, 1, 0), (1, 3, 9)):
        corners = RNG.uniform(0, 4, (batch, boxes, 2)).astype(np.float32)
        both = np.concatenate([corners, corners + np.float32(2)], axis=2)
        limits = [i(4), np.array([0.3], np.float32), np.array([-0.5], np.float32)]
        runs.append([both, f(batch, classes, boxes), *limits])
    check_open("NonMaxSuppression", *runs, results=["int64"])
