"""Canonical form of data movement: transposes, reshapes, slices and paddings that are no work, or are one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...dialects import arith, builders, func, ir, tensor
from ...dialects.context import run_pipeline
from ...dialects.walk import defining_op
from ..analysis.classify import classify_op
from ..analysis.kinds import Contraction
from ..infra.base import Pass
from ..ir.dynamic_sizes import slice_amounts
from ..ir.edit import list_programs, replace
from ..ir.maps import permutation_of, reassociation_of
from ..ir.routine_ops import VIEWS
from ..ir.slices import read_under_slice
from ..ir.structure import dim_of, indexing_maps, is_dynamic, is_structured, is_tensor, list_ops, num_inputs, shape_of
from ..ir.uses import nested_ops, users_of


@dataclass(frozen=True)
class CanonicalizeOps(Pass):
    """Upstream's canonicalization, then transposes and slices of one another, until nothing changes.

    Before::

        %t = linalg.generic {(a, b) -> (b, a)} ins(%x)      // a transpose
        %u = linalg.generic {(a, b) -> (b, a)} ins(%t)      // and back
        %c = tensor.concat dim(0) %u, %y                    // 4 rows and 4 rows
        %s = tensor.extract_slice %c[5, 0] [3, 8]           // all in the second ones

    After::

        %s = tensor.extract_slice %y[1, 0] [3, 8]

    A transpose that moves unit dims alone becomes a reshape. What slices alone read of a copy that a transpose makes,
    packed queries, keys and values, is sliced before it; the result of a product is transposed before it gets dims of
    extent 1. A reshape of a slice becomes a slice of a reshape where it
    can, as kernels read a slice in place, but nothing of a reshape of one: ``[6, 4] -> slice [2, 4] -> [2, 2, 2]`` is
    ``[6, 4] -> [6, 2, 2] -> slice [2, 2, 2]``. An extent of a result that an operand has as a number is that number
    (upstream says so only where no operand is repeated). A body that reads elements of a slice reads what is sliced, as
    vectors are gathered from whole tensors alone. A fill needs nothing of what it fills. Upstream folds reshapes of
    reshapes, paddings by nothing and of paddings, concats of one tensor, slices of the whole.
    """

    name: ClassVar[str] = "canonicalize-ops"

    def apply(self, module: ir.Module) -> None:
        """Rewrite all programs of the module."""
        run_pipeline(module.operation, _UPSTREAM)
        while any([_follow(f) for f in list_programs(module)]):
            run_pipeline(module.operation, _UPSTREAM)


def _follow(function: func.FuncOp) -> bool:
    """Apply each rule to the ops that it is about; whether any has changed something."""
    ops, changed = _by_name(function), False
    for rule, names in _RULES.items():
        if any([rule(op) for name in names for op in ops.get(name, ())]):
            ops, changed = _by_name(function), True
    return changed


def _by_name(function: func.FuncOp) -> dict[str, list[ir.Operation]]:
    """The ops of a function by their names; structured ones, of whatever name, are ``linalg``."""
    ops: dict[str, list[ir.Operation]] = {}
    for op in list_ops(function):
        name = op.name
        ops.setdefault("linalg" if name.startswith("linalg.") else name, []).append(op)
    return ops


def _fold_transposes(op: ir.Operation) -> bool:
    """Fold one transposing copy into the transpose before it, or into a view; False where there is nothing to fold."""
    order = permutation_of(op)
    if order is None:
        return False
    source, folded = op.operands[0], False
    before = defining_op(source)
    while before is not None and (inner := permutation_of(before)) is not None:
        order, source, folded = [inner[d] for d in order], before.operands[0], True
        before = defining_op(source)
    moved = [d for d in order if shape_of(source)[d] != 1]
    with ir.InsertionPoint(op), op.location:
        if moved == sorted(moved):
            replace(op, [builders.reshape(source, shape_of(op.results[0]))])
            return True
        if folded:
            replace(op, [builders.transpose(source, order)])
    return folded


def _transpose_before_view(op: ir.Operation) -> bool:
    """Transpose the result of a product first and add unit dims then, so that the product can write it transposed."""
    order, view = permutation_of(op), defining_op(op.operands[0]) if len(op.operands) else None
    if order is None or view is None or view.name != "tensor.expand_shape" or is_dynamic(view):
        return False
    wide, source = shape_of(view.results[0]), view.operands[0]
    dims, made = [d for d, n in enumerate(wide) if n != 1], defining_op(source)
    if [wide[d] for d in dims] != shape_of(source) or made is None or not isinstance(classify_op(made), Contraction):
        return False
    with ir.InsertionPoint(op), op.location:
        moved = builders.transpose(source, [dims.index(d) for d in order if d in dims])
        replace(op, [builders.reshape(moved, shape_of(op.results[0]))])
    return True


def _slice_before_transpose(op: ir.Operation) -> bool:
    """Slice first and transpose then, where slices alone read the copy, none of its elements twice.

    Packed queries, keys and values are such slices; what is left of their transposes moves unit dims, or nothing.
    """
    if (offsets := _read_offsets(op)) is None or (copy := defining_op(op.operands[0])) is None:
        return False
    readers, sizes, whole = users_of(copy), shape_of(op.results[0]), shape_of(op.operands[0])
    if copy.name == "tensor.collapse_shape" and (inner := defining_op(copy.operands[0])) is not None:
        places = [_only_long(group, shape_of(copy.operands[0])) for group in reassociation_of(copy)]
        if None in places or users_of(inner) != [copy]:
            return False
        wide, copy = shape_of(copy.operands[0]), inner
        at = {place: d for d, place in enumerate(places)}
        offsets = [offsets[at[d]] if d in at else 0 for d in range(len(wide))]
        sizes = [sizes[at[d]] if d in at else 1 for d in range(len(wide))]
    order = permutation_of(copy)
    if order is None or order == sorted(order) or any(_read_offsets(reader) is None for reader in readers):
        return False
    if sum(math.prod(shape_of(reader.results[0])) for reader in readers) > math.prod(whole):
        return False
    back = [order.index(d) for d in range(len(order))]
    long = [d for d, place in enumerate(back) if sizes[place] != 1]
    with ir.InsertionPoint(op), op.location:
        part = builders.slice_(copy.operands[0], [offsets[d] for d in back], [sizes[d] for d in back])
        part = builders.reshape(part, [sizes[back[d]] for d in long])
        part = builders.transpose(part, [long.index(d) for d in order if d in long])
        replace(op, [builders.reshape(part, shape_of(op.results[0]))])
    return True


def _only_long(group: Sequence[int], shape: Sequence[int]) -> int | None:
    """The one dim of a group whose extent is not 1, the last one where there is none; None for several."""
    long = [d for d in group if shape[d] != 1]
    return None if len(long) > 1 else (long or group)[-1]


def _fold_slices(op: ir.Operation) -> bool:
    """Let a slice of a slice, or of the part of a concat that one tensor gives, read that tensor."""
    if (found := _read_offsets(op)) is None or (before := defining_op(op.operands[0])) is None or not before.operands:
        return False
    offsets, source = found, before.operands[0]
    if (outer := _read_offsets(before)) is not None:
        offsets = [a + b for a, b in zip(offsets, outer, strict=True)]
    elif before.name == "tensor.concat":
        dim, size = ir.IntegerAttr(before.attributes["dim"]).value, shape_of(op.results[0])
        for source in before.operands:
            extent = shape_of(source)[dim]
            if offsets[dim] >= 0 and offsets[dim] + size[dim] <= extent:
                break
            offsets[dim] -= extent
        else:
            return False
    else:
        return False
    sizes = shape_of(op.results[0])
    with ir.InsertionPoint(op), op.location:
        made = tensor.ExtractSliceOp(op.results[0].type, source, [], [], [], offsets, sizes, [1] * len(sizes))
        replace(op, [made.result])
    return True


def _read_through_slice(op: ir.Operation) -> bool:
    """Let the program read an element of a slice where the slice lies, at ``offset + index * stride``."""
    before = defining_op(op.operands[0]) if op.name == "tensor.extract" else None
    if before is None or before.name != "tensor.extract_slice":
        return False
    source, at = before.operands[0], list(op.operands)[1:]
    if len(at) != len(shape_of(source)):  # a slice without its unit dims
        return False
    with ir.InsertionPoint(op), op.location:
        offsets, strides = slice_amounts(before, "offsets"), slice_amounts(before, "strides")
        moved = [arith.addi(o, arith.muli(i, s)) for o, i, s in zip(offsets, at, strides, strict=True)]
        replace(op, [tensor.ExtractOp(source, moved).result])
    return True


def _read_inside_slices(op: ir.Operation) -> bool:
    """Let a body read elements of what is sliced, at the place where the slice lies in it."""
    reads = [inner for inner in nested_ops(op) if inner.name == "tensor.extract"]
    return any([read_under_slice(inner) for inner in reads])


def _slice_after_view(op: ir.Operation) -> bool:
    """Reshape first and slice then, where all that is cut is the outermost dim of a group of dims."""
    before = defining_op(op.operands[0]) if op.name in VIEWS else None
    if before is None or (offsets := _read_offsets(before)) is None or is_dynamic(op):
        return False
    source, groups = before.operands[0], reassociation_of(op)
    if not groups:  # of one element and no dims, so that there is none to slice
        return False
    narrow = [[d] for d in range(len(groups))]
    ours, theirs = (narrow, groups) if op.name == "tensor.expand_shape" else (groups, narrow)
    cut, whole, shape = shape_of(before.results[0]), shape_of(source), shape_of(op.results[0])
    starts, extents = [0] * len(shape), list(shape)
    for own, other in zip(ours, theirs, strict=True):
        outer = next((d for d in own if cut[d] != 1 or whole[d] != 1), own[-1])
        place = next((d for d in other if shape[d] != 1), other[-1])
        inner = math.prod(cut[d] for d in own if d > outer)
        if any(cut[d] != whole[d] for d in own if d != outer):
            return False
        first, extent = offsets[outer] * inner, whole[outer] * inner
        step = math.prod(shape[d] for d in other if d > place)
        if first % step or extent % step:
            return False
        starts[place], extents[place] = first // step, extent // step
    with ir.InsertionPoint(op), op.location:
        replace(op, [builders.slice_(builders.reshape(source, extents), starts, shape)])
    return True


def _close_extents(op: ir.Operation) -> bool:
    """Give results the extents that operands have as numbers; what reads them sees the same types as before."""
    if not is_structured(op) or not is_dynamic(op):
        return False
    first, maps, closed = num_inputs(op), indexing_maps(op), False
    known = {
        dim: extent
        for value, map_ in zip(op.operands, maps, strict=True)
        if is_tensor(value)
        for extent, place in zip(shape_of(value), map_.results, strict=True)
        if extent >= 0 and (dim := dim_of(place)) is not None
    }
    for number, result in enumerate(op.results):
        places = map(dim_of, maps[first + number].results)
        extents = [known.get(d, n) if d is not None else n for n, d in zip(shape_of(result), places, strict=True)]
        if extents == shape_of(result):
            continue
        opened, type_ = result.type, ir.RankedTensorType.get(extents, ir.RankedTensorType(result.type).element_type)
        with ir.InsertionPoint(op), op.location:
            op.operands[first + number] = tensor.CastOp(type_, op.operands[first + number]).result
        with ir.InsertionPoint.after(op), op.location:
            reopened = tensor.CastOp(opened, result)
            result.replace_all_uses_except(reopened.result, [reopened.operation])
            result.set_type(type_)
        closed = True
    return closed


def _read_offsets(op: ir.Operation) -> list[int] | None:
    """The offsets of a static slice of unit strides that keeps the rank."""
    if op.name != "tensor.extract_slice" or is_dynamic(op) or len(op.operands) != 1:
        return None
    offsets, strides = (list(ir.DenseI64ArrayAttr(op.attributes[f"static_{n}"])) for n in ("offsets", "strides"))
    return offsets if set(strides) <= {1} and len(offsets) == len(shape_of(op.results[0])) else None


_UPSTREAM = "builtin.module(canonicalize)"


def _fill_anew(op: ir.Operation) -> bool:
    """Fill memory of any content: what lies under a fill, which may be other ops' work, is read by nobody."""
    if op.name != "linalg.fill" or is_dynamic(op):
        return False
    under = defining_op(op.operands[1])
    if under is None or under.name == "tensor.empty":
        return False
    with ir.InsertionPoint(op), op.location:
        op.operands[1] = builders.empty(shape_of(op.results[0]), builders.element_of(op.results[0]))
    return True


_RULES: dict[Callable[[ir.Operation], bool], tuple[str, ...]] = {  # with the ops that each is about
    _fold_transposes: ("linalg",),
    _transpose_before_view: ("linalg",),
    _slice_before_transpose: ("tensor.extract_slice",),
    _fold_slices: ("tensor.extract_slice",),
    _read_through_slice: ("tensor.extract",),
    _read_inside_slices: ("linalg",),
    _slice_after_view: VIEWS,
    _close_extents: ("linalg",),
    _fill_anew: ("linalg",),
}
