"""Col2Im against onnxruntime and ONNX's reference."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator
from onnx_case import check_node, node_model
from reference import run_model

import tilewright as tw
from tilewright.core.errors import InputError, ModelError
from tilewright.frontends import import_model
from tilewright.tools.debugging.oracle import make_session

RANDOM = np.random.default_rng(0)


def test_blocks_in_the_padding_alone():
    x = RANDOM.integers(-9, 9, (2, 3, 6)).astype(np.int32)
    shapes = np.array([6, 1]), np.array([1, 1])
    model, _ = node_model("Col2Im", [x, *shapes], [1, 2], pads=[0, 1, 0, 1], strides=[2, 2])
    [image] = tw.compile(model, workers=0, cache=False)(x)
    np.testing.assert_array_equal(image, np.zeros((2, 3, 6, 1), np.int32))


@pytest.mark.parametrize(
    ("image", "block", "blocks", "attributes"),
    [
        ((5, 5), (1, 5), 5, {}),
        ((5, 6), (2, 3), 16, {}),
        ((5, 5), (3, 3), 4, {"strides": [2, 2]}),
        ((6, 6), (2, 2), 25, {"dilations": [1, 5], "pads": [0, 2, 0, 2]}),
        ((4, 5), (3, 2), 10, {"pads": [1, 0, 2, 0], "strides": [1, 2], "dilations": [1, 1]}),
        ((4, 3, 5), (1, 2, 3), 24, {}),
        ((9,), (3,), 4, {"strides": [3], "pads": [1, 2]}),
        ((7, 8), (2, 3), 9, {"strides": [2, 3], "pads": [0, 1, 0, 0]}),
        ((12, 40), (3, 3), 480, {"pads": [1, 1, 1, 1]}),
        ((11, 40), (3, 2), 120, {"pads": [1, 0, 1, 0], "strides": [2, 2]}),
    ],
)
def test_col2im(image, block, blocks, attributes):
    x = RANDOM.standard_normal((2, 3 * np.prod(block), blocks)).astype(np.float32)
    check_node("Col2Im", x, np.array(image), np.array(block), known=[1, 2], **attributes)


@pytest.mark.parametrize("dtype", [np.int32, np.float64, np.uint8])
def test_other_dtypes(dtype):
    x = (RANDOM.random((1, 4, 9)) * 9).astype(dtype)
    model, inputs = node_model("Col2Im", [x, np.array([4, 4]), np.array([2, 2])], known=[1, 2])
    [want] = map(np.asarray, ReferenceEvaluator(model).run(None, inputs))
    [got] = run_model(import_model(model), inputs)
    assert got.dtype == dtype
    np.testing.assert_allclose(got, want)


def test_a_bool_is_true_where_any_block_is():
    x = np.zeros((1, 2, 3), bool)
    x[0, 0, 1] = x[0, 1, 0] = x[0, 1, 2] = True
    model, inputs = node_model("Col2Im", [x, np.array([4]), np.array([2])], known=[1, 2])
    np.testing.assert_array_equal(run_model(import_model(model), inputs)[0], [[[0, 1, 0, 1]]])


def test_sizes_that_the_run_gives():
    """One program for several images and blocks; what does not fit is refused with the node's name."""
    given = [np.zeros((1, 1, 1), np.float32), np.array([5, 5]), np.array([2, 3])]
    model, _ = node_model("Col2Im", given, pads=[1, 0, 0, 1], strides=[1, 2])
    for info in (model.graph.input[0], model.graph.output[0]):
        info.type.tensor_type.shape.CopyFrom(onnx.TensorShapeProto(dim=[{}, {}, {}, {}][: 3 + (info.name == "out0")]))
    module = tw.compile(model, workers=0, num_threads=1, cache=False)
    session = make_session(model)
    for image, block, blocks in (([5, 5], [2, 3], 10), ([4, 6], [1, 1], 20), ([3, 2], [4, 3], 1)):
        x = RANDOM.standard_normal((2, 2 * np.prod(block), blocks)).astype(np.float32)
        arrays = [x, np.array(image), np.array(block)]
        [want] = map(np.asarray, session.run(None, dict(zip(("in0", "in1", "in2"), arrays, strict=True))))
        np.testing.assert_allclose(module(*arrays)[0], want, rtol=1e-6)
    for image, block in (([5, 5], [2, 5]), ([5, 6], [2, 3]), ([1, 5], [4, 3]), ([5, 5], [-2, -3])):
        with pytest.raises(InputError, match=r"node 'the_Col2Im' .*does not hold"):
            module(np.zeros((1, 6, 10), np.float32), np.array(image), np.array(block))


def test_blocks_that_do_not_fit_are_refused():
    model, _ = node_model("Col2Im", [np.zeros((1, 5, 5), np.float32), np.array([5, 5]), np.array([1, 4])], [1, 2])
    model.graph.output[0].type.CopyFrom(model.graph.input[0].type)  # what does not fit has no inferred one
    with pytest.raises(ModelError, match=r"the_Col2Im.*\[1, 5, 5\] does not hold \[5, 2\] blocks of \[1, 4\]"):
        import_model(model)


@pytest.mark.parametrize(("block", "attributes"), [([0, 4], {}), ([1, 5], {"strides": [0, 1]})])
def test_blocks_without_elements_and_steps_of_nothing_are_refused(block, attributes):
    arrays = [np.zeros((1, 5, 5), np.float32), np.array([5, 5]), np.array(block)]
    model, _ = node_model("Col2Im", arrays, [1, 2])
    model.graph.node[0].attribute.extend(onnx.helper.make_attribute(k, v) for k, v in attributes.items())
    model.graph.output[0].type.CopyFrom(model.graph.input[0].type)
    with pytest.raises(ModelError, match="the_Col2Im"):
        import_model(model)
