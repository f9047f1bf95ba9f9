"""What kernels call that a user has written: the code of functions, and their calls. Plain data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class ExternCode:
    """Functions as a text of C or LLVM IR, or as an object file."""

    kind: Literal["c", "c++", "llvm", "object"]
    content: bytes

    def __str__(self) -> str:
        return f"{len(self.content)} bytes of {self.kind}"


@dataclass(frozen=True)
class Externals:
    """The code of a program, each once, and what is called: pairs of who calls, for errors, and the function."""

    code: tuple[ExternCode, ...] = ()
    calls: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def join(parts: Iterable[Externals]) -> Externals:
        """Those of several as one."""
        found = list(parts)
        code = dict.fromkeys(code for each in found for code in each.code)
        return Externals(tuple(code), tuple(dict.fromkeys(call for each in found for call in each.calls)))
