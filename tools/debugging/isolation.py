"""Calls in child processes with a time limit: one that crashes or hangs is one lost answer, and the rest goes on.

The time that a child waits for a CPU does not count: on a busy machine it is no fault of the call.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

MEMORY_BYTES = 8 << 30
_SLACK = 0.05  # seconds of waiting that are none


@dataclass(frozen=True)
class Lost:
    """Stands for the answer of a call that gave none."""

    reason: str


class Child:
    """A process that does one call after the other; a new one takes its place where it dies."""

    def __init__(self, function: Callable[[Any], Any], seconds: float) -> None:
        self._function, self._seconds = function, seconds
        self._running: tuple[BaseProcess, Connection] | None = None

    def call(self, argument: Any) -> Any:
        """The function's answer, or a ``Lost``."""
        self._running = process, pipe = self._running or self._start()
        try:
            pipe.send(argument)
            if self._answers(process, pipe):
                return pipe.recv()
            reason = f"no answer in {self._seconds:g} s"
        except (EOFError, OSError):
            process.join()
            reason = f"died with exit code {process.exitcode}"
        process.kill()
        self._running = None
        return Lost(reason)

    def _answers(self, process: BaseProcess, pipe: Connection) -> bool:
        """Return whether there is an answer, or the end of the pipe, within the time."""
        begun, ready = time.monotonic(), _read_wait(process)
        left = self._seconds
        while not (answers := pipe.poll(left)) and left > 0:
            left = max(0.0, self._seconds - (time.monotonic() - begun) + _read_wait(process) - ready - _SLACK)
        return answers

    def _start(self) -> tuple[BaseProcess, Connection]:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, self._function), daemon=True)
        process.start()
        theirs.close()  # else the pipe would not end with the child
        return process, ours


def _read_wait(process: BaseProcess) -> float:
    """Seconds for which a process's main thread was ready to run and had no CPU; 0 where the system does not say."""
    try:
        return int(Path(f"/proc/{process.pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def _serve(pipe: Connection, function: Callable[[Any], Any]) -> None:
    # A crash is the caller's to report, without a dump of the stack or a core file.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    while True:
        try:
            argument = pipe.recv()
        except EOFError:  # the caller has gone
            return
        pipe.send(function(argument))
