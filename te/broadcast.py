"""Arithmetic of whole tensors, whose axes of one element repeat."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from .expr import refuse_expression


class TensorArithmetic:
    """The operators of tensors: ``a + b`` is the tensor of the sums of elements, ``2 * a`` that of products.

    Raises ExpressionError for shapes that do not fit.
    """

    def __add__(self, other: Any) -> Any:
        return combine(operator.add, (self, other), "T_add")

    def __radd__(self, other: Any) -> Any:
        return combine(operator.add, (other, self), "T_add")

    def __sub__(self, other: Any) -> Any:
        return combine(operator.sub, (self, other), "T_subtract")

    def __rsub__(self, other: Any) -> Any:
        return combine(operator.sub, (other, self), "T_subtract")

    def __mul__(self, other: Any) -> Any:
        return combine(operator.mul, (self, other), "T_multiply")

    def __rmul__(self, other: Any) -> Any:
        return combine(operator.mul, (other, self), "T_multiply")

    def __truediv__(self, other: Any) -> Any:
        return combine(operator.truediv, (self, other), "T_divide")

    def __rtruediv__(self, other: Any) -> Any:
        return combine(operator.truediv, (other, self), "T_divide")

    def __neg__(self) -> Any:
        return combine(operator.neg, (self,), "T_negative")

    def compute(self, shape: Sequence[Any], element: Callable[..., Any], name: str) -> Any:
        """A tensor of an ``element`` at each index, as ``te.compute`` makes it."""
        raise NotImplementedError


def combine(function: Callable[..., Any], operands: Sequence[Any], name: str) -> Any:
    """The tensor of a function of tensors, element by element, and of numbers.

    Raises ExpressionError for shapes that do not fit.
    """
    tensors = [each for each in operands if isinstance(each, TensorArithmetic)]
    shape = join_shapes(tensors, name)
    return tensors[0].compute(shape, lambda *i: function(*(read_repeated(each, i) for each in operands)), name)


def join_shapes(tensors: Sequence[Any], name: str) -> list[Any]:
    """The shape of what is made of tensors, whose axes of one element repeat; ExpressionError where they do not fit."""
    rank = max(each.ndim for each in tensors)
    made: list[Any] = [1] * rank
    for each in tensors:
        for axis, extent in enumerate(each.shape, rank - each.ndim):
            if made[axis] == 1:
                made[axis] = extent
            elif extent not in (1, made[axis]):
                shown = " and ".join(f"({', '.join(map(str, tensor.shape))})" for tensor in tensors)
                refuse_expression(f"'{name}' of shapes {shown}: {made[axis]} and {extent} differ")
    return made


def read_repeated(data: Any, indices: Sequence[Any]) -> Any:
    """The element of a tensor at the last of some indices, the first along axes of one element; a number is itself."""
    if not isinstance(data, TensorArithmetic):
        return data
    tensor: Any = data
    own = indices[len(indices) - tensor.ndim :]
    return tensor(*(0 if extent == 1 else index for index, extent in zip(own, tensor.shape, strict=True)))
