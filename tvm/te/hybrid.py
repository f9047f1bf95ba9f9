"""``tvm.te.hybrid``: Python functions as computations."""

from __future__ import annotations

from ..hybrid import parse, script

__all__ = ["parse", "script"]
