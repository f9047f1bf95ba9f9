"""Worker processes: results in order, errors as they were raised, crashes as errors that name the job."""

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import onnx.parser
import pytest
from compile_clock import TIMEOUT, leap_to_the_end
from handmade import affine_plan, assembled
from worker_jobs import (
    assert_and_abort,
    describe_beside,
    eat_memory,
    fail_in_a_pass,
    leave_in_a_cycle,
    own_bytes,
    pass_after_pass,
    run_in_a_pool,
    spin,
)

import tilewright as tw
from tilewright import workers
from tilewright.driver import api
from tilewright.tools import compile as compile_tool
from tilewright.workers import Pool, rounds, worker
from tilewright.workers import process as worker_process
from tilewright.workers.process import Job, Limits
from tilewright.workers.worker import Crew

OUT_OF_TIME = "the compilation took more than its timeout of"


@pytest.fixture(scope="module")
def pool() -> Pool:
    return workers.get_pool(2)


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


@pytest.mark.parametrize(("count", "way", "copied"), [(0, "", False), (1, "", False), (2, "", True), (2, "bug", False),
                                                      (2, "segfault", False), (2, "sleep", False)])  # fmt: skip
def test_a_part_of_a_job_is_done_in_a_copy_of_its_worker_or_by_that_where_the_copy_fails(count, way, copied):
    [made] = workers.get_pool(count).run([Job("parts", describe_beside, (way,))])
    assert made == (copied, b"x" * (4 << 20))


def test_jobs_run_elsewhere_unless_there_are_no_workers(pool):
    assert pool.run([Job("pid", os.getpid)]) != [os.getpid()]
    assert workers.get_pool(0).run([Job("pid", os.getpid)]) == [os.getpid()]


@pytest.mark.parametrize("count", [0, 2])
def test_an_unexpected_exception_names_the_job(count):
    with pytest.raises(tw.CompileError, match="internal error in kernel 'k': ZeroDivisionError: ") as info:
        workers.get_pool(count).run([Job("kernel 'k'", divmod, (1, 0)), Job("other", divmod, (1, 1))])
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
    wait_until(lambda: not alive(pid))
    assert pool.run([Job("sum", divmod, (i, 2)) for i in range(4)]) == [divmod(i, 2) for i in range(4)]


def test_a_job_that_takes_too_long_is_ended(monkeypatch):
    with pytest.raises(tw.CompileError, match="kernel 'slow' took more than 1 s"):
        Pool(1, Limits(cpu_seconds=1)).run([Job("kernel 'slow'", spin)])


def test_a_second_compilation_finds_the_workers_of_the_first(pool):
    options, own = api.make_options(), []
    for _ in range(2):
        assembled(affine_plan(), options, pool)
        own.append(set(pool.run([Job("its process", os.getpid) for _ in range(8)])))
    assert own[0] & own[1]


def test_refuses_unknown_targets_and_sources():
    with pytest.raises(tw.TargetError, match="unknown target 'vax'"):
        tw.compile("model.onnx", target="vax")
    with pytest.raises(tw.CompileError, match="workers is -1"):
        tw.compile("model.onnx", workers=-1)
    with pytest.raises(tw.ModelError, match="cannot compile a int"):
        tw.compile(3)  # type: ignore[arg-type]


def test_a_job_without_an_end_is_ended_when_the_time_is_up_which_says_where_it_was(monkeypatch):
    pool = workers.get_pool(1)
    [before] = pool.run([Job("pid", os.getpid)])
    leap_to_the_end(monkeypatch)
    with pytest.raises(tw.CompileTimeoutError) as error:
        pool.with_limits(Limits(timeout=TIMEOUT)).run([Job("kernel 'k'", fail_in_a_pass, ("sleep",))])
    assert str(error.value) == f"{OUT_OF_TIME} {TIMEOUT} s: it was at pass 'failing' of kernel 'k'"
    assert not alive(before)
    assert pool.run([Job("after", divmod, (7, 2))]) == [(3, 1)]


def test_the_time_counts_between_jobs_and_in_this_process_too():
    here = workers.get_pool(0).with_limits(Limits(timeout=0.01))
    time.sleep(0.02)
    with pytest.raises(tw.CompileTimeoutError) as error:
        here.run([Job("kernel 'k'", divmod, (7, 2))])
    assert str(error.value) == f"{OUT_OF_TIME} 0.01 s: it was at kernel 'k'"
    soon = workers.get_pool(0).with_limits(Limits(timeout=0.3))
    with pytest.raises(tw.CompileTimeoutError) as error:
        soon.run([Job("kernel 'k'", pass_after_pass, (0.05,))])
    assert str(error.value) == f"{OUT_OF_TIME} 0.3 s: it was at pass 'failing' of kernel 'k'"


def test_a_compilation_out_of_time_is_a_compile_error_and_pythons_timeout():
    with pytest.raises(TimeoutError) as error:
        workers.get_pool(0).with_limits(Limits(timeout=1e-9)).run([Job("a", divmod, (7, 2))])
    kept = pickle.loads(pickle.dumps(error.value))
    for each in (error.value, kept):
        assert isinstance(each, tw.CompileTimeoutError) and isinstance(each, tw.TimeoutError)
        assert isinstance(each, tw.CompileError) and str(each) == f"{OUT_OF_TIME} 1e-09 s: it was at a"


def test_a_compilation_out_of_time_writes_nothing(tmp_path):
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 18]> g (float[8] x) => (float[8] y) {y = Relu(x)}'
    )
    onnx.save(model, tmp_path / "m.onnx")
    line = [str(tmp_path / "m.onnx"), "--no-cache", "--timeout"]
    assert compile_tool.main([*line, "0.001"]) == 2
    assert os.listdir(tmp_path) == ["m.onnx"]
    assert compile_tool.main([*line, "60", "--memory-limit", "4G"]) == 0
    assert sorted(os.listdir(tmp_path)) == ["m.onnx", "m.so"]


def test_a_job_that_needs_more_memory_than_it_may_have_is_refused_it_and_its_worker_stays():
    alone = Pool(1)
    try:
        [before] = alone.run([Job("pid", os.getpid)])
        little = alone.with_limits(Limits(memory=1 << 30, bundles=False))
        with pytest.raises(tw.CompileError, match="out of memory in kernel 'k'"):
            little.run([Job("kernel 'k'", eat_memory)])
        assert alone.run([Job("pid", os.getpid)]) == [before]
    finally:
        alone.shutdown()


@pytest.mark.parametrize(
    ("given", "said"), [({"timeout": 0}, "timeout is 0"), ({"memory_limit": -1}, "memory_limit is -1")]
)
def test_refuses_limits_that_are_none(given, said):
    with pytest.raises(tw.CompileError, match=said):
        tw.compile("model.onnx", **given)


@pytest.mark.parametrize("given", [{"workers": 0}, {"executor": "engine"}])
def test_refuses_a_memory_limit_that_would_not_hold(given):
    with pytest.raises(tw.CompileError, match="memory_limit holds for worker processes"):
        tw.compile("model.onnx", memory_limit=1 << 30, **given)


def test_threads_share_workers(pool):
    """Each gets its own results, and no more workers are started than there may be."""

    def one(thread: int) -> tuple[list[object], set[int]]:
        results = pool.run([Job("work", divmod, (100 * thread + i, 7)) for i in range(30)])
        return results, set(pool.run([Job("pid", os.getpid) for _ in range(4)]))

    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(one, range(4)))
    assert [results for results, _ in made] == [[divmod(100 * t + i, 7) for i in range(30)] for t in range(4)]
    assert len(set.union(*(pids for _, pids in made))) <= 2


def test_a_second_worker_gets_ready_for_what_a_long_job_leads_to(monkeypatch):
    asked: list[int] = []
    crew = Crew(1)
    Pool(1, crew=crew).run([Job("first", os.getpid)])  # starts the one worker that there may be
    monkeypatch.setattr(rounds, "_LONG_SECONDS", 0.05)
    monkeypatch.setattr(crew, "grow", asked.append)
    for leads_to_more, expected in ((False, []), (True, [1])):
        Pool(1, crew=crew).run([Job("long", time.sleep, (0.2,), leads_to_more=leads_to_more)])
        assert asked == expected
    crew.shutdown()


def test_no_worker_is_started_for_a_job_that_waits(monkeypatch):
    monkeypatch.setattr(rounds, "_PATIENCE", 0)
    for waits, expected in ((True, 1), (False, 2)):
        crew = Crew(2)
        jobs = [Job("long", time.sleep, (0.1,)), Job("other", os.getpid, waits=waits)]
        assert len(set(Pool(2, crew=crew).run(jobs))) == 2
        assert len(crew._all) == expected
        crew.shutdown()


def test_a_crash_in_one_thread_is_none_of_another(pool):
    with ThreadPoolExecutor(2) as threads:
        bad = threads.submit(pool.with_limits(Limits(bundles=False)).run, [Job("kernel 'bad'", os.abort)])
        good = [threads.submit(pool.run, [Job("good", divmod, (i, 2))]) for i in range(20)]
        assert [each.result() for each in good] == [[divmod(i, 2)] for i in range(20)]
        with pytest.raises(tw.CompileError, match=r"SIGABRT\) in kernel 'bad'"):
            bad.result()


def test_a_process_that_forks_has_workers_of_its_own_after_it(pool):
    [before] = workers.get_pool(1).run([Job("pid", os.getpid)])
    read, write = os.pipe()
    if not (child := os.fork()):
        try:
            [own] = workers.get_pool(1).run([Job("pid", os.getpid)])
            workers.shutdown()
            os.write(write, str(own).encode())
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with open(read) as file:
        own = int(file.read())
    assert own != before and not alive(own)
    assert workers.get_pool(1).run([Job("pid", os.getpid)]) == [before], "the child has ended its parent's worker"


def test_a_worker_may_have_workers(pool):
    [[inner, outer]] = pool.run([Job("outer", run_in_a_pool)])
    assert len({inner, outer, os.getpid()}) == 3


# The signal comes when the job is under way, and this process is back at waiting for it.
INTERRUPTED = """
import os, signal, threading
import worker_jobs
from tilewright import workers
from tilewright.workers import Job
pool = workers.get_pool(1)
[pid] = pool.run([Job("pid", os.getpid)])
worker_jobs.waiting.append(threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start)
try:
    pool.run([Job("endless", worker_jobs.sleep)])
except KeyboardInterrupt:
    print("interrupted", os.path.exists(f"/proc/{pid}"), *pool.run([Job("next", divmod, (7, 2))]))
"""


def test_an_interrupt_ends_the_work_at_once_and_the_next_can_begin():
    line = [sys.executable, "-c", INTERRUPTED]
    done = subprocess.run(line, capture_output=True, text=True, env=with_path(), timeout=300, check=True)
    assert done.stdout == "interrupted False (3, 1)\n"


ORPHANING = """
import os
import worker_jobs
from tilewright import workers
from tilewright.workers import Job
pool = workers.get_pool(1)
[pid] = pool.run([Job("pid", os.getpid)])
worker_jobs.waiting.append(lambda: print(pid, flush=True))
pool.run([Job("endless", worker_jobs.spin)])
"""


def test_a_worker_dies_with_the_process_that_it_works_for():
    with subprocess.Popen([sys.executable, "-c", ORPHANING], stdout=subprocess.PIPE, env=with_path()) as process:
        assert process.stdout is not None
        started = int(process.stdout.readline())
        assert alive(started)
        process.kill()
    wait_until(lambda: not alive(started))


def test_workers_that_cannot_start_are_an_error(monkeypatch):
    monkeypatch.setattr(worker, "_PROGRAM", "raise ImportError('no module named mlir')")
    with pytest.raises(tw.CompileError, match=r"die as they start \(exit code 1\): ImportError: no module named mlir"):
        Pool(1).run([Job("any", os.getpid)])


def wait_until(reached: Callable[[], bool]) -> None:
    """Wait for a state, for a minute at most."""
    end = time.monotonic() + 60
    while not reached():
        assert time.monotonic() < end
        time.sleep(0.01)


def alive(pid: int) -> bool:
    """Whether there is such a process that is not merely waiting to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def with_path() -> dict[str, str]:
    """The environment of a process that can import what this one can."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
