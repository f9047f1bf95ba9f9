"""Tables in which each of many known keys has a place of its own, found by two multiplications and one look.

A key's hash chooses a bucket, and the bucket's displacement is added to another hash of the key ("hash and displace",
Fox and others, 1992). Numbers that are none of the keys have a place as well: who asks compares the key there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

MOST_KEYS = 1 << 16  # a larger table takes long to make
_BUCKET = 3  # keys of a bucket, about
_FILLED = 0.75  # share of the places that have a key, at most
_ATTEMPTS = 8
_TRIED_AT_ONCE = 64
_LOWER_HALF = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True)
class PerfectHash:
    """Multipliers of 32 bits, displacements of the buckets, and the keys' places.

    The upper half of a wide key is added to its lower one, times ``fold``. The upper bits of a product with ``choose``
    are the bucket's number; those of one with ``place``, plus the displacement, are the place, modulo ``size``.
    """

    fold: int
    choose: int
    place: int
    displacements: np.ndarray
    places: np.ndarray
    size: int


def make_perfect_hash(keys: np.ndarray) -> PerfectHash | None:
    """A hash of different keys, given by their bits (uint32 or uint64); None where some attempts find none."""
    if not 1 < keys.size <= MOST_KEYS:
        return None
    random = np.random.default_rng(0)
    buckets = max(2, 1 << int(keys.size // _BUCKET).bit_length())
    for attempt in range(_ATTEMPTS):
        size = 1 << (int(keys.size / _FILLED).bit_length() + attempt // 3)
        fold, choose, place = (int(n) | 1 for n in random.integers(1 << 28, 1 << 32, 3))
        words = _fold_halves(keys, fold)
        first, second = _hash_words(words, choose, buckets), _hash_words(words, place, size)
        if (found := _displace(first, second, buckets, size)) is not None:
            return PerfectHash(fold, choose, place, *found, size)
    return None


def _fold_halves(keys: np.ndarray, fold: int) -> np.ndarray:
    wide = keys.astype(np.uint64)
    return (wide + (wide >> np.uint64(32)) * np.uint64(fold)) & _LOWER_HALF if keys.dtype.itemsize > 4 else wide


def _hash_words(words: np.ndarray, multiplier: int, count: int) -> np.ndarray:
    product = (words * np.uint64(multiplier)) & _LOWER_HALF
    return (product >> np.uint64(32 - (count - 1).bit_length())).astype(np.int64)


def _displace(first: np.ndarray, second: np.ndarray, buckets: int, size: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Displacements with which no two keys meet, those of the fullest buckets first, and the keys' places."""
    order = np.argsort(first, kind="stable")
    begins = np.searchsorted(first[order], np.arange(buckets + 1))
    counts = np.diff(begins)
    displacements, places = np.zeros(buckets, np.int32), np.zeros(first.size, np.int64)
    free = np.ones(size, bool)
    for bucket in np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]:
        members = order[begins[bucket] : begins[bucket + 1]]
        own = second[members]
        if np.unique(own).size < own.size:
            return None
        shift = _find_free(free, own, size)
        if shift is None:
            return None
        displacements[bucket], places[members] = shift, (own + shift) & (size - 1)
        free[places[members]] = False
    return displacements, places


def _find_free(free: np.ndarray, own: np.ndarray, size: int) -> int | None:
    for start in range(0, size, _TRIED_AT_ONCE):
        shifts = np.arange(start, min(start + _TRIED_AT_ONCE, size))
        fits = free[(own + shifts[:, None]) & (size - 1)].all(axis=1)
        if fits.any():
            return int(shifts[np.argmax(fits)])
    return None
