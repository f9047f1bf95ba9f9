"""Whether two expressions are written alike."""

from __future__ import annotations

from typing import Any

import numpy as np

from .expr import Call, Constant, Function, GlobalVar, If, Let, Op, Tuple, TupleGetItem, Var
from .module import IRModule


def structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> bool:
    """Whether expressions, or modules, are made alike of alike ones; variables that are bound may have other names.

    Free variables have to be the same ones, without ``map_free_vars``.
    """
    if isinstance(lhs, IRModule) and isinstance(rhs, IRModule):
        left, right = ({each.name_hint: own for each, own in mod.functions.items()} for mod in (lhs, rhs))
        return left.keys() == right.keys() and all(structural_equal(left[name], right[name]) for name in left)
    return _Comparison(map_free_vars).compare(lhs, rhs)


def assert_structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> None:
    """Raise ValueError, as TVM does, where ``structural_equal`` finds a difference."""
    if not structural_equal(lhs, rhs, map_free_vars):
        raise ValueError(f"the structures differ:\n{lhs}\n{rhs}")


class _Comparison:
    def __init__(self, free: bool) -> None:
        self.free = free
        self._pairs: dict[int, Any] = {}

    def compare(self, left: Any, right: Any) -> bool:
        """Whether two expressions are alike; what was found so before is not looked at again."""
        stack = [(left, right)]
        while stack:
            one, other = stack.pop()
            if id(one) in self._pairs:
                if self._pairs[id(one)] is not other:
                    return False
                continue
            if type(one) is not type(other) or not self._is_alike(one, other):
                return False
            self._pairs[id(one)] = other
            stack += zip(_parts(one), _parts(other), strict=True)
        return True

    def _is_alike(self, one: Any, other: Any) -> bool:
        if isinstance(one, Var):
            return one is other or (self.free and one.type_annotation == other.type_annotation)
        if isinstance(one, Constant):
            return one.known_type == other.known_type and np.array_equal(one.data.numpy(), other.data.numpy())
        if isinstance(one, Function):
            return len(one.params) == len(other.params) and self._bind(one.params, other.params)
        if isinstance(one, Let):
            return self._bind([one.var], [other.var])
        if isinstance(one, Call) and isinstance(one.op, Op) and one.op != other.op:
            return False
        if isinstance(one, Call):
            return dict(one.attrs) == dict(other.attrs) and len(_parts(one)) == len(_parts(other))
        if isinstance(one, TupleGetItem):
            return one.index == other.index
        if isinstance(one, GlobalVar):
            return one.name_hint == other.name_hint
        return isinstance(one, If | Tuple) and len(_parts(one)) == len(_parts(other))

    def _bind(self, ours: Any, theirs: Any) -> bool:
        for one, other in zip(ours, theirs, strict=True):
            if one.type_annotation != other.type_annotation:
                return False
            self._pairs[id(one)] = other
        return True


def _parts(expr: Any) -> tuple[Any, ...]:
    return expr.children
