"""Random numbers as a function of a seed and of an element's index: Threefry-2x32 with 20 rounds.

Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011). Each element is computed by itself, so the numbers
do not depend on threads or on how the loops are cut. A program gives the same ones each time it runs, and a node in the
body of a loop in each iteration.
"""

from __future__ import annotations

import zlib

import numpy as np

from ....dialects import arith, ir, math, scalars
from ..state.context import Context

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_ROUNDS = 20

Words = tuple[ir.Value, ir.Value]


def key_of(ctx: Context, seed: float | int | None) -> tuple[int, int]:
    """The generator's key: the seed's bits, or without one a hash of the node's name, so that nodes differ."""
    if seed is None:
        return zlib.crc32(ctx.name.encode()), 1
    if isinstance(seed, int):
        return seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF
    return int(np.float32(seed).view(np.uint32)), 0


def draw_words(key: tuple[int, int], number: ir.Value) -> Words:
    """Two words of 32 random bits for an index, which counts elements."""
    wide, word = ir.IntegerType.get_signless(64), ir.IntegerType.get_signless(32)
    count = scalars.from_index(number, wide)
    low, high = arith.trunci(word, count), arith.trunci(word, arith.shrui(count, scalars.like(count, 32)))
    return _encrypt(key, (low, high))


def to_uniform(random: ir.Value, type_: ir.Type, digits: int) -> ir.Value:
    """A number of [0, 1) of a compute type from a word, or two as 64 bits; all that have ``digits`` binary digits."""
    kept = arith.shrui(random, scalars.like(random, scalars.width(random) - digits))
    return scalars.mul(arith.uitofp(type_, kept), scalars.const(2.0**-digits, type_))


def join_words(pair: Words) -> ir.Value:
    """Both words as 64 bits."""
    wide = ir.IntegerType.get_signless(64)
    low, high = (arith.extui(wide, word) for word in pair)
    return arith.ori(low, arith.shli(high, scalars.like(high, 32)))


def to_normal(pair: Words, type_: ir.Type) -> ir.Value:
    """A number of the standard normal distribution, by Box and Muller; at most 6.8 from zero."""
    first, second = (arith.uitofp(type_, word) for word in pair)
    above_zero = scalars.mul(scalars.add(first, scalars.like(first, 0.5)), scalars.like(first, 2.0**-32))
    radius = math.sqrt(scalars.mul(scalars.like(first, -2), math.log(above_zero)))
    return scalars.mul(radius, math.cos(scalars.mul(second, scalars.like(second, 2 * np.pi * 2.0**-32))))


def _encrypt(key: tuple[int, int], counter: Words) -> Words:
    """The counter after the rounds, with a word of the key added before the first and after every fourth."""
    schedule = (*key, key[0] ^ key[1] ^ _PARITY)
    left, right = (scalars.add(word, scalars.like(word, part)) for word, part in zip(counter, key, strict=True))
    for block in range(_ROUNDS // 4):
        for rotation in _ROTATIONS[block % 2]:
            left = scalars.add(left, right)
            right = arith.xori(_rotate(right, rotation), left)
        left = scalars.add(left, scalars.like(left, schedule[(block + 1) % 3]))
        right = scalars.add(right, scalars.like(right, schedule[(block + 2) % 3] + block + 1))
    return left, right


def _rotate(word: ir.Value, count: int) -> ir.Value:
    return arith.ori(arith.shli(word, scalars.like(word, count)), arith.shrui(word, scalars.like(word, 32 - count)))
