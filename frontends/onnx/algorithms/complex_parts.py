"""What is linear with real factors: computed on the real and the imaginary part of complex tensors alone."""

from __future__ import annotations

from collections.abc import Callable

from ....dialects import complexes
from ..state.context import Context
from ..values.tensor import Tensor

_PARTS = {"complex64": "float32", "complex128": "float64"}

Linear = Callable[[Tensor], Tensor]


def by_parts(ctx: Context, x: Tensor, of_real: Linear, of_imaginary: Linear) -> Tensor:
    """The complex tensor that the functions make of the parts of ``x``, which are float tensors of its shape."""
    kind = _PARTS[x.dtype]
    real = of_real(ctx.elementwise(complexes.real, x, dtype=kind))
    imaginary = of_imaginary(ctx.elementwise(complexes.imaginary, x, dtype=kind))
    return ctx.elementwise(complexes.join, real, imaginary, dtype=x.dtype)
