"""Kernels that differ only in where slices of their operands begin become one."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import ClassVar

from ...dialects import func, ir, tensor, tw
from ...dialects.builders import element_of
from ...dialects.walk import defining_op
from ..infra.base import ModuleForm, Pass
from ..ir.edit import clone, list_programs, needs_routine
from ..ir.kernel import list_functions, symbol_of
from ..ir.routine_ops import base_of, callee_of, is_routine_call
from ..ir.slices import count_together
from ..ir.structure import is_static, list_ops, shape_of
from ..ir.uses import readers_of
from .outline import name_kernel, print_kernel


@dataclass(frozen=True)
class ShareKernels(Pass):
    """Make one kernel of those that differ in where slices of their operands begin; the calls say where.

    Before::

        %a = call @k(%x, %y)        // of %x[0, 3] [1, 16] and %y[0, 7, 0] [8, 1, 4]
        %b = call @l(%x, %y)        // of %x[0, 5] [1, 16] and %y[0, 9, 0] [8, 1, 4]

    After::

        %p = tensor.extract_slice %x[0, 3] [1, 16]
        %a = call @m(%p, %y) {tw.offsets = array<i64: 0, 28>}
        %q = tensor.extract_slice %x[0, 5] [1, 16]
        %b = call @m(%q, %y) {tw.offsets = array<i64: 0, 36>}

    So one kernel is compiled for all steps of an unrolled loop. What lies together is a slice, which is a place in
    memory (`plan-memory`); a slice with gaps is read from as many elements on as the call says. The kernel's type of
    such an operand goes beyond its memory then: this is done for what lies in the arena, which is made larger for it.
    Left are programs whose sizes only the run knows, and kernels that prepare weights.
    """

    name: ClassVar[str] = "share-kernels"
    opt_level: ClassVar[int] = 1
    form: ClassVar[ModuleForm | None] = ModuleForm.CALLS

    def apply(self, module: ir.Module) -> None:
        """Rewrite the calls of all programs of known sizes."""
        calls, results, alike = *_collect_calls(module), defaultdict[str, list[_Shifted]](list)
        functions = {symbol_of(function): function for function in list_functions(module)}
        for name, function in functions.items():
            made = _align_slices(module, function, calls.get(name, ()), results)
            if made is not None:
                alike[print_kernel(made.shared)].append(made)
        for text, kernels in alike.items():
            name = name_kernel(text, symbol_of(kernels[0].kernel).rpartition("_")[0])
            if len(kernels) > 1 and name not in functions:
                kernels[0].shared.attributes["sym_name"] = ir.StringAttr.get(name)
            for each in kernels:
                if len(kernels) > 1 and symbol_of(each.kernel) != name:  # slices of which begin at 0 already
                    each.call_shared(calls[symbol_of(each.kernel)], name)
                    each.kernel.operation.erase()
                if symbol_of(each.shared) != name:
                    each.shared.operation.erase()


@dataclass(frozen=True)
class _Slice:
    """What a kernel reads of an operand of a ``shape``: ``sizes`` elements ``strides`` apart, from ``offsets`` on."""

    shape: tuple[int, ...]
    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    @staticmethod
    def of(op: ir.Operation) -> _Slice | None:
        """What an op reads; None where it is no slice, one of no elements, or only the run knows which."""
        if op.name != "tensor.extract_slice" or len(op.operands) != 1:  # the others are numbers
            return None
        names = ("static_offsets", "static_sizes", "static_strides")
        numbers = [tuple(ir.DenseI64ArrayAttr(op.attributes[name])) for name in names]
        if not is_static(op.operands[0]) or 0 in numbers[1]:
            return None
        return _Slice(tuple(shape_of(op.operands[0])), *numbers)

    @property
    def together(self) -> int:
        """The first axes, a part of which lies together."""
        return count_together(self.sizes)

    @property
    def part(self) -> tuple[int, ...]:
        """The shape of the part of the operand that lies together and has the slice."""
        spans = [(size - 1) * stride + 1 for size, stride in zip(self.sizes, self.strides, strict=True)]
        return (*spans[: self.together], *self.shape[self.together :])

    @property
    def begin(self) -> tuple[int, ...]:
        """Where that part begins."""
        return (*self.offsets[: self.together], *[0] * (len(self.shape) - self.together))

    @property
    def gap(self) -> int:
        """Elements from the begin of the part to that of the slice."""
        axes = range(self.together, len(self.shape))
        return sum(self.offsets[axis] * math.prod(self.shape[axis + 1 :]) for axis in axes)


@dataclass(frozen=True)
class _Shifted:
    """A kernel, and ``shared``, whose slices all begin at 0; ``slices`` are those of each of the kernel's arguments."""

    kernel: func.FuncOp
    shared: func.FuncOp
    slices: tuple[tuple[_Slice, ...], ...]

    def call_shared(self, calls: Sequence[ir.Operation], name: str) -> None:
        """Let calls of the kernel call ``name``, which is like ``shared``, with the slices."""
        for call in calls:
            operands: list[ir.Value] = []
            gaps: list[int] = []
            with ir.InsertionPoint(call), call.location:
                for value, slices in zip(call.operands, self.slices, strict=True):
                    operands += [_take_part(value, each) for each in slices] or [value]
                    gaps += [each.gap for each in slices] or [0]
                made = func.CallOp([r.type for r in call.results], ir.FlatSymbolRefAttr.get(name), operands)
            for attribute in call.attributes:
                if attribute != "callee":
                    made.attributes[attribute] = call.attributes[attribute]
            if any(gaps):
                made.attributes[tw.OFFSETS] = ir.DenseI64ArrayAttr.get(gaps)
            for old, new in zip(call.results, made.results, strict=True):
                old.replace_all_uses_with(new)
            call.operation.erase()


def _collect_calls(module: ir.Module) -> tuple[Mapping[str, list[ir.Operation]], Set[ir.Value]]:
    """The calls of each kernel that only programs of known sizes call, and none that prepares a weight.

    And what are the results of programs, which do not lie in the arena.
    """
    calls, results, others = defaultdict[str, list[ir.Operation]](list), set[ir.Value](), set[str]()
    for function in list_programs(module):
        left = needs_routine(function) or tw.PREPARES in function.attributes
        results.update(map(base_of, list_ops(function)[-1].operands))
        for op in list_ops(function):
            if op.name == "func.call" and not is_routine_call(op):
                calls[callee_of(op)].append(op)
                others.update([callee_of(op)] if left else ())
    return {name: found for name, found in calls.items() if name not in others}, results


def _align_slices(
    module: ir.Module, kernel: func.FuncOp, calls: Sequence[ir.Operation], results: Set[ir.Value]
) -> _Shifted | None:
    """A kernel with one whose slices begin at 0; None where it has no slices, or one of its calls cannot be shifted."""
    if not calls:
        return None
    slices = tuple(_list_slices(kernel, argument) for argument in kernel.arguments)
    gaps = [number for number, found in enumerate(slices) if any(each.gap for each in found)]
    shifted = {base_of(call.operands[number]) for call in calls for number in gaps}
    if not any(slices) or not all(_is_intermediate(value, results) for value in shifted):
        return None
    pairs = list(zip(kernel.arguments, slices, strict=True))
    kinds = [kind for argument, found in pairs for kind in _list_types(argument, found)]
    with ir.InsertionPoint(module.body), kernel.location:
        shared = func.FuncOp("kernel", (kinds, kernel.type.results), visibility="private")
        given = iter(shared.add_entry_block([kernel.location] * len(kinds)).arguments)
    mapping: dict[ir.Value, ir.Value] = {}
    with ir.InsertionPoint(shared.entry_block):
        for argument, found in pairs:
            parts = {each: next(given) for each in found}
            if not found:
                mapping[argument] = next(given)
            for op in _list_readers(kernel, argument) if found else ():
                mapping[op.results[0]] = _slice_part(op, parts)
        for op in list_ops(kernel):
            if not len(op.results) or op.results[0] not in mapping:
                clone(op, mapping)
    return _Shifted(kernel, shared, slices)


def _list_slices(kernel: func.FuncOp, argument: ir.Value) -> tuple[_Slice, ...]:
    """What a kernel reads of an argument, each slice once; nothing where it does not read slices alone."""
    found = list(map(_Slice.of, _list_readers(kernel, argument)))
    return tuple(dict.fromkeys(each for each in found if each is not None)) if None not in found else ()


def _list_readers(kernel: func.FuncOp, argument: ir.Value) -> list[ir.Operation]:
    """The ops of a kernel that read an argument, in order."""
    readers = set(readers_of(argument))
    return [op for op in list_ops(kernel) if op in readers]


def _list_types(argument: ir.Value, slices: Sequence[_Slice]) -> list[ir.Type]:
    """The types of what a shared kernel takes for an argument."""
    if not slices:
        return [argument.type]
    return [ir.RankedTensorType.get(each.part, element_of(argument)) for each in slices]


def _slice_part(op: ir.Operation, parts: Mapping[_Slice, ir.Value]) -> ir.Value:
    """The slice that an op takes, of the part that lies together."""
    found = _Slice.of(op)
    assert found is not None  # as ``_list_slices`` says
    source, kind = parts[found], op.results[0].type
    if source.type == kind:
        return source
    zeros = [0] * len(found.shape)
    with op.location:
        return tensor.extract_slice(kind, source, [], [], [], zeros, found.sizes, found.strides)


def _take_part(value: ir.Value, each: _Slice) -> ir.Value:
    """The part of an operand that lies together and has a slice."""
    if each.part == each.shape:
        return value
    kind = ir.RankedTensorType.get(each.part, element_of(value))
    return tensor.extract_slice(kind, value, [], [], [], each.begin, each.part, [1] * len(each.part))


def _is_intermediate(value: ir.Value, results: Set[ir.Value]) -> bool:
    """Return whether a value lies in the arena: a kernel makes it, and it is none of the results of programs."""
    op = defining_op(value)
    return op is not None and op.name == "func.call" and value not in results
