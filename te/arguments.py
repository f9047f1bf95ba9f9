"""The arguments of a program of tensor expressions: its inputs, then its outputs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from ..core.errors import ExpressionError
from ..core.sizes import Sym, symbols_of
from .expr import SizeVar
from .expr_parts import walk
from .scan import ScanOp
from .schedule import Schedule
from .tensor import ComputeOp, Op, PlaceholderOp, Tensor


def split_args(schedule: Schedule, args: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """The inputs and the outputs among the arguments of a program; ExpressionError for others than the schedule's."""
    for each in args:
        if not isinstance(each, Tensor):
            raise ExpressionError(f"the arguments of a program are tensors, not a {type(each).__name__}")
    for number, each in enumerate(args):
        if any(each.op is other.op and each.value_index == other.value_index for other in args[:number]):
            raise ExpressionError(f"'{each.name}' is an argument twice: give it once")
    inputs = [t for t in args if isinstance(t.op, PlaceholderOp)]
    outputs = [t for t in args if not isinstance(t.op, PlaceholderOp)]
    if list(args) != [*inputs, *outputs]:
        raise ExpressionError("the arguments of a program are its inputs, then its outputs: change their order")
    needed = [stage.op.output(0) for stage in schedule.stages if stage.is_placeholder]
    for tensor in needed:
        if tensor not in inputs:
            raise ExpressionError(f"'{tensor.name}' is read and no argument: add it to the inputs")
    made = [schedule[tensor].stage for tensor in outputs]
    for tensor, stage in zip(outputs, made, strict=True):
        if stage.origin not in schedule.outputs and (stage.inline or stage.at is not None):
            raise ExpressionError(
                f"'{tensor.name}' is an argument, and computed where others need it: a program gives what is computed"
                " as a whole; leave it out of the arguments"
            )
        if stage.origin not in schedule.outputs:
            raise ExpressionError(f"'{tensor.name}' is an argument: give it to te.create_schedule, too, as an output")
    for op in schedule.outputs:
        for number in range(op.num_outputs):
            if not any(t.op is op and t.value_index == number for t in outputs):
                raise ExpressionError(
                    f"'{op.output(number).name}' is an output of the schedule: add it to the arguments"
                )
    bound = {name for tensor in inputs for extent in tensor.shape for name in symbols_of(extent)}
    for stage in schedule.stages:
        for name in sorted(set(list_sizes(stage.op)) - bound):
            raise ExpressionError(f"'{stage.name}' computes with '{name}', which no input has as an extent")
    return inputs, outputs


def name_arguments(args: Sequence[Tensor]) -> Iterator[str]:
    """The names of a program's arguments: of several of one name all but the first have a number."""
    used: set[str] = set()
    for tensor in args:
        numbered = (f"{tensor.name}_{number}" for number in itertools.count(1))
        name = next(name for name in itertools.chain([tensor.name], numbered) if name not in used)
        used.add(name)
        yield name


def list_sizes(op: Op) -> Iterator[str]:
    """The names of the sizes that only the run knows and that an op computes with."""
    for extent in (*op.shape, *(axis.dom.extent for axis in (*op.axis, *op.reduce_axis))):
        yield from symbols_of(extent)
    for shape in op.shapes if isinstance(op, ScanOp) else ():
        for extent in shape:
            yield from symbols_of(extent)
    for step in op.steps if isinstance(op, ScanOp) else ():
        yield from list_sizes(step)
    for expr in op.body if isinstance(op, ComputeOp) else ():
        for part in walk(expr):
            if isinstance(part, SizeVar):
                yield from symbols_of(part.extent)


def as_multiple(extent: Sym) -> tuple[str, int, int] | None:
    """The symbol, its factor and what is added to it, of an extent that is no more than that; else None."""
    rest = sum(factor for atoms, factor in extent.terms if not atoms)
    terms = [(atoms, factor) for atoms, factor in extent.terms if atoms]
    if len(terms) != 1 or len(terms[0][0]) != 1 or terms[0][0][0].function is not None or terms[0][1] < 1:
        return None
    [(atoms, factor)] = terms
    return atoms[0].name, factor, rest
