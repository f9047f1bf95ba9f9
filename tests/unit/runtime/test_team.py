"""When kernels run in a team of threads: while it gains more than waiting for its threads costs."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest
from python_kernels import _SIGNATURE, caller

from tilewright.runtime.process.threads import Team, load_openmp

EXTENT = 64
AWAKE = 1 << 62  # an end of the last kernel after which no thread has had the time to fall asleep


class Calls:
    """A kernel of 64 steps that notes which it was called for, and by whom; ``work`` takes these numbers, too."""

    def __init__(self, work: Callable[[int, int], None] = lambda low, high: None) -> None:
        self.seen: list[tuple[int, int, int]] = []

        def kernel(words: object, low: int, high: int, scratch: int) -> None:
            self.seen.append((low, high, threading.get_ident()))
            work(low, high)

        self._made = _SIGNATURE(kernel)
        self._call = np.array([ctypes.cast(self._made, ctypes.c_void_p).value, 0, EXTENT, 8, 64], np.int64)

    def make(self, team: Team) -> list[tuple[int, int, int]]:
        """Call it once; what it noted is sorted."""
        self.seen.clear()
        team.run_calls(1, self._call.ctypes.data, 0, 0, 1, 0, 4096)
        return sorted(self.seen)


@pytest.fixture
def team() -> Team:
    load_openmp()
    return Team(caller().get_function("run_calls")().value, 2)


def covered(calls: list[tuple[int, int, int]]) -> bool:
    return [low for low, _, _ in calls] == [0, *(high for _, high, _ in calls[:-1])] and calls[-1][1] == EXTENT


def test_a_team_with_credit_shares_the_steps(team: Team):
    calls = Calls().make(team)
    assert covered(calls) and len(calls) == 16


def test_a_team_that_owes_leaves_all_steps_to_the_caller(team: Team):
    team.account.credit = -1_000_000
    assert Calls().make(team) == [(0, EXTENT, threading.get_ident())]


def test_what_one_thread_computes_repays_as_much_as_the_caution_lets_it(team: Team):
    team.account.credit = -40_000_000
    Calls(lambda low, high: time.sleep(0.016)).make(team)
    assert team.account.credit >= -24_000_000, "at first all of it counts"
    team.account.credit, team.account.caution = -10_000_000, 16
    Calls(lambda low, high: time.sleep(0.032)).make(team)
    assert team.account.credit >= -8_000_000
    Calls(lambda low, high: time.sleep(0.5)).make(team)
    assert team.account.credit > 0
    assert len(Calls().make(team)) == 16, "it has tried again"


def hold(seconds: float) -> Callable[[int, int], None]:
    """Work in which the other thread holds its first piece, as one does that sleeps or has lost its CPU."""
    caller_thread, has_come = threading.get_ident(), threading.Event()

    def work(low: int, high: int) -> None:
        if threading.get_ident() == caller_thread:
            assert has_come.wait(timeout=200)
        elif not has_come.is_set():
            has_come.set()
            time.sleep(seconds)

    return work


def test_waiting_for_a_thread_without_a_cpu_costs_credit(team: Team):
    team.account.end_time = AWAKE
    Calls(hold(0.5)).make(team)
    assert team.account.credit == -16_000_000, "no more is owed, however long the wait was"


def test_each_loss_raises_the_caution_until_the_credit_is_full(team: Team):
    found = []
    for _ in range(4):
        team.account.credit, team.account.end_time = 0, AWAKE
        Calls(hold(0.05)).make(team)
        found.append(team.account.caution)
    assert found == [1, 4, 16, 16]
    team.account.credit, team.account.end_time = 15_999_999, AWAKE
    Calls(lambda low, high: time.sleep(0.01)).make(team)
    assert team.account.credit == 16_000_000 and team.account.caution == 0


def test_waking_the_threads_is_paid_when_they_have_slept_again(team: Team):
    Calls(hold(0.3)).make(team)
    assert team.account.credit == 0 and team.account.waking_cost <= -10_000_000
    time.sleep(0.01)
    Calls(hold(0.3)).make(team)
    assert team.account.credit <= -10_000_000


def test_waking_the_threads_is_paid_at_once_by_a_team_that_loses(team: Team):
    team.account.waking_cost, team.account.end_time = -3_000_000, AWAKE
    Calls(hold(0.3)).make(team)
    assert team.account.credit < 0 and team.account.waking_cost == 0


def test_threads_that_share_the_work_earn_credit(team: Team):
    Calls(lambda low, high: time.sleep(0.01)).make(team)
    assert 0 < team.account.credit <= 16_000_000


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="takes two CPUs")
@pytest.mark.parametrize("free", [True, False], ids=["free", "bound"])
def test_a_thread_leaves_its_callers_cpu_where_it_may(team: Team, free: bool):
    caller_thread, allowed = threading.get_ident(), os.sched_getaffinity(0)
    cpu, current_cpu = min(allowed), ctypes.CDLL(None).sched_getcpu
    wanted = allowed if free else {cpu}
    seen: list[tuple[int, set[int]]] = []

    def work(low: int, high: int) -> None:
        if threading.get_ident() == caller_thread:
            time.sleep(0.001)  # leaves steps for the other
            return
        seen.append((current_cpu(), os.sched_getaffinity(0)))
        os.sched_setaffinity(0, {cpu})  # onto the caller's
        os.sched_setaffinity(0, wanted)

    calls = Calls(work)

    def next_seen() -> tuple[int, set[int]]:
        del seen[:]
        while not seen:
            team.account.credit = 1_000_000
            calls.make(team)
        return seen[0]

    calls.make(team)  # threads begin with the CPUs of who makes them: before the caller is bound to one
    os.sched_setaffinity(0, {cpu})
    try:
        next_seen()
        found = [next_seen() for _ in range(20)]
        assert all(may_use == wanted for _, may_use in found)
        elsewhere = sum(where != cpu for where, _ in found)
        assert elsewhere > 10 if free else not elsewhere, "the scheduler brings it back for another process at times"
    finally:
        os.sched_setaffinity(0, allowed)
        wanted = allowed
        next_seen()


def test_a_team_of_one_keeps_no_account():
    load_openmp()
    alone = Team(caller().get_function("run_calls")().value, 1)
    assert Calls().make(alone) == [(0, EXTENT, threading.get_ident())] and alone.account.credit == 0
