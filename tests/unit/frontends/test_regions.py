"""RoiAlign and MaxRoiPool against onnxruntime, and regions of nonsense."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_runner import CompiledPlan
from onnx.reference import ReferenceEvaluator
from onnx_case import check_node, node_model
from reference import run_model

from tilewright.core.errors import ModelError
from tilewright.core.target import Target
from tilewright.dialects.context import make_context
from tilewright.frontends import import_model
from tilewright.passes.pipeline import plan

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((2, 3, 9, 11)).astype(np.float32)
MANY = RANDOM.standard_normal((2, 9, 9, 11)).astype(np.float32)  # channels, which are read as rows
ROIS = np.array([[0, 0, 7, 7], [1.5, 2.25, 9.75, 3.5], [-3, -2, 4, 30], [5, 5, 5, 5], [8, 8, 2, 3]], np.float32)
BATCHES = np.array([0, 1, 1, 0, 1])


@pytest.mark.parametrize("ratio", [0, 2])
@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "output_half_pixel"])
def test_roi_align(coordinates, mode, ratio):
    attributes = {"sampling_ratio": ratio, "spatial_scale": 0.7, "output_height": 2, "output_width": 4, "mode": mode}
    attributes["coordinate_transformation_mode"] = coordinates
    check(X, ROIS, BATCHES, **attributes)
    check(MANY, ROIS, BATCHES, **attributes)


def check(*arrays, **attributes):
    model, inputs = node_model("RoiAlign", arrays, opset=22, **attributes)
    [want] = map(np.asarray, ReferenceEvaluator(model).run(None, inputs))
    [got] = run_model(import_model(model), inputs)
    np.testing.assert_allclose(got, want, atol=1e-5)


def test_threads_share_regions():
    """Of many channels the samples of a bin are found once for all of them."""
    model, _ = node_model("RoiAlign", [MANY, ROIS, BATCHES], opset=22, output_height=2, output_width=4)
    with make_context():
        made = CompiledPlan(plan(import_model(model), Target.parse("x86")))
    [bins] = [each.kernel for name, each in made.kernels.items() if name.startswith("for")]
    assert "threads share the steps" in bins.reason


@pytest.mark.parametrize("mode", ["avg", "max"])
def test_roi_align_of_opset_10_does_not_move_coordinates(mode):
    check_node("RoiAlign", X, ROIS, BATCHES, opset=10, mode=mode, output_height=3, output_width=2)


def test_roi_align_in_double_precision():
    check(X.astype(np.float64), ROIS.astype(np.float64), BATCHES, output_height=2, output_width=2)


def test_no_regions():
    check(X, ROIS[:0], BATCHES[:0], output_height=2, output_width=2)
    check(MANY, ROIS[:0], BATCHES[:0], output_height=2, output_width=2, sampling_ratio=1)


@pytest.mark.parametrize("scale", [1.0, 0.6])
def test_max_roi_pool(scale):
    rois = np.concatenate([BATCHES[:, None], ROIS], axis=1).astype(np.float32)
    check_node("MaxRoiPool", X, rois, pooled_shape=[3, 2], spatial_scale=scale)


def test_regions_of_nonsense_read_nothing_outside():
    rois = np.array([[np.nan, 0, 3, 4], [np.inf, np.inf, np.inf, np.inf], [-1e30, 0, -1e30, 5]], np.float32)
    batches = np.array([-5, 7, 1 << 40])
    model, inputs = node_model("RoiAlign", [X, rois, batches], opset=22, sampling_ratio=1, output_width=3)
    assert run_model(import_model(model), inputs)[0].shape == (3, 3, 1, 3)
    model, inputs = node_model("RoiAlign", [MANY, rois, batches], opset=22, sampling_ratio=1, output_width=3)
    assert run_model(import_model(model), inputs)[0].shape == (3, 9, 1, 3)
    rois = np.concatenate([np.array([[np.nan], [9], [-9]], np.float32), rois], axis=1)
    model, inputs = node_model("MaxRoiPool", [X, rois], opset=22, pooled_shape=[2, 2])
    assert run_model(import_model(model), inputs)[0].shape == (3, 3, 2, 2)


@pytest.mark.parametrize(
    ("rois", "batches", "attributes", "reason"),
    [
        ((2, 5), (2,), {}, r"rois has shape \[2, 5\], it must be \[r 4\]"),
        ((2, 4), (3,), {}, r"batch_indices has shape \[3\], .* r = 2 \(rois is \[r 4\] of shape \[2, 4\]\)"),
        ((2, 4), (2,), {"mode": "min"}, "mode 'min' or coordinate_transformation_mode 'half_pixel' is unknown"),
        ((2, 4), (2,), {"output_height": 0}, "cannot be pooled to"),
        ((2, 4), (2,), {"sampling_ratio": -1}, "sampling_ratio -1 is negative"),
    ],
)
def test_regions_that_do_not_fit_are_refused(rois, batches, attributes, reason):
    arrays = [X, np.zeros(rois, np.float32), np.zeros(batches, np.int64)]
    model, _ = node_model("RoiAlign", arrays, opset=22, **attributes)
    model.graph.output[0].type.CopyFrom(model.graph.input[0].type)  # what does not fit has no inferred one
    with pytest.raises(ModelError, match=f"the_RoiAlign.*{reason}"):
        import_model(model)
