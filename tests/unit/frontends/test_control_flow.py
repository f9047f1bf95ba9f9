"""Scan, Loop and If, nested and alone: compiled, and compared with onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from samples import campaign
from text_model import check, model, values

import tilewright as tw
from tilewright.frontends import import_model


def text_of(made: onnx.ModelProto) -> str:
    return str(import_model(made).module)


def scan(steps: int = 5) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Two states, two scanned inputs, two outputs, each with an axis and a direction of its own."""
    nodes = """
        c, d, o, p = Scan <num_scan_inputs = 2, scan_input_axes = [1, -2], scan_input_directions = [0, 1],
            scan_output_axes = [-1, 1], scan_output_directions = [1, 0],
            body = cell (float[3] a, float[4] b, float[4] e, float[3] f)
                => (float[3] na, float[4] nb, float[4] u, float[3] v) {
                wt = Transpose(w)
                m = MatMul(e, wt)
                fa = Add(f, a)
                na = Tanh(fa)
                mb = Add(m, b)
                nb = Sigmoid(mb)
                u = Mul(nb, b)
                v = Sub(a, na)
            }> (a0, b0, x, z)
    """
    inputs = {"a0": values(3), "b0": values(4), "x": values(4, steps), "z": values(steps, 3), "w": values(4, 4)}
    outputs = "float[3] c, float[4] d, float[i,j] o, float[k,l] p"
    return model(outputs, nodes, inputs), inputs


@pytest.mark.parametrize("steps", [1, 5])
def test_a_scan_walks_any_axis_in_any_direction(steps):
    check(*scan(steps))


@pytest.mark.parametrize("direction", [0, 1])
def test_a_scan_of_one_step_along_the_last_axis(direction):
    """Upstream's canonicalization mixes up the sizes of a slice at an operand's place that leaves out the last axis."""
    nodes = f"""o = Scan<num_scan_inputs = 1, scan_input_axes = [2], scan_input_directions = [{direction}],
        body = g (float[1, 2] b) => (float[1, 2] r) {{ r = Abs(b) }}>(x)"""
    inputs = {"x": values(1, 2, 1)}
    check(model("float[i, j, k] o", nodes, inputs), inputs)


def test_what_no_iteration_changes_is_computed_before_the_loop():
    before, loop = text_of(scan()[0]).split("scf.for")
    assert before.count("linalg.generic") == 1 and loop.count("linalg.generic") == 7


def test_a_scan_of_no_steps_gives_its_initial_states():
    made, inputs = scan(0)
    got = tw.compile(made, workers=0, cache=False)(*inputs.values())
    np.testing.assert_array_equal(got[0], inputs["a0"])
    assert [a.shape for a in got[2:]] == [(4, 0), (3, 0)]


@pytest.mark.parametrize("lengths", [None, [3, 5, 1]])
def test_a_scan_of_opset_8_has_a_batch_of_sequences_of_different_lengths(lengths):
    nodes = f"""
        c, o = Scan <num_scan_inputs = 2, directions = [0, 1],
            body = cell (float[2] a, float[2] e, float[2] f) => (float[2] na, float[2] u) {{
                s = Add(e, f)
                m = MatMul(s, w)
                na = Add(a, m)
                u = Mul(na, a)
            }}> ({"l" if lengths else ""}, a0, x, z)
    """
    inputs = {"a0": values(3, 2), "x": values(3, 5, 2), "z": values(3, 5, 2)}
    if lengths:
        inputs["l"] = np.array(lengths)
    made = model("float[3,2] c, float[3,5,2] o", nodes, inputs, {"w": values(2, 2)}, opset=8)
    check(made, inputs)


LOOP = """
    v, w = Loop <body = cell (int64 i, bool on, float[2,3] a, float[2,3] b) => (bool go, float[2,3] c, float[2,3] d) {{
        {body}
    }}> ({given}, v0, w0)
"""
TWO = {"v0": values(2, 3), "w0": values(2, 3)}
STEP = "ak = MatMul(a, k) c = Sigmoid(ak) d = Add(b, c)"
MORE = "total = ReduceSum<keepdims = 0>(d) go = Less(total, most)"


def loop(given: str, body: str, inputs: Mapping[str, np.ndarray], **weights: np.ndarray) -> onnx.ModelProto:
    weights |= {"k": np.eye(3, dtype=np.float32) * 0.5 + 0.5, "most": np.array(20, np.float32)}
    used = {name: np.asarray(a) for name, a in weights.items()}
    return model("float[2,3] v, float[2,3] w", LOOP.format(given=given, body=body), {**TWO, **inputs}, used)


@campaign(every=2)
@pytest.mark.parametrize("trips", [0, 1, 3])
@pytest.mark.parametrize(
    ("given", "body", "kind"),
    [
        ("m, ", f"go = Identity(on) {STEP}", "scf.for"),
        ("m, t", f"go = Identity(on) {STEP}", "scf.while"),
        ("m, ", f"{STEP} {MORE}", "scf.while"),
        ("m, t", f"{STEP} {MORE}", "scf.while"),
    ],
)
def test_a_loop_runs_as_often_as_the_run_time_says(trips, given, body, kind):
    for first in (True, False) if ", t" in given else (True,):
        inputs = {"m": np.array(trips)} | ({"t": np.array(first)} if ", t" in given else {})
        made = loop(given, body, inputs)
        assert kind in text_of(made)
        check(made, TWO | inputs)


def test_a_condition_alone_ends_a_loop():
    inputs = {"t": np.array(True)}
    check(loop(", t", f"{STEP} {MORE}", inputs), TWO | inputs)


@pytest.mark.parametrize("trips", [0, 1, 100])
def test_carried_values_may_change_places(trips):
    body = "go = Identity(on) c = Identity(b) d = Identity(a)"
    check(loop("m, t", body, {}, m=np.array(trips), t=np.array(True)), TWO)


@pytest.mark.parametrize("trips", [0, 4, 70])
def test_scan_outputs_of_a_known_number_of_iterations(trips):
    nodes = """
        v, all = Loop <body = cell (int64 i, bool on, float[3] a) => (bool go, float[3] b, float[3] e) {
            go = Identity(on)
            f = Cast<to = 1>(i)
            e = Mul(a, f)
            b = Add(a, x)
        }> (m, , x)
    """
    inputs = {"x": values(3)}
    check(model("float[3] v, float[n,3] all", nodes, inputs, {"m": np.array(trips)}), inputs)


def test_a_carried_value_that_grows_is_unrolled():
    nodes = """
        v = Loop <body = cell (int64 i, bool on, float[n] a) => (bool go, float[k] b) {
            go = Less(i, three)
            b = Concat<axis = 0>(a, x)
        }> (, , x)
    """
    inputs = {"x": values(3)}
    made = model("float[n] v", nodes, inputs, {"three": np.array(3)})
    assert "scf" not in text_of(made)
    check(made, inputs)


def test_what_counters_decide_is_decided_while_unrolling():
    nodes = """
        v, n = Loop <body = cell (int64 i, bool on, float[2] a, int64[1] j) => (bool go, float[2] b, int64[1] l) {
            go = Identity(on)
            l = Add(j, two)
            part = Slice(x, j, l)
            first = Equal(i, zero)
            s = If <then_branch = yes () => (float[2] p) { p = Add(part, part) },
                    else_branch = no () => (float[2] q) { q = Mul(part, part) }> (first)
            b = Add(a, s)
        }> (m, , z, z1)
    """
    weights = {"m": np.array(3), "two": np.array([2]), "z1": np.array([0]), "zero": np.array(0)}
    inputs = {"x": values(6), "z": values(2)}
    made = model("float[2] v, int64[1] n", nodes, inputs, weights)
    assert "scf" not in text_of(made)
    check(made, inputs)


def test_loops_and_branches_nest():
    nodes = """
        y = Scan <num_scan_inputs = 1, body = rows (float[3] r) => (float[3] u) {
            v, w = Loop <body = inner (int64 i, bool on, float[3] a, float[3] b) => (bool go, float[3] c, float[3] d) {
                s = ReduceSum<keepdims = 0>(a)
                go = Less(s, most)
                up = Greater(s, low)
                c, d = If <then_branch = yes () => (float[3] p, float[3] p2) { p = Add(a, r) p2 = Identity(b) },
                           else_branch = no () => (float[3] q, float[3] q2) { h = MatMul(a, k) q = Abs(h) q2 = Sub(b, q) }>
                    (up)
            }> (m, , r, x)
            u = Add(v, w)
        }> (z)
    """
    weights = {"most": np.float32(9), "low": np.float32(1), "k": values(3, 3)}
    inputs = {"x": values(3), "z": values(4, 3), "m": np.array(6)}
    check(model("float[4,3] y", nodes, inputs, {n: np.asarray(a) for n, a in weights.items()}), inputs)


def test_a_body_that_is_unrolled_has_its_weights_once():
    nodes = """
        v = Loop <body = cell (int64 i, bool on, float[n,9] a) => (bool go, float[k,9] b) {
            go = Identity(on)
            p = MatMul(a, w)
            b = Concat<axis = 0>(a, p)
        }> (m, , x)
    """
    made = model("float[n,9] v", nodes, {"x": values(1, 9)}, {"m": np.array(4)})
    body = made.graph.node[0].attribute[0].g
    body.initializer.append(numpy_helper.from_array(values(9, 9), "w"))
    assert len(import_model(made).params) == 1
    check(made, {"x": values(1, 9)})


def refused(made: onnx.ModelProto) -> str:
    with pytest.raises(tw.ModelError) as error:
        import_model(made)
    assert "\n" not in str(error.value)
    return str(error.value)


def changed_loop(body: str, outputs: str = "float[2,3] v, float[2,3] w", **weights: np.ndarray) -> str:
    made = loop("m, t", body, {}, m=np.array(100), t=np.array(True), **weights)
    made.graph.node[0].name = "the loop"
    return refused(made)


def test_loops_that_break_the_rules_are_refused():
    cast = "go = Identity(on) c = Cast<to = 11>(a) d = Identity(b)"
    assert "'the loop' (Loop): the carried value 'a' is float32[2, 3] before an iteration and float64" in changed_loop(
        cast
    )
    grows = "go = Identity(on) one = Constant<value_ints = [0]>() c = Unsqueeze(a, one) d = Identity(b)"
    words = changed_loop(grows)
    assert "(the loop): the carried value 'a' is float32[1, 1, 1" in words
    assert "its rank is known only at run time, in more than 8 ways" in words
    made = loop("m, t", f"go = Identity(on) {STEP}", {}, m=np.array(3), t=np.array(True))
    made.graph.node[0].output.append("more")
    assert "it has 3 outputs, its body gives 2" in refused(made)
    del made.graph.node[0].output[2], made.graph.node[0].input[3]
    assert "its body has 4 inputs, it is given 3" in refused(made)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("scan_input_axes", [1, 2], "axis 2 is out of range for rank 2"),
        ("scan_output_axes", [0, -3], "axis -3 is out of range for rank 2"),
        ("scan_input_axes", [0, 0], "its scanned inputs have different lengths, 4, 5"),
        ("scan_input_directions", [1, 2], "scan_input_directions is [1, 2], a direction is 0 or 1"),
        ("scan_output_directions", [1], "scan_output_directions has 1 entries for 2 scan outputs"),
        ("num_scan_inputs", 5, "num_scan_inputs is 5, it has 4 inputs"),
    ],
)
def test_scans_that_break_the_rules_are_refused(name, value, message):
    made, _ = scan()
    node = made.graph.node[0]
    node.name = "the scan"
    others = [a for a in node.attribute if a.name != name]
    del node.attribute[:]
    node.attribute.extend([*others, helper.make_attribute(name, value)])
    assert f"'the scan' (Scan): {message}" in refused(made)


def test_a_scan_whose_body_has_another_signature_is_refused():
    made, _ = scan()
    body = next(a.g for a in made.graph.node[0].attribute if a.name == "body")
    del body.output[1:]
    assert "its body has 1 outputs, it must have at least 2" in refused(made)
    made.graph.node[0].input.append("x")
    assert "its body has 4 inputs, it is given 5" in refused(made)


def test_elements_of_no_extent_are_stacked():
    text = """
        y, z = Loop (n, , x) <body = step (int64 i, bool c, float[0] a) => (bool d, float[0] b, float[0] e) {
            d = Identity(c)
            b = Neg(a)
            e = Abs(b)
        }>
    """
    inputs = {"x": values(0), "n": np.array(3)}
    check(model("float[0] y, float[3,0] z", text, inputs), inputs)
