"""A pool of worker processes that do all work on IR, so that a crash of MLIR or LLVM there is an exception here.

The processes start once and stay warm. What they are given and give back is small: paths, bytecode, objects.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import os
import re
import resource
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import CompileError, TilewrightError

IDLE_SECONDS = 300
JOB_CPU_SECONDS = 900
# A bad rewrite pattern can eat all memory: a worker may have this part of the machine's.
MEMORY_PART = 0.75
GROWTH_BYTES = 16 << 20
_LAST_WORDS = re.compile(r"LLVM ERROR|Assertion|terminate called|\w*Error: ")
_SIGNAL = re.compile(r"\b(SIG[A-Z]+)\b")


@dataclass(frozen=True)
class Job:
    """A call to be made in a worker. ``what`` names it in errors: ``kernel 'k3' (nodes conv1, relu1)``.

    ``function`` and ``arguments`` are pickled: a function of a module of this package, and plain data.
    """

    what: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()


def run_here(job: Job) -> Any:
    """Do the job in this process; whatever goes wrong is a TilewrightError that says where."""
    try:
        return job.function(*job.arguments)
    except CompileError as error:
        raise type(error)(f"{error}, in {job.what}") from error
    except TilewrightError:
        raise
    except MemoryError as error:
        raise CompileError(f"out of memory in {job.what}") from error
    except Exception as error:
        reason = (str(error).strip().splitlines() or [""])[0]
        raise CompileError(f"internal error in {job.what}: {type(error).__name__}: {reason}") from error


class Pool:
    """``workers`` processes; 0 does the jobs in this process instead, for debugging."""

    def __init__(self, workers: int, cpu_seconds: int = JOB_CPU_SECONDS) -> None:
        self.workers = workers
        self._cpu_seconds = cpu_seconds  # the most that one job may take
        self._lock = threading.Lock()
        self._executor: Any = None
        self._log = Path(os.devnull)

    def run(self, jobs: Sequence[Job]) -> list[Any]:
        """Do all jobs and return their results in order. The first error ends it; a crash is a CompileError."""
        if self.workers == 0:
            return [run_here(job) for job in jobs]
        results: dict[int, Any] = {}
        if self._run_together(jobs, results):
            # A worker died and took the others' jobs along. One at a time, the culprit shows itself.
            for i, job in enumerate(jobs):
                if i not in results:
                    results[i] = self._run_alone(job)
        return [results[i] for i in range(len(jobs))]

    def shutdown(self) -> None:
        """End the processes; the next job starts new ones."""
        with self._lock:
            executor, self._executor = self._executor, None
            if executor is not None:
                executor.shutdown(kill_workers=True)
                self._log.unlink(missing_ok=True)

    def _run_together(self, jobs: Sequence[Job], results: dict[int, Any]) -> bool:
        """Fill ``results``; True if a worker died before all were there."""
        executor = self._start()
        futures: list[Future] = []
        try:
            futures += [executor.submit(_work, job, self._cpu_seconds) for job in jobs]
            wait(futures, return_when=FIRST_EXCEPTION)
            for future in futures:
                if future.done() and not future.cancelled() and (error := future.exception()) is not None:
                    raise error
        except _broken():
            results.update((i, f.result()) for i, f in enumerate(futures) if f.done() and f.exception() is None)
            self._discard(executor)
            return True
        except BaseException:
            for future in futures:
                future.cancel()
            raise
        results.update((i, future.result()) for i, future in enumerate(futures))
        return False

    def _run_alone(self, job: Job) -> Any:
        executor = self._start()
        said = self._log.stat().st_size
        try:
            return executor.submit(_work, job, self._cpu_seconds).result()
        except _broken() as error:
            words = _last_words(self._log, said)
            self._discard(executor)
            signal = _SIGNAL.search(str(error))
            how = signal.group(1) if signal else "the worker died"
            if how == "SIGXCPU":
                raise CompileError(f"{job.what} took more than {self._cpu_seconds} s to compile") from error
            raise CompileError(f"the compiler crashed ({how}) in {job.what}{': ' if words else ''}{words}") from error

    def _start(self) -> Any:
        with self._lock:
            if self._executor is None:
                from loky.backend import get_context
                from loky.process_executor import ProcessPoolExecutor

                descriptor, name = tempfile.mkstemp(prefix="tilewright-workers-")
                os.close(descriptor)
                self._log = Path(name)
                self._executor = ProcessPoolExecutor(
                    self.workers,
                    timeout=IDLE_SECONDS,
                    context=get_context("loky"),
                    initializer=_prepare,
                    initargs=(name,),
                    env={"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
                )
            return self._executor

    def _discard(self, executor: Any) -> None:
        """Forget a broken executor, unless another thread did and has a new one."""
        if self._executor is executor:
            self.shutdown()


_kept = 0  # of a worker: its own memory after it last gave some back
_pools: dict[int, Pool] = {}
_pools_lock = threading.Lock()


def pool(workers: int) -> Pool:
    """The process-wide pool with that number of workers."""
    with _pools_lock:
        return _pools.setdefault(workers, Pool(workers))


# The workers of a process that forks are its own: the child must neither use nor end them.
os.register_at_fork(after_in_child=_pools.clear)


@atexit.register
def shutdown() -> None:
    """End all worker processes."""
    for each in list(_pools.values()):
        each.shutdown()


def _broken() -> type[BaseException]:
    from loky.process_executor import BrokenProcessPool

    return BrokenProcessPool


def _prepare(log: str) -> None:
    """In a new worker: send what LLVM prints before it dies to the log, bound the memory, and import the compiler."""
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    limit = int(MEMORY_PART * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    resource.setrlimit(resource.RLIMIT_DATA, (limit, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    from . import jobs

    jobs.warm_up()
    gc.collect()
    gc.freeze()  # what is there now stays: collections need not look at it
    global _kept
    _kept = _resident()


def _work(job: Job, cpu_seconds: int) -> Any:
    used = resource.getrusage(resource.RUSAGE_SELF)
    limit = int(used.ru_utime + used.ru_stime) + cpu_seconds
    with contextlib.suppress(ValueError):  # a lower hard limit than ours counts
        resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.getrlimit(resource.RLIMIT_CPU)[1]))
    try:
        return run_here(job)
    finally:
        _give_back()


def _give_back() -> None:
    """Return memory to the system where a worker has grown since it last did: MLIR's contexts wait in cycles for
    Python's collector, and the C library keeps what they free. A network's kernels would leave 40 MB."""
    global _kept
    if _resident() > _kept + GROWTH_BYTES:
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        _kept = _resident()


def _resident() -> int:
    """Bytes of this process's own that are in memory: without the pages of files."""
    with open("/proc/self/statm") as file:
        _, resident, shared, *_ = map(int, file.read().split())
    return (resident - shared) * resource.getpagesize()


def _last_words(log: Path, begin: int) -> str:
    """The line in which LLVM says why it gave up, if there is one."""
    with log.open(errors="replace") as file:
        file.seek(begin)
        lines = (" ".join(line.split()) for line in file)
        return next((line for line in lines if _LAST_WORDS.search(line)), "")
