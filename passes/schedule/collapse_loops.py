"""Loops of an elementwise kernel that every operand walks together become one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from ...dialects import func, ir
from ..classify import body_ops, dim_of, indexing_maps, is_structured, is_zero, iterator_types, loop_extents
from ..infra import Pass
from ..kernel import copy_marks, functions, symbol
from .structured import clone_body, element_of, empty, full_region, generic


@dataclass(frozen=True)
class CollapseLoops(Pass):
    """Rebuild a kernel that is one elementwise op and has neighbouring dims to collapse.

    Before::

        func @k(%a: tensor<1x64x7x7xf32>, %s: tensor<1x64x1x1xf32>) -> tensor<1x64x7x7xf32>   // s at (0, c, 0, 0)

    After::

        func @k(%a: tensor<64x49xf32>, %s: tensor<64xf32>) -> tensor<64x49xf32>               // s at (c)

    A kernel's buffers are bare pointers, so a change of its tensors' shapes is free. Long rows make whole vectors where
    short ones (7) would be rests only.
    """

    name: ClassVar[str] = "collapse-loops"

    def apply(self, module: ir.Module) -> None:
        """Rebuild those functions of the module that can be."""
        for function in functions(module):
            op = _only_generic(function)
            if op is None:
                continue
            extents = loop_extents(op)
            groups = _groups(indexing_maps(op), extents)
            if len(groups) < len(extents):
                _rebuild(function, op, groups, extents)


def _only_generic(function: func.FuncOp) -> ir.Operation | None:
    """The kernel's one structured op, if its operands are the arguments and its loops are plain and static."""
    ops = [op.operation for op in function.regions[0].blocks[0].operations]
    structured = [op for op in ops if op.name not in ("arith.constant", "tensor.empty", "func.return")]
    if len(structured) != 1 or structured[0].name != "linalg.generic" or not is_structured(structured[0]):
        return None
    op = structured[0]
    inputs = list(op.operands)[:-1]
    plain = len(op.results) == 1 and list(ops[-1].operands) == [op.results[0]]
    plain = plain and all(v in list(function.arguments) for v in inputs) and "reduction" not in iterator_types(op)
    plain = plain and all(dim_of(e) is not None or is_zero(e) for m in indexing_maps(op) for e in m.results)
    plain = plain and all(extent > 0 for extent in loop_extents(op)) and indexing_maps(op)[-1].is_permutation
    foreign = any(b.name in ("linalg.index", "tensor.extract") for b in body_ops(op))
    unread = not any(True for _ in op.regions[0].blocks[0].arguments[len(inputs)].uses)
    return op if plain and unread and not foreign and len(inputs) == len(list(function.arguments)) else None


def _groups(maps: list[ir.AffineMap], extents: list[int]) -> list[list[int]]:
    """Loops in runs that each operand walks as one; loops of extent 1 are gone."""
    walked = [[d for d in (dim_of(e) for e in m.results) if d is not None and extents[d] > 1] for m in maps]
    groups: list[list[int]] = []
    for loop in walked[-1]:
        if groups and all(_follow(w, groups[-1][-1], loop) for w in walked):
            groups[-1].append(loop)
        else:
            groups.append([loop])
    return groups


def _follow(walked: list[int], first: int, second: int) -> bool:
    if first not in walked and second not in walked:
        return True
    return first in walked and second in walked and walked.index(second) == walked.index(first) + 1


def _rebuild(function: func.FuncOp, op: ir.Operation, groups: list[list[int]], extents: list[int]) -> None:
    sizes = [math.prod(extents[d] for d in group) for group in groups]
    group_of = {group[0]: number for number, group in enumerate(groups)}
    kept = [[group_of[d] for d in map(dim_of, m.results) if d in group_of] for m in indexing_maps(op)]
    types = [
        ir.RankedTensorType.get([sizes[g] for g in found], element_of(value))
        for found, value in zip(kept, op.operands, strict=True)
    ]
    by_argument = dict(zip(list(op.operands)[:-1], types, strict=False))
    inputs = [by_argument[a] for a in function.arguments]
    with ir.InsertionPoint(function), function.location:
        made = func.FuncOp(symbol(function), (inputs, [types[-1]]))
    copy_marks(function, made)
    block = made.add_entry_block()
    new = dict(zip(function.arguments, block.arguments, strict=True))
    maps = [ir.AffineMap.get(len(groups), 0, [ir.AffineExpr.get_dim(g) for g in found]) for found in kept]
    with ir.InsertionPoint(block), op.location:
        out = empty([sizes[g] for g in kept[-1]], element_of(op.results[0]))
        operands = [new[v] for v in list(op.operands)[:-1]]
        result, body = generic(operands, [out], maps, ["parallel"] * len(groups))
        clone_body(op, body, list(body.arguments), full_region(extents), [])
        func.ReturnOp([result.results[0]])
    function.operation.erase()
