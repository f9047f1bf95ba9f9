"""Shapes that a converter declares of its operands: the notation, read into plain data.

``"x[n c +s] w[group*m c/group *kernel_shape:s] b[group*m]"`` is Conv's. Each operand has the name of an input of the
converter, and a term for each of its axes:

    4, _            this extent, any extent
    n               an extent that has a name: the same wherever the name stands
    c/group, k-1    arithmetic (+ - * /) of names, numbers and attributes, which are integers; ``/`` leaves no rest
    *s, +s          any number of axes, one or more; the same extents wherever the name stands
    *k:s            as many axes as s has
    *kernel_shape   the numbers of an attribute, where it is given

A name means an extent, or several, unless an attribute bears it. ``*_`` is ``_`` for any number of axes. Of several
names in one term all but one stand in a term before; the last is solved for. What is wrong raises ValueError.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ....core.sizes import Extent

_OPERAND = re.compile(r"\s*(\w+)\[([^\[\]]*)\]\s*")
_SEVERAL = re.compile(r"([*+])([A-Za-z_]\w*)(?::([A-Za-z]\w*))?")
_OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}


@dataclass(frozen=True)
class Arithmetic:
    """An operator between two expressions."""

    operator: str
    left: Expression
    right: Expression


Expression = int | str | Arithmetic  # a number, a name, or what is computed of them


@dataclass(frozen=True)
class One:
    """A term of one axis; without an expression its extent may be any."""

    text: str
    expression: Expression | None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names in the expression, as often as they stand there."""
        return tuple(names_in(self.expression))

    @cached_property
    def quotients(self) -> tuple[Arithmetic, ...]:
        """The divisions in the expression that leave no rest."""
        return tuple(_quotients_in(self.expression))


@dataclass(frozen=True)
class Several:
    """A term of any number of axes, at least ``least``; as many as ``like`` has, where that is given."""

    text: str
    name: str
    least: int
    like: str | None


Term = One | Several


@dataclass(frozen=True)
class Operand:
    """An input and the terms of its axes."""

    name: str
    terms: tuple[Term, ...]

    @property
    def text(self) -> str:
        """The terms as they are written."""
        return f"[{' '.join(term.text for term in self.terms)}]"

    def place(self, rank: int) -> list[tuple[Term, range]] | None:
        """The axes of each term in a shape of this rank; None where the terms have another number of them."""
        rest = rank - sum(isinstance(term, One) for term in self.terms)
        least = next((term.least for term in self.terms if isinstance(term, Several)), None)
        if rest < (least or 0) or (least is None and rest):
            return None
        placed, start = [], 0
        for term in self.terms:
            end = start + (1 if isinstance(term, One) else rest)
            placed.append((term, range(start, end)))
            start = end
        return placed


def parse_shapes(text: str, signature: inspect.Signature) -> tuple[Operand, ...]:
    """The operands of a declaration of shapes for a converter of this signature, whose first parameter is ctx."""
    parameters = list(signature.parameters.values())[1:]
    inputs = {p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD}
    attributes = {p.name: p.annotation in (int, "int") for p in parameters if p.kind is p.KEYWORD_ONLY}
    operands: list[Operand] = []
    at = 0
    while at < len(text):
        if (found := _OPERAND.match(text, at)) is None:
            raise ValueError(f"'{text[at:]}' does not begin with an operand, as x[n c]")
        operands.append(Operand(found[1], tuple(_parse_term(term) for term in found[2].split())))
        at = found.end()
    for name in (operand.name for operand in operands):
        if name not in inputs:
            raise ValueError(f"'{name}' is no input")
    if len({operand.name for operand in operands}) < len(operands):
        raise ValueError("an input is there twice")
    _check_names(operands, inputs, attributes)
    return tuple(operands)


def names_in(expression: Expression | None) -> Iterator[str]:
    """The names in an expression, as often as they stand there."""
    if isinstance(expression, Arithmetic):
        yield from names_in(expression.left)
        yield from names_in(expression.right)
    elif isinstance(expression, str):
        yield expression


def _quotients_in(expression: Expression | None) -> Iterator[Arithmetic]:
    if isinstance(expression, Arithmetic):
        yield from [expression] if expression.operator == "/" else []
        yield from _quotients_in(expression.left)
        yield from _quotients_in(expression.right)


def find_value(expression: Expression, known: Mapping[str, Extent]) -> Extent | None:
    """The value of an expression; None where a division of numbers leaves a rest, or a divisor is less than 1."""
    if not isinstance(expression, Arithmetic):
        return known[expression] if isinstance(expression, str) else expression
    left, right = find_value(expression.left, known), find_value(expression.right, known)
    if left is None or right is None:
        return None
    match expression.operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
    if isinstance(right, int) and (right < 1 or (isinstance(left, int) and left % right)):
        return None
    return left // right


def solve_for(expression: Expression, name: str, value: Extent, known: Mapping[str, Extent]) -> Extent | None:
    """What the name has to be for the expression to have a value, rounded down; None where a factor is less than 1."""
    if not isinstance(expression, Arithmetic):
        return value
    on_left = name in names_in(expression.left)
    inner, outer = (expression.left, expression.right)[:: 1 if on_left else -1]
    other = find_value(outer, known)
    if other is None:
        return None
    match expression.operator:
        case "+":
            value = value - other
        case "-":
            value = value + other if on_left else other - value
        case "*":
            if isinstance(other, int) and other < 1:
                return None
            value = value // other
        case _:
            value = value * other
    return solve_for(inner, name, value, known)


def _parse_term(text: str) -> Term:
    if several := _SEVERAL.fullmatch(text):
        return Several(text, several[2], int(several[1] == "+"), several[3])
    try:
        return One(text, None if text == "_" else _convert(ast.parse(text, mode="eval").body))
    except (SyntaxError, KeyError):
        raise ValueError(f"'{text}' is no term") from None


def _convert(node: ast.AST) -> Expression:
    """Python's tree as ours; KeyError for what is none of ours."""
    match node:
        case ast.BinOp(left, operator, right):
            return Arithmetic(_OPERATORS[type(operator)], _convert(left), _convert(right))
        case ast.Name(name) if name != "_":
            return name
        case ast.Constant(int(number)) if not isinstance(number, bool):
            return number
    raise KeyError(node)


def _check_names(operands: Sequence[Operand], inputs: set[str], attributes: Mapping[str, bool]) -> None:
    """Refuse names that mean two things, and terms that cannot be solved for what no term before says.

    ``attributes`` says of each whether it is one integer.
    """
    single: set[str] = set()
    several: set[str] = set()
    for operand in operands:
        if sum(isinstance(term, Several) for term in operand.terms) > 1:
            raise ValueError(f"{operand.text} of '{operand.name}' has two terms of any number of axes")
        for term in operand.terms:
            if isinstance(term, One):
                _check_expression(term, single, attributes)
                single.update(term.names)
                continue
            if term.like is not None and term.like not in several:
                raise ValueError(f"'{term.text}': no term before it says how many axes '{term.like}' has")
            if attributes.get(term.name):
                raise ValueError(f"'{term.text}': the attribute is one number")
            several.add(term.name)
    if twice := (single & several) | ((single | several) & inputs):
        raise ValueError(f"'{min(twice)}' means two things")


def _check_expression(term: One, before: set[str], attributes: Mapping[str, bool]) -> None:
    if wrong := [name for name in term.names if not attributes.get(name, True)]:
        raise ValueError(f"'{term.text}': the attribute '{wrong[0]}' is no integer")
    extents = [name for name in term.names if name not in attributes]
    if term.expression is not None and any(not _is_solvable(term.expression, name) for name in extents):
        raise ValueError(f"'{term.text}' cannot be solved for each of its names")
    if len(unknown := [name for name in extents if name not in before]) > 1:
        raise ValueError(f"'{term.text}': no term before it says {' or '.join(unknown)}")


def _is_solvable(expression: Expression, name: str) -> bool:
    """Whether ``solve_for`` finds what the name is: it stands once, and in no divisor."""
    if not isinstance(expression, Arithmetic):
        return expression == name
    left, right = (name in names_in(side) for side in (expression.left, expression.right))
    if left == right or (right and expression.operator == "/"):
        return False
    return _is_solvable(expression.left if left else expression.right, name)
