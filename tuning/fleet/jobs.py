"""A worker's side of a job: bytes come, the machine's own measuring process does what they ask for, and bytes go."""

from __future__ import annotations

import gc
import importlib
import os
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ...core.errors import CompileTimeoutError, FleetError, InternalError, TilewrightError, first_line
from ...core.scratch import scratch_folder
from ...core.target import Target
from ...records.trial import target_key
from ...runtime.process.threads import usable_cpus
from ...workers import Pool, get_pool
from ...workers.process import COMPILER, Job, Limits, WorkerKind
from ...workers.worker import Crew
from ..measuring import contest
from ..measuring.bench import Setup
from ..measuring.contest import Contest
from ..measuring.jobs import MEASURER
from .encoding import decode_value, encode_value

# The modules whose functions a worker does for others, and the kind of process that does them.
_KINDS: dict[str, WorkerKind] = {
    "tuning.measuring.jobs": MEASURER,
    "driver.machine": COMPILER,
    "tvm.autotvm.jobs": WorkerKind("tvm.autotvm.jobs"),
}
_LARGE_BYTES = 1 << 20
_PACKAGE = __name__.partition(".")[0]


@dataclass(frozen=True)
class WorkerFacts:
    """What a worker is: its key, the ``target_key`` of what it runs, how many threads, and its version.

    ``process`` is host:pid:start, as trials have it.
    """

    key: str
    target: str = ""
    threads: int = 0
    version: str = ""
    process: str = ""

    @staticmethod
    def read(made: Mapping[str, Any]) -> WorkerFacts | None:
        """What a worker says of itself, perhaps one of another version; None where it says nothing."""
        if not isinstance(made, Mapping) or not isinstance(made.get("key"), str):
            return None
        known = {f.name: made[f.name] for f in fields(WorkerFacts) if type(made.get(f.name)).__name__ == f.type}
        return WorkerFacts(**known)

    def explain_refusal(self, target: str, threads: int) -> str:
        """Why this worker cannot measure for a target and a number of threads, "" where it can."""
        if self.version != own_version():
            return f"it has Tilewright {self.version}, and this is {own_version()}: install the same on both"
        if self.target != target:
            return f"it runs code for {self.target}, and this is for {target}"
        if self.threads < threads:
            return f"it has {self.threads} thread(s), and this is for {threads}"
        return ""


@dataclass(frozen=True)
class Request:
    """A call to be made by a worker: a function of the package, its arguments, and what it may take."""

    function: str
    what: str
    arguments: tuple[Any, ...]
    limits: Limits


@dataclass(frozen=True)
class Answer:
    """What came of a request: its ``value``, or an error in words. ``late`` says that its time was up."""

    value: Any = None
    error: str = ""
    late: bool = False


@dataclass(frozen=True)
class ContestRequest:
    """Two programs to be run in turn for some ``seconds``: the files of each by their names, and where its code is.

    ``files`` have what both programs have once: names in a folder, and the contents.
    """

    programs: tuple[str, str]
    files: Mapping[str, bytes]
    threads: int
    seconds: float
    limits: Limits


def own_version() -> str:
    """This Tilewright's version."""
    return version("tilewright")


def default_key(target: str, threads: int) -> str:
    """The key of workers for a ``target_key`` and a number of threads, where nobody has named one."""
    return f"{target}-{threads}t"


def describe_worker(key: str | None, target: Target, threads: int) -> WorkerFacts:
    """What a worker of this process is."""
    name = target_key(target)
    process = f"{socket.gethostname()}:{os.getpid()}:{int(time.time())}"  # as trials name who has measured
    return WorkerFacts(key or default_key(name, threads), name, threads, own_version(), process)


def function_name(function: Callable[..., Any]) -> str:
    """The name by which workers find a function. Raises FleetError for one that they do not do for others."""
    module = function.__module__.partition(".")[2]
    if module not in _KINDS:
        raise FleetError(f"workers of a fleet do not run {module}.{function.__qualname__}")
    return f"{module}.{function.__qualname__}"


def perform_job(message: bytes) -> bytes:
    """Do what a message asks for; whatever goes wrong is an answer in words."""
    try:
        request = decode_value(message)
        value = _run_contest(request) if isinstance(request, ContestRequest) else _make_call(request)
        return encode_value(Answer(value))
    except CompileTimeoutError as error:
        return encode_value(Answer(error=first_line(error), late=True))
    except TilewrightError as error:
        return encode_value(Answer(error=first_line(error)))
    except Exception as error:
        return encode_value(Answer(error=f"{type(error).__name__}: {first_line(error)}"))
    finally:
        if len(message) > _LARGE_BYTES:
            request = None
            gc.collect()  # programs with all their weights


def read_answer(message: bytes) -> Answer:
    """What a worker answered. Raises CompileTimeoutError or InternalError where that is an error, in its words."""
    answer = decode_value(message)
    if not isinstance(answer, Answer):
        raise FleetError("a worker of the fleet answered something else: run the same Tilewright on all machines")
    if answer.late:
        raise CompileTimeoutError(answer.error)
    if answer.error:
        raise InternalError(answer.error)
    return answer


def measuring_cpus(threads: int) -> tuple[int, ...]:
    """The CPUs of this machine on which so many threads are measured: the last one for one."""
    cpus = sorted(os.sched_getaffinity(0))
    return tuple(cpus[-1:] if threads == 1 else cpus)


def count_threads(threads: int | None) -> int:
    """How many threads a worker has. Raises FleetError for more than there are CPUs."""
    usable = usable_cpus()
    if threads is not None and not 1 <= threads <= usable:
        raise FleetError(f"threads is {threads}: give a number from 1 to {usable}, the CPUs that this process may use")
    return threads or usable


def _make_call(request: Any) -> Any:
    """Call a function in the process of its kind, which is ended where the function does not end."""
    if not isinstance(request, Request):
        raise FleetError(f"a {type(request).__name__} is no request that a worker of a fleet knows")
    module, _, name = request.function.rpartition(".")
    if module not in _KINDS or name.startswith("_"):
        raise FleetError(f"workers of a fleet do not run {request.function}")
    function = getattr(importlib.import_module(f"{_PACKAGE}.{module}"), name)
    arguments = tuple(_settle(each) for each in request.arguments)
    pool = get_pool(1, _KINDS[module])
    try:
        [value] = pool.with_limits(request.limits).run([Job(request.what, function, arguments)])
    except CompileTimeoutError:
        pool.shutdown()
        raise
    return value


def _settle(argument: Any) -> Any:
    """An argument as it is for this machine, whose CPUs are others than those of who asks."""
    return replace(argument, cpus=measuring_cpus(argument.threads)) if isinstance(argument, Setup) else argument


def _run_contest(request: ContestRequest) -> Contest:
    """Two programs in a fresh process, from files that are gone after it."""
    with scratch_folder() as name:
        folder = Path(name)
        for inner, content in request.files.items():
            path = folder / inner
            if ".." in path.parts or folder not in path.parents:
                raise FleetError(f"'{inner}' is no name of a program's file")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        paths = [str(folder / each) for each in request.programs]
        pool = Pool(1, request.limits, Crew(1, MEASURER))
        try:
            arguments = (*paths, request.threads, measuring_cpus(request.threads), request.seconds)
            [found] = pool.run([Job("the contest of the programs", contest.run_contest, arguments)])
        finally:
            pool.shutdown()
        return found
