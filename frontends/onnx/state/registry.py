"""The table of converters: one Python function for each ONNX op, picked by the model's opset version.

A converter's signature is the op's schema. Inputs are positional (an optional input that is absent is None, a
variadic one is ``*inputs``), attributes are keywords with the schema's defaults (decoded to Python values: int, float,
str, list, numpy array, GraphProto), the result is one Tensor or a tuple of them in the schema's order of outputs, with
None for one that the node leaves out::

    @op("Softmax", since=13)
    def softmax(ctx: Context, x: Tensor, *, axis: int = -1) -> Tensor:
        peak = ctx.reduce(scalars.maximum, float("-inf"), x, [axis], keepdims=True)
        ...
        return ctx.elementwise(scalars.div, e, total)

    @op("Softmax", since=1)  # picked for models of opset 6 to 12
    def softmax_flattened(ctx, x, *, axis=1): ...

    @op("Conv", shapes="x[n c +s] w[group*m c/group *kernel_shape:s] b[group*m]")
    def conv(ctx: Context, x: Tensor, w: Tensor, b: Tensor | None = None, *, group: int = 1, strides=None, ...):
        return ctx.wrap(builders.conv(x.value, w.value, strides, dilations, group), x.dtype)

``shapes`` says which shapes its operands have (``declared_shapes.py`` has the notation): a name is one extent wherever
it stands. A node whose operands have others is refused before the converter runs, also where another converter calls
it; of sizes that only the run knows the program checks them. An operand that is absent or not named may have any shape.
With several decorators ``shapes`` stands in the last one, so that it holds for all.

What a converter may rely on (see ``context.Context``): it runs at an insertion point with the node's location;
``x.shape`` has a symbol where only the run knows an extent, its dtype is one that the schema allows; ``x.known`` is a
numpy array when the value is known at import, and nodes whose inputs are all known were folded before any converter was
asked; ``ctx.known(axes, "axes")`` demands such a value; a large array that the converter computes (a table of weights,
say) becomes a param by ``ctx.const(array)``. What it cannot do it refuses with ``ctx.unsupported(reason)``, which does
not return: the importer collects the reasons of all nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from ..values.tensor import Tensor
from .fit_operands import demand_shapes

Result = Tensor | Sequence[Tensor | None]
Converter = Callable[..., Result]
_F = TypeVar("_F", bound=Converter)

_TABLE: dict[tuple[str, str], dict[int, Converter]] = {}


def op(name: str, since: int = 1, domain: str = "", shapes: str | None = None) -> Callable[[_F], _F]:
    """Register the decorated converter for an op from opset version ``since`` on; gives one that demands ``shapes``."""

    def register(converter: _F) -> _F:
        # A number in a model file is a float32; what stands for one that is left out is too, also among float64s.
        defaults = converter.__kwdefaults__ or {}
        rounded = {n: float(np.float32(v)) if isinstance(v, float) else v for n, v in defaults.items()}
        converter.__kwdefaults__ = rounded or None
        if shapes is not None:
            converter = demand_shapes(converter, shapes)
        versions = _TABLE.setdefault((domain, name), {})
        if since in versions:
            raise ValueError(f"two converters for {name} since version {since}")
        versions[since] = converter
        return converter

    return register


def find(domain: str, name: str, opset: int) -> Converter | None:
    """The newest converter that is not newer than the model's opset version, or None."""
    versions = _TABLE.get((domain, name), {})
    since = max((v for v in versions if v <= opset), default=None)
    return None if since is None else versions[since]


def registered_names(domain: str = "") -> list[str]:
    """The names of all ops of a domain that have a converter, sorted."""
    return sorted(name for d, name in _TABLE if d == domain)


def find_versions(domain: str, name: str) -> list[int]:
    """The opset versions from which on an op has a converter."""
    return sorted(_TABLE.get((domain, name), {}))
