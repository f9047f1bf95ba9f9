"""Helpers of the passes on kernels: the form of a kernel between passes, and upstream passes run on one.

A kernel begins as ``func @k(inputs…) -> result`` on tensors. ``apply-schedule`` makes it ``func @k(inputs…, results…,
lo, hi)`` on buffers, ``plan-scratch`` puts ``scratch`` before ``lo``, and ``wrap-kernel`` ends with the function that
``program.Kernel`` describes. Passes communicate by attributes of the function.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...core.breadcrumbs import step
from ...core.program import Kernel
from ...dialects import func, ir, tw
from ...dialects.context import diagnostics, run_pipeline
from ...dialects.types import is_static_type
from ...dialects.walk import find_named, list_items
from .structure import list_ops

MAXIMA = ("arith.maximumf", "arith.maxnumf")
LINE = 64  # bytes of a cache line, at which a result must begin for `STREAMS`

Summed = tuple[tuple[int, int], ...]  # numbers of arguments, and axes


def list_functions(module: ir.Module) -> list[func.FuncOp]:
    """The functions of the module that have a body."""
    return [op for op in module.body.operations if isinstance(op, func.FuncOp) and not op.is_external]


def find_kernel(module: ir.Module) -> func.FuncOp:
    """The function of a kernel's module; one that a code generator of a user's has made has no body."""
    return next(op for op in module.body.operations if isinstance(op, func.FuncOp))


def is_generated(module: ir.Module) -> bool:
    """Return whether a code generator of a user's has made the code of a kernel's module."""
    functions = [op for op in module.body.operations if isinstance(op, func.FuncOp)]
    return bool(functions) and functions[0].is_external


def scheduled_functions(module: ir.Module) -> list[func.FuncOp]:
    """The functions that are nests of tiles."""
    return [f for f in list_functions(module) if tw.SCHEDULE in f.attributes or tw.PARTS in f.attributes]


def has_only_nests(module: ir.Module) -> bool:
    """Return whether all functions of the module are nests of tiles, without plain loops beside them."""
    return all(tw.SCHEDULE in function.attributes for function in list_functions(module))


def symbol_of(op: ir.OpView | ir.Operation) -> str:
    """The name of a function or another op with a symbol."""
    return ir.StringAttr(op.operation.attributes["sym_name"]).value


def is_declaration(op: ir.OpView) -> bool:
    """Return whether an op of a lowered module is an ``llvm.func`` without a body."""
    return op.operation.name == "llvm.func" and not list(op.operation.regions[0].blocks)


def is_dynamic_kernel(function: func.FuncOp) -> bool:
    """Return whether a kernel on tensors takes sizes, or tensors of dynamic sizes."""
    return not all(map(is_static_type, (*function.type.inputs, *function.type.results)))


def count_of(op: ir.OpView | ir.Operation, name: str) -> int:
    """A number that a pass noted on a kernel; 0 where it noted none."""
    return ir.IntegerAttr(op.attributes[name]).value if name in op.attributes else 0


def takes_sizes(function: func.FuncOp) -> bool:
    """Return whether a kernel on buffers has buffers of dynamic sizes."""
    return count_of(function, tw.SIZES) > 0


def in_place(op: ir.OpView | ir.Operation) -> list[int]:
    """The numbers of a kernel's arguments that the plan lets the result be written over."""
    return list(ir.DenseI64ArrayAttr(op.attributes[tw.IN_PLACE])) if tw.IN_PLACE in op.attributes else []


def mark_in_place(function: ir.OpView | ir.Operation, numbers: Sequence[int]) -> None:
    """Note which of a kernel's arguments its result may be written over, and no others."""
    if numbers:
        function.attributes[tw.IN_PLACE] = ir.DenseI64ArrayAttr.get(list(numbers))
    elif tw.IN_PLACE in function.attributes:
        del function.attributes[tw.IN_PLACE]


def mark_one_of_many(function: ir.OpView | ir.Operation, axes: Sequence[Sequence[int]]) -> None:
    """Note the axes of each argument of which a block has one place, and the kernel that it is a block of has many."""
    if any(axes):
        function.attributes[tw.ONE_OF_MANY] = ir.ArrayAttr.get([ir.DenseI64ArrayAttr.get(list(each)) for each in axes])


def axes_of_many(argument: ir.Value) -> list[int]:
    """The axes of an argument of a block of which that has one place of many; none of what is no such argument."""
    if not isinstance(argument, ir.BlockArgument) or not isinstance(block := argument.owner, ir.Block):
        return []
    marks = block.owner.attributes
    if tw.ONE_OF_MANY not in marks:
        return []
    axes = list_items(ir.ArrayAttr(marks[tw.ONE_OF_MANY]))
    return list(ir.DenseI64ArrayAttr(axes[argument.arg_number])) if argument.arg_number < len(axes) else []


def stated_summed(op: ir.OpView | ir.Operation) -> Summed:
    """The open sizes that a kernel sums along, as noted on it or on a call of it (``analysis/summed.py``)."""
    attributes = op.operation.attributes
    flat = list(ir.DenseI64ArrayAttr(attributes[tw.SUMMED])) if tw.SUMMED in attributes else []
    return tuple(zip(flat[::2], flat[1::2], strict=True))


def find_script(function: func.FuncOp) -> str | None:
    """The script that a kernel on tensors has for its loops; None where it has none."""
    found = [op.attributes[tw.SCRIPT] for op in list_ops(function) if tw.SCRIPT in op.attributes]
    return ir.StringAttr(found[0]).value if found else None


def copy_marks(source: func.FuncOp, made: func.FuncOp) -> None:
    """Mark a kernel made from another as that is marked."""
    for mark in (tw.FLUSH_DENORMALS, tw.LOSES_NAN, tw.IN_PLACE, tw.COPIED, tw.IN_PHASES):
        if mark in source.attributes:
            made.attributes[mark] = source.attributes[mark]


def module_beside(
    function: func.FuncOp,
    inputs: Sequence[ir.Type],
    results: Sequence[ir.Type],
    given: Sequence[ir.Value] | None = None,
) -> tuple[ir.Module, ir.Block]:
    """A module of its own with a function of these types and the kernel's name and marks, and its body, still empty.

    ``given``: the values of the kernel that the first of its arguments are, or are parts of; None for all arguments.
    """
    module = ir.Module.create()
    with ir.InsertionPoint(module.body):
        made = func.FuncOp(symbol_of(function), (list(inputs), list(results)))
    copy_marks(function, made)
    if given is not None:
        shared = [function.arguments[number] for number in in_place(function)]
        mark_in_place(made, [number for number, value in enumerate(given) if value in shared])
    return module, made.add_entry_block()


def run_upstream(
    op: ir.OpView | ir.Module, passes: tuple[str, ...], needs: Mapping[str, Sequence[str]] | None = None
) -> None:
    """Run upstream passes in order on a module or function; a failure is a CompileError that names the pass.

    Those that ``needs`` has are left out where no op has one of their names: to find none takes them ten times as long.
    What the passes have made is verified once, after the last: to verify after each takes a quarter of their time.
    """
    anchor = op.operation.name
    for name in passes:
        if needs and name in needs and not find_named(op, *needs[name]):
            continue
        what = f"upstream pass '{name.split('{')[0]}'"
        with step(what), diagnostics(what):
            run_pipeline(op.operation, f"{anchor}({name})", verified=False)
    with diagnostics("what upstream passes made"):
        op.operation.verify()


def integer_attr(value: int) -> ir.IntegerAttr:
    """A 64-bit integer attribute."""
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)


def _read_texts(op: ir.OpView | ir.Operation) -> dict[str, str]:
    """What is written down of a kernel's schedule."""
    attributes = op.operation.attributes
    names = (tw.SCHEDULE, tw.PARTS, tw.REASON, tw.SCHEDULE_JSON)
    return {name: ir.StringAttr(attributes[name]).value for name in names if name in attributes}


def find_schedule_text(function: func.FuncOp) -> str:
    """What `apply-schedule` has noted on a kernel: its script, its schedule, or why it has none."""
    if tw.SCRIPT in function.attributes:
        return ir.StringAttr(function.attributes[tw.SCRIPT]).value
    return next(iter(_read_texts(function).values()), "plain loops")


def describe_kernel(op: ir.OpView | ir.Operation) -> Kernel:
    """The kernel that a function with its loops is, without its object: scratch memory is known when it is wrapped."""
    attributes = op.operation.attributes
    extent, scratch = ir.IntegerAttr(attributes[tw.EXTENT]).value, count_of(op, tw.SCRATCH)
    texts = _read_texts(op)
    schedule, as_json = texts.get(tw.SCHEDULE, texts.get(tw.PARTS, "")), texts.get(tw.SCHEDULE_JSON, "")
    parallel, ahead = tw.PARALLEL in attributes, tw.AHEAD in attributes
    asks, exchanges = tw.ASKS_SCRATCH in attributes, tw.EXCHANGES in attributes
    made = Kernel(symbol_of(op), b"", extent, parallel, scratch, schedule=schedule, schedule_json=as_json, ahead=ahead)
    flushes = tw.FLUSH_DENORMALS in attributes
    made = replace(
        made, reason=texts.get(tw.REASON, ""), exchanges=exchanges, streamed_from=count_of(op, tw.STREAMED_FROM)
    )
    return replace(made, asks_scratch=asks, parallel_from=count_of(op, tw.PARALLEL_FROM), flushes_denormals=flushes)
