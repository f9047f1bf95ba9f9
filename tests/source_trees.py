"""The syntax trees of the package's modules, which several tests of its texts read: parsed once in a process."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = (
    "codegens", "core", "dialects", "driver", "frontends", "passes", "records", "runtime", "te", "tools", "tuning",
    "tvm", "workers",
)  # fmt: skip


@cache
def tree(path: Path) -> ast.Module:
    """The tree of a file. Python looks for garbage in it neither now nor later: all that takes four times as long."""
    gc.disable()
    made = ast.parse(path.read_text())
    gc.freeze()
    gc.enable()
    return made


@cache
def trees() -> dict[str, ast.Module]:
    """Those of all modules in the package's folders by their paths."""
    files = sorted(file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py"))
    return {str(file.relative_to(ROOT)): tree(file) for file in files}
