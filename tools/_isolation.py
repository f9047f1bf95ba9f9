"""Calls in child processes with a time limit: one that crashes or hangs is one lost answer, and the rest goes on."""

from __future__ import annotations

import multiprocessing
import os
import resource
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

MEMORY_BYTES = 8 << 30


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
            if pipe.poll(self._seconds):
                return pipe.recv()
            reason = f"no answer in {self._seconds:g} s"
        except (EOFError, OSError):
            process.join()
            reason = f"died with exit code {process.exitcode}"
        process.kill()
        self._running = None
        return Lost(reason)

    def _start(self) -> tuple[BaseProcess, Connection]:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, self._function), daemon=True)
        process.start()
        theirs.close()  # else the pipe would not end with the child
        return process, ours


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
