"""Integers of eight bits compute in 32: torch-mlir takes bytes without a sign for signed ones, or has no lowering.

Sums, differences, products and shifts to the left are the same modulo 256; all else is exact in the wider integers.
Ops that only move elements, or fill tensors with a number, keep their bytes.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Graph, Node
from torch.utils._pytree import tree_map

from .arithmetic import aten

_NARROW = (torch.uint8, torch.int8)
_MOVING = {
    *(aten.alias, aten.clone, aten.copy, aten.detach, aten.lift_fresh_copy, aten.view, aten._unsafe_view),
    *(aten.reshape, aten.permute, aten.transpose, aten.t, aten.squeeze, aten.unsqueeze, aten.expand, aten.repeat),
    *(aten.flip, aten.slice, aten.select, aten.slice_scatter, aten.select_scatter, aten.as_strided, aten.unfold),
    *(aten.split, aten.split_with_sizes, aten.unbind, aten.index, aten.index_select, aten.gather, aten.embedding),
    *(aten.index_put, aten.constant_pad_nd),
    *(aten.upsample_nearest1d, aten.upsample_nearest2d, aten.upsample_nearest3d),
    *(aten.full, aten.zeros, aten.ones, aten.empty),
    aten._int_mm,  # takes bytes alone
}
_JOINING = {aten.cat, aten.stack, aten.where}  # which move, where all that they join has one dtype


def widen_bytes(graph: Graph) -> None:
    """Let ops take bytes as int32, and make of their results the dtypes that these had.

    The values that tracing has noted, ``meta["val"]``, have known shapes; new nodes have theirs.
    """
    for node in list(graph.nodes):
        op, has_tensors = node.target, isinstance(node.meta.get("val"), (torch.Tensor, list, tuple))
        if has_tensors and isinstance(op, OpOverload) and op.namespace == "aten" and _computes_bytes(node, op):
            _widen(graph, node, op)


def _computes_bytes(node: Node, op: OpOverload) -> bool:
    kind, given = op.overloadpacket, [x.meta.get("val") for x in node.all_input_nodes]
    if kind in _MOVING:
        return False
    if kind in _JOINING:
        dtypes = {x.dtype for x in given if isinstance(x, torch.Tensor)} - {torch.bool}
        return len(dtypes) > 1 and not dtypes.isdisjoint(_NARROW)
    return any(map(_is_bytes, given)) or node.kwargs.get("dtype") in _NARROW


def _is_bytes(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in _NARROW


def _widen(graph: Graph, node: Node, op: OpOverload) -> None:
    noted = node.meta["val"]
    first = noted if isinstance(noted, torch.Tensor) else noted[0]
    assert isinstance(first, FakeTensor)
    with graph.inserting_before(node):
        wide = {
            x: _insert_conversion(graph, x, torch.int32) for x in node.all_input_nodes if _is_bytes(x.meta.get("val"))
        }
    for old, new in wide.items():
        node.replace_input_with(old, new)
    node.kwargs = {name: torch.int32 if x in _NARROW else x for name, x in node.kwargs.items()}
    args, kwargs = tree_map(lambda x: x.meta["val"] if isinstance(x, Node) else x, (node.args, node.kwargs))
    with first.fake_mode:  # which takes its own tensors alone
        _note(node, op(*args, **kwargs))
    if isinstance(noted, torch.Tensor):
        _restore_dtype(graph, node, noted)
        return
    for part in list(node.users):
        assert part.target is operator.getitem
        before = part.meta["val"]
        _note(part, node.meta["val"][part.args[1]])
        _restore_dtype(graph, part, before)


def _restore_dtype(graph: Graph, node: Node, noted: torch.Tensor) -> None:
    """Let those that take a node have its value of the dtype that was noted."""
    if node.meta["val"].dtype == noted.dtype:
        return
    users = list(node.users)
    with graph.inserting_after(node):
        made = _insert_conversion(graph, node, noted.dtype)
    for user in users:
        user.replace_input_with(node, made)


def _insert_conversion(graph: Graph, node: Node, dtype: torch.dtype) -> Node:
    made = graph.call_function(torch.ops.prims.convert_element_type.default, (node, dtype))
    made.meta = dict(node.meta)
    _note(made, node.meta["val"].to(dtype))
    return made


def _note(node: Node, value: Any) -> None:
    """Have a node's value noted where torch-mlir looks."""
    node.meta["val"] = value
    node.meta.pop("tensor_meta", None)  # what it would look at first
