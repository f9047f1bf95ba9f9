"""Calls of one module at once: how many, and who waits."""

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from handmade import meet_module, pause_module

import tilewright as tw
from tilewright.runtime.process.deadline import Deadline
from tilewright.runtime.process.limit import Limit


def counter() -> np.ndarray:
    """An input in which a module of pauses counts them."""
    return np.zeros(1, np.int32)


def met(module: tw.Module, threads: int, **options) -> list[int]:
    """For calls of several threads on one array, whether each met as many others as the module waits for."""
    shared = np.zeros(1, np.int32)
    with ThreadPoolExecutor(threads) as pool:
        calls = [pool.submit(module.run, {"x": shared}, **options) for _ in range(threads)]
        return [int(call.result()[0][0]) for call in calls]


@pytest.mark.parametrize("options", [{}, {"timeout": 100}])
def test_calls_run_at_the_same_time_without_the_interpreter(options):
    assert met(meet_module(3), 3, **options) == [1, 1, 1]


def test_packed_functions_run_at_the_same_time():
    main, shared, y = meet_module(2)["main"], np.zeros(1, np.int32), np.zeros((2, 1), np.int32)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda row: main(shared, row), y))
    assert y.tolist() == [[1], [1]]


def test_as_many_calls_as_the_limit_run_at_the_same_time():
    assert met(meet_module(2, max_concurrency=2), 2) == [1, 1]


def test_calls_beyond_the_limit_wait():
    assert sorted(met(meet_module(2, max_concurrency=1, limit=1 << 20), 2)) == [0, 1]


def test_waiting_counts_for_the_timeout():
    module, shared = meet_module(2, max_concurrency=1), np.zeros(1, np.int32)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(module, shared)
        while shared == 0 and not first.done():  # it is not inside yet
            time.sleep(0.001)
        with pytest.raises(tw.TimeoutError, match=r"longer than 0\.05 s"):
            module.run({"x": counter()}, timeout=0.05)
        shared[0] = 2  # it has met another one
        assert first.result() == [1]


def test_a_call_that_fails_lets_the_next_one_in():
    module = pause_module(1000, max_concurrency=1)
    for _ in range(2):
        with pytest.raises(tw.TimeoutError):
            module.run({"x": counter()}, timeout=0.02)


def test_a_handler_may_call_the_module_that_it_interrupts():
    module, came = pause_module(20, max_concurrency=1), []
    before = signal.signal(signal.SIGUSR1, lambda *_: came.append(module(counter())))
    try:
        timer = threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGUSR1))
        timer.start()
        assert module(counter()) == [20]
        timer.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert came == [[20]]


def test_a_forked_child_does_not_wait_for_threads_that_it_lacks():
    limit, entered, leave = Limit(1), threading.Event(), threading.Event()

    def stay() -> None:
        with limit.holding_place():
            entered.set()
            leave.wait()

    thread = threading.Thread(target=stay)
    thread.start()
    entered.wait()
    child = os.fork()
    if child == 0:
        with limit.holding_place(Deadline(300)):
            os._exit(0)
    status = os.waitpid(child, 0)[1]
    leave.set()
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 0


@pytest.mark.parametrize("most", [0, -1, 1.5, True])
def test_refuses_a_limit_that_is_no_number_of_calls(most):
    with pytest.raises(tw.InputError, match="max_concurrency must be at least 1"):
        Limit(most)
