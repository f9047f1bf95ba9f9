"""Words of four bytes: sums of products of their bytes, as ops of scalars or vectors, and how to find these again."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from ...dialects import arith, builders, ir, scalars
from ...dialects.walk import defining_op
from .dot_instructions import GROUP
from .dynamic_sizes import note_sizes
from .edit import splat_of


def add_byte_products(unsigned: ir.Value, signed: ir.Value, total: ir.Value) -> ir.Value:
    """``total`` and the products of the bytes of two words (i32), of which one has unsigned bytes and one signed ones.

    ``read_byte_products`` knows the ops that this makes, also as ops of vectors. The last one alone takes the total.
    """
    products = []
    for place in range(GROUP):
        low = arith.shrui(unsigned, scalars.like(unsigned, 8 * place)) if place else unsigned
        byte = arith.andi(low, scalars.like(low, 255)) if place < GROUP - 1 else low
        high = arith.shli(signed, scalars.like(signed, 24 - 8 * place)) if place < GROUP - 1 else signed
        products.append(arith.muli(byte, arith.shrsi(high, scalars.like(high, 24))))
    return arith.addi(total, functools.reduce(arith.addi, products))


def join_bytes(source: ir.Value, axis: int) -> ir.Value:
    """Words of the four bytes along an axis of a tensor, which goes; the first byte is the lowest."""
    sizes, word = note_sizes(source), ir.IntegerType.get_signless(8 * GROUP)
    count = len(sizes) - 1
    kept = list(map(ir.AffineExpr.get_dim, range(count)))

    def read_byte(place: int) -> ir.AffineMap:
        return ir.AffineMap.get(count, 0, [*kept[:axis], ir.AffineExpr.get_constant(place), *kept[axis:]])

    def body(*arguments: ir.Value) -> ir.Value:
        made, *others = (arith.extui(word, byte) for byte in arguments[:GROUP])
        for place, byte in enumerate(others, 1):
            made = arith.ori(made, arith.shli(byte, scalars.like(byte, 8 * place)))
        return made

    out, maps = builders.empty([*sizes[:axis], *sizes[axis + 1 :]], word), list(map(read_byte, range(GROUP)))
    return builders.generic([source] * GROUP, [out], [*maps, range(count)], "p" * count, body)[0]


@dataclass(frozen=True)
class Words:
    """Words spread over a vector: a scalar, or a vector along the last dim, or ``along_rows`` along the first one."""

    value: ir.Value
    along_rows: bool = False


def read_byte_products(op: ir.Operation) -> tuple[Words, Words, ir.Value] | None:
    """The words of unsigned and of signed bytes, and the sum so far, of the last op that ``add_byte_products`` makes.

    None for any other op.
    """
    words, factors = set[tuple[Words, Words]](), _list_factors(op)
    for place, (one, other) in enumerate(factors):
        unsigned, signed = _read_byte(one, place), _read_signed(other, place)
        if unsigned is None or signed is None:
            return None
        words.add((unsigned, signed))
    return (*words.pop(), op.operands[0]) if len(words) == 1 else None


def _list_factors(op: ir.Operation) -> list[tuple[ir.Value, ir.Value]]:
    """What is multiplied in the sum of as many products as a word has bytes that an op adds; nothing of others."""
    if op.name != "arith.addi":
        return []
    products, added = [], defining_op(op.operands[1])
    while added is not None and added.name == "arith.addi" and len(products) < GROUP - 1:
        products.append(defining_op(added.operands[1]))
        added = defining_op(added.operands[0])
    products.append(added)
    if len(products) < GROUP or any(each is None or each.name != "arith.muli" for each in products):
        return []
    return [(each.operands[0], each.operands[1]) for each in reversed(products) if each is not None]


def _read_byte(value: ir.Value, place: int) -> Words | None:
    """The word of which a value is an unsigned byte."""
    masked = _undo(_strip_spread(Words(value)), "arith.andi", 255) if place < GROUP - 1 else _strip_spread(Words(value))
    return _undo(masked, "arith.shrui", 8 * place) if place else masked


def _read_signed(value: ir.Value, place: int) -> Words | None:
    """The word of which a value is a signed byte."""
    high = _undo(_strip_spread(Words(value)), "arith.shrsi", 24)
    return _undo(high, "arith.shli", 24 - 8 * place) if place < GROUP - 1 else high


def _undo(words: Words | None, name: str, number: int) -> Words | None:
    """What an op of words and a number takes."""
    op = defining_op(words.value) if words is not None else None
    if words is None or op is None or op.name != name or splat_of(_strip_spread(Words(op.operands[1])).value) != number:
        return None
    return _strip_spread(Words(op.operands[0], words.along_rows))


def _strip_spread(words: Words) -> Words:
    """What is spread by ops that repeat it."""
    while (op := defining_op(words.value)) is not None and op.name in ("vector.broadcast", "vector.transpose"):
        words = Words(op.operands[0], words.along_rows != (op.name == "vector.transpose"))
    return words
