"""The walk over a model's wire format: long attributes are passed over in runs, as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from tilewright.core.errors import ModelError
from tilewright.frontends.onnx.proto import wire
from tilewright.frontends.onnx.proto.weights import detach

BIG = numpy_helper.from_array(np.arange(4096, dtype=np.float32), "w")


def node(**attributes: Any) -> onnx.NodeProto:
    return helper.make_node("Odd", ["x"], ["y"], name="odd", **attributes)


def model_of(*nodes: onnx.NodeProto) -> onnx.ModelProto:
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    return helper.make_model(helper.make_graph(list(nodes), "g", [], [y]))


def rewritten(data: bytes) -> tuple[bytes, list[str]]:
    placed: list[str] = []
    return wire.rewrite(data, len(data), lambda tensor, *_: placed.append(tensor.name)), placed


LONG = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=300, max_size=2500),
    st.lists(st.floats(width=32), min_size=300, max_size=2500),
    st.lists(st.text(max_size=40), min_size=100, max_size=300),
)


@settings(max_examples=40)
@given(st.lists(LONG, min_size=1, max_size=3))
def test_what_has_no_tensor_stays_as_it_is(values):
    data = model_of(node(**{f"a{i}": value for i, value in enumerate(values)})).SerializeToString()
    assert rewritten(data) == (data, [])


def test_tensors_behind_runs_are_found():
    made = model_of(node(a=list(range(5000)), t=BIG, b=[0.5] * 3000), node(words=["LEAF"] * 3000, t=BIG))
    data, placed = rewritten(made.SerializeToString())
    assert placed == ["w", "w"]
    left = onnx.ModelProto.FromString(data).graph.node
    assert [len(a.ints) + len(a.floats) + len(a.strings) for n in left for a in n.attribute if a.name != "t"] == [
        5000, 3000, 3000,
    ]  # fmt: skip


@pytest.mark.parametrize("cut", [1, 3, 2000, 4999])
@pytest.mark.parametrize(
    "value", [[1 << 40] * 1000, [0.5] * 1000, ["BRANCH_LEQ"] * 1000], ids=["ints", "floats", "text"]
)
def test_a_run_that_ends_with_the_file_is_broken(value, cut):
    data = model_of(node(a=value)).SerializeToString()
    with pytest.raises(ModelError, match="is not an ONNX model, or a truncated one"):
        detach(data[:-cut])


def test_a_number_without_an_end_is_broken():
    endless = bytes([8 << 3]) + b"\x80" * 11
    run = bytes([8 << 3, 1]) * 600
    body = b"\x0a\x01a" + run + endless + run
    data = model_of(node(a=[1])).SerializeToString()
    inner = wire._varint(5 << 3 | 2) + wire._varint(len(body)) + body
    graph = wire._varint(1 << 3 | 2) + wire._varint(len(inner)) + inner
    whole = data + wire._varint(7 << 3 | 2) + wire._varint(len(graph)) + graph
    with pytest.raises(wire.Broken, match="a number does not end"):
        rewritten(whole)
