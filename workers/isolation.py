"""Calls of a user's functions in a fork of this process: a crash, or a loop without an end, ends the copy alone."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import os
import pickle
import select
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, NoReturn

from ..core.errors import CompileError, CompileTimeoutError

_PR_SET_PDEATHSIG = 1
_ANSWER_SECONDS = 0.2  # before the time of a compilation is up, so that its error says where it went
_DEADLY = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGINT)


_left: ContextVar[Callable[[], float | None]] = ContextVar("tilewright_left", default=lambda: None)


@contextlib.contextmanager
def within_time(left: Callable[[], float | None]) -> Iterator[None]:
    """Let calls of the block end with what they are for: ``left`` gives the seconds that this has; None is no bound."""
    token = _left.set(left)
    try:
        yield
    finally:
        _left.reset(token)


def call_isolated(function: Callable[[], Any], seconds: float, what: str, isolate: bool = True) -> Any:
    """Call a user's ``function`` in a copy of this process, and give its result, which must pickle.

    What the function changes in memory is lost with the copy; processes that it has started are ended with it when its
    time is up. Without ``isolate`` it is called here, and the time is not watched. Raises CompileError that begins with
    ``what`` for an exception, a crash, a result that does not pickle, and where it takes more than ``seconds``;
    CompileTimeoutError where the compilation's own time is up before.
    """
    if not isolate:
        try:
            return function()
        except Exception as error:
            raise CompileError(f"{what}: {_describe_error(error)}") from error
    left = _left.get()()
    end = time.monotonic() + (seconds if left is None else min(seconds, left - _ANSWER_SECONDS))
    sys.stdout.flush()
    sys.stderr.flush()
    read, write = os.pipe()
    with warnings.catch_warnings():  # other threads wait in locks that the copy does not need
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        os.close(read)
        _live(function, write)
    os.close(write)
    code = None
    try:
        answer = _read_answer(read, end)
        if answer is not None:
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    finally:
        os.close(read)
        if code is None:
            _end_group(child)
    if answer is None and left is not None and left < seconds:
        raise CompileTimeoutError(f"{what}: the compilation's time was up (timeout=)")
    if answer is None:
        raise CompileError(f"{what}: it took more than {seconds:g} s, its limit of time (timeout=)")
    if not answer:
        how = f"it crashed ({signal.Signals(-code).name})" if code and code < 0 else f"it ended its process ({code})"
        raise CompileError(f"{what}: {how}; isolate=False calls it where a debugger sees it")
    value, error = pickle.loads(answer)
    if error:
        raise CompileError(f"{what}: {error}")
    return value


def _live(function: Callable[[], Any], write: int) -> NoReturn:
    """The copy's whole life."""
    try:
        os.setpgid(0, 0)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        faulthandler.disable()
        for number in _DEADLY:  # handlers of libraries would print pages
            signal.signal(number, signal.SIG_DFL)
        gc.freeze()  # the collector would write to what both processes have
        try:
            answer = pickle.dumps((function(), ""))
        except Exception as error:
            answer = pickle.dumps((None, _describe_error(error)))
        with open(write, "wb") as file:
            file.write(answer)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
    except BaseException:
        os._exit(1)
    os._exit(0)


def _describe_error(error: Exception) -> str:
    """An exception of a user's function in one line, with where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
    words = " ".join(str(error).split())
    return f"{type(error).__name__}{': ' if words else ''}{words}{place}"


def _read_answer(read: int, end: float) -> bytes | None:
    """What the copy answers; nothing where it dies without, and None where its time is up."""
    parts = []
    while select.select([read], [], [], max(0.0, end - time.monotonic()))[0]:
        if not (part := os.read(read, 1 << 20)):
            return b"".join(parts)
        parts.append(part)
    return None


def _end_group(child: int) -> None:
    """End the copy, and what it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
