"""Calls that stand for nodes of ONNX's (``nodes.py``) while torch-mlir lowers the rest: a conversion worker's alone.

What is imported here must not meet our MLIR, so ``nodes.py`` and the decompositions do not import this.
"""

from __future__ import annotations

from collections.abc import Callable

from torch_mlir._mlir_libs._mlir import ir
from torch_mlir.dialects import func

from ..nodes import NODE

_OPERATOR = "torch.tilewright.onnx_"


def find_ops(module: ir.Module, wanted: Callable[[ir.Operation], bool]) -> list[ir.Operation]:
    """All ops of a module that ``wanted`` takes."""
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if wanted(op):
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def _is_node(op: ir.Operation) -> bool:
    return op.name == "torch.operator" and ir.StringAttr(op.attributes["name"]).value.startswith(_OPERATOR)


def stand_in(module: ir.Module) -> None:
    """Let a call of a function without a body, which says what it stands for, take the place of each node."""
    for number, op in enumerate(find_ops(module, _is_node)):
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
    for call in find_ops(module, lambda op: op.name == "func.call") if functions else ():
        with ir.InsertionPoint(call), call.location:
            for value in call.results:
                kind = ir.RankedTensorType(value.type)
                made = ir.Operation.create("tensor.empty", results=[kind])
                value.replace_all_uses_with(made.results[0])
        call.erase()
    for function in functions:
        function.operation.erase()
