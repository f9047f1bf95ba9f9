"""If on a condition that only the run knows: what is one kernel, and where the inputs' shapes fit one branch alone."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import tilewright as tw
from tilewright.core.errors import UnsupportedError
from tilewright.driver import api
from tilewright.frontends import import_model

X, K = np.arange(3, dtype=np.float32), np.ones(4, np.float32)
MISFIT = r"node 'Add_0' \(Add\): shapes \[3\] and \[4\] do not broadcast"


def choice(then: str, otherwise: str, condition: str = "t") -> str:
    """An If whose branches make a value of three floats by one node each."""
    return f"""If <then_branch = yes () => (float[3] p) {{ {then} }},
                   else_branch = no () => (float[3] q) {{ {otherwise} }}> ({condition})"""


def model(nodes: str, inputs: str = "float[3] x, bool t, bool s", outputs: str = "float[3] y") -> onnx.ModelProto:
    """A model of these nodes with a weight ``k`` of four numbers."""
    ones = ", ".join(map(str, K))
    text = (
        f'<ir_version: 9, opset_import: ["": 18]> g ({inputs}) => ({outputs}) <float[4] k = {{{ones}}}> {{ {nodes} }}'
    )
    return onnx.parser.parse_model(text)


def compiled(nodes: str) -> tw.Module:
    return tw.compile(model(nodes), workers=0, num_threads=1, cache=False)


@pytest.mark.parametrize("fits", [True, False])
def test_a_run_that_takes_the_branch_that_does_not_fit_is_refused(fits: bool):
    branches = ("p = Add(x, x)", "q = Add(x, k)") if fits else ("p = Add(x, k)", "q = Add(x, x)")
    module = compiled(f"y = {choice(*branches)}")
    name = "else_branch" if fits else "then_branch"
    words = rf"node 'If_0'.*: its {name} cannot be run on inputs of these shapes: {MISFIT}"
    np.testing.assert_array_equal(module(X, np.array(fits), np.array(True))[0], X + X)
    with pytest.raises(tw.InputError, match=words) as error:
        module(X, np.array(not fits), np.array(True))
    assert "\n" not in str(error.value)
    [note] = module.report.notes
    assert note.startswith(f"node 'If_0': its {name} cannot be run")


def test_it_may_stand_in_the_branch_that_fits():
    inner = choice("p = Add(x2, x)", "q = Add(x, k)", "s")
    module = compiled(f"y = {choice(f'x2 = Add(x, x) p = {inner}', 'q = MatMul(k, x)')}")
    yes, no = np.array(True), np.array(False)
    np.testing.assert_array_equal(module(X, yes, yes)[0], 3 * X)
    for taken in ((no, yes), (yes, no)):
        with pytest.raises(tw.InputError, match="its else_branch cannot be run"):
            module(X, *taken)


def test_a_program_with_a_check_loads_from_a_file(tmp_path):
    compiled(f"y = {choice('p = Add(x, x)', 'q = Add(x, k)')}").export_library(tmp_path / "model.so")
    module = tw.load_module(next(tmp_path.glob("model.*")))
    np.testing.assert_array_equal(module(X, np.array(True), np.array(True))[0], X + X)
    with pytest.raises(tw.InputError, match=MISFIT):
        module(X, np.array(False), np.array(True))


def test_two_branches_that_do_not_fit_are_refused_at_once():
    with pytest.raises(tw.ModelError, match=rf"'If_0' \(If\): its then_branch cannot be run: {MISFIT}"):
        import_model(model(f"y = {choice('p = Add(x, k)', 'q = Sub(x, k)')}"))


def test_a_step_of_a_scan_that_takes_the_branch_that_does_not_fit_is_refused():
    body = choice("p = Add(r, r)", "q = Add(r, k)", "up")
    rows = f"rows (float[3] r) => (float[3] u) {{ s = ReduceSum<keepdims = 0>(r) up = Greater(s, s) u = {body} }}"
    made = model(f"y = Scan <num_scan_inputs = 1, body = {rows}> (z)", "float[4,3] z", "float[4,3] y")
    module = tw.compile(made, workers=0, num_threads=1, cache=False)
    with pytest.raises(tw.InputError, match=rf"its else_branch cannot be run on inputs of these shapes: {MISFIT}"):
        module(np.zeros((4, 3), np.float32))


def test_what_a_refused_node_gives_is_read_in_nested_branches():
    text = """g (int64[2, 4] x, bool c, bool d) => (float[2, 3] y) {
      last = TfIdfVectorizer<max_gram_length = 1, min_gram_length = 1, max_skip_count = 0, mode = "TF",
        ngram_counts = [0], ngram_indexes = [0, 2], pool_strings = ["a", "b"]>(x)
      y = If (c) <
        then_branch = outer () => (float[2, 3] a) {
          a = If (d) <then_branch = one () => (float[2, 3] p) { p = Abs(last) },
                      else_branch = two () => (float[2, 3] q) { q = Tanh(last) }> },
        else_branch = other () => (float[D, 3] b) { b = Concat<axis = 0>(last, last) }> }"""
    made = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 18]> {text}')
    with pytest.raises(UnsupportedError, match=r"TfIdfVectorizer \(TfIdfVectorizer_0\): n-grams of strings"):
        import_model(made)


def test_a_condition_of_open_size_has_one_element():
    case = model(f"y = {choice('p = Add(x, x)', 'q = Neg(x)')}", "float[3] x, bool[n] t")
    module = tw.compile(case, workers=0, num_threads=1, cache=False)
    np.testing.assert_array_equal(module(X, np.array([True]))[0], X + X)
    np.testing.assert_array_equal(module(X, np.array([False]))[0], -X)
    with pytest.raises(tw.InputError, match=r"node 'If_0' .*the condition has n elements, it must have one"):
        module(X, np.array([True, False]))


def test_what_is_called_if_elsewhere_has_no_condition():
    text = '<ir_version: 8, opset_import: ["" : 18, "ai.onnx.ml" : 3]> g (float[2] x) => (float[2] y) { y = ai.onnx.ml.If () }'
    with pytest.raises(UnsupportedError, match="no converter"):
        import_model(onnx.parser.parse_model(text))


@pytest.mark.parametrize(("width", "own"), [(16, False), (600, True)])
def test_branches_of_much_work_have_kernels_of_their_own(width: int, own: bool):
    """The program branches; a weight that one of its branches reads lies in blocks as others do."""
    weights = {name: np.random.default_rng(0).standard_normal((width, width), np.float32) for name in ("v", "w")}
    nodes = choice("p = MatMul(x, v)", "q = MatMul(x, w)").replace("[3]", f"[4,{width}]")
    made = model(f"y = {nodes}", f"float[4,{width}] x, bool t", f"float[4,{width}] y")
    made.graph.initializer.extend(onnx.numpy_helper.from_array(value, name) for name, value in weights.items())
    layouts = [kernel.signature.layout for kernel in api.stepwise(made).kernels.values()]
    assert any("weight in blocks" in layout for layout in layouts) == own
    x = np.random.default_rng(1).standard_normal((4, width), np.float32)
    module = tw.compile(made, workers=0, num_threads=1, cache=False)
    for taken, weight in ((True, "v"), (False, "w")):
        [got] = module(x, np.array(taken))
        np.testing.assert_allclose(got, x @ weights[weight], rtol=1e-4, atol=1e-4)
