"""Resize with scales, sizes, regions or extents that only the run knows: one program for all of them."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import onnx
import pytest
from onnx_case import node_model
from open_case import guarded
from reference import run_model
from samples import campaign, leaving, some_of
from shared_kernels import describe_kernels

import tilewright as tw
from tilewright.core.errors import InputError
from tilewright.core.target import Target
from tilewright.frontends import import_model
from tilewright.tools.debugging.oracle import make_session

RNG = np.random.default_rng(0)
IMAGES = [RNG.random((1, 2, *size), np.float32) for size in ((5, 7), (1, 4), (6, 6))]
COORDINATES = ["half_pixel", "asymmetric", "half_pixel_symmetric"]
ROUNDINGS = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]
SCALES = [(2, 3), (0.7, 0.4), (1.7, 0.37)]


def numbers(*items: float) -> np.ndarray:
    return np.array(items, np.float32)


def open_model(arrays: list[np.ndarray | None], names: str = "..hw", known: tuple[int, ...] = (), **attributes: Any):
    """One Resize whose first input has the named extents open."""
    op, opset = attributes.pop("op", "Resize"), attributes.pop("opset", 19)
    if along := attributes.pop("along", None):
        attributes["axes"] = along
    model, _ = node_model(op, arrays, known, opset=opset, **attributes)
    for dim, name in zip(model.graph.input[0].type.tensor_type.shape.dim, names, strict=True):
        if name != ".":
            dim.dim_param = name
    model.graph.output[0].type.tensor_type.ClearField("shape")
    return model


def check(model: onnx.ModelProto, *runs: tuple[np.ndarray, ...], atol: float = 1e-5) -> None:
    """One program gives what onnxruntime does for every run's inputs."""
    module = tw.compile(model, workers=0, num_threads=1, cache=False)
    session = make_session(model)
    names = [value.name for value in model.graph.input]
    for arrays in runs:
        [want] = session.run(None, dict(zip(names, arrays, strict=True)))
        [got] = module(*arrays)
        want = np.asarray(want)
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, atol=atol)


@campaign("nearest")
@pytest.mark.parametrize("mode", leaving(["nearest", "linear", "cubic"], ["linear"]))
def test_open_extents(mode):
    model = open_model([IMAGES[0], None, numbers(1, 1, 2, 0.6)], known=(2,), mode=mode)
    check(model, *((x,) for x in (*IMAGES[::2], np.ones((1, 2, 4, 11), np.float32))))


@pytest.mark.parametrize(("coordinates", "rounding"), some_of(itertools.product(COORDINATES, ROUNDINGS), 7))
def test_nearest_by_scales(coordinates, rounding):
    attributes = {"coordinate_transformation_mode": coordinates, "nearest_mode": rounding}
    model = open_model([IMAGES[0], None, numbers(1, 1, 2, 3)], **attributes)
    check(model, *((x, numbers(1, 1, *s)) for x in IMAGES[::2] for s in SCALES), atol=0)


@campaign("half_pixel-round_prefer_floor", "align_corners-floor")
@pytest.mark.parametrize(
    ("coordinates", "rounding"), some_of(itertools.product([*COORDINATES, "align_corners"], ROUNDINGS), 7)
)
def test_nearest_by_whole_numbers(coordinates, rounding):
    attributes = {"coordinate_transformation_mode": coordinates, "nearest_mode": rounding}
    model = open_model([IMAGES[0], None, numbers(1, 1, 2, 3)], "..hw", (2,), **attributes)
    check(model, *((x,) for x in IMAGES), atol=0)


@campaign(
    "0.25-linear-half_pixel",
    "0.5-nearest-asymmetric",
    "0.5-nearest-half_pixel",
    "0.5-cubic-half_pixel_symmetric",
    "0.25-cubic-asymmetric",
    "0.25-nearest-half_pixel_symmetric",
)
@pytest.mark.parametrize("coordinates", ["half_pixel", "asymmetric", "half_pixel_symmetric"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("scale", [0.5, 0.25])
def test_axes_that_become_smaller_by_a_whole_factor(mode, coordinates, scale):
    """Neighbours of which each is one slice, but for those that a border repeats."""
    attributes = {"coordinate_transformation_mode": coordinates, "nearest_mode": "floor", "mode": mode}
    model = open_model([IMAGES[0], None, numbers(1, 1, scale, scale)], "..hw", (2,), **attributes)
    texts = str(import_model(model.SerializeToString()).module)
    slices = coordinates != "half_pixel_symmetric" and (mode, coordinates, scale) != ("cubic", "half_pixel", 0.5)
    assert ("tensor.extract %" not in texts) == slices
    check(model, *((RNG.random((1, 2, *size), np.float32),) for size in ((4, 5), (8, 8), (7, 9), (16, 13), (39, 24))))


@pytest.mark.parametrize(("rounding", "gathers"), [("floor", False), ("ceil", True)])
def test_an_axis_that_only_repeats_is_broadcast(rounding, gathers):
    attributes = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": rounding}
    model = open_model([IMAGES[0], None, numbers(1, 1, 2, 3)], "..hw", (2,), **attributes)
    assert ("tensor.extract" in str(import_model(model).module)) == gathers


@pytest.mark.parametrize(
    ("coordinates", "mode"),
    leaving(
        itertools.product(["pytorch_half_pixel", "half_pixel_symmetric"], ["linear", "cubic"]),
        [("pytorch_half_pixel", "cubic"), ("half_pixel_symmetric", "linear"), ("half_pixel_symmetric", "cubic")],
    ),
)
def test_interpolation_by_scales(coordinates, mode):
    model = open_model([IMAGES[0], None, numbers(1, 1, 2, 3)], coordinate_transformation_mode=coordinates, mode=mode)
    check(model, *((x, numbers(1, 1, *s)) for x in IMAGES[::2] for s in SCALES))


@pytest.mark.parametrize(
    ("mode", "outside"), leaving(itertools.product(["linear", "cubic"], [0, 1]), [("linear", 0), ("cubic", 1)])
)
def test_antialias_by_scales(mode, outside):
    model = open_model([IMAGES[0], None, numbers(2, 3)], mode=mode, antialias=1, exclude_outside=outside, along=[2, 3])
    check(model, *((IMAGES[0], numbers(*s)) for s in ((2, 3), (0.6, 0.5), (0.3, 0.2))))


@campaign("nearest-not_smaller", "linear-not_larger")
@pytest.mark.parametrize(
    ("mode", "policy"), some_of(itertools.product(["nearest", "linear"], ["stretch", "not_larger", "not_smaller"]), 2)
)
def test_sizes(mode, policy):
    attributes = {"along": [2, 3], "keep_aspect_ratio_policy": policy, "mode": mode}
    model = open_model([IMAGES[0], None, None, np.array([9, 4])], **attributes)
    check(model, *((x, np.array(sizes)) for x in IMAGES for sizes in ((9, 4), (2, 13))))


@campaign("cubic-0", "nearest-0")
@pytest.mark.parametrize(
    ("mode", "antialias"), leaving([("linear", 0), ("linear", 1), ("cubic", 0), ("nearest", 0)], [("linear", 0)])
)
def test_axes_stay_whose_extents_are_equal(mode, antialias):
    """Only the run knows for which of the four that is so; onnxruntime resizes none but the last two."""
    model = open_model([IMAGES[0], None, None, np.array([1, 2, 9, 4])], "nchw", mode=mode, antialias=antialias)
    images = [RNG.random(shape, np.float32) for shape in ((1, 2, 9, 4), (1, 2, 5, 4), (1, 2, 9, 7), (3, 5, 6, 11))]
    wanted = [(9, 4), (5, 7), (6, 11)]
    check(model, *((x, np.array([*x.shape[:2], *sizes])) for x in images for sizes in wanted))


@pytest.mark.parametrize("mode", leaving(["nearest", "linear"], ["nearest"]))
def test_aligned_corners_by_sizes(mode):
    attributes = {"coordinate_transformation_mode": "align_corners", "mode": mode}
    model = open_model([IMAGES[0], None, None, np.array([1, 2, 9, 4])], **attributes)
    check(model, *((x, np.array([1, 2, *sizes])) for x in IMAGES for sizes in ((9, 4), (1, 13))))


@campaign("cubic")
@pytest.mark.parametrize("mode", leaving(["nearest", "linear", "cubic"], ["linear"]))
def test_crop_by_a_region(mode):
    attributes = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 7.5, "mode": mode}
    model = open_model([IMAGES[0], numbers(0, 0, 0, 0, 1, 1, 1, 1), numbers(1, 1, 2, 3)], known=(2,), **attributes)
    regions = ((-0.1, 0.2, 0.9, 1.7), (0, 0, 1, 1), (0.3, 0.1, 0.4, 0.9))
    check(model, *((x, numbers(0, 0, *r[:2], 1, 1, *r[2:])) for x in IMAGES[::2] for r in regions))


@pytest.mark.parametrize("mode", leaving(["nearest", "linear"], ["linear"]))
def test_the_first_versions(mode):
    model = open_model([IMAGES[0], numbers(1, 1, 2, 3)], op="Upsample", opset=9, mode=mode)
    check(model, *((x, numbers(1, 1, 2, 1.5)) for x in IMAGES))


@pytest.mark.parametrize(
    ("dtype", "coordinates"),
    some_of(
        itertools.product([np.float32, np.float64], ["tf_half_pixel_for_nn", "align_corners", "tf_crop_and_resize"]), 2
    ),
)
def test_the_programs_tables_are_the_imports(coordinates, dtype):
    attributes = {"coordinate_transformation_mode": coordinates, "nearest_mode": "floor"}  # which shows the last bit
    line, roi = RNG.random(31, dtype), np.array([0.13, 0.87], dtype)
    module = tw.compile(open_model([line, roi, numbers(2)], "h", **attributes), workers=0, num_threads=1, cache=False)
    for scale in (1.7, 0.7, 0.37):
        model, _ = node_model("Resize", [line, roi, numbers(scale)], (1, 2), opset=19, **attributes)
        [want] = run_model(import_model(model), {"in0": line})
        np.testing.assert_array_equal(module(line, roi, numbers(scale))[0], want)


def test_an_axis_that_stays_mixes_nothing():
    image = np.zeros((1, 2, 2, 2), np.float32)
    image[0, 1] = np.inf
    model = open_model([image, None, numbers(1, 1, 2, 2)], "....", mode="linear")
    [got] = tw.compile(model, workers=0, num_threads=1, cache=False)(image, numbers(1, 1, 2, 2))
    assert (got[0, 0] == 0).all() and (got[0, 1] == np.inf).all()


def test_whole_scales_keep_sizes_symbolic():
    model = open_model([IMAGES[0], None, numbers(1, 1, 2, 0.25)], known=(2,))
    assert [str(n) for n in import_model(model).outputs[0].shape] == ["1", "2", "2*h", "floordiv(w, 4)"]


def test_axes_that_may_stay_leave_known_extents_known():
    """Channels that are last, above all: kernels of three known channels have blocks of many pixels."""
    image = RNG.random((1, 5, 6, 3), np.float32)
    model = open_model([image, None, None, np.array([1, 7, 4, 3])], ".hw.", (3,), mode="linear")
    channels = re.findall(r"tensor<(?:[\d?]+x){3}([\d?]+)xf32>", str(import_model(model).module))
    assert set(channels) == {"3"}
    check(model, *((RNG.random((1, *size, 3), np.float32),) for size in ((5, 6), (7, 6), (5, 4), (7, 4), (1, 1))))


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_an_open_batch_leaves_the_tables_to_the_import(mode):
    static, _ = node_model("Resize", [IMAGES[0], None, numbers(1, 1, 2, 2)], (2,), opset=19, mode=mode)
    model = open_model([IMAGES[0], None, numbers(1, 1, 2, 2)], "n...", (2,), mode=mode)
    texts = [str(import_model(m).module) for m in (static, model)]
    assert texts[0].count("linalg.generic") == texts[1].count("linalg.generic")
    check(model, *((np.concatenate([IMAGES[0]] * n),) for n in (1, 3)))


def test_the_number_of_scales_may_be_open():
    model = open_model([IMAGES[0], None, numbers(1, 1, 2, 2)], "....")
    model.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "n"
    check(model, (IMAGES[0], numbers(1, 1, 2, 3)))
    with pytest.raises(InputError):
        tw.compile(model, workers=0, num_threads=1, cache=False)(IMAGES[0], numbers(1, 1, 2))


def test_an_axis_without_elements_is_refused():
    model = open_model([IMAGES[0], None, None, np.array([1, 2, 9, 4])])
    module = tw.compile(model, workers=0, num_threads=1, cache=False)
    with pytest.raises(InputError, match="an axis without elements cannot be resized"):
        module(np.zeros((1, 2, 0, 3), np.float32), np.array([1, 2, 9, 4]))


def test_rows_of_interpolated_images_go_eight_at_a_time() -> None:
    """Along either axis; of one row and of nine, of less than a vector and of more than a block."""
    images = [RNG.random((2, 3, *size), np.float32) for size in ((4, 9), (1, 3), (9, 130), (16, 1))]
    twice = numbers(1, 1, 2, 2)
    made = open_model([images[0], None, twice], "nchw", known=(2,), mode="linear")
    kernels = describe_kernels(made, Target.parse("x86 -mcpu=x86-64-v3"))
    blocks = [kernel.schedule.split("\n", 1)[0] for name, kernel in kernels.items() if "mins_add_mul" in name]
    assert blocks == ["blocks of 1 x 1 x 8 x 256:"] * 2
    with guarded():
        module = tw.compile(made, workers=0, num_threads=2, cache=False)
    for image in images:
        [want] = make_session(made).run(None, {made.graph.input[0].name: image})
        np.testing.assert_allclose(module(image)[0], want, rtol=1e-5, atol=1e-6)
