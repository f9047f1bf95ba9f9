"""Whether the cache can have a model's program, as far as that is known before all that answers it is imported."""

from __future__ import annotations

from pathlib import Path

from ...core.own_files import cache_folder
from .store import INDEXED_BYTES, entry_path, make_key


def is_new(model: str) -> bool:
    """Return whether the user's cache has never seen a model's file, as it remembers the hashes of large ones.

    A compilation of it is sure to need a worker; of a small file nobody knows before the cache has been asked.
    """
    try:
        path = Path(model).resolve(strict=True)
        large = path.is_file() and path.stat().st_size >= INDEXED_BYTES
        return large and not entry_path(cache_folder(), "digests", make_key(str(path))).exists()
    except OSError:
        return False
