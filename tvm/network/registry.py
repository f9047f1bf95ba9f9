"""The table of relay's operators: how each becomes nodes of ONNX, and the function by which scripts call it.

A conversion has the signature that the operator has in relay, behind the writer:

    @operator("nn.relu")
    def relu(w: Writer, data: Value) -> Value:
        return w.node("Relu", data)

Parameters that are annotated as a ``Value`` take expressions, all others are attributes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...core.errors import ModelError
from .expr import Attrs, Call, Expr, Op, TupleWrapper, as_expr, const

Conversion = Callable[..., Any]
Count = Callable[[Attrs, Sequence[Expr]], int]


@dataclass(frozen=True)
class Operator:
    """An operator: its name, its conversion, and the parameters of that which are expressions.

    ``several`` are those that take a tuple, ``numeric`` those that take numbers, too;
    ``count`` gives how many results a call has, by its attributes and operands, 0
    for one that is no tuple.
    """

    name: str
    convert: Conversion
    signature: inspect.Signature
    operands: tuple[str, ...]
    several: tuple[str, ...]
    numeric: tuple[str, ...]
    count: Count | None


TABLE: dict[str, Operator] = {}
FUNCTIONS: dict[str, Callable[..., Any]] = {}  # what scripts call


def operator(name: str, results: int | Count = 1) -> Callable[[Conversion], Callable[..., Any]]:
    """Put a conversion into the table, and give the function that makes a call of the operator."""

    def register(convert: Conversion) -> Callable[..., Any]:
        signature = inspect.signature(convert)
        signature = signature.replace(parameters=list(signature.parameters.values())[1:])
        kinds = {each.name: str(each.annotation) for each in signature.parameters.values()}
        operands = tuple(each for each, kind in kinds.items() if kind.startswith("Value"))
        several = tuple(each for each, kind in kinds.items() if kind.startswith("Values"))
        numeric = tuple(each for each in operands if "float" in kinds[each])
        count = results if callable(results) else None if results == 1 else _count(results)
        entry = TABLE[name] = Operator(name, convert, signature, operands, several, numeric, count)

        def call(*args: Any, **named: Any) -> Any:
            return _make_call(entry, args, named)

        call.__name__ = call.__qualname__ = name.rpartition(".")[2]
        call.__doc__ = convert.__doc__
        call.__signature__ = signature  # type: ignore[attr-defined]  # what help() shows
        call.op_name = name  # type: ignore[attr-defined]  # by which tuning knows the operator
        FUNCTIONS[name] = call
        return call

    return register


def _count(number: int) -> Count:
    return lambda _attrs, _operands: number


def _make_call(entry: Operator, args: Sequence[Any], named: dict[str, Any]) -> Any:
    try:
        bound = entry.signature.bind(*args, **named)
    except TypeError as error:
        raise TypeError(f"relay.{entry.name}: {error}") from None
    given = bound.arguments
    operands = [_make_operand(entry, each, given[each]) for each in entry.operands if given.get(each) is not None]
    attributes = {
        each.name: given.get(each.name, each.default)
        for each in entry.signature.parameters.values()
        if each.name not in entry.operands
    }
    left_out = [each for each in entry.operands if given.get(each) is None]
    if left_out != list(entry.operands[len(operands) :]):  # an operand of those before is left out
        attributes["_operands"] = [each for each in entry.operands if given.get(each) is not None]
    shown = {each: attributes[each] for each in attributes if _is_shown(entry, each, attributes[each])}
    attrs = Attrs(attributes, shown)
    call = Call(Op(entry.name), operands, attrs)
    number = entry.count(attrs, operands) if entry.count else 0
    return TupleWrapper(call, number) if number else call


def _make_operand(entry: Operator, name: str, value: Any) -> Expr:
    if name in entry.numeric and isinstance(value, int | float):
        return const(value)
    return as_expr(value, entry.name)


def _is_shown(entry: Operator, name: str, value: Any) -> bool:
    if name not in entry.signature.parameters:
        return False
    default = entry.signature.parameters[name].default
    return not (default is value or (type(default) is type(value) and default == value))


def find_operator(name: str) -> Operator:
    """The operator of a name. Raises ModelError where there is none."""
    if name not in TABLE:
        raise ModelError(f"relay has no operator '{name}' here: docs/tvm.md lists what there is")
    return TABLE[name]


def arguments_of(entry: Operator, call: Call, values: Sequence[Any]) -> dict[str, Any]:
    """The arguments of a conversion, of what its operands have become. Raises ModelError for a wrong number."""
    names = call.attrs.get("_operands") or list(entry.operands[: len(values)])
    if len(names) != len(values):
        raise ModelError(f"relay.{entry.name}: takes {len(entry.operands)} operands, not {len(values)}")
    return {
        **{each: call.attrs[each] for each in call.attrs if each != "_operands"},
        **dict(zip(names, values, strict=True)),
    }
