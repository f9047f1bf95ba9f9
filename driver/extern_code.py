"""The code that a user gives with a schedule, as objects of the program."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from ..core.errors import CompileError
from ..core.externals import Externals, ExternCode
from ..core.scratch import scratch_folder
from ..core.target import Target
from ..runtime.artifact import elf
from ..runtime.artifact.shared import find_compiler, no_compiler
from . import jobs
from .compilation import Compilation

# Neither unwinding nor exceptions: what a kernel calls returns.
_FLAGS = ("-O3", "-fPIC", "-c", "-fno-exceptions", "-fno-asynchronous-unwind-tables")


def compile_code(compilation: Compilation, externals: Externals) -> tuple[bytes, ...]:
    """The objects of the code that kernels call.

    Raises CompileError where the compiler refuses it, and where a function is called that none of it has.
    """
    if externals == Externals():
        return ()
    compilation.options.refuse_several("code of your own")
    if compilation.options.executor == "engine":
        raise CompileError("an engine has no code of your own: the executor 'objects' takes that")
    objects = tuple(_compile(compilation, code) for code in externals.code)
    defined = {name for data in objects for name in elf.list_defined_functions(data)}
    for caller, function in externals.calls:
        if function not in defined:
            raise CompileError(
                f"'{caller}' calls '{function}', which no code has: give it, as in"
                f' s[{caller}].pragma(axis, "import_c", source)'
            )
    return objects


def _compile(compilation: Compilation, code: ExternCode) -> bytes:
    options = compilation.options
    if code.kind == "llvm":
        return compilation.call("your LLVM IR", jobs.compile_llvm_text, code.content, options.target, options.opt_level)
    if code.kind != "object":
        return compile_c(code, options.target)
    if elf.read_machine(code.content) != options.target.architecture.machine:
        raise CompileError(f"an object of yours is not for {options.target.architecture.machine}: compile it for that")
    return code.content


def compile_c(code: ExternCode, target: Target) -> bytes:
    """Compile C or C++ to an object with the system's compiler, for this machine's CPU if the target is that."""
    machine = target.architecture.machine
    command = find_compiler(machine)
    if command is None:
        raise CompileError(f"your C code cannot be compiled: {no_compiler(machine)}")
    native = ["-march=native"] if target.cpu == "native" else []
    with scratch_folder() as folder:
        source, made = Path(folder, "code"), Path(folder, "code.o")
        source.write_bytes(code.content)
        done = _run_command([*command, "-x", code.kind, *_FLAGS, *native, str(source), "-o", str(made)])
        if done.returncode or not made.exists():
            lines = done.stderr.replace(str(source), "code").splitlines()
            said = next((line for line in lines if "error" in line), "".join(lines[:1]))
            raise CompileError(f"your C code cannot be compiled: {said}")
        return made.read_bytes()


def _run_command(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, errors="replace")
    except OSError as error:
        raise CompileError(f"your C code cannot be compiled: {command[0]}: {error.strerror}") from error
