"""Runs that end early: by a time limit, by Ctrl-C."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import onnx.parser
import pytest
from handmade import pause_module
from text_model import model, values

import tilewright as tw

PAUSES = 3000  # of 10 ms each: no test waits for all of them


def counter() -> np.ndarray:
    """An input in which a module of pauses counts them."""
    return np.zeros(1, np.int32)


@contextmanager
def interrupted(x: np.ndarray | None = None) -> Iterator[None]:
    """Send this process a SIGINT soon, as Ctrl-C does: when a module has counted the first pause in ``x``.

    Python drops an exception that a handler raises while some object is finalized: a user presses again, and so does this.
    """
    ended = threading.Event()

    def interrupt() -> None:
        while x is not None and x == 0:
            time.sleep(0.01)
        wait = 0.02
        while not ended.wait(wait):
            os.kill(os.getpid(), signal.SIGINT)
            wait = 10.0

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def long_loop() -> tuple[tw.Module, dict[str, np.ndarray]]:
    """A loop that the runtime carries out, as its values grow, and which goes on for longer than anyone waits."""
    nodes = """
        y = Loop(most, go, x) <body = body (int64 i, bool c, float[k] a) => (bool on, float[m] b) {
            on = Identity(c)
            first = Slice(a, zero, one)
            b = Concat<axis = 0>(first, first)
        }>
    """
    weights = {"zero": np.zeros(1, np.int64), "one": np.ones(1, np.int64)}
    inputs = {"most": np.array(1 << 40), "go": np.array(True), "x": values(3)}
    made = model("float[k] y", nodes, inputs, weights)
    return tw.compile(made, workers=0, num_threads=1, cache=False), inputs


@pytest.mark.parametrize("how", ["entry", "table", "packed"])
def test_ctrl_c_ends_a_run_and_the_next_one_works(how):
    module, x, y = pause_module(PAUSES), counter(), counter()
    run = {
        "entry": lambda: module(x),
        "table": lambda: module.run({"x": x}, timeout=100),
        "packed": lambda: module["main"](x, y),
    }[how]
    for _ in range(2):
        x[:] = 0
        with pytest.raises(KeyboardInterrupt), interrupted(x):
            run()
        assert 0 < x < PAUSES
    assert pause_module(3).run({"x": counter()}) == [3]


def test_handlers_that_raise_nothing_let_the_run_go_on():
    came = []
    before = signal.signal(signal.SIGINT, lambda *_: came.append(pause_module(1)(counter())))
    try:
        with interrupted():
            assert pause_module(20)(counter()) == [20]
    finally:
        signal.signal(signal.SIGINT, before)
    assert came == [[1]]


def test_ctrl_c_ends_a_loop_of_the_runtime():
    module, inputs = long_loop()
    with pytest.raises(KeyboardInterrupt), interrupted():
        module.run(inputs)
    assert module.run({**inputs, "most": np.array(2)})[0].shape == (2,)


def test_a_timeout_ends_a_run_behind_the_kernel_under_way():
    module, x, begin = pause_module(PAUSES), counter(), time.monotonic()
    with pytest.raises(tw.TimeoutError, match=r"longer than 0\.05 s and was ended") as caught:
        module.run({"x": x}, timeout=0.05)
    assert time.monotonic() - begin >= 0.05 and x < PAUSES
    assert isinstance(caught.value, TimeoutError) and isinstance(caught.value, tw.TilewrightError)
    assert pause_module(3).run({"x": counter()}, timeout=100) == [3]


def test_a_timeout_ends_a_loop_of_the_runtime():
    module, inputs = long_loop()
    with pytest.raises(tw.TimeoutError, match=r"longer than 0\.05 s"):
        module.run(inputs, timeout=0.05)
    assert module.run({**inputs, "most": np.array(2)}, timeout=100)[0].shape == (2,)


def test_a_segment_of_many_kernels_comes_back_in_between(monkeypatch):
    """As if each slice of time held one kernel: the words of the calls that are left begin where they should."""
    monkeypatch.setattr("tilewright.runtime.process.threads._SECONDS", 0)
    x, w = values(5, 8), values(8, 8)
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[n,8] x, float[8,8] w) => (float[n,8] y)'
    made = onnx.parser.parse_model(text + "{ a = MatMul(x, w) b = Softmax(a) c = MatMul(b, w) y = Softmax(c) }")
    got = tw.compile(made, workers=0, num_threads=1, cache=False)(x, w)[0]
    want = x
    for _ in range(2):
        e = np.exp(want @ w - (want @ w).max(-1, keepdims=True))
        want = e / e.sum(-1, keepdims=True)
    np.testing.assert_allclose(got, want, 1e-5, 1e-6)


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), "1", True])
def test_refuses_a_timeout_that_is_no_time(timeout):
    with pytest.raises(tw.InputError, match="timeout must be a number of seconds above 0"):
        pause_module(1).run({"x": counter()}, timeout=timeout)
