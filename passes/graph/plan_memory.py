"""From a function of calls to a program: where each argument of each call lies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...dialects import func, ir
from ...dialects.types import nbytes
from ...errors import CompileError
from ...program import Call, Slot
from ..infra import Pass
from .arena import Buffer, assign
from .edit import VIEWS, is_cheap, is_static, node_names, operations, producer, programs

_SLOTS, _ARENA = "tw.slots", "tw.arena_bytes"


@dataclass(frozen=True)
class PlanMemory(Pass):
    """Note on each call where its arguments and results lie, and on the function how large the arena is.

    Before::

        %a = call @conv_1(%x, %w)
        %b = call @relu_2(%a)
        return %b

    After::

        %a = call @conv_1(%x, %w) {tw.slots = ["input0", "param0", "arena+0"]}
        %b = call @relu_2(%a) {tw.slots = ["arena+0", "output0"]}

    A view lies where its source lies; results of the function are written where the caller wants them.
    """

    name: ClassVar[str] = "plan-memory"

    def apply(self, module: ir.Module) -> None:
        """Annotate all programs; raises CompileError for what is neither a call nor a view."""
        for function in programs(module):
            calls, arena_bytes = plan_calls(function)
            ops = [op for op in operations(function) if op.name == "func.call"]
            for op, call in zip(ops, calls, strict=True):
                op.attributes[_SLOTS] = ir.ArrayAttr.get([ir.StringAttr.get(str(slot)) for slot in call.args])
            function.attributes[_ARENA] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), arena_bytes)


def plan_calls(function: func.FuncOp) -> tuple[tuple[Call, ...], int]:
    """The calls of an outlined function with the slots of their arguments, and the size of the arena in bytes."""
    ops = [op for op in operations(function) if op.name not in VIEWS and not is_cheap(op)]
    calls, ret = ops[:-1], ops[-1]
    _refuse_others(calls)
    slots = _argument_slots(function) | _result_slots(ret)
    arena, arena_bytes = _arena_slots(calls, slots)
    slots |= arena
    planned = []
    for op in calls:
        callee = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
        args = tuple(_slot(slots, v, op) for v in (*op.operands, *op.results))
        planned.append(Call(callee, args, _nodes(op)))
    return tuple(planned), arena_bytes


def _refuse_others(calls: list[ir.Operation]) -> None:
    for op in calls:
        if op.name != "func.call":
            raise CompileError(f"pass 'plan-memory': '{op.name}' is no kernel call {_where(op)}; run `outline` first")
        if not all(is_static(r) for r in op.results):
            raise CompileError(f"the size of a result is known only at run time {_where(op)}; give --input-shape")


def _slot(slots: dict[ir.Value, Slot], value: ir.Value, call: ir.Operation) -> Slot:
    base = _base(value)
    source = producer(base)
    if source is not None and source.name != "func.call":
        raise CompileError(f"pass 'plan-memory': '{source.name}' is in no kernel {_where(call)}; run `outline` first")
    return slots[base]


def _where(op: ir.Operation) -> str:
    names = node_names(op.location)
    return f"(node '{names[0]}')" if names else f"({op.location})"


def _nodes(op: ir.Operation) -> tuple[str, ...]:
    names = op.attributes.get("tw.nodes", None)
    return tuple(ir.StringAttr(n).value for n in ir.ArrayAttr(names)) if names is not None else ()


def _base(value: ir.Value) -> ir.Value:
    while (op := producer(value)) is not None and op.name in VIEWS:
        value = op.operands[0]
    return value


def _argument_slots(function: func.FuncOp) -> dict[ir.Value, Slot]:
    """Inputs and params, each counted on their own in the order of the signature."""
    arguments = list(function.regions[0].blocks[0].arguments)
    attributes = function.attributes.get("arg_attrs", None)
    known = [ir.DictAttr(a) for a in ir.ArrayAttr(attributes)] if attributes is not None else []
    params = [a for a, attrs in zip(arguments, known, strict=False) if "tw.param" in attrs]
    inputs = [a for a in arguments if a not in params]
    return {a: Slot("param", i) for i, a in enumerate(params)} | {a: Slot("input", i) for i, a in enumerate(inputs)}


def _result_slots(ret: ir.Operation) -> dict[ir.Value, Slot]:
    slots: dict[ir.Value, Slot] = {}
    for i, value in enumerate(ret.operands):
        base = _base(value)
        source = producer(base)
        if base in slots or source is None or source.name != "func.call":
            raise CompileError(f"pass 'plan-memory': result {i} is no result of its own; run `outline` first")
        slots[base] = Slot("output", i)
    return slots


def _arena_slots(calls: list[ir.Operation], known: dict[ir.Value, Slot]) -> tuple[dict[ir.Value, Slot], int]:
    """Offsets of the intermediates, by the calls that write and read them."""
    lives: dict[ir.Value, tuple[int, int]] = {}
    for step, op in enumerate(calls):
        for value in (*map(_base, op.operands), *op.results):
            if value not in known:
                lives[value] = (lives.get(value, (step, step))[0], step)
    offsets, total = assign([Buffer(nbytes(v.type), first, last) for v, (first, last) in lives.items()])
    return {v: Slot("arena", 0, offset) for v, offset in zip(lives, offsets, strict=True)}, total
