"""A program that was written down for several sizes becomes one that runs on all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...core.errors import UnsupportedError
from ...core.model import TensorInfo
from ...core.sizes import Extent, Sym, count_elements
from ...dialects import arith, builders, extents, func, ir, tensor
from ...dialects.scalars import const
from ...dialects.types import DYNAMIC, is_dynamic_type
from ...dialects.walk import collect, defining_op
from .bind_sizes import bind_sizes
from .differences import Differences

_MISFIT = "the sizes do not fit"

Amounts = Mapping[str, Sequence[Extent]]  # of an op's attributes, those whose numbers depend on the sizes


def make_sizes_dynamic(
    main: func.FuncOp, found: Differences, inputs: Sequence[TensorInfo], scalars: Mapping[str, Extent]
) -> None:
    """Rewrite a function that is written for one of the sizes; ``found`` says what depends on them.

    ``inputs`` are those of the function, with their open extents, and ``scalars`` what those of rank 0 hold. Where the
    extents alone do not tell that views and slices fit, the program checks it when it runs.

    Before, and the same with 5 in place of 3::

        %e = tensor.empty() : tensor<3x8xf32>
        %r = linalg.generic ins(%x : tensor<3x8xf32>) outs(%e : tensor<3x8xf32>) {...}

    After::

        %n = tensor.dim %x, %c0
        %e = tensor.empty(%n) : tensor<?x8xf32>
        %r = linalg.generic ins(%x : tensor<?x8xf32>) outs(%e : tensor<?x8xf32>) {...}
    """
    for value, shape in found.shapes.items():
        value.set_type(builders.ranked_type(shape, builders.element_of(value)))
        extents.note(value, shape)
    block = main.entry_block
    bind_sizes(block, inputs, scalars)
    for op, number, constant in found.constants:
        with ir.InsertionPoint(op), op.location:
            op.operands[number] = _emit_constant(op.operands[number], constant)
    for op in collect(main, lambda op: op.name in _REWRITES):
        amounts = found.amounts.get(op.results[0], {})
        if amounts or any(is_dynamic_type(v.type) for v in (*op.operands, *op.results)):
            with ir.InsertionPoint(op), op.location:
                _REWRITES[op.name](op, amounts)
    returned = block.operations[len(block.operations) - 1].operands
    kind = ir.FunctionType.get([a.type for a in block.arguments], [value.type for value in returned])
    main.attributes["function_type"] = ir.TypeAttr.get(kind)


def _emit_constant(constant: ir.Value, extent: Extent | tuple[Extent, ...]) -> ir.Value:
    """The replacement of a constant: an extent in its type, or a tensor of this shape that holds its number."""
    if not isinstance(extent, tuple):
        return const(extent, constant.type)  # type: ignore[arg-type]  # a number too
    op = defining_op(constant)
    assert op is not None
    return builders.full(extent, _emit_splat(ir.DenseElementsAttr(op.attributes["value"])))


def _emit_splat(dense: ir.DenseElementsAttr) -> ir.Value:
    attribute: Any = dense.get_splat_value()
    return arith.ConstantOp(attribute.type, attribute).result


def _replace(op: ir.Operation, value: ir.Value) -> None:
    op.results[0].replace_all_uses_with(value)
    op.erase()


def remember_extents(main: func.FuncOp) -> None:
    """Let a concat read what its operands were before casts that forget their extents, which torch-mlir puts there."""
    for op in collect(main, lambda op: op.name == "tensor.concat"):
        for number, value in enumerate(op.operands):
            made = defining_op(value)
            if made is not None and made.name == "tensor.cast" and is_dynamic_type(value.type):
                op.operands[number] = made.operands[0]


def _known_shape(op: ir.Operation, value: ir.Value) -> tuple[Extent, ...]:
    """The shape of an op's tensor; UnsupportedError for one that neither the text nor the samples tell."""
    shape = builders.shape_of(value)
    if DYNAMIC in (n for n in shape if not isinstance(n, Sym)):
        where = f"{op.location.name_str}: " if op.location.is_a_name() else ""
        raise UnsupportedError(f"{where}the sizes of what it computes are not known from the open ones: give numbers")
    return shape


def _rewrite_empty(op: ir.Operation, _: Amounts) -> None:
    result = op.results[0]
    _replace(op, builders.empty(_known_shape(op, result), builders.element_of(result)))


def _splat_tensor(op: ir.Operation, _: Amounts) -> None:
    _replace(op, builders.full(_known_shape(op, op.results[0]), op.operands[0]))


def _rewrite_collapse(op: ir.Operation, _: Amounts) -> None:
    _demand_groups(op, op.operands[0], op.results[0])


def _rewrite_expand(op: ir.Operation, _: Amounts) -> None:
    source, result = op.operands[0], op.results[0]
    shape = _known_shape(op, result)
    _demand_groups(op, result, source)
    values, known = extents.split_mixed(shape)
    made = tensor.ExpandShapeOp(result.type, source, _read_groups(op), values, known).result
    _replace(op, extents.note(made, shape))


def _demand_groups(op: ir.Operation, wide: ir.Value, narrow: ir.Value) -> None:
    """Check that the products of a view's groups of extents are the extents on its other side."""
    extents_ = builders.shape_of(wide)
    for group, extent in zip(_read_groups(op), builders.shape_of(narrow), strict=True):
        extents.demand_equal(count_elements([extents_[axis] for axis in group]), extent, _MISFIT)


def _read_groups(op: ir.Operation) -> list[list[int]]:
    groups = ir.ArrayAttr(op.attributes["reassociation"])
    return [[ir.IntegerAttr(axis).value for axis in ir.ArrayAttr(group)] for group in groups]


def _rewrite_slice(op: ir.Operation, amounts: Amounts) -> None:
    """``tensor.extract_slice`` and ``tensor.insert_slice``: their last tensor operand is the one that is cut."""
    count = sum(isinstance(value.type, ir.RankedTensorType) for value in op.operands)
    *inserted, whole = list(op.operands)[:count]
    given, parts, numbers = iter(list(op.operands)[count:]), [], {}
    for name in ("offsets", "sizes", "strides"):
        numbers[name] = list(amounts.get(f"static_{name}", ir.DenseI64ArrayAttr(op.attributes[f"static_{name}"])))
        values = [next(given) if n == DYNAMIC else extents.index(n) for n in numbers[name] if not _is_number(n)]
        parts.append((values, [extents.as_type_extent(n) for n in numbers[name]]))
    for place in zip(numbers["offsets"], numbers["sizes"], numbers["strides"], builders.shape_of(whole), strict=True):
        if DYNAMIC not in place:
            _demand_inside(*place)
    dynamic, known = [values for values, _ in parts], [static for _, static in parts]
    shape = builders.shape_of(op.results[0])
    if inserted:
        made = tensor.InsertSliceOp(inserted[0], whole, *dynamic, *known).result
    else:
        made = tensor.ExtractSliceOp(op.results[0].type, whole, *dynamic, *known).result
    _replace(op, extents.note(made, shape))


def _is_number(amount: Extent) -> bool:
    return isinstance(amount, int) and amount != DYNAMIC


def _demand_inside(offset: Extent, size: Extent, stride: Extent, extent: Extent) -> None:
    """Check that a slice along one axis is of elements that are there."""
    extents.demand_less(-1, offset, _MISFIT)
    extents.demand_less(-1, size, _MISFIT)
    extents.demand_less(offset + (size - 1) * stride, extent, _MISFIT)


def _rewrite_pad(op: ir.Operation, amounts: Amounts) -> None:
    low, high = (
        amounts.get(name, list(ir.DenseI64ArrayAttr(op.attributes[name]))) for name in ("static_low", "static_high")
    )
    for amount in (*low, *high):
        if isinstance(amount, Sym):
            extents.demand_less(-1, amount, _MISFIT)
    cut, cut_above = ([max(-n, 0) if isinstance(n, int) else 0 for n in amounts] for amounts in (low, high))
    x = op.operands[0]
    if any((*cut, *cut_above)):  # a number may be negative
        left = zip(builders.shape_of(x), cut, cut_above, strict=True)
        x = builders.slice_(x, cut, [n - below - above for n, below, above in left])
        low, high = ([0 if isinstance(n, int) and n < 0 else n for n in amounts] for amounts in (low, high))
    _replace(op, builders.pad(x, low, high, _padding(op)))


def _padding(op: ir.Operation) -> ir.Value:
    """The number that a padding holds, as a value before the op."""
    block = op.regions[0].blocks[0]
    value = block.operations[len(block.operations) - 1].operation.operands[0]
    source = defining_op(value)
    if source is None or source.name != "arith.constant" or source.block != block:
        return value
    return source.clone().results[0]


def _rewrite_concat(op: ir.Operation, _: Amounts) -> None:
    for value in op.operands:
        _known_shape(op, value)
    _replace(op, builders.concat(list(op.operands), ir.IntegerAttr(op.attributes["dim"]).value))


# Ops that say in numbers how large their results are.
_REWRITES: Mapping[str, Callable[[ir.Operation, Amounts], None]] = {
    "tensor.empty": _rewrite_empty,
    "tensor.splat": _splat_tensor,
    "tensor.collapse_shape": _rewrite_collapse,
    "tensor.expand_shape": _rewrite_expand,
    "tensor.extract_slice": _rewrite_slice,
    "tensor.insert_slice": _rewrite_slice,
    "tensor.pad": _rewrite_pad,
    "tensor.concat": _rewrite_concat,
}
