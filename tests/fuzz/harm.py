"""Whether broken input does harm: kinds of verdicts on what was asked no more than to be refused in a line, or to work."""

from __future__ import annotations

import tilewright as tw
from tilewright.tools.debugging.isolation import Lost
from tilewright.tools.debugging.verdict import Verdict

LONGEST = 5000  # characters of a message


def of_lost(lost: Lost) -> Verdict:
    """A crash or a hang: of a child process that gave no answer."""
    return Verdict("hang" if lost.reason.startswith("no answer") else "crash", lost.reason)


def of_error(error: Exception) -> Verdict:
    """refused: one of our errors, in one line. internal: it says that the compiler is at fault. error: any other one."""
    text = str(error)
    if not isinstance(error, tw.TilewrightError):
        return Verdict("error", f"{type(error).__name__}: {text}")
    if not text.isprintable() or len(text) > LONGEST:
        return Verdict("error", f"a message of {len(text)} characters: {text[:200]!r}")
    fault = isinstance(error, tw.CompileError) and not text.startswith("out of memory")
    return Verdict("internal" if fault else "refused", text)
