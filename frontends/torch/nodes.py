"""Operators of torch's that become nodes of ONNX's: torch-mlir has no lowering for them, or a slow one.

A decomposition calls ``make_node``, which puts one of our own operators into the graph. torch-mlir takes that for an
operator that it does not know; before it lowers the rest, ``stand_in`` makes a call of each, which the linalg frontend
replaces (``frontends/linalg/inline_nodes.py``).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import torch
from torch_mlir._mlir_libs._mlir import ir
from torch_mlir.dialects import func

from ..nodes import NODE, Constant, OnnxNode

_MOST_RESULTS = 3
_NODE_LIBRARY = torch.library.Library("tilewright", "FRAGMENT")
_OPERATOR = "torch.tilewright.onnx_"

ResultType = tuple[Sequence[int], torch.dtype]


def _make_results(results: str) -> Any:
    made = [torch.empty(shape, dtype=getattr(torch, dtype)) for shape, dtype in json.loads(results)]
    return made[0] if len(made) == 1 else tuple(made)


for _count in range(1, _MOST_RESULTS + 1):
    _made = ", ".join(["Tensor"] * _count)
    _NODE_LIBRARY.define(f"onnx_{_count}(Tensor[] inputs, str node, str results) -> ({_made})")
    torch.library.register_fake(
        f"tilewright::onnx_{_count}", lambda inputs, node, results: _make_results(results), lib=_NODE_LIBRARY
    )


def make_node(
    op: str,
    inputs: Sequence[torch.Tensor | Constant | None],
    results: Sequence[ResultType],
    domain: str = "",
    **attributes: Any,
) -> Any:
    """The results of a node of ONNX's, of these shapes and dtypes: a tensor, or a tuple of up to three."""
    given = tuple(_name_dtype(x.dtype) if isinstance(x, torch.Tensor) else x for x in inputs)
    dtypes = tuple(_name_dtype(dtype) for _, dtype in results)
    node = OnnxNode(op, given, dtypes, attributes, domain)
    shapes = json.dumps([[list(shape), _name_dtype(dtype)] for shape, dtype in results])
    operator = getattr(torch.ops.tilewright, f"onnx_{len(results)}")
    return operator([x for x in inputs if isinstance(x, torch.Tensor)], node.to_json(), shapes)


def _name_dtype(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def stand_in(module: ir.Module) -> None:
    """Let a call of a function without a body, which says what it stands for, take the place of each node."""
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "torch.operator" and ir.StringAttr(op.attributes["name"]).value.startswith(_OPERATOR):
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for number, op in enumerate(found):
        tensors, node, _ = (operand.owner for operand in op.operands)
        name, made = f"{NODE}.{number}", [value.type for value in op.results]
        operands = list(tensors.operands)
        kind = ir.FunctionType.get([value.type for value in operands], made, module.context)
        with ir.InsertionPoint.at_block_begin(module.body), op.location:
            function = func.FuncOp(name, kind, visibility="private")
            function.operation.attributes[NODE] = ir.StringAttr(node.attributes["value"])
        with ir.InsertionPoint(op), op.location:
            call = func.CallOp(made, ir.FlatSymbolRefAttr.get(name), operands)
        for old, new in zip(op.results, call.results, strict=True):
            old.replace_all_uses_with(new)
        op.erase()


def remove_stand_ins(module: ir.Module) -> None:
    """Replace the calls, which torch-mlir's rules for what it has made do not allow, by tensors of any numbers."""
    functions = [op for op in module.body.operations if NODE in op.operation.attributes]
    calls: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "func.call":
            calls.append(op)
        return ir.WalkResult.ADVANCE

    if functions:
        module.operation.walk(visit)
    for call in calls:
        with ir.InsertionPoint(call), call.location:
            for value in call.results:
                kind = ir.RankedTensorType(value.type)
                made = ir.Operation.create("tensor.empty", results=[kind])
                value.replace_all_uses_with(made.results[0])
        call.erase()
    for function in functions:
        function.operation.erase()
