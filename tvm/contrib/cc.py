"""``tvm.contrib.cc``: the system's C compiler."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ...core.errors import ArtifactError
from ...runtime.artifact import elf, shared


def create_shared(
    output: str | os.PathLike[str],
    objects: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    options: Sequence[str] | None = None,
    cc: str | None = None,
) -> None:
    """Link objects, as ``Module.save`` writes them, to a shared library; ArtifactError where that fails."""
    files = [objects] if isinstance(objects, str | os.PathLike) else list(objects)
    try:
        contents = [Path(file).read_bytes() for file in files]
    except OSError as error:
        raise ArtifactError(f"cannot read '{error.filename}': {error.strerror}") from error
    machine = elf.read_machine(contents[0]) if contents else ""
    command = [cc] if cc else shared.find_compiler(machine)
    if command is None or not contents:
        raise ArtifactError(shared.no_compiler(machine) if contents else f"no objects are given for '{output}'")
    shared.link_shared(contents, Path(output), [*command, *(options or [])])
