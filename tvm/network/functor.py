"""Walks over expressions: visitors that look, mutators that make others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .expr import Call, Constant, Expr, Function, GlobalVar, If, Let, Tuple, TupleGetItem, Var
from .text import post_order

# The method of a functor for each kind of expression.
_METHODS: dict[type, str] = {
    Call: "visit_call",
    Constant: "visit_constant",
    Function: "visit_function",
    GlobalVar: "visit_global_var",
    If: "visit_if",
    Let: "visit_let",
    Tuple: "visit_tuple",
    TupleGetItem: "visit_tuple_getitem",
    Var: "visit_var",
}


class ExprFunctor:
    """Calls a method for each kind of expression; of one that it has seen it has what that gave (``memo_map``)."""

    def __init__(self) -> None:
        self.memo_map: dict[Expr, Any] = {}

    def visit(self, expr: Any) -> Any:
        """What the method for this expression gives."""
        memo: dict[Expr, Any] = self.__dict__.setdefault("memo_map", {})
        if expr not in memo:
            memo[expr] = getattr(self, _METHODS[type(expr)])(expr)
        return memo[expr]


class ExprVisitor(ExprFunctor):
    """Visits all expressions that one is made of; methods that are overridden go on by ``super()``."""

    def visit_children(self, expr: Expr) -> None:
        """Visit what an expression is made of."""
        for each in expr.children:
            self.visit(each)

    visit_call = visit_constant = visit_function = visit_global_var = visit_children
    visit_if = visit_let = visit_tuple = visit_tuple_getitem = visit_var = visit_children


class ExprMutator(ExprFunctor):
    """Makes an expression of what its methods give for those that it is made of."""

    def visit_children(self, expr: Expr) -> Expr:
        """The expression, made of what its children become; itself where none changes."""
        made = [self.visit(each) for each in expr.children]
        if all(new is old for new, old in zip(made, expr.children, strict=True)):
            return expr
        return expr.rebuild(made)

    visit_call = visit_constant = visit_function = visit_global_var = visit_children
    visit_if = visit_let = visit_tuple = visit_tuple_getitem = visit_var = visit_children


def list_free_variables(expr: Any) -> list[Var]:
    """The variables of an expression that no function or let in it binds, in the order in which they are met."""
    bound: set[Var] = set()
    for each in post_order(expr):
        if isinstance(each, Function):
            bound.update(each.params)
        elif isinstance(each, Let):
            bound.add(each.var)
    return [each for each in post_order(expr) if isinstance(each, Var) and each not in bound]


def list_variables(expr: Any) -> list[Var]:
    """All variables of an expression, in the order in which they are met."""
    return [each for each in post_order(expr) if isinstance(each, Var)]


def visit_in_order(expr: Any, visit: Callable[[Expr], Any]) -> None:
    """Call a function for each expression, behind those that it is made of."""
    for each in post_order(expr):
        visit(each)


def replace_expressions(expr: Any, values: Mapping[Any, Expr]) -> Any:
    """An expression with others in the place of some; those of a function's parameters are none any more."""
    made: dict[int, Expr] = {}
    for each in post_order(expr):
        if each in values:
            made[id(each)] = values[each]
            continue
        children = [made[id(child)] for child in each.children]
        if isinstance(each, Function):
            kept = [new for new, old in zip(children, each.params, strict=False) if old not in values]
            children = [*kept, children[-1]]
        same = len(children) == len(each.children) and all(
            new is old for new, old in zip(children, each.children, strict=True)
        )
        made[id(each)] = each if same else each.rebuild(children)
    return made[id(expr)]
