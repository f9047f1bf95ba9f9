"""A routine's calls, measured one by one."""

from types import SimpleNamespace

import numpy as np
import pytest
import tvm_ffi

from tilewright.core.program import Routine, Step
from tilewright.runtime.artifact.manifest import RoutineRecord
from tilewright.runtime.executors.timed import TimedRoutine
from tilewright.runtime.steps.host import FUNCTIONS


class NoKernels:
    """The library of a routine that calls none."""

    def get_function(self, name: str) -> tvm_ffi.Function:
        return tvm_ffi.convert(lambda *index: SimpleNamespace(value=0))


def wait(seconds: float, result: int) -> Step:
    """A call of the host that takes some time."""
    facts = {"function": "wait", "attributes": {"seconds": seconds}, "dtypes": [[], ["int64"]]}
    return Step("host.call", (result,), (), facts)


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
        Step("arith.constant", (1,), (), {"value": 1}),
        Step("scf.if", (2,), (1,), {}, branches),
        wait(0.03, 5),
    )
    rounds = []
    timed = TimedRoutine(NoKernels(), RoutineRecord(Routine((), steps, (2, 5)), ()), [])
    first, taken, other, last = timed.time([], 2, lambda: rounds.append(0))
    assert len(rounds) == 2 and other == 0
    assert [first, taken, last] == pytest.approx([0.01, 0.02, 0.03])
