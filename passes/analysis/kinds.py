"""The kinds of ops, which ``classify_op`` tells apart. A dim is the number of a loop of the op.

They are what fusion groups by and what schedules are made for.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Contraction:
    """``out[batch, m, n] += lhs[batch, m, k] * rhs[batch, k, n]``; ``lhs`` and ``rhs`` are operand numbers."""

    batch: tuple[int, ...]
    m: tuple[int, ...]
    n: tuple[int, ...]
    k: tuple[int, ...]
    lhs: int = 0
    rhs: int = 1

    @property
    def weight(self) -> int:
        """The right operand: the one that a dense layer, like a convolution, has its weight in."""
        return self.rhs


@dataclass(frozen=True)
class Conv:
    """``out[n, g, f, o] += data[n, g, c, o * stride + k * dilation] * weight[g, f, c, k]``.

    ``o[i]``, ``k[i]``, ``strides[i]`` and ``dilations[i]`` belong to the i-th spatial dim in the order of the data's
    dims; ``data`` and ``weight`` are operand numbers.
    """

    n: tuple[int, ...]
    g: tuple[int, ...]
    f: tuple[int, ...]
    o: tuple[int, ...]
    c: tuple[int, ...]
    k: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    data: int = 0
    weight: int = 1


@dataclass(frozen=True)
class DepthwiseConv:
    """``out[n, c, f, o] += data[n, c, o * stride + k * dilation] * weight[c, f, k]``: filters of each channel.

    ``f`` has no loops where there is one filter for each.
    """

    n: tuple[int, ...]
    c: tuple[int, ...]
    o: tuple[int, ...]
    k: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    data: int = 0
    weight: int = 1
    f: tuple[int, ...] = ()


@dataclass(frozen=True)
class Pooling:
    """``out[parallel, o] = reduce(data[parallel, o * stride + k * dilation])`` over the window dims ``k``.

    The body may also take elements of other operands at the place of the result.
    """

    parallel: tuple[int, ...]
    o: tuple[int, ...]
    k: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    data: int = 0


@dataclass(frozen=True)
class Transform:
    """``out[…, p] += data[…, i] * matrix[p, i]`` with small constant matrices, one for each reduction loop.

    ``data`` is an operand number, ``matrices[r]`` that of the matrix whose columns the r-th reduction loop walks.
    """

    parallel: tuple[int, ...]
    reduction: tuple[int, ...]
    data: int
    matrices: tuple[int, ...]


@dataclass(frozen=True)
class Reduction:
    """Any other reduction whose operands are indexed by loops alone; may have several results (argmax)."""

    parallel: tuple[int, ...]
    reduction: tuple[int, ...]


@dataclass(frozen=True)
class Elementwise:
    """Each element of the result from the elements at the same place of operands of the same shape."""

    parallel: tuple[int, ...]


@dataclass(frozen=True)
class Broadcast:
    """Elementwise, where some operand lacks some of the loops (or has a constant 0 for them)."""

    parallel: tuple[int, ...]


@dataclass(frozen=True)
class Injective:
    """Each element of the result from elements at other places: permutations, index maps, gathers in the body."""

    parallel: tuple[int, ...]


@dataclass(frozen=True)
class Fill:
    """One scalar in every element."""

    parallel: tuple[int, ...]


@dataclass(frozen=True)
class Opaque:
    """Nothing is known: an op that is no structured op, or a body or maps of no known kind."""


OpClass = (
    Contraction
    | Conv
    | DepthwiseConv
    | Pooling
    | Transform
    | Reduction
    | Elementwise
    | Broadcast
    | Injective
    | Fill
    | Opaque
)
