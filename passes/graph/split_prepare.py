"""Moves values that depend on weights only to separate functions, which run once, ahead of time."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from ...dialects import func, ir, tw
from ...dialects.types import element_bits, nbytes
from ...dialects.walk import defining_op
from ..infra.base import Pass
from ..ir.edit import (
    clone,
    erase_dead,
    fused_location,
    is_cheap,
    known_values,
    list_programs,
    program_order,
    string_attr,
)
from ..ir.routine_ops import VIEWS
from ..ir.structure import is_static, list_ops
from ..ir.uses import find_needed_values, nested_ops

# A value that is this much larger than what it is made from is cheaper to compute where it is used.
_GROWTH, _SMALL = 4, 1 << 20


@dataclass(frozen=True)
class SplitPrepare(Pass):
    """Move each tensor that depends on params and constants alone to a function ``@prepare_<i>``.

    Before::

        func.func @main(%x, %w {tw.param = "w"}) {
          %p = linalg.pack %w ...
          %y = use(%x, %p)

    After::

        func.func private @prepare_0(%w {tw.param = "w"}) -> tensor attributes {tw.prepares = "w.prepared"} {
          %p = linalg.pack %w ...
          return %p
        }
        func.func @main(%x, %p {tw.param = "w.prepared"}) {
          %y = use(%x, %p)

    A param that ``@main`` no longer uses leaves its signature. Mere views of a param stay, and so do values that are
    much larger than what they are made from.
    """

    name: ClassVar[str] = "split-prepare"

    def apply(self, module: ir.Module) -> None:
        """Split the function ``@main``; a module without one is left alone."""
        main = next((f for f in list_programs(module) if string_attr(f.attributes, "sym_name") == "main"), None)
        if main is None:
            return
        splitter = _Splitter(module, main)
        for op in list_ops(main):
            splitter.visit(op)
        splitter.finish()
        erase_dead(main)
        _drop_unused_params(main)


class _Splitter:
    """Finds the values to prepare, and moves them; equal ones once.

    All of ``@main`` is read before any of it changes.
    """

    def __init__(self, module: ir.Module, main: func.FuncOp) -> None:
        self.module, self.main = module, main
        self.params = {a: name for a, name in zip(_arguments(main), _param_names(main), strict=True) if name}
        self.names = set(self.params.values())
        self.known, self.neutral = known_values(main)
        self.made: dict[str, ir.Value] = {}
        self.order = program_order(main)
        self.kept: set[ir.Value] = set()
        self.replaced: list[tuple[ir.Operation, ir.Value, ir.Value]] = []  # user, operand, what is prepared of it

    def visit(self, op: ir.Operation) -> None:
        """Note what an op of ``@main`` reads of prepared weights, unless the op itself is prepared with them."""
        if len(op.results) and all(r in self.known or r in self.neutral for r in op.results):
            return  # its users decide: what they read may depend on it
        self._find_operands(op)

    def finish(self) -> None:
        """Let the ops that were visited read prepared weights."""
        for op, value, argument in self.replaced:
            chain = _views_below(value)
            mapping = {chain[0].operands[0] if chain else value: argument}
            with ir.InsertionPoint(op):
                for view in chain:
                    clone(view, mapping)
            for user in (op, *nested_ops(op)):
                user.replace_uses_of_with(value, mapping[value])

    def _find_operands(self, op: ir.Operation) -> None:
        for value in find_needed_values(op):
            chain = _views_below(value)
            source = chain[0].operands[0] if chain else value
            if self._worth(source):
                self.replaced.append((op, value, self._prepare(source)))
            elif source not in self.kept and (source in self.known or source in self.neutral):
                self.kept.add(source)  # it stays in @main, but what it is made from may be worth preparing
                if (before := defining_op(source)) is not None:
                    self._find_operands(before)

    def _worth(self, value: ir.Value) -> bool:
        op = defining_op(value)
        if op is None or value not in self.known or not is_static(value) or is_cheap(op):
            return False
        slice_ = _slice_backward(value, self.order)
        if any(r in self.kept for o in slice_ if not is_cheap(o) for r in o.results):
            return False  # @main has most of it
        sources = {v for o in slice_ for v in find_needed_values(o) if v in self.params}
        return _bytes(value) <= max(_SMALL, _GROWTH * sum(map(_wide_bytes, sources)))

    def _prepare(self, value: ir.Value) -> ir.Value:
        """The new argument of ``@main`` that holds ``value``."""
        slice_ = _slice_backward(value, self.order)
        params = list(dict.fromkeys(v for op in slice_ for v in find_needed_values(op) if v in self.params))
        name = self._fresh_name(params)
        function = _function(self.module, f"prepare_{len(self.made)}", name, value, slice_, params, self.params)
        key = _hash_function(function)
        if key in self.made:
            function.operation.erase()
        else:
            self.made[key] = self._argument(value, name)
            self.names.add(name)
        return self.made[key]

    def _fresh_name(self, params: list[ir.Value]) -> str:
        stem = self.params[max(params, key=_bytes)] if params else "constant"
        name, i = f"{stem}.prepared", 1
        while name in self.names:
            name, i = f"{stem}.prepared.{i}", i + 1
        return name

    def _argument(self, value: ir.Value, name: str) -> ir.Value:
        block = self.main.regions[0].blocks[0]
        attributes = [*_argument_attrs(self.main), ir.DictAttr.get({tw.PARAM: ir.StringAttr.get(name)})]
        argument = block.add_argument(value.type, fused_location(_slice_backward(value, self.order)))
        _set_signature(self.main, attributes)
        return argument


def _views_below(value: ir.Value) -> list[ir.Operation]:
    """The views, also of a packed weight, through which ``value`` sees another value; the lowest first."""
    chain: list[ir.Operation] = []
    op = defining_op(value)
    while op is not None and op.name in (*VIEWS, "linalg.unpack"):
        chain.insert(0, op)
        op = defining_op(op.operands[0])
    return chain


def _slice_backward(value: ir.Value, order: Mapping[ir.Value, int]) -> list[ir.Operation]:
    """The ops that compute ``value``, in program order."""
    found: dict[ir.Operation, None] = {}
    pending = [defining_op(value)]
    while pending:
        op = pending.pop()
        if op is not None and op not in found:
            found[op] = None
            pending.extend(defining_op(v) for v in find_needed_values(op))
    return sorted(found, key=lambda op: order.get(op.results[0], 0))


def _function(
    module: ir.Module,
    symbol: str,
    prepares: str,
    value: ir.Value,
    slice_: list[ir.Operation],
    params: list[ir.Value],
    names: Mapping[ir.Value, str],
) -> func.FuncOp:
    location = fused_location(slice_)
    with ir.InsertionPoint(module.body), location:
        function = func.FuncOp(symbol, ([p.type for p in params], [value.type]), visibility="private")
        function.attributes[tw.PREPARES] = ir.StringAttr.get(prepares)
        block = function.add_entry_block([location] * len(params))
        attributes = [ir.DictAttr.get({tw.PARAM: ir.StringAttr.get(names[p])}) for p in params]
        function.attributes["arg_attrs"] = ir.ArrayAttr.get(attributes)
        mapping: dict[ir.Value, ir.Value] = dict(zip(params, block.arguments, strict=True))
        with ir.InsertionPoint(block):
            for op in slice_:
                clone(op, mapping)
            func.ReturnOp([mapping[value]])
    return function


def _hash_function(function: func.FuncOp) -> str:
    """A hash of a function's text without its name and locations: equal ones compute the same from the same params."""
    symbol, prepares = (function.attributes[name] for name in ("sym_name", tw.PREPARES))
    function.attributes["sym_name"] = ir.StringAttr.get("f")
    del function.attributes[tw.PREPARES]
    text = str(function.operation.get_asm(enable_debug_info=False, use_local_scope=True))
    function.attributes["sym_name"], function.attributes[tw.PREPARES] = symbol, prepares
    return hashlib.sha256(text.encode()).hexdigest()


def _arguments(function: func.FuncOp) -> list[ir.Value]:
    return list(function.regions[0].blocks[0].arguments)


def _argument_attrs(function: func.FuncOp) -> list[ir.DictAttr]:
    attributes = function.attributes.get("arg_attrs", None)
    if attributes is None:
        return [ir.DictAttr.get({}) for _ in _arguments(function)]
    return [ir.DictAttr(a) for a in ir.ArrayAttr(attributes)]


def _param_names(function: func.FuncOp) -> list[str | None]:
    return [string_attr(a, tw.PARAM) for a in _argument_attrs(function)]


def _set_signature(function: func.FuncOp, attributes: list[ir.DictAttr]) -> None:
    """Make the type say what the entry block says."""
    inputs = [a.type for a in _arguments(function)]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, function.type.results))
    function.attributes["arg_attrs"] = ir.ArrayAttr.get(attributes)


def _drop_unused_params(function: func.FuncOp) -> None:
    attributes = _argument_attrs(function)
    block = function.regions[0].blocks[0]
    for i in reversed(range(len(attributes))):
        if tw.PARAM in attributes[i] and not any(True for _ in block.arguments[i].uses):
            block.erase_argument(i)
            del attributes[i]
    _set_signature(function, attributes)


def _bytes(value: ir.Value) -> int:
    return nbytes(value.type)


def _wide_bytes(value: ir.Value) -> int:
    """Bytes of a tensor, of narrow elements in 32 bits: what a quantised weight has that becomes floats."""
    return _bytes(value) * max(32 // element_bits(ir.RankedTensorType(value.type).element_type), 1)
