"""``tvm.contrib.clang``: C as code that ``import_llvm`` takes."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ...core.errors import CompileError
from ...core.scratch import scratch_folder
from ...core.target import detect_host
from ...driver.extern_code import compile_c
from ...te.extern_code import read_code


def create_llvm(
    inputs: str | Sequence[str],
    output: str | os.PathLike[str] | None = None,
    options: Sequence[str] | None = None,
    cc: str | None = None,
) -> str | bytes:
    """LLVM IR of a text of C++, by clang; without clang an object, by the system's compiler.

    ``output`` is a file that gets the same. CompileError where the compiler refuses the text.
    """
    text = inputs if isinstance(inputs, str) else "\n".join(inputs)
    command = cc or shutil.which("clang")
    if command is None:
        made: str | bytes = compile_c(read_code("import_c", text), detect_host())
    else:
        made = _run_clang(command, text, options or [])
    if output is not None:
        Path(output).write_bytes(made if isinstance(made, bytes) else made.encode())
    return made


def _run_clang(command: str, text: str, options: Sequence[str]) -> str:
    with scratch_folder() as folder:
        source = Path(folder, "code.cc")
        source.write_text(text)
        line = [command, "-S", "-emit-llvm", "-O3", *options, str(source), "-o", "-"]
        done = subprocess.run(line, capture_output=True, text=True)
    if done.returncode:
        said = next((each for each in done.stderr.splitlines() if "error" in each), "it failed")
        raise CompileError(f"your C code cannot be compiled: {said}")
    return done.stdout
