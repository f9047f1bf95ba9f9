"""Kernel calls that are recorded for given sizes: replayed, they do what they did, in memory of their own."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from python_kernels import Kernels, routines, words_at

import tilewright as tw
from tilewright.core.program import Routine, Step
from tilewright.runtime.steps.segments import Segment, group_steps
from tilewright.runtime.vm.recording import Recording
from tilewright.runtime.vm.routines import Routines


def add(words: Sequence[int]) -> None:
    """The sum of two tensors of ``words[3]`` elements."""
    a, b, result, count = words[0], words[1], words[2], words[3]
    words_at(result, count)[:] = words_at(a, count) + words_at(b, count)


def shift(words: Sequence[int]) -> None:
    """A tensor and a number."""
    source, result, count, number = words[0], words[1], words[2], words[3]
    words_at(result, count)[:] = words_at(source, count) + number


def prefix(words: Sequence[int]) -> None:
    """The first ``words[3]`` elements of a tensor."""
    words_at(words[1], words[3])[:] = words_at(words[0], words[3])


KERNELS = Kernels(add=add, shift=shift, prefix=prefix)


def call(kernel: str, result: int, tensors: Sequence[int], *sizes: int, dead: Sequence[int] = ()) -> Step:
    """A call on vectors; the last of the sizes is the result's extent."""
    facts = {"kernel": kernel, "open": [[0]] + [[]] * (len(tensors) - 1), "types": [["i64", [None]]]}
    return Step("func.call", (result,), (*tensors, *sizes), facts, dead=tuple(dead), nodes=(kernel,))


def constant(register: int, value: int) -> Step:
    return Step("arith.constant", (register,), (), {"value": value})


EXTENT = (constant(20, 0), Step("tensor.dim", (21,), (0, 20)))  # of the vector in register 0, in register 21


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Recording]:
    """The recordings that are made from now on."""
    found: list[Recording] = []
    of = Recording.of

    def noted(*arguments: Any) -> Recording:
        found.append(of(*arguments))
        return found[-1]

    monkeypatch.setattr(Recording, "of", noted)
    return found


def network(chosen: Sequence[tuple[int, int]]) -> Routine:
    """Sums of two values each, of all that came before them (the input is 0); some are results."""
    steps = [call("add", 100 + i, (reg(a, i), reg(b, i)), 21) for i, (a, b) in enumerate(chosen)]
    return Routine((0,), (*EXTENT, *_with_dead(steps)), (100 + len(chosen) // 2, 100 + len(chosen) - 1))


def reg(choice: int, before: int) -> int:
    return [0, *range(100, 100 + before)][choice % (before + 1)]


def _with_dead(steps: Sequence[Step]) -> list[Step]:
    wanted, result = {100 + len(steps) // 2, 100 + len(steps) - 1}, []
    for step in reversed(steps):
        dead = tuple({r for r in (*step.operands[:2], *step.results) if r >= 100 and r not in wanted})
        wanted |= set(step.operands)
        result.append(Step(step.op, step.results, step.operands, step.facts, (), dead, step.nodes))
    return result[::-1]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=25), st.data())
def test_replayed_calls_give_what_steps_one_by_one_give(chosen, data):
    routine = network(chosen)
    replaying, single = routines(routine, KERNELS), routines(routine, KERNELS, watch=lambda _, action: action)
    for _ in range(4):
        x = np.arange(data.draw(st.integers(0, 40))) + 1
        for a, b in zip(replaying.run([x]), single.run([x]), strict=True):
            np.testing.assert_array_equal(a, b)


def test_sizes_that_alternate_are_recorded_once_each_and_the_oldest_of_nine_is_forgotten(made):
    replaying = routines(network([(0, 0), (1, 0), (2, 1)]), KERNELS)

    def run(*sizes: int) -> int:
        before = len(made)
        for size in sizes:
            np.testing.assert_array_equal(replaying.run([np.ones(size, int)])[-1], np.full(size, 5))
        return len(made) - before

    assert run(3, 5, 3, 5, 3) == 2
    assert run(*range(10, 17)) == 7
    assert run(3) == 0 and run(5) == 1, "of the nine, 5 was used longest ago"


def test_results_lie_in_memory_of_their_own_and_inputs_where_they_are():
    replaying = routines(network([(0, 0), (1, 1), (2, 2)]), KERNELS)
    inputs = [np.full(9, i) for i in range(6)]
    held = [replaying.run([x]) for x in inputs]
    assert len({array.ctypes.data for results in held for array in results}) == 12
    for i, (middle, last) in enumerate(held):
        assert middle[0] == 4 * i and (last == 8 * i).all() and (inputs[i] == i).all()


def test_intermediates_share_an_arena(made):
    routines(network([(i, i) for i in range(20)]), KERNELS).run([np.ones(1000, int)])
    [recording] = made
    assert recording.arena_bytes <= 3 * 8064 and len(recording.made) == 2


def test_a_result_takes_the_memory_of_the_argument_that_it_is_written_over(made):
    second = call("shift", 101, (100,), 20, 21, dead=[100])
    over = Step(second.op, second.results, second.operands, {**second.facts, "over": 0}, (), second.dead, second.nodes)
    replaying = routines(Routine((0,), (*EXTENT, call("add", 100, (0, 0), 21), over), (101,)), KERNELS)
    [held], [other] = (replaying.run([np.full(9, i)]) for i in (1, 2))
    assert (held == 2).all() and (other == 4).all()
    [recording] = made
    assert len(recording.made) == 1 and not recording.arena_bytes


def test_what_is_read_from_data_ends_a_recorded_stretch_and_decides_over_the_next(made):
    read = Step("tensor.extract", (1,), (100, 20))
    routine = Routine((0,), (*EXTENT, call("add", 100, (0, 0), 21), read, call("prefix", 101, (0,), 1)), (101,))
    replaying = routines(routine, KERNELS)
    for first in (1, 2, 1, 2):
        [result] = replaying.run([np.array([first, 7, 7, 7])])
        np.testing.assert_array_equal(result, [first, 7, 7, 7][: 2 * first])
    assert len(made) == 3, "the first stretch once, the second for two sizes"


def test_a_number_that_decides_nothing_is_handed_on(made):
    """A loop whose index goes to a kernel, beside the next one's computation, which nobody else reads."""
    body = Routine((4, 5), (constant(9, 1), Step("arith.addi", (6,), (4, 9)), call("shift", 7, (5,), 4, 21)), (7,))
    loop = Step("scf.for", (8,), (20, 10, 11, 0), {}, (body,))
    replaying = routines(Routine((0,), (*EXTENT, constant(10, 30), constant(11, 1), loop), (8,)), KERNELS)
    np.testing.assert_array_equal(replaying.run([np.zeros(3, int)])[0], [435] * 3)
    assert len(made) == 1


def test_zeros_of_both_signs_are_told_apart():
    read = (constant(20, 0), constant(22, 2), Step("tensor.extract", (1,), (3, 20)))
    product = Step("arith.addf", (2,), (1, 1))
    replaying = routines(Routine((0, 3), (*read, product, call("add", 4, (0, 0), 22)), (2, 4)), KERNELS)
    signs = [np.signbit(replaying.run([np.ones(2, int), np.array([zero])])[0]) for zero in (0.0, -0.0, 0.0)]
    assert signs == [False, True, False]


def test_numbers_beyond_64_bits_wrap():
    steps = (*EXTENT, constant(1, 2**64 + 5), call("shift", 2, (0,), 1, 21))
    np.testing.assert_array_equal(routines(Routine((0,), steps, (2,)), KERNELS).run([np.arange(3)])[0], [5, 6, 7])


def test_a_view_of_an_input_or_a_weight_shows_its_memory():
    views = [Step("tensor.expand_shape", (r + 10,), (r,), {"shape": [1, 3]}) for r in (0, 1)]
    steps = (*EXTENT, *views, call("add", 2, (0, 1), 21))
    x, w = np.arange(3), np.full(3, 10)
    replaying = routines(Routine((0, 1), steps, (10, 11, 2)), KERNELS, params=[w])
    for _ in range(2):
        of_input, of_weight, total = replaying.run([x])
        assert of_input.shape == of_weight.shape == (1, 3)
        assert np.shares_memory(of_input, x) and np.shares_memory(of_weight, w)
        np.testing.assert_array_equal(total, [10, 11, 12])


def test_what_decides_and_what_is_handed_on():
    steps = (
        constant(9, 1),
        Step("arith.addi", (5,), (4, 9), dead=(4,)),  # decides nothing
        Step("arith.muli", (6,), (3, 9)),  # the result's extent
        call("shift", 7, (0,), 2, 6, dead=(2,)),
    )
    [together] = group_steps(steps)
    segment = Segment.of(together, lambda kernel: False)
    assert (segment.tensors, segment.numbers, segment.passed) == ((0,), (3,), (2,))
    assert [step.results for step in segment.ahead] == [(9,), (5,)] and segment.dead == (2, 4)
    assert segment.results == (9, 6, 7)
    assert Segment.of(together, lambda kernel: True).numbers == (3, 2), "its memory depends on all its sizes"


def test_steps_that_look_at_data_or_branch_are_alone():
    steps = [*EXTENT, call("add", 1, (0, 0), 21), Step("tensor.extract", (2,), (1, 20)), constant(3, 1), Step("scf.if")]
    assert [len(group) for group in group_steps(steps)] == [3, 1, 1, 1]


TEXT = """<ir_version: 9, opset_import: ["": 18]>
g (float[N, 6, H, W] x, float[8, 6, 3, 3] w) => (float[N, 8, A, B] y, float[N, 8, A, B] z)
{ c = Conv<pads = [1, 1, 1, 1]>(x, w)  r = Relu(c)  s = Softmax<axis = 1>(r)  m = Add(s, c)
  y = Sigmoid(m)  q = Softmax<axis = 3>(m)  z = Mul(y, q) }"""


@pytest.fixture(scope="module")
def module() -> tw.Module:
    return tw.compile(onnx.parser.parse_model(TEXT), workers=0, num_threads=2, cache=False)


def image(random: np.random.Generator, *size: int) -> np.ndarray:
    return random.standard_normal((size[0], 6, *size[1:]), np.float32)


def one_by_one(module: tw.Module) -> Routines:
    """The same program, in one thread and without recordings."""
    steps = module.manifest.steps
    assert steps is not None
    return Routines(module._program.library, steps, [], watch=lambda _, action: action)


def test_a_program_gives_the_same_bits_in_all_its_ways(module):
    random = np.random.default_rng(5)
    w, single = random.standard_normal((8, 6, 3, 3), np.float32), one_by_one(module)
    for size in [(1, 5, 7), (2, 90, 80), (1, 5, 7), (1, 1, 1), (2, 90, 80), (1, 64, 64)]:
        x = image(random, *size)
        wide = np.concatenate([x, x], axis=3)[..., ::2]  # strided: the run makes a copy
        for array in (x, wide):
            expected = single.run([np.ascontiguousarray(array), w])
            for a, b in zip(module(array, w), expected, strict=True):
                np.testing.assert_array_equal(a, b)


def test_threads_replay_the_same_recordings_at_once(module):
    random = np.random.default_rng(6)
    w = random.standard_normal((8, 6, 3, 3), np.float32)
    images = [image(random, 1, 8 + i % 3, 9) for i in range(6)]
    expected, wrong = [module(x, w) for x in images], []

    def work(number: int) -> None:
        for i in range(60):
            n = (i * number) % 6
            if any((a != b).any() for a, b in zip(module(images[n], w), expected[n], strict=True)):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in (1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
