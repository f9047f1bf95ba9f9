"""A routine's calls, measured one by one."""

from types import SimpleNamespace

import numpy as np
import pytest
from python_kernels import Kernels, link_routine, program_of

from tilewright.core.program import Routine, Step
from tilewright.runtime.executors.timed import TimedRoutine
from tilewright.runtime.steps.host import FUNCTIONS

SCALAR = ("i64", ())


def wait(seconds: float, result: int) -> Step:
    """A call of the host that takes some time."""
    facts = {"function": "wait", "attributes": {"seconds": seconds}, "dtypes": [[], ["int64"]]}
    return Step("host.call", (result,), (), facts, types=(SCALAR,))


def test_times_are_in_the_order_of_the_calls_and_a_branch_that_is_not_taken_has_none(monkeypatch: pytest.MonkeyPatch):
    now = 0

    def waited(attributes: dict[str, float]) -> tuple[np.ndarray]:
        nonlocal now
        now += int(attributes["seconds"] * 1e9)
        return (np.array(0),)

    monkeypatch.setitem(FUNCTIONS, "wait", waited)
    monkeypatch.setattr("tilewright.runtime.executors.timed.time", SimpleNamespace(perf_counter_ns=lambda: now))
    branches = tuple(Routine((), (wait(seconds, r),), (r,)) for r, seconds in ((3, 0.02), (4, 5.0)))
    steps = (
        wait(0.01, 0),
        Step("arith.constant", (1,), (), {"value": 1}, types=(("index", None),)),
        Step("scf.if", (2,), (1,), {}, branches, types=(SCALAR,)),
        wait(0.03, 5),
    )
    rounds = []
    program = program_of(Routine((), steps, (2, 5)))
    timed = TimedRoutine(link_routine(program, Kernels()), program, [], 1)
    first, taken, other, last = timed.time([], 2, lambda: rounds.append(0))
    assert len(rounds) == 2 and other == 0
    assert [first, taken, last] == pytest.approx([0.01, 0.02, 0.03])
