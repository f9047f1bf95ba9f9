"""The packed layout of a weight, as the kernel's schedule wants it."""

from __future__ import annotations

from dataclasses import dataclass

from ....core.target import Target


@dataclass(frozen=True)
class Packing:
    """Blocking of a contraction's right operand: ``[n / n_tile][k...][n_tile]``, zero-padded to whole blocks."""

    n_tile: int


def contraction_packing(n: int, bits: int, target: Target) -> Packing | None:
    """Block for a weight with ``n`` output channels of elements with ``bits`` bits; None where packing does not pay.

    Two vector registers of sums wide, as the register tile is; one where a second would be padding alone.
    """
    lanes = {8: target.dot_product.lanes, 64: target.lanes // 2}.get(bits, target.lanes)
    if n < 2:
        return None
    return Packing(lanes if n <= lanes else 2 * lanes)


def block_packing(n: int, target: Target, high: bool) -> Packing:
    """Block for a weight of ``n`` columns that kernels unpack: wider, since what is unpacked takes registers, too.

    Of many registers four vectors of floats, else two; of fewer columns as many vectors as hold them. Tiles of two
    vectors have twice the rows, and unpack half as often: where they are so ``high``, they take 0.8 to 0.87 of the time
    (16 to 512 rows, Emerald Rapids). Rows that lie a page apart push each other out of a small first cache: with 64 of
    them they took up to twice as long (Zen 5).
    """
    most = 4 if target.registers >= 32 and not high else 2
    return Packing(next((count for count in (1, 2) if n <= count * target.lanes), most) * target.lanes)
