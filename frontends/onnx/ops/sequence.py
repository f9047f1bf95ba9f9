"""Sequences and optionals, which the host holds, and what only it computes: ImageDecoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

import numpy as np
from onnx import TypeProto

from ..control.ranks import of_ranks
from ..proto.weights import dtype_name
from ..state.context import Context
from ..state.registry import op
from ..values.objects import (
    OBJECT_KINDS,
    OPTIONAL,
    SEQUENCE,
    Element,
    Object,
    element_of,
    element_of_type,
    joined_elements,
)
from ..values.tensor import Tensor


def _sequence(ctx: Context, x: Tensor) -> Object:
    if not isinstance(x, Object) or x.dtype != SEQUENCE:
        ctx.invalid(f"the input is {x}, it must be a sequence")
    return x


@op("SequenceEmpty")
def sequence_empty(ctx: Context, *, dtype: int = 1) -> Tensor:
    return ctx.host("sequence", [], Element(SEQUENCE, None, Element(dtype_name(dtype, "the sequence"), empty=True)))[0]


@op("SequenceConstruct")
def sequence_construct(ctx: Context, *inputs: Tensor) -> Tensor:
    return ctx.host("sequence", inputs, Element(SEQUENCE, None, reduce(joined_elements, map(element_of, inputs))))[0]


@op("SequenceInsert")
def sequence_insert(ctx: Context, sequence: Tensor, tensor: Tensor, position: Tensor | None = None) -> Tensor:
    kept = joined_elements(_sequence(ctx, sequence).element, element_of(tensor))
    return ctx.host("SequenceInsert", [sequence, tensor, *_as_list(position)], Element(SEQUENCE, None, kept))[0]


@op("SequenceErase")
def sequence_erase(ctx: Context, sequence: Tensor, position: Tensor | None = None) -> Tensor:
    kind = Element(SEQUENCE, None, _sequence(ctx, sequence).element)
    return ctx.host("SequenceErase", [sequence, *_as_list(position)], kind)[0]


@op("SequenceAt")
def sequence_at(ctx: Context, sequence: Tensor, position: Tensor) -> Tensor:
    return _given_by(ctx, "SequenceAt", [sequence, position], _read_held(ctx, _sequence(ctx, sequence)))


@op("SequenceLength")
def sequence_length(ctx: Context, sequence: Tensor) -> Tensor:
    return ctx.host("SequenceLength", [_sequence(ctx, sequence)], Element("int64", 0))[0]


@op("SplitToSequence")
def split_to_sequence(
    ctx: Context, x: Tensor, split: Tensor | None = None, *, axis: int = 0, keepdims: int = 1
) -> Tensor:
    rank = x.rank - 1 if split is None and not keepdims else x.rank
    kind = Element(SEQUENCE, None, Element(x.dtype, rank))
    axis = ctx.axis(axis, x.rank)
    return ctx.host("SplitToSequence", [x, *_as_list(split)], kind, axis=axis, keepdims=keepdims)[0]


@op("ConcatFromSequence")
def concat_from_sequence(ctx: Context, sequence: Tensor, *, axis: int, new_axis: int = 0) -> Tensor:
    held = _read_held(ctx, _sequence(ctx, sequence))
    ranks = [rank + bool(new_axis) for rank in held.possible_ranks]
    made = Element(held.dtype, ranks[0]) if len(ranks) == 1 else Element(held.dtype, ranks=tuple(ranks))
    return _given_by(ctx, "ConcatFromSequence", [sequence], made, axis=axis, new_axis=new_axis)


@op("Optional")
def optional(ctx: Context, value: Tensor | None = None, *, type: TypeProto | None = None) -> Tensor:
    held = element_of(value) if value is not None else None
    if value is None and type is not None:
        held = replace(element_of_type(type), empty=True)
    return ctx.host("optional", _as_list(value), Element(OPTIONAL, None, held))[0]


@op("OptionalHasElement")
def optional_has_element(ctx: Context, value: Tensor | None = None) -> Tensor:
    if not isinstance(value, Object) or value.dtype != OPTIONAL:
        return ctx.const(np.array(value is not None), "bool")
    return ctx.host("OptionalHasElement", [value], Element("bool", 0))[0]


@op("OptionalGetElement")
def optional_get_element(ctx: Context, value: Tensor) -> Tensor:
    if not isinstance(value, Object) or value.dtype != OPTIONAL:
        return value
    return _given_by(ctx, "OptionalGetElement", [value], _read_held(ctx, value))


@op("ImageDecoder", shapes="encoded[n]")
def image_decoder(ctx: Context, encoded: Tensor, *, pixel_format: str = "RGB") -> Tensor:
    """The pixels (height, width, channels) of a file's content, which Pillow decodes when the program runs."""
    if pixel_format not in ("RGB", "BGR", "Grayscale"):
        ctx.invalid(f"pixel_format '{pixel_format}' is none of RGB, BGR, Grayscale")
    [pixels] = ctx.host("ImageDecoder", [encoded], Element("uint8", 3), pixel_format=pixel_format)
    return ctx.as_shape(pixels, [*pixels.shape[:2], 1 if pixel_format == "Grayscale" else 3])


def _as_list(value: Tensor | None) -> list[Tensor]:
    return [] if value is None else [value]


def _given_by(ctx: Context, function: str, inputs: Sequence[Tensor], held: Element, **attributes: object) -> Tensor:
    """What a function of the host takes out of a sequence or an optional."""
    if held.ranks:
        return of_ranks(ctx, function, inputs, held.dtype, held.ranks, **attributes)
    return ctx.host(function, inputs, held, **attributes)[0]


def _read_held(ctx: Context, value: Object) -> Element:
    """What a sequence or an optional holds; its rank, or those of numbers that it may have, must be known."""
    held = value.element
    if held is None or not held.dtype:
        ctx.unsupported(f"what the {value.dtype} holds has no type of ours")
    if not held.possible_ranks and held.inner is None and held.dtype not in (SEQUENCE, OPTIONAL):
        ctx.unsupported(f"the rank of what the {value.dtype} holds is not known")
    if held.ranks and held.dtype in OBJECT_KINDS:
        ctx.unsupported(f"the rank of what the {value.dtype} holds is one of {', '.join(map(str, held.ranks))}")
    return held
