"""What a program appends to one of its inputs is written behind it, where it lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...dialects import builders, cf, extents, func, ir, tw
from ...dialects.walk import defining_op, integer_of
from ..analysis.states import find_append
from ..infra.base import Pass
from ..ir.dynamic_sizes import emit_dynamic_sizes
from ..ir.edit import list_programs, replace
from ..ir.kernel import integer_attr
from ..ir.routine_ops import base_of
from ..ir.signatures import list_arguments, list_attributes, update_signature
from ..ir.structure import is_tensor, list_ops
from ..ir.uses import has_uses, top_level

_CALLEE = "state.append"
_ELSEWHERE = "does more than append to a state, which a session cannot: its sequences have to be of one length"


@dataclass(frozen=True)
class KeepStates(Pass):
    """Append to the arguments of ``@main`` that are marked ``tw.state`` where they lie, with the growing axis in front.

    Before::

        func @main(%past: tensor<4x?x64xf32> {tw.state = 0}) {
          %new = ...                                        // 4 x ? x 64
          %present = tensor.concat dim(1) %past, %new
          return %present

    After::

        func @main(%past: tensor<?x4x64xf32> {tw.state = 0}) {
          %new = ...
          %t = linalg.generic {(a, h, d) -> (h, a, d)} ins(%new)
          %present = call @state.append(%past, %t, %size) {tw.state = 0}
          %u = linalg.generic {(h, a, d) -> (a, h, d)} ins(%present)     // what reads the concat reads this
          return %present

    `fold-transposes` gives the transposes to their readers. The program keeps the memory of the state, which has room
    behind its elements, and copies the new ones there: a run costs nothing for what is there already.
    """

    name: ClassVar[str] = "keep-states"

    def apply(self, module: ir.Module) -> None:
        """Rewrite ``@main``. What is marked and nothing is appended to is left alone: it may be written over."""
        for function in list_programs(module):
            attributes = list_attributes(function)
            grown = [number for number, own in enumerate(attributes) if _appends(function, number, own)]
            for number in grown:
                _keep_state(module, function, number)
            if grown:
                ret = list_ops(function)[-1]
                kinds = [value.type for value in ret.operands]
                inputs = [argument.type for argument in list_arguments(function)]
                function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, kinds))
                update_signature(function, attributes)


def _appends(function: func.FuncOp, number: int, attributes: ir.DictAttr) -> bool:
    """Return whether the result that an argument becomes is that with more behind it."""
    if tw.STATE not in attributes:
        return False
    append = find_append(list_ops(function)[-1].operands[ir.IntegerAttr(attributes[tw.STATE]).value])
    return append is not None and append.old == list_arguments(function)[number]


def _keep_state(module: ir.Module, function: func.FuncOp, number: int) -> None:
    """Turn one argument, and make the concat behind it a call."""
    old = list_arguments(function)[number]
    place, ret = ir.IntegerAttr(list_attributes(function)[number][tw.STATE]).value, list_ops(function)[-1]
    append = find_append(ret.operands[place])
    if append is not None and append.branch is not None:
        _demand_branch(append.branch)
        append = find_append(ret.operands[place])
    assert append is not None
    whole = base_of(ret.operands[place], ("tensor.cast",))
    op = whole.owner.operation
    shape = ir.RankedTensorType(whole.type).shape
    forth = [append.axis, *(axis for axis in range(len(shape)) if axis != append.axis)]
    back = [forth.index(axis) for axis in range(len(shape))]
    with ir.InsertionPoint(op), op.location:
        new = builders.transpose(append.new, forth)
        size = emit_dynamic_sizes(whole)[sum(n < 0 for n in shape[: append.axis])]
        _turn_argument(old, forth)
        grown = _append(module, old, new, size, number)
        seen = builders.transpose(grown, back)
    whole.replace_all_uses_with(seen)
    ret.operands[place] = grown
    _erase_concat(op)
    _read_turned(function, old, back, grown)


def _demand_branch(branch: ir.Operation) -> None:
    """Have the condition of a branch hold in each run, and put the branch's ops in its place."""
    with ir.InsertionPoint(branch), branch.location:
        cf.assert_(branch.operands[0], _ELSEWHERE)
    block = branch.regions[0].blocks[0]
    *ops, end = [op.operation for op in block.operations]
    for op in ops:
        op.move_before(branch)
    replace(branch, list(end.operands))


def _read_turned(function: func.FuncOp, old: ir.Value, back: Sequence[int], grown: ir.Value) -> None:
    """Let what reads the elements of an argument, but for the append, read them in the order that they had."""
    uses = [(use.owner.operation, use.operand_number) for use in old.uses]
    readers = [(op, number) for op, number in uses if op.name != "tensor.dim" and op != grown.owner.operation]
    if not readers:
        return
    block, around = function.regions[0].blocks[0], {top_level(op, function.regions[0].blocks[0]) for op, _ in readers}
    first = next(op.operation for op in block.operations if op.operation in around)
    with ir.InsertionPoint(first), first.location:
        was = builders.transpose(old, back)
    for reader, operand in readers:
        reader.operands[operand] = was


def _turn_argument(old: ir.Value, forth: Sequence[int]) -> None:
    """Give an argument its extents in another order, and what asks for them the right ones."""
    kind = ir.RankedTensorType(old.type)
    old.set_type(ir.RankedTensorType.get([kind.shape[axis] for axis in forth], kind.element_type))
    extents.forget(old)
    for user in [use.owner.operation for use in old.uses if use.owner.operation.name == "tensor.dim"]:
        axis = integer_of(user.operands[1])
        assert axis is not None  # as all builders make them
        with ir.InsertionPoint(user), user.location:
            user.operands[1] = builders.index_constant(forth.index(axis))


def _append(module: ir.Module, old: ir.Value, new: ir.Value, size: ir.Value, number: int) -> ir.Value:
    """A call that gives a state with more behind it, of ``size`` in front."""
    kinds = [old.type, new.type, size.type]
    callee = f"{_CALLEE}.{number}"
    with ir.InsertionPoint.at_block_begin(module.body):
        func.FuncOp(callee, (kinds, [old.type]), visibility="private")
    call = func.CallOp([old.type], ir.FlatSymbolRefAttr.get(callee), [old, new, size]).operation
    call.attributes[tw.STATE] = integer_attr(number)
    return extents.note(call.results[0], (extents.fresh(size, "size", 0), *builders.shape_of(old)[1:]))


def _erase_concat(op: ir.Operation) -> None:
    """Erase a concat, and what it is made of alone."""
    makers = [defining_op(value) for value in op.operands if is_tensor(value)]
    op.erase()
    for maker in makers:
        if maker is not None and maker.name in ("tensor.insert_slice", "tensor.empty") and not has_uses(maker):
            _erase_concat(maker)
