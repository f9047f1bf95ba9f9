"""Maps of ai.onnx.ml, labels that are strings, and probabilities of many classes, which the host makes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tilewright as tw
from tilewright.frontends import import_model
from tilewright.tools.debugging.oracle import make_session

RANDOM = np.random.default_rng(0)
NUMBERS = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64, "string": TensorProto.STRING}


def tensor(name: str, dtype: str, *dims: Any) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, NUMBERS[dtype], dims or None)


def map_type(key: str, value: str) -> onnx.TypeProto:
    type_ = onnx.TypeProto()
    type_.map_type.key_type = NUMBERS[key]
    type_.map_type.value_type.tensor_type.elem_type = NUMBERS[value]
    return type_


def made(op: str, inputs: list[onnx.ValueInfoProto], outputs: list[onnx.ValueInfoProto], **attributes: Any) -> Any:
    names = [i.name for i in inputs], [o.name for o in outputs]
    node = helper.make_node(op, *names, name=f"the_{op}", domain="ai.onnx.ml", **attributes)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(helper.make_graph([node], "case", inputs, outputs), opset_imports=opsets, ir_version=9)


def zip_map(columns: int = 3, **classes: Any) -> onnx.ModelProto:
    key = "string" if "classlabels_strings" in classes else "int64"
    output = helper.make_value_info("y", helper.make_sequence_type_proto(map_type(key, "float32")))
    return made("ZipMap", [tensor("x", "float32", "n", columns)], [output], **classes)


def of_map(op: str, key: str, value: str, result: str, **attributes: Any) -> onnx.ModelProto:
    inputs = [helper.make_value_info("x", map_type(key, value))]
    return made(op, inputs, [tensor("y", result)], **attributes)


def compiled(model: onnx.ModelProto) -> tw.Module:
    return tw.compile(model, workers=0, num_threads=1, cache=False)


@pytest.mark.parametrize(
    "classes",
    [{"classlabels_int64s": [7, 3, 5]}, {"classlabels_int64s": [1, 0]}, {"classlabels_strings": ["b", "a", "ä"]}],
    ids=["three", "two", "strings"],
)
def test_rows_become_maps(classes):
    [labels] = classes.values()
    model = zip_map(len(labels), **classes)
    module, session = compiled(model), make_session(model)
    for rows in (0, 1, 4):
        x = RANDOM.random((rows, len(labels)), np.float32)
        [maps] = module.run([x])
        assert maps == session.run(None, {"x": x})[0]
        assert len(maps) == rows and all(list(m) == labels for m in maps)


def test_classes_that_do_not_fit_are_refused():
    with pytest.raises(tw.ModelError, match=r"'the_ZipMap' \(ZipMap\): the input has shape"):
        import_model(zip_map(classlabels_int64s=[1, 2]))
    with pytest.raises(tw.ModelError, match="by one of classlabels_int64s and classlabels_strings"):
        import_model(zip_map())


MAPS = [
    ("DictVectorizer", "string", "float32", "float32", {"string_vocabulary": ["a", "c", "b"]}, {"c": 4.0, "z": 3.0}),
    ("DictVectorizer", "string", "int64", "int64", {"string_vocabulary": ["a", "c"]}, {"c": -(2**60)}),
    ("DictVectorizer", "int64", "string", "string", {"int64_vocabulary": [3, 1]}, {1: "one"}),
    ("CastMap", "int64", "float32", "float32", {}, {3: 1.5, 1: 2.5}),
    ("CastMap", "int64", "float32", "int64", {"cast_to": "TO_INT64"}, {3: 1.5, 1: -2.7}),
    ("CastMap", "int64", "float32", "string", {"cast_to": "TO_STRING"}, {3: 1.5, 1: 1e10}),
    ("CastMap", "int64", "float32", "float32", {"map_form": "SPARSE", "max_map": 5}, {3: 1.5, 1: 2.5, 9: 4.0}),
    ("CastMap", "int64", "string", "float32", {}, {3: "1.5", 1: "-2"}),
]
WANTS: list[list[Any]] = [
    [0, 4, 0], [0, -(2**60)], ["", "one"], [2.5, 1.5], [-2, 1], ["10000000000.000000", "1.500000"],
    [0, 2.5, 0, 1.5, 0], [-2, 1.5],
]  # fmt: skip


@pytest.mark.parametrize("case", list(zip(MAPS, WANTS, strict=True)), ids=lambda c: f"{c[0][0]}-{c[0][1]}-{c[0][3]}")
def test_maps_become_rows(case):
    (op, key, value, result, attributes, given), want = case
    model = of_map(op, key, value, result, **attributes)
    [row] = compiled(model).run({"x": given})
    assert row.tolist() == [want] and row.dtype == (object if result == "string" else result)
    if value == "float32":  # onnxruntime's Python takes no other maps
        assert row.tolist() == make_session(model).run(None, {"x": given})[0].tolist()


def test_maps_that_hold_something_else_are_refused():
    module = compiled(of_map("CastMap", "int64", "float32", "float32", map_form="SPARSE", max_map=2))
    for given, words in (
        ([1], "'x' must be a dict, got list"),
        ({"a": 1.0}, "node 'the_CastMap' cannot be computed: the keys of the map must be integers"),
        ({-1: 1.0}, "the map has the key -1"),
        ({1: "1"}, "the map must hold numbers"),
        ({1: None}, "the map must hold numbers"),
    ):
        with pytest.raises(tw.InputError, match=words):
            module.run({"x": given})
    vectorizer = compiled(of_map("DictVectorizer", "int64", "string", "string", int64_vocabulary=[1]))
    with pytest.raises(tw.InputError, match="the map must hold strings"):
        vectorizer.run({"x": {1: 2}})


@pytest.mark.parametrize(
    ("op", "attributes", "words"),
    [
        ("CastMap", {"cast_to": "TO_BOOL"}, "cast_to 'TO_BOOL' is none of"),
        ("CastMap", {"map_form": "ODD"}, "map_form 'ODD'"),
        ("CastMap", {"map_form": "SPARSE", "max_map": 0}, "max_map is 0"),
        ("CastMap", {"map_form": "SPARSE", "max_map": 1 << 50}, "takes 9007199254740992 bytes, more than"),
        ("DictVectorizer", {"string_vocabulary": ["a"]}, "keys are int64, and the words are not"),
    ],
)
def test_attributes_that_do_not_fit_are_refused(op, attributes, words):
    with pytest.raises(tw.ModelError, match=words):
        import_model(of_map(op, "int64", "float32", "float32", **attributes))


def forest(classes: int) -> dict[str, Any]:
    """One tree of one split: of two classes both leaves vote for one, as scikit-learn's do."""
    return {
        "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0, 0, 0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_values": [0.0, 0.0, 0.0],
        "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0], "class_treeids": [0] * 2,
        "class_nodeids": [1, 2], "class_ids": [0, classes - 2], "class_weights": [0.25, 0.875],
    }  # fmt: skip


CLASSIFIERS: list[tuple[str, int, dict[str, Any]]] = [
    ("LinearClassifier", 3, {"coefficients": RANDOM.standard_normal(12).tolist(), "intercepts": [0.1, 0.2, 0.3]}),
    ("LinearClassifier", 2, {"coefficients": RANDOM.standard_normal(4).tolist(), "intercepts": [0.1]}),
    ("TreeEnsembleClassifier", 3, forest(3)),
    ("TreeEnsembleClassifier", 2, forest(2)),
    (
        "SVMClassifier", 3,
        {
            "support_vectors": RANDOM.standard_normal(28).tolist(), "coefficients": RANDOM.standard_normal(14).tolist(),
            "rho": [0.1, 0.2, -0.3], "vectors_per_class": [2, 4, 1], "kernel_type": "RBF", "kernel_params": [0.5, 0, 3],
            "prob_a": [-0.7, -1.1, -0.4], "prob_b": [0.2, 0.1, -0.3],
        },
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CLASSIFIERS, ids=lambda c: f"{c[0]}-{c[1]}")
def test_labels_may_be_strings(case):
    op, classes, attributes = case
    labels = ["red", "green", "blue"][:classes]
    outputs = [tensor("y", "string", "n"), tensor("p", "float32", "n", classes)]
    model = made(op, [tensor("x", "float32", "n", 4)], outputs, classlabels_strings=labels, **attributes)
    x = RANDOM.standard_normal((9, 4)).astype(np.float32)
    got, want = compiled(model).run([x]), make_session(model).run(None, {"x": x})
    assert got[0].tolist() == want[0].tolist() and len(set(want[0])) > 1
    tolerance = 3e-3 if op == "SVMClassifier" else 1e-5  # an iteration ends that near to the probabilities
    np.testing.assert_allclose(got[1], want[1], rtol=tolerance, atol=tolerance)


def test_probabilities_of_pairs_that_agree_are_coupled_exactly():
    """With p_i / (p_i + p_j) for each pair the coupled probabilities are p, as in the paper."""
    from tilewright.runtime.steps.host import FUNCTIONS

    p = np.array([[0.5, 0.3, 0.15, 0.05], [0.25, 0.25, 0.25, 0.25]])
    i, j = np.triu_indices(4, 1)
    [made_] = FUNCTIONS["couple_pairs"]({"classes": 4}, (p[:, i] / (p[:, i] + p[:, j])).astype(np.float32))
    np.testing.assert_allclose(made_, p, atol=2e-3)
    np.testing.assert_allclose(made_.sum(axis=1), 1, rtol=1e-6)
