"""The inside of a compile worker: a process that does one job after the other and bounds what each may take.

Its notes, in memory that it shares with who started it, say at any moment which step of the job is under way.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import fcntl
import gc
import importlib
import json
import mmap
import os
import pickle
import resource
import select
import signal
import struct
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from ..core.beside import beginning_by
from ..core.breadcrumbs import Snapshot, Trail, reporting_to
from ..core.errors import CompileError, CompileTimeoutError, InternalError, TilewrightError
from ..core.questions import asking_through
from . import clock
from .fork import begin_in_copy
from .messages import Reply, ask_owner

# A bad rewrite pattern can eat all memory: a worker may have this part of the machine's.
MEMORY_PART = 0.75
GROWTH_BYTES = 16 << 20
NOTE_BYTES = 4096
# Objects after which the collector looks for cycles. By default these are 700, and it takes a twentieth of a compile.
_GARBAGE = 20_000
MODULE, FACTS = "before.mlir", "step.json"  # what a recorded step leaves in a folder
JOB_CPU_SECONDS = 900
_NOTE = struct.Struct("<dII")  # when the step began, its number, the text's length

# Of a step's facts, the path of its module, and the seconds that it may take.
Finder = Callable[[Mapping[str, Any], str, float], Sequence[str]]


@dataclass(frozen=True)
class WorkerKind:
    """A kind of worker: ``warm_up()`` of ``module`` in this package imports what its jobs need.

    A worker exits after ``idle_seconds`` without a job.
    """

    module: str
    idle_seconds: int = 300


COMPILER = WorkerKind("driver.jobs")
CONVERTER = WorkerKind("frontends.torch.conversion", idle_seconds=90)  # imports another MLIR than ours


@dataclass(frozen=True)
class Job:
    """A call to be made in a worker. ``what`` names it in errors: ``kernel 'k3' (nodes conv1, relu1)``.

    ``function`` and ``arguments`` are pickled: a function of a module of this package, and plain data. ``find`` gives
    the model's nodes at which a step of it fails, where ``what`` does not name them. ``leads_to_more`` says that its
    result is work for several workers, ``waits`` that it waits for those that others need: none is started for it.
    """

    what: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    find: Finder | None = None
    leads_to_more: bool = False
    waits: bool = False


@dataclass(frozen=True)
class Limits:
    """The user's limits for a compilation: seconds in total, and bytes of memory in each worker. None is no limit.

    ``bundles`` says whether a step at which the compiler fails is saved.
    """

    timeout: float | None = None
    memory: int | None = None
    cpu_seconds: int = JOB_CPU_SECONDS  # of one job
    bundles: bool = True

    @staticmethod
    def from_user(timeout: float | None, memory: int | None) -> Limits:
        """The user's limits. Raises CompileError for an invalid one."""
        if timeout is not None and not timeout > 0:
            raise CompileError(f"timeout is {timeout}: give seconds, more than 0")
        if memory is not None and memory <= 0:
            raise CompileError(f"memory_limit is {memory}: give bytes, more than 0")
        return Limits(timeout, memory)

    def within(self, seconds: float | None, memory: int | None) -> Limits:
        """These limits where the user set them, others that a compilation has to keep to where not."""
        return replace(self, timeout=self.timeout or seconds, memory=self.memory or memory)


@dataclass(frozen=True)
class Task:
    """A job with what it may take.

    ``record`` is a folder to write each step's beginning to, the last one staying; ``until`` the number of the step at
    which that is all that is wanted. ``copies`` says whether a part of it may be done in a copy of the worker.
    """

    job: Job
    limits: Limits
    record: str | None = None
    until: int | None = None
    copies: bool = False


class _Reached(BaseException):
    """The step until which a job was to be recorded."""


def run_here(job: Job, trail: Trail | None = None) -> Any:
    """Do the job in this process; whatever goes wrong is a TilewrightError that says where."""
    trail = trail or Trail()
    try:
        with reporting_to(trail):
            return job.function(*job.arguments)
    except CompileTimeoutError:
        raise
    except CompileError as error:
        told = not isinstance(error, InternalError) or trail.where in str(error)
        raise type(error)(f"{error}, in {job.what if told else describe_step(trail.where, job.what)}") from error
    except TilewrightError:
        raise
    except MemoryError as error:
        raise InternalError(f"out of memory in {describe_step(trail.where, job.what)}") from error
    except (Exception, SystemExit) as error:  # what a job imports may want to end the process
        reason = (str(error).strip().splitlines() or [""])[0]
        where = describe_step(trail.where, job.what)
        raise InternalError(f"internal error in {where}: {type(error).__name__}: {reason}") from error


def describe_step(where: str, what: str) -> str:
    """A step and its job in words: "pass 'bufferize' of kernel 'k3' (nodes conv1)"."""
    return f"{where} of {what}" if where else what


def serve(kind: WorkerKind, channel: int, notes: int, lifeline: int) -> None:
    """Do the tasks that come by ``channel``, until none has come for a while, or nobody is there to send one.

    ``notes`` is the file to note steps in, ``lifeline`` the end of a pipe whose other end goes with its owner. This is
    the whole of a worker's process, whose errors go to the log that it has in place of stderr.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal tells all its processes; the owner will say what to do
    _die_with(lifeline)
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _limit_memory(None)
    _warm_up(kind)
    shared = mmap.mmap(notes, NOTE_BYTES)
    with Connection(channel) as connection:
        connection.send_bytes(repr(time.monotonic()).encode())
        while connection.poll(kind.idle_seconds):
            try:
                message = connection.recv_bytes()
            except (EOFError, OSError):  # the owner has gone
                return
            with asking_through(partial(ask_owner, connection)):
                answer = _answer(message, shared)
            connection.send_bytes(answer)
            _give_back()


class Note(NamedTuple):
    """A step in one line, its number, and when it began (by ``clock.read_seconds``, which processes share)."""

    where: str
    number: int
    began: float


def write_note(notes: mmap.mmap, where: str, number: int) -> None:
    """Note the step that is under way."""
    text = where[:NOTE_BYTES].encode(errors="replace")[: NOTE_BYTES - _NOTE.size]
    notes[_NOTE.size : _NOTE.size + len(text)] = text
    notes[: _NOTE.size] = _NOTE.pack(clock.read_seconds(), number, len(text))


def read_note(notes: mmap.mmap) -> Note:
    """The step that was under way."""
    began, number, length = _NOTE.unpack(notes[: _NOTE.size])
    text = notes[_NOTE.size : _NOTE.size + min(length, NOTE_BYTES)].decode(errors="ignore")
    return Note(" ".join(text.split()), number, began)


def _answer(message: bytes, notes: mmap.mmap) -> bytes:
    """Do a task, both it and its answer as bytes."""
    reply = _reply(message, notes)
    try:
        return pickle.dumps(reply)
    except Exception as error:
        reason = InternalError(f"internal error: the answer cannot be sent: {type(error).__name__}: {error}")
        return pickle.dumps(Reply(error=reason))


def _reply(message: bytes, notes: mmap.mmap) -> Reply:
    trail = Trail(lambda trail: write_note(notes, trail.where, trail.number))
    write_note(notes, "", 0)
    try:
        task: Task = pickle.loads(message)
        faulthandler.disable()  # what was imported may have put its own handlers in the place of these
        faulthandler.enable()
        if task.record:
            trail.begins = _recorder(Path(task.record), task.until)
        beginner = begin_in_copy if task.copies and not task.record else None  # what records steps has to see them all
        with _held_to(task.limits), beginning_by(beginner):
            return Reply(run_here(task.job, trail))
    except _Reached:
        return Reply()
    except TilewrightError as error:
        return Reply(error=error.with_traceback(None), trace=traceback.format_exc(), number=trail.number)
    except Exception as error:
        reason = InternalError(f"internal error: a job cannot be read: {type(error).__name__}: {error}")
        return Reply(error=reason, trace=traceback.format_exc())


def _recorder(folder: Path, until: int | None) -> Callable[[int, Callable[[], Snapshot]], None]:
    def record(number: int, take: Callable[[], Snapshot]) -> None:
        if until is not None and number < until:
            return
        snapshot = take()
        (folder / FACTS).unlink(missing_ok=True)  # while the two files differ, neither is valid
        (folder / MODULE).write_text(snapshot.module)
        (folder / FACTS).write_text(json.dumps({**snapshot.facts, "number": number}))
        if until is not None:
            raise _Reached

    return record


@contextlib.contextmanager
def _held_to(limits: Limits) -> Iterator[None]:
    """Hold the block to what a job may take."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(used.ru_utime + used.ru_stime) + limits.cpu_seconds
    with contextlib.suppress(ValueError):  # a lower hard limit than ours counts
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.getrlimit(resource.RLIMIT_CPU)[1]))
    try:
        _limit_memory(limits.memory)
        yield
    finally:
        _limit_memory(None)


def _limit_memory(wanted: int | None) -> None:
    limit = int(MEMORY_PART * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    bounds = [limit, *(n for n in (wanted, hard) if n is not None and n != resource.RLIM_INFINITY)]
    resource.setrlimit(resource.RLIMIT_DATA, (min(bounds), hard))


def _die_with(lifeline: int) -> None:
    """Have the kernel end this process, whatever it computes, when the other end of the pipe is closed."""
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([lifeline], [], [], 0)[0]:  # it was closed before
        os._exit(0)


def _warm_up(kind: WorkerKind) -> None:
    gc.disable()  # imports leave nothing to be collected, and looking for it would take a fifth of their time
    importlib.import_module(f"..{kind.module}", __package__).warm_up()
    gc.enable()
    gc.freeze()  # what is there now stays: collections need not look at it
    gc.set_threshold(_GARBAGE)
    global _kept_bytes
    _kept_bytes = read_resident_bytes()


_kept_bytes = 0  # of this process, as a worker: its own memory after it last gave some back


def _give_back() -> None:
    """Return memory to the system where a worker has grown since it last did: MLIR's contexts wait in cycles for
    Python's collector, and the C library keeps what they free. A network's kernels would leave 40 MB."""
    global _kept_bytes
    if read_resident_bytes() > _kept_bytes + GROWTH_BYTES:
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        _kept_bytes = read_resident_bytes()


def read_resident_bytes() -> int:
    """Bytes of this process's own that are in memory: without the pages of files."""
    with open("/proc/self/statm") as file:
        _, resident, shared, *_ = map(int, file.read().split())
    return (resident - shared) * resource.getpagesize()
