"""Worker processes seen from who owns them: one of them, and all that a process keeps."""

from __future__ import annotations

import importlib.util
import mmap
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from multiprocessing.connection import Connection

from ..core.errors import NO_MLIR, CompileError, InternalError
from .process import COMPILER, NOTE_BYTES, Note, WorkerKind, read_note

# The first words of a worker: where to import from comes as arguments, before the folder it stands in could matter.
_PROGRAM = """import sys
sys.path[:] = sys.argv[6:]
from tilewright.workers.process import WorkerKind, serve
serve(WorkerKind(sys.argv[1], int(sys.argv[2])), *map(int, sys.argv[3:6]))"""
_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
_LAST_WORDS = re.compile(r"LLVM ERROR|Assertion|terminate called|\w*Error: ")
_SAID_BYTES = 32 << 10
_MOST_FAILURES = 3

_workers: weakref.WeakSet[Worker] = weakref.WeakSet()


class Worker:
    """A process of its own for jobs, which dies with its owner.

    ``connection`` gives the moment when the worker was ready, and an answer for each message that is sent; EOFError
    where the worker is dead.
    """

    def __init__(self, kind: WorkerKind = COMPILER) -> None:
        self.begun = time.monotonic()
        ours, theirs = socket.socketpair()
        lifeline, kept = os.pipe()
        self._lifeline: int | None = kept  # closed when this process ends, however it does
        self.connection = Connection(ours.detach())
        notes = os.memfd_create("tilewright-notes")
        os.ftruncate(notes, NOTE_BYTES)
        self._notes = mmap.mmap(notes, NOTE_BYTES)
        self._log = tempfile.TemporaryFile(mode="a+b")  # noqa: SIM115 - closed when the worker is
        passed = (theirs.fileno(), notes, lifeline)
        path = [folder or os.getcwd() for folder in sys.path]
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, kind.module, str(kind.idle_seconds), *map(str, passed), *path],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                pass_fds=passed,
                env={**os.environ, **_ENVIRONMENT},
            )
        except BaseException:
            os.close(kept)
            raise
        finally:
            theirs.close()
            os.close(notes)
            os.close(lifeline)
        _workers.add(self)

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process.pid

    @property
    def dead(self) -> bool:
        """Return whether it has ended."""
        return self._process.poll() is not None

    def send(self, message: bytes) -> None:
        """Give it work; what it said before is forgotten. OSError where it is dead."""
        os.ftruncate(self._log.fileno(), 0)
        self.connection.send_bytes(message)

    def where(self) -> Note:
        """The step of the job that it is at, or was at when it died."""
        return read_note(self._notes)

    def describe_end(self) -> str:
        """How a dead process ended: "SIGSEGV", "exit code 1", or "" where it left since nobody asked for anything."""
        code = self._process.wait()
        if code >= 0:
            return f"exit code {code}" if code else ""
        return signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"

    def said(self) -> str:
        """The end of what it printed since the last message."""
        with open(self._log.fileno(), "rb", closefd=False) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _SAID_BYTES))
            return file.read().decode(errors="replace")

    def kill(self) -> None:
        """Kill the process, whatever it does; who waits for its answer learns that it is dead."""
        self._process.kill()

    def end(self) -> None:
        """Kill the process, and close what there is of it."""
        self._process.kill()
        self._process.wait()
        self.forget()

    def forget(self) -> None:
        """Close what this process has of it, as one must that was forked from its owner."""
        lifeline, self._lifeline = self._lifeline, None
        if lifeline is not None:
            os.close(lifeline)
            self.connection.close()
            self._log.close()
        self._process.returncode = self._process.returncode or 0  # not to be waited for any more


class Crew:
    """At most ``size`` workers, which start when they are asked for and stay; threads may share a crew."""

    def __init__(self, size: int, kind: WorkerKind = COMPILER) -> None:
        self.size, self._kind = size, kind
        self._changed = threading.Condition()
        self._all: set[Worker] = set()
        self._starting: list[Worker] = []
        self._idle: list[Worker] = []
        self._failures = 0  # workers in a row that died as they started
        self.start_seconds = 0.0  # the longest that a worker has taken to get ready

    def grow(self, wanted: int) -> None:
        """Have so many workers on the way, as far as the crew may have them."""
        with self._changed:
            while len(self._starting) < wanted and len(self._all) < self.size:
                worker = Worker(self._kind)
                self._all.add(worker)
                self._starting.append(worker)

    def start(self, count: int = 1) -> None:
        """Have at least so many workers, which then get ready while their owner does something else."""
        if len(self._all) < count:
            self.grow(count - len(self._all))

    def take(self) -> Worker | None:
        """A worker that is ready and that nobody else has, if there is one. InternalError where none can start."""
        with self._changed:
            for worker in [worker for worker in self._starting if worker.connection.poll()]:
                self._starting.remove(worker)
                self._begin(worker)
            while self._idle:
                worker = self._idle.pop()
                if not worker.dead:
                    return worker
                self._drop(worker)
            return None

    def list_starting(self) -> list[Connection]:
        """The connections of starting workers, which become readable when their worker is ready."""
        with self._changed:
            return [worker.connection for worker in self._starting]

    def wait(self, seconds: float) -> None:
        """Wait until a worker may have become free, at most so long."""
        with self._changed:
            if not self._idle and not self._starting and len(self._all) >= self.size:
                self._changed.wait(seconds)

    def give_back(self, worker: Worker) -> None:
        """Let others have the worker, which is idle."""
        with self._changed:
            if worker in self._all:
                self._idle.append(worker)
                self._changed.notify()
            else:  # the crew was shut down meanwhile
                worker.end()

    def end(self, worker: Worker) -> None:
        """End a worker that was taken."""
        with self._changed:
            self._drop(worker)
            self._changed.notify()

    def shutdown(self) -> None:
        """End all workers."""
        with self._changed:
            idle = [*self._idle, *self._starting]
            busy = self._all.difference(idle)
            self._all, self._idle, self._starting = set(), [], []
            self._changed.notify_all()
        for worker in busy:
            worker.kill()
        for worker in idle:
            worker.end()

    def _begin(self, worker: Worker) -> None:
        try:
            ready = float(worker.connection.recv_bytes())
        except (EOFError, OSError) as error:
            how, words = worker.describe_end(), last_words(worker.said())
            self._drop(worker)
            if self._kind == COMPILER and importlib.util.find_spec("mlir") is None:
                raise CompileError(NO_MLIR) from error
            self._failures += 1
            if self._failures >= _MOST_FAILURES:
                raise InternalError(
                    f"compile workers die as they start ({how}): {words or 'without a word'}"
                ) from error
        else:
            self._failures = 0
            self.start_seconds = max(self.start_seconds, ready - worker.begun)
            self._idle.append(worker)

    def _drop(self, worker: Worker) -> None:
        self._all.discard(worker)
        worker.end()


def last_words(said: str) -> str:
    """The line in which LLVM, or Python, says why it gave up, if there is one."""
    lines = (" ".join(line.split()) for line in said.splitlines())
    return next((line for line in lines if _LAST_WORDS.search(line)), "")


def _forget_all() -> None:
    for worker in list(_workers):
        worker.forget()


# The workers of a process that forks are its own: the child must neither use them nor keep them alive.
os.register_at_fork(after_in_child=_forget_all)
