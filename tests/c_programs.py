"""C programs on the headers of compiled models: built by the system's compiler, and run."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from tvm_ffi import libinfo

from tilewright.runtime.artifact.manifest import Manifest
from tilewright.runtime.artifact.weights import Weights
from tilewright.runtime.c.example import write_example
from tilewright.runtime.c.header import Interface
from tilewright.runtime.process import threads

STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pthread")


def require_compiler() -> None:
    """Skip the test where the system has no C compiler."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler (cc) on this machine")


def build(source: Path, output: Path, *more: str | Path) -> Path:
    """Compile a C file, with ``more`` objects and options behind it. Warnings are errors."""
    require_compiler()
    ffi, openmp = Path(libinfo.find_libtvm_ffi()), threads.packaged_runtime()
    folders = (libinfo.find_include_path(), libinfo.find_dlpack_include_path())
    include = [word for folder in folders for word in ("-isystem", folder)]
    libraries = [ffi, openmp, f"-Wl,--disable-new-dtags,-rpath,{ffi.parent}:{openmp.parent}", "-ldl", "-lm"]
    command = ["cc", *STRICT, *include, source, *more, *libraries, "-Wl,--no-as-needed", "-o", output]
    subprocess.run(list(map(str, command)), check=True)
    return output


def build_for_aarch64(folder: Path, manifest: Manifest, command: Sequence[str]) -> Path:
    """The example of ``libnet.a`` in a folder as a static program for one thread, with a stub in place of tvm-ffi.

    It does not ask for the CPU's features: an emulator may show it the list of this machine.
    """
    weights = Weights.open(folder / "libnet.safetensors") if manifest.weights else None
    text = write_example(Interface("net", manifest, b"", weights, linked=True), "libnet.h")
    (folder / "main.c").write_text(text.replace("net_load(argv[1], 0,", "net_load(argv[1], 1,"))
    header = folder / "libnet.h"
    header.write_text(re.sub(r"(cpu_flags\[\] = \{)[^}]*\}", r"\1NULL}", header.read_text()))
    # The package ziglang brings a C library that is linked in.
    words = [word.replace("linux-gnu", "linux-musl") if "-target" in command else word for word in command]
    sources = [folder / "main.c", Path(__file__).with_name("ffi_stub.c"), folder / "libnet.a"]
    include = ["-isystem", libinfo.find_include_path(), "-isystem", libinfo.find_dlpack_include_path()]
    subprocess.run(
        list(map(str, [*words, "-O1", "-static", *include, *sources, "-lm", "-o", folder / "main"])), check=True
    )
    return folder / "main"


def run(program: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a built program."""
    words: Sequence[str] = [str(program), *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, timeout=300)
