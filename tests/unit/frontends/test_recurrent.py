"""LSTM, GRU and RNN against onnxruntime; what it lacks (layout) against the same op with the other layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx_case import check_node, node_model
from reference import run_model
from samples import campaign

import tilewright as tw
from tilewright.core.errors import ModelError
from tilewright.frontends import import_model
from tilewright.tools.debugging.oracle import make_session

RANDOM = np.random.default_rng(0)
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
BATCH, INPUTS, HIDDEN = 3, 4, 6
every = pytest.mark.parametrize("op", GATES)


def values(*shape: int) -> np.ndarray:
    return ((RANDOM.random(shape) - 0.5) * 1.6).astype(np.float32)


def arguments(
    op: str, steps: int = 5, directions: int = 1, bias: bool = True, lengths: Sequence[int] | None = None
) -> list[np.ndarray | None]:
    gates = GATES[op] * HIDDEN
    return [
        values(steps, BATCH, INPUTS),
        values(directions, gates, INPUTS),
        values(directions, gates, HIDDEN),
        values(directions, 2 * gates) if bias else None,
        None if lengths is None else np.array(lengths, np.int32),
    ]


def check(op: str, arrays: list[np.ndarray | None], known: Sequence[int] = (1, 2, 3), **attributes: Any) -> None:
    while arrays[-1] is None:
        arrays.pop()
    outputs = attributes.pop("outputs", 3 if op == "LSTM" else 2)
    check_node(op, *arrays, known=known, outputs=outputs, hidden_size=HIDDEN, rtol=1e-4, atol=1e-5, **attributes)


@every
def test_directions_and_initial_states(op):
    states = [values(2, BATCH, HIDDEN) for _ in range(2 if op == "LSTM" else 1)]
    check(op, arguments(op))
    check(op, arguments(op, bias=False), known=[1, 2], direction="reverse")
    check(op, [*arguments(op, directions=2), *states], direction="bidirectional")
    check(op, arguments(op), known=[], outputs=1, opset=8)


@every
def test_several_rows_of_tiles(op):
    """A batch that is no multiple of a tile's rows, and units of no multiple of a block's: weights are packed."""
    batch, hidden = 13, 37
    gates = GATES[op] * hidden
    shapes = ((3, batch, INPUTS), (2, gates, INPUTS), (2, gates, hidden), (2, 2 * gates))
    arrays = [values(*shape) for shape in shapes]
    attributes = {"hidden_size": hidden, "direction": "bidirectional", "rtol": 1e-4, "atol": 1e-5}
    check_node(op, *arrays, known=(1, 2, 3), outputs=3 if op == "LSTM" else 2, **attributes)


@pytest.mark.parametrize(("direction", "batch"), [("bidirectional", 4), ("reverse", 16)])
def test_threads_share_the_directions_or_the_batch(direction, batch):
    """The loop of a direction, or of half of the rows, is a step of one kernel's parallel axis."""
    steps, count, hidden = 12, 2 if direction == "bidirectional" else 1, 64
    shapes = ((steps, batch, 8), (count, 3 * hidden, 8), (count, 3 * hidden, hidden), (count, 6 * hidden))
    model, feeds = node_model("GRU", [values(*s) for s in shapes], [1, 2, 3], hidden_size=hidden, direction=direction)
    one, two = (tw.compile(model, num_threads=n, workers=0) for n in (1, 2))
    [loops] = [kernel for kernel in two.program.manifest.kernels if kernel.name.startswith("for")]
    assert loops.extent == 2 and loops.parallel
    np.testing.assert_array_equal(two(*feeds.values())[0], one(*feeds.values())[0])


@campaign("...-LSTM", ".b.-GRU", "sb.-LSTM")
@pytest.mark.parametrize("op", ["LSTM", "GRU"])
@pytest.mark.parametrize("names", ["...", ".b.", "sb."])
def test_threads_share_large_products(op, names):
    """In a layer of one direction, whatever its batch and number of steps: equal bits on one thread and on three."""
    hidden, gates = 384, GATES[op] * 384
    shapes = ((6, 3, 8), (1, gates, 8), (1, gates, hidden), (1, 2 * gates))
    arrays = [values(*s) / np.float32(16) for s in shapes]
    model, feeds = node_model(op, arrays, [1, 2, 3], hidden_size=hidden)
    for dim, name in zip(model.graph.input[0].type.tensor_type.shape.dim, names, strict=True):
        if name != ".":
            dim.dim_param = name
    model.graph.output[0].type.tensor_type.ClearField("shape")
    one, three = (tw.compile(model, num_threads=n, workers=0, cache=False) for n in (1, 3))
    assert [kernel.exchanges for kernel in three.program.manifest.kernels if kernel.name.startswith("for")] == [True]
    for steps, batch in ((6, 3), *(((6, 11),) if "b" in names else ()), *(((2, 1),) if "s" in names else ())):
        x = values(steps, batch, 8)
        want = make_session(model).run(None, {**feeds, next(iter(feeds)): x})[0]
        np.testing.assert_array_equal(three(x)[0], one(x)[0])
        np.testing.assert_allclose(three(x)[0], want, rtol=1e-4, atol=1e-5)


@every
def test_halves_of_a_batch(op):
    batch, gates = 16, GATES[op] * HIDDEN
    shapes = ((4, batch, INPUTS), (1, gates, INPUTS), (1, gates, HIDDEN), (1, 2 * gates))
    states = [values(1, batch, HIDDEN) for _ in range(2 if op == "LSTM" else 1)]
    lengths = np.arange(batch, dtype=np.int32) % 4 + 1
    check(op, [*(values(*shape) for shape in shapes), lengths, *states])


@every
def test_sequence_lengths(op):
    check(op, arguments(op, directions=2, lengths=[2, 5, 1]), direction="bidirectional")
    check(op, arguments(op, lengths=[5, 5, 5]), known=[1, 2, 3, 4], direction="reverse")
    check(op, arguments(op, steps=1, lengths=[0, 1, 1]))


@every
def test_one_step_needs_no_loop(op):
    arrays = arguments(op, steps=1)
    check(op, arrays)
    model, _ = node_model(op, arrays[:4], known=[1, 2, 3], hidden_size=HIDDEN)
    assert "scf" not in str(import_model(model).module)


@every
@pytest.mark.parametrize("lengths", [None, [0, 0, 0]])
def test_without_steps_states_are_the_initial_ones(op, lengths):
    # By the equations; onnxruntime gives zeros, or what lies in memory, and the reference nothing.
    states = [values(2, BATCH, HIDDEN) for _ in range(2 if op == "LSTM" else 1)]
    arrays = [*arguments(op, steps=2 if lengths else 0, directions=2, lengths=lengths), *states]
    outputs = 1 + len(states)
    model, inputs = node_model(op, arrays, [1, 2, 3], outputs, hidden_size=HIDDEN, direction="bidirectional")
    y, *last = run_model(import_model(model), inputs)
    np.testing.assert_array_equal(y, np.zeros((2 if lengths else 0, 2, BATCH, HIDDEN), np.float32))
    for got, want in zip(last, states, strict=True):
        np.testing.assert_array_equal(got, want)


@every
def test_clip(op):
    check(op, arguments(op), clip=0.3)


@every
def test_half_precision(op):
    arrays = [None if a is None else a.astype(np.float16) for a in arguments(op)[:4]]
    model, inputs = node_model(op, arrays, known=[1, 2, 3], hidden_size=HIDDEN)
    wide, _ = node_model(
        op, [a.astype(np.float32) for a in arrays if a is not None], known=[1, 2, 3], hidden_size=HIDDEN
    )
    got = run_model(import_model(model), inputs)[0]
    want = run_model(import_model(wide), {n: a.astype(np.float32) for n, a in inputs.items()})[0]
    np.testing.assert_array_equal(got, want.astype(np.float16))


@every
def test_batch_first(op):
    x, *weights = arguments(op, directions=2)[:4]
    assert x is not None
    outputs: int = 3 if op == "LSTM" else 2
    attributes: dict[str, Any] = {"hidden_size": HIDDEN, "direction": "bidirectional"}
    plain, inputs = node_model(op, [x, *weights], [1, 2, 3], outputs, **attributes)
    y, *states = run_model(import_model(plain), inputs)
    turned = [x.swapaxes(0, 1).copy(), *weights]
    other, inputs = node_model(op, turned, [1, 2, 3], outputs, layout=1, **attributes)
    y_first, *states_first = run_model(import_model(other), inputs)
    np.testing.assert_array_equal(y_first, y.transpose(2, 0, 1, 3))
    for got, want in zip(states_first, states, strict=True):
        np.testing.assert_array_equal(got, want.swapaxes(0, 1))


def test_peepholes_and_coupled_gates():
    peepholes = values(1, 3 * HIDDEN)
    check("LSTM", [*arguments("LSTM"), None, None, peepholes], known=[1, 2, 3, 7])
    check("LSTM", arguments("LSTM"), input_forget=1)


def test_linear_before_reset():
    check("GRU", arguments("GRU", directions=2, lengths=[1, 2, 5]), direction="bidirectional", linear_before_reset=1)
    check("GRU", arguments("GRU", bias=False), known=[1, 2], linear_before_reset=1)


def test_activations_take_their_parameters_in_order():
    names = ["HardSigmoid", "LeakyRelu", "ScaledTanh", "Sigmoid", "Affine", "Elu"]
    numbers: dict[str, Any] = {"activation_alpha": [0.3, 0.1, 0.9, 1.1, 0.7], "activation_beta": [0.4, 0.8, 0.05]}
    check("LSTM", arguments("LSTM", directions=2), direction="bidirectional", activations=names, **numbers)
    check("RNN", arguments("RNN"), activations=["ThresholdedRelu"], activation_alpha=[0.2])
    check("RNN", arguments("RNN"), activations=["Softplus"])
    check("GRU", arguments("GRU"), activations=["Softsign", "Relu"])


def test_wrong_activations_and_directions_are_refused():
    cases: list[tuple[dict[str, Any], str]] = [
        ({"activations": ["Tanh", "Tanh"]}, "must be 1 of"),
        ({"direction": "bidirectional"}, "does not fit weights for 1 directions"),
    ]
    for attributes, reason in cases:
        model, _ = node_model("RNN", arguments("RNN")[:4], [1, 2, 3], hidden_size=HIDDEN, **attributes)
        with pytest.raises(ModelError, match=reason):
            import_model(model)


def test_an_input_that_does_not_fit_the_weights_is_refused():
    x, *weights = arguments("LSTM")[:4]
    assert x is not None
    model, _ = node_model("LSTM", [x, *weights], [1, 2, 3], hidden_size=HIDDEN)
    model.graph.input[0].type.tensor_type.shape.dim[2].dim_value = INPUTS + 1
    with pytest.raises(ModelError, match=r"input of shape \[5, 3, 5\] for weights of shapes"):
        import_model(model)
