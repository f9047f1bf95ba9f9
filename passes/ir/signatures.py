"""Signatures of programs: which arguments are weights, and what those are called."""

from __future__ import annotations

from collections.abc import Sequence

from ...dialects import func, ir, tw
from ...dialects.walk import list_items


def list_arguments(function: func.FuncOp) -> list[ir.Value]:
    """The arguments, as those of the entry block."""
    return list(function.regions[0].blocks[0].arguments)


def list_attributes(function: func.FuncOp) -> list[ir.DictAttr]:
    """The attributes of each argument."""
    attributes = function.attributes.get("arg_attrs", None)
    if attributes is None:
        return [ir.DictAttr.get({}) for _ in list_arguments(function)]
    return [ir.DictAttr(a) for a in list_items(ir.ArrayAttr(attributes))]


def name_of_param(attributes: ir.DictAttr) -> str:
    """The name of the weight that an argument is; "" for what is none."""
    return ir.StringAttr(attributes[tw.PARAM]).value if tw.PARAM in attributes else ""


def list_params(function: func.FuncOp) -> dict[ir.Value, str]:
    """The arguments that are weights, and their names."""
    named = zip(list_arguments(function), map(name_of_param, list_attributes(function)), strict=True)
    return {argument: name for argument, name in named if name}


def describe_params(names: Sequence[str]) -> list[ir.DictAttr]:
    """The attributes of arguments that are weights of these names; "" for what is none."""
    return [ir.DictAttr.get({tw.PARAM: ir.StringAttr.get(name)} if name else {}) for name in names]


def update_signature(function: func.FuncOp, attributes: Sequence[ir.DictAttr]) -> None:
    """Make the function's type say what the entry block says, with these attributes of its arguments."""
    inputs = [argument.type for argument in list_arguments(function)]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, function.type.results))
    function.attributes["arg_attrs"] = ir.ArrayAttr.get(list(attributes))
