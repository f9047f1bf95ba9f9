"""A call in a copy of this process, which may crash or find no end there."""

from __future__ import annotations

import faulthandler
import os
import resource
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

ENDLESS = "endless"
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
