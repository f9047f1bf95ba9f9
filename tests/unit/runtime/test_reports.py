"""Indices from outside of what they index: a run says which node and which number, however the program is run."""

from __future__ import annotations

import c_programs
import numpy as np
import onnx
import pytest

import tilewright as tw
from tilewright.core.errors import InputError
from tilewright.driver import api
from tilewright.passes.infra.context import PassContext
from tilewright.tools import header as header_tool

FIXED, OPEN = "float[3,2] x, int64[2] i", "float[A,B] x, int64[C] i"
ROWS = np.arange(6, dtype=np.float32).reshape(3, 2)
SAID = r"^node 'take' has an index that is out of range for an extent of (3|A): 9$"


def model_of(inputs: str, body: str = "h = Relu(x) y = Gather(h, i)", outputs: str = "float[M,N] y") -> onnx.ModelProto:
    made = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 18]> g ({inputs}) => ({outputs}) {{ {body} }}')
    for node in made.graph.node:
        node.name = "take" if node.op_type == "Gather" else node.op_type
    for output in made.graph.output:
        output.type.tensor_type.ClearField("shape")
    return made


def at(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def compiled(model: onnx.ModelProto, **options) -> tw.Module:
    return tw.compile(model, workers=0, num_threads=1, cache=False, **options)


@pytest.mark.parametrize("inputs", [FIXED, OPEN])
def test_a_run_says_which_node_and_which_number(inputs):
    module = compiled(model_of(inputs))
    for numbers in (at(2, 0), at(-3, -1)):
        np.testing.assert_array_equal(module(ROWS, numbers)[0], ROWS[numbers])
    with pytest.raises(InputError, match=SAID):
        module(ROWS, at(0, 9))
    with pytest.raises(InputError, match=r"an extent of (3|A): -4$"):
        module(ROWS, at(-4, 0))
    np.testing.assert_array_equal(module(ROWS, at(1, 1))[0], ROWS[[1, 1]])  # the next run is its own


@pytest.mark.parametrize("inputs", [FIXED, OPEN])
def test_all_executors_say_so(inputs, tmp_path):
    compiled(model_of(inputs)).save(tmp_path / "m.so")
    for executor in ("aot", "graph") if inputs == FIXED else ("aot",):
        module = tw.load_module(tmp_path / "m.so", executor=executor)
        with pytest.raises(InputError, match=SAID):
            module(ROWS, at(9, 0))
        with pytest.raises(InputError, match=SAID):
            module.profile({"x": ROWS, "i": at(9, 0)})


@pytest.mark.parametrize("inputs", [FIXED, OPEN])
def test_guarded_runs_say_so(inputs, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_DEBUG", "1")
    module = compiled(model_of(inputs))
    np.testing.assert_array_equal(module(ROWS, at(2, 0))[0], ROWS[[2, 0]])
    with pytest.raises(InputError, match=SAID):
        module(ROWS, at(0, 9))


@pytest.mark.parametrize("inputs", [FIXED, OPEN])
def test_without_reports_indices_are_held_inside(inputs):
    with PassContext(config={"report-outside.enabled": False}):
        module = compiled(model_of(inputs))
    np.testing.assert_array_equal(module(ROWS, at(-9, 9))[0], ROWS[[0, 2]])


def test_programs_for_some_sizes_report_too():
    module = compiled(model_of(OPEN), specialize=[{"x": (3, 2), "i": (2,)}])
    for numbers in (at(0, 9), at(0, 1, 9)):
        with pytest.raises(InputError, match=SAID):
            module(ROWS, numbers)


BRANCHES = """y = If(c) <
  then_branch = t () => (float[M,N] a) { a = Gather(x, i) },
  else_branch = e () => (float[M,N] b) { n = Neg(x) b = Add(n, n) }>"""


def test_a_branch_that_is_not_taken_reports_nothing():
    made = model_of(f"{OPEN}, bool c", BRANCHES)
    made.graph.node[0].attribute[0].g.node[0].name = "take"
    module = compiled(made)
    np.testing.assert_array_equal(module(ROWS, at(9), np.array(False))[0], -2 * ROWS)
    with pytest.raises(InputError, match=SAID):
        module(ROWS, at(9), np.array(True))


CONSTANTS = "zero = Constant<value_ints = [0]>() two = Constant<value_ints = [2]>() "
FOR = """one = Constant<value = bool {1}>() three = Constant<value = int64 {3}>() a, y = Loop(three, one, i) <
  body = b (int64 k, bool c, int64[2] v) => (bool c1, int64[2] w, float[2,2] t) {
    c1 = Identity(c) t = Gather(x, v) w = Add(v, j)
  }>"""
WHILE = """one = Constant<value = bool {1}>() a, y = Loop("", one, i, x) <
  body = b (int64 k, bool c, int64[2] v, float[3,2] o) => (bool c1, int64[2] w, float[3,2] u) {
    t = Gather(x, v) s = ReduceSum<keepdims = 0>(t) u = Add(o, s) w = Add(v, j)
    last = Constant<value = int64 {2}>() c1 = Less(k, last)
  }>"""
SCAN = """z, y = Scan<num_scan_inputs = 1, body = b (int64[2] v, float[2] r) => (int64[2] w, float[2,2] t) {
    t = Gather(x, v) w = Add(v, j)
  }>(i, x)"""
NESTED = """one = Constant<value = bool {1}>() three = Constant<value = int64 {3}>() a, y = Loop(three, one, i) <
  body = b (int64 k, bool c, int64[2] v) => (bool c1, int64[2] w, float[2,2] t) {
    c1 = Identity(c) n = Constant<value = int64 {1}>() h = Equal(k, n)
    t = If(h) <then_branch = p () => (float[2,2] q) { q = Gather(x, v) },
               else_branch = e () => (float[2,2] r) { r = Slice(x, zero, two) }>
    w = Add(v, j)
  }>"""
CASE = """n = Constant<value = int64 {0}>() h = ReduceMax<keepdims = 0>(j) c = Greater(h, n)
  y = If(c) <then_branch = p () => (float[2,2] q) { q = Gather(x, i) },
             else_branch = e () => (float[2,2] r) { r = Slice(x, zero, two) }>"""


@pytest.mark.parametrize(
    "body, good, bad, found",
    [(FOR, 0, 1, 3), (WHILE, 0, 1, 3), (SCAN, 0, 1, 3), (NESTED, 1, 2, 3), (CASE, 2, 9, 9)],
    ids=["for", "while", "scan", "a branch in a loop", "a branch"],
)
def test_the_regions_of_one_kernel_report(body: str, good: int, bad: int, found: int):
    """The indices grow by 1 with each of three iterations; of those of ``NESTED`` the second alone looks at them."""
    made = model_of("float[3,2] x, int64[2] i, int64[2] j", CONSTANTS + body)
    for graph in graphs_of(made.graph):
        for node in graph.node:
            node.name = "take" if node.op_type == "Gather" else ""
    module = compiled(made)
    module(ROWS, at(0, good), at(1, 1))
    with pytest.raises(
        InputError, match=rf"^node 'take' has an index that is out of range for an extent of 3: {found}$"
    ):
        module(ROWS, at(0, bad), at(1, 1))


def graphs_of(graph: onnx.GraphProto) -> list[onnx.GraphProto]:
    inner = [a.g for node in graph.node for a in node.attribute if a.HasField("g")]
    return [graph, *(g for one in inner for g in graphs_of(one))]


def test_indices_of_whole_rows_are_looked_at_once():
    """Torch's scatter repeats an index for each element of a row: the column alone is looked at."""
    body = """s = Constant<value_ints = [2, 2]>() w = Expand(i, s) y = ScatterElements(x, w, u)"""
    module = compiled(model_of("float[3,2] x, int64[2,1] i, float[2,2] u", body))
    [report] = module.manifest.reports
    [call] = [call for call in module.manifest.calls if call.args[-1] == report.slot]
    assert str(call.args[0]) == "input1"
    with pytest.raises(InputError, match=r"node 'ScatterElements' has an index .*: 3$"):
        module(ROWS, at(1, 3).reshape(2, 1), ROWS[:2])


def test_indices_of_several_open_axes_are_looked_at_by_one_kernel():
    module = compiled(model_of("float[3,B] x, int64[C,D] i", "y = GatherElements(x, i)"))
    assert len(module.manifest.kernels) == 2, "no tensor of what is found of each index"


def test_what_the_compiler_made_is_not_looked_at():
    module = compiled(model_of("float[5] x", "k = Constant<value_ints = [2]>() y, j = TopK(x, k)"))
    assert not module.manifest.reports


@pytest.mark.parametrize("inputs", [FIXED, OPEN])
def test_c_says_so(inputs, tmp_path):
    onnx.save(model_of(inputs), tmp_path / "net.onnx")
    path, _, _ = api.compile_to_file(str(tmp_path / "net.onnx"), tmp_path / "net.so")
    assert header_tool.main([str(path), "--example", str(tmp_path / "net.c"), "--quiet"]) == 0
    built = c_programs.build(tmp_path / "net.c", tmp_path / "net")
    files = [tmp_path / name for name in ("x", "i", "y")]
    ROWS.tofile(files[0])
    sizes = ("3", "2", "2") if inputs == OPEN else ()
    for numbers, code in ((at(0, 9), 1), (at(2, -3), 0)):
        numbers.tofile(files[1])
        done = c_programs.run(built, path, "no weights", *sizes, *files)
        assert done.returncode == code
        if code:
            assert "node 'take' has an index that is out of range for an extent of" in done.stdout + done.stderr
            assert (done.stdout + done.stderr).strip().endswith(": 9")
    assert np.fromfile(files[2], np.float32).tobytes() == ROWS[[2, 0]].tobytes()
