"""LSTM, GRU and RNN whose sizes are all open: one program for any steps, batch, inputs and states."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import pytest
from onnx_case import node_model
from open_case import check_open
from samples import campaign, leaving

import tilewright as tw
from tilewright.core.errors import InputError, ModelError
from tilewright.frontends import import_model
from tilewright.tools.debugging.oracle import make_session

RNG = np.random.default_rng(5)
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
every = pytest.mark.parametrize("op", GATES)
DIRECTIONS = list(itertools.product(GATES, ["forward", "reverse", "bidirectional"]))
CHOSEN = [("LSTM", "bidirectional"), ("GRU", "reverse"), ("RNN", "forward")]


def f(*shape: int) -> np.ndarray:
    return RNG.uniform(-0.8, 0.8, shape).astype(np.float32)


def arguments(
    op: str, steps: int, batch: int, inputs: int, hidden: int, directions: int = 1, **also: bool
) -> list[np.ndarray | None]:
    """x, w, r, b, and ``also`` lengths, states, peepholes."""
    gates = GATES[op] * hidden
    made = [f(steps, batch, inputs), f(directions, gates, inputs), f(directions, gates, hidden)]
    states = [f(directions, batch, hidden) for _ in range(2 if op == "LSTM" else 1)]
    lengths = RNG.integers(1, steps + 1, batch).astype(np.int32) if also.get("lengths") else None
    holes = [f(directions, 3 * hidden)] if also.get("peepholes") else []
    more = [*states, *holes] if also.get("states") else []
    return [*made, f(directions, 2 * gates), *([lengths, *more] if also else [])]


def check(op: str, *runs: list[np.ndarray | None], hidden: int = 3, **options: Any):
    results = ["float32"] * (3 if op == "LSTM" else 2)
    return check_open(op, *runs, results=results, hidden_size=hidden, **options)


@pytest.mark.parametrize(("op", "direction"), leaving(DIRECTIONS, {*DIRECTIONS} - {*CHOSEN}))
def test_any_steps_batch_and_inputs(op: str, direction: str):
    count = 2 if direction == "bidirectional" else 1
    sizes = [(4, 2, 5), (1, 1, 1), (7, 3, 2), (1, 4, 5)]
    check(op, *(arguments(op, *size, 3, count, lengths=True, states=True) for size in sizes), direction=direction)


@campaign("LSTM", "GRU")
@every
def test_weights_in_the_file_fix_inputs_and_hidden_size(op: str):
    first = arguments(op, 4, 2, 5, 3)
    check(op, first, *([f(s, n, 5), *first[1:]] for s, n in ((1, 1), (9, 1), (2, 6))), known=[1, 2, 3])


def test_batches_go_in_blocks_of_rows():
    """Steps of a known number of states: as many rows as a block has, and those that are left."""
    first = arguments("LSTM", 3, 1, 5, 32, states=True)
    others = [arguments("LSTM", steps, batch, 5, 32, states=True) for steps, batch in ((2, 19), (4, 8))]
    check("LSTM", first, *([x, *first[1:4], *given] for x, _, _, _, *given in others), hidden=32, known=[1, 2, 3])


@every
def test_the_hidden_size_may_be_the_weights_alone(op: str):
    gates = GATES[op]
    runs = [[f(3, 2, 4), f(1, gates * hidden, 4), f(1, gates * hidden, hidden)] for hidden in (3, 1, 5)]
    module = check_open(op, runs[0], results=["float32"], hidden_size=3)
    for wrong in runs[1:]:
        with pytest.raises(InputError, match=f"node 'the_{op}'"):
            module(*wrong)


def test_the_batch_may_come_first():
    x, *rest = arguments("GRU", 4, 1, 5, 3)
    runs = [[f(1, steps, 5), *rest] for steps in (4, 1, 6)]
    check("GRU", [x, *rest], *runs, layout=1, known=[1, 2, 3], reference=True)


def test_peepholes_and_a_reset_behind_the_product():
    sizes = [(4, 2, 5), (1, 1, 2)]
    check("LSTM", *(arguments("LSTM", *size, 3, lengths=False, states=True, peepholes=True) for size in sizes))
    check("GRU", *(arguments("GRU", *size, 3) for size in sizes), linear_before_reset=1)


@every
def test_without_steps_states_are_the_initial_ones(op: str):
    # By the equations; onnxruntime gives zeros, or what lies in memory.
    module = check(op, arguments(op, 4, 2, 5, 3, lengths=True, states=True))
    arrays = arguments(op, 1, 2, 5, 3, lengths=True, states=True)
    arrays[0] = f(0, 2, 5)
    y, *last = module(*arrays)
    assert y.shape == (0, 1, 2, 3)
    for got, want in zip(last, arrays[5:], strict=True):
        np.testing.assert_array_equal(got, want)


def test_quantized_lstm():
    def q(*shape: int) -> np.ndarray:
        return RNG.integers(0, 255, shape).astype(np.uint8)

    weights = [q(1, 4, 12), q(1, 3, 12), f(1, 24), None, None, None, None]
    weights += [np.full(1, 0.01, "f4"), np.full(1, 128, "u1"), np.full(1, 0.01, "f4"), np.full(1, 128, "u1")]
    runs = [[f(steps, batch, 4), *weights] for steps, batch in ((4, 2), (1, 1), (6, 3))]
    # A state that lies between two steps of its grid may take either one.
    options = {"domain": "com.microsoft", "hidden_size": 3, "results": ["float32"] * 3}
    check_open("DynamicQuantizeLSTM", *runs, known=[1, 2, 3, 8, 9, 10, 11], tolerance=2e-3, **options)


@every
def test_sizes_that_do_not_fit_are_refused_with_the_node(op: str):
    right = arguments(op, 4, 2, 5, 3, lengths=True, states=True)
    module, gates = check(op, right), 3 * GATES[op]
    wrong = [f(4, 3, 5), f(1, gates, 4), f(1, gates, 2), f(1, 5), np.ones(3, np.int32), f(1, 2, 1)]
    for at, array in enumerate(wrong):
        with pytest.raises(InputError, match=f"node 'the_{op}'"):
            module(*right[:at], array, *right[at + 1 :])


@pytest.mark.parametrize(
    ("at", "shape"), [(2, (1, 8, 3)), (2, (1, 9, 2)), (3, (1, 17)), (4, (3,)), (5, (1, 2, 4)), (5, (2, 2, 3))]
)
def test_known_sizes_that_do_not_fit_are_refused_at_import(at: int, shape: tuple[int, ...]):
    arrays = arguments("GRU", 4, 2, 5, 3, lengths=True, states=True)
    arrays[at] = np.ones(shape, np.int32 if at == 4 else np.float32)
    made, _ = node_model("GRU", arrays, known=[1, 2], hidden_size=3)
    with pytest.raises(ModelError, match="node 'the_GRU'"):
        import_model(made)


def test_inside_of_a_scan():
    """The loop over sequences is the program's, as the sizes of a step are open; the loop over time is a kernel's."""
    body = "(float[1, N, 3] h, float[S, N, 4] x) => (float[1, N, 3] g, float[1, N, 3] o) {"
    body += "y, g = RNN<hidden_size = 3>(x, w, r, , , h)  o = Identity(g) }"
    made = onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["": 18]>
    g (float[1, 3, 4] w, float[1, 3, 3] r, float[L, S, N, 4] xs, float[1, N, 3] first)
      => (float last, float all) {{ last, all = Scan<num_scan_inputs = 1, body = b {body}>(first, xs) }}""")
    for output in made.graph.output:
        output.type.tensor_type.ClearField("shape")
    module = tw.compile(made, workers=0, num_threads=1, cache=False)
    session = make_session(made)
    for steps, batch, count in ((3, 2, 2), (1, 1, 1), (2, 1, 4)):
        inputs = [f(1, 3, 4), f(1, 3, 3), f(count, steps, batch, 4), f(1, batch, 3)]
        given = dict(zip([value.name for value in made.graph.input], inputs, strict=True))
        for got, want in zip(module(*inputs), session.run(None, given), strict=True):
            np.testing.assert_allclose(got, np.asarray(want), atol=1e-5)
