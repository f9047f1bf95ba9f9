"""What jobs ask the process that gave them."""

import os

import pytest
from worker_jobs import ask_and_fail, ask_and_sleep, pid_of_who_asked, refuse

import tilewright as tw
from tilewright import workers
from tilewright.workers.process import Job, Limits


def test_a_job_asks_the_process_that_gave_it():
    for pool in (workers.get_pool(0), workers.get_pool(1)):
        [(own, owner)] = pool.run([Job("asking", pid_of_who_asked)])
        assert owner == os.getpid() and (own == owner) == (pool.workers == 0)
        with pytest.raises(tw.InputError, match="the second"):
            pool.run([Job("asking", ask_and_fail)])


def test_a_job_that_asks_is_ended_when_the_time_is_up_or_another_fails():
    pool = workers.get_pool(2)
    assert pool.run([Job("first", divmod, (7, 2))]) == [(3, 1)]
    with pytest.raises(tw.CompileTimeoutError):
        pool.with_limits(Limits(timeout=0.3)).run([Job("asking", ask_and_sleep)])
    with pytest.raises(tw.InputError, match="no"):
        pool.run([Job("asking", ask_and_sleep), Job("refusing", refuse, ("no",))])
    assert pool.run([Job("after", divmod, (7, 2))]) == [(3, 1)]
