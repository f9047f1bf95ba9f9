"""The compile cache: compiled kernels and whole programs, which a compilation takes from it and puts there.

kernels    a kernel's bytecode, the schedule given for it  ->  the Kernel
sources    a model file's content, shapes, options        ->  names of other files that its import read, and of kernels
programs   that, those files' content, tuned schedules    ->  manifest, objects, what the report says
weights    the content's fingerprint                      ->  the weights file, which programs may share
digests    a file's path                                  ->  its state and content's hash (``digests.py``)
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...core.dims import InputShapes
from ...core.errors import ArtifactError, CompileError
from ...core.own_files import cache_folder
from ...core.program import Kernel
from ...frontends.foreign import ForeignSource
from ...records.tuned import TunedSchedules
from ...runtime.artifact.manifest import Manifest
from ...runtime.artifact.on_disk import Code
from ...runtime.artifact.weights import Weights
from ...runtime.process.files import digest
from ..jobs import Settings
from . import digests, store
from .entries import Entry
from .store import WEIGHTS, Cache, Item, make_key

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30}
_UNITS["ti"] = 1 << 40


@dataclass(frozen=True)
class Request:
    """A program that a cache is asked for: ``key`` is of all that is known before the import.

    ``folder`` has the model's file, if there is one, whose state is ``state``. ``began`` is when the request was made,
    in nanoseconds of the epoch. ``tuned`` are schedules that the program's kernels may get.
    """

    cache: Cache
    key: str
    folder: Path | None
    path: Path | None
    state: digests.State
    began: int
    tuned: TunedSchedules


@dataclass(frozen=True)
class Found:
    """A program from the cache."""

    code: Code
    manifest: Manifest
    weights: Weights | None
    report: dict[str, Any]


def parse_size(text: str, what: str) -> int:
    """Bytes of ``"4GiB"``, ``"500MB"`` or ``"1000"``; CompileError, naming ``what``, for anything else."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?\s*", text, re.IGNORECASE)
    if match is None:
        raise CompileError(f"{what} is '{text}': give bytes, or a number with kB, MB, GB, KiB, MiB or GiB")
    return int(float(match[1]) * _UNITS[(match[2] or "").lower()])


def default_limit() -> int:
    """$TILEWRIGHT_CACHE_SIZE in bytes, or 4 GiB. CompileError where it is no size."""
    given = os.environ.get("TILEWRIGHT_CACHE_SIZE")
    return parse_size(given, "TILEWRIGHT_CACHE_SIZE") if given else store.DEFAULT_LIMIT


def open_cache(choice: bool | str | os.PathLike[str]) -> Cache | None:
    """The user's cache, or the one in a folder that is given; None where it is switched off (False, or a size of 0)."""
    if choice is False:
        return None
    limit = default_limit()
    if choice is True:
        return Cache(cache_folder(), limit) if limit else None
    return Cache(Path(choice).absolute(), limit or store.DEFAULT_LIMIT)


def find_kernels(
    cache: Cache, sources: Mapping[str, bytes], settings: Settings, tuned: Mapping[str, str]
) -> dict[str, Kernel]:
    """Those of the kernels, by name, that were compiled from this bytecode before, by the schedules of ``tuned``."""
    keys = {name: _kernel_key(name, code, settings, tuned) for name, code in sources.items()}
    found = {name: cache.read("kernels", key) for name, key in keys.items()}
    return {name: Kernel.from_json(entry.value, entry.blobs[0]) for name, entry in found.items() if entry}


def keep_kernels(
    cache: Cache,
    sources: Mapping[str, bytes],
    settings: Settings,
    tuned: Mapping[str, str],
    kernels: Mapping[str, Kernel],
) -> None:
    """Put compiled kernels into the cache, unless the compiler was edited since this process began."""
    if not kernels or digests.has_changed():
        return
    for name, kernel in kernels.items():
        key = _kernel_key(name, sources[name], settings, tuned)
        cache.write("kernels", key, Entry(kernel.to_json(), (kernel.object,)))


def request(
    cache: Cache,
    source: str | os.PathLike[str] | bytes | ForeignSource,
    input_shapes: InputShapes,
    options: Sequence[object],
    settings: Settings,
    tuned: TunedSchedules,
) -> Request | None:
    """The request for a program; None if the model's file cannot be read, which the import will report."""
    began = time.time_ns()
    shapes = repr(sorted(input_shapes.items()))
    if isinstance(source, bytes):
        content, path, state = digest(source), None, ()
    elif isinstance(source, ForeignSource):
        content, path, state = source.digest(), None, ()
    else:
        try:
            path = Path(source).resolve()
            content, state = digests.file_digest(path, cache)
        except OSError:
            return None
    name = path.stem if path else ""
    parts = (_base(settings), content, name, shapes, repr(tuple(options)), settings.schedules())
    return Request(cache, make_key("program", *parts), path.parent if path else None, path, state, began, tuned)


def find_program(asked: Request) -> Found | None:
    """The program, if it is there whole: its code is checked, its weights where their file has changed."""
    cache = asked.cache
    sources = cache.read("sources", asked.key)
    name = _program_key(asked, **sources.value) if sources else None
    entry = cache.read("programs", name) if name else None
    if entry is None:
        return None
    manifest = Manifest.from_json(entry.value["manifest"], "the cache")
    in_file = manifest.weights and not manifest.weights_inside
    weights = _find_weights(cache, manifest.fingerprint) if in_file else None
    if in_file and weights is None:
        return None
    return Found(Code(entry.blobs), manifest, weights, entry.value["report"])


def keep_program(asked: Request, files: Sequence[Path], kernels: Sequence[str], found: Found) -> None:
    """Put a program into the cache, unless what it was made from has changed meanwhile, or has rules of a user.

    ``files`` are those that the import read besides the model's own, ``kernels`` the names of what the program calls,
    and the keys of decisions that records may make.
    """
    cache = asked.cache
    if found.weights and found.weights.data.nbytes > cache.limit:
        cache.notes.append(f"not cached: the weights' {found.weights.data.nbytes} bytes exceed TILEWRIGHT_CACHE_SIZE")
        return
    if found.manifest.operators:
        cache.notes.append(f"not cached: operators of yours may change ({', '.join(found.manifest.operators)})")
        return
    names = [os.path.relpath(path, asked.folder) for path in files] if asked.folder else []
    if _has_changed(asked, files) or (name := _program_key(asked, names, kernels)) is None:
        cache.notes.append("not cached: the model's files, or the compiler's, were changed in between")
        return
    if found.weights:
        _keep_weights(cache, found.weights)
    cache.write("sources", asked.key, Entry({"files": names, "kernels": list(kernels)}))
    value = {"manifest": found.manifest.to_json(), "report": found.report}
    cache.write("programs", name, Entry(value, found.code.all_objects()))


def verify(cache: Cache, on_item: Callable[[int, int], object] = lambda done, total: None) -> list[Item]:
    """Hash everything in the cache again; remove and return what is damaged. See ``Cache.verify``."""
    return cache.verify(_intact_weights, on_item)


def _base(settings: Settings) -> str:
    return make_key(digests.hash_compiler(), digests.hash_machine(), repr(settings.target), str(settings.opt_level))


def _kernel_key(name: str, bytecode: bytes, settings: Settings, tuned: Mapping[str, str]) -> str:
    own = ("tuned", tuned[name]) if name in tuned else ()
    return make_key("kernel", _base(settings), bytecode, settings.schedules(name), *own)


def _program_key(asked: Request, files: Sequence[str], kernels: Sequence[str]) -> str | None:
    """None where a file is not there any more."""
    folder, taken = asked.folder or Path(), asked.tuned.digest(kernels)
    try:
        parts = [part for name in files for part in (name, digests.file_digest(folder / name, asked.cache)[0])]
    except OSError:
        return None
    return make_key(asked.key, *parts, *(["tuned", taken] if taken else []))


def _has_changed(asked: Request, files: Sequence[Path]) -> bool:
    """True if the model's files, or the compiler's own, have changed since the request."""
    try:
        others = [max(found.st_mtime_ns, found.st_ctime_ns) for found in map(os.stat, files)]
        same = asked.path is None or digests.file_state(asked.path.stat()) == asked.state
    except OSError:
        return True
    return not same or max(others, default=0) > asked.began or digests.has_changed()


def _find_weights(cache: Cache, fingerprint: str) -> Weights | None:
    """The weights file, mapped. It is hashed again where it is not the file that was written."""
    path, descriptor = cache.path(WEIGHTS, fingerprint), cache.open(WEIGHTS, fingerprint)
    if descriptor is None:
        return None
    weights = _map(descriptor, path)
    if weights is None:
        cache.drop(path, "is damaged")
        return None
    seen = digests.file_state(os.fstat(weights.fileno()), own=True)
    if digests.recall_digest(path, seen, cache) != fingerprint:
        if weights.fingerprint != fingerprint or not weights.intact():
            cache.drop(path, "is damaged")
            return None
        digests.remember(path, seen, fingerprint, cache)
    store.touch(weights.fileno())
    return weights


def _map(descriptor: int, path: Path) -> Weights | None:
    """The weights of an open file; None if it has none."""
    try:
        return Weights.of_file(descriptor, str(path))
    except (ArtifactError, OSError):
        return None


def _keep_weights(cache: Cache, weights: Weights) -> None:
    path = cache.path(WEIGHTS, weights.fingerprint)
    if (descriptor := cache.open(WEIGHTS, weights.fingerprint)) is not None:
        store.touch(descriptor)
        os.close(descriptor)
        return
    if not cache.write_file(WEIGHTS, weights.fingerprint, weights.save):
        return
    try:
        digests.remember(path, digests.file_state(path.stat(), own=True), weights.fingerprint, cache)
    except FileNotFoundError:  # evicted at once
        return


def _intact_weights(descriptor: int, item: Item) -> bool:
    weights = _map(descriptor, item.path)
    return weights is not None and weights.fingerprint == item.key and weights.intact()
