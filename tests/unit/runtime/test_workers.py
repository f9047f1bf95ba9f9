"""Worker processes: results in order, errors as they were raised, crashes as errors that name the job."""

import os
import signal
import time

import pytest
from handmade import affine_plan
from worker_jobs import assert_and_abort, leave_in_a_cycle, own_bytes, spin

import tilewright as tw
from tilewright import driver, product, worker_process, workers
from tilewright.options import CompileReport
from tilewright.workers import Job, Limits, Pool


@pytest.fixture(scope="module")
def pool() -> Pool:
    return workers.pool(2)


def test_results_come_in_the_order_of_the_jobs(pool):
    jobs = [Job(f"job {i}", divmod, (i, 7)) for i in range(20)]
    assert pool.run(jobs) == [divmod(i, 7) for i in range(20)]
    assert pool.run([]) == []


def test_a_worker_gives_back_what_jobs_leave_behind():
    alone = Pool(1)
    try:
        [before] = alone.run([Job("before", own_bytes)])
        alone.run([Job(f"job {i}", leave_in_a_cycle, (64 << 20,)) for i in range(4)])
        [after] = alone.run([Job("after", own_bytes)])
    finally:
        alone.shutdown()
    assert after < before + worker_process.GROWTH_BYTES + (8 << 20)


def test_jobs_run_elsewhere_unless_there_are_no_workers(pool):
    assert pool.run([Job("pid", os.getpid)]) != [os.getpid()]
    assert workers.pool(0).run([Job("pid", os.getpid)]) == [os.getpid()]


@pytest.mark.parametrize("count", [0, 2])
def test_an_unexpected_exception_names_the_job(count):
    with pytest.raises(tw.CompileError, match="internal error in kernel 'k': ZeroDivisionError: ") as info:
        workers.pool(count).run([Job("kernel 'k'", divmod, (1, 0)), Job("other", divmod, (1, 1))])
    assert "\n" not in str(info.value)


def test_a_crash_names_the_job_and_the_host_lives(pool):
    jobs = [Job("good", divmod, (7, 2)), Job("kernel 'bad' (nodes conv1)", os.abort), Job("good", divmod, (8, 2))]
    with pytest.raises(tw.CompileError, match=r"the compiler crashed \(SIGABRT\) in kernel 'bad' \(nodes conv1\)"):
        pool.run(jobs)
    assert pool.run(jobs[:1]) == [(3, 1)]


def test_a_crash_says_what_llvm_said(pool):
    with pytest.raises(tw.CompileError, match="in kernel 'k': Assertion `false' failed"):
        pool.run([Job("kernel 'k'", assert_and_abort)])


def test_a_killed_worker_costs_no_result_of_the_others(pool):
    """A worker killed from outside is not the fault of any job: all of them are done again."""
    [pid] = pool.run([Job("pid", os.getpid)])
    os.kill(pid, signal.SIGKILL)
    time.sleep(0.2)
    assert pool.run([Job("sum", divmod, (i, 2)) for i in range(4)]) == [divmod(i, 2) for i in range(4)]


def test_a_job_that_takes_too_long_is_ended(monkeypatch):
    with pytest.raises(tw.CompileError, match="kernel 'slow' took more than 1 s"):
        Pool(1, Limits(cpu_seconds=1)).run([Job("kernel 'slow'", spin)])


def test_a_second_compilation_finds_the_workers_of_the_first(pool):
    options, own = driver.make_options(), []
    for _ in range(2):
        product.make(affine_plan(), options, pool, CompileReport())
        own.append(set(pool.run([Job("its process", os.getpid) for _ in range(8)])))
    assert own[0] & own[1]


def test_refuses_unknown_targets_and_sources():
    with pytest.raises(tw.TargetError, match="unknown target 'vax'"):
        tw.compile("model.onnx", target="vax")
    with pytest.raises(tw.CompileError, match="workers is -1"):
        tw.compile("model.onnx", workers=-1)
    with pytest.raises(tw.ModelError, match="cannot compile a int"):
        tw.compile(3)  # type: ignore[arg-type]
