"""Resize and Upsample against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator
from onnx_case import check_node, node_model
from reference import run_model
from samples import campaign

from tilewright.core.errors import ModelError
from tilewright.driver import api
from tilewright.frontends import import_model

X = np.random.default_rng(0).random((1, 2, 5, 7), np.float32)
COORDINATES = ["half_pixel", "pytorch_half_pixel", "asymmetric", "half_pixel_symmetric"]
SCALES = [(2, 3), (0.7, 0.4), (1.7, 0.37)]


def scales(*spatial: float) -> np.ndarray:
    return np.array([1, 1, *spatial], np.float32)


@campaign(every=3)
@pytest.mark.parametrize("rounding", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
@pytest.mark.parametrize("coordinates", COORDINATES)
def test_nearest(coordinates, rounding):
    attributes = {"coordinate_transformation_mode": coordinates, "nearest_mode": rounding}
    for scale in SCALES:
        check_node("Resize", X, None, scales(*scale), known=[2], opset=19, **attributes)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("coordinates", COORDINATES)
def test_interpolation(coordinates, mode):
    attributes = {"coordinate_transformation_mode": coordinates, "mode": mode}
    for scale in SCALES:
        check_node("Resize", X, None, scales(*scale), known=[2], opset=19, atol=1e-5, **attributes)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_aligned_corners(mode):
    attributes = {"coordinate_transformation_mode": "align_corners", "mode": mode}
    check_node("Resize", X, None, scales(2, 3), known=[2], atol=1e-5, **attributes)
    check_node("Resize", X, None, scales(0.6, 2 / 7), known=[2], atol=1e-5, **attributes)
    check_node("Resize", X, None, scales(0.2, 1 / 7), known=[2], atol=1e-5, **attributes)
    for sizes in ((3, 11), (1, 2), (13, 6)):
        check_node("Resize", X, None, None, np.array([1, 2, *sizes]), known=[3], atol=1e-5, **attributes)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("coordinates", ["align_corners", "tf_crop_and_resize"])
def test_a_resized_length_may_be_fractional(coordinates, mode):
    roi = np.array([0, 0, 0.1, 0, 1, 1, 0.9, 1], np.float32)
    attributes = {"coordinate_transformation_mode": coordinates, "mode": mode}
    for scale in SCALES[1:]:  # as ONNX's reference has it; onnxruntime takes the extent
        model, inputs = node_model("Resize", [X, roi, scales(*scale)], known=[1, 2], opset=19, **attributes)
        [want] = map(np.asarray, ReferenceEvaluator(model).run(None, inputs))
        np.testing.assert_allclose(run_model(import_model(model), inputs)[0], want, atol=1e-5)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_crop_with_extrapolation(mode):
    roi = np.array([0, 0, -0.1, 0.2, 1, 1, 0.9, 1.7], np.float32)
    attributes = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 7.5, "mode": mode}
    check_node("Resize", X, roi, scales(2, 3), known=[1, 2], atol=1e-5, **attributes)


def test_a_region_around_the_input_is_extrapolated_where_the_inside_repeats():
    image, roi = np.array([[1, 2], [3, 4]], np.float32), np.array([-0.2, 0, 1.2, 1], np.float32)
    attributes = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 7.5}
    check_node("Resize", image, roi, None, np.array([4, 4]), known=[1, 3], **attributes)


@pytest.mark.parametrize("outside", [0, 1])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_antialias(mode, outside):
    for scale in ((2, 3), (0.6, 0.5), (0.3, 0.2)):
        check_node(
            "Resize", X, None, scales(*scale), known=[2], atol=1e-5, mode=mode, antialias=1, exclude_outside=outside
        )


@pytest.mark.parametrize("size", [(2, 3), (1, 1), (600, 2)])
def test_antialias_over_many_neighbours(size):
    tall = np.random.default_rng(1).random((1, 1, 601, 3), np.float32)
    sizes = np.array([1, 1, *size])
    check_node("Resize", tall, None, None, sizes, known=[3], atol=1e-5, mode="linear", antialias=1, opset=19)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_antialias_has_vectors_along_both_axes(mode):
    arrays = [np.zeros((1, 3, 48, 64), np.float32), None, None, np.array([1, 3, 22, 22])]
    model, _ = node_model("Resize", arrays, [3], opset=19, mode=mode, antialias=1)
    kernels = api.stepwise(model, options=api.make_options()).kernels
    assert len(kernels) == 2 and all(kernel.schedule for kernel in kernels.values())


def test_cubic_without_what_lies_outside():
    check_node(
        "Resize", X, None, scales(2, 3), known=[2], atol=1e-5, mode="cubic", exclude_outside=1, cubic_coeff_a=-0.5
    )


@pytest.mark.parametrize("policy", ["stretch", "not_larger", "not_smaller"])
def test_sizes(policy):
    sizes = np.array([9, 4])
    attributes = {"axes": [2, 3], "keep_aspect_ratio_policy": policy}
    check_node("Resize", X, None, None, sizes, known=[3], mode="linear", **attributes)
    check_node("Resize", X, None, None, sizes, known=[3], **attributes)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_the_first_versions(mode):
    check_node("Resize", X, scales(1.5, 2.3), known=[1], mode=mode, opset=10)
    check_node("Resize", X, scales(0.6, 0.6), known=[1], mode=mode, opset=10)
    check_node("Upsample", X, scales(2, 3), known=[1], mode=mode, opset=9)
    check_node("Upsample", X, opset=8, scales=[1.0, 1.0, 2.0, 2.0], mode=mode)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_integers_are_rounded_and_stay_in_range(mode, dtype):
    info = np.iinfo(dtype)
    numbers = np.where(X > 0.5, info.max, info.min) if info.bits < 64 else X * 1000  # steps, where cubic overshoots
    arrays = [numbers.astype(dtype), None, scales(2, 2)]  # which has exact weights
    model, inputs = node_model("Resize", arrays, known=[2], opset=19, mode=mode)
    [want] = ReferenceEvaluator(model).run(None, inputs)
    np.testing.assert_array_equal(run_model(import_model(model), inputs)[0], want)


def test_linear_on_every_axis_of_any_rank():
    line = np.arange(4, dtype=np.float32)
    model, inputs = node_model("Resize", [line, None, np.array([2], np.float32)], known=[2], mode="linear")
    got = run_model(import_model(model), inputs)[0]
    np.testing.assert_allclose(got, [0, 0.25, 0.75, 1.25, 1.75, 2.25, 2.75, 3], rtol=1e-6)


@pytest.mark.parametrize(("mode", "factor"), [("linear", 2), ("linear", 3), ("cubic", 3)])
def test_a_whole_factor_needs_no_gather(mode: str, factor: int) -> None:
    x = np.random.default_rng(1).random((1, 2, 12, 36), np.float32)
    sizes = np.array([1, 2, 12 // factor, 36 // factor])
    model, _ = node_model("Resize", [x, None, None, sizes], [3], mode=mode)
    assert "tensor.extract " not in str(import_model(model).module)
    for rows in (12 // factor, 5):  # the other axis reads slices at computed places
        check_node("Resize", x, None, None, np.array([1, 2, rows, 36 // factor]), known=[3], atol=1e-5, mode=mode)


def test_repeating_and_skipping_need_no_gather():
    for scale, coordinates, rounding in (
        ((2, 2), "asymmetric", "floor"),
        ((3, 2), "half_pixel", "round_prefer_floor"),
        ((0.2, 1), "half_pixel", "floor"),
    ):
        attributes: dict[str, Any] = {"coordinate_transformation_mode": coordinates, "nearest_mode": rounding}
        model, _ = node_model("Resize", [X, None, scales(*scale)], [2], **attributes)
        assert "tensor.extract " not in str(import_model(model).module)


@pytest.mark.parametrize("scale", [0, -1, np.inf, np.nan])
def test_scales_that_make_no_sense(scale):
    model, _ = node_model("Resize", [X, None, scales(2, scale)], [2])
    with pytest.raises(ModelError, match=r"scales \[1.0, 1.0, 2.0, .*\] are not all positive numbers"):
        import_model(model)


def test_neither_scales_nor_sizes():
    model, _ = node_model("Resize", [X, None, None, np.array([1, 2, 3, 4])], known=[3])
    del model.graph.node[0].input[1:]
    with pytest.raises(ModelError, match="neither scales nor sizes are given"):
        import_model(model)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize"])
@pytest.mark.parametrize("sizes", [(), (9, 4)])
def test_coordinates_of_float64_are_float64(coordinates, mode, sizes):
    wide, roi = X.astype(np.float64), np.array([0, 0, 0.1, 0, 1, 1, 0.9, 1])
    numbers = [None, np.array([1, 2, *sizes])] if sizes else [scales(1.7, 0.37)]
    attributes = {"coordinate_transformation_mode": coordinates, "mode": mode, "nearest_mode": "round_prefer_ceil"}
    model, inputs = node_model("Resize", [wide, roi, *numbers], known=[1, 2, 3][: 3 if sizes else 2], **attributes)
    [want] = map(np.asarray, ReferenceEvaluator(model).run(None, inputs))
    rtol = 2e-6 if mode == "cubic" else 1e-12  # the reference's cubic weights are float32, as the attribute is
    np.testing.assert_allclose(run_model(import_model(model), inputs)[0], want, rtol=rtol, atol=rtol)
