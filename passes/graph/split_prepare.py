"""Moves values that depend on weights only to separate functions, which run once, ahead of time."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from ...dialects import func, ir, tw
from ...dialects.types import element_bits, nbytes
from ...dialects.walk import collect, defining_op
from ..infra.base import Pass
from ..ir.edit import (
    clone,
    erase_dead,
    fused_location,
    is_cheap,
    known_values,
    list_programs,
    program_order,
)
from ..ir.kernel import symbol_of
from ..ir.routine_ops import VIEWS, call_body, callee_of, is_body, is_body_call
from ..ir.signatures import describe_params, list_arguments, list_attributes, list_params, update_signature
from ..ir.structure import is_static, list_ops
from ..ir.uses import find_needed_values, nested_ops

# A value that is this much larger than what it is made from is cheaper to compute where it is used.
_GROWTH, _SMALL = 4, 1 << 20


def is_kept(made: int, sources: int) -> bool:
    """Return whether so many bytes, made of so many bytes of weights, are computed ahead of time."""
    return made <= max(_SMALL, _GROWTH * sources)


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

    So it is with the bodies of control flow (``outline-control``), to which ``@main`` then passes what is prepared;
    their arguments are no longer told apart from others. A param that ``@main`` no longer uses leaves its signature.
    Mere views of a param stay, and so do values that are much larger than what they are made from.
    """

    name: ClassVar[str] = "split-prepare"

    def apply(self, module: ir.Module) -> None:
        """Split the function ``@main`` and the bodies of its control flow; a module without one is left alone."""
        functions = {symbol_of(f): f for f in list_programs(module)}
        main = functions.get("main")
        if main is None:
            return
        prepared = _Prepared(module, {name for f in functions.values() for name in list_params(f).values()})
        calls = {callee_of(call): (f, call) for f in functions.values() for call in collect(f, is_body_call)}
        for name, body in reversed(functions.items()):  # what is called before its caller
            if is_body(body):
                _split(body, prepared)
                _pass_weights(body, *calls[name], calls)
        _split(main, prepared)
        _drop_arguments(main, _find_unused_params(main))


def _split(function: func.FuncOp, prepared: _Prepared) -> None:
    splitter = _Splitter(function, prepared)
    for op in list_ops(function):
        splitter.visit(op)
    splitter.finish()
    erase_dead(function)


@dataclass
class _Prepared:
    """The functions that prepare weights, by what they compute, and the names of all weights."""

    module: ir.Module
    names: set[str]
    made: dict[str, str] = field(default_factory=dict)  # names of prepared weights by a hash of what prepares them


class _Splitter:
    """Finds the values of a program to prepare, and moves them; equal ones once.

    All of the program is read before any of it changes.
    """

    def __init__(self, function: func.FuncOp, prepared: _Prepared) -> None:
        self.function, self.prepared = function, prepared
        self.params = list_params(function)
        self.arguments = {name: argument for argument, name in self.params.items()}
        self.known, self.neutral = known_values(function)
        self.order = program_order(function)
        self.kept: set[ir.Value] = set()
        self.replaced: list[tuple[ir.Operation, ir.Value, ir.Value]] = []  # user, operand, what is prepared of it
        self.added: list[str] = []  # the names of arguments that the signature does not have yet

    def visit(self, op: ir.Operation) -> None:
        """Note what an op of the program reads of prepared weights, unless the op itself is prepared with them."""
        if len(op.results) and all(r in self.known or r in self.neutral for r in op.results):
            return  # its users decide: what they read may depend on it
        self._find_operands(op)

    def finish(self) -> None:
        """Let the ops that were visited read prepared weights."""
        if self.added:
            told = list_attributes(self.function)[: len(list_arguments(self.function)) - len(self.added)]
            update_signature(self.function, [*told, *describe_params(self.added)])
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
                self.kept.add(source)  # it stays, but what it is made from may be worth preparing
                if (before := defining_op(source)) is not None:
                    self._find_operands(before)

    def _worth(self, value: ir.Value) -> bool:
        op = defining_op(value)
        if op is None or value not in self.known or not is_static(value) or is_cheap(op):
            return False
        slice_ = _slice_backward(value, self.order)
        if any(r in self.kept for o in slice_ if not is_cheap(o) for r in o.results):
            return False  # the program has most of it
        sources = {v for o in slice_ for v in find_needed_values(o) if v in self.params}
        return is_kept(_count_packed_bytes(op, value), sum(map(_wide_bytes, sources)))

    def _prepare(self, value: ir.Value) -> ir.Value:
        """The argument of the program that holds ``value``."""
        slice_ = _slice_backward(value, self.order)
        params = list(dict.fromkeys(v for op in slice_ for v in find_needed_values(op) if v in self.params))
        made, name = self.prepared.made, self._fresh_name(params)
        symbol = f"prepare_{len(made)}"
        function = _function(self.prepared.module, symbol, name, value, slice_, params, self.params)
        key = _hash_function(function)
        if key in made:
            function.operation.erase()
        else:
            made[key] = name
            self.prepared.names.add(name)
        if made[key] not in self.arguments:
            block = self.function.regions[0].blocks[0]
            self.arguments[made[key]] = block.add_argument(value.type, fused_location(slice_))
            self.added.append(made[key])
        return self.arguments[made[key]]

    def _fresh_name(self, params: list[ir.Value]) -> str:
        stem = self.params[max(params, key=_bytes)] if params else "constant"
        name, i = f"{stem}.prepared", 1
        while name in self.prepared.names:
            name, i = f"{stem}.prepared.{i}", i + 1
        return name


def _add_param(function: func.FuncOp, name: str, kind: ir.Type, location: ir.Location) -> ir.Value:
    attributes = [*list_attributes(function), *describe_params([name])]
    argument = function.regions[0].blocks[0].add_argument(kind, location)
    update_signature(function, attributes)
    return argument


def _pass_weights(
    body: func.FuncOp,
    caller: func.FuncOp,
    call: ir.Operation,
    calls: dict[str, tuple[func.FuncOp, ir.Operation]],
) -> None:
    """Let the call of a body pass the weights that it now reads; they are the caller's, and no more the body's own."""
    given, names = list(call.operands), list_params(body)
    of_caller = {name: value for value, name in list_params(caller).items()}
    for argument in list_arguments(body)[len(given) :]:
        name = names[argument]
        given.append(of_caller.get(name) or _add_param(caller, name, argument.type, argument.location))
    unused = _find_unused_params(body)
    operands = [value for i, value in enumerate(given) if i not in unused]
    _drop_arguments(body, unused)
    update_signature(body, describe_params([""] * len(operands)))
    with ir.InsertionPoint(call), call.location:
        made = call_body(callee_of(call), [r.type for r in call.results], operands)
    for old, new in zip(call.results, made.results, strict=True):
        old.replace_all_uses_with(new)
    calls[callee_of(call)] = caller, made
    call.erase()


def _find_unused_params(function: func.FuncOp) -> set[int]:
    """The numbers of the arguments that are weights and that nothing reads."""
    params = list_params(function)
    return {i for i, a in enumerate(list_arguments(function)) if a in params and not any(True for _ in a.uses)}


def _drop_arguments(function: func.FuncOp, numbers: set[int]) -> None:
    attributes = [a for i, a in enumerate(list_attributes(function)) if i not in numbers]
    for number in sorted(numbers, reverse=True):
        function.regions[0].blocks[0].erase_argument(number)
    update_signature(function, attributes)


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
        update_signature(function, describe_params([names[p] for p in params]))
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


def _bytes(value: ir.Value) -> int:
    return nbytes(value.type)


def _count_packed_bytes(op: ir.Operation, value: ir.Value) -> int:
    """Bytes of what an op makes. What fills the last of packed blocks does not count, unless it is more than the rest:
    transformed filters of 48 or 208 channels were packed by each run, those of 64 or 192 ahead of time."""
    made = _bytes(value)
    return max(_bytes(op.operands[0]), made // 2) if op.name == "linalg.pack" else made


def _wide_bytes(value: ir.Value) -> int:
    """Bytes of a tensor, of narrow elements in 32 bits: what a quantised weight has that becomes floats."""
    return _bytes(value) * max(32 // element_bits(ir.RankedTensorType(value.type).element_type), 1)
