"""Values whose ranks only the run knows: branches of different ranks, and what reads them, against onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import pytest
from text_model import check, model, values

import tilewright as tw
from tilewright.frontends import import_model

X = values(3, 6)
YES, NO = np.array(True), np.array(False)
FLAT = np.array([-1])
ROW = "q = ReduceMax<keepdims = 0, axes = [0]>(x)"  # of rank 1


def choice(then: str = "p = Tanh(x)", otherwise: str = "q = Reshape(x, flat)", condition: str = "t") -> str:
    """An If on an array of rank 2, which its else_branch makes flat."""
    return f"If <then_branch = yes () => (p) {{ {then} }}, else_branch = no () => (q) {{ {otherwise} }}> ({condition})"


def made(outputs: str, nodes: str, inputs: Mapping[str, np.ndarray], **weights: np.ndarray) -> onnx.ModelProto:
    return model(outputs, nodes, inputs, {"flat": FLAT, **weights})


def both(x: np.ndarray = X, **others: np.ndarray) -> list[dict[str, np.ndarray]]:
    """The inputs of two runs, one for each branch."""
    return [{"x": x, "t": t, **others} for t in (YES, NO)]


READERS = {
    "Add": ("float[] z", "z = Add(y, w)"),
    "Reshape": ("float[2,9] z", "s = Constant<value_ints = [2, 9]>() r = Reshape(y, s) z = Neg(r)"),
    "Concat": ("float[] z", "z = Concat<axis = 0>(y, y)"),
    "Shape": ("int64[n] z, float[n] f", "z = Shape(y) f = Cast<to = 1>(z)"),
    "Size": ("int64 z", "z = Size(y)"),
    "ReduceSum": ("float z, float[] u", "z = ReduceSum<keepdims = 0>(y) u = Add(y, z)"),
    "a shape that is computed": ("float[] z", "s = Shape(y) d = Mul(y, y) v = Reshape(d, flat) z = Reshape(v, s)"),
    "itself": ("float[] z", "z = Mul(y, y)"),
    "nothing": ("float[] y", ""),
}


@pytest.mark.parametrize("reader", READERS)
def test_what_reads_a_result_of_either_rank(reader):
    outputs, nodes = READERS[reader]
    check(made(outputs, f"y = {choice()} {nodes}", both()[0], w=values(1)), *both())


def test_a_product_with_a_row_or_with_many():
    nodes = f"y = {choice(otherwise=ROW)} z = MatMul(y, w)"
    check(made("float[] z", nodes, both()[0], w=values(6, 4)), *both())


def test_an_output_of_the_model_has_the_rank_of_the_run():
    case = made("float[] y, float[3,6] z", f"y = {choice()} z = Neg(x)", both()[0])
    module = check(case, *both(), reference=True)
    y, z = module.outputs
    assert (y.dtype, y.ranked, y.shape) == ("float32", False, ())
    assert (z.ranked, z.shape) == (True, (3, 6))


def test_it_is_kept_in_a_file(tmp_path):
    case = made("float[] y", f"y = {choice()}", both()[0])
    tw.compile(case, workers=0, cache=False).export_library(tmp_path / "model.so")
    module = tw.load_module(next(tmp_path.glob("model.*")))
    assert not module.outputs[0].ranked
    for inputs, shape in zip(both(), [(3, 6), (18,)], strict=True):
        assert module(*inputs.values())[0].shape == shape
        assert tuple(module["main_alloc"](*inputs.values()).shape) == shape


def test_what_depends_on_no_rank_is_there_once():
    nodes = f"""
        a = MatMul(x, w)
        y = {choice()}
        r = Reshape(y, flat)
        b = Exp(r)
        z = Concat<axis = 0>(b, b)
        c = Sin(a)
    """
    case = made("float[36] z, float[3,4] c", nodes, both()[0], w=values(6, 4))
    text = str(import_model(case).module)
    assert [text.count(op) for op in ("math.exp", "math.sin", "math.tanh")] == [1, 1, 1]
    check(case, *both())


def test_results_of_one_if_have_their_ranks_together():
    then, otherwise = "p = Tanh(x) p2 = Neg(x)", "q = Reshape(x, flat) q2 = Exp(q)"
    both_results = choice(then, otherwise).replace("=> (p)", "=> (p, p2)").replace("=> (q)", "=> (q, q2)")
    case = made("float[] z", f"y, u = {both_results} z = Add(y, u)", both()[0])
    module = check(case, *both())
    assert not module.report.notes  # that other ranks would not fit together is nothing to tell


def test_values_from_around_are_read_in_the_branches_and_behind():
    nodes = f"a = Exp(x) y = {choice('p = Mul(a, x)', 'm = Sub(a, x) q = Reshape(m, flat)')} n = Size(y) v = Div(a, x)"
    nodes += " f = Cast<to = 1>(n) d = Mul(y, f) r = Reshape(d, flat) s = ReduceSum<keepdims = 0>(r) z = Mul(v, s)"
    check(made("float[3,6] z", nodes, both()[0]), *both())


def test_two_in_a_row():
    nodes = f"y = {choice()} n = Neg(y) r = Reshape(n, flat) two = {choice('p = Sin(r)', 'q = Reshape(r, s)', 'u')}"
    case = made("float[] z", f"{nodes} z = Add(two, two)", {**both()[0], "u": YES}, s=np.array([2, 9]))
    check(case, *(inputs for u in (YES, NO) for inputs in both(u=u)))


def test_two_that_are_read_together():
    ways = "p = Exp(x)", ROW
    nodes = f"y = {choice(*ways)} u = {choice(*ways, 's')} z = Mul(y, u)"
    case = made("float[] z", nodes, {**both()[0], "s": YES})
    check(case, *(inputs for s in (YES, NO) for inputs in both(s=s)))


def test_one_inside_of_another():
    inner = "i = If <then_branch = a () => (j) { j = Neg(x) }, else_branch = b () => (k) { k = ReduceMax<keepdims = 0>(x) }> (s)"
    nodes = f"y = {choice(f'{inner} p = Exp(i)')} z = Add(y, y) n = Size(z)"
    case = made("float[] z, int64 n", nodes, {**both()[0], "s": YES})
    check(case, *(inputs for s in (YES, NO) for inputs in both(s=s)))


def test_in_the_body_of_a_loop():
    nodes = f"""
        v, all = Loop <body = cell (int64 i, bool on, a) => (bool go, b, e) {{
            go = Identity(on)
            odd = Mod(i, two)
            is = Cast<to = 9>(odd)
            y = {choice("p = Tanh(a)", "q = Reshape(a, flat)", "is")}
            s = Mul(y, y)
            b = Reshape(s, shape)
            e = ReduceSum<keepdims = 0>(s)
        }}> (m, , x)
    """
    runs = [{"x": X, "m": np.array(trips)} for trips in (0, 1, 4)]
    case = made("float[3,6] v, float[k] all", nodes, runs[0], two=np.array(2), shape=np.array([3, 6]))
    check(case, *runs)


def test_in_a_loop_that_does_not_change_it():
    nodes = f"""
        u = {choice(otherwise=ROW)}
        v = Loop <body = cell (int64 i, bool on, a) => (bool go, b) {{
            go = Identity(on)
            y = {choice("p = Sin(x)", ROW)}
            n = Neg(y)
            c = Add(a, n)
            b = Mul(c, u)
        }}> (m, , x)
    """
    runs = [*both(m=np.array(1)), *both(m=np.array(3))]
    check(made("float[3,6] v", nodes, runs[0]), *runs)


def test_in_the_step_of_a_scan():
    nodes = f"""
        s, o = Scan <num_scan_inputs = 1, body = cell (float[6] a, float[6] r) => (float[6] b, float[6] e) {{
            y = {choice("p = Tanh(r)", "q = ReduceSum<keepdims = 0>(r)")}
            b = Add(a, y)
            e = Mul(y, r)
        }}> (w, x)
    """
    check(made("float[6] s, float[3,6] o", nodes, both()[0], w=values(6)), *both())


def test_a_loop_on_a_value_whose_rank_changes():
    nodes = f"""
        v = Loop <body = cell (int64 i, bool on, a) => (bool go, b) {{
            go = Identity(on)
            r = Reshape(a, flat)
            odd = Mod(i, two)
            is = Cast<to = 9>(odd)
            b = {choice("p = Reshape(r, shape)", "q = Neg(r)", "is")}
        }}> (m, , x)
        z = Add(v, one)
    """
    runs = [{"x": X, "m": np.array(trips)} for trips in (0, 1, 4)]
    check(made("float[] z", nodes, runs[0], two=np.array(2), shape=np.array([2, 9]), one=values(1)), *runs)


def test_a_loop_on_a_value_that_gains_an_axis_in_each_iteration_is_refused():
    nodes = """
        v = Loop <body = cell (int64 i, bool on, a) => (bool go, b) {
            go = Identity(on)
            b = Unsqueeze(a, zero)
        }> (m, , x)
    """
    case = made("float[] v", nodes, {"x": X, "m": np.array(1)}, zero=np.array([0]))
    with pytest.raises(tw.UnsupportedError, match=r"the carried value 'a' is .*its rank is .* in more than 8 ways"):
        import_model(case)


def test_with_open_sizes():
    nodes = f"y = {choice(otherwise=ROW)} m = MatMul(y, w) e = Exp(m) z = Reshape(e, flat) s = Softmax(y)"
    case = made("float[k] z, float[] s", nodes, both()[0], w=values(6, 4))
    case.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    check(case, *both(), *both(values(7, 6)))


def test_in_a_function_of_the_model():
    text = f"""<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
        g (float[3,6] x, bool t) => (float[] z) <int64[1] flat = {{-1}}> {{ y = own.some (x, t, flat) z = Neg(y) }}
        <domain: "own", opset_import: ["" : 17]> some (x, t, flat) => (y) {{ c = {choice()} y = Abs(c) }}"""
    check(onnx.parser.parse_model(text), *both())


def test_a_sequence_of_either_rank():
    nodes = f"y = {choice()} s = SequenceConstruct(y, y) n = SequenceLength(s) z = ConcatFromSequence<axis = 0>(s)"
    check(made("int64 n, float[] z", nodes, both()[0]), *both())


def test_an_element_of_a_sequence_of_different_ranks():
    nodes = "r = Reshape(x, flat) s = SequenceConstruct(x, r) e = SequenceAt(s, i) z = Exp(e) n = Size(e)"
    runs = [{"x": X, "i": np.array(place)} for place in (0, 1)]
    check(made("float[] z, int64 n", nodes, runs[0]), *runs)


def test_sequences_that_a_branch_makes_of_different_ranks():
    ways = "p = SequenceConstruct(x, x)", "r = Reshape(x, flat) q = SequenceConstruct(r)"
    nodes = f"s = {choice(*ways)} e = SequenceAt(s, zero) z = Neg(e) c = ConcatFromSequence<axis = 0>(s)"
    check(made("float[] z, float[] c", nodes, both()[0], zero=np.array(0)), *both())


def test_a_rank_that_what_follows_cannot_be_run_on_is_refused_by_the_run():
    case = made("float[3,4] z", f"y = {choice()} z = MatMul(y, w)", both()[0], w=values(6, 4))
    case.graph.node[0].name = "the branch"
    module = tw.compile(case, workers=0, num_threads=1, cache=False)
    yes, no = both()
    assert module(*yes.values())[0].shape == (3, 4)
    with pytest.raises(tw.InputError, match=r"node 'the branch' .*what reads float32\[18\] of it .*MatMul_1") as error:
        module(*no.values())
    assert "\n" not in str(error.value)
    assert "the program refuses a run that takes it" in module.report.notes[0]


def test_more_copies_than_a_program_should_have_are_refused():
    conditions = [f"t{i}" for i in range(7)]
    chosen = [f"y{i} = {choice('p = Exp(x)', 'q = Slice(v, zero, one)', t)}" for i, t in enumerate(conditions)]
    nodes = "v = Reshape(x, flat) " + " ".join(chosen) + f" z = Sum({', '.join(f'y{i}' for i in range(7))})"
    inputs = {"x": X, **dict.fromkeys(conditions, YES)}
    case = made("float[] z", nodes, inputs, zero=np.array([0]), one=np.array([1]))
    with pytest.raises(tw.UnsupportedError, match=r"If \(If_\d\): .*would need more than 64 copies") as error:
        import_model(case)
    assert "\n" not in str(error.value)


def test_as_many_in_a_row_as_one_likes_where_their_ranks_end():
    chain = [f"y{i} = {choice('p = Exp(r)', 'q = Identity(r)', 't').replace('(r)', f'(r{i})')}" for i in range(9)]
    chain = [step.replace("q = Identity", "q = Flatten") for step in chain]
    ends = [f"r{i + 1} = Reshape(y{i}, flat)" for i in range(9)]
    steps: Sequence[str] = [part for pair in zip(chain, ends, strict=True) for part in pair]
    nodes = f"m = Neg(x) r0 = Reshape(m, flat) {' '.join(steps)} z = Neg(r9)"
    check(made("float[18] z", nodes, both()[0]), *both(-np.abs(X) - 9))


@pytest.mark.parametrize("limit", ["m", "none", "two"])
def test_elements_of_a_scan_output_of_either_rank_are_refused(limit):
    nodes = f"""
        v, all = Loop <body = cell (int64 i, bool on, a) => (bool go, b, e) {{
            go = Identity(on) b = Neg(a) e = {choice("p = Tanh(a)", "q = Reshape(a, flat)", "t")}
        }}> ({limit}, , x)
    """
    inputs = {"x": X, "t": YES, "m": np.array(2)}
    counts = {"none": np.array(0), "two": np.array(2)}
    words = r"an element of a scan output is float32\[3, 6\] or float32\[18\]: its rank is known only at run time"
    with pytest.raises(tw.UnsupportedError, match=words):
        import_model(made("float[3,6] v, float[] all", nodes, inputs, **counts))
