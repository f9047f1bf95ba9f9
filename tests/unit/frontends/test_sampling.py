"""GridSample, AffineGrid and DeformConv against ONNX's reference, and onnxruntime where many are computed."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_runner import CompiledPlan
from onnx.reference import ReferenceEvaluator
from onnx_case import check_node, node_model
from reference import run_model
from samples import campaign

from tilewright.core.errors import ModelError
from tilewright.core.target import Target
from tilewright.dialects.context import make_context
from tilewright.frontends import import_model
from tilewright.passes.pipeline import plan

RANDOM = np.random.default_rng(0)
INF = float("inf")


def check(op, *arrays, opset=22, atol=1e-5, **attributes):
    model, inputs = node_model(op, arrays, opset=opset, **attributes)
    [want] = map(np.asarray, ReferenceEvaluator(model).run(None, inputs))
    [got] = run_model(import_model(model), inputs)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    np.testing.assert_allclose(got, want, atol=atol)


def sampled(x, grid, **attributes):
    model, inputs = node_model("GridSample", [x, grid], opset=22, **attributes)
    return run_model(import_model(model), inputs)[0]


@campaign(every=5)
@pytest.mark.parametrize("aligned", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("spatial", [(7,), (5, 6), (2, 3, 2)])
def test_grid_sample(spatial, mode, padding, aligned):
    x = RANDOM.standard_normal((2, 2, *spatial)).astype(np.float32)
    grid = RANDOM.uniform(-2.5, 2.5, (2, *[2] * len(spatial), len(spatial))).astype(np.float32)
    check("GridSample", x, grid, mode=mode, padding_mode=padding, align_corners=aligned)


@pytest.mark.parametrize(("mode", "padding"), [("bilinear", "zeros"), ("bicubic", "zeros"), ("nearest", "reflection")])
def test_grid_sample_has_other_names_at_opset_16(mode, padding):
    x = RANDOM.standard_normal((1, 2, 4, 5)).astype(np.float32)
    grid = RANDOM.uniform(-1.5, 1.5, (1, 3, 3, 2)).astype(np.float32)
    model, inputs = node_model("GridSample", [x, grid], opset=16, mode=mode, padding_mode=padding)
    [got] = run_model(import_model(model), inputs)
    later = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    np.testing.assert_array_equal(got, sampled(x, grid, mode=later, padding_mode=padding))


@pytest.mark.parametrize("aligned", [0, 1])
def test_bicubic_neighbours_beyond_the_border_are_clamped(aligned):
    x = RANDOM.standard_normal((1, 2, 4, 5)).astype(np.float32)
    grid = RANDOM.uniform(-2.5, 2.5, (1, 6, 6, 2)).astype(np.float32)
    options = {"mode": "bicubic", "padding_mode": "border", "align_corners": aligned}
    check_node("GridSample", x, grid, opset=16, rtol=1e-4, atol=1e-4, **options)


@pytest.mark.parametrize("dtype", [np.float64, np.float16])
def test_grid_sample_of_other_floats(dtype):
    x, grid = RANDOM.standard_normal((1, 2, 4, 5)), RANDOM.uniform(-1.2, 1.2, (1, 3, 3, 2))
    want = sampled(x.astype(np.float32), grid.astype(dtype).astype(np.float32), mode="cubic")
    got = sampled(x.astype(dtype), grid.astype(dtype), mode="cubic")
    assert got.dtype == dtype
    np.testing.assert_allclose(got, want, atol=1e-5 if dtype == np.float64 else 1e-2)


def test_a_coordinate_between_two_elements_takes_the_even_one():
    x = np.arange(5, dtype=np.int32).reshape(1, 1, 5)
    grid = np.array([-0.75, -0.25, 0.25, 0.75], np.float32).reshape(1, 4, 1)  # 0.5, 1.5, 2.5, 3.5
    np.testing.assert_array_equal(sampled(x, grid, mode="nearest", align_corners=1), [[[0, 2, 2, 4]]])


def test_integers_are_interpolated_as_floats_and_rounded():
    x = np.array([[[0, 255, 0, 100]]], np.uint8)
    grid = np.linspace(-1, 1, 10, dtype=np.float32).reshape(1, 10, 1)
    want = sampled(x.astype(np.float32), grid, mode="cubic", align_corners=1)
    got = sampled(x, grid, mode="cubic", align_corners=1)
    assert got.dtype == np.uint8
    np.testing.assert_array_equal(got, np.clip(np.rint(want), 0, 255))


@pytest.mark.parametrize(("extent", "aligned"), [(1, 0), (1, 1), (4, 0)])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["nearest", "cubic"])
def test_coordinates_that_are_no_numbers_or_far_away_read_nothing_outside(extent, mode, padding, aligned):
    x = np.full((1, 1, extent), 7, np.float32)
    grid = np.array([np.nan, INF, -INF, 1e30, -1e30, 3e9, -5.0], np.float32).reshape(1, 7, 1)
    got = sampled(x, grid, mode=mode, padding_mode=padding, align_corners=aligned)
    finite = 7 if extent == 1 and aligned else 0  # both borders are the one element's centre: it is everywhere
    want = [0] * 3 + [finite] * 4 if padding == "zeros" else [7] * 7
    np.testing.assert_allclose(got, [[want]], rtol=1e-6)


@pytest.mark.parametrize(
    ("x", "grid", "attributes", "reason"),
    [
        ((1, 1, 4, 4), (1, 3, 3, 3), {}, "a grid of shape .* does not hold places on 2 axes"),
        ((2, 1, 4, 4), (1, 3, 3, 2), {}, r"grid has shape .*, but axis 0 is not n = 2 \(x is"),
        ((1, 1, 4, 4), (1, 3, 3, 2), {"mode": "quintic"}, "mode 'quintic' or padding_mode 'zeros' does not exist"),
        ((1, 1, 4, 0), (1, 3, 3, 2), {}, "nothing to sample"),
    ],
)
def test_grids_that_do_not_fit_are_refused(x, grid, attributes, reason):
    model, _ = node_model("GridSample", [np.zeros(x, np.float32), np.zeros(grid, np.float32)], opset=22, **attributes)
    model.graph.output[0].type.CopyFrom(model.graph.input[0].type)  # what does not fit has no inferred one
    with pytest.raises(ModelError, match=f"the_GridSample.*{reason}"):
        import_model(model)


@pytest.mark.parametrize("aligned", [0, 1])
@pytest.mark.parametrize("size", [(1, 3, 4, 5), (2, 1, 3, 2), (1, 1, 2, 3, 4), (3, 2, 2, 2, 5)])
def test_affine_grid(size, aligned):
    rank = len(size) - 2
    theta = RANDOM.standard_normal((size[0], rank, rank + 1)).astype(np.float32)
    check("AffineGrid", theta, np.array(size), known=(1,), align_corners=aligned)


def test_vectors_of_a_grid_have_coordinates_of_neighbours():
    """Not the two of one element. Which of the two a column is, is found once for all rows."""
    model, _ = node_model("AffineGrid", [np.zeros((2, 2, 3), np.float32), np.array([2, 1, 5, 40])], (1,), opset=20)
    with make_context():
        kernels = CompiledPlan(plan(import_model(model), Target.parse("x86 -mcpu=x86-64-v3"))).kernels
    [rows] = [name for name, kernel in kernels.items() if "vectorize d2.1" in str(kernel.kernel.schedule)]
    assert "rem" not in rows and "div" not in rows


def test_affine_grid_of_one_row_and_in_f64():
    """The one row lies in the middle, as onnxruntime has it; the reference puts it at the border."""
    theta = np.array([[[1, 2, 3], [4, 5, 6]]], np.float64)
    model, inputs = node_model("AffineGrid", [theta, np.array([1, 1, 1, 3])], (1,), opset=20, align_corners=1)
    [got] = run_model(import_model(model), inputs)
    np.testing.assert_array_equal(got, [[[[2, 2], [3, 6], [4, 10]]]])


@pytest.mark.parametrize(
    ("theta", "size", "reason"),
    [
        ((2, 2, 3), [3, 1, 4, 4], "theta and size differ in the number of images"),
        ((2, 3, 4), [2, 1, 4, 4], "theta of shape .* does not fit a size of 4 extents"),
        ((2, 2, 3), [2, 1, 4], "theta of shape .* does not fit a size of 3 extents"),
    ],
)
def test_affine_grids_that_do_not_fit_are_refused(theta, size, reason):
    model, _ = node_model("AffineGrid", [np.zeros(theta, np.float32), np.array(size)], (1,), opset=20)
    model.graph.output[0].type.CopyFrom(model.graph.input[0].type)  # what does not fit has no inferred one
    with pytest.raises(ModelError, match=f"the_AffineGrid.*{reason}"):
        import_model(model)


@pytest.mark.parametrize(
    ("group", "offset_group", "outs", "attributes"),
    [
        (1, 1, (4, 4), {}),
        (1, 2, (3, 6), {"pads": [1, 0, 1, 2], "strides": [2, 1]}),
        (2, 4, (6, 4), {"dilations": [1, 2], "pads": [0, 1, 2, 1]}),
    ],
)
@pytest.mark.parametrize("masked", [False, True])
def test_deform_conv(group, offset_group, outs, attributes, masked):
    x = RANDOM.standard_normal((2, 4, 5, 6)).astype(np.float32)
    w = RANDOM.standard_normal((6, 4 // group, 2, 3)).astype(np.float32)
    offset = RANDOM.uniform(-2, 2, (2, offset_group * 12, *outs)).astype(np.float32)
    bias = RANDOM.standard_normal(6).astype(np.float32) if masked else None
    mask = RANDOM.random((2, offset_group * 6, *outs), np.float32) if masked else None
    attributes |= {"group": group, "offset_group": offset_group}
    check_node("DeformConv", x, w, offset, bias, mask, opset=22, rtol=1e-4, atol=1e-4, **attributes)


def test_deform_conv_as_the_reference_has_it():
    x, w, offset = (RANDOM.standard_normal(s).astype(np.float32) for s in ((1, 2, 4, 4), (2, 2, 2, 2), (1, 8, 3, 3)))
    check("DeformConv", x, w, offset)


@pytest.mark.parametrize(("group", "offset_group"), [(1, 1), (2, 1), (1, 2), (4, 2), (2, 4)])
def test_deform_conv_of_rows_of_channels(group, offset_group):
    """Groups of the weights and of the offsets are independent."""
    x = RANDOM.standard_normal((2, 32, 5, 6)).astype(np.float32)
    w = RANDOM.standard_normal((12, 32 // group, 3, 2)).astype(np.float32)
    offset = (RANDOM.standard_normal((2, offset_group * 12, 3, 5)) * 2).astype(np.float32)
    mask = RANDOM.random((2, offset_group * 6, 3, 5)).astype(np.float32)
    bias = RANDOM.standard_normal(12).astype(np.float32)
    groups = {"group": group, "offset_group": offset_group}
    check_node("DeformConv", x, w, offset, bias, mask, opset=22, rtol=1e-4, atol=1e-4, **groups)


@pytest.mark.parametrize("spatial", [(6,), (4, 5, 3)])
def test_deform_conv_without_moves_is_a_convolution(spatial):
    x = RANDOM.standard_normal((2, 2, *spatial))
    w = RANDOM.standard_normal((3, 2, *[2] * len(spatial)))
    outs = [n - 1 for n in spatial]
    offset = np.zeros((2, 2 ** len(spatial) * len(spatial), *outs))
    model, inputs = node_model("DeformConv", [x, w, offset], opset=22)
    plain, given = node_model("Conv", [x, w], opset=22)
    [got], [want] = (run_model(import_model(m), i) for m, i in ((model, inputs), (plain, given)))
    np.testing.assert_allclose(got, want)


@pytest.mark.parametrize(
    ("offset", "attributes", "reason"),
    [
        ((1, 8, 3, 3), {"offset_group": 3}, "offset_group 3 does not divide 2 channels"),
        ((1, 8, 2, 3), {}, r"offset has shape \[1, 8, 2, 3\], it must be \[1, 8, 3, 3\]"),
        (
            (1, 8, 3, 3),
            {"group": 2},
            r"w has shape .*, but axis 1 is not c/group = 1 \(x is .* of shape \[1, 2, 4, 4\], group=2\)",
        ),
    ],
)
def test_offsets_that_do_not_fit_are_refused(offset, attributes, reason):
    arrays = [np.zeros(s, np.float32) for s in ((1, 2, 4, 4), (2, 2, 2, 2), offset)]
    model, _ = node_model("DeformConv", arrays, opset=22, **attributes)
    with pytest.raises(ModelError, match=f"the_DeformConv.*{reason}"):
        import_model(model)
