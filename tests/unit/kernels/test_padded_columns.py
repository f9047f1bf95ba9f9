"""Convolutions whose windows reach far beyond the columns of an image: what reads padding alone is left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from cpu_targets import targets

import tilewright as tw
from tilewright.tools.debugging.oracle import make_session

HEAD = '<ir_version: 10, opset_import: ["" : 21]>'
# Of each: the shapes of data and weight, and attributes. Images of several tiles, of one, in steps, of one axis, of
# frames, with padding on one side, and of windows that no column of theirs holds.
CASES = [
    ("1,20,5,33", "40,20,3,3", "dilations = [2,12], pads = [2,12,2,12]"),
    ("2,16,4,61", "33,16,3,5", "dilations = [1,9], pads = [1,18,1,18]"),
    ("1,16,3,50", "32,16,1,3", "dilations = [1,20], pads = [0,40,0,0], strides = [1,2]"),
    ("1,24,100", "32,24,3", "dilations = [32], pads = [64,0]"),
    ("1,8,2,3,40", "32,8,1,3,3", "dilations = [1,1,15], pads = [0,1,15,0,1,15]"),
    ("1,16,6,30", "64,8,2,2", "dilations = [1,40], pads = [0,0,0,40], group = 2"),
]


@pytest.mark.parametrize("target", ["x86", *targets("haswell")])
def test_convolutions_beside_their_images(target: str) -> None:
    module, session, inputs = compile_cases(target)
    for got, want in zip(module.run(inputs), session.run(None, inputs), strict=True):
        np.testing.assert_allclose(got, want, atol=1e-4)


@pytest.mark.parametrize("target", targets("haswell"))
def test_what_reads_padding_alone_is_not_computed(target: str) -> None:
    """Of the first columns all windows begin in the padding: what the filters have there meets no zeros."""
    data, weight, attributes = CASES[0]
    text = f"{HEAD} columns (float[{data}] x) => (float[] y) {{ y = Conv<{attributes}>(x, w) }}"
    model = onnx.parser.parse_model(text)
    filters = draw(weight)
    filters[..., 0] = np.nan
    model.graph.initializer.append(onnx.numpy_helper.from_array(filters, "w"))
    model.graph.output[0].ClearField("type")
    module = tw.compile(onnx.shape_inference.infer_shapes(model), target, workers=0, num_threads=1)
    [got] = module.run({"x": draw(data)})
    assert not np.isnan(got[..., 0]).any() and np.isnan(got[..., -1]).all()


def compile_cases(target: str) -> tuple[tw.Module, Any, dict[str, np.ndarray]]:
    """All cases in one program, a session of onnxruntime's, and inputs."""
    numbered = list(enumerate(CASES))
    inputs = ", ".join(f"float[{data}] x{i}" for i, (data, _, _) in numbered)
    outputs = ", ".join(f"float[] y{i}" for i, _ in numbered)
    nodes = " ".join(f"r{i} = Relu(x{i}) y{i} = Conv<{how}>(r{i}, w{i})" for i, (_, _, how) in numbered)
    model = onnx.parser.parse_model(f"{HEAD} columns ({inputs}) => ({outputs}) {{ {nodes} }}")
    for i, (_, weight, _) in numbered:
        model.graph.initializer.append(onnx.numpy_helper.from_array(draw(weight), f"w{i}"))
    for output in model.graph.output:
        output.ClearField("type")
    model = onnx.shape_inference.infer_shapes(model)
    arrays = {f"x{i}": draw(data) for i, (data, _, _) in numbered}
    return tw.compile(model, target, workers=0, num_threads=1), make_session(model), arrays


def draw(shape: str) -> np.ndarray:
    random = np.random.default_rng(len(shape))
    return random.standard_normal([int(n) for n in shape.split(",")], np.float32)
