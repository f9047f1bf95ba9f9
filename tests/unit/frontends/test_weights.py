"""Weights stay in the file: detached without being read, mapped when asked for, refused where they are broken."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_case import model_of

from tilewright.core.errors import ModelError
from tilewright.core.model import FileSlice
from tilewright.frontends import import_model
from tilewright.frontends.onnx.proto.weights import detach

WEIGHT = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
X = np.ones((64, 64), np.float32)


def add_model(weight: onnx.TensorProto) -> onnx.ModelProto:
    model = model_of([helper.make_node("Add", ["x", "w"], ["y"])], {"x": X}, ["y"], {"w": WEIGHT})
    model.graph.initializer[0].CopyFrom(weight)
    return model


def external(location: str, **where: int) -> onnx.TensorProto:
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=WEIGHT.shape, data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **where}.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def typed(**fields: Any) -> onnx.TensorProto:
    return TensorProto(name="w", data_type=TensorProto.FLOAT, dims=WEIGHT.shape, **fields)


def test_raw_data_is_mapped_and_leaves_the_protobuf(tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(add_model(numpy_helper.from_array(WEIGHT, "w")), path)
    assert detach(path).proto.ByteSize() < 500
    param = import_model(path).params["w"]
    assert isinstance(param.source, FileSlice) and param.source.nbytes == WEIGHT.nbytes
    array = param.array()
    np.testing.assert_array_equal(array, WEIGHT)
    base = array
    while isinstance(base.base, np.ndarray):
        base = base.base
    assert isinstance(base, np.memmap)


def test_bytes_are_viewed_not_copied():
    data = add_model(numpy_helper.from_array(WEIGHT, "w")).SerializeToString()
    source = import_model(data).params["w"].source
    assert isinstance(source, np.ndarray)
    assert np.shares_memory(source, np.frombuffer(data, np.uint8))


@pytest.mark.parametrize("packed", [True, False])
def test_float_data(packed):
    tensor = typed(float_data=WEIGHT.reshape(-1).tolist())
    data = add_model(tensor).SerializeToString()
    if not packed:  # one field for each number, as proto2 writers do
        fields = b"".join(b"\x25" + number.tobytes() for number in WEIGHT.reshape(-1))
        body = TensorProto(name="w", data_type=1, dims=WEIGHT.shape).SerializeToString() + fields
        data = add_model(TensorProto.FromString(body)).SerializeToString()
    np.testing.assert_array_equal(import_model(data).params["w"].array(), WEIGHT)


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint64, np.float64, np.float16, ml_dtypes.bfloat16, np.bool_])
def test_typed_and_raw_data_of_every_kind(dtype):
    numbers = np.arange(-1000, 1000).astype(dtype)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    for tensor in (
        numpy_helper.from_array(numbers, "w"),
        helper.make_tensor("w", kind, numbers.shape, numbers.tolist()),
    ):
        model = onnx.ModelProto(graph=onnx.GraphProto(initializer=[tensor]))
        detached = detach(model)
        np.testing.assert_array_equal(detached.array(detached.proto.graph.initializer[0]), numbers)


@pytest.mark.parametrize("kind", [TensorProto.INT4, TensorProto.UINT4])
def test_four_bit_integers_are_unpacked(kind):
    numbers = [(i % 15) - 7 if kind == TensorProto.INT4 else i % 16 for i in range(4001)]
    tensor = helper.make_tensor("w", kind, [4001], numbers)
    raw = numpy_helper.from_array(numpy_helper.to_array(tensor), "w")
    for each in (tensor, raw):
        detached = detach(onnx.ModelProto(graph=onnx.GraphProto(initializer=[each])))
        assert detached.array(detached.proto.graph.initializer[0]).astype(int).tolist() == numbers


def test_constants_nested_graphs_and_functions_are_detached_too(tmp_path):
    constant = helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(WEIGHT))
    branch = helper.make_graph([constant], "b", [], [helper.make_tensor_value_info("c", 1, WEIGHT.shape)])
    nodes = [constant, helper.make_node("If", ["k"], ["d"], then_branch=branch, else_branch=branch)]
    function = helper.make_function("f", "F", [], ["c"], [constant], [helper.make_opsetid("", 18)])
    model = helper.make_model(helper.make_graph(nodes, "g", [], []), functions=[function])
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    proto = detach(path).proto
    assert proto.ByteSize() < 1000
    inner = proto.graph.node[1].attribute[0].g.node[0].attribute[0].t
    np.testing.assert_array_equal(detach(path).array(inner), WEIGHT)
    assert proto.functions[0].node[0].attribute[0].t.data_location == TensorProto.EXTERNAL


def test_external_data_is_mapped_relative_to_the_model(tmp_path):
    (tmp_path / "w.bin").write_bytes(b"skip" + WEIGHT.tobytes())
    path = tmp_path / "m.onnx"
    path.write_bytes(add_model(external("w.bin", offset=4, length=WEIGHT.nbytes)).SerializeToString())
    param = import_model(path).params["w"]
    assert param.source == FileSlice((tmp_path / "w.bin").resolve(), 4, WEIGHT.nbytes)
    np.testing.assert_array_equal(param.array(), WEIGHT)


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (external("missing.bin"), r"missing.bin' of tensor 'w' is missing; put it there"),
        (external("../m.bin"), r"the data file '../m.bin' of tensor 'w' is outside its folder"),
        (external("/etc/hostname"), "is outside its folder"),
        (external(""), "is outside its folder"),
        (external("short.bin"), "too short for tensor 'w', which ends at byte 16384; copy it again"),
        (external("short.bin", length=7), "needs 16384 bytes of data, but has 7"),
        (external("short.bin", offset=-4), "the offset '-4' of tensor 'w' is no place in a file"),
        (typed(raw_data=b"\0" * 5000), "needs 16384 bytes of data, but has 5000"),
        (typed(float_data=[1.0] * 5000), "needs 16384 bytes of data, but has 20000"),
    ],
)
def test_broken_data_is_refused(tmp_path, tensor, message):
    (tmp_path / "short.bin").write_bytes(b"short")
    path = tmp_path / "m.onnx"
    path.write_bytes(add_model(tensor).SerializeToString())
    with pytest.raises(ModelError, match=message) as caught:
        import_model(path)
    assert "\n" not in str(caught.value)


def test_external_data_needs_a_path():
    with pytest.raises(ModelError, match="give the model's path instead of its bytes"):
        import_model(add_model(external("w.bin")).SerializeToString())
