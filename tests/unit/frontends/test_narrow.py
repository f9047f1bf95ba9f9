"""Types of eight bits or less, held as codes: over all their codes against ml_dtypes, which onnx's reference uses."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx_case import model_of, node_model
from reference import run_model
from samples import campaign, some_of

import tilewright as tw
from tilewright.core.errors import ModelError, UnsupportedError
from tilewright.core.model import NARROW, numpy_dtype
from tilewright.dialects import codes
from tilewright.frontends import import_model

INTEGERS = [name for name in NARROW if "int" in name]
FLOATS = [name for name in NARROW if name.startswith("float") and name != "float8_e8m0fnu"]
FLOAT8 = [name for name in FLOATS if NARROW[name] == 8]
SCALE = "float8_e8m0fnu"
NUMERIC = ["bool", *(f"{s}int{b}" for s in ("", "u") for b in (8, 16, 32, 64)), "float16", "float32", "float64"]
OPSET = 28  # whose Cast has all of them

# All numbers of float16, and float32's around those and at the ends.
HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
with np.errstate(all="ignore"):
    _WHOLE = HALVES[np.isfinite(HALVES)].astype(np.float32)
_BESIDE = [np.nextafter(_WHOLE, np.float32(end)) for end in (np.inf, -np.inf)]
_ENDS = np.array([np.nan, -np.nan, np.inf, -np.inf, 1e38, -1e38, 1e-40, -1e-40, 1e-45, 3.4e38], np.float32)
SINGLES = np.concatenate([*_BESIDE, _WHOLE * np.float32(2.0**-14), _ENDS])


def all_codes(dtype: str) -> np.ndarray:
    return np.arange(1 << NARROW[dtype], dtype=np.uint8).view(numpy_dtype(dtype))


def kind(dtype: str) -> int:
    return helper.np_dtype_to_tensor_dtype(numpy_dtype(dtype))


def cast(values: np.ndarray, *targets: str, **attributes) -> list[np.ndarray]:
    nodes = [helper.make_node("Cast", ["x"], [name], to=kind(name), **attributes) for name in targets]
    return compiled(model_of(nodes, {"x": values}, targets, opset=OPSET), {"x": values})


def compiled(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    return tw.compile(model, workers=0, num_threads=1, cache=False).run(inputs)


@campaign("uint2-0", "float4_e2m1fn-0", "float8_e4m3fn-0", "float8_e8m0fnu-0")
@pytest.mark.parametrize(("source", "part"), some_of(itertools.product(NARROW, range(2)), 2))
def test_every_code_to_every_type(source, part):
    """In two parts, of which sources take turns to have the one that is always tested."""
    values = all_codes(source)
    numbers = values.astype(np.float32)  # which holds all of them
    narrower = [name for name in NARROW if name != source and (name in FLOATS or source in INTEGERS) and name != SCALE]
    targets = [*(name for name in NUMERIC if name not in narrower), *narrower]
    targets = targets[([*NARROW].index(source) + part) % 2 :: 2]
    for name, got in zip(targets, cast(values, *targets), strict=True):
        exact = numbers if source not in INTEGERS or name in FLOATS else numbers.astype(np.int64)
        with np.errstate(all="ignore"):
            if name in FLOAT8 and not np.isnan(numbers).all():
                limit = float(ml_dtypes.finfo(numpy_dtype(name)).max)
                exact = np.clip(exact, -limit, limit)
            want = exact.astype(numpy_dtype(name))
        if name == "uint32" and source not in INTEGERS:  # of what it does not hold, x86 has no answer
            inside = np.abs(numbers) < 2.0**31
            got, want = got[inside], want[inside]
        np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64), err_msg=name)


@campaign("1-float6_e3m2fn", "0-float8_e5m2")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("saturate", [1, 0])
def test_floats_round_to_nearest_even(dtype, saturate):
    limit = float(ml_dtypes.finfo(numpy_dtype(dtype)).max)
    for values in (HALVES, SINGLES):
        bounded = np.clip(values, -limit, limit) if saturate else values
        [got] = cast(values, dtype, saturate=saturate)
        with np.errstate(invalid="ignore"):
            want = bounded.astype(numpy_dtype(dtype))
        same = (got.view(np.uint8) == want.view(np.uint8)) | (np.isnan(got) & np.isnan(want))
        assert same.all(), values[~same][:8]


@campaign("float4_e2m1fn", "float8_e5m2fnuz")
@pytest.mark.parametrize("dtype", FLOATS)
def test_doubles_are_rounded_once(dtype):
    numbers = np.sort(all_codes(dtype).astype(np.float64))
    numbers = numbers[np.isfinite(numbers)]
    ties = (numbers[1:] + numbers[:-1]) / 2
    below, above = cast(ties - np.abs(ties) * 2.0**-45, dtype), cast(ties + np.abs(ties) * 2.0**-45, dtype)
    np.testing.assert_array_equal(below[0].astype(np.float64), numbers[:-1])
    np.testing.assert_array_equal(above[0].astype(np.float64), numbers[1:])


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_keep_the_low_bits(dtype):
    numbers = np.arange(-300, 300, dtype=np.int16)
    for values in (numbers, numbers.astype(np.int64) << 40 | numbers, numbers.astype(np.float16)):
        np.testing.assert_array_equal(cast(values, dtype)[0], values.astype(np.int64).astype(numpy_dtype(dtype)))
    beyond = np.array([np.nan, np.inf, -np.inf, 1e20, -0.9, 1.9, -1.1], np.float32)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(cast(beyond, dtype)[0], beyond.astype(numpy_dtype(dtype)))


@pytest.mark.parametrize("dtype", [name for name, bits in NARROW.items() if bits < 8])
def test_only_the_low_bits_of_a_byte_count(dtype):
    bytes_ = np.arange(256, dtype=np.uint8)
    low = (bytes_ & ((1 << NARROW[dtype]) - 1)).view(numpy_dtype(dtype))
    targets = ["float32", *(["bool", "int8", "uint8", "int64", "float16"] if dtype in INTEGERS else [])]
    for name, got in zip(targets, cast(bytes_.view(numpy_dtype(dtype)), *targets), strict=True):
        np.testing.assert_array_equal(got, low.astype(np.float32).astype(name), err_msg=name)


def scale(values: np.ndarray, saturate: int, mode: str) -> np.ndarray:
    """The codes of powers of two, as if there were all exponents, then brought into their range."""
    magnitude = np.abs(values.astype(np.float64))
    fraction, exponent = np.frexp(np.where(np.isfinite(magnitude) & (magnitude > 0), magnitude, 1))
    up = {"up": fraction > 0.5, "nearest": fraction >= 0.75, "down": fraction > 1}[mode]
    code = np.where(np.isinf(magnitude), 1 << 20, np.where(magnitude == 0, -1, exponent - 1 + 127 + up))
    inside = np.clip(code, 0, 254) if saturate else np.where((code < 0) | (code > 254), 255, code)
    return np.where(np.isnan(magnitude), 255, inside).astype(np.uint8)


@campaign("1-down", "0-down")
@pytest.mark.parametrize("mode", codes.ROUND_MODES)
@pytest.mark.parametrize("saturate", [1, 0])
def test_powers_of_two(mode, saturate):
    ends = np.array([2.0**e * f for e in (-128, -127, -126, 126, 127) for f in (0.9, 1, 1.1, 1.4, 1.5, 1.6)])
    doubles = np.concatenate([ends, [1 + 2.0**-40, 1.5 - 2.0**-40, 1e300, 1e-300]])
    with np.errstate(over="ignore"):
        singles = np.concatenate([SINGLES, ends.astype(np.float32)])
    for values in (HALVES, singles, doubles):
        [got] = cast(values, SCALE, saturate=saturate, round_mode=mode)
        np.testing.assert_array_equal(got.view(np.uint8), scale(values, saturate, mode))


@pytest.mark.parametrize("mode", codes.ROUND_MODES)
def test_powers_of_two_are_those_of_onnx(mode):
    """Where onnx's reference keeps to the operator's text: numbers that float32 has without denormals."""
    values = SINGLES[np.isfinite(SINGLES) & (np.abs(SINGLES) >= 2.0**-126)]
    node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT8E8M0, round_mode=mode)
    model = model_of([node], {"x": values}, ["y"], opset=25)
    [want] = ReferenceEvaluator(model).run(None, {"x": values})
    np.testing.assert_array_equal(run_model(import_model(model), {"x": values})[0], want)


def test_an_unknown_rounding_is_refused():
    with pytest.raises(ModelError, match=r"the_Cast.*round_mode 'odd' is none of up, nearest, down"):
        import_model(node_model("Cast", [SINGLES[:3]], opset=25, to=TensorProto.FLOAT8E8M0, round_mode="odd")[0])


def test_cast_like_takes_the_attributes_too():
    values = np.array([1.1, 3.0, np.inf], np.float32)
    like = np.zeros(1, ml_dtypes.float8_e8m0fnu)
    model, inputs = node_model("CastLike", [values, like], opset=25, round_mode="down", saturate=0)
    assert run_model(import_model(model), inputs)[0].view(np.uint8).tolist() == [127, 128, 255]


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("raw", [True, False])
def test_weights_are_unpacked(dtype, raw, tmp_path):
    values = np.tile(all_codes(dtype), 4099 // (1 << NARROW[dtype]) + 1)[:4099]
    codes_of = values.view(np.uint8)
    tensor = numpy_helper.from_array(values, "w")
    if not raw:
        width, per = NARROW[dtype], {2: 4, 4: 2}.get(NARROW[dtype], 1)
        lanes = np.pad(codes_of, (0, -len(codes_of) % per)).reshape(-1, per).astype(np.int32)
        packed = (lanes << np.arange(per) * width).sum(axis=1)
        tensor = TensorProto(name="w", data_type=kind(dtype), dims=[4099], int32_data=packed.tolist())
    node = helper.make_node("Transpose", ["w"], ["y"])
    output = helper.make_tensor_value_info("y", kind(dtype), [4099])
    graph = helper.make_graph([node], "net", [], [output], [tensor])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)])
    onnx.save(model, tmp_path / "m.onnx")
    for source in (model, tmp_path / "m.onnx") if "float6" not in dtype else ():
        np.testing.assert_array_equal(import_model(source).params["w"].array().view(np.uint8), codes_of)
    graph.node[0].CopyFrom(helper.make_node("Cast", ["w"], ["y"], to=TensorProto.FLOAT))
    graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, [4099]))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    onnx.save(model, tmp_path / "m.onnx")
    for source in (model, tmp_path / "m.onnx"):
        np.testing.assert_array_equal(run_model(import_model(source), {})[0], values.astype(np.float32))


MOVED = [name for name in NARROW if "float6" not in name]  # which ONNX has no movement for


@campaign("int2", "uint4", "float4_e2m1fn", "float8_e4m3fn", "float8_e8m0fnu")
@pytest.mark.parametrize("dtype", MOVED)
def test_codes_move_as_they_are(dtype):
    """Through a compiled program, with constants of one and of several elements."""
    values = np.resize(all_codes(dtype), (4, 65))
    few = all_codes(dtype)[1:4]
    one = all_codes(dtype)[-1:]
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"]),
        helper.make_node("Identity", ["t"], ["i"]),
        helper.make_node("Reshape", ["i", "shape"], ["r"]),
        helper.make_node("Pad", ["r", "pads"], ["reflected"], mode="reflect"),
        helper.make_node("Pad", ["x", "pads", "one"], ["bordered"]),
        helper.make_node("Pad", ["few", "ends", "one"], ["longer"]),
        helper.make_node("ConstantOfShape", ["shape"], ["filled"], value=numpy_helper.from_array(one)),
        helper.make_node(
            "If", ["c"], ["chosen"], then_branch=_branch("few", dtype), else_branch=_branch("rest", dtype)
        ),
    ]
    weights = {"shape": np.array([13, 20]), "pads": np.array([1, 2, 3, 4]), "ends": np.array([1, 2])}
    weights |= {"one": one[0], "few": few, "rest": few[::-1].copy()}
    inputs = {"x": values, "c": np.array(False)}
    model = model_of(nodes, inputs, ["reflected", "bordered", "longer", "filled", "chosen"], weights, opset=25)
    got = compiled(model, inputs)
    bytes_, last = values.view(np.uint8), one.view(np.uint8).item()
    want = [
        np.pad(bytes_.T.reshape(13, 20), [(1, 3), (2, 4)], mode="reflect"),
        np.pad(bytes_, [(1, 3), (2, 4)], constant_values=last),
        np.pad(few.view(np.uint8), [(1, 2)], constant_values=last),
        np.full((13, 20), last),
        few[::-1].view(np.uint8),
    ]
    for a, b in zip(got, want, strict=True):
        assert a.dtype == numpy_dtype(dtype)
        np.testing.assert_array_equal(a.view(np.uint8), b)


def _branch(name: str, dtype: str) -> onnx.GraphProto:
    output = helper.make_tensor_value_info("out", kind(dtype), [3])
    return helper.make_graph([helper.make_node("Identity", [name], ["out"])], name, [], [output])


@pytest.mark.parametrize("dtype", FLOAT8)
@pytest.mark.parametrize("op", ["IsNaN", "IsInf"])
def test_questions_about_float8(op, dtype):
    model, inputs = node_model(op, [all_codes(dtype)], opset=20)
    ask = np.isnan if op == "IsNaN" else np.isinf
    np.testing.assert_array_equal(run_model(import_model(model), inputs)[0], ask(all_codes(dtype).astype(np.float32)))


def test_what_the_schema_does_not_allow_is_refused():
    values = all_codes("int4")
    model, _ = node_model("Identity", [values], opset=25)
    model.graph.node[0].CopyFrom(helper.make_node("Concat", ["in0", "in0"], ["out0"], "join", axis=0))
    model.graph.output[0].type.tensor_type.shape.dim[0].dim_value = 32
    with pytest.raises(UnsupportedError, match="dtype int4 of input 'inputs'"):
        import_model(model)


def test_bits_of_narrow_types_under_another_name():
    for source, target in [("int2", "uint2"), ("uint4", "float4_e2m1fn"), ("uint8", SCALE), ("float8_e5m2", "int8")]:
        values = np.arange(1 << NARROW.get(source, 8), dtype=np.uint8).view(numpy_dtype(source))
        model, inputs = node_model("BitCast", [values], opset=26, to=kind(target))
        [got] = run_model(import_model(model), inputs)
        assert (got.dtype, got.tobytes()) == (numpy_dtype(target), values.tobytes())
    model, _ = node_model("BitCast", [all_codes("int4")], opset=26, to=TensorProto.UINT4)
    model.graph.node[0].attribute[0].i = TensorProto.UINT2
    with pytest.raises(ModelError, match="int4 and uint2 have not the same width"):
        import_model(model)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float4_e2m1fn"])
def test_the_smallest_codes_beside_a_product(dtype):
    """Whose kernel, which what is added is read in, takes denormals for zero: codes must not pass through them."""
    added = np.resize(all_codes(dtype)[:3], (8, 64))
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"]),
        helper.make_node("Cast", ["added"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["product", "wide"], ["y"]),
    ]
    inputs = {"x": np.zeros((8, 32), np.float32), "added": added}
    model = model_of(nodes, inputs, ["y"], {"w": np.ones((32, 64), np.float32)}, opset=25)
    np.testing.assert_array_equal(compiled(model, inputs)[0], added.astype(np.float32))
