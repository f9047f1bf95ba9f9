"""Jobs for the tests of workers, in a module of their own: a worker must be able to import what it is to do."""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from tilewright import workers
from tilewright.core.beside import begin_beside
from tilewright.core.errors import InputError
from tilewright.core.questions import ask
from tilewright.dialects import ir
from tilewright.dialects.context import make_context
from tilewright.passes.infra.base import Pass
from tilewright.passes.infra.context import PassContext
from tilewright.workers import clock
from tilewright.workers import process as worker_process

_PROCESS = os.getpid()  # copies of a worker have none that they could tell

waiting: list[Callable[[], None]] = []  # what a test does when a job without an end has begun, the first thing first


def begun() -> None:
    """Hear, as the process that gave it, that a job is at what has no end."""
    if waiting:
        waiting.pop(0)()


def tell() -> None:
    """Say that what has no end begins."""
    if os.getpid() == _PROCESS:
        ask(begun)


def assert_and_abort() -> None:
    """Die as LLVM does on a failed assertion."""
    os.write(2, b"Assertion `false' failed.\n")
    os.abort()


def segfault() -> None:
    """Die as a wild pointer lets one."""
    ctypes.string_at(0)


def eat_memory() -> None:
    """Ask for memory until there is none; what is not written to counts, too, and takes no time."""
    held = []
    while True:
        held.append(np.empty(16 << 20, np.uint8))


def look_up() -> None:
    """Fail as a pass with a bug does."""
    {}["nothing"]


def describe_beside(way: str) -> tuple[bool, bytes]:
    """Whether a part of this job was done in a copy of the worker, which ends in one of the ways above, if in any."""
    own = os.getpid()

    def describe() -> tuple[bool, bytes]:
        copied = os.getpid() != own
        if copied and way:
            WAYS[way]()
        return copied, b"x" * (4 << 20)

    with begin_beside(describe) as finish:
        return finish()


def leave_in_a_cycle(nbytes: int) -> None:
    """Leave memory behind that only the garbage collector finds."""
    held: list[object] = [np.ones(nbytes, np.uint8)]
    held.append(held)


def own_bytes() -> int:
    """The worker's own memory."""
    return worker_process.read_resident_bytes()


def spin() -> None:
    """Never end."""
    tell()
    while True:
        pass


def sleep() -> None:
    """Wait for what never comes, without using the CPU."""
    tell()
    time.sleep(3600)


WAYS: dict[str, Callable[[], None]] = {
    "abort": assert_and_abort,
    "segfault": segfault,
    "spin": spin,
    "sleep": sleep,
    "memory": eat_memory,
    "bug": look_up,
}


@dataclass(frozen=True)
class Failing(Pass):
    """Fails in one of the ways above."""

    name: ClassVar[str] = "failing"
    way: str = ""

    def apply(self, module: ir.Module) -> None:
        WAYS[self.way]()


@dataclass(frozen=True)
class Renaming(Pass):
    """Gives functions another name, by which a test sees that it has run."""

    name: ClassVar[str] = "renaming"

    def apply(self, module: ir.Module) -> None:
        for op in module.body.operations:
            op.operation.attributes["sym_name"] = ir.StringAttr.get("renamed")


def fail_in_a_pass(way: str, once: str = "") -> str:
    """Run a pass, and one that fails; with ``once``, a file that is made then, it does so the first time only."""
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse("func.func private @k()")
        PassContext().run(Renaming(), module)
        if not (once and Path(once).exists()):
            if once:
                Path(once).touch()
            PassContext().run(Failing(way), module)
        return "done"


def pass_after_pass(seconds: float) -> None:
    """Run passes without end, each of so many seconds."""
    WAYS["nap"] = lambda: time.sleep(seconds)
    _run_without_end()


def leap_after_leap(seconds: float, count: int) -> None:
    """Run passes that take so many seconds by the compilation's clock, and none by any other; the last finds no end."""
    left = count

    def nap() -> None:
        nonlocal left
        left -= 1
        ask(leap, seconds)
        if not left:
            time.sleep(3600)

    clock.read_seconds = lambda: time.monotonic() + seconds * (count - left)
    WAYS["nap"] = nap
    _run_without_end()


def leap(seconds: float) -> None:
    """Let the clock of the process that gave a job go on."""
    leaps[-1](seconds)


leaps: list[Callable[[float], None]] = []


def _run_without_end() -> None:
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse("func.func private @k()")
        while True:
            PassContext().run(Failing("nap"), module)


def run_in_a_pool() -> list[int]:
    """Have a worker of this worker's own do a job: its number, and that of the process which asked."""
    return [*workers.get_pool(1).run([workers.Job("inner", os.getpid)]), os.getpid()]


def pid_of_who_asked() -> tuple[int, int]:
    """This process, and the one that a question is answered in."""
    return os.getpid(), ask(os.getpid)


def refuse(text: str) -> None:
    """Raise what a user could have caused."""
    raise InputError(text)


def ask_and_fail() -> None:
    """Ask what is refused, and then for more."""
    with contextlib.suppress(InputError):
        ask(refuse, "the first")
    ask(refuse, "the second")


def ask_and_sleep() -> None:
    """Ask again and again, without an end."""
    while True:
        ask(time.sleep, 0.01)
