"""Products between DequantizeLinear and QuantizeLinear, compiled, against onnxruntime's products of integers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest
from cpu_targets import other_targets
from exact_weights import LARGEST
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from onnx_case import model_of
from samples import campaign, leaving
from shared_kernels import find_or_compile

import tilewright as tw
from tilewright.core.program import Kernel
from tilewright.core.target import Target
from tilewright.dialects import ir
from tilewright.dialects.context import make_context
from tilewright.frontends import import_model
from tilewright.passes.pipeline import plan
from tilewright.tools.debugging.oracle import make_session

RNG = np.random.default_rng(0)


@dataclass
class Case:
    """A product of ``x`` and ``w``, and what is quantised how.

    zero, zeros: the weight's zero point, and how much those of its channels differ.
    """

    op: str
    x: tuple[int, ...]
    w: tuple[int, ...]
    signed: bool = False
    per_channel: bool = True
    bias: bool = False
    relu: bool = False
    zero: int = 0
    zeros: int = 0
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def axis(self) -> int:
        """The weight's dim of channels."""
        return 0 if self.op == "Conv" or self.attributes.get("transB") else len(self.w) - 1

    def arrays(self) -> dict[str, np.ndarray]:
        dtype, kind = (np.int8 if self.signed else np.uint8), (np.uint8 if self.zero else np.int8)
        channels, low = self.w[self.axis], np.iinfo(dtype).min
        scales = np.asarray(RNG.uniform(0.001, 0.02, [channels] if self.per_channel else []), np.float32)
        made = {
            "x": (RNG.standard_normal(self.x) * 2).astype(np.float32),
            "xs": np.array(0.043, np.float32), "xz": np.array(low + 97, dtype),
            "w": (RNG.integers(-LARGEST, LARGEST, self.w) + self.zero).astype(kind),
            "ws": scales, "wz": (RNG.integers(0, self.zeros + 1, scales.shape) + self.zero).astype(kind),
            "b": RNG.integers(-9000, 9000, channels).astype(np.int32),
            "ys": np.array(0.071, np.float32), "yz": np.array(low if self.relu else low + 131, dtype),
        }  # fmt: skip
        return made | {"bs": made["xs"] * made["ws"], "bz": np.zeros(scales.shape, np.int32)}

    def with_floats(self) -> list[onnx.NodeProto]:
        """The product of what is dequantised."""
        axis = {"axis": self.axis} if self.per_channel else {}
        bias = [node("DequantizeLinear", "b bs bz", "bd", **(axis and {"axis": 0}))] if self.bias else []
        return [
            node("QuantizeLinear", "x xs xz", "xq"),
            node("DequantizeLinear", "xq xs xz", "xd"),
            node("DequantizeLinear", "w ws wz", "wd", **axis),
            *bias,
            node(self.op, "xd wd bd" if self.bias else "xd wd", "p", **self.attributes),
            *([node("Relu", "p", "r")] if self.relu else []),
            node("QuantizeLinear", "r ys yz" if self.relu else "p ys yz", "y"),
        ]

    def of_integers(self) -> list[onnx.NodeProto]:
        """The product of integers; a ReLU is what the result's range leaves out."""
        first, bias = node("QuantizeLinear", "x xs xz", "xq"), " b" if self.bias else ""
        if self.op == "Gemm":
            inputs = f"xq xs xz w ws wz{bias or ' '} ys yz"
            return [first, node("QGemm", inputs, "y", domain="com.microsoft", **self.attributes)]
        op = "QLinearConv" if self.op == "Conv" else "QLinearMatMul"
        return [first, node(op, f"xq xs xz w ws wz ys yz{bias}", "y", **self.attributes)]


def node(op: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(" "), [output], name=f"the_{output}", **attributes)


def model(
    nodes: list[onnx.NodeProto], arrays: dict[str, np.ndarray], inputs: tuple[str, ...] = ("x",)
) -> onnx.ModelProto:
    used = {name for n in nodes for name in n.input if name in arrays and name not in inputs}
    weights = {name: arrays[name] for name in sorted(used)}
    made = model_of(nodes, {name: arrays[name] for name in inputs}, ["y"], weights, domains=["com.microsoft"])
    made.graph.output[0].CopyFrom(helper.make_value_info("y", onnx.TypeProto()))
    made.graph.output[0].type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(arrays["yz"].dtype)
    return made


def onnxruntimes(proto: onnx.ModelProto, **inputs: np.ndarray) -> Any:
    return make_session(proto, optimize=False).run(None, inputs)[0]


def kernels(proto: onnx.ModelProto, target: str = "x86 -mcpu=icelake-server") -> str:
    """The kernels that a model becomes, as text."""
    made = plan(import_model(proto), Target.parse(target))
    with make_context(), ir.Location.unknown():
        return "".join(str(ir.Module.parse(code)) for code in made.kernels.values())


IMAGE = {"pads": [1] * 4, "strides": [2, 2]}
FOLDED = [
    Case("Conv", (1, 3, 9, 9), (24, 3, 3, 3), bias=True, attributes=IMAGE),
    Case("Conv", (2, 8, 7, 7), (40, 8, 3, 3), bias=True, relu=True, attributes={"pads": [0, 1, 2, 1]}),
    Case("Conv", (1, 20, 5, 5), (33, 20, 1, 1), signed=True, per_channel=False),
    Case("Conv", (1, 12, 6, 6), (18, 4, 3, 3), bias=True, attributes={"group": 3, "pads": [1] * 4}),
    Case("Conv", (1, 5, 12), (7, 5, 3), signed=True, bias=True, attributes={"dilations": [2]}),
    Case("Conv", (1, 6, 8, 8), (16, 6, 3, 3), per_channel=False, zero=128, attributes={"pads": [1] * 4}),
    Case("MatMul", (2, 5, 24), (24, 20)),
    Case("MatMul", (2, 5, 24), (2, 24, 20), per_channel=False),  # a weight for each matrix
    Case("MatMul", (7, 30), (30, 72), signed=True, per_channel=False),
    Case("Gemm", (4, 64), (10, 64), bias=True, attributes={"transB": 1}),
    Case("Gemm", (1, 27), (27, 300), bias=True, relu=True),
    Case("Conv", (1, 6, 5, 5), (12, 6, 1, 1), per_channel=False, zero=117),  # weights beyond signed bytes
    Case("Conv", (1, 12, 7, 7), (18, 4, 3, 3), bias=True, zero=140, attributes={"group": 3, "pads": [1] * 4}),
    Case("Conv", (2, 8, 7, 7), (16, 8, 3, 3), zero=90, attributes={"strides": [2, 2]}),
    Case("MatMul", (2, 5, 24), (24, 20), zero=117, zeros=30),
    Case("Gemm", (4, 64), (10, 64), bias=True, per_channel=False, zero=150, attributes={"transB": 1}),
]
WIDE = [
    Case("Conv", (1, 8, 6, 6), (8, 1, 3, 3), bias=True, attributes={"group": 8, "pads": [1] * 4}),
    Case("Conv", (2, 35, 9, 9), (35, 1, 5, 5), signed=True, relu=True, attributes={"group": 35, "strides": [2, 2]}),
    Case("Conv", (1, 16, 7, 7), (16, 1, 3, 3), per_channel=False, zero=117, attributes={"group": 16}),
    Case("Conv", (1, 4, 6, 6), (12, 1, 3, 3), bias=True, attributes={"group": 4}),  # one channel for each group
    Case("Conv", (1, 1, 8, 8), (16, 1, 3, 3), attributes={"pads": [1] * 4}),
    Case("MatMul", (3, 1), (1, 80)),  # a sum of one product
]


# CPUs without an instruction for four products of bytes: of 16, 8 and 4 lanes.
OTHERS = other_targets("skylake-avx512", "haswell", "x86-64-v2")


def in_groups(text: str) -> bool:
    """Return whether the weight of a product of bytes lies in fours along its sum, or in pairs if data are widened."""
    return ", 4] into" in text or ", 2] into" in text


def compiled(proto: onnx.ModelProto, target: str = "x86", /, **inputs: np.ndarray) -> Any:
    [got] = tw.compile(proto, target=target, workers=0, num_threads=1, cache=False).run(inputs)
    return got


# What is special about these others have, too: groups, rows, a transposed weight, relu, and weights beyond signed bytes.
ALIKE = [FOLDED[number] for number in (1, 3, 6, 8, 9, 11)]


@pytest.mark.parametrize("case", [pytest.param(c, marks=[pytest.mark.slow] * (c in ALIKE)) for c in FOLDED], ids=str)
def test_in_fours(case: Case) -> None:
    arrays = case.arrays()
    proto, integers = (model(nodes, arrays) for nodes in (case.with_floats(), case.of_integers()))
    assert in_groups(kernels(proto)) and in_groups(kernels(integers))
    want = onnxruntimes(integers, x=arrays["x"])
    np.testing.assert_array_equal(compiled(proto, x=arrays["x"]), want)


@pytest.mark.parametrize("case", WIDE, ids=str)
def test_one_by_one(case: Case) -> None:
    arrays = case.arrays()
    proto = model(case.with_floats(), arrays)
    made = kernels(proto)
    assert not in_groups(made) and "arith.muli" in made and "fastmath<contract>" not in made
    want = onnxruntimes(model(case.of_integers(), arrays), x=arrays["x"])
    np.testing.assert_array_equal(compiled(proto, x=arrays["x"]), want)


@pytest.mark.parametrize("target", OTHERS)
@pytest.mark.parametrize("case", [*FOLDED[::5], FOLDED[12], *WIDE[::2]], ids=str)
def test_any_cpu_multiplies_bytes(case: Case, target: str) -> None:
    arrays = case.arrays()
    floats, integers = (model(nodes, arrays) for nodes in (case.with_floats(), case.of_integers()))
    assert in_groups(kernels(floats, target)) == (case in FOLDED)
    want = onnxruntimes(integers, x=arrays["x"])
    np.testing.assert_array_equal(compiled(floats, target, x=arrays["x"]), want)


BYTES = st.sampled_from([np.uint8, np.int8])


@pytest.mark.parametrize("target", OTHERS)
@settings(max_examples=3, deadline=None)
@given(kinds=st.tuples(BYTES, BYTES), sizes=st.tuples(*[st.integers(2, 40)] * 3), known=st.booleans(), data=st.data())
def test_any_cpu_adds_up_exactly(target: str, kinds: tuple[type, type], sizes: Any, known: bool, data: Any) -> None:
    """All bytes there are, with any zero points, of a weight or an activation: sums of pairs take 17 bits."""
    m, k, n = sizes
    random = np.random.default_rng(data.draw(st.integers(0, 1 << 20)))
    shapes = {"x": (m, k), "xz": (), "w": (k, n), "wz": (n,) if known and data.draw(st.booleans()) else ()}
    arrays = {name: every_byte(random, kinds["w" in name], shape) for name, shape in shapes.items()}
    x, w = (arrays[name].astype(np.int32) - arrays[f"{name}z"] for name in ("x", "w"))
    inputs = ("x",) if known else ("x", "w")
    proto = model([node("MatMulInteger", "x w xz wz", "y")], arrays | {"yz": np.array(0, np.int32)}, inputs)
    got = compiled(proto, target, **{name: arrays[name] for name in inputs})
    np.testing.assert_array_equal(got, x @ w)


def every_byte(random: np.random.Generator, kind: type, shape: tuple[int, ...]) -> np.ndarray:
    """Random bytes, half of them extremes."""
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    made = random.integers(low, high, shape, kind, endpoint=True)
    return np.where(random.random(shape) < 0.5, random.choice(np.array([low, high], kind), shape), made).astype(kind)


@pytest.mark.parametrize(
    ("signed", "a", "b"),
    [
        (False, (2, 7, 40), (2, 40, 33)),
        (True, (3, 1, 17), (17, 64)),
        (False, (5, 64), (64, 1)),
        (True, (3, 13, 18), (3, 18, 7)),
        (False, (8, 5), (5, 40)),
    ],
    ids=str,
)
def test_two_activations(signed: bool, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    """The right one is brought into fours, if it has columns, for eight rows or more."""
    case = Case("MatMul", a, b, signed=signed)
    arrays = case.arrays() | {"v": (RNG.standard_normal(b) * 3).astype(np.float32)}
    quantised = [
        node("QuantizeLinear", "x xs xz", "xq"),
        node("QuantizeLinear", "v vs vz", "vq"),
    ]
    floats = [
        node("DequantizeLinear", "xq xs xz", "xd"),
        node("DequantizeLinear", "vq vs vz", "vd"),
        node("MatMul", "xd vd", "p"),
        node("QuantizeLinear", "p ys yz", "y"),
    ]
    integers = [node("QLinearMatMul", "xq xs xz vq vs vz ys yz", "y")]
    arrays |= {"vs": np.array(0.031, np.float32), "vz": arrays["xz"] + arrays["xz"].dtype.type(9)}
    protos = [model(quantised + nodes, arrays, ("x", "v")) for nodes in (floats, integers)]
    made = kernels(protos[0])
    assert "arith.muli" in made and "fastmath<contract>" not in made
    assert in_groups(made) == (a[-2] >= 8)
    inputs = {"x": arrays["x"], "v": arrays["v"]}
    want = onnxruntimes(protos[1], **inputs)
    for proto in protos:
        np.testing.assert_array_equal(compiled(proto, **inputs), want)


@campaign(every=3)
@pytest.mark.parametrize("data", [np.uint8, np.int8])
@pytest.mark.parametrize(("kind", "zero"), [(np.int8, 0), (np.int8, 5), (np.uint8, 128), (np.uint8, 90)])
def test_matmul_integer(data: type, kind: type, zero: int) -> None:
    arrays = {
        "x": RNG.integers(0, 100, (5, 30)).astype(data), "xz": np.array(7, data),
        "w": (RNG.integers(-LARGEST, LARGEST, (30, 40)) + zero).astype(kind), "wz": np.full(40, zero, kind),
        "yz": np.array(0, np.int32),
    }  # fmt: skip
    proto = model([node("MatMulInteger", "x w xz wz", "y")], arrays)
    assert in_groups(kernels(proto))
    np.testing.assert_array_equal(compiled(proto, x=arrays["x"]), onnxruntimes(proto, x=arrays["x"]))


@pytest.mark.parametrize(("filters", "group", "kind", "zero"), [(16, 1, np.int8, 0), (8, 8, np.uint8, 90)])
def test_dynamic_convolution(filters: int, group: int, kind: type, zero: int) -> None:
    """Its paddings hold a zero point that only the run knows."""
    weight = RNG.integers(-LARGEST, LARGEST, (filters, 8 // group, 3, 3)) + zero
    arrays = {
        "x": RNG.standard_normal((2, 8, 7, 7)).astype(np.float32),
        "w": weight.astype(kind), "wz": np.array(zero, kind), "yz": np.array(0, np.int32),
    }  # fmt: skip
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["xq", "xs", "xz"], name="the_xq"),
        node("ConvInteger", "xq w xz wz", "y", pads=[1, 0, 2, 1], group=group),
    ]
    proto = model(nodes, arrays)
    made = products(proto)
    assert made and all(kernel.schedule for kernel in made)
    np.testing.assert_array_equal(compiled(proto, x=arrays["x"]), onnxruntimes(proto, x=arrays["x"]))


def test_strided_sums_of_a_row() -> None:
    """What weights beyond int8 take from the sums is read with the stride."""
    arrays = {"x": RNG.integers(0, 256, (1, 2, 1, 3)).astype(np.uint8), "w": np.full((5, 2, 1, 1), 200, np.uint8)}
    arrays["yz"] = np.array(0, np.int32)
    proto = model([node("ConvInteger", "x w", "y", strides=[2, 2])], arrays)
    np.testing.assert_array_equal(compiled(proto, x=arrays["x"]), onnxruntimes(proto, x=arrays["x"]))


def products(proto: onnx.ModelProto, text: str = "x86") -> list[Kernel]:
    """The kernels of products of bytes."""
    target = Target.parse(text)
    made = plan(import_model(proto), target)
    named = [code for name, code in made.kernels.items() if name.startswith(("matmul", "conv", "depthwise"))]
    return [find_or_compile(code, target) for code in named]


OPEN = [
    (Case("MatMul", (2, 5, 24), (24, 20)), (0, 1)),
    (Case("MatMul", (5, 24), (24, 20), zero=117), (0,)),
    (Case("Conv", (2, 8, 7, 7), (16, 8, 3, 3), bias=True, attributes={"pads": [1] * 4}), (0, 2, 3)),
    (Case("Conv", (2, 8, 9, 7), (12, 8, 3, 3), zero=90, attributes={"strides": [2, 1]}), (0, 2)),
    (Case("Conv", (2, 32, 7, 7), (32, 1, 3, 3), bias=True, attributes={"group": 32}), (0, 2, 3)),
]


@pytest.mark.parametrize("target", ["x86", *other_targets("haswell")])
@pytest.mark.parametrize(("case", "axes"), leaving(OPEN, OPEN[1:4:2]), ids=str)
def test_open_sizes(case: Case, axes: tuple[int, ...], target: str) -> None:
    arrays = case.arrays()
    floats, integers = (model(nodes, arrays) for nodes in (case.with_floats(), case.of_integers()))
    for proto in (floats, integers):
        for axis in axes:
            proto.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = f"n{axis}"
    made = products(floats, target)
    assert made and all(kernel.schedule for kernel in made)
    module = tw.compile(floats, target=target, workers=0, num_threads=1, cache=False)
    for grown in (0, 6):
        shape = [n + grown * (axis in axes) for axis, n in enumerate(case.x)]
        x = (RNG.standard_normal(shape) * 2).astype(np.float32)
        np.testing.assert_array_equal(module.run({"x": x})[0], onnxruntimes(integers, x=x))
