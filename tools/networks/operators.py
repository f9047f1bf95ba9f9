"""Single operators as ONNX models, at the sizes that real networks have: what ``tilewright bench --ops`` measures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import helper, numpy_helper

_MODEL_HEAD = '<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1, "ai.onnx.ml": 5]>'


@dataclass(frozen=True)
class OperatorModel:
    """A model of one operator.

    ``inputs`` are declarations in ONNX's text form; one that begins with "weight" is an initializer. ``body`` makes
    the outputs ``y``, ``y1`` ... ``values`` has the bounds of inputs that are not normally distributed.
    """

    inputs: str
    body: str
    values: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    outputs: int = 1

    def build(self, name: str) -> onnx.ModelProto:
        """The model. Its weights are random, and the same at each call.

        The types of its outputs are left out where onnx does not infer them.
        """
        declared = [text.strip() for text in self.inputs.split(";")]
        weights = [text.removeprefix("weight ") for text in declared if text.startswith("weight ")]
        outputs = ", ".join(f"float[] {name}" for name in self.output_names)
        text = f"{_MODEL_HEAD} operator ({', '.join(t.removeprefix('weight ') for t in declared)}) => ({outputs}) {{ {self.body} }}"
        model = onnx.parser.parse_model(text)
        model.graph.name = name
        kept = [info for info in model.graph.input if not _is_weight(info.name, weights)]
        random = np.random.default_rng(0)
        for info in model.graph.input:
            if _is_weight(info.name, weights):
                model.graph.initializer.append(numpy_helper.from_array(self._draw(info, random), info.name))
        del model.graph.input[:]
        model.graph.input.extend(kept)
        for output in model.graph.output:
            output.ClearField("type")
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
        for output, found in zip(model.graph.output, inferred.graph.output, strict=True):
            output.type.CopyFrom(found.type)
        for node in model.graph.node:
            node.name = node.output[0]
        return model

    @property
    def output_names(self) -> list[str]:
        """The names of the outputs."""
        return ["y", *(f"y{i}" for i in range(1, self.outputs))]

    def draw_inputs(self, model: onnx.ModelProto) -> dict[str, np.ndarray]:
        """Arrays for the model's inputs: the same at each call."""
        random = np.random.default_rng(1)
        return {info.name: self._draw(info, random) for info in model.graph.input}

    def _draw(self, info: onnx.ValueInfoProto, random: np.random.Generator) -> np.ndarray:
        kind = info.type.tensor_type
        shape = [dim.dim_value for dim in kind.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
        if info.name in self.values:
            low, high = self.values[info.name]
            numbers = random.random(shape, np.float32) * np.float32(high - low) + np.float32(low)
            return np.asarray(np.floor(numbers) if dtype.kind in "iu" else numbers).astype(dtype)
        if dtype.kind == "b":
            return random.random(shape) < 0.5
        if dtype.kind in "iu":
            return random.integers(0, 100, shape).astype(dtype)
        return np.asarray(random.standard_normal(shape, np.float32)).astype(dtype)


def _is_weight(name: str, weights: list[str]) -> bool:
    return any(text.split()[-1] == name for text in weights)


def _unary_cases(op: str, low: float = -3, high: float = 3, dtype: str = "float") -> dict[str, OperatorModel]:
    return {
        f"{op} 1x128x768": OperatorModel(f"{dtype}[1,128,768] x", f"y = {op}(x)", {"x": (low, high)}),
        f"{op} 1x64x112x112": OperatorModel(f"{dtype}[1,64,112,112] x", f"y = {op}(x)", {"x": (low, high)}),
    }


def _binary_cases(op: str, dtype: str = "float", result: str = "") -> dict[str, OperatorModel]:
    kind = f" {dtype}" if dtype != "float" else ""
    bounds = {"a": (1.0, 9.0), "b": (1.0, 3.0)}
    return {
        f"{op}{kind} 1x64x56x56": OperatorModel(
            f"{dtype}[1,64,56,56] a; {dtype}[1,64,56,56] b", f"y = {op}(a, b)", bounds
        ),
        f"{op}{kind} channel 1x256x28x28": OperatorModel(
            f"{dtype}[1,256,28,28] a; {dtype}[256,1,1] b", f"y = {op}(a, b)", bounds
        ),
    }


def _conv_cases(
    name: str, shape: str, weight: str, bias: int, attributes: str = "", op: str = "Conv"
) -> dict[str, OperatorModel]:
    return {
        f"{op} {name}": OperatorModel(
            f"float[{shape}] x; weight float[{weight}] w; weight float[{bias}] b",
            f"y = {op}{f'<{attributes}>' if attributes else ''}(x, w, b)",
        )
    }


def _pool_cases(op: str, channels: int, size: int, window: int, stride: int, pad: int) -> dict[str, OperatorModel]:
    attributes = f"kernel_shape = [{window},{window}], strides = [{stride},{stride}], pads = [{pad},{pad},{pad},{pad}]"
    name = f"{op} {window}x{window}/{stride} {channels}x{size}x{size}"
    return {name: OperatorModel(f"float[1,{channels},{size},{size}] x", f"y = {op}<{attributes}>(x)")}


def _reduce_cases(op: str) -> dict[str, OperatorModel]:
    def made(name: str, shape: str, axes: str) -> dict[str, OperatorModel]:
        constant = f"axes = Constant<value_ints = [{axes}]>() "
        return {f"{op} {name}": OperatorModel(f"float[{shape}] x", f"{constant} y = {op}(x, axes)", {"x": (0.1, 2)})}

    return {
        **made("rows 128x768", "1,128,768", "-1"),
        **made("columns 512x1000", "512,1000", "0"),
        **made("image 256x56x56", "1,256,56,56", "2, 3"),
        **made("channels 64x112x112", "1,64,112,112", "1"),
    }


def _recurrent_cases(
    op: str, gates: int, steps: int, batch: int, inputs: int, units: int, both: bool
) -> dict[str, OperatorModel]:
    count = 2 if both else 1
    direction = "bidirectional" if both else "forward"
    text = (
        f"float[{steps},{batch},{inputs}] x; weight float[{count},{gates * units},{inputs}] w; "
        f"weight float[{count},{gates * units},{units}] r; weight float[{count},{2 * gates * units}] b"
    )
    scale = {"w": (-0.1, 0.1), "r": (-0.1, 0.1), "b": (-0.1, 0.1)}
    body = f'y = {op}<hidden_size = {units}, direction = "{direction}">(x, w, r, b)'
    return {
        f"{op} {steps} steps, batch {batch}, {units} units{', both ways' if both else ''}": OperatorModel(
            text, body, scale
        )
    }


def _quantized_conv_cases(
    name: str, channels: int, filters: int, size: int, window: int, group: int = 1
) -> dict[str, OperatorModel]:
    pad = window // 2
    depth = channels // group
    text = (
        f"uint8[1,{channels},{size},{size}] x; weight float xs; weight uint8 xz; "
        f"weight int8[{filters},{depth},{window},{window}] w; weight float[{filters}] ws; weight int8[{filters}] wz; "
        f"weight float ys; weight uint8 yz; weight int32[{filters}] b"
    )
    values = {"x": (0, 255), "xs": (0.02, 0.03), "xz": (120, 121), "w": (-63, 63), "ws": (0.01, 0.02), "wz": (0, 0),
              "ys": (0.1, 0.2), "yz": (120, 121), "b": (-500, 500)}  # fmt: skip
    attributes = f"pads = [{pad},{pad},{pad},{pad}], group = {group}"
    return {
        f"QLinearConv {name}": OperatorModel(
            text, f"y = QLinearConv<{attributes}>(x, xs, xz, w, ws, wz, ys, yz, b)", values
        )
    }


_SLICE = "s = Constant<value_ints = [{}]>() e = Constant<value_ints = [{}]>() a = Constant<value_ints = [{}]>() t = Constant<value_ints = [{}]>() "
_PADS = "p = Constant<value_ints = [{}]>() "

# fmt: off
OPERATORS: dict[str, OperatorModel] = {
    # Elementwise.
    **{k: v for op in ("Abs", "Neg", "Exp", "Erf", "Tanh", "Sigmoid", "Relu", "LeakyRelu", "Elu", "Selu", "Celu",
                       "HardSigmoid", "HardSwish", "Softplus", "Softsign", "Mish", "Gelu", "Floor", "Ceil", "Round",
                       "Sign", "Sin", "Cos", "Sinh", "Cosh", "Tan", "Atan", "Asinh", "ThresholdedRelu", "Identity",
                       "IsNaN", "IsInf", "Shrink") for k, v in _unary_cases(op).items()},
    **{k: v for op in ("Log", "Sqrt", "Reciprocal") for k, v in _unary_cases(op, 0.1, 9).items()},
    **{k: v for op in ("Asin", "Acos", "Atanh") for k, v in _unary_cases(op, -0.9, 0.9).items()},
    **_unary_cases("Acosh", 1.1, 9),
    **{k: v for op in ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Equal", "Less", "GreaterOrEqual", "PRelu")
       for k, v in _binary_cases(op).items()},
    **{k: v for op in ("Add", "Mul", "Div", "Mod") for k, v in _binary_cases(op, "int64").items()},
    **{k: v for op in ("Add", "Mul", "Div") for k, v in _binary_cases(op, "double").items()},
    **_binary_cases("Div", "int32"),
    **{k: v for op in ("Add", "BitwiseAnd", "BitShift<direction = \"LEFT\">") for k, v in _binary_cases(op, "uint8").items()},
    **{f"{op} double 3x33x1027": OperatorModel("double[3,33,1027] x", f"y = {op}(x)") for op in ("Exp", "Tanh")},
    "Floor float16 1x197x768": OperatorModel("float16[1,197,768] x", "y = Floor(x)"),
    "Mod fmod 1x128x768": OperatorModel("float[1,128,768] a; float[768] b", "y = Mod<fmod = 1>(a, b)", {"b": (1, 3)}),
    "And 12x512x512": OperatorModel("bool[12,512,512] a; bool[512] b", "y = And(a, b)"),
    "Or 12x512x512": OperatorModel("bool[12,512,512] a; bool[512] b", "y = Or(a, b)"),
    "Xor 12x512x512": OperatorModel("bool[12,512,512] a; bool[12,512,512] b", "y = Xor(a, b)"),
    "Not 12x512x512": OperatorModel("bool[12,512,512] a", "y = Not(a)"),
    "Where mask 12x384x384": OperatorModel("bool[1,1,384,384] c; float[1,12,384,384] a; float[1] b", "y = Where(c, a, b)"),
    "Where 1x64x112x112": OperatorModel("bool[1,64,112,112] c; float[1,64,112,112] a; float[1,64,112,112] b", "y = Where(c, a, b)"),
    "Clip 1x64x112x112": OperatorModel("float[1,64,112,112] x", "l = Constant<value_float = 0.0>() h = Constant<value_float = 6.0>() y = Clip(x, l, h)"),
    "Clip int64 100000": OperatorModel("int64[100000] x; int64 l; int64 h", "y = Clip(x, l, h)", {"l": (10, 11), "h": (60, 61)}),
    "Sum of three 1x256x28x28": OperatorModel("float[1,256,28,28] a; float[1,256,28,28] b; float[1,256,28,28] c", "y = Sum(a, b, c)"),
    "Mean of three 1x256x28x28": OperatorModel("float[1,256,28,28] a; float[1,256,28,28] b; float[1,256,28,28] c", "y = Mean(a, b, c)"),
    # Casts.
    **{f"Cast {a} to {b} 1x128x768": OperatorModel(f"{a}[1,128,768] x", f"y = Cast<to = {code}>(x)", {"x": (0, 100)})
       for a, b, code in (("float", "float16", 10), ("float16", "float", 1), ("float", "int64", 7), ("int64", "float", 1),
                          ("float", "uint8", 2), ("uint8", "float", 1), ("int64", "int32", 6), ("int32", "int64", 7),
                          ("bool", "float", 1), ("float", "bool", 9), ("float", "double", 11), ("double", "float", 1),
                          ("float", "int8", 3))},
    # Reductions.
    **{k: v for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
                       "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare") for k, v in _reduce_cases(op).items()},
    "ArgMax rows 128x30522": OperatorModel("float[128,30522] x", "y = ArgMax<axis = -1>(x)"),
    "ArgMax channels 21x513x513": OperatorModel("float[1,21,513,513] x", "y = ArgMax<axis = 1>(x)"),
    "ArgMax of short columns 16x1000x7": OperatorModel("float[16,1000,7] x", "y = ArgMax<axis = 1>(x)"),
    "ArgMin rows 1024x256": OperatorModel("float[1024,256] x", "y = ArgMin<axis = -1>(x)"),
    "CumSum rows 128x1024": OperatorModel("float[128,1024] x", "a = Constant<value_int = 1>() y = CumSum(x, a)"),
    "CumSum columns 1024x256": OperatorModel("float[1024,256] x", "a = Constant<value_int = 0>() y = CumSum(x, a)"),
    "CumSum of three 16x3x65x65": OperatorModel("float[16,3,65,65] x", "a = Constant<value_int = 1>() y = CumSum(x, a)"),
    "CumSum columns 500x33": OperatorModel("float[500,33] x", "a = Constant<value_int = 0>() y = CumSum(x, a)"),
    "CumSum int64 1x8192": OperatorModel("int64[1,8192] x", "a = Constant<value_int = 1>() y = CumSum(x, a)"),
    "Softmax 12x384x384": OperatorModel("float[1,12,384,384] x", "y = Softmax(x)"),
    "Softmax channels 21x128x128": OperatorModel("float[1,21,128,128] x", "y = Softmax<axis = 1>(x)"),
    "LogSoftmax 128x30522": OperatorModel("float[128,30522] x", "y = LogSoftmax(x)"),
    "LogSoftmax 1000x29": OperatorModel("float[1000,29] x", "y = LogSoftmax(x)"),
    "LogSoftmax float16 4096x3": OperatorModel("float16[4096,3] x", "y = LogSoftmax(x)"),
    "Hardmax 512x1000": OperatorModel("float[512,1000] x", "y = Hardmax(x)"),
    # Normalization.
    "LayerNormalization 128x768": OperatorModel("float[1,128,768] x; weight float[768] s; weight float[768] b", "y = LayerNormalization(x, s, b)"),
    "RMSNormalization 128x768": OperatorModel("float[1,128,768] x; weight float[768] s", "y = SimplifiedLayerNormalization(x, s)"),
    "SkipLayerNormalization 128x768": OperatorModel("float[1,128,768] x; float[1,128,768] k; weight float[768] s; weight float[768] b", "y = com.microsoft.SkipLayerNormalization(x, k, s, b)"),
    "BatchNormalization 64x112x112": OperatorModel("float[1,64,112,112] x; weight float[64] s; weight float[64] b; weight float[64] m; weight float[64] v", "y = BatchNormalization(x, s, b, m, v)", {"v": (0.5, 2)}),
    "InstanceNormalization 64x128x128": OperatorModel("float[1,64,128,128] x; weight float[64] s; weight float[64] b", "y = InstanceNormalization(x, s, b)"),
    "GroupNormalization 320x64x64": OperatorModel("float[1,320,64,64] x; weight float[320] s; weight float[320] b", "y = GroupNormalization<num_groups = 32>(x, s, b)"),
    "GroupNormalization 128x32x32": OperatorModel("float[2,128,32,32] x; weight float[128] s; weight float[128] b", "y = GroupNormalization<num_groups = 8>(x, s, b)"),
    "GroupNormalization 512x16x16": OperatorModel("float[1,512,16,16] x; weight float[512] s; weight float[512] b", "y = GroupNormalization<num_groups = 32>(x, s, b)"),
    "LpNormalization 1000x512": OperatorModel("float[1000,512] x", "y = LpNormalization(x)"),
    "LRN 64x55x55": OperatorModel("float[1,64,55,55] x", "y = LRN<size = 5>(x)"),
    "MeanVarianceNormalization 64x56x56": OperatorModel("float[1,64,56,56] x", "y = MeanVarianceNormalization(x)"),
    # Products.
    "MatMul 128x768x3072": OperatorModel("float[128,768] x; weight float[768,3072] w", "y = MatMul(x, w)"),
    "MatMul 1x4096x4096": OperatorModel("float[1,4096] x; weight float[4096,4096] w", "y = MatMul(x, w)"),
    "MatMul 384x768x2": OperatorModel("float[1,384,768] x; weight float[768,2] w", "y = MatMul(x, w)"),
    "MatMul 37x53x71": OperatorModel("float[37,53] x; weight float[53,71] w", "y = MatMul(x, w)"),
    "MatMul two 512x512x512": OperatorModel("float[512,512] a; float[512,512] b", "y = MatMul(a, b)"),
    "MatMul heads 12x384x64x384": OperatorModel("float[12,384,64] a; float[12,64,384] b", "y = MatMul(a, b)"),
    "MatMul heads 12x384x384x64": OperatorModel("float[12,384,384] a; float[12,384,64] b", "y = MatMul(a, b)"),
    "MatMul one head 12x1x64x512": OperatorModel("float[12,1,64] a; float[12,64,512] b", "y = MatMul(a, b)"),
    "MatMul vector 4096": OperatorModel("float[512,4096] a; float[4096] b", "y = MatMul(a, b)"),
    "MatMul double 256": OperatorModel("double[256,256] a; double[256,256] b", "y = MatMul(a, b)"),
    "MatMul int32 256": OperatorModel("int32[256,256] a; int32[256,256] b", "y = MatMul(a, b)"),
    "MatMul float16 65x257x129": OperatorModel("float16[65,257] x; weight float16[257,129] w", "y = MatMul(x, w)"),
    "MatMul float16 128x768x768": OperatorModel("float16[128,768] x; weight float16[768,768] w", "y = MatMul(x, w)"),
    "Gemm 1x2048x1000": OperatorModel("float[1,2048] x; weight float[1000,2048] w; weight float[1000] b", "y = Gemm<transB = 1>(x, w, b)"),
    "Gemm 64x512x512": OperatorModel("float[64,512] x; weight float[512,512] w; weight float[512] b", "y = Gemm(x, w, b)"),
    "Gemm two, both transposed 256": OperatorModel("float[256,256] x; float[256,256] w", "y = Gemm<transA = 1, transB = 1, alpha = 0.5>(x, w)"),
    "FusedMatMul transposed 12x384x64": OperatorModel("float[12,384,64] a; float[12,384,64] b", "y = com.microsoft.FusedMatMul<transB = 1, alpha = 0.125>(a, b)"),
    "Einsum bhqd,bhkd->bhqk": OperatorModel("float[1,12,384,64] a; float[1,12,384,64] b", 'y = Einsum<equation = "bhqd,bhkd->bhqk">(a, b)'),
    "Einsum bij,bjk->bik": OperatorModel("float[8,128,128] a; float[8,128,128] b", 'y = Einsum<equation = "bij,bjk->bik">(a, b)'),
    "Einsum bqhd,bkhd->bhqk": OperatorModel("float[1,384,12,64] a; float[1,384,12,64] b", 'y = Einsum<equation = "bqhd,bkhd->bhqk">(a, b)'),
    "Inverse 2x64x64": OperatorModel("float[2,64,64] x", "y = com.microsoft.Inverse(x)"),
    "CDist 500x700x64": OperatorModel("float[500,64] a; float[700,64] b", "y = com.microsoft.CDist(a, b)"),
    "Einsum ij,j->i": OperatorModel("float[1024,1024] a; float[1024] b", 'y = Einsum<equation = "ij,j->i">(a, b)'),
    "MatMulInteger 128x768x768": OperatorModel("uint8[128,768] a; weight int8[768,768] b; weight uint8 az", "y = MatMulInteger(a, b, az)", {"a": (0, 255), "b": (-63, 63), "az": (120, 121)}),
    "MatMulInteger 5x33x257x65": OperatorModel("uint8[5,33,257] a; weight int8[257,65] b; weight uint8 az", "y = MatMulInteger(a, b, az)", {"a": (0, 255), "b": (-63, 63), "az": (120, 121)}),
    "DynamicQuantizeMatMul 128x768x768": OperatorModel("float[128,768] a; weight int8[768,768] b; weight float s", "y = com.microsoft.DynamicQuantizeMatMul(a, b, s)", {"b": (-63, 63), "s": (0.01, 0.02)}),
    "MatMulNBits 1x2048x2048": OperatorModel("float[1,2048] a; weight uint8[2048,64,16] b; weight float[131072] s", "y = com.microsoft.MatMulNBits<K = 2048, N = 2048, bits = 4, block_size = 32>(a, b, s)", {"b": (0, 255)}),
    "MatMulNBits 64x1024x1024": OperatorModel("float[64,1024] a; weight uint8[1024,32,16] b; weight float[32768] s", "y = com.microsoft.MatMulNBits<K = 1024, N = 1024, bits = 4, block_size = 32>(a, b, s)", {"b": (0, 255)}),
    # Attention.
    "Attention 8x512x64": OperatorModel("float[1,512,512] x; weight float[512,1536] w; weight float[1536] b", "y = com.microsoft.Attention<num_heads = 8>(x, w, b)"),
    "MultiHeadAttention 8x256x64": OperatorModel("float[1,256,512] q; float[1,256,512] k; float[1,256,512] v", "y = com.microsoft.MultiHeadAttention<num_heads = 8>(q, k, v)"),
    "GroupQueryAttention 1 of 512": OperatorModel("float[1,1,2048] q; float[1,1,512] k; float[1,1,512] v; float[1,8,512,64] pk; float[1,8,512,64] pv; weight int32[1] n; weight int32 t", "y, y1, y2 = com.microsoft.GroupQueryAttention<num_heads = 32, kv_num_heads = 8>(q, k, v, pk, pv, n, t)", {"n": (512, 513), "t": (513, 514)}, 3),
    "RotaryEmbedding 32x128x64": OperatorModel("float[1,128,2048] x; weight int64[1,128] p; weight float[2048,32] c; weight float[2048,32] s", "y = com.microsoft.RotaryEmbedding<num_heads = 32>(x, p, c, s)"),
    "RotaryEmbedding of neighbours 12x128x64": OperatorModel("float[1,12,128,64] x; weight int64[1,128] p; weight float[2048,32] c; weight float[2048,32] s", "y = com.microsoft.RotaryEmbedding<interleaved = 1>(x, p, c, s)"),
    "BiasGelu 128x3072": OperatorModel("float[1,128,3072] x; weight float[3072] b", "y = com.microsoft.BiasGelu(x, b)"),
    "FastGelu 128x3072": OperatorModel("float[1,128,3072] x", "y = com.microsoft.FastGelu(x)"),
    "QuickGelu 128x3072": OperatorModel("float[1,128,3072] x", "y = com.microsoft.QuickGelu(x)"),
    # Convolutions.
    **_conv_cases("1x1 256 to 64, 56", "1,256,56,56", "64,256,1,1", 64),
    **_conv_cases("1x1 64 to 256, 56", "1,64,56,56", "256,64,1,1", 256),
    **_conv_cases("1x1 512 to 512, 14, batch 8", "8,512,14,14", "512,512,1,1", 512),
    **_conv_cases("3x3 64 to 64, 56", "1,64,56,56", "64,64,3,3", 64, "pads = [1,1,1,1]"),
    **_conv_cases("3x3 256 to 256, 14", "1,256,14,14", "256,256,3,3", 256, "pads = [1,1,1,1]"),
    **_conv_cases("3x3 37 to 53, 56", "1,37,56,56", "53,37,3,3", 53, "pads = [1,1,1,1]"),
    **_conv_cases("3x3 128 to 128 stride 2, 56", "1,128,56,56", "128,128,3,3", 128, "pads = [1,1,1,1], strides = [2,2]"),
    **_conv_cases("3x3 256 dilated 2, 32", "1,256,32,32", "256,256,3,3", 256, "pads = [2,2,2,2], dilations = [2,2]"),
    **_conv_cases("3x3 of 32 groups 256, 28", "1,256,28,28", "256,8,3,3", 256, "pads = [1,1,1,1], group = 32"),
    **_conv_cases("3x3 of 32 groups of one filter 128, 28", "1,128,28,28", "32,4,3,3", 32, "pads = [1,1,1,1], group = 32"),
    **_conv_cases("1x1 of 4 groups 96, 28", "1,96,28,28", "96,24,1,1", 96, "group = 4"),
    **_conv_cases("3x3 1 to 32, 28, batch 16", "16,1,28,28", "32,1,3,3", 32),
    **_conv_cases("7x7 stride 2 of 3, 224", "1,3,224,224", "64,3,7,7", 64, "pads = [3,3,3,3], strides = [2,2]"),
    **_conv_cases("3x3 stride 2 of 3, 224", "1,3,224,224", "32,3,3,3", 32, "pads = [1,1,1,1], strides = [2,2]"),
    **_conv_cases("16x16 patches of 3, 224", "1,3,224,224", "768,3,16,16", 768, "strides = [16,16]"),
    **_conv_cases("3x3 64 to 1, 128", "1,64,128,128", "1,64,3,3", 1, "pads = [1,1,1,1]"),
    **_conv_cases("1x1 128 to 1, 64", "1,128,64,64", "1,128,1,1", 1),
    **_conv_cases("3x3 32 to 3, 256", "1,32,256,256", "3,32,3,3", 3, "pads = [1,1,1,1]"),
    **_conv_cases("5x5 8 to 8, 128", "1,8,128,128", "8,8,5,5", 8, "pads = [2,2,2,2]"),
    **_conv_cases("3x39 1 to 8, 264x172", "1,1,172,264", "8,1,3,39", 8, "pads = [1,19,1,19]"),
    **_conv_cases("depthwise 3x3 144, 56", "1,144,56,56", "144,1,3,3", 144, "pads = [1,1,1,1], group = 144"),
    **_conv_cases("depthwise 3x3 stride 2 96, 112", "1,96,112,112", "96,1,3,3", 96, "pads = [1,1,1,1], group = 96, strides = [2,2]"),
    **_conv_cases("depthwise 5x5 240, 28", "1,240,28,28", "240,1,5,5", 240, "pads = [2,2,2,2], group = 240"),
    **_conv_cases("depthwise 7x7 96, 56", "1,96,56,56", "96,1,7,7", 96, "pads = [3,3,3,3], group = 96"),
    "Conv float16 3x3 33 to 65, 28": OperatorModel("float16[1,33,28,28] x; weight float16[65,33,3,3] w; weight float16[65] b", "y = Conv<pads = [1,1,1,1]>(x, w, b)"),
    **_conv_cases("1-D 3 of 80 to 512, 3000", "1,80,3000", "512,80,3", 512, "pads = [1,1]"),
    **_conv_cases("1-D 10 stride 5 of 1 to 512, 16000", "1,1,16000", "512,1,10", 512, "strides = [5]"),
    **_conv_cases("1-D depthwise 31 256, 500", "1,256,500", "256,1,31", 256, "pads = [15,15], group = 256"),
    **_conv_cases("1-D 128 positional of 16 groups 768, 200", "1,768,200", "768,48,128", 768, "pads = [64,64], group = 16"),
    **_conv_cases("3-D 3x3x3 32 to 64, 16x28x28", "1,32,16,28,28", "64,32,3,3,3", 64, "pads = [1,1,1,1,1,1]"),
    **_conv_cases("4x4 stride 2 128 to 64, 32", "1,128,32,32", "128,64,4,4", 64, "strides = [2,2], pads = [1,1,1,1]", "ConvTranspose"),
    **_conv_cases("2x2 stride 2 256 to 128, 28", "1,256,28,28", "256,128,2,2", 128, "strides = [2,2]", "ConvTranspose"),
    **_conv_cases("depthwise 16x16 stride 8 21, 16", "1,21,16,16", "21,1,16,16", 21, "strides = [8,8], pads = [4,4,4,4], group = 21", "ConvTranspose"),
    **_conv_cases("1-D 16 stride 8 256 to 128, 100", "1,256,100", "256,128,16", 128, "strides = [8], pads = [4,4]", "ConvTranspose"),
    **_quantized_conv_cases("1x1 256 to 256, 14", 256, 256, 14, 1),
    **_quantized_conv_cases("3x3 128 to 128, 28", 128, 128, 28, 3),
    **_quantized_conv_cases("depthwise 3x3 144, 56", 144, 144, 56, 3, 144),
    "DeformConv 3x3 64, 28": OperatorModel("float[1,64,28,28] x; weight float[64,64,3,3] w; float[1,18,28,28] o", "y = DeformConv<pads = [1,1,1,1]>(x, w, o)"),
    # Pools.
    **_pool_cases("MaxPool", 64, 112, 3, 2, 1),
    **_pool_cases("MaxPool", 256, 28, 2, 2, 0),
    **_pool_cases("MaxPool", 512, 13, 5, 1, 2),
    **_pool_cases("MaxPool", 512, 13, 13, 1, 6),
    **_pool_cases("AveragePool", 192, 35, 3, 1, 1),
    **_pool_cases("AveragePool", 256, 28, 2, 2, 0),
    **_pool_cases("AveragePool", 64, 56, 7, 1, 3),
    "GlobalAveragePool 2048x7x7": OperatorModel("float[1,2048,7,7] x", "y = GlobalAveragePool(x)"),
    "GlobalMaxPool 512x14x14": OperatorModel("float[1,512,14,14] x", "y = GlobalMaxPool(x)"),
    "MaxPool 1-D 3/2 64x8000": OperatorModel("float[1,64,8000] x", "y = MaxPool<kernel_shape = [3], strides = [2]>(x)"),
    "MaxPool 3-D 2/2 64x16x28x28": OperatorModel("float[1,64,16,28,28] x", "y = MaxPool<kernel_shape = [2,2,2], strides = [2,2,2]>(x)"),
    "MaxPool indices 2/2 64x64x64": OperatorModel("float[1,64,64,64] x", "y, y1 = MaxPool<kernel_shape = [2,2], strides = [2,2]>(x)", {}, 2),
    "LpPool 3/2 64x56x56": OperatorModel("float[1,64,56,56] x", "y = LpPool<kernel_shape = [3,3], strides = [2,2]>(x)"),
    # Recurrent layers.
    **_recurrent_cases("LSTM", 4, 100, 1, 128, 128, False),
    **_recurrent_cases("LSTM", 4, 80, 1, 288, 48, True),
    **_recurrent_cases("LSTM", 4, 50, 16, 256, 256, True),
    **_recurrent_cases("LSTM", 4, 100, 1, 512, 512, True),
    **_recurrent_cases("GRU", 3, 100, 1, 128, 128, False),
    **_recurrent_cases("GRU", 3, 50, 16, 256, 256, True),
    **_recurrent_cases("GRU", 3, 200, 1, 512, 512, True),
    **_recurrent_cases("RNN", 1, 100, 1, 256, 256, False),
    **_recurrent_cases("RNN", 1, 50, 16, 256, 256, True),
    # Gathers and scatters.
    "Gather embedding 128 of 30522x768": OperatorModel("int64[1,128] i; weight float[30522,768] w", "y = Gather(w, i)", {"i": (0, 30522)}),
    "Gather columns 512x1000": OperatorModel("float[512,1000] x; int64[200] i", "y = Gather<axis = 1>(x, i)", {"i": (0, 1000)}),
    "Gather 40 of 2x300x7": OperatorModel("float[2,300,7] x; int64[40] i", "y = Gather(x, i)", {"i": (0, 2)}),
    "GatherElements 1000x91": OperatorModel("float[1000,91] x; int64[1000,10] i", "y = GatherElements<axis = 1>(x, i)", {"i": (0, 91)}),
    "GatherND 1000 rows of 100x100x64": OperatorModel("float[100,100,64] x; int64[1000,2] i", "y = GatherND(x, i)", {"i": (0, 100)}),
    "ScatterND 1000 rows of 10000x64": OperatorModel("float[10000,64] x; int64[1000,1] i; float[1000,64] u", "y = ScatterND(x, i, u)", {"i": (0, 10000)}),
    "ScatterND add 10000 of 512x512": OperatorModel("float[512,512] x; int64[10000,2] i; float[10000] u", 'y = ScatterND<reduction = "add">(x, i, u)', {"i": (0, 512)}),
    "ScatterElements 1000x64 into 5000x64": OperatorModel("float[5000,64] x; int64[1000,64] i; float[1000,64] u", "y = ScatterElements(x, i, u)", {"i": (0, 5000)}),
    "ScatterElements add 10556x64 into 2708x64": OperatorModel("float[2708,64] x; int64[10556,64] i; float[10556,64] u", 'y = ScatterElements<reduction = "add">(x, i, u)', {"i": (0, 2708)}),
    "ScatterElements max along rows 500x100": OperatorModel("float[500,200] x; int64[500,100] i; float[500,100] u", 'y = ScatterElements<axis = 1, reduction = "max">(x, i, u)', {"i": (0, 200)}),
    "OneHot 1024x1000": OperatorModel("int64[1024] i; weight float[2] v", "d = Constant<value_int = 1000>() y = OneHot(i, d, v)", {"i": (0, 1000)}),
    "Compress 4 of 10000x64": OperatorModel("float[10000,64] x; bool[10000] c", "y = Compress<axis = 0>(x, c)"),
    "NonZero 512x512": OperatorModel("bool[512,512] x", "y = NonZero(x)"),
    "NonZero float 100000": OperatorModel("float[100000] x", "y = NonZero(x)"),
    "TopK 1000 of 25200": OperatorModel("float[1,25200] x", "k = Constant<value_ints = [1000]>() y, y1 = TopK(x, k)", {}, 2),
    "TopK 5 of 128x1000": OperatorModel("float[128,1000] x", "k = Constant<value_ints = [5]>() y, y1 = TopK(x, k)", {}, 2),
    "TopK 300 of 8400x80": OperatorModel("float[1,672000] x", "k = Constant<value_ints = [300]>() y, y1 = TopK(x, k)", {}, 2),
    "TopK 300 smallest of 8400": OperatorModel("float[1,8400] x", "k = Constant<value_ints = [300]>() y, y1 = TopK<largest = 0>(x, k)", {}, 2),
    "TopK 8 of 101x64": OperatorModel("float[101,64] x", "k = Constant<value_ints = [8]>() y, y1 = TopK(x, k)", {}, 2),
    "TopK 2 of 512x64": OperatorModel("float[512,64] x", "k = Constant<value_ints = [2]>() y, y1 = TopK(x, k)", {}, 2),
    "TopK 12 of 300x12": OperatorModel("float[300,12] x", "k = Constant<value_ints = [12]>() y, y1 = TopK(x, k)", {}, 2),
    "TopK int64 200 of 33x200": OperatorModel("int64[33,200] x", "k = Constant<value_ints = [200]>() y, y1 = TopK(x, k)", {}, 2),
    "TopK 2 of 1000x8": OperatorModel("float[1000,8] x", "k = Constant<value_ints = [2]>() y, y1 = TopK(x, k)", {}, 2),
    "TopK 3 of 13 channels 5x1000": OperatorModel("float[5,13,1000] x", "k = Constant<value_ints = [3]>() y, y1 = TopK<axis = 1>(x, k)", {}, 2),
    "TopK 100 of 4x8400": OperatorModel("float[4,8400] x", "k = Constant<value_ints = [100]>() y, y1 = TopK(x, k)", {}, 2),
    "TopK 16 of columns 300x100": OperatorModel("float[300,100] x", "k = Constant<value_ints = [16]>() y, y1 = TopK<axis = 0>(x, k)", {}, 2),
    "TopK int64 300 of 8400": OperatorModel("int64[1,8400] x", "k = Constant<value_ints = [300]>() y, y1 = TopK(x, k)", {"x": (-1e12, 1e12)}, 2),
    "TopK double 10 of 100x1000": OperatorModel("double[100,1000] x", "k = Constant<value_ints = [10]>() y, y1 = TopK(x, k)", {}, 2),
    "TopK 25000 of 100000": OperatorModel("float[1,100000] x", "k = Constant<value_ints = [25000]>() y, y1 = TopK(x, k)", {}, 2),
    "Unique 20000 int64": OperatorModel("int64[20000] x", "y, y1, y2, y3 = Unique(x)", {"x": (0, 500)}, 4),
    "NonMaxSuppression 80x2000": OperatorModel("float[1,2000,4] b; float[1,80,2000] s", "m = Constant<value_int = 100>() i = Constant<value_float = 0.5>() t = Constant<value_float = 0.3>() y = NonMaxSuppression(b, s, m, i, t)", {"b": (0, 1), "s": (0, 1)}),
    "NonMaxSuppression 5 of 80x100": OperatorModel("float[1,100,4] b; float[1,80,100] s", "m = Constant<value_int = 5>() i = Constant<value_float = 0.5>() t = Constant<value_float = 0.3>() y = NonMaxSuppression(b, s, m, i, t)", {"b": (0, 1), "s": (0, 1)}),
    "NonMaxSuppression of low scores 80x8400": OperatorModel("float[1,8400,4] b; float[1,80,8400] s", "m = Constant<value_int = 100>() i = Constant<value_float = 0.5>() t = Constant<value_float = 0.999>() y = NonMaxSuppression(b, s, m, i, t)", {"b": (0, 1), "s": (0, 1)}),
    "ReverseSequence 50x16x256": OperatorModel("float[50,16,256] x; int64[16] n", "y = ReverseSequence(x, n)", {"n": (1, 51)}),
    "Trilu 12x512x512": OperatorModel("float[12,512,512] x", "y = Trilu(x)"),
    "EyeLike 1000": OperatorModel("float[1000,1000] x", "y = EyeLike(x)"),
    "Range 100000": OperatorModel("int64 n", "s = Constant<value_int = 0>() d = Constant<value_int = 1>() y = Range(s, n, d)", {"n": (100000, 100001)}),
    # Movement.
    "Transpose 1x12x128x64 0213": OperatorModel("float[1,12,128,64] x", "y = Transpose<perm = [0,2,1,3]>(x)"),
    "Transpose 1000x1000": OperatorModel("float[1000,1000] x", "y = Transpose<perm = [1,0]>(x)"),
    "Transpose 1x64x112x112 to channels last": OperatorModel("float[1,64,112,112] x", "y = Transpose<perm = [0,2,3,1]>(x)"),
    "Transpose 1x224x224x3 to channels first": OperatorModel("float[1,224,224,3] x", "y = Transpose<perm = [0,3,1,2]>(x)"),
    "Transpose windows 56x56x96": OperatorModel("float[8,7,8,7,96] x", "y = Transpose<perm = [0,2,1,3,4]>(x)"),
    "Transpose uint8 1x224x224x3": OperatorModel("uint8[1,224,224,3] x", "y = Transpose<perm = [0,3,1,2]>(x)"),
    "Transpose int64 reversed 50x60x70": OperatorModel("int64[50,60,70] x", "y = Transpose<perm = [2,1,0]>(x)"),
    "Concat channels 4 x 64x56x56": OperatorModel("float[1,64,56,56] a; float[1,64,56,56] b; float[1,64,56,56] c; float[1,64,56,56] d", "y = Concat<axis = 1>(a, b, c, d)"),
    "Concat last 128x768 + 128x256": OperatorModel("float[1,128,768] a; float[1,128,256] b", "y = Concat<axis = -1>(a, b)"),
    "Split 3 of 128x2304": OperatorModel("float[1,128,2304] x", "y, y1, y2 = Split<axis = -1, num_outputs = 3>(x)", {}, 3),
    "Slice rows 1x128x768": OperatorModel("float[1,128,768] x", _SLICE.format(16, 112, 1, 1) + "y = Slice(x, s, e, a, t)"),
    "Slice every second 64x112x112": OperatorModel("float[1,64,112,112] x", _SLICE.format("0, 0", "112, 112", "2, 3", "2, 2") + "y = Slice(x, s, e, a, t)"),
    "Slice backward 128x768": OperatorModel("float[1,128,768] x", _SLICE.format(-1, -10000, 2, -1) + "y = Slice(x, s, e, a, t)"),
    "Pad zeros 64x112x112": OperatorModel("float[1,64,112,112] x", _PADS.format("0,0,1,1,0,0,1,1") + "y = Pad(x, p)"),
    "Pad reflect 64x112x112": OperatorModel("float[1,64,112,112] x", _PADS.format("0,0,3,3,0,0,3,3") + 'y = Pad<mode = "reflect">(x, p)'),
    "Pad reflect 2x33x51x51": OperatorModel("float[2,33,51,51] x", _PADS.format("0,0,1,1,0,0,1,1") + 'y = Pad<mode = "reflect">(x, p)'),
    "Pad edge 64x112x112": OperatorModel("float[1,64,112,112] x", _PADS.format("0,0,3,3,0,0,3,3") + 'y = Pad<mode = "edge">(x, p)'),
    "Pad wrap 64x56x56": OperatorModel("float[1,64,56,56] x", _PADS.format("0,0,3,3,0,0,3,3") + 'y = Pad<mode = "wrap">(x, p)'),
    "Pad reflect 1x16000": OperatorModel("float[1,16000] x", _PADS.format("0,200,0,200") + 'y = Pad<mode = "reflect">(x, p)'),
    "Expand 1x1x768 to 128 rows": OperatorModel("float[1,1,768] x", "s = Constant<value_ints = [1, 128, 768]>() y = Expand(x, s)"),
    "Expand 256x1x1 to 56x56": OperatorModel("float[256,1,1] x", "s = Constant<value_ints = [256, 56, 56]>() y = Expand(x, s)"),
    "Tile 8 x 128x768": OperatorModel("float[1,128,768] x", "s = Constant<value_ints = [8, 1, 1]>() y = Tile(x, s)"),
    "Tile inner 4 x 128x64": OperatorModel("float[128,64] x", "s = Constant<value_ints = [1, 4]>() y = Tile(x, s)"),
    "DepthToSpace 256x64x64": OperatorModel("float[1,256,64,64] x", "y = DepthToSpace<blocksize = 2>(x)"),
    "SpaceToDepth 3x640x640": OperatorModel("float[1,3,640,640] x", "y = SpaceToDepth<blocksize = 2>(x)"),
    "Col2Im 64 3x3 28x28": OperatorModel("float[1,576,784] x", "s = Constant<value_ints = [28, 28]>() b = Constant<value_ints = [3, 3]>() y = Col2Im<pads = [1,1,1,1]>(x, s, b)"),
    "Col2Im of patches 64 2x2 56x56": OperatorModel("float[1,256,784] x", "s = Constant<value_ints = [56, 56]>() b = Constant<value_ints = [2, 2]>() y = Col2Im<strides = [2,2]>(x, s, b)"),
    # Sampling.
    **{f"Resize {mode} {name}": OperatorModel(f"float[{shape}] x", f's = Constant<value_ints = [{sizes}]>() y = Resize<mode = "{mode}", coordinate_transformation_mode = "{how}"{more}>(x, "", "", s)')
       for mode, name, shape, sizes, how, more in (
           ("nearest", "2x of 128x40x40", "1,128,40,40", "1,128,80,80", "asymmetric", ', nearest_mode = "floor"'),
           ("nearest", "of 64x30x30 to 77x51", "1,64,30,30", "1,64,77,51", "half_pixel", ""),
           ("linear", "2x of 64x64x64", "1,64,64,64", "1,64,128,128", "half_pixel", ""),
           ("linear", "photo 3x1080x1920 to 640", "1,3,1080,1920", "1,3,640,640", "half_pixel", ""),
           ("linear", "21x65x65 to 513 corners", "1,21,65,65", "1,21,513,513", "align_corners", ""),
           ("cubic", "3x256x256 to 512", "1,3,256,256", "1,3,512,512", "half_pixel", ""),
           ("linear", "down antialiased 3x512x512 to 224", "1,3,512,512", "1,3,224,224", "half_pixel", ", antialias = 1"),
       )},
    "GridSample linear 64x64x64": OperatorModel("float[1,64,64,64] x; float[1,64,64,2] g", "y = GridSample(x, g)", {"g": (-1.1, 1.1)}),
    "GridSample nearest 32x128x128": OperatorModel("float[1,32,128,128] x; float[1,128,128,2] g", 'y = GridSample<mode = "nearest">(x, g)', {"g": (-1.1, 1.1)}),
    "RoiAlign 300 of 256x50x50": OperatorModel("float[1,256,50,50] x; float[300,4] r; int64[300] i", "y = RoiAlign<output_height = 7, output_width = 7, sampling_ratio = 2, spatial_scale = 1.0>(x, r, i)", {"r": (0, 49), "i": (0, 1)}),
    # Quantization.
    "QuantizeLinear 64x112x112": OperatorModel("float[1,64,112,112] x; weight float s; weight uint8 z", "y = QuantizeLinear(x, s, z)", {"s": (0.02, 0.03), "z": (128, 129)}),
    "QuantizeLinear channels 256x28x28": OperatorModel("float[1,256,28,28] x; weight float[256] s; weight int8[256] z", "y = QuantizeLinear<axis = 1>(x, s, z)", {"s": (0.02, 0.03), "z": (0, 1)}),
    "DequantizeLinear 64x112x112": OperatorModel("uint8[1,64,112,112] x; weight float s; weight uint8 z", "y = DequantizeLinear(x, s, z)", {"s": (0.02, 0.03), "z": (128, 129)}),
    "DynamicQuantizeLinear 128x768": OperatorModel("float[1,128,768] x", "y, y1, y2 = DynamicQuantizeLinear(x)", {}, 3),
    "QLinearAdd 256x56x56": OperatorModel("uint8[1,256,56,56] a; weight float as; weight uint8 az; uint8[1,256,56,56] b; weight float bs; weight uint8 bz; weight float ys; weight uint8 yz", "y = com.microsoft.QLinearAdd(a, as, az, b, bs, bz, ys, yz)", {"a": (0, 255), "b": (0, 255), "as": (0.02, 0.03), "bs": (0.02, 0.03), "ys": (0.04, 0.05), "az": (128, 129), "bz": (128, 129), "yz": (128, 129)}),
    "QLinearSigmoid 128x3072": OperatorModel("uint8[128,3072] a; weight float as; weight uint8 az; weight float ys; weight uint8 yz", "y = com.microsoft.QLinearSigmoid(a, as, az, ys, yz)", {"a": (0, 255), "as": (0.02, 0.03), "ys": (0.004, 0.005), "az": (128, 129), "yz": (0, 1)}),
    "HardSwish of bytes 64x28x28": OperatorModel("uint8[2,64,28,28] x; weight float s; weight uint8 z; weight float t", "f = DequantizeLinear(x, s, z) h = HardSwish(f) y = QuantizeLinear(h, t, z)", {"x": (0, 255), "s": (0.02, 0.03), "z": (3, 4), "t": (0.03, 0.04)}),
    # Signals and others.
    "DFT 1x400x1": OperatorModel("float[100,400,1] x", "n = Constant<value_int = 400>() a = Constant<value_int = 1>() y = DFT<onesided = 1>(x, n, a)"),
    "STFT 16000": OperatorModel("float[1,16000,1] x; weight float[400] w", "s = Constant<value_int = 160>() l = Constant<value_int = 400>() y = STFT(x, s, w, l)"),
    "Det 64x4x4": OperatorModel("float[64,4,4] x", "y = Det(x)"),
    "Normalizer 1000x128": OperatorModel("float[1000,128] x", "y = ai.onnx.ml.Normalizer<norm = \"L2\">(x)"),
    "Scaler 1000x128": OperatorModel("float[1000,128] x", "y = ai.onnx.ml.Scaler<offset = [1.0], scale = [2.0]>(x)"),
    "LinearRegressor 1000x128": OperatorModel("float[1000,4] x", "y = ai.onnx.ml.LinearRegressor<coefficients = [1.0, 2.0, 3.0, 4.0], intercepts = [0.5]>(x)"),
}
# fmt: on
