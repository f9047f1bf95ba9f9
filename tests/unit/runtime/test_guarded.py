"""Guarded runs: wrong kernels are found by what they write, and right ones pass."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from python_kernels import Kernels, link_routine, program_of, words_at

import tilewright as tw
from tilewright.core.errors import GuardError
from tilewright.core.model import TensorInfo
from tilewright.core.program import Call, Kernel, Program, Routine, SameSizes, Signature, Slot, Step
from tilewright.passes import pipeline
from tilewright.passes.plan_routine import plan_routine
from tilewright.runtime.executors.guarded import GuardedRoutine
from tilewright.runtime.executors.guarded_calls import GuardedCalls
from tilewright.runtime.executors.guards import Guards, fill, find_unwritten

COUNT = 5
X = np.arange(1, COUNT + 1)
W = np.arange(10, 10 + COUNT)
INFO = TensorInfo("x", (COUNT,), "int64")
OUTPUT = Slot("output", 0)
Body = Callable[[Sequence[int]], None]  # of a kernel: words are x, w, the result, and sizes in open programs


def right(words: Sequence[int]) -> None:
    words_at(words[2], COUNT)[:] = words_at(words[0], COUNT) + words_at(words[1], COUNT)


def also(place: Callable[[Sequence[int]], int], count: int = 1) -> Body:
    """The right kernel, which then writes so many words at a place."""

    def body(words: Sequence[int]) -> None:
        right(words)
        words_at(place(words), count)[:] = 7

    return body


def too_short(words: Sequence[int]) -> None:
    words_at(words[2], COUNT - 2)[:] = words_at(words[0], COUNT - 2)


WRONG = {
    "wrote 24 bytes behind {result}": also(lambda words: words[2] + 8 * COUNT, 3),
    "wrote 16 bytes before {result}": also(lambda words: words[2] - 16),
    "wrote 8 bytes behind input 'x'": also(lambda words: words[0] + 8 * COUNT),
    "wrote 8 bytes behind weight 'w'": also(lambda words: words[1] + 8 * COUNT),
    "wrote into its operand 0": also(lambda words: words[0] + 8),
    "wrote into its operand 1": also(lambda words: words[1]),
}


def weights() -> Any:
    return SimpleNamespace(addresses=lambda *_: None, arrays=lambda _: [W])


def described(**facts: Any) -> Any:
    """A manifest of a program with the input x, the weight w and one output."""
    manifest = {"name": "net", "inputs": (INFO,), "params": (replace(INFO, name="w"),), "fingerprint": ""}
    return SimpleNamespace(**manifest, outputs=(replace(INFO, name="y"),), **facts)


def carried(body: Body, same_sizes: SameSizes = (), counts: bool = False) -> GuardedRoutine:
    """A kernel as a step of a routine."""
    extent = (
        Step("arith.constant", (8,), (), {"value": 0}, types=(("index", None),)),
        Step("tensor.dim", (9,), (0, 8), types=(("index", None),)),
    )
    vector = ("i64", (None,))
    facts = {"kernel": "add", "open": [[0], []]}
    call = Step("func.call", (2,), (0, 1, 9), facts, nodes=("the_add",), types=(vector,))
    program = program_of(Routine((0, 1), (*extent, call), (2,), (vector, ("i64", (COUNT,)))), [W])
    kernels = Kernels(add=body)
    known = kernels.described(same_sizes=same_sizes, counts=counts)
    manifest = described(program=program, routine=program.routine, kernels=known)
    return GuardedRoutine(link_routine(program, kernels, known), manifest, weights(), 1)


def called(body: Body, result: Slot = OUTPUT, arena_bytes: int = 0) -> GuardedCalls:
    """A kernel as the call of a program with known sizes."""
    text = f"{COUNT}xi64"
    kernel = Kernel("add", b"", 1, False, signature=Signature((text, text), (text,)))
    info, weight, output = described().inputs[0], described().params[0], described().outputs[0]
    call = Call("add", (Slot("input", 0), Slot("param", 0), result), ("the_add",))
    program = Program((info,), (output,), (weight,), (call,), arena_bytes)
    manifest = described(program=program, kernels=(kernel,), arena_bytes=arena_bytes)
    return GuardedCalls(Kernels(add=body), manifest, weights(), 1)


def test_a_right_kernel_passes():
    for runner in (carried(right), called(right)):
        for _ in range(2):
            np.testing.assert_array_equal(runner.run([X])[0], X + W)


def test_sizes_that_a_kernel_takes_for_one_are_held_to_that():
    runner = carried(right, (((0, 0), (1, 0), (2, -1), (3, 0)),))
    np.testing.assert_array_equal(runner.run([X])[0], X + W)
    with pytest.raises(
        GuardError, match="takes for one size 4 as axis 0 of operand 0, 5 as axis 0 of operand 1, 4 as op"
    ):
        runner.run([X[:4]])


@pytest.mark.parametrize("text", WRONG)
@pytest.mark.parametrize("make", [carried, called])
def test_what_a_kernel_writes_outside_of_its_results_is_refused(make, text):
    runner = make(WRONG[text])
    result = "its result 0 (40 bytes)" if make is carried else "output 'y'"
    for _ in range(2):  # what was damaged is mended
        with pytest.raises(GuardError) as raised:
            runner.run([X.copy()])
        line = str(raised.value)
        assert re.match(r"kernel 'add' \(node 'the_add'\), called on \S+, \S+ to make \S+, wrote", line)
        assert text.format(result=result) in line and "\n" not in line


@pytest.mark.parametrize(("make", "who"), [(carried, "to make int64[5], never wrote"), (called, "no kernel wrote")])
def test_elements_that_no_kernel_writes_are_refused(make, who):
    with pytest.raises(GuardError, match=rf"{re.escape(who)} 2 of the 5 elements of [^\n]*, the first at \[3\]$"):
        make(too_short).run([X])


def test_a_kernel_states_that_it_leaves_a_part_of_its_result(monkeypatch):
    """Of a reflected border the first kernel writes columns, the second one the rest; names have too few words to say."""
    assert len(carried(too_short, counts=True).run([X])[0]) == COUNT
    monkeypatch.setenv("TILEWRIGHT_DEBUG", "1")
    pads = helper.make_tensor("pads", TensorProto.INT64, [4], [1, 2, 0, 0])
    kinds = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["k", size]) for name, size in (("x", 3), ("y", 5))]
    node = helper.make_node("Pad", ["x", "pads"], ["y"], mode="reflect")
    graph = helper.make_graph([node], "net", kinds[:1], kinds[1:], [pads])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    module = tw.compile(made, workers=0, num_threads=1, cache=False)
    x = np.arange(21, dtype=np.float32).reshape(7, 3)
    manifest = module.program.manifest
    assert manifest.routine is not None and all(kernel.inserts for kernel in manifest.kernels)
    np.testing.assert_array_equal(module(x)[0], np.pad(x, ((1, 0), (2, 0)), "reflect"))


@pytest.mark.parametrize("make", [carried, called])
def test_a_result_may_hold_the_pattern(make):
    pattern = np.empty(COUNT, np.int64)
    fill(pattern, 0)
    np.testing.assert_array_equal(make(right).run([pattern - W])[0], pattern)


def test_other_values_of_the_arena_have_to_stay():
    runner = called(also(lambda words: words[2] + 8 * COUNT, 2), Slot("arena", offset=64), 192)
    with pytest.raises(GuardError, match="wrote 16 bytes behind its result in the arena at 64, where other values may"):
        runner.run([X])
    runner = called(also(lambda words: words[2] - 24), Slot("arena", offset=64), 192)
    with pytest.raises(GuardError, match="wrote 24 bytes before its result in the arena at 64"):
        runner.run([X])


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16", "i1", "i2", "i4", "i8", "u1"])
def test_a_pattern_is_told_from_another_and_from_numbers(dtype):
    array, kind = np.empty((2, 3), dtype), np.dtype(dtype).kind
    for which in (0, 1):
        fill(array, which)
        assert find_unwritten(array, which).all() and not find_unwritten(array, 1 - which).any()
        assert kind not in "fc" or np.isnan(array).all()
    array[1, 1] = 3
    assert find_unwritten(array, 1).tolist() == [True] * 4 + [False, True]


def test_what_arithmetic_makes_of_the_pattern_is_known():
    array = np.empty(3, np.float32)
    fill(array, 0)
    with np.errstate(invalid="ignore"):
        assert find_unwritten(array + np.float32(1), 0).all()


def test_zones_are_longer_than_a_row():
    guards = Guards()
    array = guards.array((2, 40_000), np.dtype("f4"))
    words_at(array.ctypes.data + array.nbytes, 20_000)[:] = 1
    assert guards.damage() == "160000 bytes behind a buffer"
    assert guards.damage() == ""


def relu(rows: int | str) -> onnx.ModelProto:
    kinds = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, 3]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"], "the_relu")], "net", kinds[:1], kinds[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def compiled(rows: int | str) -> tw.Module:
    return tw.compile(relu(rows), workers=0, num_threads=1, cache=False)


@pytest.mark.parametrize(("rows", "plain", "guarded"), [(4, "aot", "graph"), ("n", "aot", "aot")])
def test_the_environment_says_so_when_a_program_is_loaded(rows, plain, guarded, monkeypatch):
    x = np.array([[-1, 2, 3]] * 4, np.float32)
    monkeypatch.delenv("TILEWRIGHT_DEBUG", raising=False)
    module = compiled(rows)
    monkeypatch.setenv("TILEWRIGHT_DEBUG", "1")
    again = tw.runtime.Module(module.program)
    assert (module.executor, again.executor) == (plain, guarded)
    np.testing.assert_array_equal(again(x)[0], module(x)[0])
    monkeypatch.setenv("TILEWRIGHT_DEBUG", "0")
    assert tw.runtime.Module(module.program).executor == plain


def test_a_compiled_kernel_with_a_result_that_is_too_small_is_found(monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_DEBUG", "1")
    monkeypatch.setattr(pipeline, "plan_routine", lambda function: _shorten(plan_routine(function)))
    short = compiled("n")
    with pytest.raises(
        GuardError, match=r"\(node 'the_relu'\), called on float32\[4, 3\] to make float32\[2, 3\], wrote 24 b"
    ):
        short(np.ones((4, 3), np.float32))


def _shorten(routine: Routine) -> Routine:
    """The routine whose call gets memory for two rows of its result, however many the kernel makes."""
    *others, call = routine.steps
    return replace(routine, steps=(*others, replace(call, types=(("f32", (2, 3)),))))
