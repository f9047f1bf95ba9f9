"""A program with sizes that only the run knows becomes a routine: steps on registers, which the runtime carries out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from ..core.errors import CompileError
from ..core.program import APPEND, COLLECT, COLLECTIONS, REPORT, RegisterType, Routine, Step
from ..dialects import func, ir, tw
from ..dialects.types import DYNAMIC
from ..dialects.walk import defining_op
from .ir.edit import is_cheap, node_names, string_attr
from .ir.kernel import stated_summed
from .ir.maps import reassociation_of
from .ir.routine_ops import (
    LOOPS_AND_BRANCHES,
    VIEWS,
    callee_of,
    is_append,
    is_body_call,
    is_choice,
    is_host_call,
    is_report,
)
from .ir.structure import is_tensor
from .ir.uses import has_uses

_SCALAR_DIALECTS = ("arith", "math", "index")
_TEXTS = (tw.ATTRIBUTES, tw.DTYPES)
_KEPT = (*VIEWS, "tensor.extract_slice", "tensor.dim", "tensor.extract", "func.call", "cf.assert", *LOOPS_AND_BRANCHES)


def plan_routine(function: func.FuncOp) -> Routine:
    """The routine of an outlined function, with those of the bodies that it calls in their places.

    Raises CompileError for an op that no routine has.
    """
    assert function.operation.parent is not None
    return _Planner(ir.SymbolTable(function.operation.parent)).routine(function.regions[0].blocks[0])


class _Planner:
    def __init__(self, symbols: ir.SymbolTable) -> None:
        self._symbols = symbols
        self._registers: dict[ir.Value, int] = {}
        self._numbers = count()

    def routine(self, block: ir.Block) -> Routine:
        """The steps of a block; its terminator's operands are the results."""
        arguments = tuple(map(self._new, block.arguments))
        steps, results = self._steps(block)
        types = tuple(map(_describe_type, block.arguments))
        return Routine(arguments, tuple(_with_dead(steps, results)), results, types)

    def _steps(self, block: ir.Block) -> tuple[list[Step], tuple[int, ...]]:
        """The steps of a block whose arguments are in registers, and the registers of what it ends with."""
        *ops, last = [op.operation for op in block.operations]
        steps = [step for op in ops if not _is_dropped(op) for step in self._carried_out(op)]
        return steps, tuple(self._registers[v] for v in last.operands)

    def _carried_out(self, op: ir.Operation) -> list[Step]:
        """The step of an op; of a call of a body, the body's."""
        body = self._body(op)
        if body is None:
            return [self._step(op)]
        self._registers.update(zip(body.arguments, (self._registers[v] for v in op.operands), strict=True))
        steps, results = self._steps(body)
        self._registers.update(zip(op.results, results, strict=True))
        return steps

    def _body(self, op: ir.Operation) -> ir.Block | None:
        """The block of the body that an op calls, if it does."""
        if not is_body_call(op):
            return None
        callee = self._symbols[callee_of(op)]
        return callee.operation.regions[0].blocks[0]

    def _new(self, value: ir.Value) -> int:
        return self._registers.setdefault(value, next(self._numbers))

    def _step(self, op: ir.Operation) -> Step:
        if op.name not in _KEPT and not _is_scalar(op) and not is_choice(op):
            raise CompileError(f"'{op.name}' is in no kernel{_show_node(op)}, and a program cannot carry it out")
        values = [*list(op.operands)[1:], op.operands[0]] if is_choice(op) else op.operands  # tensors come first
        operands = tuple(self._registers[v] for v in (*values, *_find_compared_sizes(op)))
        regions = tuple(self.routine(block) for region in op.regions for block in region.blocks)
        results = tuple(map(self._new, op.results))
        name = "host.call" if is_host_call(op) else "tensor.select" if is_choice(op) else op.name
        name = REPORT if is_report(op) else APPEND if is_append(op) else name
        name = COLLECT if name == "host.call" and string_attr(op.attributes, tw.HOST) in COLLECTIONS else name
        types = tuple(map(_describe_type, op.results))
        return Step(name, results, operands, _collect_facts(op), regions, (), _find_nodes(op), types)


def _is_dropped(op: ir.Operation) -> bool:
    return is_cheap(op) and not has_uses(op)


def _is_scalar(op: ir.Operation) -> bool:
    return op.name.split(".")[0] in _SCALAR_DIALECTS and not any(map(is_tensor, op.results))


def _collect_facts(op: ir.Operation) -> dict[str, Any]:
    """The facts of a step besides its operands."""
    facts: dict[str, Any] = {}
    match op.name:
        case "func.call" if is_report(op):
            facts["text"] = string_attr(op.attributes, tw.REPORT)
        case "func.call" if is_append(op):
            facts["input"] = ir.IntegerAttr(op.attributes[tw.STATE]).value
        case "func.call" if is_host_call(op):
            facts["function"] = string_attr(op.attributes, tw.HOST)
            facts["attributes"], facts["dtypes"] = (json.loads(string_attr(op.attributes, n) or "") for n in _TEXTS)
        case "func.call":
            facts["kernel"] = callee_of(op)
            facts["open"] = [_find_dynamic_axes(v) for v in op.operands if is_tensor(v)]
            if summed := stated_summed(op):
                facts["summed"] = [list(pair) for pair in summed]
            if tw.OVER in op.attributes:
                facts["over"] = ir.IntegerAttr(op.attributes[tw.OVER]).value
        case "tensor.collapse_shape":
            facts["groups"] = reassociation_of(op)
        case "tensor.expand_shape" | "tensor.cast":
            facts["shape"] = list(_describe_type(op.results[0])[1] or ())
        case "tensor.extract_slice":  # of which the program only reads elements and sizes
            facts |= _slice_facts(op)
        case "arith.constant":
            facts["value"] = _number_of(op.attributes["value"])
        case "arith.cmpi" | "arith.cmpf":
            facts["predicate"] = ir.IntegerAttr(op.attributes["predicate"]).value
        case "cf.assert":
            facts["text"] = ir.StringAttr(op.attributes["msg"]).value
    if _is_scalar(op) and op.operands:
        facts["bits"] = _bits(op.operands[0].type)
    return facts


def _find_compared_sizes(op: ir.Operation) -> list[ir.Value]:
    """The sizes whose comparison a check demands, which its message shows."""
    test = defining_op(op.operands[0]) if op.name == "cf.assert" else None
    compared = list(test.operands) if test is not None and test.name == "arith.cmpi" else []
    return compared if all(isinstance(value.type, ir.IndexType) for value in compared) else []


def _slice_facts(op: ir.Operation) -> dict[str, Any]:
    """Offsets, sizes and strides, None for those that are operands, and which axes the result keeps."""
    parts = [list(ir.DenseI64ArrayAttr(op.attributes[f"static_{name}"])) for name in ("offsets", "sizes", "strides")]
    open_ = (ir.ShapedType.get_dynamic_stride_or_offset(), DYNAMIC)
    known = [[None if n in open_ else n for n in numbers] for numbers in parts]
    wanted, kept = list(ir.RankedTensorType(op.results[0].type).shape), []
    for axis, size in enumerate(parts[1]):
        if wanted and size == wanted[0]:  # else it is 1, and left out
            kept.append(axis)
            wanted.pop(0)
    return {"offsets": known[0], "sizes": known[1], "strides": known[2], "kept": kept}


def _describe_type(value: ir.Value) -> RegisterType:
    if not is_tensor(value):
        return str(value.type), None
    kind = ir.RankedTensorType(value.type)
    return str(kind.element_type), tuple(None if n < 0 else n for n in kind.shape)


def _find_dynamic_axes(value: ir.Value) -> list[int]:
    return [axis for axis, n in enumerate(ir.RankedTensorType(value.type).shape) if n < 0]


def _bits(kind: ir.Type) -> int:
    return 64 if isinstance(kind, ir.IndexType) else int(getattr(kind, "width", 64))


def _number_of(attribute: ir.Attribute) -> int | float:
    if isinstance(attribute, ir.FloatAttr):
        return float(attribute.value)
    return int((attribute if isinstance(attribute, ir.BoolAttr) else ir.IntegerAttr(attribute)).value)


def _find_nodes(op: ir.Operation) -> tuple[str, ...]:
    if (names := op.attributes.get(tw.NODES, None)) is None:
        return tuple(node_names(op.location))
    return tuple(ir.StringAttr(name).value for name in ir.ArrayAttr(names))


def _show_node(op: ir.Operation) -> str:
    names = node_names(op.location)
    return f" (node '{names[0]}')" if names else ""


def _with_dead(steps: Sequence[Step], results: Iterable[int]) -> list[Step]:
    """The steps with the registers that each of them is the last to read, or makes for nobody."""
    wanted, made = set(results), []
    own = {register for step in steps for register in step.results}
    for step in reversed(steps):
        read = {*step.operands, *(r for region in step.regions for r in _collect_reads(region))}
        dead = tuple(sorted(r for r in (read | set(step.results)) & own if r not in wanted))
        wanted |= read
        made.append(replace(step, dead=dead))
    return made[::-1]


def _collect_reads(routine: Routine) -> set[int]:
    return {r for step in routine.walk() for r in step.operands} | set(routine.results)
