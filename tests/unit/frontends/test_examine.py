"""``check_model``: what it says about a model, and that every problem is told, wherever its node stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tilewright as tw

Problems = dict[tuple[str, str], tuple[str, ...]]


def value(name: str, shape: Sequence[Any] | None = (2, 3), dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[str],
    weights: dict[str, np.ndarray] | None = None,
    functions: Sequence[onnx.FunctionProto] = (),
    opset: int = 18,
) -> onnx.ModelProto:
    """A model that knows the domains ``my`` and ``mine``; its outputs have no shape."""
    initializers = [numpy_helper.from_array(a, n) for n, a in (weights or {}).items()]
    graph = helper.make_graph(nodes, "g", inputs, [value(n, None) for n in outputs], initializers)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("my", 1), helper.make_opsetid("mine", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10, functions=list(functions))


def node(op: str, inputs: str, outputs: str, name: str = "", domain: str = "", **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), outputs.split(), name=name, domain=domain, **attributes)


def problems(report: tw.CheckReport) -> Problems:
    return {(p.op, p.reason): p.nodes for p in report.problems}


def verdicts(report: tw.CheckReport) -> dict[str, str]:
    return {f"{n.name} in {n.where}" if n.where else n.name: n.verdict for n in report.nodes}


UNKNOWN = "the domain 'my' is unknown"


def test_all_problems_are_told_at_once_with_their_nodes():
    nodes = [
        node("Invented", "x", "a", "one", "my"),
        node("Nosuch", "a", "b", "two"),
        node("Nosuch", "b", "c", "three"),
        node("Exp", "i", "d", "four"),
        node("Relu", "c", "e", "five", glossy=1),
        node("Add", "e d", "y", "six"),
    ]
    report = tw.check_model(model(nodes, [value("x"), value("i", dtype=TensorProto.INT64)], ["y"]))
    assert not report.supported and report.work is None
    assert problems(report) == {
        ("my.Invented", UNKNOWN): ("one",),
        ("Nosuch", "no converter at opset 18"): ("two", "three"),
        ("Exp", "dtype int64 of input 'input'"): ("four",),
        ("Relu", "attribute 'glossy' is unknown at opset 18"): ("five",),
    }
    assert [p.kind for p in report.problems] == ["domain", "operator", "dtype", "attribute"]
    assert all(p.remedy for p in report.problems)
    assert verdicts(report)["six"] == "unchecked"


def branch(op: str, name: str, domain: str = "") -> onnx.GraphProto:
    return helper.make_graph([node(op, "x", "r", name, domain)], "b", [], [value("r")])


@pytest.mark.parametrize("condition", [node("Identity", "c", "k", "open"), node("Nosuch", "c", "k", "failed")])
def test_both_branches_are_looked_at_also_where_the_condition_failed(condition):
    choice = node(
        "If", "k", "y", "if", then_branch=branch("Invented", "deep", "my"), else_branch=branch("Nosuch", "low")
    )
    report = tw.check_model(model([condition, choice], [value("x"), value("c", [], TensorProto.BOOL)], ["y"]))
    found = problems(report)
    assert found["my.Invented", UNKNOWN] == ("deep in then_branch of if",)
    assert "low in else_branch of if" in found["Nosuch", "no converter at opset 18"]
    assert verdicts(report)["if"] == "unchecked"


def test_the_branch_that_a_known_condition_leaves_out_is_unused():
    choice = node("If", "k", "y", "if", then_branch=branch("Relu", "taken"), else_branch=branch("Nosuch", "dead"))
    report = tw.check_model(model([choice], [value("x")], ["y"], {"k": np.array(True)}))
    assert report.supported
    assert verdicts(report) == {
        "if": "compiled", "taken in then_branch of if": "compiled", "dead in else_branch of if": "unused"
    }  # fmt: skip


def test_a_branch_that_no_run_can_take_is_noted():
    short = helper.make_graph([node("Add", "x k", "r", "low")], "b", [], [value("r")])
    choice = node("If", "c", "y", "if", then_branch=branch("Relu", "good"), else_branch=short)
    inputs = [value("x"), value("c", [], TensorProto.BOOL)]
    report = tw.check_model(model([choice], inputs, ["y"], {"k": np.ones(4, np.float32)}))
    assert report.supported and report.work
    assert verdicts(report)["low in else_branch of if"] == "unused"
    [note] = report.notes
    assert note.startswith("node 'if': its else_branch cannot be run on inputs of these shapes: node 'low' (Add)")


def test_nodes_in_functions_are_told_by_their_own_names():
    body = [node("Relu", "a", "q", "first"), node("Invented", "q", "b", "inner", "my")]
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("my", 1)]
    function = helper.make_function("mine", "F", ["a"], ["b"], body, opsets)
    never = helper.make_function("mine", "G", ["a"], ["b"], [node("Nosuch", "a", "b")], opsets)
    calls = [node("F", "x", "p", "call", "mine"), node("F", "p", "y", "again", "mine")]
    report = tw.check_model(model(calls, [value("x")], ["y"], functions=[function, never]))
    assert problems(report) == {("my.Invented", "the domain 'my' is unknown"): ("inner in function mine.F",)}
    assert verdicts(report) == {
        "call": "unchecked",
        "again": "unchecked",
        "first in function mine.F": "unchecked",  # in the second call
        "inner in function mine.F": "unsupported",
    }
    assert {o.op: o.count for o in report.operators} == {"mine.F": 2, "Relu": 1, "my.Invented": 1}


def test_nodes_on_the_host_are_told_in_functions_too():
    body = [node("Unique", "a", "q", "distinct", axis=0), node("Relu", "q", "b", "after")]
    function = helper.make_function("mine", "F", ["a"], ["b"], body, [helper.make_opsetid("", 18)])
    many = value("x", (5000, 3))  # the host finds which differ
    report = tw.check_model(model([node("F", "x", "y", "call", "mine")], [many], ["y"], functions=[function]))
    assert verdicts(report) == {
        "call": "compiled", "distinct in function mine.F": "host", "after in function mine.F": "compiled"
    }  # fmt: skip


def test_what_follows_an_unsupported_node_is_judged_by_the_type_that_the_file_declares():
    nodes = [
        node("Invented", "x", "a", "one", "my"),
        node("Relu", "a", "b", "two"),
        node("Exp", "b", "c", "three"),
        node("Concat", "c x", "y", "four", axis=0),
    ]
    made = model(nodes, [value("x")], ["y"])
    assert verdicts(tw.check_model(made))["four"] == "unchecked"
    made.graph.value_info.append(value("a", (2, 3)))
    assert verdicts(tw.check_model(made)) == {
        "one": "unsupported", "two": "compiled", "three": "compiled", "four": "compiled"
    }  # fmt: skip
    made.graph.value_info[0].CopyFrom(value("a", (2, 3), TensorProto.INT64))
    assert problems(tw.check_model(made))["Exp", "dtype int64 of input 'input'"] == ("three",)


def test_a_value_that_may_have_been_known_is_no_second_problem():
    nodes = [node("Invented", "s", "shape", "one", "my"), node("Reshape", "x shape", "y", "two")]
    made = model(nodes, [value("x")], ["y"], {"s": np.array([3, 2])})
    made.graph.value_info.append(value("shape", (2,), TensorProto.INT64))
    report = tw.check_model(made)
    assert problems(report) == {("my.Invented", UNKNOWN): ("one",)}
    assert verdicts(report)["two"] == "unchecked"


def test_inputs_of_unknown_types_hide_nothing():
    listed = helper.make_tensor_sequence_value_info("list", TensorProto.FLOAT, None)
    nodes = [
        node("Nosuch", "z", "a", "one"),
        node("Relu", "x", "b", "two"),
        node("Invented", "list", "c", "three", "my"),
    ]
    report = tw.check_model(model(nodes, [value("z", (2,), 99), value("x"), listed], ["a", "b", "c"]))
    found = problems(report)
    assert found["Nosuch", "no converter at opset 18"] == ("one",)
    assert found["my.Invented", UNKNOWN] == ("three",)
    assert found["input", "type 99"] == ("z",)
    assert verdicts(report)["two"] == "compiled"


@pytest.mark.parametrize(
    "op, domain, opset, kind, words",
    [
        ("Nosuch", "", 18, "operator", "ONNX has no operator of this name"),
        ("Invented", "my", 18, "domain", "define it in the file as a function"),
        ("MeanVarianceNormalization", "", 8, "opset", "came with opset 9: export the model with that opset"),
    ],
)
def test_remedies_for_operators(op, domain, opset, kind, words):
    made = model([node(op, "x", "y", domain=domain)], [value("x", (1, 2, 3, 4))], ["y"], opset=opset)
    [problem] = tw.check_model(made).problems
    assert problem.kind == kind and words in problem.remedy


def test_an_attribute_that_a_newer_opset_has_says_which():
    made = model([node("Reshape", "x s", "y", allowzero=1)], [value("x")], ["y"], {"s": np.array([6])}, opset=13)
    [problem] = tw.check_model(made).problems
    assert (problem.kind, problem.remedy) == ("attribute", "opset 14 has it: export the model with that opset")


def test_what_the_model_holds():
    weight = np.arange(300 * 3, dtype=np.float32).reshape(3, 300)
    nodes = [node("Constant", "", "k", value=numpy_helper.from_array(np.ones(300, np.float32))),
             node("MatMul", "x w", "t"), node("Add", "t k", "y")]  # fmt: skip
    report = tw.check_model(model(nodes, [value("x", ["batch", 3])], ["y"], {"w": weight}), {"x": (2, 3)})
    assert report.supported and report.give == ()
    assert report.opsets == {"ai.onnx": 18, "my": 1, "mine": 1} and report.ir_version == 10
    assert [(i.name, i.dtype, i.shape) for i in report.inputs] == [("x", "float32", ("batch", 3))]
    assert report.outputs[0].shape is None
    assert (report.parameters.tensors, report.parameters.elements, report.parameters.bytes) == (2, 1200, 4800)
    assert report.dtypes == ("float32",)
    assert report.work is not None
    assert report.work.flops == 2 * 300 * (2 * 3 + 1)
    assert report.work.activation_bytes == 4 * 2 * (3 + 300), "the sum is in the place of the product"
    assert report.work.peak_bytes == report.work.weight_bytes + report.work.activation_bytes


def test_open_shapes_are_tried_and_the_option_is_told():
    window = node("Conv", "x w", "y", kernel_shape=[7, 7])
    image = [value("x", ["n", 3, "h", None])]
    report = tw.check_model(model([window], image, ["y"], {"w": np.ones((4, 3, 7, 7), np.float32)}))
    assert report.supported and report.work is None
    assert report.give == ("--input-shape x:1,3,224,224",)
    assert report.inputs[0].shape == ("n", 3, "h", "?")


def test_open_shapes_hide_no_problem_where_none_fits():
    nodes = [node("MatMul", "x w", "a", "no"), node("Invented", "a", "y", "one", "my")]
    report = tw.check_model(model(nodes, [value("x", ["n", "k"])], ["y"], {"w": np.ones((5, 3), np.float32)}))
    assert problems(report) == {("my.Invented", UNKNOWN): ("one",)}
    assert verdicts(report)["no"] == "unchecked"
    assert "do not" in report.notes[0] or "fit" in report.notes[0]
    assert report.give == ()


def test_a_rank_that_is_open_is_no_problem():
    report = tw.check_model(model([node("Relu", "x", "y")], [value("x", None)], ["y"]))
    assert report.supported and report.give == ("--input-shape x:1,3,224,224",)
    assert verdicts(report) == {"Relu_0": "compiled"}


@pytest.mark.parametrize(
    "op, inputs, weight, give",
    [
        # A second input's dimension is as large as the first one's, or 1 as the batch is: no name says which.
        ("Add", {"x": [None, 4, None], "h": [4, None]}, None, ("x:1,4,224", "h:4,224")),
        ("MatMul", {"x": [None, 8, None], "h": [2, None, 4]}, None, ("x:1,8,224", "h:2,224,4")),
        ("Gemm", {"x": [None, None], "w": [5, None]}, None, ()),
        ("Concat", {"x": [None, None, 3], "h": [None, None, 3]}, None, ("x:1,224,3", "h:1,224,3")),
        ("Concat", {"x": [None, None, 1], "h": [None, 3, None]}, None, ("x:1,224,1", "h:1,3,1")),
        # No rank in the file: an image, or rows.
        ("Gemm", {"x": None}, (64, 3), ("x:1,64",)),
        ("Conv", {"x": None}, (4, 3, 7, 7), ("x:1,3,224,224",)),
        # None that is tried fits, and none is told.
        ("MatMul", {"x": None}, (5, 3), ()),
        ("MatMul", {"x": ["n", "k"]}, (5, 3), ()),
    ],
)
def test_what_is_told_to_give_fits(op, inputs, weight, give):
    weights = {} if weight is None else {"w": np.ones(weight, np.float32)}
    one = node(op, " ".join([*inputs, *weights]), "y")
    if op == "Concat":
        one.attribute.append(helper.make_attribute("axis", 1))
    made = model([one], [value(n, s) for n, s in inputs.items()], ["y"], weights)
    report = tw.check_model(made)
    assert report.give == tuple(f"--input-shape {text}" for text in give)
    if give:
        shapes = {name: tuple(map(int, sizes.split(","))) for name, sizes in (text.split(":") for text in give)}
        assert tw.check_model(made, shapes).work is not None
    else:
        assert verdicts(report) == {f"{op}_0": "unchecked"} and "give the model's own" in report.notes[0]


def test_a_tensor_of_an_unknown_type_is_told_with_the_rest():
    made = model([node("Nosuch", "x w", "a", "one"), node("Identity", "w", "b")], [value("x")], ["a", "b"])
    made.graph.initializer.append(TensorProto(name="w", data_type=99, dims=[2], raw_data=bytes(16)))
    report = tw.check_model(made)
    assert problems(report) == {("tensor", "dtype 99"): ("w",), ("Nosuch", "no converter at opset 18"): ("one",)}
    assert report.parameters.bytes == 16
