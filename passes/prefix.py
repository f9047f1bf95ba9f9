"""The beginning of a module: its programs as if they ended sooner. By it the op is found that a pass fails at."""

from __future__ import annotations

from ..dialects import func, ir
from ..dialects.context import node_name
from ..dialects.walk import find_named
from .ir.edit import is_private, node_names
from .ir.kernel import list_functions, symbol_of
from .ir.routine_ops import callee_of
from .ir.structure import body_ops, is_tensor, list_ops
from .ir.uses import has_uses


def ops_of(module: ir.Module) -> list[ir.Operation]:
    """The ops of all functions, but their returns, in the order in which ``cut`` keeps them."""
    return [op for function in _callees_first(module) for op in body_ops(function)]


def cut(module: ir.Module, count: int) -> None:
    """Leave the first ``count`` ops of ``ops_of``; a function that is cut returns what nothing reads any more.

    Before::

        func.func @main(%x) -> tensor<4xf32> {
          %a, %b = linalg.generic ins(%x)
          %c = linalg.generic ins(%a)
          return %c
        }

    After ``count = 1``::

        func.func @main(%x) -> (tensor<4xf32>, tensor<8xf32>) {
          %a, %b = linalg.generic ins(%x)
          return %a, %b
        }

    Private functions behind the cut are declarations.
    """
    for function in _callees_first(module):
        size = len(body_ops(function))
        if count == 0 and is_private(function):
            _declare(function)
        elif count < size:
            _truncate(function, count)
        count = max(0, count - size)


def nodes_of(op: ir.Operation) -> list[str]:
    """The model's nodes that an op comes from."""
    return node_names(op.location) or list(filter(None, [node_name(op.location)]))


def _callees_first(module: ir.Module) -> list[func.FuncOp]:
    """The functions that have a body, each behind those that it calls: what a cut changes has no callers left."""
    pending = {symbol_of(function): function for function in list_functions(module)}
    order: list[func.FuncOp] = []

    def visit(function: func.FuncOp) -> None:
        for call in find_named(function, "func.call"):
            callee = pending.pop(callee_of(call), None)
            if callee is not None:
                visit(callee)
        order.append(function)

    while pending:
        visit(pending.pop(next(iter(pending))))
    return order


def _declare(function: func.FuncOp) -> None:
    with ir.InsertionPoint(function), function.location:
        func.FuncOp(symbol_of(function), function.type, visibility="private")
    function.operation.erase()


def _truncate(function: func.FuncOp, count: int) -> None:
    block = function.entry_block
    end = block.operations[len(block.operations) - 1].location
    for op in reversed([op.operation for op in block.operations][count:]):
        op.erase()
    # Scalars alone would be no program's results; what computes only those is judged with its readers.
    made = [r for op in list_ops(function) if not has_uses(op) for r in op.results]
    results = [r for r in made if is_tensor(r) or isinstance(r.type, ir.NoneType)]
    with ir.InsertionPoint(block), end:
        func.ReturnOp(results)
    kind = ir.FunctionType.get(list(function.type.inputs), [r.type for r in results])
    function.attributes["function_type"] = ir.TypeAttr.get(kind)
    if "res_attrs" in function.attributes:
        del function.attributes["res_attrs"]
