"""Checks files before they are replaced: those that Tilewright did not make, or of another program, are kept.

A program's other files bear its name: ``net.so`` and ``net.safetensors``, ``libnet.a``, ``libnet.h`` and
``libnet.safetensors``. Programs of several kinds may have one name (``net.so``, ``net.o``); they share weights that are
equal.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from ...core.errors import ArtifactError
from ...core.program import METADATA_SECTION
from ...core.source_files import open_regular
from .c_text import format_comment

_KINDS = (".so", ".o", ".a")
_PARTS = re.compile(r"\d{4,}\.o|SHA256SUMS|weights\.safetensors")  # of a program that is a folder
_FINGERPRINT = re.compile(rb'"tilewright\.fingerprint"\s*:\s*"(\w*)"')
_BEGIN = 4096  # bytes of a weights file that have its fingerprint
_HEADER, _EXAMPLE = b"tw_program", b"/* Runs "  # what is in each header, and at the begin of each example


def made_for(program: str) -> str:
    """The line of a header that says for which program it is."""
    return format_comment(f"Made by Tilewright for {program}.")


def demand_program(path: Path) -> None:
    """Raise ArtifactError where ``path`` is something else than a program, whole or damaged, or an empty file."""
    if path.is_dir():
        if strange := next((part.name for part in path.iterdir() if not _PARTS.fullmatch(part.name)), None):
            raise ArtifactError(f"cannot write {path}: the folder holds '{strange}', too; give another name")
    elif (content := _read_content(path)) and METADATA_SECTION.encode() not in content:
        raise _foreign(path)


def demand_weights(path: Path) -> None:
    """Raise ArtifactError where ``path`` is something else than a weights file that Tilewright wrote."""
    _read_fingerprint(path)


def demand_free_weights(path: Path, program: Path, fingerprint: str) -> None:
    """Raise ArtifactError where the file at ``path`` is none of ours, or holds other weights, which another program
    beside ``program`` has."""
    found = _read_fingerprint(path)
    if found in (b"", fingerprint.encode()):
        return
    for other in (program.with_suffix(kind) for kind in _KINDS):
        if other != program and found in _read_content(other):
            raise ArtifactError(f"cannot write {path}: the program {other} has these weights; give another name")


def demand_free_header(path: Path, program: Path) -> None:
    """Raise ArtifactError where the file at ``path`` is no header of ours, or that of another program beside it."""
    content = _read_content(path)
    if content and _HEADER not in content:
        raise _foreign(path)
    others = [other for other in path.parent.glob("*") if other.suffix in _KINDS and not _is_same_path(other, program)]
    if owner := next((other for other in others if content.startswith(made_for(other.name).encode())), None):
        raise ArtifactError(f"cannot write {path}: it is the header of {owner}; give another name")


def demand_example(path: Path) -> None:
    """Raise ArtifactError where the file at ``path`` is something else than an example for a program."""
    if (content := _read_content(path)) and not content.startswith(_EXAMPLE):
        raise _foreign(path)


def _read_fingerprint(path: Path) -> bytes:
    """That of the weights in a file, nothing where there is none. ArtifactError where Tilewright did not write it."""
    begin = _read_content(path, _BEGIN)
    found = _FINGERPRINT.search(begin)
    if begin and found is None:
        raise _foreign(path)
    return found[1] if found else b""


def _read_content(path: Path, most: int = -1) -> bytes:
    """The content of the file, at most ``most`` bytes; empty if there is no file."""
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            return file.read(most)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise ArtifactError(f"cannot write {path}: {error.strerror}") from error


def _is_same_path(a: Path, b: Path) -> bool:
    return a.absolute() == b.absolute()


def _foreign(path: Path) -> ArtifactError:
    reason = "a file is there that Tilewright did not make"
    return ArtifactError(f"cannot write {path}: {reason}; give another name, or remove it")
