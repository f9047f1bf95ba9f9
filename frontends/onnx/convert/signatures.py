"""What a converter's signature says about a node: inputs and attributes that it takes, inputs that must be there."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import lru_cache

from onnx import NodeProto

from ..state.refusals import Unsupported
from ..state.standins import TensorOrFailed
from .schemas import wrong_dtype


def refuse_use(
    converter: Callable[..., object], node: NodeProto, domain: str, opset: int, inputs: Sequence[TensorOrFailed | None]
) -> None:
    """Raise Unsupported for attributes, inputs and dtypes that the converter or the op's schema does not take, and for
    inputs that are left out but must be there."""
    positional, keywords, variadic = read_signature(converter)
    for attribute in node.attribute:
        if attribute.name not in keywords:
            raise Unsupported(f"attribute '{attribute.name}'", "attribute")
    if not variadic and len(inputs) > positional:
        raise Unsupported(f"{len(inputs)} inputs")
    for index, name in list_required(converter):
        if index >= len(inputs) or inputs[index] is None:
            raise Unsupported(f"input '{name}' is missing")
    if _wants_all(converter) and any(value is None for value in inputs[positional:]):
        raise Unsupported(f"input {next(i for i in range(positional, len(inputs)) if inputs[i] is None)} is missing")
    if reason := wrong_dtype(node, domain, opset, "input", inputs):
        raise Unsupported(reason, "dtype")


def refuse_results(node: NodeProto, domain: str, opset: int, outputs: Sequence[TensorOrFailed]) -> None:
    """Raise Unsupported for a dtype that the op does not give, as an attribute may ask for."""
    if reason := wrong_dtype(node, domain, opset, "output", outputs):
        raise Unsupported(reason, "dtype")


@lru_cache
def _wants_all(converter: Callable[..., object]) -> bool:
    """Whether none of the inputs that may follow those by position may be None."""
    parameters = inspect.signature(converter).parameters.values()
    return any(p.kind is p.VAR_POSITIONAL and p.annotation == "Tensor" for p in parameters)


@lru_cache
def list_required(converter: Callable[..., object]) -> tuple[tuple[int, str], ...]:
    """Position and name of the inputs that a converter cannot do without: those that may not be None."""
    parameters = list(inspect.signature(converter).parameters.values())[1:]  # without ctx
    inputs = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    return tuple((i, p.name) for i, p in enumerate(inputs) if p.annotation == "Tensor" and p.default is p.empty)


@lru_cache
def read_signature(converter: Callable[..., object]) -> tuple[int, set[str], bool]:
    """The number of inputs a converter takes by position, its attributes, and whether more inputs may follow."""
    parameters = list(inspect.signature(converter).parameters.values())[1:]  # without ctx
    positional = sum(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)
    keywords = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
    return positional, keywords, any(p.kind is p.VAR_POSITIONAL for p in parameters)
