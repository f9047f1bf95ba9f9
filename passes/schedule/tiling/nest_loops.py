"""The loops over a nest's blocks: one, and what is there for a smaller last block."""

from __future__ import annotations

from ....dialects import arith, ir, scf, tw
from ....dialects.builders import index_constant
from ....dialects.walk import defining_op
from ...ir.edit import clone, replace
from ..tiles.regions import NotSchedulable

_VIEWS_OF_ALL = ("tensor.expand_shape", "tensor.collapse_shape")


def find_loops(made: ir.Value) -> list[ir.Operation]:
    """The ``scf.for`` that make a nest's result, in order; a branch that makes a smaller last block is left out."""
    return [op for op in _find_makers(made) if op.name == "scf.for"]


def mark_shared(made: ir.Value) -> ir.Value:
    """Mark the loops that make a nest's result for ``exchange-blocks``; returns the result, as a branch becomes a loop.

    Before::

        %p = scf.for %i = %lo to %whole ... iter_args(%d = %empty)
        %q = scf.if %last -> tensor<720xf32> { ... insert_slice %tile into %p } else { scf.yield %p }

    After::

        %p = scf.for %i = %lo to %whole ... iter_args(%d = %empty) {tw.exchange}
        %q = scf.for %j = %c0 to select(%last, 1, 0) ... iter_args(%d = %p) {
          ... insert_slice %tile into %d
        } {tw.exchange}

    Raises NotSchedulable where there is no such loop.
    """
    makers = _find_makers(made)
    if not makers:
        raise NotSchedulable("no loop makes its blocks")
    for op in makers:
        last = op.name == "scf.if" and made == op.results[0]
        loop = _as_loop(op) if op.name == "scf.if" else op
        loop.attributes[tw.EXCHANGE] = ir.UnitAttr.get()
        made = loop.results[0] if last else made
    return made


def _find_makers(made: ir.Value) -> list[ir.Operation]:
    """The loops and branches that a nest's result has gone through, in order."""
    op = defining_op(made)
    if op is not None and op.name in _VIEWS_OF_ALL:
        return _find_makers(op.operands[0])
    if op is not None and op.name == "scf.if":
        return [*_find_makers(_otherwise(op)), op]
    return [*_find_makers(op.operands[3]), op] if op is not None and op.name == "scf.for" else []


def _otherwise(branch: ir.Operation) -> ir.Value:
    """What a branch gives where its condition does not hold."""
    return branch.regions[1].blocks[0].operations[-1].operands[0]


def _as_loop(branch: ir.Operation) -> ir.Operation:
    """A loop of one step, or of none, in the place of a branch."""
    before = _otherwise(branch)
    with ir.InsertionPoint(branch), branch.location:
        none, one = index_constant(0), index_constant(1)
        loop = scf.ForOp(none, arith.select(branch.operands[0], one, none), one, [before])
        with ir.InsertionPoint(loop.body):
            *ops, end = branch.regions[0].blocks[0].operations
            mapping = {before: loop.inner_iter_args[0]}
            for op in ops:
                clone(op.operation, mapping)
            [result] = end.operands
            scf.YieldOp([mapping.get(result, result)])
        replace(branch, [loop.results[0]])
    return loop.operation
