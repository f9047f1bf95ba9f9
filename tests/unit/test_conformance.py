"""The runner of the conformance suite: what crashes or hangs is one lost case; and a sample of the suite itself."""

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from conformance import families, run, suite
from conformance.suite import Case, Outcome
from onnx import TensorProto, helper
from parallel import call_all

from tilewright.tools.debugging.isolation import Lost


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


def test_a_case_of_open_extents_keeps_the_lengths_of_integer_vectors():
    names = {"x": TensorProto.FLOAT, "k": TensorProto.INT64}
    x, k = (helper.make_tensor_value_info(name, dtype, [2]) for name, dtype in names.items())
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
    node = helper.make_node("TopK", ["x", "k"], ["y", ""], "top")
    model = helper.make_model(helper.make_graph([node], "net", [x, k], [y]))
    opened = suite.opened(Case("test_top", "TopK", model.SerializeToString(), [], 1e-3, 1e-7))
    inputs = {i.name: i.type.tensor_type.shape.dim[0] for i in onnx.load_from_string(opened.model).graph.input}
    assert (inputs["x"].dim_param, inputs["k"].dim_value) == ("x_0", 2)
    assert suite.check(suite.opened(case())) == Outcome("pass")


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


FLOAT = np.array([1, 2], np.float32)


@pytest.mark.parametrize(
    "got, want, reason",
    [
        ([FLOAT, FLOAT[:1]], [FLOAT, FLOAT[:1]], ""),
        ((FLOAT,), [FLOAT], ""),
        ([FLOAT], [FLOAT, FLOAT], "has 1 elements instead of 2"),
        ([FLOAT, FLOAT], [FLOAT, FLOAT + 1], "at 1 differs by up to 1"),
        (FLOAT, [FLOAT], "is float32(2,) instead of a list"),
        ([], FLOAT, "is a list instead of float32(2,)"),
        (None, None, ""),
        (None, FLOAT, "is None instead of float32(2,)"),
        ([FLOAT], None, "is a list instead of None"),
        (np.array([["a", "bc"]]), np.array([["a", "bc"]], object), ""),
        (np.array([b"a", b"\xc3\xa4"], object), np.array(["a", "ä"], object), ""),
        (np.array(["a", "b"]), np.array(["a", "c"], object), "has 'b' instead of 'c'"),
        (np.array(["a"]), np.array([["a"]], object), "is string(1,) instead of string(1, 1)"),
        (FLOAT, np.array(["1", "2"], object), "is float32(2,) instead of string(2,)"),
        (FLOAT, np.array([1, 2]), "is float32(2,) instead of int64(2,)"),
        (FLOAT.astype(ml_dtypes.bfloat16), np.array([1.0, 2.015625], ml_dtypes.bfloat16), ""),
        (FLOAT.astype(ml_dtypes.bfloat16), np.array([1.0, 2.0625], ml_dtypes.bfloat16), "differs by up to 0.0625"),
    ],
)
def test_lists_strings_and_nothing_are_compared(got, want, reason):
    assert suite._difference([got], [want], case()) == (f"output 0 {reason}" if reason else "")


def test_files_may_hold_sequences_and_optionals(tmp_path):
    values = [FLOAT, [FLOAT, FLOAT], None, FLOAT]
    protos = [
        onnx.numpy_helper.from_array(FLOAT),
        onnx.numpy_helper.from_list([FLOAT, FLOAT]),
        onnx.numpy_helper.from_optional(None, dtype=onnx.OptionalProto.TENSOR),
        onnx.numpy_helper.from_optional(FLOAT),
    ]
    kind = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    types = [kind, helper.make_sequence_type_proto(kind), *[helper.make_optional_type_proto(kind)] * 2]
    for index, proto in enumerate(protos):
        (tmp_path / f"input_{index}.pb").write_bytes(proto.SerializeToString())
    infos = [helper.make_value_info(f"v{i}", type_) for i, type_ in enumerate(types)]
    assert suite._difference(list(suite._files(tmp_path, "input", infos)), values, case()) == ""


def test_every_operator_has_a_family():
    names = {".".join(filter(None, (s.domain, s.name))) for s in onnx.defs.get_all_schemas() if not s.deprecated}
    assert {families.family(name) for name in names} <= set(families.FAMILIES)
    assert [name for name in names if families.family(name) == "other"] == []


def test_the_table_counts_families_and_tells_the_change():
    made = [
        Case(name, group, b"", [], 0, 0) for name, group in zip("abcd", ("Relu", "Add", "LSTM", "Relu"), strict=True)
    ]
    statuses = dict(zip("abcd", ("pass", "pass", "wrong", "skipped"), strict=True))
    outcomes = {name: Outcome(status) for name, status in statuses.items()}
    assert run.family_lines(made, outcomes, {"a": "pass", "b": "refused", "c": "pass"}) == [
        "family                    cases  pass  refused  wrong  error  lost  skipped  change",
        "elementwise                   3     2                                     1      +1",
        "recurrent & control flow      1                     1                            -1",
        "all                           4     2               1                     1",
    ]


def test_what_is_skipped_is_not_run_and_no_failure(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(run, "RESULT", tmp_path / "result.json")
    monkeypatch.setattr(run, "SKIPS", tmp_path / "skips.json")
    monkeypatch.setattr(run, "cases", lambda: [case()])
    monkeypatch.setattr(run, "check", lambda each: pytest.fail("the case was run"))
    monkeypatch.setattr("sys.argv", ["run", "--here"])
    (tmp_path / "skips.json").write_text(json.dumps({"test_re*": "nobody would miss it"}))
    assert run.main() == 0
    assert json.loads((tmp_path / "result.json").read_text())["cases"] == {"test_relu": "skipped"}
    (tmp_path / "result.json").write_text(json.dumps({"cases": {"test_relu": "pass"}}))
    assert run.main() == 1, "a case that passed cannot be skipped unseen"
    assert "regression: test_relu: skipped: nobody would miss it" in capsys.readouterr().out


def test_every_skip_names_a_case_and_a_reason():
    skips, names = json.loads(run.SKIPS.read_text()), json.loads(run.RESULT.read_text())["cases"]
    assert all(any(run.fnmatch.fnmatch(name, pattern) for name in names) and why for pattern, why in skips.items())


@pytest.mark.parametrize("step", [288, pytest.param(24, marks=pytest.mark.slow)])
def test_a_sample_of_the_suite_still_passes(step: int):
    """Of the cases that pass by the records, one of every ``step`` in the order of their names, and half as many of
    open extents."""
    known, opened = chosen(run.RESULT, step), chosen(run.OPEN_RESULT, 2 * step)
    every = {each.name: each for each in suite.cases()}
    given = [*(every[name] for name in known), *(suite.opened(every[name]) for name in opened)]
    answers = zip((*known, *(f"{name}, open" for name in opened)), call_all(suite.check, given, 1, 120), strict=True)
    assert {name: answer for name, answer in answers if answer != Outcome("pass")} == {}


def chosen(result: Path, step: int) -> list[str]:
    """One of every ``step`` cases that pass by a record."""
    return [name for name, status in json.loads(result.read_text())["cases"].items() if status == "pass"][::step]
