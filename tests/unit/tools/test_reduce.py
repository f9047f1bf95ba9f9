"""``tilewright reduce``: the search for a small model, on failures made up and real ones."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import onnx
import pytest
from onnx_case import model_of
from small_network import W, X, network, node

from tilewright.tools import reduce as command
from tilewright.tools.debugging.oracle import Oracle
from tilewright.tools.debugging.oracle_difference import find_difference
from tilewright.tools.debugging.reducer import reduce_model
from tilewright.tools.debugging.verdict import Raised, Verdict, answer, judge, run_oracle, run_ours


def record(model, inputs) -> Any:
    try:
        return Oracle(model).values(inputs)
    except Exception:
        return None


def reduced(fails, model=None):
    return reduce_model(model or network(), {"x": X}, fails, record)


def ops(case):
    return [n.op_type for n in case.nodes]


def test_one_node_is_left_with_the_input_that_it_had():
    case = reduced(lambda case: "Exp" in ops(case) and case.inputs.get("b", X).size > 4)
    assert ops(case) == ["Exp"] and [o.name for o in case.model.graph.output] == ["c"]
    assert 4 < case.inputs["b"].size < 32
    onnx.checker.check_model(case.model, full_check=True)
    assert record(case.model, case.inputs)["c"].shape == tuple(
        d.dim_value for d in case.model.graph.output[0].type.tensor_type.shape.dim
    )


def test_what_lies_between_two_nodes_is_bypassed():
    def fails(case):
        reached = set()
        for n in case.nodes:
            if n.op_type == "MatMul" or reached.intersection(n.input):
                reached.update(n.output)
        return any(n.op_type == "Exp" and reached.intersection(n.input) for n in case.nodes)

    assert ops(reduced(fails)) == ["MatMul", "Exp"]


def test_a_wrong_value_stays_the_input_of_what_is_left():
    case = reduced(lambda case: "Sigmoid" in ops(case) and float(np.abs(case.inputs.get("b", 0)).max()) > 2)
    assert ops(case) == ["Sigmoid"] and case.inputs["b"].size == 1


def test_equal_extents_are_cut_together():
    case = reduced(lambda case: "MatMul" in ops(case))
    assert [a.shape for a in case.inputs.values()] == [(1, 1)]
    assert record(case.model, case.inputs)["a"].shape == (1, 1)


def test_attributes_that_do_not_matter_go():
    case = reduced(lambda case: "Softmax" in ops(case))
    assert not case.nodes[0].attribute


def test_values_of_outer_graphs_become_inputs():
    branch = model_of([node("Neg", "a", "n")], {"a": np.zeros((4, 8), np.float32)}, ["n"]).graph
    del branch.input[:]
    inner = [node("MatMul", "x w", "a"), node("If", "yes", "y", then_branch=branch, else_branch=branch)]
    model = model_of(inner, {"x": X}, ["y"], {"w": W, "yes": np.array(True)})
    case = reduced(lambda case: "If" in ops(case), model)
    assert ops(case) == ["If"] and set(case.inputs) == {"a"}


def test_without_an_oracle_types_are_enough():
    case = reduce_model(network(), {"x": X}, lambda case: "Softmax" in ops(case), lambda model, inputs: None)
    assert ops(case) == ["Softmax"] and case.inputs["c"].shape == (4, 8)


def test_errors_are_alike_but_for_names_and_numbers():
    one, same = (Verdict("error", f"CompileError: kernel 'k_{n}' has {n} loops") for n in (3, 14))
    assert one.alike(same) and not one.alike(Verdict("error", "CompileError: no loops"))
    assert not one.alike(Verdict("crash", one.reason))


def test_a_difference_within_what_rounding_does_is_none():
    want, shaken = np.array([1.0, 2.0], np.float32), np.array([1.0, 2.1], np.float32)
    assert find_difference(np.array([1.0, 2.5], np.float32), want, [shaken]) == ""
    assert "at 1 of 2 elements, most at [1]: 3.0 instead of 2.0" in find_difference(
        np.array([1.0, 3.0], np.float32), want, [shaken]
    )
    assert "most at [0]" in find_difference(np.array([np.nan, 2], np.float32), want, [shaken])
    assert find_difference(np.array([1, 2]), np.array([1, 3])) != ""
    assert find_difference(np.array([1, 2]), np.array([1, 3]), [np.array([1, 4])]) == ""
    assert "int64[1] instead of float32[2]" in find_difference(np.array([1]), want)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_both_parts_of_complex_numbers_count(dtype):
    want = np.array([1 + 2j, complex(0, np.nan)], dtype)
    assert find_difference(want * (1 + np.finfo(dtype).eps), want) == ""
    assert "at 1 of 2 elements, most at [0]" in find_difference(want.conj(), want)


def test_what_a_call_raises_is_its_answer():
    assert answer((int, "x")) == Raised("ValueError", "invalid literal for int() with base 10: 'x'")


def test_a_network_that_agrees():
    assert judge(network(), {"x": X}, answer) == Verdict("agrees")
    strict = judge(network(), {"x": X}, answer, tolerance=(0.0, 0.0))
    assert strict.kind == "differs" and strict.reason.startswith("output 'e' differs at ")


@pytest.fixture
def model(tmp_path) -> str:
    onnx.save(network(), tmp_path / "net.onnx")
    return str(tmp_path / "net.onnx")


class Here:
    """In place of a child process, which shares no kernels."""

    def __init__(self, function, seconds: float) -> None:
        self.call = function


@pytest.mark.shares_kernels
def test_the_command_writes_what_is_left(model, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(command, "Child", Here)
    output = tmp_path / "small.onnx"
    assert command.main([model, "-o", str(output), "--rtol", "0", "--json", "--timeout", "120"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["kind"] == "differs" and len(found["nodes"]) == 1
    small, arrays = onnx.load(output), dict(np.load(tmp_path / "small_inputs.npz"))
    onnx.checker.check_model(small, full_check=True)
    assert judge(small, arrays, answer, tolerance=(0.0, 0.0)).kind == "differs"


def test_nothing_fails(model, capsys):
    assert command.main([model]) == 2
    assert capsys.readouterr().err.startswith("error: nothing fails: ")


@pytest.mark.parametrize(
    "words, message",
    [
        (["none.onnx"], "none.onnx: no such file"),
        (["MODEL", "--inputs", "none.npz"], "cannot read none.npz"),
        (["MODEL", "--inputs", "EMPTY"], "lacks the inputs 'x'"),
        (["MODEL", "--input-shape", "y:1"], "has no input 'y'"),
    ],
)
def test_bad_input_is_one_line(model, tmp_path, words, message, capsys):
    np.savez(tmp_path / "empty.npz", z=X)
    known = {"MODEL": model, "EMPTY": str(tmp_path / "empty.npz")}
    assert command.main([known.get(word, word) for word in words]) == 2
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1


def test_without_onnxruntime_it_says_so(model, monkeypatch, capsys):
    def missing():
        raise ModuleNotFoundError

    monkeypatch.setattr(command, "require_reference", missing)
    assert command.main([model]) == 2
    assert "onnxruntime: the package is not installed" in capsys.readouterr().err


def test_the_same_references_are_asked_while_it_shrinks():
    asked = []

    def ask(call):
        if call[0] is run_oracle:
            asked.append(call[4])
        return answer(call)

    model, order = (
        model_of([node("Relu", "x", "b"), node("Tanh", "b", "c")], {"x": X}, ["c"]),
        ("reference", "onnxruntime"),
    )
    run = lambda model, inputs: [output * 2 for output in run_ours(model, inputs)]  # noqa: E731
    case, _ = command.shrink(model, {"x": X}, Verdict("differs"), ask, run=run, order=order)
    assert len(case.nodes) == 1 and set(asked) == {order}
