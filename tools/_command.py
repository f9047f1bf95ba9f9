"""What a command is: errors become one line and an exit code, signals end it, nothing temporary is left behind."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from tilewright.core.errors import TilewrightError
from tilewright.tools._output import add_stream_name, show

USER_ERROR = 2
INTERRUPTED = 130


class Main(Protocol):
    """A command: takes the words after its name (``sys.argv`` by default) and returns the exit code."""

    def __call__(self, argv: Sequence[str] | None = None) -> int: ...


class Ended(BaseException):
    """A signal that asks the process to end, raised so that nothing temporary is left behind."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = 128 + number  # as a shell has it


def as_command(main: Callable[[Sequence[str] | None], int | None]) -> Main:
    """Make ``main`` a command: a TilewrightError becomes one line on stderr and exit code 2, and so does what the
    system refuses. SIGTERM and SIGHUP end it as Ctrl-C does.

    ``TW_DEBUG=1`` shows the whole traceback instead.
    """

    @functools.wraps(main)
    def run(argv: Sequence[str] | None = None) -> int:
        _open_streams()
        try:
            with _ended_by_signals():
                try:
                    return main(argv) or 0
                finally:
                    _flush()
        except (TilewrightError, OSError, MemoryError) as error:
            if isinstance(error, BrokenPipeError):  # the reader has gone, e.g. `| head`; that is no failure of ours
                return 0
            if os.environ.get("TW_DEBUG", "0") not in ("", "0"):
                raise
            with contextlib.suppress(OSError):
                show([f"error: {_explain_error(error)}"], sys.stderr)
            return USER_ERROR
        except KeyboardInterrupt:
            return INTERRUPTED
        except Ended as end:
            return end.code

    return run


def _explain_error(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return "out of memory"
    if not isinstance(error, OSError) or isinstance(error, TilewrightError):
        return str(error)
    where = f"'{os.fsdecode(error.filename)}': " if isinstance(error.filename, (str, bytes)) else ""
    return f"{where}{error.strerror or error}"


def _open_streams() -> None:
    """Give a process that was started without one of the standard streams an empty one: what asks a stream whether it
    is a terminal need not know, and no other file gets its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - stays for as long as the process


def _flush() -> None:
    """Write out what was printed, while it can be told that this fails. What cannot be written is dropped."""
    failed: OSError | None = None
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            with contextlib.suppress(OSError, ValueError):  # else Python tries again as it ends, and complains
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            failed = add_stream_name(error, stream)
    if failed is not None:
        raise failed


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise Ended once, where nobody has asked for anything else."""

    def end(number: int, _: object) -> None:
        for other in taken:
            signal.signal(other, signal.SIG_IGN)  # the rest of the process is cleaning up
        raise Ended(number)

    taken: list[int] = []
    if threading.current_thread() is threading.main_thread():
        taken += [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) == signal.SIG_DFL]
    for number in taken:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)
