"""What commands print: results as text or JSON, tables, notes, progress on a terminal.

Commands never print directly: names from a model may be any text, and ``show`` turns them into printable lines.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from tilewright.core.printed import LONGEST_LINE, line_text
from tilewright.core.progress import Teller
from tilewright.tools._tables import table_lines

_AGES = (("d", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0))


def add_stream_name(error: OSError, stream: TextIO | None) -> OSError:
    """The error with the name of the stream that it is about; the system gives it none."""
    return type(error)(error.errno, error.strerror, getattr(stream, "name", "the output"))


def show_bytes(data: bytes) -> None:
    """Print bytes as they are."""
    try:
        sys.stdout.buffer.write(data)
    except OSError as error:
        raise add_stream_name(error, sys.stdout) from error


@contextmanager
def showing_progress(text: str, args: argparse.Namespace, animated: bool = True) -> Iterator[Teller]:
    """Show ``text`` on stderr while the body runs, with a count if there is one, the time, and about what is left.

    What is yielded changes the text and the count. Without an animation, which would take part in what is measured,
    that alone draws. Shows nothing with ``--quiet``, with ``--json``, or where stderr is no terminal.
    """
    if args.quiet or args.json or not sys.stderr.isatty():
        yield Teller()
        return
    from rich.console import Console
    from rich.live import Live
    from rich.spinner import Spinner
    from rich.text import Text

    class Line:
        """The line that is drawn: the teller's state at that moment."""

        spinner = Spinner("dots")

        def __rich__(self) -> Spinner:
            self.spinner.update(text=Text(line_text(str(say.now()))))  # a text has no markup
            return self.spinner

    drawn = Live(Line(), console=Console(stderr=True), transient=True, auto_refresh=animated, refresh_per_second=8)
    say = Teller(None if animated else lambda _: drawn.refresh())
    with drawn:
        say(text)
        yield say


def show(lines: Iterable[str], file: TextIO | None = None, longest: int = LONGEST_LINE) -> None:
    """Print lines, each as one line that a terminal prints as it is; on stdout where no file is given."""
    file = file or sys.stdout
    encoding = getattr(file, "encoding", None) or "utf-8"
    text = "".join(f"{line_text(line, longest)}\n" for line in lines)
    try:
        print(text.encode(encoding, "backslashreplace").decode(encoding), end="", file=file)
    except OSError as error:
        raise add_stream_name(error, file) from error


def tell(notes: Iterable[str]) -> None:
    """Print notes, of a compilation or of a search, on stderr."""
    show((f"note: {note}" for note in notes), sys.stderr)


def print_report(
    record: Mapping[str, Any], lines: Sequence[str], args: argparse.Namespace, longest: int = LONGEST_LINE
) -> None:
    """Print a command's result: ``record`` with ``--json``, nothing with ``--quiet``, else ``lines``.

    JSON is ASCII, and has names as they are.
    """
    if args.json:
        print(json.dumps(record, default=str))  # symbols are text
    elif not args.quiet:
        show(lines, longest=longest)


def age_text(seconds: float) -> str:
    """Seconds that have passed as ``3 d ago``."""
    unit, size = next(((unit, size) for unit, size in _AGES if seconds >= size), _AGES[-1])
    return f"{seconds / size:.0f} {unit} ago"


def print_table(rows: Sequence[tuple[str, ...]], words: Sequence[str] = (), spare: Sequence[str] = ()) -> None:
    """Print rows, the head first, for a terminal's width or aligned in a pipe; see ``_tables.fitted``."""
    show(table_lines(rows, words, spare))
