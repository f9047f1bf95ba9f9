"""The runner of the conformance suite: what crashes or hangs is one lost case."""

import json

import numpy as np
import pytest
from conformance import run, suite
from conformance.isolation import Lost, call_all
from conformance.suite import Case, Outcome
from onnx import TensorProto, helper


def case(rtol: float = 1e-3, want=(0.0, 2.0)) -> Case:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"], "relu")], "net", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    data = [([np.array([-1, 2], np.float32)], [np.array(want, np.float32)])]
    return Case("test_relu", "Relu", model.SerializeToString(), data, rtol, 1e-7)


def test_a_crash_and_a_hang_lose_one_answer_each():
    calls = ["1 + 1", "__import__('os')._exit(3)", "2 + 2", "__import__('time').sleep(60)", "3 + 3"]
    answers = list(call_all(eval, calls, processes=1, seconds=5))
    assert answers == [2, Lost("died with exit code 3"), 4, Lost("no answer in 5 s"), 6]


def test_answers_come_in_order_from_several_processes():
    assert list(call_all(abs, range(-8, 0), processes=2, seconds=20)) == [8, 7, 6, 5, 4, 3, 2, 1]


def test_a_case_is_compiled_and_compared():
    assert suite.check(case()) == Outcome("pass")
    assert suite.check(case(want=(0.0, 2.001))) == Outcome("pass")
    assert suite.check(case(want=(0.0, 2.1))).reason == "output 0 differs by up to 0.1"
    assert suite.check(case(want=(0.0,))).reason == "output 0 is float32(2,) instead of float32(1,)"


def test_what_has_no_converter_is_refused():
    graph = helper.make_graph([helper.make_node("Strange", ["x"], ["y"])], "net", [], [])
    broken = Case("test_strange", "Strange", helper.make_model(graph).SerializeToString(), [([], [])], 1e-3, 1e-7)
    assert suite.check(broken).status == "refused"


def test_a_regression_fails_and_keeps_the_record(tmp_path, monkeypatch, capsys):
    record = tmp_path / "result.json"
    monkeypatch.setattr(run, "RESULT", record)
    answers = {}
    monkeypatch.setattr(run, "cases", lambda: [case()])
    monkeypatch.setattr(run, "check", lambda each: answers[each.name])

    def main(status: str, *words: str) -> int:
        answers["test_relu"] = Outcome(status, "why")
        monkeypatch.setattr("sys.argv", ["run", "--here", *words])
        return run.main()

    assert main("wrong") == 0
    assert main("pass") == 0
    assert main("wrong") == 1
    assert "regression: test_relu: wrong: why" in capsys.readouterr().out
    assert json.loads(record.read_text())["cases"] == {"test_relu": "pass"}
    assert main("wrong", "--accept") == 0
    assert json.loads(record.read_text())["counts"] == {"wrong": 1}
    assert main("pass", "Relu") == 0  # a part of the suite is no record
    assert json.loads(record.read_text())["cases"] == {"test_relu": "wrong"}
    assert main("pass", "Sigmoid") == 2


@pytest.mark.parametrize(
    "before, status, regressed", [("pass", "lost", True), ("wrong", "lost", False), (None, "refused", False)]
)
def test_only_what_passed_can_regress(before, status, regressed):
    known = {} if before is None else {"a": before}
    assert run.regressions(known, {"a": Outcome(status)}) == (["a"] if regressed else [])
