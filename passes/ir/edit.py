"""Reading and editing programs: their functions, what depends on weights alone, what is no work; ops made anew."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from ...dialects import func, ir, tw
from ...dialects.types import is_dynamic_type
from ...dialects.walk import defining_op
from .kernel import list_functions
from .maps import permutation_of
from .routine_ops import VIEWS, is_append, is_body, is_body_call, is_check, is_control, is_external_call, is_host_call
from .signatures import list_attributes, list_params
from .structure import body_ops, is_structured, is_tensor, list_ops, num_inputs, terminator_of
from .uses import find_needed_values, has_uses, nested_ops


def list_programs(module: ir.Module) -> list[func.FuncOp]:
    """The functions that become programs: the public ones, those that prepare a weight, and bodies of control flow."""
    return [f for f in list_functions(module) if tw.PREPARES in f.attributes or is_body(f) or not is_private(f)]


def is_private(function: func.FuncOp) -> bool:
    """Return whether nothing outside of the module can call the function."""
    visibility = function.attributes.get("sym_visibility", None)
    return visibility is not None and ir.StringAttr(visibility).value == "private"


def program_order(function: func.FuncOp) -> dict[ir.Value, int]:
    """The place of each op that has results, by its first one: an op's own hash changes with its operands."""
    return {op.results[0]: i for i, op in enumerate(list_ops(function)) if len(op.results)}


def body_of(op: ir.Operation) -> Callable[..., ir.Value]:
    """The scalar computation of a generic with one result, as a function for ``builders.generic``."""

    def body(*arguments: ir.Value) -> ir.Value:
        mapping: dict[ir.Value, ir.Value] = dict(zip(op.regions[0].blocks[0].arguments, arguments, strict=True))
        for inner in body_ops(op):
            clone(inner, mapping)
        stored = terminator_of(op).operands[0]
        return mapping.get(stored, stored)

    return body


def splat_of(value: ir.Value) -> float | int | None:
    """The number that a constant or filled tensor has everywhere, or that a scalar constant is."""
    op = defining_op(value)
    if op is not None and op.name == "linalg.fill":
        return splat_of(op.operands[0])
    if op is None or op.name != "arith.constant":
        return None
    attribute = op.attributes["value"]
    if isinstance(attribute, ir.DenseElementsAttr):
        attribute = attribute.get_splat_value() if attribute.is_splat else None
    return attribute.value if isinstance(attribute, ir.FloatAttr | ir.IntegerAttr | ir.BoolAttr) else None


def param_values(function: func.FuncOp) -> set[ir.Value]:
    """All values that depend on params and constants alone, with the params; empty and filled tensors are none."""
    return known_values(function)[0]


def known_values(function: func.FuncOp) -> tuple[set[ir.Value], set[ir.Value]]:
    """``param_values``, and what depends on no input either but is no weight: empty and filled tensors, scalars."""
    known = set(list_params(function))
    neutral: set[ir.Value] = set()
    others = {value for value in function.arguments if value not in known}
    for op in list_ops(function):
        _choose_set(op, known, neutral, others).update(op.results)
    return known, neutral


def _choose_set(op: ir.Operation, known: set[ir.Value], neutral: set[ir.Value], others: set[ir.Value]) -> set[ir.Value]:
    """The one of these sets, which have all values before an op, that its results belong to."""
    if _reads_any(op, others) or is_host_call(op) or is_external_call(op) or is_body_call(op) or is_control(op):
        return others
    if op.name in ("tensor.empty", "linalg.fill") or not any(map(is_tensor, op.results)):
        return neutral
    if op.name == "arith.constant" or any(value not in neutral for value in find_needed_values(op)):
        return known
    return neutral if op.name in VIEWS or _is_fill(op) else others


def _reads_any(op: ir.Operation, values: set[ir.Value]) -> bool:
    """Return whether an op needs one of these values: most that do show it at once, of large regions too."""
    users = itertools.chain([op], nested_ops(op))
    return any(value in values for user in users for value in user.operands)


def _is_fill(op: ir.Operation) -> bool:
    """Return whether an op is a ``linalg.fill`` as a generic: it yields a number that depends on no operand."""
    return is_structured(op) and num_inputs(op) == 0 and not body_ops(op)


def clone(op: ir.Operation, mapping: dict[ir.Value, ir.Value]) -> ir.Operation:
    """Clone an op at the insertion point with its operands and captures replaced; adds its results to ``mapping``."""
    copy = op.clone()
    for user in (copy, *nested_ops(copy)):
        for i, operand in enumerate(user.operands):
            if operand in mapping:
                user.operands[i] = mapping[operand]
    mapping.update(zip(op.results, copy.results, strict=True))
    return copy


def replace(op: ir.Operation, values: Sequence[ir.Value]) -> None:
    """Let ``values`` take the place of an op's results, and erase the op."""
    for old, new in zip(op.results, values, strict=True):
        old.replace_all_uses_with(new)
    op.erase()


# What may be erased without users and cloned to its users: it costs nothing, or the kernel that reads it folds it.
CHEAP = ("tensor.empty", "arith.constant", "linalg.fill", "linalg.unpack", "tensor.extract_slice")


def is_cheap(op: ir.Operation) -> bool:
    """Return whether an op costs nothing: constants, fills, slices, the view of a packed weight, scalar arithmetic."""
    name = op.name
    if name in CHEAP:
        return True
    if name == "tensor.cast":
        source = defining_op(op.operands[0])
        return source is not None and is_cheap(source)
    if not name.startswith(("arith.", "math.", "tensor.", "index.", "affine.")) or len(op.regions):
        return False
    return bool(len(op.results)) and not any(is_tensor(r) for r in op.results)


def is_size(op: ir.Operation) -> bool:
    """Return whether an op computes a size that the program passes to its kernels: an index that is not a constant."""
    return all(isinstance(r.type, ir.IndexType) for r in op.results) and op.name != "arith.constant"


def needs_routine(function: func.FuncOp) -> bool:
    """Return whether a function becomes a routine: for dynamic sizes, states, calls of the host, checks, control flow.

    After `outline` the tensors of dynamic sizes may all be inside kernels, to which the program passes the sizes.
    """
    if is_body(function) or any(map(_has_dynamic_type, function.arguments)):
        return True
    if any(tw.STATE in attributes for attributes in list_attributes(function)):
        return True
    return any(_is_carried_out(op) or any(map(_has_dynamic_type, op.results)) for op in list_ops(function))


def _is_carried_out(op: ir.Operation) -> bool:
    """Return whether an op is more than the call of a kernel of known sizes."""
    if op.name == "func.call":
        return (
            is_host_call(op)
            or is_body_call(op)
            or is_append(op)
            or any(isinstance(v.type, ir.IndexType) for v in op.operands)
        )
    return is_control(op) or is_check(op)


def _has_dynamic_type(value: ir.Value) -> bool:
    """Return whether a value is no tensor of known sizes but one of open ones, or no tensor for the runtime either."""
    return isinstance(value.type, ir.NoneType) or is_dynamic_type(value.type)


def erase_dead(function: func.FuncOp) -> None:
    """Erase the ops without users that are cheap, views, structured or a kernel's loops, from the last to the first."""
    for op in reversed(list_ops(function)):
        if not len(op.results) or has_uses(op):
            continue
        if is_cheap(op) or op.name.startswith(("linalg.", "tensor.")) or _is_kernel_loop(op):
            op.erase()


def _is_kernel_loop(op: ir.Operation) -> bool:
    return op.name.startswith("scf.") and not is_control(op)


def hoist(value: ir.Value, op: ir.Operation) -> None:
    """Move what computes a value before ``op``."""
    source = defining_op(value)
    if source is None or source.is_before_in_block(op):
        return
    for needed in find_needed_values(source):
        hoist(needed, op)
    source.move_before(op)


def drop_identity(op: ir.Operation) -> None:
    """Let the readers of a generic that stores what it reads read that instead; any other op is left alone."""
    order = permutation_of(op)
    if order is not None and order == sorted(order):
        replace(op, [op.operands[0]])


def fused_location(ops: Sequence[ir.Operation]) -> ir.Location:
    """One location with the names of all, each once."""
    parts: dict[ir.Location, None] = {}
    for op in ops:
        location = op.location
        parts.update(dict.fromkeys(location.locations if location.is_a_fused() else [location]))
    known = [p for p in parts if p.is_a_name()] or list(parts)
    return known[0] if len(known) == 1 else ir.Location.fused(known)


def node_names(location: ir.Location) -> list[str]:
    """The model's node names in a location, each once."""
    if location.is_a_name():
        return [location.name_str]
    if location.is_a_fused():
        return list(dict.fromkeys(n for part in location.locations for n in node_names(part)))
    return []


def string_attr(attributes: Any, name: str) -> str | None:
    """The text of a string attribute of an op or a dictionary, None where it is absent."""
    return ir.StringAttr(attributes[name]).value if name in attributes else None
