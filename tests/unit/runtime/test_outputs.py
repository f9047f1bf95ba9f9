"""How a run may be asked for, and how its outputs are found: by position and by name."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import tilewright as tw
from tilewright.runtime.module import Module

A, B = np.arange(6, dtype=np.float32).reshape(2, 3), np.full((2, 3), 2, np.float32)
FEEDS = {"a": A, "b": B}


@pytest.fixture(scope="module")
def lib() -> Module:
    """``sum = a + b``, ``product = a * b``"""
    nodes = [helper.make_node("Add", ["a", "b"], ["sum"], "add"), helper.make_node("Mul", ["a", "b"], ["product"], "m")]
    inputs = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [2, 3]) for n in "ab"]
    outputs = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [2, 3]) for n in ("sum", "product")]
    graph = helper.make_graph(nodes, "net", inputs, outputs)
    return tw.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), workers=0)


@pytest.mark.parametrize("ask", [
    lambda lib: lib.run(FEEDS),
    lambda lib: lib.run([A, B]),
    lambda lib: lib.run((A, B)),
    lambda lib: lib.run(None, FEEDS),
    lambda lib: lib.run(None, [A, B]),
    lambda lib: lib.run(["sum", "product"], FEEDS),
    lambda lib: lib.run(FEEDS, 60.0),
    lambda lib: lib.run(FEEDS, timeout=60.0),
    lambda lib: lib.run(None, FEEDS, 60.0),
    lambda lib: lib(A, B),
])  # fmt: skip
def test_all_outputs_by_position_and_by_name(lib: Module, ask: Any) -> None:
    made = ask(lib)
    total, product = made
    assert issubclass(type(made), list) and made.names == ("sum", "product") and len(made) == 2
    for found, expected in ((total, A + B), (made[0], A + B), (made["sum"], A + B), (made[-1], A * B)):
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(product, A * B)
    assert dict(made.items())["product"] is made["product"] is made[1] and made[:1] == [total]


def test_some_outputs_in_the_order_that_is_asked_for(lib: Module) -> None:
    [product] = lib.run(["product"], FEEDS)
    np.testing.assert_array_equal(product, A * B)
    made = lib.run(["product", "sum"], FEEDS)
    assert made.names == ("product", "sum")
    np.testing.assert_array_equal(made["sum"], A + B)
    np.testing.assert_array_equal(made[1], A + B)
    assert lib.run([], FEEDS) == []


def test_outputs_keep_their_names_where_they_are_copied(lib: Module) -> None:
    made = lib.run(FEEDS)
    for other in (pickle.loads(pickle.dumps(made)), copy.copy(made), copy.deepcopy(made)):
        assert other.names == made.names
        np.testing.assert_array_equal(other["product"], A * B)


@pytest.mark.parametrize(("arguments", "said"), [
    ((A,), r"inputs are a dict by name or a list, got ndarray: give run\(\{'a': ..., 'b': ...\}\)"),
    ((None,), "got NoneType"),
    (([A],), "the program has 2 inputs, 1 were given: they are 'a', 'b'"),
    ((["sum"], [A]), "the program has 2 inputs, 1 were given"),
    ((["logits"], FEEDS), "no output 'logits': its outputs are 'sum', 'product'"),
    (("sum", FEEDS), "names of outputs are a list of texts, or None for all, got str"),
    (([A, B], FEEDS), "names of outputs are a list of texts"),
    ((FEEDS, FEEDS), "names of outputs are a list of texts"),
    ((FEEDS, "soon"), "timeout must be a number of seconds"),
    ((None, FEEDS, object()), "timeout must be a number of seconds"),
    ((["sum"], A, 1.0), "inputs are a dict by name or a list, got ndarray"),
    ((FEEDS, 1.0, 2.0), "inputs are a dict by name or a list, got float"),
])  # fmt: skip
def test_other_forms_are_refused_in_words(lib: Module, arguments: tuple[Any, ...], said: str) -> None:
    with pytest.raises(tw.InputError, match=said):
        lib.run(*arguments)


def test_an_output_that_is_not_there(lib: Module) -> None:
    with pytest.raises(tw.InputError, match="no output 'x': its outputs are 'sum', 'product'"):
        lib.run(FEEDS)["x"]
    with pytest.raises(IndexError):
        lib.run(FEEDS)[2]


def test_inputs_by_position_for_a_profile(lib: Module) -> None:
    assert lib.profile([A, B], rounds=1).runs == 1
