"""Routines alone: steps on registers as code, with kernels that Python stands in for."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from python_kernels import Kernels, program_of, routines, words_at

from tilewright.core.errors import CompileError, InputError
from tilewright.core.model import ELEMENTS, numpy_dtype
from tilewright.core.program import RegisterType, Routine, Step
from tilewright.passes.lower.entry import emit_routine
from tilewright.runtime.process.deadline import Deadline
from tilewright.runtime.steps.host import FUNCTIONS

INDEX: RegisterType = ("index", None)
LIST: RegisterType = ("none", None)
WORD: RegisterType = ("i64", (1,))


def vector(element: str = "i64", extent: int | None = None) -> RegisterType:
    return element, (extent,)


def run(routine: Routine, *inputs: Any, kernels: Kernels | None = None) -> list[Any]:
    """The results of a routine."""
    return routines(routine, kernels or KERNELS).run(inputs)


def number(register: int, value: float) -> Step:
    kind = "f64" if isinstance(value, float) else "index"
    return Step("arith.constant", (register,), (), {"value": value}, types=((kind, None),))


def scalar(op: str, result: int, *operands: int, **facts: Any) -> Step:
    real = op.endswith("f") and not op.endswith("cmpf")
    return Step(op, (result,), operands, facts, types=(("f64" if real else "index", None),))


def host(
    function: str, result: int, operands: Sequence[int], dtypes: Sequence[str], made: str, type_: RegisterType = LIST
) -> Step:
    facts = {"function": function, "attributes": {}, "dtypes": [list(dtypes), [made]]}
    return Step("host.call", (result,), tuple(operands), facts, nodes=(function,), types=(type_,))


def call(kernel: str, result: int, tensors: Sequence[int], *sizes: int, **more: Any) -> Step:
    """A call on vectors; the last of the sizes is the result's extent."""
    facts = {"kernel": kernel, "open": [[0]] * len(tensors)} | more.pop("facts", {})
    return Step("func.call", (result,), (*tensors, *sizes), facts, nodes=(kernel,), types=(vector(),), **more)


def store(register: int, result: int) -> Step:
    """A tensor of one element that has a number."""
    facts = {"kernel": "store", "open": []}
    return Step("func.call", (result,), (register,), facts, types=(WORD,))


def put(words: Sequence[int]) -> None:
    words_at(words[0], 1)[0] = np.int64(np.uint64(words[1]))


def longer(words: Sequence[int]) -> None:
    """Copies a tensor and appends the size of the result."""
    source, target, size, wanted = words[0], words[1], words[2], words[3]
    words_at(target, wanted)[:] = wanted
    words_at(target, size)[:] = words_at(source, size)


def add(words: Sequence[int]) -> None:
    """The sum of two tensors of ``words[3]`` elements."""
    a, b, result, count = words[0], words[1], words[2], words[3]
    words_at(result, count)[:] = words_at(a, count) + words_at(b, count)


def increase(words: Sequence[int]) -> None:
    """Adds one to a tensor where it lies."""
    words_at(words[1], words[2])[:] = words_at(words[0], words[2]) + 1


KERNELS = Kernels(store=put, longer=longer, add=add, increase=increase)
READ = (number(90, 0), Step("tensor.extract", (91,), (0, 90), types=(INDEX,)))  # the word in register 0, in register 91


def collect(how: str, result: int, *operands: int, shape: Sequence[int] = ()) -> Step:
    facts = {"function": f"collect.{how}", "attributes": {"shape": list(shape)}, "dtypes": [[], []]}
    made: RegisterType = ("i64", (None,) * len(shape)) if how == "all" else LIST
    return Step("tw.collect", (result,), operands, facts, nodes=("rows",), types=(made,))


def test_tensors_are_collected_in_a_loop():
    body = Routine((3, 4), (collect("one", 5, 4, 0),), (5,), (INDEX, LIST))
    loop = Step("scf.for", (6,), (1, 9, 2, 8), {}, (body,), types=(LIST,))
    begin = (number(1, 0), number(2, 1), Step("tensor.dim", (9,), (0, 1), types=(INDEX,)), collect("none", 8))
    steps = (*begin, loop, collect("all", 7, 6, shape=[0, 0]))
    runner = routines(Routine((0,), steps, (7,), (vector(),)), KERNELS)
    for size in (1, 3, 100, 0):
        row = np.arange(size) + 7
        [got] = runner.run([row])
        np.testing.assert_array_equal(got, np.tile(row, (size, 1)))


def test_a_collection_that_is_shared_stays_as_it_is():
    steps = [collect("none", 2), collect("one", 3, 2, 0), collect("one", 4, 3, 1), collect("one", 5, 3, 0)]
    steps += [collect("all", 10 + register, register, shape=[0, 0]) for register in (3, 4, 5)]
    runner = routines(Routine((0, 1), tuple(steps), (13, 14, 15), (vector(), vector())), KERNELS)
    a, b = np.array([1, 2]), np.array([3, 4])
    assert [made.tolist() for made in runner.run([a, b])] == [[[1, 2]], [[1, 2], [3, 4]], [[1, 2], [1, 2]]]
    with pytest.raises(InputError, match=r"node 'rows' gives an element of shape \[3\] for a scan output"):
        runner.run([a, np.array([3, 4, 5])])


def test_one_of_two_branches_is_carried_out():
    then = Routine((), (number(2, 7), scalar("arith.addi", 3, 2, 9)), (3,))
    branch = Step("scf.if", (8,), (91,), {}, (then, Routine((), (), (9,))), types=(INDEX,))
    routine = Routine((0,), (*READ, number(9, 5), branch, store(8, 10)), (10,), (WORD,))
    runner = routines(routine, KERNELS)
    assert [runner.run([np.array([word])])[0].tolist() for word in (1, 0)] == [[12], [5]]


def test_a_counted_loop_carries_values():
    body = Routine((4, 5, 6), (scalar("arith.addi", 7, 5, 4),), (6, 7), (INDEX,) * 3)  # they change places
    loop = Step("scf.for", (8, 9), (2, 91, 3, 2, 3), {}, (body,), types=(INDEX, INDEX))
    steps = (*READ, number(2, 0), number(3, 1), loop, store(8, 10), store(9, 11))
    runner = routines(Routine((0,), steps, (10, 11), (WORD,)), KERNELS)
    for count in (0, 1, 4):
        a, b = 0, 1
        for i in range(count):
            a, b = b, a + i
        assert [result.tolist() for result in runner.run([np.array([count])])] == [[a], [b]]


def test_a_while_loop_ends_before_its_body_where_the_condition_fails():
    before = Routine((4,), (scalar("arith.cmpi", 5, 4, 2, predicate=2, bits=64),), (5, 4), (INDEX,))
    after = Routine((6,), (scalar("arith.muli", 7, 6, 3),), (7,), (INDEX,))
    loop = Step("scf.while", (8,), (91,), {}, (before, after), types=(INDEX,))
    steps = (*READ, number(2, 100), number(3, 3), loop, store(8, 9))
    runner = routines(Routine((0,), steps, (9,), (WORD,)), KERNELS)
    assert [int(runner.run([np.array([start])])[0][0]) for start in (1, 99, 100)] == [243, 297, 100]


def test_a_kernel_in_a_loop_makes_a_larger_result_each_time():
    steps = (Step("tensor.dim", (6,), (5, 2), types=(INDEX,)), scalar("arith.addi", 7, 6, 3))
    body = Routine((4, 5), (*steps, call("longer", 8, (5,), 7)), (8,), (INDEX, vector()))
    loop = Step("scf.for", (9,), (2, 10, 3, 0), {}, (body,), types=(vector(),))
    routine = Routine((0,), (number(2, 0), number(3, 1), number(10, 300), loop), (9,), (vector(),))
    [made] = run(routine, np.array([7, 8]))
    np.testing.assert_array_equal(made, [7, 8, *range(3, 303)])


def test_a_kernel_is_called_unless_it_makes_no_elements():
    """Where a program repeats an operand only if it has to be, most runs repeat none. A sum of nothing is made."""
    called: list[int] = []
    kernels = Kernels(longer=lambda words: called.append(words[3]), sums=lambda words: called.append(-words[3]))
    size = Step("tensor.dim", (1,), (0, 90), types=(INDEX,))
    sums = call("sums", 3, [2], 4, facts={"summed": [[0, 0]]})
    steps = (number(90, 0), size, number(4, 3), call("longer", 2, [0], 1), sums)
    runner = routines(Routine((0,), steps, (2, 3), (vector(),)), kernels)
    for length, expected in ((2, [2, -3]), (0, [-3])):
        called.clear()
        assert [len(result) for result in runner.run([np.zeros(length, np.int64)])] == [length, 3]
        assert called == expected


def test_a_value_that_is_read_again_stays_until_then():
    """Each call makes a tensor; the first one is read behind all others, which take the memory of those that are dead."""
    steps = [number(1, 0), Step("tensor.dim", (2,), (0, 1), types=(INDEX,)), call("add", 3, (0, 0), 2)]
    last = 3
    for register in range(4, 40):
        steps.append(call("add", register, (last, 0), 2, dead=() if last == 3 else (last,)))
        last = register
    steps.append(call("add", 50, (last, 3), 2, dead=(last, 3)))
    runner = routines(Routine((0,), tuple(steps), (50,), (vector(),)), KERNELS)
    for size in (1, 1000, 3, 5000):
        x = np.arange(size)
        np.testing.assert_array_equal(runner.run([x])[0], x * 40)


def test_memory_of_a_run_is_used_again_and_is_there_for_the_next_one():
    """Also what took several pieces of memory the first time; a run of a smaller size lies inside."""
    places: list[int] = []

    def note(words: Sequence[int]) -> None:
        places.append(words[2])
        add(words)

    steps = [number(1, 0), Step("tensor.dim", (2,), (0, 1), types=(INDEX,)), call("note", 3, (0, 0), 2)]
    for register in range(4, 30):
        steps.append(call("note", register, (register - 1, 0), 2, dead=(register - 1,)))
    runner = routines(Routine((0,), tuple(steps), (29,), (vector(),)), Kernels(note=note))

    def run_on(size: int) -> list[int]:
        places.clear()
        np.testing.assert_array_equal(runner.run([np.ones(size, np.int64)])[0], np.full(size, 28))
        return places[:-1]  # the last one is the output

    first, second, third, small = (run_on(size) for size in (50_000, 50_000, 50_000, 7))
    assert len(set(first)) < 4
    assert second == third
    assert min(second) <= min(small) and max(small) < max(second) + 8 * 50_000


def test_a_loop_without_kernels_ends_behind_the_deadline():
    before = Routine((4,), (number(5, 1),), (5, 4), (INDEX,))
    after = Routine((6,), (scalar("arith.addi", 7, 6, 3),), (7,), (INDEX,))
    loop = Step("scf.while", (8,), (2,), {}, (before, after), types=(INDEX,))
    runner = routines(Routine((), (number(2, 0), number(3, 1), loop, store(8, 9)), (9,)), KERNELS)
    with pytest.raises(TimeoutError, match=r"took longer than 0\.1 s"):
        runner.run([], Deadline(0.1))


def test_a_result_lies_over_an_operand():
    extent = [number(1, 0), Step("tensor.dim", (2,), (0, 1), types=(INDEX,))]
    over = call("increase", 4, (3,), 2, facts={"over": 0})
    steps = (*extent, call("add", 3, (0, 0), 2), over, call("add", 5, (3, 4), 2))
    made = run(Routine((0,), steps, (4, 5), (vector(),)), np.arange(4))
    np.testing.assert_array_equal(made, [[1, 3, 5, 7], [2, 6, 10, 14]])


def test_inputs_and_values_that_are_seen_twice_are_results():
    view = Step("tensor.expand_shape", (4,), (3, 2), {"shape": [1, None]}, types=(("i64", (1, None)),))
    steps = (number(1, 0), Step("tensor.dim", (2,), (0, 1), types=(INDEX,)), call("add", 3, (0, 0), 2), view)
    x = np.arange(5)
    same, sums, row, again = run(Routine((0,), steps, (0, 3, 4, 3), (vector(),)), x)
    np.testing.assert_array_equal(same, x)
    for made in (sums, row.reshape(-1), again):
        np.testing.assert_array_equal(made, x + x)
    assert not any(np.may_share_memory(a, b) for a, b in itertools.combinations((x, same, sums, row, again), 2))


def test_one_of_two_tensors_is_taken():
    choice = Step("tensor.select", (5,), (3, 0, 91), types=(vector(),))
    steps = (*READ, number(1, 0), Step("tensor.dim", (2,), (0, 1), types=(INDEX,)), call("add", 3, (0, 0), 2), choice)
    runner = routines(Routine((0,), steps, (5,), (vector(),)), KERNELS)
    assert [runner.run([np.array(x)])[0].tolist() for x in ([1, 2], [0, 2])] == [[2, 4], [0, 2]]


@pytest.mark.parametrize("sizes", [(8, 8), (8, 9), (0, 5), (5, 0)])
def test_a_tensor_that_is_made_where_it_is_wanted_lies_where_the_output_does(sizes):
    def choose(*results: int) -> Routine:
        """The input, or, where it has another size than the second one, the result of a kernel."""
        equal = Step("arith.cmpi", (6,), (3, 4), {"predicate": 0, "bits": 64}, types=(("i1", None),))
        wanted = Step("arith.select", (7,), (6, 2, 4), {"bits": 1}, types=(INDEX,))
        begin = (number(2, 0), *(Step("tensor.dim", (3 + i,), (i, 2), types=(INDEX,)) for i in range(2)))
        choice = Step("tensor.select", (9,), (0, 8, 6), types=(vector(),))
        return Routine((0, 1), (*begin, equal, wanted, call("note", 8, (1, 1), 7), choice), results, (vector(),) * 2)

    addresses = []

    def note(words: Sequence[int]) -> None:
        addresses.append(words[2])
        add(words)

    x, y = (np.arange(n) + n for n in sizes)
    for results in ((9,), (9, 8), (8, 9)):  # the last two have other readers
        addresses.clear()
        made = dict(zip(results, run(choose(*results), x, y, kernels=Kernels(note=note)), strict=True))
        np.testing.assert_array_equal(made[9], x if x.size == y.size else y + y)
        np.testing.assert_array_equal(made.get(8, y[:0]), y[:0] if x.size == y.size or 8 not in made else y + y)
        if x.size != y.size > 0:
            assert (addresses == [made[9].ctypes.data]) == (results == (9,))


def test_a_loop_fills_a_list():
    insert = host("SequenceInsert", 6, [5, 0], ["sequence", "int64"], "sequence")
    body = Routine((4, 5), (insert,), (6,), (INDEX, LIST))
    begin = [number(1, 0), number(2, 20), number(3, 1), host("sequence", 8, [], [], "sequence")]
    steps = (*begin, Step("scf.for", (9,), (1, 2, 3, 8), {}, (body,), types=(LIST,)))
    [made] = run(Routine((0,), steps, (9,), (vector(),)), np.array([1, 2]))
    assert [a.tolist() for a in made] == [[1, 2]] * 20


def test_a_list_is_an_input():
    insert = host("SequenceInsert", 2, [0, 1], ["sequence", "int64"], "sequence")
    [made] = run(Routine((0, 1), (insert,), (2,), (LIST, vector())), [np.zeros(1)], np.ones(2, np.int64))
    assert [a.tolist() for a in made] == [[0], [1, 1]]


def test_what_the_host_keeps_is_no_memory_of_the_run():
    """The sum's memory is used again as soon as the list has it."""
    extent = [number(1, 0), Step("tensor.dim", (2,), (0, 1), types=(INDEX,))]
    keep = Step(
        "host.call",
        (4,),
        (3,),
        {"function": "sequence", "attributes": {}, "dtypes": [["int64"], ["sequence"]]},
        dead=(3,),
        types=(LIST,),
    )
    steps = (*extent, call("add", 3, (0, 0), 2), keep, call("add", 5, (0, 0), 2), call("add", 6, (5, 5), 2))
    kept, _ = run(Routine((0,), steps, (4, 6), (vector(),)), np.arange(4))
    assert kept[0].tolist() == [0, 2, 4, 6]


def test_a_call_of_the_host_that_fails_ends_the_run(monkeypatch):
    def fail(_: Any, x: np.ndarray) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setitem(FUNCTIONS, "fail", fail)
    runner = routines(Routine((0,), (host("fail", 1, [0], ["int64"], "int64", vector()),), (1,), (vector(),)), KERNELS)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            runner.run([np.arange(3)])


def test_a_result_of_the_host_has_the_shape_that_its_readers_take(monkeypatch):
    monkeypatch.setitem(FUNCTIONS, "grid", lambda _: (np.zeros((2, 2), np.int64),))
    routine = Routine((), (host("grid", 1, [], [], "int64", ("i64", (3, None))),), (1,))
    with pytest.raises(InputError, match=r"node 'grid' has a tensor of shape \[2, 2\] where \[3, 'any'\] is needed"):
        run(routine)


def sliced(offset: int | None, size: int, stride: int) -> Step:
    facts = {"offsets": [offset, 1], "sizes": [size, 1], "strides": [stride, 1], "kept": [0]}
    operands = (0, 91) if offset is None else (0,)
    return Step("tensor.extract_slice", (2,), operands, facts, nodes=("cut",), types=(vector("i64", size),))


def test_a_slice_has_offsets_of_the_run():
    read = (number(90, 0), Step("tensor.extract", (91,), (1, 90), types=(INDEX,)))
    x = np.arange(12).reshape(6, 2)
    routine = Routine((0, 1), (*read, sliced(None, 2, 3)), (2,), (("i64", (None, 2)), WORD))
    [made] = run(routine, x, np.array([1]))
    np.testing.assert_array_equal(made, x[1:5:3, 1])


@pytest.mark.parametrize("step", [sliced(5, 2, 1), sliced(-1, 1, 1), sliced(0, 3, 3), sliced(1 << 62, 3, 1 << 62)])
def test_a_slice_outside_of_its_source_is_refused(step):
    with pytest.raises(InputError, match=r"node 'cut' takes more elements than there are \(\d and 6\)"):
        run(Routine((0,), (step,), (2,), (("i64", (None, 2)),)), np.zeros((6, 2), np.int64))


MATRIX: RegisterType = ("i64", (None, None))


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (
            Step("tensor.cast", (1,), (0,), {"shape": [3, None]}, types=(("i64", (3, None)),)),
            r"the program has a tensor of shape \[2, 2\] where \[3, 'any'\] is needed",
        ),
        (
            Step("tensor.expand_shape", (1,), (0,), {"shape": [3, 2]}, types=(("i64", (3, 2)),)),
            r"the program cannot make shape \[3, 2\] of 4 elements",
        ),
        (Step("cf.assert", (), (2,), {"text": "sizes differ"}, nodes=("there",)), "node 'there' sizes differ"),
        (
            Step("cf.assert", (), (2, 3, 2), {"text": "sizes differ"}, nodes=("there",)),
            r"node 'there' sizes differ \(-7 and 0\)",
        ),
        (
            Step("tensor.extract", (1,), (0, 3, 3), nodes=("at",), types=(INDEX,)),
            r"node 'at' reads an element that is not there: index and extent are \(-7 and 2\)",
        ),
        (call("add", 1, (), 3), r"node 'add' would make a tensor of shape \[-7\]: the inputs' sizes do not fit"),
    ],
)
def test_what_does_not_fit_is_refused(step, why):
    routine = Routine((0,), (number(2, 0), number(3, -7), step), (), (MATRIX,))
    with pytest.raises(InputError, match=why):
        run(routine, np.zeros((2, 2), np.int64))


def test_what_is_larger_than_any_memory_is_refused():
    steps = (number(1, 1 << 40), scalar("arith.muli", 2, 1, 1), call("longer", 3, (0,), 2))
    with pytest.raises((InputError, MemoryError)):
        run(Routine((0,), steps, (), (vector(),)), np.zeros(2, np.int64))


def test_a_function_that_this_runtime_lacks_is_refused_when_the_program_is_loaded():
    routine = Routine((0,), (host("reverse", 1, [0], ["int64"], "int64", vector()),), (), (vector(),))
    with pytest.raises(InputError, match="node 'reverse' needs the function 'reverse', which this runtime lacks"):
        routines(routine, KERNELS)


def test_an_op_that_no_program_has_is_an_error_of_the_compiler():
    routine = Routine((), (number(1, 0), scalar("arith.frobnicate", 2, 1)), ())
    with pytest.raises(CompileError, match=r"needs 'arith\.frobnicate', which no program has"):
        emit_routine(program_of(routine))


NUMBERS = (0, 1, -1, 2, 3, -3, 7, -8, 255, 1 << 31, -(1 << 31), 1 << 62, (1 << 63) - 1, -(1 << 63) + 1)
REALS = (0.0, -0.0, 1.5, -2.25, float("inf"), float("-inf"), float("nan"))


def _truncate(a: int, b: int) -> int:
    return -(-a // b) if (a < 0) != (b < 0) else a // b


INTEGERS = {
    "arith.addi": lambda a, b: a + b,
    "arith.subi": lambda a, b: a - b,
    "arith.muli": lambda a, b: a * b,
    "arith.floordivsi": lambda a, b: a // b if b else 0,
    "arith.ceildivsi": lambda a, b: -(-a // b) if b else 0,
    "arith.divsi": lambda a, b: _truncate(a, b) if b else 0,
    "arith.remsi": lambda a, b: a - b * _truncate(a, b) if b else 0,
    "arith.minsi": min,
    "arith.maxsi": max,
    "arith.andi": lambda a, b: a & b,
    "arith.ori": lambda a, b: a | b,
    "arith.xori": lambda a, b: a ^ b,
}


def test_whole_numbers_stay_at_the_largest_one():
    """Where Python's would be larger, and a quotient by 0 is 0."""
    read: list[Step] = [number(90, 0), number(89, 1)]
    read += [Step("tensor.extract", (91 + i,), (0, 90 - i), types=(INDEX,)) for i in range(2)]
    ops = [scalar(op, 100 + i, 91, 92) for i, op in enumerate(INTEGERS)]
    ops += [scalar("arith.cmpi", 120 + i, 91, 92, predicate=i, bits=64) for i in range(10)]
    ops += [scalar("arith.extui", 130, 91, bits=8), scalar("arith.index_castui", 131, 91, bits=32)]
    registers = [step.results[0] for step in ops]
    steps = (*read, *ops, *(store(register, 200 + i) for i, register in enumerate(registers)))
    results = tuple(range(200, 200 + len(registers)))
    runner = routines(Routine((0,), steps, results, (vector("i64", 2),)), KERNELS)
    signed = (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)
    for a, b in itertools.product(NUMBERS, repeat=2):
        got = [int(result[0]) for result in runner.run([np.array([a, b])])]
        want = [max(-(1 << 63), min(f(a, b), (1 << 63) - 1)) for f in INTEGERS.values()]
        want += [int(compare(a, b)) for compare in signed]
        want += [int(compare(a % (1 << 64), b % (1 << 64))) for compare in signed[2:]]
        assert got == [*want, a & 255, a & 0xFFFFFFFF]


def test_comparisons_of_floats():
    """Of MLIR's predicates the first eight do not hold where a number is NaN, the others do."""
    read: list[Step] = [number(90, 0), number(89, 1)]
    read += [Step("tensor.extract", (91 + i,), (0, 90 - i), types=(("f64", None),)) for i in range(2)]
    ops = [scalar("arith.cmpf", 100 + i, 91, 92, predicate=i, bits=64) for i in range(16)]
    steps = (*read, *ops, *(store(100 + i, 200 + i) for i in range(16)))
    runner = routines(Routine((0,), steps, tuple(range(200, 216)), (vector("f64", 2),)), KERNELS)
    six = (np.equal, np.greater, np.greater_equal, np.less, np.less_equal, np.not_equal)
    for a, b in itertools.product(REALS, repeat=2):
        nan = a != a or b != b
        got = [bool(result[0]) for result in runner.run([np.array([a, b])])]
        held = [bool(compare(a, b)) for compare in six]
        assert got == [False, *(h and not nan for h in held), not nan, *(h or nan for h in held), nan, True]


@pytest.mark.parametrize("element", ["bf16", "f16", "f32", "f64"])
def test_floats_are_read_and_computed_with(element):
    """Whether x * x - 0.5 is 0.5."""
    steps = (
        number(90, 0),
        Step("tensor.extract", (91,), (0, 90), types=((element, None),)),
        number(1, 0.5),
        scalar("arith.mulf", 2, 91, 91),
        scalar("arith.subf", 3, 2, 1),
        scalar("arith.cmpf", 4, 3, 1, predicate=1, bits=64),
        store(4, 5),
    )
    runner = routines(Routine((0,), steps, (5,), (vector(element),)), KERNELS)
    dtype = numpy_dtype(ELEMENTS[element])
    assert [int(runner.run([np.array([x]).astype(dtype)])[0][0]) for x in (1.0, -1.0, 0.5)] == [1, 1, 0]
