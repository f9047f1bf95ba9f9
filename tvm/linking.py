"""Programs as libraries and archives: what ``contrib.cc`` and ``contrib.tar`` call their functions."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..core.errors import ArtifactError, first_line
from ..core.printed import name_text
from ..core.scratch import scratch_folder
from ..runtime.artifact import elf, on_disk, shared
from ..runtime.module import Module
from ..runtime.process.files import replacing_file

_NAME = "program"  # of a program in an archive


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
    if not contents:
        raise ArtifactError(f"no objects are given for '{output}'")
    shared.link_shared(contents, Path(output), _find_linker(contents[0], cc, options))


def cross_compiler(
    compile_func: str | Callable[..., Any], options: Sequence[str] | None = None, output_format: str = "so"
) -> Callable[..., Any]:
    """``create_shared`` by a compiler of this name, or a function that is called in its place, with ``options``."""

    def link(output: str, objects: Any, options: Sequence[str] | None = None) -> None:
        given = [*fixed, *(options or [])]
        if isinstance(compile_func, str):
            create_shared(output, objects, given, compile_func)
        else:
            compile_func(output, objects, options=given)

    fixed = list(options or [])
    return link


def _find_linker(content: bytes, cc: str | None, options: Sequence[str] | None) -> list[str]:
    machine = elf.read_machine(content)
    command = [cc] if cc else shared.find_compiler(machine)
    if command is None:
        raise ArtifactError(shared.no_compiler(machine))
    return [*command, *(options or [])]


def get_cc() -> str | None:
    """The system's compiler; None where there is none."""
    command = shared.find_compiler()
    return command[0] if command else None


def tar(output: str | os.PathLike[str], files: str | Sequence[str], options: Any = None) -> None:
    """Write an archive of files. Raises ArtifactError where that fails."""
    given = [files] if isinstance(files, str) else files
    _pack(output, [Path(each) for each in given])


def untar(tar_file: str | os.PathLike[str], directory: str | os.PathLike[str]) -> None:
    """Unpack an archive of files and folders. Raises ArtifactError where that fails, or for one of anything else."""
    try:
        with tarfile.open(tar_file) as archive:
            _demand_files(archive, tar_file)
            archive.extraction_filter = getattr(
                tarfile, "data_filter", None
            )  # which Python before 3.11.4 does not have
            archive.extractall(directory)
    except (OSError, tarfile.TarError) as error:
        raise ArtifactError(f"cannot read '{tar_file}': {_words_of(error)}") from error


def _demand_files(archive: tarfile.TarFile, name: str | os.PathLike[str]) -> None:
    """Raise ArtifactError where an archive holds anything but files and folders below where it is unpacked."""
    for member in archive.getmembers():
        inside = not os.path.isabs(member.name) and ".." not in Path(member.name).parts
        if not inside or not (member.isreg() or member.isdir()):
            raise ArtifactError(f"cannot read '{name}': {name_text(member.name)} is no file or folder inside of it")


def write_program(module: Module, path: str | os.PathLike[str]) -> Path:
    """Write the objects of a program with its weights, or the library that it was loaded from."""
    module.manifest.demand_portable(f"cannot write {path}")
    code, weights = module.program.code, module.program.weights
    with scratch_folder() as folder:
        suffix = on_disk.SUFFIX if code.shared else on_disk.FOLDER_SUFFIX
        on_disk.save(Path(folder, _NAME + suffix), code, weights)
        _pack(path, sorted(Path(folder).iterdir()))
    return Path(path).absolute()


def read_program(path: str | os.PathLike[str]) -> on_disk.LoadedProgram:
    """Load what ``write_program`` has written. Raises ArtifactError for another archive."""
    with scratch_folder() as folder:
        untar(path, folder)
        found = [each for each in Path(folder).iterdir() if each.suffix in (on_disk.SUFFIX, on_disk.FOLDER_SUFFIX)]
        if [each.stem for each in found] != [_NAME]:
            raise ArtifactError(f"'{path}' has no program in it that export_library has written")
        return replace(on_disk.load(found[0]), path=None)  # which goes, and is mapped


def _pack(output: str | os.PathLike[str], files: Sequence[Path]) -> None:
    try:
        with replacing_file(Path(output).absolute()) as file, tarfile.open(file, "w") as archive:
            for each in files:
                archive.add(each, each.name)
    except (OSError, tarfile.TarError) as error:
        raise ArtifactError(f"cannot write '{output}': {_words_of(error)}") from error


def _words_of(error: OSError | tarfile.TarError) -> str:
    return getattr(error, "strerror", None) or first_line(error)
