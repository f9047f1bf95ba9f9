"""Models that onnxruntime's quantiser made, compiled, against onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from cpu_targets import other_targets
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from samples import campaign

import tilewright as tw
from tilewright.tools.debugging.oracle import make_session


def network(kind: str) -> onnx.ModelProto:
    """A small float network with random weights."""
    weights: dict[str, np.ndarray] = {}
    random = np.random.default_rng(0)

    def weight(name: str, *shape: int) -> str:
        weights[name] = (random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)
        return name

    nodes, shape, result = KINDS[kind](weight)
    named = [helper.make_node(op, i, o, name=o[0], **a) for op, i, o, a in nodes]
    graph = helper.make_graph(
        named,
        kind,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(named[-1].output[0], TensorProto.FLOAT, result)],
        [numpy_helper.from_array(a, n) for n, a in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def convolutions(weight: Any) -> Any:
    nodes = [
        ("Conv", ["x", weight("w1", 16, 3, 3, 3), weight("b1", 16)], ["c1"], {"pads": [1] * 4}),
        ("Relu", ["c1"], ["r1"], {}),
        ("MaxPool", ["r1"], ["m1"], {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("Conv", ["m1", weight("w2", 16, 1, 3, 3), weight("b2", 16)], ["d1"], {"pads": [1] * 4, "group": 16}),
        ("Conv", ["d1", weight("w3", 16, 16, 1, 1)], ["c2"], {}),
        ("Add", ["c2", "m1"], ["a1"], {}),
        ("Sigmoid", ["a1"], ["s1"], {}),
        ("Mul", ["a1", "s1"], ["h1"], {}),
        ("LeakyRelu", ["h1"], ["l1"], {"alpha": 0.1}),
        ("AveragePool", ["l1"], ["p1"], {"kernel_shape": [3, 3], "strides": [2, 2]}),
        ("Concat", ["p1", "p1"], ["k1"], {"axis": 1}),
        ("Conv", ["k1", weight("w4", 24, 16, 3, 3)], ["g1"], {"group": 2, "pads": [1] * 4}),
        ("GlobalAveragePool", ["g1"], ["p2"], {}),
        ("Flatten", ["p2"], ["f1"], {}),
        ("Gemm", ["f1", weight("w5", 10, 24), weight("b5", 10)], ["y"], {"transB": 1}),
    ]
    return nodes, [2, 3, 16, 16], [2, 10]


def mlp(weight: Any) -> Any:
    nodes = [
        ("Gemm", ["x", weight("w1", 64, 32), weight("b1", 64)], ["h1"], {"transB": 1}),
        ("Relu", ["h1"], ["r1"], {}),
        ("MatMul", ["r1", weight("w2", 64, 48)], ["h2"], {}),
        ("Add", ["h2", weight("b2", 48)], ["a2"], {}),
        ("Sigmoid", ["a2"], ["s2"], {}),
        ("Gemm", ["s2", weight("w3", 48, 10)], ["h3"], {"alpha": 0.5}),
        ("Softmax", ["h3"], ["y"], {}),
    ]
    return nodes, [5, 32], [5, 10]


def transformer(weight: Any) -> Any:
    """A block: attention of two heads of 16, and its feed-forward part."""
    nodes: list[Any] = []
    for name, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        nodes.append(("MatMul", ["x", weight(f"w{name}", 32, 32)], [f"{name}0"], {}))
        nodes.append(("Reshape", [f"{name}0", "heads"], [f"{name}1"], {}))
        nodes.append(("Transpose", [f"{name}1"], [f"{name}2"], {"perm": perm}))
    nodes += [
        ("MatMul", ["q2", "k2"], ["scores"], {}),
        ("Softmax", ["scores"], ["shares"], {"axis": -1}),
        ("MatMul", ["shares", "v2"], ["mixed"], {}),
        ("Transpose", ["mixed"], ["back"], {"perm": [0, 2, 1, 3]}),
        ("Reshape", ["back", "rows"], ["joined"], {}),
        ("MatMul", ["joined", weight("wo", 32, 32)], ["out"], {}),
        ("Add", ["out", "x"], ["sum1"], {}),
        ("LayerNormalization", ["sum1", weight("g1", 32), weight("n1", 32)], ["norm1"], {}),
        ("MatMul", ["norm1", weight("w1", 32, 64)], ["up"], {}),
        ("Add", ["up", weight("b1", 64)], ["biased"], {}),
        ("Relu", ["biased"], ["active"], {}),
        ("MatMul", ["active", weight("w2", 64, 32)], ["down"], {}),
        ("Add", ["down", "norm1"], ["y"], {}),
    ]
    heads = ("Constant", [], ["heads"], {"value": numpy_helper.from_array(np.array([2, 7, 2, 16]))})
    rows = ("Constant", [], ["rows"], {"value": numpy_helper.from_array(np.array([2, 7, 32]))})
    return [heads, rows, *nodes], [2, 7, 32], [2, 7, 32]


def recurrent(weight: Any) -> Any:
    inputs = ["x", weight("w", 1, 64, 12), weight("r", 1, 64, 16), weight("b", 1, 128)]
    nodes = [
        ("LSTM", inputs, ["all"], {"hidden_size": 16}),
        ("Reshape", ["all", "rows"], ["joined"], {}),
        ("MatMul", ["joined", weight("w1", 16, 8)], ["y"], {}),
    ]
    rows = ("Constant", [], ["rows"], {"value": numpy_helper.from_array(np.array([10, 16]))})
    return [rows, *nodes], [5, 2, 12], [10, 8]


KINDS = {"convolutions": convolutions, "mlp": mlp, "transformer": transformer, "recurrent": recurrent}


class Samples(CalibrationDataReader):
    """A few random inputs to calibrate with."""

    def __init__(self, shape: list[int]) -> None:
        random = np.random.default_rng(1)
        self.left = [{"x": random.standard_normal(shape).astype(np.float32)} for _ in range(4)]

    def get_next(self) -> Any:
        return self.left.pop() if self.left else None


def saved(kind: str, folder: Path) -> tuple[Path, list[int]]:
    """The float network's file, and its input's shape."""
    model = network(kind)
    onnx.save(model, folder / "float.onnx")
    return folder / "float.onnx", [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]


def outputs(model: Path, shape: list[int]) -> tuple[Any, Any]:
    """Ours and onnxruntime's, which runs the nodes as they are."""
    x = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
    [want] = make_session(model, optimize=False).run(None, {"x": x})
    [got] = tw.compile(model, workers=0, num_threads=1, cache=False)(x)
    return got, want


def step(model: Path) -> float:
    """The scale of the grid that the result lies on."""
    graph = onnx.load(model).graph
    last = next(n for n in reversed(graph.node) if n.op_type == "DequantizeLinear")
    return float(numpy_helper.to_array(next(t for t in graph.initializer if t.name == last.input[1])).max())


def ops(model: Path) -> set[str]:
    return {node.op_type for node in onnx.load(model).graph.node}


def slow(*values: Any) -> Any:
    """A row of a table whose ops are in another network or form, too."""
    return pytest.param(*values, marks=pytest.mark.slow)


STATIC = [
    ("convolutions", QuantFormat.QOperator, True, {"QLinearConv", "QGemm", "QLinearConcat", "QLinearAveragePool"}),
    slow("convolutions", QuantFormat.QDQ, True, {"Conv", "QuantizeLinear", "DequantizeLinear"}),
    ("mlp", QuantFormat.QOperator, False, {"QGemm", "QLinearMatMul", "QLinearSigmoid", "QLinearSoftmax"}),
    ("mlp", QuantFormat.QDQ, True, {"Gemm", "MatMul", "DequantizeLinear"}),
    slow("transformer", QuantFormat.QOperator, True, {"QLinearMatMul", "QLinearAdd", "QLinearSoftmax"}),
    ("transformer", QuantFormat.QDQ, False, {"MatMul", "LayerNormalization", "QuantizeLinear"}),
]


@campaign("convolutions-QOperator-True", "mlp-QDQ-True", "transformer-QDQ-False")
@pytest.mark.parametrize(("kind", "form", "per_channel", "wanted"), STATIC)
def test_static(kind, form, per_channel, wanted, tmp_path):
    source, shape = saved(kind, tmp_path)
    model = tmp_path / "quantized.onnx"
    types: Any = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8}
    made = {"quant_format": form, "per_channel": per_channel, "reduce_range": True}  # see exact_weights.py
    quantize_static(source, model, Samples(shape), **made, **types)
    assert wanted <= ops(model)
    got, want = outputs(model, shape)
    # Between floats another order of sums may tip a value from one step to the next.
    apart = np.abs(got - want) / step(model)
    assert apart.max() < (0.01 if form == QuantFormat.QOperator else 1.01)
    assert (apart > 0.01).mean() < 0.1


@pytest.mark.parametrize(
    ("kind", "op", "weights", "per_channel"),
    [
        ("convolutions", "ConvInteger", QuantType.QUInt8, True),
        ("transformer", "MatMulInteger", QuantType.QInt8, False),
        ("recurrent", "DynamicQuantizeLSTM", QuantType.QInt8, False),
    ],
)
def test_dynamic(kind, op, weights, per_channel, tmp_path):
    source, shape = saved(kind, tmp_path)
    model = tmp_path / "quantized.onnx"
    quantize_dynamic(source, model, weight_type=weights, per_channel=per_channel, reduce_range=True)
    assert {"DynamicQuantizeLinear", op} <= ops(model)
    got, want = outputs(model, shape)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def exposed(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with all that it quantises as outputs, too."""
    dtypes = {t.name: t.data_type for t in model.graph.initializer}
    known = {o.name for o in model.graph.output}
    for node in model.graph.node:
        if node.op_type == "QuantizeLinear" and node.output[0] not in known:
            shown = helper.make_tensor_value_info(node.output[0], dtypes[node.input[2]], None)
            model.graph.output.append(shown)
    return model


def in_doubles(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with all between DequantizeLinear and QuantizeLinear in float64, and rounded to float32 once."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    made.opset_import[0].version = 21  # the reference knows none of before
    del made.graph.node[:]
    for node in model.graph.node:
        copy = made.graph.node.add()
        copy.CopyFrom(node)
        if node.op_type == "DequantizeLinear":
            copy.output[0] += "_single"
            made.graph.node.append(helper.make_node("Cast", [copy.output[0]], [node.output[0]], to=TensorProto.DOUBLE))
        if node.op_type == "QuantizeLinear":
            copy.input[0] += "_single" + node.output[0]
            cast = helper.make_node("Cast", [node.input[0]], [copy.input[0]], to=TensorProto.FLOAT)
            made.graph.node.insert(len(made.graph.node) - 1, cast)
    return made


@campaign("x86-mlp-QUInt8-QUInt8", "x86-transformer-QUInt8-QInt8")
@pytest.mark.parametrize(
    ("kind", "data", "weights"),
    [
        slow("convolutions", QuantType.QUInt8, QuantType.QUInt8),
        ("convolutions", QuantType.QInt8, QuantType.QInt8),
        ("mlp", QuantType.QUInt8, QuantType.QUInt8),
        ("transformer", QuantType.QUInt8, QuantType.QInt8),
    ],
)
@pytest.mark.parametrize("target", ["x86", *other_targets("haswell")])
def test_all_integers_are_those_of_the_definition(kind, data, weights, target, tmp_path):
    """Not one differs: a product is exact, and its float is not near the middle between two steps."""
    source, shape = saved(kind, tmp_path)
    options: Any = {"activation_type": data, "weight_type": weights, "per_channel": kind != "mlp"}
    quantize_static(source, tmp_path / "quantized.onnx", Samples(shape), quant_format=QuantFormat.QDQ, **options)
    model = exposed(onnx.load(tmp_path / "quantized.onnx"))
    x = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
    wanted = ReferenceEvaluator(in_doubles(model)).run(None, {"x": x})
    got = tw.compile(model, target=target, workers=0, num_threads=1, cache=False).run({"x": x})
    for output, ours, want in zip(model.graph.output, got, wanted, strict=True):
        if np.asarray(want).dtype.itemsize == 1:
            np.testing.assert_array_equal(ours, want, err_msg=output.name)


def test_magnitudes_of_a_product():
    """Abs is computed on tiles of several rows."""
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21]>
        g (uint8[6, 9] x, int8[9, 40] w) => (int32[6, 40] y) { p = MatMulInteger(x, w)  y = Abs(p) }""")
    random = np.random.default_rng(0)
    x, w = random.integers(0, 256, (6, 9), np.uint8), random.integers(-128, 128, (9, 40), np.int8)
    [got] = tw.compile(model, workers=0, num_threads=1, cache=False).run({"x": x, "w": w})
    np.testing.assert_array_equal(got, np.abs(x.astype(np.int32) @ w.astype(np.int32)))


@pytest.mark.parametrize("size", ["37", "n"])
def test_functions_of_bytes(size):
    """A table, where the CPU looks bytes up: of one function, and of x * sigmoid(x) through bytes, which has two ways."""
    model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["": 21]>
        g (int8[3, {size}] x) => (int8[3, {size}] y, int8[3, {size}] z)
        <float s = {{0.05}}, int8 o = {{3}}, float t = {{0.01}}> {{
          f = DequantizeLinear(x, s, o)  g = Sigmoid(f)  q = QuantizeLinear(g, t, o)
          d = DequantizeLinear(q, t, o)  h = Mul(f, d)  y = QuantizeLinear(h, s, o)
          e = Exp(f)  z = QuantizeLinear(e, s, o) }}""")
    x = np.resize(np.arange(-128, 128, dtype=np.int8), (3, 37 if size == "37" else 100))
    got = tw.compile(model, workers=0, num_threads=1, cache=False).run({"x": x})
    for ours, want in zip(got, make_session(model).run(None, {"x": x}), strict=True):
        differing = ours.astype(int) - want
        assert np.abs(differing).max() <= 1, "a sum that is rounded, once"
        assert (differing != 0).mean() < 0.05
