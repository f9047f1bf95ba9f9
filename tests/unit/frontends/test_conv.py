"""Convolutions against onnxruntime: ranks, strides, dilations, groups, paddings."""

from typing import Any

import numpy as np
import pytest
from onnx import helper
from onnx_case import check_node, node_model

import tilewright as tw
from tilewright.core.errors import ModelError
from tilewright.frontends import import_model
from tilewright.tools.debugging.oracle import make_session

RNG = np.random.default_rng(0)


def random(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, dtype=np.float32)


CONVOLUTIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "plain": ((1, 3, 7, 8), (4, 3, 3, 3), {}),
    "strides_and_uneven_pads": ((2, 3, 7, 8), (4, 3, 3, 2), {"strides": [2, 3], "pads": [1, 0, 2, 1]}),
    "dilations": ((1, 2, 9, 9), (3, 2, 3, 3), {"dilations": [2, 3], "pads": [2, 3, 2, 3]}),
    "depthwise": ((1, 4, 6, 6), (4, 1, 3, 3), {"group": 4, "pads": [1, 1, 1, 1]}),
    "depthwise_with_multiplier": ((1, 3, 6, 6), (6, 1, 3, 3), {"group": 3}),
    "groups": ((1, 4, 5, 5), (6, 2, 2, 2), {"group": 2}),
    "one_dim": ((2, 3, 11), (5, 3, 4), {"strides": [2], "pads": [1, 2]}),
    "three_dims": ((1, 2, 4, 5, 6), (3, 2, 2, 3, 2), {"pads": [0, 1, 1, 1, 0, 1]}),
    "same_upper": ((1, 2, 6, 7), (3, 2, 3, 4), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    "same_lower": ((1, 2, 6, 7), (3, 2, 3, 4), {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
    "valid": ((1, 2, 6, 7), (3, 2, 3, 3), {"auto_pad": "VALID"}),
    "rate_beyond_the_image": ((1, 3, 5, 6), (4, 3, 3, 3), {"dilations": [6, 5], "pads": [6, 5, 6, 5]}),
    "padding_that_no_rate_divides": ((1, 2, 4), (3, 2, 5), {"dilations": [3], "strides": [2], "pads": [8, 4]}),
    "padding_alone": ((1, 2, 1), (3, 2, 2), {"dilations": [3], "strides": [9], "pads": [1, 5]}),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_conv(name: str) -> None:
    x, w, attributes = CONVOLUTIONS[name]
    check_node("Conv", random(*x), random(*w), random(w[0]), **attributes)


def test_taps_that_read_padding_alone_are_left_out() -> None:
    model, _ = node_model(
        "Conv", [random(1, 3, 5, 6), random(4, 3, 3, 3)], [1], dilations=[6, 5], pads=[6, 5, 6, 5], opset=17
    )
    assert "tensor.extract_slice %arg1[0, 0, 1, 0] [4, 3, 1, 3]" in str(import_model(model).module)


TRANSPOSED: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "plain": ((1, 3, 4, 5), (3, 2, 3, 3), {}),
    "strides": ((1, 3, 4, 5), (3, 2, 3, 2), {"strides": [2, 3], "pads": [1, 0, 1, 1]}),
    "output_padding": ((1, 2, 4, 4), (2, 3, 3, 3), {"strides": [2, 2], "output_padding": [1, 1], "pads": [1, 1, 1, 1]}),
    "output_shape": ((1, 2, 4, 4), (2, 3, 3, 3), {"strides": [2, 2], "output_shape": [8, 8]}),
    "dilations": ((1, 2, 4, 4), (2, 3, 2, 2), {"dilations": [2, 2]}),
    "groups": ((1, 4, 3, 3), (4, 3, 2, 2), {"group": 2, "strides": [2, 2]}),
    "groups_of_few_outputs": ((1, 4, 3, 3), (4, 1, 4, 4), {"group": 4, "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "depthwise": ((2, 3, 4, 5), (3, 1, 8, 6), {"group": 3, "strides": [4, 3], "pads": [2, 1, 2, 2]}),
    "groups_in_parts": ((1, 4, 3, 4), (4, 16, 3, 3), {"group": 2, "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "one_dim": ((1, 2, 5), (2, 3, 4), {"strides": [3]}),
    "stride_of_the_kernel": ((2, 3, 4, 5), (3, 2, 2, 2), {"strides": [2, 2]}),
    "stride_beyond_the_kernel": ((1, 3, 4, 5), (3, 2, 2, 1), {"strides": [3, 2], "output_padding": [2, 1]}),
    "single_pixels_apart": ((2, 5, 3, 4, 2), (5, 4, 1, 1, 1), {"strides": [2, 2, 3]}),
    "gaps_along_one_axis": ((1, 3, 4, 5), (3, 2, 2, 4), {"strides": [3, 2], "pads": [1, 1, 2, 0]}),
    "gaps_that_are_cut_off": ((1, 3, 4, 5), (3, 2, 1, 2), {"strides": [3, 4], "pads": [2, 1, 1, 3]}),
    "gaps_of_groups": ((1, 4, 3, 3), (4, 1, 1, 2), {"group": 4, "strides": [2, 3], "output_padding": [1, 2]}),
    "dilated_by_the_stride": (
        (1, 3, 4, 5),
        (3, 2, 3, 2),
        {"strides": [2, 3], "dilations": [2, 3], "pads": [1, 2, 0, 1]},
    ),
    "dilated_by_twice_the_stride": ((1, 4, 3, 4), (4, 2, 3, 3), {"strides": [2, 2], "dilations": [4, 1], "group": 2}),
    "stride_of_twice_the_dilation": (
        (2, 3, 4, 3),
        (3, 4, 4, 3),
        {"strides": [4, 2], "dilations": [2, 2], "output_padding": [3, 1], "pads": [1, 1, 2, 0]},
    ),
    "dilated_beside_the_stride": (
        (2, 3, 4, 5),
        (3, 2, 3, 4),
        {"strides": [2, 3], "dilations": [3, 2], "pads": [1, 4, 0, 2], "output_padding": [1, 0]},
    ),
    "dilated_groups": ((1, 4, 3, 4), (4, 2, 3, 2), {"strides": [2, 2], "dilations": [3, 1], "group": 2}),
    "dilated_with_gaps": ((1, 3, 4, 3), (3, 2, 2, 2), {"strides": [5, 4], "dilations": [2, 3], "pads": [1, 0, 2, 3]}),
    "dilated_of_both_kinds": ((1, 3, 4, 3), (3, 2, 3, 2), {"strides": [2, 2], "dilations": [4, 3]}),
    "one_pixel": ((2, 3, 1, 1), (3, 5, 4, 3), {}),
    "one_pixel_of_groups": ((2, 4, 1, 1), (4, 3, 2, 3), {"group": 2, "dilations": [3, 2], "strides": [2, 2]}),
    "one_pixel_cut_off": ((1, 3, 1), (3, 2, 5), {"pads": [2, 1], "output_padding": [1], "strides": [2]}),
    "dilated_pixel": ((1, 3, 4, 5), (3, 2, 1, 3), {"strides": [2, 2], "dilations": [3, 1]}),
    "kernel_of_two_strides_and_a_bit": ((1, 2, 3, 4), (2, 3, 5, 4), {"strides": [2, 3], "pads": [2, 1, 0, 3]}),
    "filters_in_parts": (
        (1, 2, 4, 5),
        (2, 16, 3, 3),
        {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]},
    ),
    "positions_cut_off_on_each_side": ((1, 2, 3, 3), (2, 16, 4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "part_of_three_remainders": ((2, 3, 5), (3, 17, 5), {"strides": [4], "pads": [0, 1]}),
    "three_dims": ((1, 2, 2, 3, 2), (2, 3, 3, 2, 1), {"strides": [2, 1, 2], "pads": [1, 0, 0, 1, 1, 0]}),
    "one_filter": ((2, 8, 4, 5), (8, 1, 4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "one_filter_of_uneven_pads": ((1, 8, 4, 5), (8, 1, 4, 3), {"strides": [3, 2], "pads": [0, 2, 3, 1]}),
    "two_filters": ((1, 12, 3, 4), (12, 2, 3, 3), {"strides": [2, 2], "pads": [1] * 4, "output_padding": [1, 1]}),
    "one_filter_step_by_step": ((1, 6, 5, 4), (6, 1, 3, 3), {"pads": [1, 0, 2, 1]}),
    "one_filter_of_a_group": ((2, 10, 3, 4), (10, 1, 3, 3), {"group": 2, "strides": [2, 2]}),
    "one_filter_along_a_line": ((1, 6, 5), (6, 1, 11), {"strides": [5], "pads": [3, 3]}),
    "one_filter_of_volumes": ((1, 14, 2, 3, 2), (14, 1, 3, 3, 3), {"strides": [2, 2, 2], "pads": [1, 0, 0, 1, 1, 0]}),
    "one_filter_whose_image_is_cut_off": ((1, 5, 4, 4), (5, 1, 3, 3), {"strides": [2, 2], "pads": [3, 4, 3, 3]}),
    "more_padding_than_reach": ((1, 1, 5, 5), (1, 1, 2, 2), {"pads": [2, 2, 2, 2], "strides": [2, 2]}),
}


@pytest.mark.parametrize("name", TRANSPOSED)
def test_conv_transpose(name: str) -> None:
    x, w, attributes = TRANSPOSED[name]
    check_node("ConvTranspose", random(*x), random(*w), random(w[1] * attributes.get("group", 1)), **attributes)


def test_outputs_that_no_window_falls_on_are_not_computed() -> None:
    x, w = random(1, 6, 4, 5), random(6, 8, 1, 1)
    model, _ = node_model("ConvTranspose", [x, w], [1], strides=[2, 2])
    text = str(import_model(model).module)
    assert "tensor<1x8x4x5xf32>" in text and "1x32x" not in text


def test_zeros_between_dilated_outputs_are_not_computed() -> None:
    """All outputs of windows that are dilated by the stride are multiples of it."""
    x, w = random(1, 6, 4, 5), random(6, 8, 3, 3)
    model, _ = node_model("ConvTranspose", [x, w], [1], strides=[2, 2], dilations=[2, 2])
    text = str(import_model(model).module)
    assert "tensor<1x6x8x9xf32>" in text and "tensor<1x6x7x9xf32>" not in text


def test_zeros_between_outputs_that_lie_beside_the_stride_are_not_computed() -> None:
    """Products of pixels are added, where neither zeros between pixels nor gaps in windows are multiplied."""
    x, w = random(1, 6, 4, 5), random(6, 8, 3, 3)
    model, _ = node_model("ConvTranspose", [x, w], [1], strides=[2, 2], dilations=[3, 3])
    text = str(import_model(model).module)
    assert "tensor<1x72x4x5xf32>" in text and "tensor<1x6x7x9xf32>" not in text


def test_a_single_pixel_is_multiplied_once_with_each_element_of_a_window() -> None:
    x, w = random(1, 6, 1, 1), random(6, 8, 4, 4)
    model, _ = node_model("ConvTranspose", [x, w], [1])
    text = str(import_model(model).module)
    assert "tensor<1x1x128xf32>" in text and "7x7" not in text


@pytest.mark.parametrize(
    ("data", "weight", "group"),
    [
        ((2, 12, 1, 1), (5, 12, 1, 1), 1),
        ((1, 12, 3, 4), (6, 4, 3, 4), 3),
        ((9, 8, 5), (11, 8, 5), 1),
        ((2, 6, 3, 3), (1, 6, 3, 3), 1),
    ],
)
def test_windows_as_large_as_the_image_are_products(data: tuple[int, ...], weight: tuple[int, ...], group: int) -> None:
    model, inputs = node_model("Conv", [random(*data), random(*weight), random(weight[0])], group=group)
    module = tw.compile(model, workers=0, num_threads=1, cache=False)
    [got], [want] = module.run(inputs), make_session(model).run(None, inputs)
    np.testing.assert_allclose(got, want, atol=1e-5)


def test_a_program_reads_nothing_below_its_image() -> None:
    """The remainder of one row of the window is a convolution by single pixels, whose padding no loop leaves out."""
    x, w = random(2, 3, 4, 5), random(3, 3, 3, 3)
    model, inputs = node_model("ConvTranspose", [x, w], [1], strides=[3, 3], pads=[1] * 4, output_padding=[2, 2])
    [got] = tw.compile(model, workers=0, num_threads=1, cache=False).run(inputs)
    [want] = make_session(model).run(None, inputs)
    np.testing.assert_allclose(got, want, atol=1e-5)


def test_channels_that_do_not_fit_are_refused() -> None:
    model, _ = node_model("Conv", [random(1, 3, 5, 5), random(2, 3, 3, 3)])
    model.graph.input[1].type.tensor_type.shape.dim[1].dim_value = 4
    with pytest.raises(ModelError, match="the_Conv"):
        import_model(model)


@pytest.mark.parametrize(
    ("attributes", "says"),
    [
        ({"strides": [0, 1]}, r"'strides' is \[0, 1\]: 0 is less than 1"),
        ({"dilations": [1, -1]}, r"'dilations' is \[1, -1\]: -1 is less than 1"),  # reads what is before the input
        ({"strides": [1]}, "'strides' has 1 numbers for 2 spatial axes"),
        ({"pads": [1, 1]}, "'pads' has 2 numbers for 2 spatial axes"),
        ({"group": 0}, r"axis \d is not group\*[cm] \(group=0\)"),
        ({"group": -1}, r"axis \d is not group\*[cm] \(group=-1\)"),
        ({"kernel_shape": [3, 2]}, r"w has shape .*, but axis 3 is not 2 \(kernel_shape=\[3, 2\]\)"),
    ],
)
@pytest.mark.parametrize("op", ["Conv", "ConvTranspose"])
def test_windows_that_cannot_be_are_refused(op: str, attributes: dict[str, Any], says: str) -> None:
    model, _ = node_model(op, [random(1, 3, 5, 5), random(3, 3, 3, 3)])
    model.graph.node[0].attribute.extend(helper.make_attribute(name, value) for name, value in attributes.items())
    with pytest.raises(ModelError, match=says):
        import_model(model)


@pytest.mark.parametrize(
    ("bias", "strides", "says"),
    [
        ((2, 1), [1, 1], r"b has shape \[2, 1\], it must be \[group\*m\]"),
        ((3,), [2, 2], r"b has shape \[3\], .* axis 0 is not group\*m = 2 \(w is .* of shape \[3, 2, 3, 3\]"),
        ((2,), [1 << 40, 1], "its output of shape .* takes .* bytes"),
    ],
)
def test_transposed_convolutions_that_cannot_be_are_refused(
    bias: tuple[int, ...], strides: list[int], says: str
) -> None:
    arrays = [random(1, 3, 5, 5), random(3, 2, 3, 3), random(*bias)]
    model, _ = node_model("ConvTranspose", arrays, strides=strides)
    with pytest.raises(ModelError, match=says):
        import_model(model)
