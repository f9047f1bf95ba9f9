"""Rows that a mask chooses are written over a state, where it lies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...dialects import builders, func, ir, scalars, tensor, tw
from ...dialects.loops import at, for_loop, index, sequential, store
from ..analysis.masked_writes import MaskedWrite, find_masked_write, list_makers, list_read_operands
from ..infra.base import Pass
from ..ir.dynamic_sizes import note_sizes
from ..ir.edit import clone, list_programs, replace
from ..ir.signatures import list_arguments, list_attributes
from ..ir.structure import dim_of, index_dim, indexing_maps, list_ops


@dataclass(frozen=True)
class WriteMasked(Pass):
    """Write over an argument that is marked ``tw.state`` only the rows for which a mask is true.

    Before::

        func @main(%past: tensor<8x512x64xf32> {tw.state = 0}, %mask: tensor<512xi8>, %new: tensor<8x64xf32>) {
          %present = linalg.generic {(h, s, d)} ins(%mask (s), %new (h, d), %past (h, s, d)) { select }
          return %present

    After::

        %present = scf.for %s = 0 to 512 iter_args(%a = %past) {
          %m = tensor.extract %mask[%s]
          %n = arith.select %m, 1, 0
          %b = scf.for %i = 0 to %n iter_args(%c = %a) {
            %row = linalg.generic {(h, d)} ins(%new)
            %d = tensor.insert_slice %row into %c[0, %s, 0] [8, 1, 64] [1, 1, 1]

    `plan-memory` finds that this is the state with elements written over it: a run then reads the mask, and of the
    state nothing.
    """

    name: ClassVar[str] = "write-masked"

    def apply(self, module: ir.Module) -> None:
        """Rewrite the results of all programs that states become."""
        for function in list_programs(module):
            for write in _find_writes(function):
                with ir.InsertionPoint(write.op), write.op.location:
                    replace(write.op, [_emit_rows(write)])


def _find_writes(function: func.FuncOp) -> list[MaskedWrite]:
    results = list_ops(function)[-1].operands
    pairs = zip(list_arguments(function), list_attributes(function), strict=True)
    states = [(old, ir.IntegerAttr(own[tw.STATE]).value) for old, own in pairs if tw.STATE in own]
    found = [find_masked_write(results[number], old) for old, number in states]
    return [write for write in found if write is not None]


def _emit_rows(write: MaskedWrite) -> ir.Value:
    """The argument with the chosen rows written over it, one after the other."""
    op = write.op
    shape = note_sizes(op.operands[list(op.operands).index(write.old)])

    def row(indices: Sequence[ir.Value], states: Sequence[ir.Value]) -> list[ir.Value]:
        where = dict(zip(write.loops, indices, strict=True))
        holds = _emit_condition(write, where)
        sides = (index(0), index(1)) if write.negated else (index(1), index(0))
        return for_loop(scalars.select(holds, *sides), states, lambda _, old: [_write_row(write, where, old[0])])

    return sequential([shape[loop] for loop in write.loops], [write.old], row)[0]


def _emit_condition(write: MaskedWrite, where: Mapping[int, ir.Value]) -> ir.Value:
    """The condition for one step of the loops that it depends on."""
    op, makers, mapping = write.op, list_makers(write.condition), dict[ir.Value, ir.Value]()
    for number, argument in list_read_operands(op, write.condition):
        dims = [dim_of(expression) for expression in indexing_maps(op)[number].results]
        places = [index(0) if dim is None else where.get(dim, index(0)) for dim in dims]
        mapping[argument] = tensor.ExtractOp(op.operands[number], places).result
    for maker in makers:
        if maker.name == "linalg.index":
            mapping[maker.results[0]] = where.get(index_dim(maker), index(0))
        else:
            clone(maker, mapping)
    return mapping[write.condition]


def _write_row(write: MaskedWrite, where: Mapping[int, ir.Value], into: ir.Value) -> ir.Value:
    """A tensor with the new elements of one row in it."""
    op, maps, shape = write.op, indexing_maps(write.op), builders.shape_of(into)
    left = [loop for loop in range(len(shape)) if loop not in where]
    read, makers = list_read_operands(op, write.new), list_makers(write.new)
    operands: list[ir.Value] = []
    kept: list[list[int | None]] = []
    for number, _ in read:
        dims = [dim_of(expression) for expression in maps[number].results]
        along = {axis: where[dim] for axis, dim in enumerate(dims) if dim is not None and dim in where}
        operands.append(at(op.operands[number], along))
        kept.append([None if dim is None else left.index(dim) for dim in dims if dim not in where])

    def body(*values: ir.Value) -> ir.Value:
        mapping = {argument: value for (_, argument), value in zip(read, values, strict=False)}
        for maker in makers:
            if maker.name != "linalg.index":
                clone(maker, mapping)
            elif (loop := index_dim(maker)) in where:
                mapping[maker.results[0]] = where[loop]
            else:
                mapping[maker.results[0]] = builders.linalg_index(left.index(loop))
        return mapping.get(write.new, write.new)

    place = builders.empty([shape[loop] for loop in left], builders.element_of(into))
    row = builders.generic(operands, [place], [*kept, range(len(left))], "p" * len(left), body)[0]
    return store(row, into, where)
