"""Sessions: states that are kept between runs, and written where they lie."""

from __future__ import annotations

import copy
import functools
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, parser

import tilewright as tw
from tilewright.core.errors import ArtifactError, CompileError, InputError
from tilewright.core.model import TensorInfo
from tilewright.core.states import State, pair_names
from tilewright.passes import sessions
from tilewright.runtime.module import Module
from tilewright.runtime.session import Session
from tilewright.runtime.tensors.state_memory import StateMemory

ATTENTION = """
<ir_version: 10, opset_import: ["" : 18]>
net (float[b, s, 16] x, float[b, 2, past, 8] past_key, float[b, 2, past, 8] past_value)
    => (float[b, s, 16] y, float[b, 2, total, 8] present_key, float[b, 2, total, 8] present_value) {
  heads = Constant <value = int64[4] {0, 0, 2, 8}> ()
  split = Reshape (x, heads)
  new = Transpose <perm = [0, 2, 1, 3]> (split)
  present_key = Concat <axis = 2> (past_key, new)
  present_value = Concat <axis = 2> (past_value, new)
  turned = Transpose <perm = [0, 1, 3, 2]> (present_key)
  scores = MatMul (new, turned)
  weights = Softmax <axis = -1> (scores)
  mixed = MatMul (weights, present_value)
  back = Transpose <perm = [0, 2, 1, 3]> (mixed)
  whole = Constant <value = int64[3] {0, 0, 16}> ()
  y = Reshape (back, whole)
}
"""
RECURRENT = """
<ir_version: 10, opset_import: ["" : 18]>
net (float[n, 4] x, float[n, 4] h0, int64[1] count) => (float[n, 4] y, float[n, 4] hn, int64[1] count_out) {
  half = Constant <value = float {0.5}> ()
  one = Constant <value = int64[1] {1}> ()
  less = Mul (h0, half)
  hn = Add (less, x)
  y = Tanh (hn)
  count_out = Add (count, one)
}
"""


def compiled(text: str, **options: Any) -> Module:
    return tw.compile(parser.parse_model(text).SerializeToString(), num_threads=1, **options)


@functools.cache
def attention() -> Module:
    return compiled(ATTENTION)


@functools.cache
def recurrent() -> Module:
    return compiled(RECURRENT)


def tokens(count: int, batch: int = 1, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((batch, count, 16)).astype(np.float32)


def memory_of(session: Session, number: int) -> StateMemory:
    """The memory of the state that is the input of this number."""
    memory = session._values[number]
    assert isinstance(memory, StateMemory)
    return memory


class Expected:
    """What a session of the attention should give: the program called with states as any other inputs."""

    def __init__(self, batch: int = 1) -> None:
        self.states = [np.zeros((batch, 2, 0, 8), np.float32)] * 2

    def run(self, x: np.ndarray) -> np.ndarray:
        y, *self.states = attention().run([x, *self.states])
        return y


def test_a_session_gives_what_passing_the_states_does():
    session, expected = attention().session(), Expected()
    for step, count in enumerate((3, 1, 1, 7, 1, 40, 1)):
        x = tokens(count, seed=step)
        [y] = session.run({"x": x})
        np.testing.assert_allclose(y, expected.run(x), rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(session["past_key"], expected.states[0])
        np.testing.assert_array_equal(session["past_value"], expected.states[1])
    assert session.length == 54
    assert [info.name for info in session.inputs] == ["x"]
    assert [info.name for info in session.states] == ["past_key", "past_value"]


def test_batches_have_states_of_their_size():
    session, expected = attention().session(), Expected(3)
    for count in (2, 1):
        x = tokens(count, batch=3)
        np.testing.assert_allclose(session(x)["y"], expected.run(x), rtol=1e-5, atol=1e-6)
    with pytest.raises(InputError, match=r"input 'x' must have shape .* with b=3, got \(1, 1, 16\)"):
        session(tokens(1))
    assert session.length == 3


def test_a_step_writes_what_is_new_where_the_state_lies():
    session = attention().session(capacity=64)
    session(tokens(5))
    before = [memory_of(session, number).address for number in (1, 2)]
    first = session["past_key"]
    for _ in range(59):
        session(tokens(1))
    assert [memory_of(session, number).address for number in (1, 2)] == before
    np.testing.assert_array_equal(session["past_key"][:, :, :5], first)


def test_states_keep_their_words_in_one_frame_from_run_to_run():
    session = attention().session()
    session(tokens(5))
    words = [memory_of(session, number).words for number in (1, 2)]
    for _ in range(20):  # the memory moves, the words do not
        session(tokens(9))
    assert all(memory_of(session, number).words is kept for number, kept in zip((1, 2), words, strict=True))
    assert words[0].obj is words[1].obj
    assert words[0][1] == session.length == 185


def test_a_session_its_fork_and_another_take_turns():
    sessions, expected = [attention().session()], [Expected()]
    sessions[0](tokens(3))
    expected[0].run(tokens(3))
    sessions += [sessions[0].fork(), attention().session()]
    expected += [copy.copy(expected[0]), Expected()]
    for step in range(12):
        for number, (session, wanted) in enumerate(zip(sessions, expected, strict=True)):
            x = tokens(1 + (step + number) % 4, seed=step)
            np.testing.assert_allclose(session(x)[0], wanted.run(x), rtol=1e-5, atol=1e-6)
    for session, wanted in zip(sessions, expected, strict=True):
        np.testing.assert_array_equal(session["past_key"], wanted.states[0])
    sessions[0]["past_key"] = 2 * sessions[0]["past_key"]
    expected[0].states[0] = 2 * expected[0].states[0]
    x = tokens(2)
    np.testing.assert_allclose(sessions[0](x)[0], expected[0].run(x), rtol=1e-5, atol=1e-6)


def test_a_session_does_not_keep_its_inputs():
    session, x = attention().session(), tokens(2)
    kept = sys.getrefcount(x)
    session(x)
    assert sys.getrefcount(x) == kept


def test_memory_grows_by_doubling():
    session, moves, address = attention().session(), 0, 0
    for _ in range(600):
        session(tokens(1))
        now = memory_of(session, 1).address
        moves, address = moves + (now != address), now
    assert moves == 5  # 4 KiB, twice that, ...: 600 rows have 38 kB
    assert memory_of(session, 1).nbytes < 4 * 600 * 16 * 2 * 2


def test_a_full_state_is_refused_and_stays_as_it_was():
    session, expected = attention().session(capacity=4), Expected()
    session(tokens(3))
    expected.run(tokens(3))
    with pytest.raises(InputError, match=r"would make a state longer than its session has room for.*\(5 and 4\)"):
        session(tokens(2))
    assert session.length == 3
    x = tokens(1, seed=9)
    np.testing.assert_allclose(session(x)[0], expected.run(x), rtol=1e-5, atol=1e-6)


def test_reset_begins_anew():
    session = attention().session()
    [first] = session(tokens(3))
    session(tokens(2))
    session.reset()
    assert session.length == 0
    np.testing.assert_array_equal(session(tokens(3))[0], first)


def test_a_fork_goes_its_own_way():
    session = attention().session()
    session(tokens(3))
    fork = session.fork()
    a, b = tokens(1, seed=1), tokens(1, seed=2)
    [left] = session(a)
    [right] = fork(b)
    expected = Expected()
    expected.run(tokens(3))
    kept = expected.states
    np.testing.assert_allclose(left, expected.run(a), rtol=1e-5, atol=1e-6)
    expected.states = kept
    np.testing.assert_allclose(right, expected.run(b), rtol=1e-5, atol=1e-6)


def test_truncate_forgets_the_last_elements():
    session, expected = attention().session(), Expected()
    session(tokens(3))
    expected.run(tokens(3))
    session(tokens(4, seed=5))
    session.truncate(3)
    x = tokens(1, seed=6)
    np.testing.assert_allclose(session(x)[0], expected.run(x), rtol=1e-5, atol=1e-6)
    with pytest.raises(InputError, match="has 4 elements, and cannot be truncated to 5"):
        session.truncate(5)


def test_states_are_saved_and_loaded(tmp_path: Path):
    session = attention().session()
    session(tokens(6))
    path = session.save(tmp_path / "six.safetensors")
    other = attention().session()
    other.load(path)
    np.testing.assert_array_equal(other["past_key"], session["past_key"])
    x = tokens(2, seed=3)
    np.testing.assert_array_equal(other(x)[0], session(x)[0])


def test_a_file_of_another_model_is_refused(tmp_path: Path):
    session = recurrent().session()
    session(tokens(1)[0, :, :4])
    path = session.save(tmp_path / "states")
    with pytest.raises(InputError, match="has the states of another model"):
        attention().session().load(path)
    (tmp_path / "none").write_bytes(b"none")
    with pytest.raises(InputError, match="has no states of a session"):
        attention().session().load(tmp_path / "none")
    with pytest.raises(InputError, match="cannot read"):
        attention().session().load(tmp_path / "missing")
    with pytest.raises(ArtifactError, match="cannot write"):
        session.save(tmp_path / "missing" / "states")


def test_states_that_are_replaced_begin_at_zero():
    session = recurrent().session()
    x = np.ones((2, 4), np.float32)
    for expected in (1.0, 1.5, 1.75):
        session(x)
        np.testing.assert_array_equal(session["h0"], np.full((2, 4), expected, np.float32))
    np.testing.assert_array_equal(session["count"], [3])
    assert session.length == 0
    with pytest.raises(InputError, match="can be truncated if all of its states grow"):
        session.truncate(0)


def test_states_can_be_set():
    session = attention().session()
    values = {name: tokens(5, seed=i).reshape(1, 2, 5, 8) for i, name in enumerate(("past_key", "past_value"))}
    with pytest.raises(InputError, match="state 'past_value' has no value: give all states"):
        session["past_key"] = values["past_key"]
    session.load_states(values)
    y, *_ = attention().run({"x": tokens(1), **values})
    np.testing.assert_allclose(session(tokens(1))[0], y, rtol=1e-5, atol=1e-6)
    with pytest.raises(InputError, match="states 'past_key' and 'past_value' have 5 and 6 as 'past'"):
        session["past_key"] = values["past_key"]
    with pytest.raises(InputError, match=r"input 'past_key' must have shape"):
        session["past_key"] = np.zeros((1, 2, 5, 9), np.float32)
    assert session.length == 6


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "input 'x' is missing"),
        ({"x": tokens(1), "past_key": tokens(1)}, "'past_key' is a state, which the session keeps"),
        ([tokens(1), tokens(1)], "the session has 1 inputs, 2 were given"),
        (7, "inputs are a dict by name or a list"),
        ([tokens(1).astype(np.float64)], "must be float32"),
    ],
)
def test_wrong_inputs_are_refused(inputs: Any, message: str):
    with pytest.raises(InputError, match=message):
        attention().session().run(inputs)


def test_sessions_run_beside_each_other():
    found: dict[int, np.ndarray] = {}

    def work(seed: int) -> None:
        session = attention().session()
        for step in range(50):
            [found[seed]] = session(tokens(1, seed=100 * seed + step))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed, y in found.items():
        expected = Expected()
        *_, last = [expected.run(tokens(1, seed=100 * seed + step)) for step in range(50)]
        np.testing.assert_allclose(y, last, rtol=1e-5, atol=1e-6)


def test_one_session_runs_one_call_at_a_time():
    session = attention().session()
    with session._hold(), pytest.raises(InputError, match="the session is running"):
        session(tokens(1))


def test_a_program_that_is_saved_keeps_its_states(tmp_path: Path):
    path = attention().export_library(tmp_path / "net.so")
    session, expected = tw.load_module(path).session(), Expected()
    for count in (2, 1):
        x = tokens(count)
        np.testing.assert_allclose(session(x)[0], expected.run(x), rtol=1e-5, atol=1e-6)


def test_a_program_without_states_has_no_sessions():
    with pytest.raises(InputError, match=r"the program has no states.*compile it with states="):
        compiled(ATTENTION, states={}).session()


def test_declared_states_are_carried_whatever_makes_them():
    text = ATTENTION.replace("Concat <axis = 2> (past_key, new)", "Concat <axis = 2> (new, past_key)")
    module = compiled(text, states={"present_key": "past_key", "present_value": "past_value"})
    assert module.manifest.states == (State(1, 1), State(2, 2, 2))
    session, states = module.session(), [np.zeros((1, 2, 0, 8), np.float32)] * 2
    session.load_states(dict(zip(("past_key", "past_value"), states, strict=True)))
    for count in (2, 1, 3):
        x = tokens(count, seed=count)
        y, *states = module.run([x, *states])
        np.testing.assert_allclose(session(x)[0], y, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(session["past_key"], states[0])


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ({"present": "past_key"}, "no output 'present'; did you mean 'present_"),
        ({"present_key": "past"}, "no input 'past'"),
        ({"y": "past_key"}, "output 'y' cannot be input 'past_key' of the next run: one has shape"),
        ({"present_key": "past_key", "present_value": "past_key"}, "'past_key' is the next value of two outputs"),
        ([("a", "b")], "give inputs' names by those of outputs"),
    ],
)
def test_wrong_declarations_are_refused(states: Any, message: str):
    with pytest.raises(CompileError, match=message):
        compiled(ATTENTION, states=states)


def test_an_open_size_that_no_input_tells_is_asked_for():
    text = RECURRENT.replace("float[n, 4] x", "float[1, 4] x").replace("[n, 4] hn", "[m, 4] hn")
    module = compiled(text, states={"hn": "h0", "count_out": "count"})
    with pytest.raises(InputError, match=r"open size 'n', which no input of the run tells: give session\(sizes="):
        module.session()(np.ones((1, 4), np.float32))
    session = module.session(sizes={"n": 2})
    session(np.ones((1, 4), np.float32))
    assert session["h0"].shape == (2, 4)
    with pytest.raises(InputError, match="there is no size 'm'"):
        module.session(sizes={"m": 2})
    with pytest.raises(InputError, match="size 'n' must be a number"):
        module.session(sizes={"n": -1})
    with pytest.raises(InputError, match="capacity must be a number of elements"):
        module.session(capacity=0)


def test_a_run_that_fails_leaves_the_states():
    text = ATTENTION.replace("y = Reshape (back, whole)", "z = Reshape (back, whole)\n y = Gather <axis = 1> (z, at)")
    text = text.replace("float[b, s, 16] x,", "float[b, s, 16] x, int64[1] at,").replace(
        "=> (float[b, s, 16] y", "=> (float[b, 1, 16] y"
    )
    module = compiled(text)
    session = module.session()
    at = np.zeros(1, np.int64)
    session(tokens(3), at)
    kept = session["past_key"]
    with pytest.raises(InputError, match="out of range"):
        session(tokens(200), at + 300)  # appends, in new memory, and then fails
    assert session.length == 3
    np.testing.assert_array_equal(session["past_key"], kept)
    fresh = module.session()
    fresh(tokens(3), at)
    np.testing.assert_array_equal(session(tokens(1), at)[0], fresh(tokens(1), at)[0])


def test_a_range_of_a_state_is_held():
    module = tw.compile(
        parser.parse_model(ATTENTION).SerializeToString(),
        input_shapes={"past_key": ["?", 2, "past=0..4", 8], "past_value": ["?", 2, "past", 8]},
    )
    session = module.session()
    session(tokens(5))
    with pytest.raises(InputError, match=r"has 5 .*past.*must be"):
        session(tokens(1))


def test_a_session_may_begin_with_other_states():
    values = {"past_key": tokens(5, seed=1).reshape(1, 2, 5, 8), "past_value": tokens(5, seed=2).reshape(1, 2, 5, 8)}
    session, x = attention().session(initial=values), tokens(2)
    y, *_ = attention().run({"x": x, **values})
    for _ in range(2):
        np.testing.assert_allclose(session(x)[0], y, rtol=1e-5, atol=1e-6)
        session.reset()
    with pytest.raises(InputError, match="states 'past_key' and 'past_value' have 5 and 0 as 'past'"):
        attention().session(initial={"past_key": values["past_key"]})(x)


@pytest.mark.shares_kernels
@pytest.mark.parametrize("guarded", [False, True])
def test_sessions_of_guarded_and_timed_programs(guarded: bool, monkeypatch: pytest.MonkeyPatch):
    if guarded:
        monkeypatch.setenv("TILEWRIGHT_DEBUG", "1")
    session, expected = compiled(ATTENTION, profile=not guarded).session(), Expected()
    for count in (3, 1, 20):
        x = tokens(count, seed=count)
        np.testing.assert_allclose(session(x)[0], expected.run(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("before", "behind", "paired"),
    [
        ("past_key_values.0.key", "present.0.key", True),
        ("past.0.key", "present.0.key", True),
        ("state", "stateN", True),
        ("h", "hn", True),
        ("h0", "hn", True),
        ("hidden_in", "hidden_out", True),
        ("cache", "cache.next", True),
        ("past", "past.next", True),
        ("input", "output", False),
        ("x", "y", False),
    ],
)
def test_names_that_tell_a_state(before: str, behind: str, paired: bool):
    infos = [TensorInfo(name, (1, 4), "float32") for name in (before, behind)]
    assert list(pair_names(infos[:1], infos[1:])) == ([State(0, 0)] if paired else [])


def grouped(rows: str = "s") -> bytes:
    """GroupQueryAttention of 4 heads in 2 groups of size 8, with caches of open sizes."""
    infos = {
        "q": ["b", rows, 32],
        "k": ["b", rows, 16],
        "v": ["b", rows, 16],
        "past_key": ["b", 2, "past", 8],
        "past_value": ["b", 2, "past", 8],
    }
    given = [helper.make_tensor_value_info(name, 1, shape) for name, shape in infos.items()]
    given += [helper.make_tensor_value_info("ends", TensorProto.INT32, ["b"])]
    given += [helper.make_tensor_value_info("total", TensorProto.INT32, [1])]
    left = [helper.make_tensor_value_info("y", 1, ["b", rows, 32])]
    left += [helper.make_tensor_value_info(f"present_{kind}", 1, ["b", 2, "all", 8]) for kind in ("key", "value")]
    taken, made = ([info.name for info in side] for side in (given, left))
    counts: dict[str, Any] = {"num_heads": 4, "kv_num_heads": 2}
    node = helper.make_node("GroupQueryAttention", taken, made, "node", domain="com.microsoft", **counts)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "net", given, left)
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


def test_grouped_attention_appends_to_its_caches():
    module = tw.compile(grouped(), num_threads=1)
    assert module.manifest.states == (State(3, 1, 2), State(4, 2, 2))
    session, other, random = module.session(), module.session(), np.random.default_rng(0)
    q, k, v = (random.standard_normal((2, 7, n)).astype(np.float32) for n in (32, 16, 16))

    def step(of: Session, low: int, high: int, ends: list[int] | None = None) -> np.ndarray:
        rows = {name: x[:, low:high] for name, x in (("q", q), ("k", k), ("v", v))}
        counts = {"ends": np.array(ends or [high - 1] * 2, np.int32), "total": np.array([high], np.int32)}
        return of.run(rows | counts)[0]

    whole = step(other, 0, 7)
    parts = [step(session, low, high) for low, high in ((0, 4), (4, 5), (5, 7))]
    np.testing.assert_allclose(np.concatenate(parts[:2], 1), whole[:, :5], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(parts[2], whole[:, 5:], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(session["past_key"], other["past_key"])
    session.truncate(5)
    with pytest.raises(InputError, match="node 'node' does more than append to a state"):
        step(session, 5, 6, [5, 3])
    np.testing.assert_allclose(step(session, 5, 6), whole[:, 5:6], rtol=1e-5, atol=1e-6)


# Rows of a table are written at places that a run gives; it gives what was there before.
TABLE = """
<ir_version: 10, opset_import: ["" : 18]>
net (float[n, 3] x, int64[n, 1] at, int64[1] until, float[ROWS, 3] table) => (float[n, 3] old, float[ROWS, 3] table_out) {
  old = GatherND (table, at)
  table_out = ScatterND (table, at, x)
  part = Gather (table_out, until)
}
"""


@pytest.mark.parametrize("rows", ["40", "rows"])
def test_elements_are_written_where_a_state_lies(rows: str):
    module = compiled(TABLE.replace("ROWS", rows))
    session = module.session(sizes={"rows": 40} if rows == "rows" else None)
    random, table, address = np.random.default_rng(0), np.zeros((40, 3), np.float32), 0
    for step in range(5):
        x, at = random.standard_normal((4, 3)).astype(np.float32), random.permutation(40)[:4, None]
        old, table = module.run([x, at, np.array([0]), table])
        np.testing.assert_array_equal(session(x, at, np.array([0]))[0], old)
        np.testing.assert_array_equal(session["table"], table)
        assert step == 0 or memory_of(session, 3).address == address
        address = memory_of(session, 3).address
    fork = session.fork()
    fork(np.ones((1, 3), np.float32), np.array([[7]]), np.array([0]))
    np.testing.assert_array_equal(session["table"], table)


def test_a_state_that_a_failed_run_has_written_is_not_used():
    session = compiled(TABLE.replace("ROWS", "40")).session()
    x, at = np.ones((1, 3), np.float32), np.array([[3]])
    session(x, at, np.array([0]))
    with pytest.raises(InputError, match="has an index that is out of range"):
        session(x, at + 40, np.array([0]))  # which is seen before anything is written
    np.testing.assert_array_equal(session["table"][3], [1, 1, 1])
    memory_of(session, 3).lost = True
    for use in (lambda: session(x, at, np.array([0])), lambda: session["table"], session.fork):
        with pytest.raises(InputError, match="the last run failed, and state 'table' may be written in part"):
            use()
    session.load_states({"table": np.zeros((40, 3))[:, :].astype(np.float32)})
    session(x, at, np.array([0]))
    session.reset()
    np.testing.assert_array_equal(session(x, at, np.array([0]))[0], np.zeros((1, 3)))


def test_a_state_that_is_read_after_it_was_written_is_replaced():
    """What is given of the old table is read when the new one is there: it cannot lie in the same place."""
    text = TABLE.replace("ROWS", "40").replace("old = GatherND (table, at)\n", "")
    text = text.replace("part = Gather (table_out, until)", "sum = Add (table, table_out)\n old = GatherND (sum, at)")
    module = compiled(text)
    assert module.manifest.session is not None
    session, table = module.session(), np.zeros((40, 3), np.float32)
    for step in range(3):
        x, at = np.full((1, 3), step + 1, np.float32), np.array([[step]])
        old, table = module.run([x, at, np.array([0]), table])
        np.testing.assert_array_equal(session(x, at, np.array([0]))[0], old)
        np.testing.assert_array_equal(session["table"], table)


def test_a_state_that_has_become_another_size_is_refused():
    """The output may have any size, as far as the compiler knows; the input has one."""
    text = """
    <ir_version: 10, opset_import: ["" : 18]>
    net (int64[1] count, float[4] kept) => (float[1] y, float[n] left) {
      zero = Constant <value = int64[1] {0}> ()
      left = Slice (kept, zero, count)
      y = ReduceSum (left)
    }
    """
    session = compiled(text, states={"left": "kept"}).session()
    session(np.array([4]))
    session(np.array([3]))
    with pytest.raises(InputError, match=r"state 'kept' must have shape \(4,\), got \(3,\): reset the session"):
        session(np.array([3]))
    session.reset()
    session(np.array([4]))


def test_inputs_may_be_text():
    text = """
    <ir_version: 10, opset_import: ["" : 20]>
    net (string[n] x, float[past, 2] seen) => (string[n] y, float[all, 2] now) {
      y = StringConcat (x, x)
      row = Constant <value = float[1, 2] {1.0, 2.0}> ()
      now = Concat <axis = 0> (seen, row)
    }
    """
    session = compiled(text).session()
    for count in (1, 2):
        assert session(np.array(["a", "b"], object))[0].tolist() == ["aa", "bb"]
        assert session["seen"].shape == (count, 2)


def test_what_is_written_may_be_the_state_itself():
    """The rows come from the table that they are written to: the kernel must not see its own writes."""
    text = TABLE.replace("ROWS", "4").replace("ScatterND (table, at, x)", "ScatterND (table, turned, table)")
    text = text.replace("old = ", "turned = Constant <value = int64[4, 1] {1, 2, 3, 0}> ()\n old = ")
    module = compiled(text)
    session = module.session(initial={"table": np.arange(12, dtype=np.float32).reshape(4, 3)})
    table = np.arange(12, dtype=np.float32).reshape(4, 3)
    for _ in range(3):
        session(np.zeros((1, 3), np.float32), np.array([[0]]), np.array([0]))
        table = np.roll(table, 1, 0)
        np.testing.assert_array_equal(session["table"], table)


def test_a_state_may_be_put_behind_itself():
    text = """
    <ir_version: 10, opset_import: ["" : 18]>
    net (float[1, 2] x, float[past, 2] seen) => (float[1, 2] y, float[all, 2] now) {
      y = Identity (x)
      now = Concat <axis = 0> (seen, seen)
    }
    """
    module = compiled(text, states={"now": "seen"})
    session = module.session(initial={"seen": np.ones((1, 2), np.float32)})
    for count in (2, 4, 8):
        session(np.zeros((1, 2), np.float32))
        np.testing.assert_array_equal(session["seen"], np.ones((count, 2)))


def test_two_results_may_append_to_one_state():
    text = """
    <ir_version: 10, opset_import: ["" : 18]>
    net (float[s, 2] x, float[past, 2] seen) => (float[both, 2] y, float[all, 2] now) {
      more = Neg (x)
      y = Concat <axis = 0> (seen, more)
      now = Concat <axis = 0> (seen, x)
    }
    """
    session, rows = compiled(text, states={"now": "seen"}).session(), np.zeros((0, 2), np.float32)
    for count in (2, 1, 40):
        x = np.random.default_rng(count).standard_normal((count, 2)).astype(np.float32)
        np.testing.assert_array_equal(session(x)[0], np.concatenate([rows, -x]))
        rows = np.concatenate([rows, x])
        np.testing.assert_array_equal(session["seen"], rows)


def test_an_input_with_a_state_behind_it_is_none():
    text = """
    <ir_version: 10, opset_import: ["" : 18]>
    net (float[s, 2] x, float[p, 2] past) => (float[all, 2] present) { present = Concat <axis = 0> (x, past) }
    """
    with pytest.raises(InputError, match="has no states"):
        compiled(text).session()


def test_an_engine_has_one_program_for_sessions_too(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sessions, "_plan_session", lambda *_: pytest.fail("plans a program that an engine cannot have"))
    text = TABLE.replace("float[n, 3]", "float[1, 3]").replace("[n, 1]", "[1, 1]").replace("ROWS", "5")
    module = compiled(text, executor="engine", workers=0)
    assert module.manifest.session is None
    session, x = module.session(), np.ones((1, 3), np.float32)
    for place in range(3):
        session(x, np.array([[place]]), np.array([0]))
    np.testing.assert_array_equal(session["table"][:, 0], [1, 1, 1, 0, 0])


def test_a_run_that_takes_too_long_leaves_the_states():
    session, expected = attention().session(), Expected()
    session(tokens(3))
    expected.run(tokens(3))
    with pytest.raises(tw.TimeoutError):
        session.run([tokens(200)], timeout=1e-9)
    assert session.length == 3
    x = tokens(1, seed=4)
    np.testing.assert_allclose(session.run([x], timeout=60)[0], expected.run(x), rtol=1e-5, atol=1e-6)


MASKED = """
<ir_version: 10, opset_import: ["" : 18]>
net (KIND[n, 1, 4] new, int64[1] at, KIND[n, 6, 4] past) => (KIND[n, 1, 4] last, KIND[n, 6, 4] present) {
  places = Constant <value = int64[6, 1] {0, 1, 2, 3, 4, 5}> ()
  twice = Add (new, new)
  FORM
  last = Gather <axis = 1> (present, at)
}
"""
FORMS = {
    "chosen": "hit = Equal (places, at) present = Where (hit, twice, past)",
    "left out": "late = Less (places, at) present = Where (late, past, twice)",
}


@pytest.mark.parametrize("kind", ["float", "float16"])
@pytest.mark.parametrize("form", FORMS)
def test_rows_that_a_mask_chooses_are_written_where_a_state_lies(form: str, kind: str):
    module = compiled(MASKED.replace("FORM", FORMS[form]).replace("KIND", kind), states={"present": "past"})
    assert module.manifest.session is not None and module.manifest.session.frame.written
    session, random = module.session(sizes={"n": 2}), np.random.default_rng(0)
    past = np.zeros((2, 6, 4), module.inputs[2].dtype)
    for place in (4, 0, 5, 2):
        new = random.standard_normal((2, 1, 4)).astype(past.dtype)
        last, past = module(new, np.array([place]), past)
        np.testing.assert_array_equal(session(new, np.array([place]))[0], last)
        np.testing.assert_array_equal(session["past"], past)


def test_a_mask_that_the_state_decides_chooses_elements_of_a_copy():
    text = MASKED.replace("FORM", "hit = Greater (past, twice) present = Where (hit, twice, past)")
    module = compiled(text.replace("KIND", "float"), states={"present": "past"})
    assert module.manifest.session is None


def test_rows_of_a_cache_are_written_where_it_lies():
    text = """
    <ir_version: 10, opset_import: ["" : 24]>
    net (float[n, 2, 3] new, int64[n] at, float[n, 6, 3] past) => (float[n, 2, 3] y, float[n, 6, 3] present) {
      present = TensorScatter <axis = 1, mode = "circular"> (past, new, at)
      y = Neg (new)
    }
    """
    module = compiled(text, states={"present": "past"})
    assert module.manifest.session is not None and module.manifest.session.frame.written
    session, past = module.session(), np.zeros((2, 6, 3), np.float32)
    for place in (0, 3, 5):
        new = np.full((2, 2, 3), place, np.float32)
        past[0, [place, (place + 1) % 6]] = past[1, [(place + 2) % 6, (place + 3) % 6]] = place
        session(new, np.array([place, (place + 2) % 6]))
        np.testing.assert_array_equal(session["past"], past)
