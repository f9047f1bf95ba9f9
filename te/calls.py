"""The calls of an intrinsic as an op has them, ``tw.intrinsic``: a text of JSON that ``call-intrinsics`` reads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from .expr import Literal, SizeVar
from .intrinsic import ExternCall, Pointer, TensorIntrin
from .matching import Tensorization
from .stage import Stage
from .tensor import Tensor


def calls_of(intrinsic: TensorIntrin, match: Tensorization) -> tuple[ExternCall, ...]:
    """The calls that are a tile: those that go on with a reduction where loops around have begun it."""
    return intrinsic.update if match.goes_on else intrinsic.body


def resets_of(intrinsic: TensorIntrin, match: Tensorization) -> tuple[ExternCall, ...]:
    """The calls that begin a reduction, where they write just what is begun, and nothing else; else none."""
    used = [each.buffer for call in intrinsic.reset for each in call.arguments if isinstance(each, Pointer)]
    [output, *more] = intrinsic.outputs
    alone = all(buffer is intrinsic.buffers[output] for buffer in used)
    return intrinsic.reset if match.is_begun_alike and alone and not more else ()


def called_functions(stage: Stage) -> list[str]:
    """The names of the functions that a stage's intrinsic may call."""
    if stage.intrinsic is None:
        return []
    intrinsic = stage.intrinsic[1]
    return [*dict.fromkeys(call.function for call in (*intrinsic.body, *intrinsic.reset, *intrinsic.update))]


def calls_text(
    calls: Sequence[ExternCall], intrinsic: TensorIntrin, match: Tensorization, operands: Mapping[Tensor, int]
) -> str:
    """The calls as data, where the intrinsic's tensors are these ``operands`` of an op."""
    return json.dumps([[call.function, [_argument_data(each, intrinsic, match, operands) for each in call.arguments]]
                       for call in calls])  # fmt: skip


def _argument_data(
    argument: Pointer | Literal | SizeVar, intrinsic: TensorIntrin, match: Tensorization, operands: Mapping[Tensor, int]
) -> list[Any]:
    if isinstance(argument, Literal):
        return ["number", argument.dtype, argument.value]
    if isinstance(argument, Pointer):
        tensor = next(t for t, buffer in intrinsic.buffers.items() if buffer is argument.buffer)
        return ["pointer", operands[tensor], argument.offset]
    for tensor, buffer in intrinsic.buffers.items():
        for extent, axis in zip(buffer.extents, match.axes[tensor], strict=True):
            if extent == argument.extent and axis is not None and tensor in operands:
                return ["stride", operands[tensor], axis]
    return ["number", "int32", 1]  # of one element
