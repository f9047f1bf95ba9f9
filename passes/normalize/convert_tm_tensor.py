"""torch-mlir's own ops on tensors (scans, sorts, scatters) become loops and structured ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ...core.errors import CompileError
from ...core.sizes import count_elements
from ...dialects import arith, builders, ir, scalars, tensor
from ...dialects.context import at_node
from ...dialects.loops import sequential
from ...dialects.positions import position, report_outside
from ...dialects.scans import Fold2, prefix_scan
from ...dialects.sorting import Before, make_before, sort_order
from ...dialects.walk import defining_op
from ..infra.base import Pass
from ..ir.edit import clone, splat_of
from ..ir.rewrite import rewrite

DIALECT = "tm_tensor."
# Of such an op, by `frontends/torch/convert.py`: MLIR drops the properties of ops that it does not know.
_PROPERTIES = "tm_tensor.properties"


@dataclass(frozen=True)
class ConvertTmTensor(Pass):
    """Rewrite the ops of the dialect ``tm_tensor``, which are read in generic form.

    Before::

        %r:2 = "tm_tensor.scan"(%x, %z, %a) ({ addf; "tm_tensor.yield" }) {tm_tensor.properties = {dimension = 1, ...}}

    After::

        %r:2 = scf.for %i ... iter_args(%made = %e, %total = %zero) {
          %new = arith.addf %total, (tensor.extract %x[%c0, %i])
          tensor.insert %new into %made[%c0, %i]

    A sort becomes the loops of a merge sort and a gather, a scatter loops in the order of its updates, whose indices
    are held within the tensor. Raises CompileError for an op that is none of these, and for a sort by something else
    than a comparison.
    """

    name: ClassVar[str] = "convert-tm-tensor"
    unregistered: ClassVar[bool] = True

    def apply(self, module: ir.Module) -> None:
        """Rewrite all functions of the module."""
        rewrite(module, lambda op: op.name.startswith(DIALECT) and len(op.regions) > 0, _convert_op)


def _convert_op(op: ir.Operation) -> list[ir.Value]:
    converter = _CONVERTERS.get(op.name.removeprefix(DIALECT))
    if converter is None:
        raise CompileError(f"'{op.name}'{at_node(op)} has no conversion")
    return converter(op, ir.DictAttr(op.attributes[_PROPERTIES]))


def _convert_scan(op: ir.Operation, attributes: Any) -> list[ir.Value]:
    """Running totals, and the last of them."""
    x, start, _ = op.operands
    axis, neutral = attributes["dimension"].value, splat_of(start)
    if neutral is None or not attributes["inclusive"].value:
        raise CompileError(f"'{op.name}'{at_node(op)} begins with an unknown number, or leaves out an element")
    body, elem = _read_fold(op), builders.element_of(x)
    shape = builders.shape_of(x)
    wide = builders.convert_elements(x, scalars.compute_type(elem))
    total = builders.convert_elements(prefix_scan(wide, axis, body, neutral), elem)
    sizes, starts = [1 if i == axis else n for i, n in enumerate(shape)], [0] * len(shape)
    starts[axis] = shape[axis] - 1
    last = builders.slice_(total, starts, sizes)
    return [total, builders.reshape(last, [n for i, n in enumerate(shape) if i != axis])]


def _read_fold(op: ir.Operation) -> Fold2:
    """The body of an op as a function of two numbers; those of narrow floats compute in f32."""
    kind = op.regions[0].blocks[0].operations[0].operation.name
    folds: dict[str, Fold2] = {"arith.addf": scalars.add, "arith.addi": scalars.add}
    folds |= {"arith.mulf": scalars.mul, "arith.muli": scalars.mul}
    if kind not in folds:
        raise CompileError(f"'{op.name}'{at_node(op)} computes neither sums nor products")
    return folds[kind]


def _sort(op: ir.Operation, attributes: Any) -> list[ir.Value]:
    """All operands in the order that sorts the first one."""
    keys, axis = op.operands[0], attributes["dimension"].value
    shape = builders.shape_of(keys)
    last = [i for i in range(len(shape)) if i != axis] + [axis]
    moved = [shape[i] for i in last]
    rows = (count_elements(moved[:-1]), moved[-1])
    order = sort_order(builders.reshape(builders.transpose(keys, last), rows), _before(op))
    order = builders.transpose(builders.reshape(order, moved), [last.index(i) for i in range(len(shape))])

    def ordered(x: ir.Value) -> ir.Value:
        def body(found: ir.Value) -> ir.Value:
            at = [builders.linalg_index(i) for i in range(len(shape))]
            at[axis] = scalars.to_index(found)
            return builders.extract(x, at)

        return builders.elementwise(body, order, elem=builders.element_of(x))

    return [ordered(x) for x in op.operands]


def _before(op: ir.Operation) -> Before:
    """Which key comes first: torch has NaN as the largest of all numbers, which no comparison says."""
    compare = defining_op(op.regions[0].blocks[0].operations[-1].operation.operands[0])
    if compare is None or compare.name not in ("arith.cmpf", "arith.cmpi"):
        raise CompileError(f"'{op.name}'{at_node(op)} does not sort by a comparison")
    number = ir.IntegerAttr(compare.attributes["predicate"]).value
    if compare.name == "arith.cmpi":
        name = arith.CmpIPredicate(number).name
        return lambda a, b: scalars.compare("lt" if name[1] == "l" else "gt", a, b, signed=name[0] == "s")
    ascending = make_before(largest=False)
    less = arith.CmpFPredicate(number).name[1] == "L"
    return ascending if less else lambda a, b: ascending(b, a)


def _scatter(op: ir.Operation, attributes: Any) -> list[ir.Value]:
    """``into`` with each update, a slice, folded into it where its row of indices says that it begins."""
    updates, indices, into = op.operands
    shape, slices = builders.shape_of(into), builders.shape_of(updates)[1:]
    dims: list[int] = list(attributes["dimension_map"])
    body, first = _clone(op), len(shape) - len(slices)
    for i, dim in enumerate(dims):
        column = builders.slice_(indices, [0, i], [builders.shape_of(indices)[0], 1])
        otherwise = f"has an index that is out of range for an extent of {shape[dim]}"
        report_outside(column, -1 * shape[dim], shape[dim], otherwise)

    def step(at: Sequence[ir.Value], states: Sequence[ir.Value]) -> list[ir.Value]:
        where: list[Any] = [scalars.const(0, ir.IndexType.get())] * first + list(at[1:])
        for i, dim in enumerate(dims):
            found = builders.extract(indices, [at[0], scalars.const(i, ir.IndexType.get())])
            start = position(found, shape[dim])
            where[dim] = start if dim < first else position(scalars.add(where[dim], start), shape[dim])
        old = tensor.ExtractOp(states[0], where).result
        made = body(tensor.ExtractOp(updates, list(at)).result, old)
        return [tensor.InsertOp(made, states[0], where).result]

    return sequential(builders.shape_of(updates), [into], step)


def _clone(op: ir.Operation) -> Callable[..., ir.Value]:
    """The body of an op, to be emitted where it is called."""
    block = op.regions[0].blocks[0]

    def body(*values: ir.Value) -> ir.Value:
        mapping: dict[ir.Value, ir.Value] = dict(zip(block.arguments, values, strict=True))
        *inner, last = (inner.operation for inner in block.operations)
        for each in inner:
            clone(each, mapping)
        return mapping.get(last.operands[0], last.operands[0])

    return body


_CONVERTERS: dict[str, Callable[[ir.Operation, Any], list[ir.Value]]] = {
    "scan": _convert_scan,
    "sort": _sort,
    "scatter": _scatter,
}
