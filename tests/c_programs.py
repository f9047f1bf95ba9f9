"""C programs on the headers of compiled models: built by the system's compiler, and run."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from tvm_ffi import libinfo

from tilewright.runtime import threads

STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pthread")


def build(source: Path, output: Path, *more: str | Path) -> Path:
    """Compile a C file, with ``more`` objects and options behind it. Warnings are errors."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler (cc) on this machine")
    ffi, openmp = Path(libinfo.find_libtvm_ffi()), threads._packaged_runtime()
    folders = (libinfo.find_include_path(), libinfo.find_dlpack_include_path())
    include = [word for folder in folders for word in ("-isystem", folder)]
    libraries = [ffi, openmp, f"-Wl,--disable-new-dtags,-rpath,{ffi.parent}:{openmp.parent}", "-ldl", "-lm"]
    command = ["cc", *STRICT, *include, source, *more, *libraries, "-Wl,--no-as-needed", "-o", output]
    subprocess.run(list(map(str, command)), check=True)
    return output


def run(program: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a built program."""
    words: Sequence[str] = [str(program), *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, timeout=60)
