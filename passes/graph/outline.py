"""Each group of ops becomes a function of its own: a kernel."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...dialects import builders, func, ir, tensor, tw
from ...dialects.walk import collect, defining_op
from ..analysis.op_words import name_ops
from ..analysis.summed import state_summed
from ..infra.base import ModuleForm, Pass
from ..ir.dynamic_sizes import emit_dynamic_sizes
from ..ir.edit import (
    clone,
    erase_dead,
    fused_location,
    is_cheap,
    is_size,
    list_programs,
    needs_routine,
    node_names,
    program_order,
    replace,
)
from ..ir.kernel import integer_attr, list_functions
from ..ir.kernel import is_dynamic_kernel as is_dynamic_kernel
from ..ir.routine_ops import (
    VIEWS,
    base_of,
    is_append,
    is_body,
    is_body_call,
    is_choice,
    is_control,
    is_external_call,
    is_host_call,
    is_no_kernel,
    is_operator_call,
)
from ..ir.structure import is_tensor, list_ops
from ..ir.uses import find_needed_values, nested_ops, top_level
from ..verify.sizes import state_sizes


@dataclass(frozen=True)
class Outline(Pass):
    """Move each group to a private function on the values that it captures, and call it; equal kernels exist once.

    Before::

        %c = linalg.generic {convolution} ins(%x, %w) {tw.group = 0} loc("conv1")
        %r = linalg.generic {relu} ins(%c) {tw.group = 0} loc("relu1")

    After::

        %r = call @conv_max_1a2b3c4d(%x, %w) {tw.nodes = ["conv1", "relu1"]}

    An op without a group is a group. A result of the program that no group computes (an argument, a constant, one given
    twice) gets a copy, since each result has memory of its own.
    """

    name: ClassVar[str] = "outline"
    form: ClassVar[ModuleForm | None] = ModuleForm.CALLS

    def apply(self, module: ir.Module) -> None:
        """Outline the groups of all programs."""
        kernels: dict[str, str] = {}
        for function in list_programs(module):
            _write_out(function)
            _materialize(function)
            order = program_order(function)
            sizes = needs_routine(function)
            for group in _collect_groups(function):
                _outline(module, group, _with_cheap(group, order, sizes), kernels)
            erase_dead(function)


def _write_out(function: func.FuncOp) -> None:
    """Put the ops of functions that a user has scheduled, and their groups, in the place of calls."""
    calls = collect(function, is_operator_call, "func.call")
    groups = (op.attributes[tw.GROUP] for op in collect(function, lambda op: tw.GROUP in op.attributes) if calls)
    first = 1 + max((ir.IntegerAttr(group).value for group in groups), default=-1)
    for call in calls:
        parsed = ir.Module.parse(ir.StringAttr(call.attributes[tw.OPERATOR]).value)
        [body] = list_functions(parsed)
        mapping: dict[ir.Value, ir.Value] = dict(zip(body.arguments, call.operands, strict=True))
        last = first
        *ops, end = list_ops(body)
        with ir.InsertionPoint(call):
            for op in ops:
                copy = clone(op, mapping)
                if tw.GROUP in copy.attributes:
                    number = first + ir.IntegerAttr(copy.attributes[tw.GROUP]).value
                    copy.attributes[tw.GROUP] = integer_attr(number)
                    last = max(last, number + 1)
        replace(call, [mapping[value] for value in end.operands])
        first = last


def _materialize(function: func.FuncOp) -> None:
    """Put a copy where a value must lie in memory and no kernel writes it there."""
    *ops, end = list_ops(function)
    for op in ops:
        if _reads_memory(op):
            for value in filter(_is_nowhere, find_needed_values(op)):
                copied = _copy_before(value, op)
                for user in (op, *nested_ops(op)):
                    user.replace_uses_of_with(value, copied)
    seen: set[ir.Value] = set()
    for i, value in enumerate(end.operands):
        # Each result of a program has memory of its own; what a body gives, the program only looks at.
        base = base_of(value)
        shared = not is_body(function) and is_tensor(value) and (defining_op(base) is None or base in seen)
        if shared or _is_nowhere(value):
            end.operands[i] = _copy_before(value, end)
        seen.add(base)


def _reads_memory(op: ir.Operation) -> bool:
    """Return whether the program, not a kernel, takes an op's tensors from where they lie."""
    tests = (is_host_call, is_external_call, is_append, is_body_call, is_control, is_choice)
    return any(test(op) for test in tests) or (op.name in VIEWS and not is_cheap(op))


def _is_nowhere(value: ir.Value) -> bool:
    """Return whether a tensor, or what it is a view of, is made by no kernel but in each that reads it."""
    source = defining_op(base_of(value))
    return is_tensor(value) and source is not None and is_cheap(source)


def _copy_before(value: ir.Value, op: ir.Operation) -> ir.Value:
    """A copy of a tensor, made before an op."""
    source = defining_op(base_of(value))
    with ir.InsertionPoint(op), op.location if source is None else source.location:
        return _copy_tensor(value)


def _copy_tensor(value: ir.Value) -> ir.Value:
    sizes, kind = iter(emit_dynamic_sizes(value)), ir.RankedTensorType(value.type)
    rank, shape = kind.rank, [next(sizes) if extent < 0 else extent for extent in kind.shape]
    out = tensor.EmptyOp(shape, kind.element_type).result
    return builders.generic([value], [out], [range(rank), range(rank)], "p" * rank, lambda a, _: a)[0]


def _collect_groups(function: func.FuncOp) -> list[list[ir.Operation]]:
    """The ops of each group, in order."""
    groups: dict[object, list[ir.Operation]] = {}
    for op in list_ops(function):
        if not len(op.results) or is_cheap(op) or is_no_kernel(op):
            continue
        mark = op.attributes.get(tw.GROUP, None)
        groups.setdefault(op if mark is None else ir.IntegerAttr(mark).value, []).append(op)
    return list(groups.values())


def _outline(module: ir.Module, group: list[ir.Operation], ops: list[ir.Operation], kernels: dict[str, str]) -> None:
    """Replace a group by a call of its kernel, of ``ops``, which is made if no equal one exists."""
    members = set(group)
    block = group[-1].block
    local = {r for op in ops for r in op.results}
    captured = [v for v in dict.fromkeys(v for op in ops for v in find_needed_values(op)) if v not in local]
    inputs = sorted(captured, key=lambda v: not is_tensor(v))  # tensors, then sizes
    results = [r for op in group for r in op.results if _escapes(r, members, block)]
    location = fused_location(group)
    with location:
        with ir.InsertionPoint(group[-1]):
            sizes = [size for r in results for size in emit_dynamic_sizes(r)]
        function = _kernel(module, ops, inputs, results, location, len(sizes))
        if is_dynamic_kernel(function):
            state_sizes(function)
            state_summed(function)
        summed = function.attributes.get(tw.SUMMED, None)
        text = print_kernel(function)
        if text in kernels:
            function.operation.erase()
        else:
            kernels[text] = name_kernel(text, name_ops(group))
            function.attributes["sym_name"] = ir.StringAttr.get(kernels[text])
        with ir.InsertionPoint(group[-1]):
            symbol = ir.FlatSymbolRefAttr.get(kernels[text])
            call = func.CallOp([r.type for r in results], symbol, [*inputs, *sizes])
            nodes = [ir.StringAttr.get(name) for name in node_names(location)]
            call.attributes[tw.NODES] = ir.ArrayAttr.get(nodes)
            if summed is not None:
                call.attributes[tw.SUMMED] = summed
    for old, new in zip(results, call.results, strict=True):
        old.replace_all_uses_with(new)
    for op in reversed(group):
        op.erase()


def _with_cheap(group: list[ir.Operation], order: Mapping[ir.Value, int], sizes: bool) -> list[ir.Operation]:
    """The group's ops and the cheap ones that they need, in order; with ``sizes`` the program computes those."""
    needed, pending = set(group), list(group)
    while pending:
        for value in find_needed_values(pending.pop()):
            op = defining_op(value)
            if op is not None and op not in needed and is_cheap(op) and not (sizes and is_size(op)):
                needed.add(op)
                pending.append(op)
    return sorted(needed, key=lambda op: order[op.results[0]])


def _escapes(value: ir.Value, members: set[ir.Operation], block: ir.Block) -> bool:
    return any(top_level(use.owner.operation, block) not in members for use in value.uses)


def _kernel(
    module: ir.Module,
    ops: list[ir.Operation],
    inputs: Sequence[ir.Value],
    results: Sequence[ir.Value],
    location: ir.Location,
    sizes: int,
) -> func.FuncOp:
    """A function at the module's end that computes ``results`` from ``inputs`` and the ``sizes`` of the results."""
    with ir.InsertionPoint(module.body):
        kinds = [*(v.type for v in inputs), *[ir.IndexType.get()] * sizes]
        function = func.FuncOp("kernel", (kinds, [v.type for v in results]), visibility="private")
    if sizes:
        function.attributes[tw.RESULT_SIZES] = integer_attr(sizes)
    block = function.add_entry_block([location] * len(kinds))
    mapping: dict[ir.Value, ir.Value] = dict(zip(inputs, block.arguments, strict=False))
    with ir.InsertionPoint(block):
        for op in ops:
            copy = clone(op, mapping)
            if tw.GROUP in copy.attributes:
                del copy.attributes[tw.GROUP]
        func.ReturnOp([mapping[v] for v in results])
    return function


def print_kernel(function: func.FuncOp) -> str:
    """The text of a kernel without locations and name: equal kernels have the same."""
    return str(function.operation.get_asm(enable_debug_info=False, use_local_scope=True))


def name_kernel(text: str, words: str) -> str:
    """The name of a kernel with a text, which says what it does by a few words."""
    return f"{words}_{hashlib.sha256(text.encode()).hexdigest()[:8]}"
