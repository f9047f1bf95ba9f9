"""Whole models: inputs, shapes, order, functions, branches, locations; and each way in which a model is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_case import check_model, model_of, node_model
from reference import run_model

from tilewright.core.errors import ModelError, UnsupportedError
from tilewright.frontends import import_model

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def relu(shape: list[int | str | None] | None, dtype: int = 1) -> onnx.ModelProto:
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", dtype, shape)],
        [helper.make_tensor_value_info("y", dtype, shape)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def test_main_carries_names_weights_and_locations():
    weight = np.arange(300, dtype=np.float32)
    nodes = [helper.make_node("Add", ["x", "w"], ["t"], name="bias"), helper.make_node("Relu", ["t"], ["y"])]
    x = np.ones((2, 300), np.float32)
    imported = import_model(model_of(nodes, {"x": x}, ["y"], {"w": weight, "unused": weight}))
    text = imported.module.operation.get_asm(enable_debug_info=True)
    assert 'tensor<2x300xf32> {tw.name = "x"}' in text and 'tensor<300xf32> {tw.param = "w"}' in text
    assert 'loc("bias")' in text and 'loc("Relu_1")' in text  # a node without a name has its op and position
    assert list(imported.params) == ["w"]
    assert [(i.name, i.shape, i.dtype) for i in imported.outputs] == [("y", (2, 300), "float32")]


def test_only_the_nodes_that_are_needed():
    nodes = [
        helper.make_node("Relu", ["t"], ["y"]),
        helper.make_node("Foo", ["x"], ["dead"], domain="nowhere"),
        helper.make_node("Neg", ["x"], ["t"]),
    ]
    model = model_of(nodes[::2][::-1], {"x": X}, ["y"])
    model.graph.node.append(nodes[1])
    model.opset_import.append(helper.make_opsetid("nowhere", 1))
    np.testing.assert_array_equal(run_model(import_model(model), {"x": X})[0], np.maximum(-X, 0))


def test_an_initialiser_that_is_also_an_input_is_none():
    model = model_of([helper.make_node("Add", ["x", "w"], ["y"])], {"x": X}, ["y"], {"w": X[0]})
    model.graph.input.append(helper.make_tensor_value_info("w", 1, [3]))
    imported = import_model(model)
    assert [i.name for i in imported.inputs] == ["x"]


def test_outputs_may_be_inputs_weights_and_twice_the_same():
    nodes = [helper.make_node("Identity", ["x"], ["a"]), helper.make_node("Identity", ["w"], ["b"])]
    imported = import_model(model_of([*nodes, helper.make_node("Relu", ["x"], ["c"])], {"x": X}, list("abc"), {"w": X}))
    assert len(imported.outputs) == 3


def test_a_model_local_function_with_attributes():
    body = [helper.make_node("LeakyRelu", ["a"], ["t"]), helper.make_node("Add", ["t", "a"], ["b"])]
    reference = body[0].attribute.add(name="alpha", ref_attr_name="slope")
    reference.type = onnx.AttributeProto.FLOAT
    function = helper.make_function("mine", "F", ["a"], ["b"], body, [helper.make_opsetid("", 18)], ["slope"])
    calls: list[dict[str, Any]] = [{"slope": 0.5}, {}]
    for attributes in calls:
        node = helper.make_node("F", ["x"], ["y"], name="call", domain="mine", **attributes)
        model = model_of([node], {"x": X - 3}, ["y"], functions=[function], domains=["mine"])
        model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", 1, X.shape))
        check_model(model, {"x": X - 3})
        assert 'loc("call")' in import_model(model).module.operation.get_asm(enable_debug_info=True)


def test_an_op_without_a_converter_falls_back_on_its_schemas_body():
    nodes = [helper.make_node("MeanVarianceNormalization", ["x"], ["y"], axes=[0, 1])]
    check_model(model_of(nodes, {"x": X}, ["y"]), {"x": X}, rtol=1e-4)
    # This one's body depends on the types of its inputs and on its attributes.
    inputs = {"x": X, "l": np.array([0, 2])}
    node = helper.make_node("NegativeLogLikelihoodLoss", ["x", "l"], ["y"], reduction="mean")
    check_model(model_of([node], inputs, ["y"]), inputs)


def branches() -> dict[str, Any]:
    made = {}
    for name, op in (("then_branch", "Add"), ("else_branch", "Mul")):
        nodes = [helper.make_node(op, ["x", "x"], [name])]
        made[name] = helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(name, 1, X.shape)])
    return made


def test_a_decided_branch_is_taken_at_import():
    node = helper.make_node("If", ["c"], ["y"], **branches())
    module = import_model(model_of([node], {"x": X}, ["y"], {"c": np.array(False)})).module
    assert "arith.mulf" in str(module) and "arith.addf" not in str(module) and "scf.if" not in str(module)


@pytest.mark.parametrize("condition", [True, False])
def test_an_open_branch_is_decided_at_run_time(condition):
    node = helper.make_node("If", ["c"], ["y"], **branches())
    inputs = {"c": np.array(condition), "x": X}
    check_model(model_of([node], inputs, ["y"]), inputs)


def test_open_dimensions_are_given_by_input_or_by_name():
    assert import_model(relu(["n", 3]), {"x": (2, 3)}).inputs[0].shape == (2, 3)
    model = model_of([helper.make_node("Add", ["a", "b"], ["y"])], {"a": X, "b": X}, ["y"])
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "n"
    assert [i.shape for i in import_model(model, {"a": (5, 3)}).inputs] == [(5, 3), (5, 3)]


def test_dimensions_that_stay_open_are_symbols():
    [info] = import_model(relu(["n", 3, None])).inputs
    assert list(map(str, info.shape)) == ["n", "3", "x.2"]


@pytest.mark.parametrize("word", ["?", "-1", "None"])
def test_a_word_for_any_extent_is_no_name(word):
    """Exporters write it for all extents that they do not know, which may differ."""
    [info] = import_model(relu([3, word, word])).inputs
    assert list(map(str, info.shape)) == ["3", "x.1", "x.2"]


@pytest.mark.parametrize(
    ("model", "shapes", "message"),
    [
        (relu(None), None, "'x' has no shape in the file; give it, e.g. --input-shape x:1,3,224,224"),
        (relu(["n", 3]), {"y": (1, 3)}, "has no input 'y'; its inputs are x"),
        (relu(["n", 3]), {"x": (1, 3, 4)}, r"'x' has 2 dimensions \(n,3\), the given shape 3 \(1,3,4\); give .* x:1,3"),
        (relu(["n", 3]), {"x": (1, 4)}, "'x' is n,3 in the file, which does not allow 1,4; give --input-shape x:1,3"),
        (relu(["n", 3]), {"x": ("2..5", 4)}, "which does not allow 2..5,4; give --input-shape x:2..5,3"),
        (relu(["n", 3]), {"x": (-1, 3)}, "extents that are not negative"),
    ],
)
def test_wrong_shapes_are_refused(model, shapes, message):
    with pytest.raises(ModelError, match=message) as caught:
        import_model(model, shapes)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"not an ONNX file at all", b"\x08\x0a\x3a\xff", b"\0" * 4000])
def test_what_is_no_model_is_refused(tmp_path, content):
    path = tmp_path / "bad.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=r"bad\.onnx: "):
        import_model(path)


def test_a_truncated_file_is_refused(tmp_path):
    path = tmp_path / "cut.onnx"
    weight = np.zeros((100, 100), np.float32) + X[0, 1]
    data = model_of([helper.make_node("Add", ["x", "w"], ["y"])], {"x": weight}, ["y"], {"w": weight})
    path.write_bytes(data.SerializeToString()[:20000])
    with pytest.raises(ModelError, match=r"cut\.onnx: is not an ONNX model, or a truncated one"):
        import_model(path)


def test_missing_files_and_folders_are_refused(tmp_path):
    with pytest.raises(ModelError, match=r"none\.onnx: no such file; give the path of an ONNX file"):
        import_model(tmp_path / "none.onnx")
    with pytest.raises(ModelError, match="is a folder"):
        import_model(tmp_path)


def test_an_empty_graph_is_refused():
    empty = helper.make_model(helper.make_graph([], "g", [], []))
    with pytest.raises(ModelError, match="has no graph with outputs"):
        import_model(empty)


@pytest.mark.parametrize(("opset", "message"), [(0, "its opset versions are"), (999, "upgrade it")])
def test_opsets_out_of_range_are_refused(opset, message):
    model = relu([2, 3])
    model.opset_import[0].version = opset
    with pytest.raises(ModelError, match=message):
        import_model(model)


def old_model(opset, *nodes):
    model = model_of(list(nodes), {"x": X}, [nodes[-1].output[0]])
    model.opset_import[0].version = opset
    model.ir_version = 3
    model.graph.output[0].type.CopyFrom(model.graph.input[0].type)
    return model


@pytest.mark.parametrize("opset", [1, 5])
def test_ops_before_opset_6_that_stayed_what_they_were(opset):
    nodes = [helper.make_node("Neg", ["x"], ["a"]), helper.make_node("Relu", ["a"], ["y"])]
    for node in nodes:
        node.attribute.append(helper.make_attribute("consumed_inputs", [0]))
    [got] = run_model(import_model(old_model(opset, *nodes)), {"x": X})
    np.testing.assert_array_equal(got, np.maximum(-X, 0))


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        (helper.make_node("Tile", ["x", "x", "x"], ["y"], name="t"), r"Tile \(t\): it is another operator at opset 5"),
        (helper.make_node("Identity", ["x"], ["y"], name="t", up=1), r"Identity \(t\): attribute 'up' is unknown"),
        (helper.make_node("Bar", ["x"], ["y"], name="t"), r"Bar \(t\): no converter at opset 5"),
    ],
)
def test_ops_before_opset_6_that_changed_are_refused(node, reason):
    with pytest.raises(ModelError, match=reason):
        import_model(old_model(5, node))


def test_a_model_without_opset_is_refused():
    model = relu([2, 3])
    del model.opset_import[:]
    with pytest.raises(ModelError, match="it names no opset"):
        import_model(model)


def test_all_unsupported_ops_are_listed_at_once():
    nodes = [
        helper.make_node("Foo", ["x"], ["a"], name="one", domain="my.ops"),
        helper.make_node("Bar", ["a"], ["b"], name="two"),
        helper.make_node("Bar", ["b"], ["c"], name="three"),
        helper.make_node("Exp", ["i"], ["d"], name="four"),
        helper.make_node("Add", ["c", "d"], ["y"]),
    ]
    model = model_of([helper.make_node("Relu", ["x"], ["y"])], {"x": X, "i": X.astype(np.int64)}, ["y"])
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    model.opset_import.append(helper.make_opsetid("my.ops", 1))
    with pytest.raises(UnsupportedError) as caught:
        import_model(model)
    message = str(caught.value)
    assert "my.ops.Foo (one): the domain 'my.ops' is unknown" in message
    assert "Bar (two, three): no converter at opset 18" in message
    assert "Exp (four): dtype int64" in message
    assert "Add" not in message and "\n" not in message


def test_unsupported_dtypes_name_the_model_and_the_tensor():
    with pytest.raises(UnsupportedError, match=r"^the model: input 'x' has dtype 99, which is not supp"):
        import_model(relu([2], 99))
    with pytest.raises(UnsupportedError, match="dtype string of input 'X'"):
        import_model(relu([2], TensorProto.STRING))


@pytest.mark.parametrize(
    "op, others, message",
    [
        ("Mul", ["i"], "inputs 'A' of float32 and 'B' of int64 must have one dtype"),
        ("Concat", ["x", "i"], r"inputs 'inputs' of float32 and 'inputs\[2\]' of int64 must have one dtype"),
        ("Where", ["i"], "inputs 'X' of float32 and 'Y' of int64 must have one dtype"),
    ],
)
def test_inputs_that_share_a_type_variable_have_one_dtype(op: str, others: list[str], message: str):
    condition = ["c"] if op == "Where" else []
    attributes: dict[str, Any] = {"axis": 0} if op == "Concat" else {}
    node = helper.make_node(op, [*condition, "x", *others], ["y"], name="one", **attributes)
    model = model_of([helper.make_node("Relu", ["x"], ["y"])], {"x": X, "i": X.astype(np.int64), "c": X > 0}, ["y"])
    del model.graph.node[:]
    model.graph.node.append(node)
    with pytest.raises(UnsupportedError, match=rf"{op} \(one\): {message}") as caught:
        import_model(model)
    assert "\n" not in str(caught.value)


def test_what_a_later_version_allows_to_differ_may_differ():
    """Pow had one type variable for both inputs before opset 12."""
    model = node_model("Pow", [X, X.astype(np.int64)], opset=11)[0]
    assert [output.dtype for output in import_model(model).outputs] == ["float32"]


def test_shapes_that_do_not_fit_name_the_node():
    model = model_of([helper.make_node("Add", ["x", "w"], ["y"], name="sum")], {"x": X}, ["y"], {"w": X[0]})
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 4
    with pytest.raises(ModelError, match=r"node 'sum' \(Add\): shapes \[2, 4\] and \[3\] do not broadcast"):
        import_model(model)


@pytest.mark.parametrize("channels, params", [(4, []), (5, ["scale"])])
def test_what_channels_are_scaled_with_is_a_weight(channels: int, params: list[str]) -> None:
    """A few floats are constants in the IR; kernels that differ in more than those would each be compiled."""
    x, scale = np.ones((2, channels), np.float32), np.arange(channels, dtype=np.float32)
    node = helper.make_node("Mul", ["x", "scale"], ["y"])
    assert list(import_model(model_of([node], {"x": x}, ["y"], {"scale": scale})).params) == params
