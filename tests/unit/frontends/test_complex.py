"""Complex tensors through every op of ONNX that takes them, compiled, against ONNX's reference."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
import tvm_ffi
from onnx import defs, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx_case import node_model
from samples import campaign
from text_model import model

import tilewright as tw
from tilewright.core.errors import InputError, UnsupportedError
from tilewright.frontends import import_model

DTYPES = ["complex64", "complex128"]
RANDOM = np.random.default_rng(7)
Arrays = Sequence[np.ndarray | None]


def numbers(*shape: int) -> np.ndarray:
    """Complex numbers."""
    return RANDOM.standard_normal(shape) + 1j * RANDOM.standard_normal(shape)


def ints(*items: int) -> np.ndarray:
    return np.array(items, np.int64)


def flags(*shape: int) -> np.ndarray:
    return RANDOM.integers(0, 2, shape).astype(bool)


X = numbers(2, 3, 4)
X[0, :, :2] = [[0, complex(-0.0, -0.0)], [complex(0, np.nan), complex(0, 1)], [complex(-np.inf, 1), 1]]
IMAGE = numbers(1, 4, 6, 6)
GRID = RANDOM.uniform(-1.2, 1.2, (1, 3, 5, 2)).astype(np.float32)
PADS = ints(0, 1, 0, 0, 0, 2)
UPDATES = (ints(2, 0, 2).reshape(1, 3, 1), numbers(1, 3, 1))  # the middle axis has each place once

# Op, inputs (complex ones get the dtype that is tested), the positions of known inputs, attributes.
Case = tuple[str, Arrays, Collection[int], dict[str, Any]]
MOVES: list[Case] = [
    ("CenterCropPad", [X, ints(5, 2)], [1], {"axes": [1, 2]}),
    ("Compress", [X, np.array([True, False, True])], [], {"axis": 1}),
    ("Concat", [X, X[:, :1]], [], {"axis": 1}),
    ("DepthToSpace", [IMAGE], [], {"blocksize": 2}),
    ("Expand", [X[:, :1], ints(2, 1, 3, 4)], [1], {}),
    ("Flatten", [X], [], {"axis": 2}),
    ("Gather", [X, ints(2, 0, -1)], [], {"axis": 2}),
    ("GatherElements", [X, RANDOM.integers(0, 3, (2, 2, 4))], [], {"axis": 1}),
    ("GatherND", [X, ints(1, 2, 0, 1).reshape(2, 2)], [], {}),
    ("Identity", [X], [], {}),
    ("NonZero", [X], [], {}),
    ("OneHot", [ints(1, 0, 3), np.array(4), np.array([2 - 1j, 1 + 1j])], [1], {}),
    ("Pad", [X, PADS, np.array(2 - 3j)], [1, 2], {}),
    ("Pad", [X, PADS, np.array(2 - 3j)], [1], {}),
    ("Pad", [X, PADS], [1], {}),
    ("Pad", [X, PADS], [1], {"mode": "reflect"}),
    ("Reshape", [X, ints(4, -1)], [1], {}),
    ("ReverseSequence", [X, ints(2, 1, 2)], [], {"batch_axis": 1, "time_axis": 0}),
    ("Scatter", [X[:1], *UPDATES], [], {"axis": 2, "opset": 10}),
    ("ScatterElements", [X[:1], *UPDATES], [], {"axis": 2}),
    ("ScatterND", [X, ints(1).reshape(1, 1), numbers(1, 3, 4)], [], {}),
    ("Shape", [X], [], {}),
    ("Size", [X], [], {}),
    ("Slice", [X, ints(2, 0), ints(-9, 4), ints(1, 2), ints(-1, 2)], [1, 2, 3, 4], {}),
    ("SpaceToDepth", [IMAGE], [], {"blocksize": 2}),
    ("Split", [X], [], {"axis": 2, "num_outputs": 2}),
    ("Squeeze", [X[:, :1], ints(1)], [1], {}),
    ("TensorScatter", [IMAGE, IMAGE[:, :, :2] * 2, ints(3)], [], {"opset": 24}),
    ("Tile", [X, ints(1, 2, 3)], [1], {}),
    ("Transpose", [X], [], {"perm": [2, 0, 1]}),
    ("Transpose", [numbers(64, 64)], [], {}),
    ("Trilu", [X, np.array(1)], [], {"upper": 0}),
    ("Unique", [np.array([3 + 1j, 1j, 3 + 1j, 2.0])], [], {}),
    ("Upsample", [IMAGE, np.array([1, 1, 2, 3], np.float32)], [1], {"opset": 9}),
    ("Unsqueeze", [X, ints(0, 3)], [1], {}),
    ("Where", [flags(3, 4), X, np.array([1 - 2j])], [], {}),
    ("Where", [flags(3, 4), X, np.array([1 - 2j])], [2], {}),
]
# These compute with elements. But for products that is linear, so that the parts' results are the result's parts.
SUMS: list[Case] = [
    ("Col2Im", [numbers(1, 8, 9), ints(4, 4), ints(2, 2)], [1, 2], {}),
    ("GridSample", [IMAGE, GRID], [], {"mode": "linear", "opset": 20}),
    ("GridSample", [IMAGE, GRID], [], {"mode": "nearest", "opset": 20}),
    ("Resize", [IMAGE, None, np.array([1, 1, 2, 0.5], np.float32)], [2], {"mode": "linear"}),
    ("Resize", [IMAGE, None, np.array([1, 1, 1.5, 0.5], np.float32)], [2], {"mode": "nearest"}),
    ("ScatterElements", [IMAGE, *(a.reshape(1, 1, 3, 1) for a in UPDATES)], [], {"axis": 3, "reduction": "add"}),
    ("ScatterND", [IMAGE, ints(0, 0).reshape(2, 1), numbers(2, 4, 6, 6)], [], {"reduction": "add"}),
]
# Nodes with x and y of shape [2,3], and their results; T is the dtype that is tested, CODE ONNX's number for it.
BODIES = {
    "If": (
        "z = If <then_branch = yes () => (T[2,3] p) { p = Identity(x) },"
        " else_branch = no () => (T[4,3] q) { q = Concat<axis = 0>(x, y) }> (no)",
        "T[n,3] z",
    ),
    "Loop": (
        "z = Loop <body = cell (int64 i, bool on, T[2,3] a) => (bool go, T[2,3] b)"
        " { go = Identity(on) c = Trilu(a) b = Where(odd, c, y) }> (three, yes, x)",
        "T[2,3] z",
    ),
    "Loop Concat": (
        "z = Loop <body = cell (int64 i, bool on, T[p,3] a) => (bool go, T[q,3] b)"
        " { go = Identity(on) b = Concat<axis = 0>(a, y) }> (three, yes, x)",
        "T[n,3] z",
    ),
    "Scan": (
        "s = Gather(y, one) z, w = Scan <num_scan_inputs = 1, body = cell (T[3] a, T[3] e) => (T[3] b, T[3] o)"
        " { b = Identity(e) o = Where(odd, a, e) }> (s, x)",
        "T[3] z, T[2,3] w",
    ),
    "SequenceAt SequenceConstruct SequenceLength ConcatFromSequence": (
        "s = SequenceConstruct(x, y) n = SequenceLength(s) v = SequenceAt(s, one) w = ConcatFromSequence<axis = 0>(s)",
        "T[2,3] v, int64 n, T[4,3] w",
    ),
    "SequenceEmpty SequenceInsert SequenceErase SplitToSequence": (
        "e = SequenceEmpty<dtype = CODE>() a = SequenceInsert(e, x) p = SplitToSequence<axis = 0>(y)"
        " q = SequenceErase(p) o = SequenceAt(q, zero) d = SequenceInsert(a, o) w = ConcatFromSequence<axis = 0>(d)",
        "T[3,3] w",
    ),
    "SequenceMap": (
        "p = SplitToSequence<axis = 0>(x) q = SequenceMap <body = f (T[a,b] i) => (T[b,a] j) { j = Transpose(i) }> (p)"
        " w = ConcatFromSequence<axis = 1>(q)",
        "T[3,2] w",
    ),
    "Optional OptionalHasElement": ("o = Optional(x) h = OptionalHasElement(o)", "bool h"),
    "OptionalGetElement": ("v = OptionalGetElement(x)", "T[2,3] v"),
    "RandomNormalLike": ("r = RandomNormalLike<dtype = 1>(x) s = Shape(r)", "int64[2] s"),
    "RandomUniformLike": ("r = RandomUniformLike<dtype = 11>(x) s = Shape(r)", "int64[2] s"),
}
FACTS = {"yes": np.array(True), "no": np.array(False), "odd": np.array([False, True, False])}
FACTS |= {"zero": np.array(0), "one": np.array(1), "three": np.array(3)}


def of_dtype(case: Case, dtype: str) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """The case's model and its inputs."""
    op, arrays, known, attributes = case
    count = {"Split": 2, "Unique": 4}.get(op, 1)
    arrays = [a.astype(dtype) if a is not None and a.dtype.kind == "c" else a for a in arrays]
    return node_model(op, arrays, known, count, **attributes)


def reference(made: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """What ONNX's reference gives for the model."""
    return [np.asarray(a) for a in ReferenceEvaluator(made).run(None, inputs)]


def by_parts(case: Case, dtype: str) -> np.ndarray:
    """What the reference gives for the real and for the imaginary parts, together."""
    op, arrays, known, attributes = case
    wide, parts = {"complex64": np.float32, "complex128": np.float64}[dtype], []
    for part in (np.real, np.imag):
        floats = [part(a).astype(wide) if a is not None and a.dtype.kind == "c" else a for a in arrays]
        made, inputs = node_model(op, floats, known, **attributes)
        parts.append(reference(made, inputs)[0])
    return (parts[0] + 1j * parts[1]).astype(dtype)


def unary(op: str, x: np.ndarray, result: str, **attributes: Any) -> onnx.ModelProto:
    """A model of one node, whose output has that dtype even where the op gives no such."""
    kinds = [helper.np_dtype_to_tensor_dtype(np.dtype(dtype)) for dtype in (x.dtype, result)]
    ends = [helper.make_tensor_value_info(n, kind, x.shape) for n, kind in zip("xy", kinds, strict=True)]
    node = helper.make_node(op, ["x"], ["y"], name=f"the_{op}", **attributes)
    graph = helper.make_graph([node], "g", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 26)], ir_version=10)


def agree(got: Sequence[np.ndarray], want: Sequence[np.ndarray], tolerance: float = 0.0) -> None:
    for a, b in zip(got, want, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, tolerance, tolerance)


def test_every_op_that_takes_complex_numbers_is_tested():
    takes = {
        schema.name
        for schema in defs.get_all_schemas()
        if schema.domain == ""
        and any("complex64" in kind for constraint in schema.type_constraints for kind in constraint.allowed_type_strs)
    }
    assert "Where" in takes
    tested = {op for op, *_ in (*MOVES, *SUMS)} | {op for names in BODIES for op in names.split()}
    assert takes - tested == {"BitCast", "Constant"}  # which have tests of their own


@campaign(
    "complex64",
    "Compress-complex128",
    "Expand-complex128",
    "GatherND-complex128",
    "Pad0-complex128",
    "ReverseSequence-complex128",
    "ScatterElements-complex128",
    "Split-complex128",
    "Where0-complex128",
)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", MOVES, ids=lambda case: case[0])
def test_what_moves_complex_numbers(case, dtype):
    made, inputs = of_dtype(case, dtype)
    got = tw.compile(made, workers=0).run(inputs)
    if case[0] == "Scatter":  # ScatterElements' first name, which the reference lacks
        made, _ = of_dtype(("ScatterElements", *case[1:3], {"axis": 2}), dtype)
    agree(got, reference(made, inputs))


@campaign("complex64", "Resize1-complex128")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", SUMS, ids=lambda case: case[0])
def test_what_adds_them(case, dtype):
    made, inputs = of_dtype(case, dtype)
    agree(tw.compile(made, workers=0).run(inputs), [by_parts(case, dtype)], 1e-5 if dtype == "complex64" else 1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ops", BODIES)
def test_what_has_a_body_or_is_the_hosts(ops, dtype):
    code = str(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
    nodes, outputs = (text.replace("T[", f"{dtype}[").replace("CODE", code) for text in BODIES[ops])
    inputs = FACTS | {"x": X[0, :2, 1:].astype(dtype), "y": numbers(2, 3).astype(dtype)}
    made = model(outputs, nodes, {n: a for n, a in inputs.items() if n in nodes}, opset=18)
    inputs = {i.name: inputs[i.name] for i in made.graph.input}
    agree(tw.compile(made, workers=0).run(inputs), reference(made, inputs))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("trips", [3, None])
def test_scan_outputs_of_a_loop(trips, dtype):
    nodes = f"""
        z, all = Loop <body = cell (int64 i, bool on, {dtype}[2,3] a) => (bool go, {dtype}[2,3] b, {dtype}[3] e) {{
            go = Identity(on) b = Gather(a, turned) e = Gather(b, first)
        }}> (trips, , x)
    """
    x = numbers(2, 3).astype(dtype)
    count = {"trips": np.array(trips or 3)}
    facts = {"turned": ints(1, 0), "first": np.array(0)}
    inputs = {"x": x} | ({} if trips else count)
    made = model(f"{dtype}[2,3] z, {dtype}[n,3] all", nodes, inputs, facts | (count if trips else {}))
    agree(tw.compile(made, workers=0).run(inputs), [x[::-1], x[[1, 0, 1]]])


@pytest.mark.parametrize("dtype, other", [("complex64", "float64"), ("uint64", "complex64"), ("complex128", None)])
def test_bits_under_another_dtype(dtype, other):
    x = numbers(2, 3).astype("complex64" if other else dtype)
    x = x if dtype.startswith("complex") else x.view(dtype)
    made = unary("BitCast", x, other or dtype, to=helper.np_dtype_to_tensor_dtype(np.dtype(other or dtype)))
    assert tw.compile(made, workers=0)(x)[0].tobytes() == x.tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_scattered(dtype):
    x, updates = numbers(3, 4).astype(dtype), numbers(2, 2).astype(dtype)
    places = ints(0, 0, 2, 1).reshape(2, 2)
    made, inputs = node_model("ScatterElements", [x, places, updates], axis=1, reduction="mul")
    want = x.copy()
    for row, column in np.ndindex(2, 2):
        want[row, places[row, column]] *= updates[row, column]
    agree(tw.compile(made, workers=0).run(inputs), [want], 1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("raw", [True, False])
@pytest.mark.parametrize("shape", [(2, 3), (40, 3)])
def test_constants_and_weights(shape, raw, dtype, tmp_path):
    """Small ones are in the kernel, large ones are mapped: in the file's two ways of writing numbers."""
    w, c = numbers(*shape).astype(dtype), numbers(1, 3).astype(dtype)
    w[0, 0] = complex(-0.0, np.nan)
    made = model(f"{dtype}[n,3] z", "z = Concat<axis = 0>(x, w, c)", {"x": c}, opset=18)
    made.graph.node.insert(0, helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(c)))
    data = w.tobytes() if raw else w.reshape(-1)
    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    made.graph.initializer.append(helper.make_tensor("w", code, shape, data, raw))
    onnx.save(made, tmp_path / "m.onnx")
    agree(tw.compile(tmp_path / "m.onnx", workers=0)(c), [np.concatenate([c, w, c])])


@pytest.mark.parametrize("dtype", DTYPES)
def test_open_sizes(dtype):
    nodes = "t = Transpose(x) s = Shape(t) e = Expand(k, s) w = Where(f, t, e) n = NonZero(x)"
    x, k, f = numbers(3, 5).astype(dtype), numbers(1).astype(dtype), flags(5, 1)
    x[1, :2] = [0, complex(-0.0, 0)]
    made = model(f"{dtype}[5,m] w, int64[2,n] n", nodes, {"x": x, "k": k, "f": f}, opset=18)
    made.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "rows"
    module = tw.compile(made, workers=0)
    for rows in (1, 3):
        part = x[:rows]
        agree(module(part, k, f), [np.where(f, part.T, k[0]), np.array(np.nonzero(part))])


@pytest.mark.parametrize("dtype", DTYPES)
def test_at_the_border(dtype, tmp_path):
    """Packed functions, a program from a file, an array that lies between the places that code may read."""
    x = numbers(4, 4).astype(dtype)
    made, _ = node_model("Transpose", [x])
    path = tw.compile(made, workers=0).export_library(tmp_path / "m.so")
    module = tw.load_module(path)
    assert [info.dtype for info in (*module.inputs, *module.outputs)] == [dtype, dtype]
    agree([np.from_dlpack(module["main_alloc"](tvm_ffi.from_dlpack(x)))], [x.T])
    odd = np.frombuffer(bytearray(x.nbytes + 8), np.uint8)[8:].view(dtype).reshape(x.shape)
    odd[:] = x
    agree(module(odd), [x.T])
    other = "complex128" if dtype == "complex64" else "complex64"
    with pytest.raises(InputError, match=f"input 'in0' must be {dtype}, got {other}"):
        module(x.astype(other))


def test_what_takes_no_complex_numbers_is_refused():
    x = numbers(2).astype("complex64")
    report = tw.check_model(unary("Abs", x, "complex64"))
    [problem] = report.problems
    assert (problem.reason, problem.nodes) == ("dtype complex64 of input 'X'", ("the_Abs",))
    assert problem.remedy.startswith("export the node with real and imaginary parts as float tensors")
    for op, array, to in (
        ("Cast", np.ones(2, np.float32), "complex64"),
        ("EyeLike", np.ones((2, 2), np.float32), "complex128"),
    ):
        attribute = {"to" if op == "Cast" else "dtype": helper.np_dtype_to_tensor_dtype(np.dtype(to))}
        with pytest.raises(UnsupportedError, match=rf"{op} \(the_{op}\): dtype {to} of output 'output'"):
            import_model(unary(op, array, to, **attribute))
    made, _ = node_model("ScatterElements", [x, ints(0), x[:1]], reduction="max")
    with pytest.raises(UnsupportedError, match="reduction 'max' of complex64, whose numbers have no order"):
        import_model(made)
