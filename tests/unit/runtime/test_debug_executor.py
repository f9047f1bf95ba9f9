"""``DebugModule``: results of single calls, dumps, and the watch for NaN and infinities."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_case import model_of
from small_network import W, X, network, node

import tilewright as tw
from tilewright.core.model import numpy_dtype, parse_tensor_type
from tilewright.runtime.graph.debug_executor import DebugModule
from tilewright.tools.debugging.oracle import Oracle


def opened(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the first extent of each input open."""
    for value in model.graph.input:
        value.type.tensor_type.shape.dim[0].dim_param = "n"
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    return model


def compiled(model: onnx.ModelProto, opt_level: int = 3, **options) -> tw.Module:
    return tw.compile(model, workers=0, num_threads=1, cache=False, opt_level=opt_level, **options)


@pytest.fixture(scope="module", params=["static", "open"])
def unfused(request) -> tw.Module:
    """The network with a kernel for each node, for the shapes of its inputs or for all."""
    return compiled(network(reshaped=True) if request.param == "static" else opened(network(reshaped=True)), 0)


def test_the_names_of_the_package_lead_here():
    assert tw.runtime.DebugModule is DebugModule and tw.runtime.Module is tw.Module


def test_outputs_are_those_of_the_module(unfused):
    for got, want in zip(DebugModule(unfused).run({"x": X}), unfused.run({"x": X}), strict=True):
        np.testing.assert_array_equal(got, want)


def test_each_nodes_result_is_onnxruntimes_although_later_ones_take_its_place(unfused):
    want, debug = Oracle(network(reshaped=True)).values({"x": X}), DebugModule(unfused)
    debug.run({"x": X})
    names = {"the_MatMul": "a", "the_Relu": "b", "the_Exp": "c", "the_Transpose": "e", "the_Sigmoid": "f"}
    for name, value in names.items():
        got = debug.debug_get_output(name)
        np.testing.assert_allclose(got, want[value].reshape(got.shape), rtol=1e-5, err_msg=name)
        assert got.dtype == want[value].dtype


def test_a_call_is_named_by_number_node_or_kernel(unfused):
    debug, kernel = DebugModule(unfused), unfused.manifest.kernels[0].name
    first = debug.debug_get_output(0, inputs={"x": X})
    np.testing.assert_array_equal(first, debug.debug_get_output("the_MatMul", inputs={"x": X}))
    np.testing.assert_array_equal(first, debug.debug_get_output(kernel, inputs={"x": X}))


def test_a_fused_call_has_the_result_of_its_last_node():
    model = model_of([node("Neg", "x", "a"), node("Exp", "a", "y")], {"x": X}, ["y"])
    debug = DebugModule(compiled(model))
    for name in ("the_Neg", "the_Exp"):
        np.testing.assert_allclose(debug.debug_get_output(name, inputs={"x": X}), np.exp(-X), rtol=1e-5)


@pytest.mark.parametrize(
    "node, index, message",
    [
        ("the_Reshape", 0, "computes 'the_Reshape': it is no node, is only another view .* the calls are of 'the_MatM"),
        (99, 0, "the run made no call 99"),
        (-1, 0, "the run made no call -1"),
        ("the_Exp", 1, "has 1 results, there is no number 1"),
    ],
)
def test_a_call_that_is_none_is_an_error_of_one_line(unfused, node, index, message):
    with pytest.raises(tw.InputError, match=message) as info:
        DebugModule(unfused).debug_get_output(node, index, {"x": X})
    assert "\n" not in str(info.value)


def test_inputs_are_needed_and_held_to_the_programs(unfused):
    with pytest.raises(tw.InputError, match="needs inputs: call run first"):
        DebugModule(unfused).debug_get_output(0)
    with pytest.raises(tw.InputError, match="unknown input 'z'"):
        DebugModule(unfused).run({"z": X})
    with pytest.raises(tw.InputError, match="cannot watch for 'zero': choose from 'nan', 'inf', 'nonfinite'"):
        DebugModule(unfused).run({"x": X}, watch="zero")  # type: ignore[arg-type]


def test_dumps_are_onnxruntimes_values(unfused, tmp_path):
    DebugModule(unfused, tmp_path / "dumps").run({"x": X})
    rows = json.loads((tmp_path / "dumps" / "index.json").read_text())
    want = Oracle(network(reshaped=True)).values({"x": X})
    of_node = {"the_MatMul": "a", "the_Relu": "b", "the_Exp": "c", "the_Transpose": "e"}
    seen = []
    for row in rows:
        array = np.load(tmp_path / "dumps" / row["file"])
        assert (list(array.shape), array.dtype.name) == (row["shape"], row["dtype"])
        if len(row["nodes"]) == 1 and row["nodes"][0] in of_node:
            value = want[of_node[row["nodes"][0]]]
            np.testing.assert_allclose(array, value.reshape(array.shape), rtol=1e-5)
            seen += row["nodes"]
    assert sorted(seen) == sorted(of_node) and [row["call"] for row in rows] == list(range(len(rows)))


def test_dumps_of_a_run_that_stops_are_indexed(tmp_path):
    model = model_of([node("Log", "x", "a"), node("Transpose", "a", "y")], {"x": X}, ["y"])
    with pytest.raises(tw.NonFiniteError):
        DebugModule(compiled(model, 0), tmp_path).run({"x": X}, watch_nan=True)
    assert [row["nodes"] for row in json.loads((tmp_path / "index.json").read_text())] == [["the_Log"]]


def test_a_folder_that_cannot_be_written_is_one_line(unfused, tmp_path):
    Path(tmp_path, "file").write_text("")
    with pytest.raises(tw.ArtifactError, match=r"cannot write results into .*file"):
        DebugModule(unfused, tmp_path / "file").run({"x": X})


def test_bfloat16_results_have_their_type_and_dumps_their_bytes(tmp_path):
    x = X.astype(ml_dtypes.bfloat16)
    debug = DebugModule(
        compiled(model_of([node("Neg", "x", "a"), node("Abs", "a", "y")], {"x": x}, ["y"]), 0), tmp_path
    )
    debug.run({"x": x})
    np.testing.assert_array_equal(debug.debug_get_output("the_Neg"), np.negative(x))
    [row, _] = json.loads((tmp_path / "index.json").read_text())
    np.testing.assert_array_equal(np.load(tmp_path / row["file"]).view(numpy_dtype(row["dtype"])), np.negative(x))


MAKERS = {
    "Log": (["Log", "x", "b"], -1.0),
    "Sqrt": (["Sqrt", "x", "b"], -1.0),
    "Div": (["Div", "x x", "b"], 0.0),
}


@pytest.mark.parametrize("op", MAKERS)
@pytest.mark.parametrize("form", ["static", "open"])
def test_the_watch_names_the_node_that_made_nan(op, form):
    made, value = MAKERS[op]
    nodes = [node(*made), node("Transpose", "b", "t", perm=[1, 0]), node("Exp", "t", "y")]
    model = model_of(nodes, {"x": X}, ["y"])
    bad = np.ones((4, 6), np.float32)
    bad[2, 3] = value
    debug = DebugModule(compiled(opened(model) if form == "open" else model, 0))
    assert debug.first_nonfinite({"x": np.ones((4, 6), np.float32)}) is None
    found = debug.first_nonfinite({"x": bad}, "nan")
    assert found is not None and found.nodes == (f"the_{op}",)
    assert (found.index, found.amount, found.size, found.given) == ((2, 3), 1, 24, ())
    with pytest.raises(tw.NonFiniteError, match=rf"^call 0 \(.*: node 'the_{op}'\) made -?nan at \[2, 3\][^\n]*$"):
        debug.run({"x": bad}, watch_nan=True)


def test_the_watch_tells_infinities_from_nan_and_what_was_given():
    model = model_of([node("Exp", "x", "a"), node("Sub", "a a", "t"), node("Relu", "t", "y")], {"x": X}, ["y"])
    debug, huge = DebugModule(compiled(model, 0)), np.full((4, 6), 200, np.float32)
    found = [debug.first_nonfinite({"x": huge}, watch) for watch in ("nan", "inf", "nonfinite")]
    assert [f.nodes for f in found if f] == [("the_Sub",), ("the_Exp",), ("the_Exp",)]
    given = debug.first_nonfinite({"x": np.full((4, 6), np.nan, np.float32)})
    assert given is not None and given.given == ("x",) and "the model's input 'x' has such elements" in str(given)


def test_integers_and_codes_are_no_floats():
    x = np.full(8, np.nan, np.float32)
    nodes = [
        node("IsNaN", "x", "a"),
        node("Cast", "a", "i", to=TensorProto.INT32),
        node("Cast", "x", "c", to=TensorProto.FLOAT8E5M2),
    ]
    debug = DebugModule(compiled(model_of(nodes, {"x": x}, ["i", "c"], opset=19), 0))
    assert debug.run({"x": x}, watch="nonfinite")[0].tolist() == [1] * 8


def test_a_loop_of_the_program_has_a_call_for_each_step(tmp_path):
    body = helper.make_graph(
        [
            helper.make_node("Concat", ["v", "x"], ["w"], "grow", axis=0),
            helper.make_node("Identity", ["go"], ["on"], "on"),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", TensorProto.FLOAT, ["k", 6]),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("w", TensorProto.FLOAT, None),
        ],
    )
    graph = helper.make_graph(
        [helper.make_node("Loop", ["n", "", "x"], ["y"], "loop", body=body)],
        "case",
        [
            helper.make_tensor_value_info("n", TensorProto.INT64, []),
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 6]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["m", 6])],
    )
    module = compiled(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]))
    debug = DebugModule(module, tmp_path)
    debug.run({"n": np.array(3), "x": X})
    shapes = [row["shape"] for row in json.loads((tmp_path / "index.json").read_text())]
    assert [s for s in shapes if len(s) == 2][-1] == [16, 6] and len(shapes) >= 3
    assert debug.debug_get_output("grow").shape == (16, 6)


def test_loads_what_was_saved_and_takes_the_program_for_the_sizes(tmp_path):
    module = compiled(opened(network(reshaped=True)), 0, specialize=[{"x": (4, 6)}])
    debug = DebugModule(module.export_library(tmp_path / "net.so"))
    longer = np.concatenate([X, X])
    for given in (X, longer):
        want = Oracle(model_of([node("MatMul", "x w", "a")], {"x": given}, ["a"], {"w": W})).values({"x": given})
        got = debug.debug_get_output("the_MatMul", inputs={"x": given})
        np.testing.assert_allclose(got, want["a"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "text, want", [("4x8xf32", ((4, 8), "float32")), ("bf16", ((), "bfloat16")), ("3xindex", ((3,), "int64"))]
)
def test_types_of_signatures(text: str, want: tuple[Sequence[int], str]):
    assert parse_tensor_type(text) == want
