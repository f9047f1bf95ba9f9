"""A call in a copy of this process: one that may crash or find no end there, or one beside other work."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import os
import pickle
import resource
import select
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ..core.beside import beginning_by
from ..core.breadcrumbs import Trail, reporting_to

ENDLESS = "endless"
_PR_SET_PDEATHSIG = 1
# A copy is waited for as many times as long as it had beside other work, and a second.
_PATIENCE = 2
_GROWTH_BYTES = 2 << 30


@dataclass(frozen=True)
class Outcome:
    """``how`` a call failed: the signal that ended it, the exception's type, or ENDLESS; "" where it did not."""

    how: str
    seconds: float


def attempt(function: Callable[[], object], seconds: float) -> Outcome:
    """Call ``function`` in a fork of this process, which must have no other threads.

    The copy may take so many ``seconds``, and 2 GiB more than this process has.
    """
    start = time.monotonic()
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        _attempt(function, seconds, write)
    os.close(write)
    with open(read, "rb") as file:
        raised = file.read().decode()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    how = raised if code >= 0 else ENDLESS if -code == signal.SIGALRM else f"signal {-code}"
    return Outcome(how, time.monotonic() - start)


@contextlib.contextmanager
def begin_in_copy(work: Callable[[], Any]) -> Iterator[Callable[[], Any]]:
    """Do ``work`` in a fork of this process while the block runs; what the block gets waits for its result.

    Where the copy fails, or takes much longer than the block, the work is done here again: then all that watches the
    steps of this process sees where.
    """
    if len(os.listdir("/proc/self/task")) > 1:  # of several threads a copy would have one, and the locks of all
        yield work
        return
    begun = time.monotonic()
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        _work(work, write)
    os.close(write)

    def finish() -> Any:
        answer = _read_answer(read, begun + (1 + _PATIENCE) * (time.monotonic() - begun) + 1)
        return pickle.loads(answer) if answer else work()

    try:
        yield finish
    finally:
        os.close(read)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _work(work: Callable[[], Any], write: int) -> None:
    """The copy's whole life; it answers by its result, or not at all."""
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        faulthandler.disable()
        gc.freeze()  # the collector would write to what both processes have
        with reporting_to(Trail()), beginning_by(None):
            answer = pickle.dumps(work())
        with open(write, "wb") as file:
            file.write(answer)
    except BaseException:
        os._exit(1)
    os._exit(0)


def _read_answer(read: int, end: float) -> bytes:
    """What a copy answers until ``end``; nothing where it does not, for a pickle that is cut short is none."""
    parts = []
    while select.select([read], [], [], max(0.0, end - time.monotonic()))[0]:
        if not (part := os.read(read, 1 << 20)):
            return b"".join(parts)
        parts.append(part)
    return b""


def _attempt(function: Callable[[], object], seconds: float, write: int) -> None:
    """The copy's whole life."""
    try:
        faulthandler.disable()
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        _bound_memory()
        function()
    except BaseException as error:
        os.write(write, type(error).__name__.encode())
    finally:
        os._exit(0)


def _bound_memory() -> None:
    with open("/proc/self/statm") as file:
        data = int(file.read().split()[5]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = data + _GROWTH_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (wanted if soft == resource.RLIM_INFINITY else min(soft, wanted), hard))
