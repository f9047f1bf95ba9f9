"""Loop, If and Scan that the program carries out: sizes that change, values that are no tensors."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from open_case import guarded
from text_model import check, model, values

import tilewright as tw
from tilewright.core.errors import InputError
from tilewright.frontends import import_model
from tilewright.tools.debugging.oracle import make_session


def grown(go: str = "go = Identity(on)", outputs: str = "float[n,3] v") -> str:
    """A loop that appends rows to what it carries."""
    return f"""
        v = Loop <body = cell (int64 i, bool on, float[p,3] a) => (bool go, float[q,3] b) {{
            f = Cast<to = 1>(i)
            row = Add(x, f)
            b = Concat<axis = 0>(a, row)
            {go}
        }}> (m, , x)
    """


@pytest.mark.parametrize("trips", [0, 1, 5])
def test_a_loop_of_an_open_number_of_iterations_grows_what_it_carries(trips):
    inputs = {"x": values(2, 3), "m": np.array(trips)}
    made = model("float[n,3] v", grown(), inputs)
    assert "tw.control" in str(import_model(made).module)
    check(made, inputs)


@pytest.mark.parametrize("most", [-1.0, 1.0, 40.0])
def test_a_condition_on_the_state_that_grows_ends_a_loop(most):
    go = "s = ReduceSumSquare<keepdims = 0>(b) go = Less(s, most)"
    inputs = {"x": values(1, 3), "m": np.array(30), "most": np.array(most, np.float32)}
    check(model("float[n,3] v", grown(go), inputs), inputs)


@pytest.mark.parametrize("trips", [0, 1, 4])
def test_scan_outputs_of_an_open_number_of_iterations(trips):
    nodes = """
        v, all, sizes = Loop <body = cell (int64 i, bool on, float[p] a) => (bool go, float[q] b, float[2,3] e, int64 z) {
            go = Identity(on)
            b = Concat<axis = 0>(a, a)
            s = ReduceSum<keepdims = 0>(b)
            e = Add(x, s)
            z = Size(b)
        }> (m, , y)
    """
    inputs = {"x": values(2, 3), "y": values(2), "m": np.array(trips)}
    check(model("float[n] v, float[k,2,3] all, int64[k] sizes", nodes, inputs), inputs)


@pytest.mark.parametrize("trips", [0, 2])
def test_scan_outputs_of_no_iterations_have_the_extents_that_the_body_declares(trips):
    nodes = """
        v, all = Loop <body = cell (int64 i, bool on, float[p] a) => (bool go, float[q] b, float[5] e) {
            go = Identity(on)
            b = Concat<axis = 0>(a, a)
            s = ReduceSum(b)
            e = Tile(s, five)
        }> (m, , y)
    """
    inputs = {"y": values(2), "m": np.array(trips), "five": np.array([5])}
    check(model("float[n] v, float[k,l] all", nodes, inputs), inputs)


STEP = "p = MatMul(x, w) q = MatMul(h, r) s = Add(p, q) g = Tanh(s) o = Mul(g, x)"
ATTENTION = """
    k = MatMul(h, w) t = Transpose<perm = [0, 2, 1]>(k) s = MatMul(x, t) a = Softmax<axis = -1>(s)
    y = MatMul(a, h) g = Add(y, x) o = ReduceSum<keepdims = 0>(a, last)
"""


def scanned(step: str, shape: str, width: int) -> onnx.ModelProto:
    """A Scan over an open number of steps whose states have open sizes, too."""
    made = onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["": 18]>
    g (float[steps, {shape}] xs, float[{shape}] first) => (float[{shape}] v, float all) {{
        v, all = Scan<num_scan_inputs = 1, body = b (float[{shape}] h, float[{shape}] x) => (float[{shape}] g, float o)
            {{ {step} }}>(first, xs)
    }}""")
    weights = {"w": values(width, width) / width, "r": values(width, width) / width, "last": np.array([-1])}
    made.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in weights.items())
    made.graph.output[1].type.tensor_type.ClearField("shape")
    return made


@pytest.mark.parametrize(("step", "shape"), [(STEP, "rows, 8"), (ATTENTION, "rows, words, 8")])
def test_a_scan_of_open_sizes_is_one_kernel(step: str, shape: str):
    made = scanned(step, shape, 8)
    with guarded():
        module = tw.compile(made, workers=0, num_threads=1, cache=False)
    routine, session = module.manifest.routine, make_session(made)
    assert routine is not None and [call.op for call in routine.calls] == ["func.call"]
    for steps, rows, words in ((3, 2, 5), (1, 1, 1), (4, 19, 9)):
        sizes = [rows, words, 8] if "words" in shape else [rows, 8]
        inputs = [values(steps, *sizes), values(*sizes)]
        wanted = session.run(None, dict(zip(["xs", "first"], inputs, strict=True)))
        for got, want in zip(module(*inputs), wanted, strict=True):
            np.testing.assert_allclose(got, want, 1e-5, 1e-5)


def test_a_scan_of_open_sizes_whose_steps_take_long_is_carried_out():
    assert "tw.control" not in str(import_model(scanned(STEP, "rows, 8", 8)).module)
    assert "tw.control" in str(import_model(scanned(STEP, "rows, 512", 512)).module)


@pytest.mark.parametrize("trips", [-1, 0, 1, 5])
def test_scan_outputs_of_a_trip_count_that_an_input_tells_are_a_kernel_s(trips: int):
    nodes = """
        v, all = Loop <body = cell (int64 i, bool on, float[n,3] a) => (bool go, float[n,3] b, float[n] e) {
            go = Identity(on)
            b = Add(a, x)
            e = ReduceSum<keepdims = 0>(b, one)
        }> (m, , x)
    """
    inputs = {"x": values(2, 3), "m": np.array(trips)}
    made = model("float[n,3] v, float[k,n] all", nodes, inputs, {"one": np.array([1])})
    assert "tw.control" not in str(import_model(made).module)
    check(made, inputs)


BRANCHES = """
    y = If <then_branch = yes () => (float[a,4] p) { p = MatMul(x, w) },
            else_branch = no () => (float[b,4] q) { xx = Concat<axis = 0>(x, x, x) h = MatMul(xx, w) q = Relu(h) }> (t)
    z = ReduceSum<keepdims = 0>(y, zero)
"""


@pytest.mark.parametrize("chosen", [True, False])
def test_branches_of_different_sizes_use_values_from_around(chosen):
    inputs = {"x": values(2, 20), "t": np.array(chosen)}
    weights = {"w": values(20, 4), "zero": np.array([0])}
    check(model("float[n,4] y, float[4] z", BRANCHES, inputs, weights), inputs)


@pytest.mark.parametrize("chosen", [True, False])
def test_branches_hand_on_what_they_capture_and_constants(chosen):
    nodes = """
        a = Add(x, x)
        y, u, c = If <
            then_branch = yes () => (float[k] p, float[k] p2, float[k] p3) {
                p = Identity(a) p2 = Identity(a) p3 = Constant<value_floats = [1.0, 2.0]>()
            }, else_branch = no () => (float[k] q, float[l] q2, float[l] q3) {
                q = Identity(x) q2 = Slice(x, one, three) q3 = Constant<value_floats = [3.0]>()
            }>(t)
        z = Mul(y, y)
    """
    inputs = {"x": values(5), "t": np.array(chosen)}
    weights = {"one": np.array([1]), "three": np.array([3])}
    check(model("float[k] y, float[k] u, float[k] c, float[k] z, float[5] a", nodes, inputs, weights), inputs)


@pytest.mark.parametrize("trips", [0, 1, 6])
def test_a_branch_in_a_loop_shrinks_and_grows(trips):
    nodes = """
        v = Loop <body = cell (int64 i, bool on, float[p] a) => (bool go, float[q] b) {
            go = Identity(on)
            size = Size(a)
            large = Greater(size, most)
            b = If <then_branch = shrink () => (float[r] c) { c = Slice(a, two, size1) },
                    else_branch = grow () => (float[s] d) { t = Mul(a, a) d = Concat<axis = 0>(a, t) }> (large)
            size1 = Reshape(size, one)
        }> (m, , x)
    """
    nodes = nodes.replace("size1 = Reshape(size, one)\n", "").replace("large =", "size1 = Reshape(size, one)\nlarge =")
    inputs = {"x": values(3), "m": np.array(trips)}
    weights = {"most": np.array(5), "two": np.array([2]), "one": np.array([1])}
    check(model("float[n] v", nodes, inputs, weights), inputs)


@pytest.mark.parametrize("trips", [1, 3])
def test_a_loop_in_a_branch_in_a_loop(trips):
    nodes = """
        v = Loop <body = outer (int64 i, bool on, float[p] a) => (bool go, float[q] b) {
            go = Identity(on)
            odd = Mod(i, two)
            is = Equal(odd, zero)
            b = If <then_branch = yes () => (float[r] c) {
                        c = Loop <body = inner (int64 j, bool k, float[e] f) => (bool l, float[g] h) {
                            l = Identity(k)
                            h = Concat<axis = 0>(f, x)
                        }> (i, , a)
                    }, else_branch = no () => (float[s] d) { d = Neg(a) }> (is)
        }> (m, , x)
    """
    inputs = {"x": values(2), "m": np.array(trips)}
    check(model("float[n] v", nodes, inputs, {"two": np.array(2), "zero": np.array(0)}), inputs)


@pytest.mark.parametrize("trips", [1, 4])
def test_a_loop_builds_a_sequence(trips):
    nodes = """
        empty = SequenceEmpty()
        s = Loop <body = cell (int64 i, bool on, seq(float[p,2]) a) => (bool go, seq(float[q,2]) b) {
            go = Identity(on)
            one = Constant<value_ints = [1]>()
            i1 = Reshape(i, one)
            zero = Constant<value_ints = [0]>()
            part = Slice(x, zero, i1)
            b = SequenceInsert(a, part)
        }> (m, , empty)
        y = ConcatFromSequence<axis = 0>(s)
        n = SequenceLength(s)
    """
    inputs = {"x": values(5, 2), "m": np.array(trips)}
    check(model("float[k,2] y, int64 n", nodes, inputs), inputs)


@pytest.mark.parametrize("chosen", [True, False])
def test_branches_give_sequences(chosen):
    nodes = """
        s = If <then_branch = yes () => (seq(float[a]) p) { p = SequenceConstruct(x, x) },
                else_branch = no () => (seq(float[b]) q) { q = SequenceConstruct(z) }> (t)
        y = ConcatFromSequence<axis = 0>(s)
    """
    inputs = {"x": values(3), "z": values(2), "t": np.array(chosen)}
    check(model("float[n] y", nodes, inputs), inputs)


def test_a_step_of_a_scan_may_need_the_host():
    nodes = """
        c, o, r = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_output_directions = [1, 0], scan_output_axes = [1, 0],
            body = cell (float a, float[4] e) => (float b, float[2] u, int64 k) {
                u4, first, inverse, counts = Unique(e)
                k = Size(u4)
                s = ReduceSum<keepdims = 0>(u4)
                b = Add(a, s)
                l = Constant<value_ints = [0]>()
                h = Constant<value_ints = [2]>()
                u = Slice(e, l, h)
            }> (a0, x)
    """
    inputs = {"a0": values(), "x": np.array([[1, 2, 1], [1, 3, 2], [2, 4, 3], [2, 5, 4]], np.float32)}
    check(model("float c, float[2,3] o, int64[3] r", nodes, inputs), inputs)


def test_a_scan_along_an_open_axis():
    nodes = """
        c, o = Scan <num_scan_inputs = 2, scan_input_directions = [1, 0],
            body = cell (float[3] a, float[3] e, float[3] f) => (float[3] b, float[3] u) {
                ef = Mul(e, f)
                b = Add(a, ef)
                u = Tanh(b)
            }> (a0, x, y)
    """
    shapes = {"a0": values(3), "x": values(2, 3), "y": values(2, 3)}
    made = model("float[3] c, float[n,3] o", nodes, shapes)
    for i in (1, 2):
        made.graph.input[i].type.tensor_type.shape.dim[0].dim_param = "T"
    for steps in (1, 5):
        check(made, {"a0": values(3), "x": values(steps, 3), "y": values(steps, 3)})


RANKS = """
    y = If <then_branch = yes () => (float[a] p) { p = Identity(x) },
            else_branch = no () => (float[b,c] q) { q = Unsqueeze(x, axis) }> (t)
    s = Squeeze(y)
    n = Size(y)
    z = Add(y, w)
    whole = Constant<value_ints = [-1]>()
    r = Reshape(y, whole)
"""


@pytest.mark.parametrize("chosen", [True, False])
def test_axes_of_one_element_may_be_there_or_not(chosen):
    inputs = {"x": values(3), "t": np.array(chosen)}
    weights = {"axis": np.array([0]), "w": values(2, 3)}
    check(model("float[3] s, int64 n, float[2,3] z, float[3] r", RANKS, inputs, weights), inputs)


def test_an_axis_of_one_element_that_each_iteration_adds():
    nodes = """
        v = Loop <body = cell (int64 i, bool on, a) => (bool go, b) {
            go = Identity(on)
            c = Squeeze(a)
            d = Add(c, x)
            b = Unsqueeze(d, axis)
        }> (m, , x)
        y = Squeeze(v)
    """
    for trips in (0, 2):
        inputs = {"x": values(3), "m": np.array(trips)}
        check(model("float[3] y", nodes, inputs, {"axis": np.array([0])}), inputs)


@pytest.mark.parametrize("chosen", [True, False])
@pytest.mark.parametrize("node", ["o = Neg(y)", "o = Add(y, x)", "o = Identity(y)"])
def test_an_axis_of_one_element_that_matters(node, chosen):
    inputs = {"x": values(3), "t": np.array(chosen)}
    check(model("float[] o", RANKS.split("s =")[0] + node, inputs, {"axis": np.array([0])}), inputs)


def test_elements_of_a_scan_output_that_differ_are_refused_at_run_time():
    nodes = """
        v, all = Loop <body = cell (int64 i, bool on, float[p] a) => (bool go, float[q] b, float[r] e) {
            go = Identity(on)
            b = Concat<axis = 0>(a, x)
            e = Identity(b)
        }> (m, , x)
    """
    inputs = {"x": values(2), "m": np.array(2)}
    made = model("float[n] v, float[k,l] all", nodes, inputs)
    made.graph.node[0].name = "the loop"
    module = tw.compile(made, workers=0, cache=False)
    with pytest.raises(InputError, match=r"node 'the loop' gives an element of shape \[6\] for a scan output"):
        module(*inputs.values())


def test_elements_of_an_unrolled_scan_output_have_sizes_that_only_the_run_knows():
    made = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["": 18]>
    g (float[A, B] x, float[C, 3] z) => (float[D, E] y, float[2, F, G] w) <int64 n = {2}, bool go = {1}> {
        [the_loop] y, w = Loop <body = cell (int64 i, bool c, float[P, Q] v) => (bool k, float[R, S] u, float[P, Q] s) {
            k = Identity(c)
            u = Identity(z)
            s = Neg(v)
        }> (n, go, x)
    }""")
    module, x = tw.compile(made, workers=0, cache=False), values(2, 3)
    np.testing.assert_array_equal(module(x, 2 * x)[1], np.stack([-x, -2 * x]))
    with pytest.raises(InputError, match="node 'the_loop' the elements of a scan output have different shapes"):
        module(x, values(1, 3))
