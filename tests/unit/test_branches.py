"""Branches of convolutions that are added, as networks are trained with them: one convolution in the program."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from samples import campaign

import tilewright as tw
from tilewright.dialects import ir
from tilewright.dialects.context import make_context
from tilewright.frontends import import_model
from tilewright.passes.analysis.classify import classify_sum
from tilewright.passes.analysis.kinds import Conv, DepthwiseConv
from tilewright.passes.graph.dead_code import DeadCode
from tilewright.passes.graph.fold_scale_axis import FoldScaleAxis
from tilewright.passes.graph.generalize import Generalize
from tilewright.passes.graph.reparameterize_branches import ReparameterizeBranches
from tilewright.passes.graph.simplify_inference import SimplifyInference
from tilewright.passes.infra.context import PassContext
from tilewright.passes.ir.structure import list_ops
from tilewright.tools.debugging.oracle import make_session

RNG = np.random.default_rng(3)


class Network:
    """A sum of branches of one image, as a model."""

    def __init__(self, shape: tuple[int, ...], filters: int, group: int = 1, stride: int = 1) -> None:
        self.shape, self.filters, self.group, self.stride = shape, filters, group, stride
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, np.ndarray] = {}
        self.summands: list[str] = []

    def add(self, node: str, operands: list[str], **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(node, operands, [name], name=name, **attributes))
        return name

    def weight(self, *shape: int, least: float = -1) -> str:
        name = f"w{len(self.weights)}"
        self.weights[name] = RNG.uniform(least, 1, shape).astype(np.float32)
        return name

    def norm(self, value: str) -> str:
        channels = self.filters if self.summands or value != "x" else self.shape[1]
        parts = [self.weight(channels, least=least) for least in (-1, -1, -1, 0.5)]
        return self.add("BatchNormalization", [value, *parts])

    def conv(self, window: tuple[int, ...], dilation: int = 1, before: int | None = None, norm: bool = True) -> str:
        """A branch that has as many results as one of 1x1."""
        pads = [dilation * (n - 1) for n in window]
        low = [n // 2 if before is None else before for n in pads]
        high = [n - m for n, m in zip(pads, low, strict=True)]
        weight = self.weight(self.filters, self.shape[1] // self.group, *window)
        axes = len(window)
        value = self.add(
            "Conv",
            ["x", weight],
            pads=[*low, *high],
            group=self.group,
            strides=[self.stride] * axes,
            dilations=[dilation] * axes,
        )
        return self.norm(value) if norm else value

    def model(self, summands: list[str], opened: bool = False) -> onnx.ModelProto:
        total = summands[0]
        for value in summands[1:]:
            total = self.add("Add", [total, value])
        total = self.add("Relu", [total])
        rank = len(self.shape)
        given_shape = [f"d{i}" if opened and i != 1 else n for i, n in enumerate(self.shape)]
        graph = helper.make_graph(
            self.nodes,
            "branches",
            [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, given_shape)],
            [helper.make_tensor_value_info(total, onnx.TensorProto.FLOAT, [f"y{i}" for i in range(rank)])],
            [numpy_helper.from_array(array, name) for name, array in self.weights.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def check(model: onnx.ModelProto, *shapes: tuple[int, ...]) -> None:
    """The program computes what onnxruntime does, which computes the branches one by one."""
    module = tw.compile(model, workers=0, num_threads=1, cache=False)
    for shape in shapes:
        x = RNG.standard_normal(shape).astype(np.float32)
        [want] = make_session(model.SerializeToString()).run(None, {"x": x})
        [got] = module(x)
        np.testing.assert_allclose(got, want, rtol=0, atol=2e-5 * max(1, float(np.abs(want).max())))


def count_convolutions(model: onnx.ModelProto) -> int:
    """Convolutions that are left after the pass."""
    imported = import_model(model)
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(str(imported.module))
        for stage in (Generalize(), SimplifyInference(), DeadCode(), FoldScaleAxis(), ReparameterizeBranches()):
            PassContext().run(stage, module)
        [main] = module.body.operations
        return sum(isinstance(classify_sum(op), Conv | DepthwiseConv) for op in list_ops(main))


@campaign("1-True", "2-False")
@pytest.mark.parametrize("opened", [False, True])
@pytest.mark.parametrize("stride", [1, 2])
def test_a_block_of_repvgg_is_one_convolution(stride: int, opened: bool) -> None:
    network = Network((1, 8, 13, 11), 8, stride=stride)
    summands = [network.conv((3, 3)), network.conv((1, 1)), network.conv((3, 3))]
    model = network.model(summands + ([network.norm("x")] if stride == 1 else []), opened)
    assert count_convolutions(model) == 1
    check(model, (1, 8, 13, 11), *([(2, 8, 5, 6), (1, 8, 1, 1)] if opened else []))


@pytest.mark.parametrize("opened", [False, True])
def test_the_image_joins_a_depthwise_convolution(opened: bool) -> None:
    network = Network((2, 6, 9, 7), 6, group=6)
    model = network.model([network.conv((5, 5)), network.norm("x"), network.conv((3, 1)), "x"], opened)
    assert count_convolutions(model) == 1
    check(model, (2, 6, 9, 7), *([(1, 6, 30, 4)] if opened else []))


def test_steps_of_a_dilated_window_lie_in_a_larger_one() -> None:
    network = Network((1, 4, 12, 12), 4, group=4)
    model = network.model([network.conv((7, 7)), network.conv((3, 3), 2), network.conv((3, 3), 3)])
    assert count_convolutions(model) == 1
    check(model, network.shape)


def test_a_window_beside_the_larger_one_stays() -> None:
    network = Network((1, 4, 12, 12), 4)
    model = network.model([network.conv((3, 3)), network.conv((2, 2), before=0, dilation=2)])
    assert count_convolutions(model) == 2
    check(model, network.shape)


def test_a_branch_with_another_reader_stays() -> None:
    network = Network((1, 4, 6, 6), 4)
    branch = network.conv((1, 1), norm=False)
    model = network.model([network.conv((3, 3)), branch, network.add("Sigmoid", [branch])])
    assert count_convolutions(model) == 2
    check(model, network.shape)


def test_convolutions_in_groups_stay() -> None:
    network = Network((1, 6, 6, 6), 6, group=3)
    model = network.model([network.conv((3, 3)), network.conv((1, 1)), "x"])
    assert count_convolutions(model) == 2
    check(model, network.shape)


@given(st.data())
@settings(max_examples=6, deadline=None)
def test_any_branches(data: st.DataObject) -> None:
    axes = data.draw(st.integers(1, 2))
    group = data.draw(st.sampled_from([1, 4]))
    network = Network((data.draw(st.integers(1, 2)), 4, *[9, 7][:axes]), 4, group, data.draw(st.integers(1, 2)))
    windows = st.tuples(*[st.integers(1, 4)] * axes)
    branches = data.draw(st.lists(st.tuples(windows, st.integers(1, 2), st.booleans()), min_size=2, max_size=4))
    summands = [network.conv(window, dilation, 0 if early else None) for window, dilation, early in branches]
    if network.stride == 1 and data.draw(st.booleans()):
        summands.append(data.draw(st.sampled_from(["x", "norm"])))
        summands[-1] = network.norm("x") if summands[-1] == "norm" else "x"
    model = network.model(summands)
    assert count_convolutions(model) <= len(branches)
    check(model, network.shape)
