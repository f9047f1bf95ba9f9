"""Ops of onnxruntime's domain ``com.microsoft``, which its optimiser writes and its exporters ask for.

onnx has no schemas of them, so its checker lets anything pass: what it says of other ops is said here, of the
converter's signature.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from ..values.tensor import Tensor
from .context import Context
from .fit_operands import demand_shapes
from .registry import Converter, Result, op

CONTRIB_DOMAIN = "com.microsoft"  # of onnxruntime's own ops
_F = TypeVar("_F", bound=Converter)


def contrib(name: str, domain: str = CONTRIB_DOMAIN, shapes: str | None = None) -> Callable[[_F], _F]:
    """Register the decorated converter for an op on floats: its inputs of floats all have one dtype.

    ``shapes`` are those of its operands, as ``op`` has them.
    """

    def register(converter: _F) -> _F:
        if shapes is not None:
            converter = demand_shapes(converter, shapes)
        parameters = list(inspect.signature(converter).parameters.values())[1:]

        @op(name, domain=domain)
        @wraps(converter)
        def checked(ctx: Context, *inputs: Tensor | None, **attributes: Any) -> Result:
            _demand_all(ctx, parameters, inputs, attributes)
            dtypes = {t.dtype: None for t in inputs if t is not None and t.floating}
            if len(dtypes) != 1:
                ctx.unsupported(f"inputs of floats have to be there and of one dtype, here they are {[*dtypes]}")
            return converter(ctx, *inputs, **attributes)

        return converter

    return register


def _demand_all(
    ctx: Context, parameters: list[inspect.Parameter], inputs: tuple[Tensor | None, ...], attributes: dict[str, Any]
) -> None:
    """Refuse a node that lacks an input or an attribute without a default; what may be None may be absent."""
    needed = [p for p in parameters if p.default is p.empty and not str(p.annotation).endswith("| None")]
    absent = [p.name for p, t in zip(parameters, inputs, strict=False) if t is None and p in needed]
    absent += [p.name for p in needed if p.kind is p.KEYWORD_ONLY and p.name not in attributes]
    if absent:
        ctx.invalid(f"it lacks {' and '.join(absent)}")


def channels_first(ctx: Context, x: Tensor) -> Tensor:
    """(batch, spatial axes, channels) as ONNX's own ops have it: (batch, channels, spatial axes)."""
    if x.rank < 3:
        ctx.invalid(f"the input has shape {list(x.shape)}, but needs a batch, a spatial axis and channels")
    return ctx.transpose(x, [0, x.rank - 1, *range(1, x.rank - 1)])


def channels_last(ctx: Context, x: Tensor) -> Tensor:
    """The inverse of ``channels_first``."""
    return ctx.transpose(x, [0, *range(2, x.rank), 1])
