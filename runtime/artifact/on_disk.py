"""Programs on disk: ``model.so``, or a folder ``model.tw`` of objects, with ``model.safetensors`` beside or inside."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...core.errors import ArtifactError
from ...core.program import METADATA_SECTION, WEIGHTS_SECTION
from ...core.scratch import scratch_folder
from ..process.files import read_regular, replacing_file, sha256
from ..process.link import Library, Numbered, link
from . import elf
from .belongings import demand_free_weights, demand_program
from .manifest import Manifest
from .shared import find_compiler, link_relocatable, link_shared, open_shared, read_shared, seal, write_objects
from .variants import choose
from .weights import Weights

SUFFIX = ".so"
FOLDER_SUFFIX = ".tw"
WEIGHTS_SUFFIX = ".safetensors"
_CHECKSUMS = "SHA256SUMS"  # in a folder: the objects' checksums, in the order of linking


@dataclass(frozen=True)
class Code:
    """A program's code: objects to be linked (or a function that makes them), or a shared library's bytes."""

    objects: tuple[bytes, ...] = ()
    shared: bytes = b""
    later: Callable[[], tuple[bytes, ...]] | None = None

    @property
    def digest(self) -> str:
        """The SHA-256 of what there is, in hex."""
        made = hashlib.sha256(self.shared)
        for data in self.objects:
            made.update(hashlib.sha256(data).digest())
        return made.hexdigest()

    @property
    def nbytes(self) -> int:
        """Size in bytes of what there is."""
        return len(self.shared) + sum(map(len, self.objects))

    def all_objects(self) -> tuple[bytes, ...]:
        """The objects, made now if they were not yet."""
        return self.later() if self.later else self.objects


@dataclass(frozen=True)
class LoadedProgram:
    """A program that is loaded, from ``path`` if from files, and has its weights, but no context yet.

    ``manifest`` tells of one target alone, the programs for which have the numbers from ``first`` on.
    """

    library: Library
    code: Code
    manifest: Manifest
    weights: Weights | None
    first: int = 0
    path: Path | None = None


def select_program(program: LoadedProgram, number: int) -> LoadedProgram:
    """The ``number``-th of a program's programs, as if it were alone; its code is that of all."""
    manifest = program.manifest.programs[number]
    return LoadedProgram(Numbered(program.library, program.first + number), program.code, manifest, program.weights)


def assemble(
    library: Library,
    code: Code,
    whole: Manifest,
    weights: Weights | None,
    where: str,
    variant: str | None = None,
    path: Path | None = None,
) -> LoadedProgram:
    """The program of loaded code for this machine's CPU; ``weights`` are those of a file, if it has one.

    ArtifactError, naming ``where``, if there is no ``variant`` of that name, or none that can run here.
    """
    first, manifest = choose(whole, where, variant)
    if manifest.weights_inside:
        weights = find_weights_inside(library, code, manifest, where)
    return LoadedProgram(library, code, manifest, weights, first, path)


def weights_path(path: Path) -> Path:
    """Where the weights of the program ``path`` are; a folder has them inside."""
    return path / f"weights{WEIGHTS_SUFFIX}" if path.suffix == FOLDER_SUFFIX else path.with_suffix(WEIGHTS_SUFFIX)


def program_path(path: str | os.PathLike[str]) -> Path:
    """``path`` made absolute; ArtifactError where a program of that name cannot be written."""
    result = Path(path).absolute()
    if result.suffix not in (SUFFIX, FOLDER_SUFFIX):
        raise ArtifactError(f"cannot write {path}: a program's name ends with {SUFFIX} (or {FOLDER_SUFFIX}, a folder)")
    if not result.parent.is_dir():
        raise ArtifactError(f"cannot write {path}: there is no folder {result.parent}")
    if not os.access(result.parent, os.W_OK | os.X_OK):
        raise ArtifactError(f"cannot write {path}: the folder {result.parent} is not writable")
    if result.exists() and result.is_dir() != (result.suffix == FOLDER_SUFFIX):
        raise ArtifactError(
            f"cannot write {path}: it is a {'folder' if result.is_dir() else 'file'}; give another name"
        )
    demand_program(result)
    return result


def save_object(path: str | os.PathLike[str], code: Code, weights: Weights | None) -> Path:
    """Write a program as one relocatable object, to be linked into something else, with its weights beside it."""
    target, (first, *others) = Path(path).absolute(), code.all_objects()
    command = find_compiler(elf.read_machine(first))
    if command is None and others:
        raise ArtifactError(f"cannot write {path}: joining objects needs a C compiler; install one or set CC")
    demand_program(target)
    with ExitStack() as files:
        joined = files.enter_context(replacing_file(target))
        if others:
            link_relocatable((first, *others), joined, command or [])
        else:
            joined.write_bytes(first)
        _save_weights(target, weights, files)
    return target


def save(
    path: str | os.PathLike[str],
    code: Code,
    weights: Weights | None,
    linker: Callable[[str, list[str]], object] | None = None,
) -> Path:
    """Write a program with its weights and return the path written.

    That is ``path``, or with the suffix ``.tw`` where objects are to be linked and no compiler is found; ``linker``
    makes a library in place of that, of its name and those of the objects. Nothing half-written is left of a failure.
    """
    target = program_path(path)
    objects = () if code.shared else code.all_objects()
    command = find_compiler(elf.read_machine(objects[0])) if objects and linker is None else None
    if target.suffix == SUFFIX and not code.shared and command is None and linker is None:
        target = program_path(target.with_suffix(FOLDER_SUFFIX))
    if target.suffix == FOLDER_SUFFIX:
        return _save_folder(target, code, weights)
    with ExitStack() as files:  # closed in reverse: the weights take their name first, then the library
        library = files.enter_context(replacing_file(target))
        if code.shared:
            library.write_bytes(code.shared)
        elif linker is not None:
            folder = files.enter_context(scratch_folder())
            linker(str(library), [str(file) for file in write_objects(objects, Path(folder))])
            seal(library)
        else:
            link_shared(objects, library, command or [])
            seal(library)
        library.chmod(library.stat().st_mode | 0o111 & ~0o022)
        _save_weights(target, weights, files)
    return target


def _save_weights(program: Path, weights: Weights | None, files: ExitStack) -> None:
    """Write the weights beside a program, which has no name yet either."""
    if weights is not None and weights.in_file:
        path = weights_path(program)
        demand_free_weights(path, program, weights.fingerprint)
        weights.save(files.enter_context(replacing_file(path)))


def _save_folder(target: Path, code: Code, weights: Weights | None) -> Path:
    if code.shared:
        raise ArtifactError(
            f"cannot write {target}: this program was loaded from a shared library, give a {SUFFIX} name"
        )
    try:
        with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as temporary:
            new, old = Path(temporary, f"new{FOLDER_SUFFIX}"), Path(temporary, "old")
            new.mkdir()
            written = write_objects(code.all_objects(), new)
            (new / _CHECKSUMS).write_text("".join(f"{sha256(file)}  {file.name}\n" for file in written))
            if weights is not None and weights.in_file:
                weights.save(weights_path(new))
            if target.exists():
                target.rename(old)
            new.rename(target)
    except OSError as error:
        raise ArtifactError(f"cannot write {target}: {error.strerror or error}") from error
    return target


def load(
    path: str | os.PathLike[str],
    sealed: bool = True,
    verify: bool = False,
    variant: str | None = None,
    digest: str | None = None,
) -> LoadedProgram:
    """Load a program that ``save`` wrote, the one whose code has the ``digest`` if one is given.

    ``verify`` hashes the weights as well; ``variant`` names the one to take of programs for several targets.
    ArtifactError if it is not there, not whole, another one, or not for this CPU.
    """
    source = Path(path)
    code, whole = read_program(source, sealed)
    if digest is not None and code.digest != digest:
        raise ArtifactError(f"{path} is not the program that was pickled: its file was replaced since")
    _, manifest = choose(whole, str(path), variant)
    weights = stored_weights(source, code, whole)
    if weights is not None:
        for program in manifest.programs:
            weights.check(program.params, program.fingerprint)
        if verify:
            weights.verify()
    library = open_shared(source) if code.shared else link(code.objects)
    return assemble(library, code, whole, weights, str(path), variant, source.absolute())


def stored_weights(path: Path, code: Code, manifest: Manifest) -> Weights | None:
    """The weights of a program that is not loaded, in their file or in its code; None where it has none."""
    if not manifest.weights:
        return None
    if not manifest.weights_inside:
        return Weights.open(weights_path(path))
    return section_weights(code, str(path))


def section_weights(code: Code, where: str) -> Weights:
    """The weights that are a section of code which is not loaded."""
    found = next(filter(None, _sections(code, WEIGHTS_SECTION, where)), b"")
    return Weights(np.frombuffer(found, np.uint8), f"the section of weights in {where}")


def find_weights_inside(library: Library, code: Code, manifest: Manifest, where: str) -> Weights:
    """The weights of a loaded program that are a part of its code, where they lie. ArtifactError if they do not."""
    size = sum(map(len, _sections(code, WEIGHTS_SECTION, where)))
    if size != manifest.weights_inside:
        raise ArtifactError(f"{where} has {size} bytes of weights inside, not {manifest.weights_inside} as it says")
    address = library.get_function("weights")().value
    return Weights.at(address, manifest.weights_inside, f"the section of weights in {where}", library)


def read_program(path: Path, sealed: bool = True) -> tuple[Code, Manifest]:
    """A program's code and what it says about itself, from its files alone: nothing of it is run.

    ArtifactError if it is not there, not whole or not a program, or is a library without a seal that must have one.
    """
    code, text = read_text(path, sealed)
    return code, Manifest.from_json(text, str(path))


def read_text(path: Path, sealed: bool = True) -> tuple[Code, str]:
    """A program's code and the text of its manifest, whichever version made it; else as ``read_program``."""
    if not os.path.lexists(path):
        raise ArtifactError(f"there is no program {path}")
    code = Code(_read_folder(path)) if path.is_dir() else Code(shared=read_shared(path, sealed))
    return code, _description(code, str(path))


def read_description(code: Code, where: str) -> Manifest:
    """The manifest in a program's code. Raises an ArtifactError that names ``where`` if there is none."""
    return Manifest.from_json(_description(code, where), where)


def _description(code: Code, where: str) -> str:
    try:
        texts = [text.decode() for text in _sections(code, METADATA_SECTION, where)]
    except UnicodeDecodeError as error:
        raise ArtifactError(f"{where} is not a program made by Tilewright: {error}") from error
    if len(texts) != 1:
        raise ArtifactError(f"{where} is not a program made by Tilewright")
    return texts[0]


def _sections(code: Code, name: str, where: str) -> list[bytes]:
    """The sections of this name in a program's objects or its library."""
    try:
        found = [elf.read_section(data, name) for data in code.objects or (code.shared,)]
    except elf.ElfError as error:
        raise ArtifactError(f"{where} is not a program made by Tilewright: {error}") from error
    return [content for content in found if content is not None]


def _read_folder(folder: Path) -> tuple[bytes, ...]:
    """The objects in a folder, in order; they are those of the list of checksums beside them."""
    try:
        lines = [line.split() for line in read_regular(folder / _CHECKSUMS).decode().splitlines()]
        objects = {name: read_regular(folder / Path(name).name) for _, name in lines}
    except FileNotFoundError as error:
        raise ArtifactError(f"{folder} is not a program made by Tilewright, or incomplete") from error
    except OSError as error:
        raise ArtifactError(f"cannot read {folder}: {error.strerror}") from error
    except ValueError as error:
        raise ArtifactError(f"{folder} is damaged: copy or compile it again") from error
    for sum_, name in lines:
        if hashlib.sha256(objects[name]).hexdigest() != sum_:
            raise ArtifactError(f"{folder} is damaged: '{name}' is not as it was written; copy or compile it again")
    return tuple(objects.values())
