"""Code that a user gives with a schedule: of the functions that its intrinsics call."""

from __future__ import annotations

from typing import Any

from ..core.errors import ScheduleError
from ..core.externals import ExternCode

# The pragmas that give code, and what they give.
IMPORTS = ("import_c", "import_llvm", "import_object")
_ELF = b"\x7fELF"


def read_code(pragma: str, value: Any) -> ExternCode:
    """What a pragma gives: a text, or an object's bytes; ScheduleError for anything else.

    An object may stand in the place of LLVM IR, as it is what other compilers make of C. A text of C that says
    ``extern "C"`` is C++.
    """
    if isinstance(value, bytes) and value.startswith(_ELF) and pragma != "import_c":
        return ExternCode("object", value)
    text = value.decode(errors="replace") if isinstance(value, bytes) else value
    if pragma == "import_object" or not isinstance(text, str) or not text.strip():
        wanted = {"import_c": "a text of C", "import_llvm": "a text of LLVM IR", "import_object": "an object's bytes"}
        raise ScheduleError(f"{pragma} takes {wanted[pragma]}, not {value if value is None else type(value).__name__}")
    if pragma == "import_llvm":
        return ExternCode("llvm", text.encode())
    return ExternCode("c++" if 'extern "C"' in text else "c", text.encode())
