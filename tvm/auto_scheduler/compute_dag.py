"""``ComputeDAG``: a computation as text, and the operations that it has."""

from __future__ import annotations

from collections.abc import Sequence

from ...te.expr import Expr, IterVar, Literal, Operation, Read, Reduce
from ...te.tensor import ComputeOp, Op, PlaceholderOp, Tensor, sort_ops
from ..autotvm.flops import compute_flop

_SIGNS = {"add": " + ", "subtract": " - ", "multiply": "*", "divide": "/", "less": " < ", "less_equal": " <= "}
_SIGNS |= {"greater": " > ", "greater_equal": " >= ", "equal": " == ", "not_equal": " != ", "logical_and": " && "}
_SIGNS |= {"logical_or": " || "}
_NAMES = {"maximum": "max", "minimum": "min", "floor_divide": "floordiv", "mod": "floormod", "absolute": "abs"}
_JOINS = {"sum": "+=", "prod": "*=", "max": "max=", "min": "min="}


class ComputeDAG:
    """The ops that tensors are made of. ``flop_ct`` counts the floating point operations, ``tensors`` are its own."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self.tensors = list(tensors)
        self.outputs = [each for each in self.tensors if not isinstance(each.op, PlaceholderOp)]
        self.flop_ct = float(compute_flop([each.op for each in self.outputs]))

    @property
    def ops(self) -> list[Op]:
        """All ops, each behind those that it reads."""
        return sort_ops([each.op for each in self.outputs])

    def __str__(self) -> str:
        return "".join(f"{line}\n" for op in self.ops for line in _describe(op))


class KernelDAG:
    """A kernel of a network: what it computes, and the types of its tensors."""

    def __init__(self, nodes: Sequence[str], inputs: Sequence[str], results: Sequence[str], flops: int) -> None:
        self.nodes, self.inputs, self.results = tuple(nodes), tuple(inputs), tuple(results)
        self.flop_ct = float(max(flops, 1))

    def __str__(self) -> str:
        rows = [f"p{number} = PLACEHOLDER [{text}]" for number, text in enumerate(self.inputs)]
        given = ", ".join(f"p{number}" for number in range(len(self.inputs)))
        rows += [f"out{number or ''} = {' + '.join(self.nodes) or 'kernel'}({given}) [{text}]"
                 for number, text in enumerate(self.results)]  # fmt: skip
        return "".join(f"{row}\n" for row in rows)


def _describe(op: Op) -> list[str]:
    if isinstance(op, PlaceholderOp):
        return [f"{op.name} = PLACEHOLDER [{', '.join(map(str, op.shape))}]"]
    if not isinstance(op, ComputeOp):
        return [f"{op.name} = {type(op).__name__} [{', '.join(map(str, op.shape))}]"]
    axes = ", ".join(axis.name for axis in op.axis)
    rows = []
    for number, body in enumerate(op.body):
        name = op.name if len(op.body) == 1 else f"{op.name}.v{number}"
        if isinstance(body, Reduce):
            rows.append(f"{name}({axes}) {_JOINS.get(body.combiner.name, '+=')} {_write(body.sources[number])}")
        else:
            rows.append(f"{name}({axes}) = {_write(body)}")
    return rows


def _write(expr: Expr) -> str:
    if isinstance(expr, Read):
        return f"{expr.tensor.name}[{', '.join(map(_write, expr.indices))}]"
    if isinstance(expr, IterVar):
        return expr.name
    if isinstance(expr, Literal):
        return str(expr.value)
    if not isinstance(expr, Operation):
        return str(expr)
    parts = [_write(each) for each in expr.operands]
    if expr.name in _SIGNS and len(parts) == 2:
        return f"({parts[0]}{_SIGNS[expr.name]}{parts[1]})"
    name = expr.dtype if expr.name == "cast" else _NAMES.get(expr.name, expr.name)
    return f"{name}({', '.join(parts)})"
