"""Memory between guard zones, and patterns that tell what was never written: see "Guarded runs" in docs/runtime.md."""

from __future__ import annotations

import math
import os
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache

import numpy as np

from ...core.arena import ALIGNMENT
from ...core.errors import GuardError
from ..artifact.manifest import Manifest
from ..artifact.weights import Weights, load_params
from ..tensors.pool import MemoryPool
from ..tensors.tensor import aligned_bytes

_ZONE, _FARTHEST = 1 << 16, 1 << 24  # bytes on each side, the least; of tensors with longer rows a row
# Of a zone: a NaN for whoever reads it as floats of any width, no small number, and no run of equal bytes.
_GUARD = np.array([0xFFFDFFA5], np.uint32).view(np.uint8)
# Two patterns by width in bytes, of floats signalling NaN: what moves one leaves it so, arithmetic makes it quiet.
_FLOAT_PATTERNS = {4: (0x7FA5A5A5, 0x7F9A9A9A), 8: (0x7FF5A5A5A5A5A5A5, 0x7FF49A9A9A9A9A9A)}
_QUIET = {4: 1 << 22, 8: 1 << 51}
_OTHERS = {
    1: (0xA5, 0x5A),
    2: (0xFFA5, 0xFF9A),
    4: (0xA5A5A5A5, 0x5A5A5A5A),
    8: (0xA5A5A5A5A5A5A5A5, 0x5A5A5A5A5A5A5A5A),
}


def is_guarding() -> bool:
    """Return whether the user asks for guarded runs, which detect wrong writes of kernels."""
    return os.environ.get("TILEWRIGHT_DEBUG", "") not in ("", "0")


class Guarded:
    """A buffer between two zones; ``label`` is what errors call it."""

    __slots__ = ("label", "nbytes", "owner", "start", "zone")

    def __init__(self, owner: np.ndarray, start: int, nbytes: int, zone: int) -> None:
        self.owner = weakref.ref(owner)  # whose views keep it alive
        self.start, self.nbytes, self.zone = start, nbytes, zone
        self.label = "a buffer"

    def guard(self, owner: np.ndarray) -> None:
        """Fill both zones."""
        for zone, pattern in self._zones(owner):
            zone[:] = pattern

    def damage(self, owner: np.ndarray) -> str:
        """Describe what was written to a zone; "" if nothing was."""
        (before, known), (behind, expected) = self._zones(owner)
        if (wrong := before != known).any():
            return f"{self.zone - int(np.argmax(wrong))} bytes before {self.label}"
        if (wrong := behind != expected).any():
            return f"{self.zone - int(np.argmax(wrong[::-1]))} bytes behind {self.label}"
        return ""

    def _zones(self, owner: np.ndarray) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
        """Each zone with what it should hold; words lie at multiples of their width."""
        end, pattern = self.start + self.nbytes, _guard(self.zone)
        before = owner[self.start - self.zone : self.start], pattern[: self.zone]
        return before, (owner[end : end + self.zone], pattern[self.nbytes % 4 :][: self.zone])


class Guards(MemoryPool):
    """Lends memory that lies between guard zones and is filled with a pattern, each time new one.

    Several threads may use it; what each has made is its own.
    """

    def __init__(self) -> None:
        super().__init__()
        self._buffers: dict[int, Guarded] = {}
        self._mine = threading.local()

    def lend(self, shape: tuple[int, ...], dtype: np.dtype) -> tuple[np.ndarray, int]:
        """An array of this shape, aligned to 64 bytes, that holds the pattern of ``filling``; and its address."""
        nbytes = math.prod(shape) * dtype.itemsize
        row = shape[-1] * dtype.itemsize if shape and nbytes else 0
        zone = max(_ZONE, _round_to_power(row), getattr(self._mine, "zone", 0))
        owner = aligned_bytes(2 * zone + nbytes)
        owner = owner if owner.base is None else owner.base
        start = zone + -owner.ctypes.data % ALIGNMENT
        buffer = Guarded(owner, start, nbytes, zone)
        buffer.guard(owner)
        array = owner[start : start + nbytes].view(dtype).reshape(shape)
        fill(array, getattr(self._mine, "pattern", 0))
        self._buffers[id(buffer)] = buffer
        if hasattr(self._mine, "made"):
            self._mine.made.append(buffer)
        return array, array.ctypes.data

    def copy(self, array: np.ndarray, label: str) -> np.ndarray:
        """A copy of the array, which errors call ``label``."""
        with self.recording_allocations() as made:
            copied = self.array(array.shape, array.dtype)
        made[0].label = label
        copied[...] = array
        return copied

    @contextmanager
    def recording_allocations(self, pattern: int = 0, reach: int = 0) -> Iterator[list[Guarded]]:
        """Fill what this thread makes meanwhile with one of the patterns, and note it.

        Who writes it may go so many bytes too far: who takes another tensor's extents for a result's, as far as that.
        """
        before = dict(self._mine.__dict__)
        self._mine.pattern, self._mine.made, self._mine.zone = pattern, [], _round_to_power(min(reach, _FARTHEST))
        try:
            yield self._mine.made
        finally:
            self._mine.__dict__.clear()
            self._mine.__dict__.update(before)

    def damage(self) -> str:
        """Describe, once, what was written to the zones of any buffer in use; "" if nothing was."""
        found = ""
        for key, buffer in list(self._buffers.items()):
            owner = buffer.owner()
            if owner is None:
                self._buffers.pop(key, None)
            elif text := buffer.damage(owner):
                found = found or text
                buffer.guard(owner)
        return found


def _round_to_power(nbytes: int) -> int:
    return 1 << (nbytes - 1).bit_length() if nbytes else 0


def fill(array: np.ndarray, which: int) -> None:
    """Fill an array with one of the patterns, 0 or 1."""
    words, pattern, _ = _view_words(array, which)
    words.fill(pattern)


def find_unwritten(array: np.ndarray, which: int) -> np.ndarray:
    """Which elements, in a row, hold the pattern, or the NaN that arithmetic makes of it."""
    words, pattern, quiet = _view_words(array, which)
    found = words | quiet == pattern | quiet if quiet else words == pattern
    return found.reshape(array.size, -1).all(axis=1) if array.size else found


def copied_weights(guards: Guards, manifest: Manifest, weights: Weights | None) -> list[np.ndarray]:
    """The weights between guard zones."""
    arrays = load_params(weights, manifest.params, manifest.fingerprint)
    return [guards.copy(array, f"weight '{info.name}'") for array, info in zip(arrays, manifest.params, strict=True)]


def describe_call(kernel: str, nodes: Sequence[str], operands: Sequence[str], results: Sequence[str]) -> str:
    """How an error begins: which kernel was called on what."""
    names = ", ".join(f"'{name}'" for name in nodes)
    inside = f"node {names}" if len(nodes) == 1 else f"nodes {names}" if names else "no node of the model"
    made = f" to make {', '.join(results)}," if results else ","
    return f"kernel '{kernel}' ({inside}), called on {', '.join(operands) or 'nothing'}{made}"


def refuse_unwritten(begin: str, place: str, shape: Sequence[int], missing: np.ndarray) -> None:
    """Raise GuardError where elements are missing."""
    if count := int(np.count_nonzero(missing)):
        at = [int(i) for i in np.unravel_index(int(np.argmax(missing)), tuple(shape))]
        raise GuardError(f"{begin} {count} of the {missing.size} elements of {place}, the first at {at}")


def _view_words(array: np.ndarray, which: int) -> tuple[np.ndarray, np.unsignedinteger, np.unsignedinteger | None]:
    """An array's memory as words in a row, the pattern of one, and the bit that makes a NaN quiet."""
    dtype = array.dtype
    width = min(dtype.itemsize // (2 if dtype.kind == "c" else 1), 8)
    kind = np.dtype(f"u{width}").type
    floating = dtype.kind in "fc" and width in _FLOAT_PATTERNS
    pattern = (_FLOAT_PATTERNS if floating else _OTHERS)[width][which]
    return array.reshape(-1).view(kind), kind(pattern), kind(_QUIET[width]) if floating else None


@lru_cache
def _guard(zone: int) -> np.ndarray:
    return np.resize(_GUARD, zone + 4)
