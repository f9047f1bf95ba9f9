"""Routines alone: steps on registers, with kernels that Python stands in for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from python_kernels import Kernels, routines, words_at

from tilewright.core.errors import InputError
from tilewright.core.program import Routine, Step
from tilewright.runtime.steps.arithmetic import SCALARS


def run(routine: Routine, *inputs: Any, kernels: Kernels | None = None) -> list[Any]:
    """The results of a routine."""
    return routines(routine, kernels or Kernels()).run(inputs)


def number(register: int, value: int) -> Step:
    return Step("arith.constant", (register,), (), {"value": value})


def scalar(op: str, result: int, *operands: int, **facts: Any) -> Step:
    return Step(op, (result,), operands, facts)


def host(function: str, result: int, operands: Sequence[int], dtypes: Sequence[str], made: str) -> Step:
    facts = {"function": function, "attributes": {}, "dtypes": [list(dtypes), [made]]}
    return Step("host.call", (result,), tuple(operands), facts, nodes=(function,))


def item() -> list[Step]:
    """Steps that read the only element of the input in register 0 into register 1."""
    return [Step("tensor.extract", (1,), (0,))]


@pytest.mark.parametrize(("condition", "want"), [(True, 12), (False, 5)])
def test_one_of_two_branches_is_carried_out(condition, want):
    then = Routine((), (number(2, 7), scalar("arith.addi", 3, 2, 9)), (3,))
    branch = Step("scf.if", (8,), (1,), {}, (then, Routine((), (), (9,))))
    routine = Routine((0,), (*item(), number(9, 5), branch), (8,))
    assert run(routine, np.array(condition)) == [want]


@pytest.mark.parametrize("count", [0, 1, 4])
def test_a_counted_loop_carries_values(count):
    body = Routine((4, 5, 6), (scalar("arith.addi", 7, 5, 4),), (6, 7))  # they change places
    loop = Step("scf.for", (8, 9), (2, 1, 3, 2, 3), {}, (body,))
    routine = Routine((0,), (*item(), number(2, 0), number(3, 1), loop), (8, 9))
    a, b = 0, 1
    for i in range(count):
        a, b = b, a + i
    assert run(routine, np.array(count)) == [a, b]


@pytest.mark.parametrize(
    ("predicate", "holds"), [(1, "100"), (4, "010"), (7, "110"), (8, "101"), (13, "011"), (14, "001")]
)
def test_comparisons_of_floats(predicate, holds):
    compare = SCALARS["arith.cmpf"]({"predicate": predicate, "bits": 32})
    assert [compare(1.0, b) for b in (1.0, 2.0, float("nan"))] == [digit == "1" for digit in holds]


def test_a_while_loop_ends_before_its_body_where_the_condition_fails():
    def grown(start: int) -> list[Any]:
        before = Routine((4,), (scalar("arith.cmpi", 5, 4, 2, predicate=2, bits=64),), (5, 4))
        after = Routine((6,), (scalar("arith.muli", 7, 6, 3),), (7,))
        loop = Step("scf.while", (8,), (1,), {}, (before, after))
        return run(Routine((0,), (*item(), number(2, 100), number(3, 3), loop), (8,)), np.array(start))

    assert [grown(1), grown(99), grown(100)] == [[243], [297], [100]]


def test_a_kernel_in_a_loop_makes_a_larger_result_each_time():
    def longer(words: Sequence[int]) -> None:
        """Copies a tensor and appends the size of the result."""
        source, target, size, wanted = words[0], words[1], words[2], words[3]
        words_at(target, wanted)[:] = wanted
        words_at(target, size)[:] = words_at(source, size)

    facts = {"kernel": "longer", "open": [[0]], "types": [["i64", [None]]]}
    body = Routine(
        (4, 5),
        (
            Step("tensor.dim", (6,), (5, 2)),
            scalar("arith.addi", 7, 6, 3),
            Step("func.call", (8,), (5, 7), facts, dead=(6, 7)),
        ),
        (8,),
    )
    loop = Step("scf.for", (9,), (2, 10, 3, 0), {}, (body,))
    routine = Routine((0,), (number(2, 0), number(3, 1), number(10, 3), loop), (9,))
    [made] = run(routine, np.array([7, 8]), kernels=Kernels(longer=longer))
    np.testing.assert_array_equal(made, [7, 8, 3, 4, 5])


def test_a_loop_fills_a_list():
    body = Routine((4, 5), (host("SequenceInsert", 6, [5, 0], ["sequence", "float32"], "sequence"),), (6,))
    begin = [number(1, 0), number(2, 2), number(3, 1), host("sequence", 8, [], [], "sequence")]
    steps = (*begin, Step("scf.for", (9,), (1, 2, 3, 8), {}, (body,)))
    [made] = run(Routine((0,), steps, (9,)), np.array([1, 2], np.float32))
    assert [a.tolist() for a in made] == [[1, 2], [1, 2]]


def test_a_list_is_an_input():
    routine = Routine((0, 1), (host("SequenceInsert", 2, [0, 1], ["sequence", "float32"], "sequence"),), (2,))
    [made] = run(routine, [np.zeros(1, np.float32)], np.ones(2, np.float32))
    assert [a.tolist() for a in made] == [[0], [1, 1]]


def sliced(offset: int | None, size: int, stride: int) -> Step:
    facts = {"offsets": [offset, 1], "sizes": [size, 1], "strides": [stride, 1], "kept": [0]}
    return Step("tensor.extract_slice", (2,), (0, 1) if offset is None else (0,), facts, nodes=("cut",))


def test_a_slice_has_offsets_of_the_run():
    x = np.arange(12).reshape(6, 2)
    [made] = run(Routine((0,), (number(1, 1), sliced(None, 2, 3)), (2,)), x)
    np.testing.assert_array_equal(made, x[1:5:3, 1])


@pytest.mark.parametrize("step", [sliced(5, 2, 1), sliced(-1, 1, 1), sliced(0, 3, 3)])
def test_a_slice_outside_of_its_source_is_refused(step):
    with pytest.raises(InputError, match=r"node 'cut' takes \d elements from -?\d of 6"):
        run(Routine((0,), (step,), (2,)), np.zeros((6, 2)))


def test_what_a_register_holds_is_forgotten_after_its_last_reader():
    steps = (number(1, 3), Step("arith.addi", (2,), (1, 1), dead=(1,)))
    assert run(Routine((), steps, (1, 2))) == [None, 6]


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (Step("tensor.cast", (1,), (0,), {"shape": [3, None]}), r"shape \[2, 2\] where \[3, 'any'\] is needed"),
        (Step("tensor.expand_shape", (1,), (0,), {"shape": [3, 2]}), r"cannot make shape \[3, 2\] of 4 elements"),
        (Step("cf.assert", (), (2,), {"text": "sizes differ"}, nodes=("there",)), "node 'there' sizes differ"),
        (
            host("reverse", 1, [0], ["int64"], "int64"),
            "node 'reverse' needs the function 'reverse', which this runtime",
        ),
        (Step("arith.frobnicate", (1,), (0,)), "needs 'arith.frobnicate', which this version of the runtime"),
    ],
)
def test_what_does_not_fit_is_refused(step, why):
    with pytest.raises(InputError, match=why):
        run(Routine((0,), (number(2, 0), step), ()), np.zeros((2, 2), np.int64))


def test_a_tensor_of_a_negative_size_is_refused():
    facts = {"kernel": "none", "open": [], "types": [["f32", [None, 2]]]}
    steps = (number(1, -4), Step("func.call", (2,), (1,), facts, nodes=("range",)))
    with pytest.raises(InputError, match=r"node 'range' would make a tensor of shape \[-4, 2\]"):
        run(Routine((), steps, (2,)), kernels=Kernels(none=lambda words: None))
