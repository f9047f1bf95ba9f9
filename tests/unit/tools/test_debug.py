"""``tilewright debug``: faults that are put into the compiler are found, isolated, and laid to the right pass."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_case import model_of
from small_network import X, node

import tilewright as tw
from tilewright.dialects import ir, math
from tilewright.dialects.walk import collect
from tilewright.frontends.onnx import ops
from tilewright.frontends.onnx.state import registry
from tilewright.passes.graph.outline import Outline
from tilewright.passes.graph.sink_views import SinkViews
from tilewright.passes.ir.kernel import list_functions
from tilewright.tools import debug as command
from tilewright.tools.debugging import bisect_passes, isolation
from tilewright.tools.debugging.bisect_passes import bisect
from tilewright.tools.debugging.oracle import Oracle
from tilewright.tools.debugging.search import Finding, Search
from tilewright.tools.debugging.verdict import Verdict, answer, judge
from tilewright.tools.debugging.walk import COPIES, OTHERS, Walk, describe_node
from tilewright.tools.run import read_arrays

ops.load_converters()
pytestmark = pytest.mark.shares_kernels  # converters and passes on graphs are patched


def network() -> onnx.ModelProto:
    nodes = [
        node("Relu", "x", "b"),
        node("Tanh", "b", "c"),
        node("Exp", "c", "d"),
        node("Transpose", "d", "e", perm=[1, 0]),
    ]
    return model_of(nodes, {"x": X}, ["e"])


def found(model: onnx.ModelProto, bound: int = 1 << 20, **options) -> Finding:
    inputs = {"x": X}
    return Search(answer, **options).find(Walk(model, inputs, bound), inputs)


def spoil(module: ir.Module, wanted: Callable[[ir.Operation], bool] = lambda function: True) -> None:
    """Make powers of 2 of those of e, in the functions that are wanted."""
    for function in filter(wanted, list_functions(module)):
        for op in collect(function, lambda op: op.name == "math.exp"):
            with ir.InsertionPoint(op), op.location:
                made = math.exp2(op.operands[0])
            op.results[0].replace_all_uses_with(made)
            op.erase()


def spoil_after(monkeypatch: pytest.MonkeyPatch, stage: type, wanted=lambda function: True) -> None:
    """Let a pass spoil what it has done."""
    right = stage.apply

    def wrong(self, module: ir.Module) -> None:
        right(self, module)
        spoil(module, wanted)

    monkeypatch.setattr(stage, "apply", wrong)


@pytest.fixture
def wrong_converter(monkeypatch):
    """Tanh is imported as a sigmoid."""
    versions = registry._TABLE["", "Tanh"]
    monkeypatch.setitem(versions, max(versions), registry.find("", "Sigmoid", 18))


def test_a_model_that_agrees():
    assert found(network()) == Finding(Verdict("agrees"))


def test_a_wrong_converter_is_wrong_alone_and_without_any_pass(wrong_converter):
    result = found(network())
    assert result.node is not None and (result.node.name, result.output) == ("the_Tanh", "c")
    assert result.reason.startswith("output 'c' differs at ") and result.alone
    assert result.case is not None and [n.op_type for n in result.case.nodes] == ["Tanh"]
    want = Oracle(network()).values({"x": X})["b"]
    np.testing.assert_allclose(result.case.inputs["b"], want, rtol=1e-5)  # the node's actual input
    made = result.bisection
    assert made is not None and (made.level, made.passes, made.whole) == (0, (), True)
    assert set(made.levels.values()) == {"differs"}


def test_a_pass_that_miscompiles_is_named(monkeypatch):
    spoil_after(monkeypatch, SinkViews)
    result = found(network())
    assert result.node is not None and result.node.name == "the_Exp" and result.alone
    made = result.bisection
    assert made is not None and made.levels == {0: "agrees", 1: "differs", 2: "differs", 3: "differs"}
    assert made.level == 1 and "sink-views" in made.passes and "fuse-ops" not in made.passes


def test_a_fault_of_fusion_is_found_where_no_value_is_exposed(monkeypatch):
    def fused(function: ir.Operation) -> bool:
        names = {op.name for op in collect(function, lambda op: op.name.startswith("math."))}
        return {"math.exp", "math.tanh"} <= names

    monkeypatch.setattr(bisect_passes, "find_candidates", lambda level: ["sink-views", "fuse-ops"])
    spoil_after(monkeypatch, Outline, fused)
    result = found(network())
    assert result.node is None and result.case is not None
    assert [n.op_type for n in result.case.nodes] == ["Tanh", "Exp"]
    assert any("no node differs when all values are outputs" in note for note in result.notes)
    made = result.bisection
    assert made is not None and (made.passes, made.fuse_limit) == (("fuse-ops",), 1)


def test_without_time_for_all_passes_the_rest_is_said_to_be_open():
    made = bisect(lambda context: Verdict("differs"), end=time.monotonic() - 1)
    assert made.level == 0 and not made.whole


@pytest.mark.parametrize("limit", [1, 2, 5, 16, 100])
def test_the_limit_of_fusion_is_the_last_that_is_right(limit):
    def judged(context):
        size = context.get("config", {}).get("fuse-ops.max_group_size", 1 << 10)
        unfused = "fuse-ops" in context.get("disabled_pass", ()) or context["opt_level"] < 2
        return Verdict("agrees" if unfused or size <= limit else "differs")

    made = bisect(judged, float("inf"))
    assert (made.level, made.passes, made.fuse_limit) == (2, ("fuse-ops",), limit)


def test_what_the_reference_has_not_is_said_to_be_not_finite(monkeypatch):
    versions = registry._TABLE["", "Tanh"]
    log = registry.find("", "Log", 18)
    monkeypatch.setitem(versions, max(versions), log)
    result = found(network(), end=0.0)
    assert result.node is not None and result.node.name == "the_Tanh"
    assert result.nonfinite == "c"  # Relu gives zeros


def chain(length: int) -> onnx.ModelProto:
    nodes = [helper.make_node("Neg", [f"v{i}"], [f"v{i + 1}"], f"n{i}") for i in range(length)]
    nodes.append(helper.make_node("Add", ["v1", f"v{length}"], ["y"], "last"))
    model = model_of(nodes, {"v0": X}, ["y"])
    return model


@pytest.mark.parametrize("groups", [1, 3, 20])
def test_values_stay_within_the_bound(groups):
    """Counted here: what the walk holds for others, and all that is judged."""
    length, largest = 20, 0
    bound = OTHERS * (2 + -(-21 // groups)) * X.nbytes + COPIES * -(-21 // groups) * X.nbytes
    walk, seen = Walk(chain(length), {"v0": X}, bound), []
    for group in walk.groups():
        case = group.exposed
        assert case is not None
        made = sum(case.values[o.name].nbytes for o in case.model.graph.output)
        held = sum(value.nbytes for value in case.values.values())
        largest = max(largest, OTHERS * held + COPIES * made)
        seen += [n.name for n in group.nodes]
    assert seen == [f"n{i}" for i in range(length)] + ["last"]  # each once, in order
    assert largest == walk.peak <= bound


def test_a_bound_that_one_node_exceeds_is_an_error():
    with pytest.raises(tw.InputError, match=r"node 'n0' \(Neg\) .* the bound is 100 B: give a larger --memory"):
        list(Walk(chain(2), {"v0": X}, 100).groups())


@pytest.mark.parametrize("bound", [1 << 20, 3 * (OTHERS + COPIES) * 128])
def test_small_groups_find_the_same_node(wrong_converter, bound):
    walk = Walk(network(), {"x": X}, bound)
    result = Search(answer, end=0.0).find(walk, {"x": X})
    assert result.node is not None and result.node.name == "the_Tanh" and walk.peak <= bound


def test_values_of_nested_graphs_are_said_to_be_left_out(wrong_converter):
    branch = helper.make_graph([node("Neg", "b", "n")], "branch", [], [helper.make_value_info("n", onnx.TypeProto())])
    nodes = [node("Relu", "x", "b"), node("If", "yes", "c", then_branch=branch, else_branch=branch)]
    model = model_of([*nodes, node("Tanh", "c", "y")], {"x": X}, ["y"], {"yes": np.array(True)})
    result = found(model, end=0.0)
    assert result.node is not None and result.node.name == "the_Tanh"
    assert "values inside of 'the_If' (If) are not compared, only what comes out" in result.notes


@pytest.mark.parametrize("depth", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_a_bad_node_in_the_branch_of_an_if_is_named(wrong_converter, depth):
    """The branch has a weight of its own, and reads a value from outside."""
    branch = [node("Exp", "b", "n"), node("Tanh", "n", "t"), node("Mul", "t two", "m")]
    graph = helper.make_graph(branch, "branch", [], [helper.make_value_info("m", onnx.TypeProto())])
    graph.initializer.append(onnx.numpy_helper.from_array(np.array(2, np.float32), "two"))
    for level in range(1, depth):
        inner = helper.make_node("If", ["yes"], ["m"], f"inner{level}", then_branch=graph, else_branch=graph)
        graph = helper.make_graph([inner], "outer", [], [helper.make_value_info("m", onnx.TypeProto())])
    nodes = [
        node("Relu", "x", "b"),
        node("If", "yes", "c", then_branch=graph, else_branch=graph),
        node("Neg", "c", "y"),
    ]
    result = found(model_of(nodes, {"x": X}, ["y"], {"yes": np.array(True)}), end=0.0)
    assert result.node is not None and (result.node.name, result.output, result.alone) == ("the_Tanh", "t", True)
    assert result.inside == ["'the_If' (If)", "'inner1' (If)"][:depth]
    assert result.case is not None and [n.op_type for n in result.case.nodes] == ["Tanh"]
    assert not any("not compared" in note for note in result.notes)
    assert judge(result.case.model, result.case.inputs, answer).kind == "differs"


def test_a_node_without_a_name_is_called_by_what_it_makes():
    assert describe_node(helper.make_node("Neg", ["x"], ["y"])) == "Neg (which makes 'y')"


def test_either_reference_can_be_the_first():
    assert judge(network(), {"x": X}, answer, order=("reference", "onnxruntime")) == Verdict("agrees")


@pytest.fixture
def model(tmp_path) -> str:
    onnx.save(network(), tmp_path / "net.onnx")
    return str(tmp_path / "net.onnx")


class Here:
    """In place of a child process, which would not see the fault that is put in."""

    def __init__(self, function, seconds: float) -> None:
        self.call = function


def test_the_command_saves_a_model_that_shows_the_fault(model, tmp_path, capsys, wrong_converter, monkeypatch):
    monkeypatch.setattr(isolation, "Child", Here)
    folder = tmp_path / "found"
    arguments = [model, "--against", "reference", "--save", str(folder), "--memory", "100k"]
    assert command.main([*arguments, "--json"]) == 1
    record = json.loads(capsys.readouterr().out)
    assert record["node"]["name"] == "the_Tanh" and record["alone"] and record["shown_by"] == ["the_Tanh"]
    assert (
        record["bisection"]["level"] == 0
        and record["bisection"]["whole"]
        and record["saved"] == str(folder / "the_Tanh.onnx")
    )
    saved = onnx.load(record["saved"])
    onnx.checker.check_model(saved, full_check=True)
    assert judge(saved, read_arrays(folder / "the_Tanh_inputs.npz"), answer).kind == "differs"
    assert command.main([*arguments, "--budget", "0"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("first bad node: 'the_Tanh' (Tanh): output 'c' differs at ")
    assert "the time was over before all passes were tried: give a larger --budget" in lines


def test_the_command_with_a_child(model, capsys):
    assert command.main([model]) == 0
    assert capsys.readouterr().out.strip().endswith("net.onnx: the outputs agree with those of onnxruntime")


@pytest.mark.parametrize("shape", [[4, 6], ["n", 6]])
def test_the_command_watches_and_dumps(shape, tmp_path, capsys):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node("Log", "x", "a"), node("Transpose", "a", "y")], "net", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), tmp_path / "net.onnx")
    np.savez(tmp_path / "x.npz", x=X)
    dumps = tmp_path / "dumps"
    arguments = [str(tmp_path / "net.onnx"), "--inputs", str(tmp_path / "x.npz"), "--opt-level", "0"]
    assert command.main([*arguments, "--watch", "nan", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["found"]["nodes"] == ["the_Log"]
    assert command.main([*arguments, "--watch", "inf", "--dump-dir", str(dumps)]) == 0
    assert "no call makes inf" in capsys.readouterr().out
    assert len(json.loads((dumps / "index.json").read_text())) == len(list(dumps.glob("*.npy"))) == 2


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["net.so", "--against", "reference"], "'net.so' is compiled already: give its ONNX model to compare with"),
        (["net.onnx", "--watch", "nan", "--save", "x"], "--save writes what --against finds: give both"),
        (["missing.onnx"], "missing.onnx: no such file"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_exit_code_2(arguments, message, capsys):
    assert command.main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


@pytest.mark.parametrize("text, size", [("500m", 500_000_000), ("1.5GB", 1_500_000_000), ("64", 64)])
def test_bytes_of_the_command_line(text, size):
    assert command.parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "0", "g", "-1", "1t"])
def test_what_is_no_number_of_bytes(text):
    with pytest.raises(command.argparse.ArgumentTypeError, match="is not a number of bytes"):
        command.parse_bytes(text)
