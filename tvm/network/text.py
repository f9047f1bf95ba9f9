"""Expressions as text, in relay's notation: an operation a line, with the type that it has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from .types import Type

_SUFFIXES = {"float32": "f", "float64": "f64", "float16": "f16", "int32": "", "int64": "i64", "bool": ""}


class Node(Protocol):
    """What is printed: an expression says which it is made of, and how it is written with the names of these."""

    inline: bool

    @property
    def children(self) -> tuple[Any, ...]:
        """The expressions that it is made of."""
        ...

    def describe(self, name: Callable[[Any], str]) -> str:
        """Its text, where ``name`` gives those of its children."""
        ...

    @property
    def known_type(self) -> Type | None:
        """Its type, where that was inferred."""
        ...


class Names:
    """The names of expressions in a text: numbers for operations, those of variables where no two are alike."""

    def __init__(self) -> None:
        self.known: dict[int, str] = {}
        self._taken: set[str] = set()
        self._numbers = 0
        self._constants = 0

    def number(self) -> str:
        """The next number, as ``%0``."""
        self._numbers += 1
        return f"%{self._numbers - 1}"

    def number_constant(self) -> str:
        """The text of the next constant that is no single number."""
        self._constants += 1
        return f"meta[relay.Constant][{self._constants - 1}]"

    def claim(self, wanted: str) -> str:
        """A name that nothing else has: the one that is wanted, or that with a number."""
        name, count = wanted, 0
        while name in self._taken:
            count += 1
            name = f"{wanted}_{count}"
        self._taken.add(name)
        return name


def print_function(params: Sequence[Node], body: Node, names: Names, head: str = "fn ", indent: str = "") -> str:
    """A function: its parameters, the lines of its body, and what it gives."""
    for each in params:
        names.known[id(each)] = f"%{names.claim(each.describe(str))}"
    declared = [names.known[id(each)] + _annotate(each.known_type, ": ") for each in params]
    gives = _annotate(body.known_type, " -> ")
    lines = [*_print_body(body, names, f"{indent}  ")]
    return "\n".join([f"{head}({', '.join(declared)}){gives} {{", *lines, f"{indent}}}"])


def print_expression(expr: Node) -> str:
    """An expression alone: the lines of all that it is made of."""
    return "\n".join(_print_body(expr, Names(), ""))


def print_scalar(array: np.ndarray) -> str:
    """A number with the letters of its dtype, as ``2f``."""
    dtype = str(array.dtype)
    value = array.item()
    digits = f"{value:g}" if isinstance(value, float) else str(value)
    return digits + _SUFFIXES.get(dtype, f" /* {dtype} */")


def _print_body(expr: Node, names: Names, indent: str) -> Iterator[str]:
    def name_of(child: Node) -> str:
        if id(child) not in names.known:
            names.known[id(child)] = _name_inline(child, names, name_of, indent)
        return names.known[id(child)]

    for each in post_order(expr):
        if id(each) in names.known or each.inline or each is expr:
            continue
        if hasattr(each, "name_hint"):  # that no function has as a parameter
            yield f"{indent}free_var {name_of(each)}{_annotate(each.known_type, ': ')};"
            continue
        text = each.describe(name_of)
        names.known[id(each)] = names.number()
        yield f"{indent}{names.known[id(each)]} = {text}{_comment(each.known_type)};"
    if id(expr) in names.known or expr.inline:
        yield f"{indent}{name_of(expr)}"
    else:
        yield f"{indent}{expr.describe(name_of)}{_comment(expr.known_type)}"


def _name_inline(child: Any, names: Names, name_of: Callable[[Any], str], indent: str) -> str:
    params = getattr(child, "params", None)
    if params is not None:
        return print_function(params, child.body, names, indent=indent)
    if hasattr(child, "data"):
        return print_scalar(child.data.numpy()) if not child.data.shape else names.number_constant()
    if hasattr(child, "name_hint"):
        return f"%{names.claim(child.describe(str))}"
    return child.describe(name_of)


def post_order(expr: Any) -> Iterator[Any]:
    """All expressions that one is made of, each once, behind those that it is made of itself."""
    seen: set[int] = set()
    stack = [(expr, False)]
    while stack:
        each, ready = stack.pop()
        if ready:
            yield each
        elif id(each) not in seen:
            seen.add(id(each))
            stack.append((each, True))
            stack += [(child, False) for child in reversed(each.children) if id(child) not in seen]


def print_attributes(attributes: Mapping[str, Any]) -> str:
    """Attributes as arguments of a call."""
    return "".join(f", {name}={_print_value(value)}" for name, value in attributes.items())


def _print_value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_print_value, value))}]"
    return f'"{value}"' if isinstance(value, str) else f"{value:g}f" if isinstance(value, float) else str(value)


def _annotate(known: Type | None, before: str) -> str:
    return "" if known is None else f"{before}{known}"


def _comment(known: Type | None) -> str:
    return "" if known is None else f" /* ty={known} */"
