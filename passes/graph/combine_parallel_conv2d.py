"""Convolutions of the same image become one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...core.target import Target, detect_host
from ...dialects import ir
from ..analysis.kinds import Conv, OpClass
from ..infra.base import Pass
from .rewriting.combine import WeightProduct, combine


@dataclass(frozen=True)
class CombineParallelConv2d(Pass):
    """Join the weights of convolutions that read the same value with the same window, stride and dilation.

    Before::

        %a = linalg.generic {convolution} ins(%x, %v: tensor<FxCx1x1xf32>)
        %b = linalg.generic {convolution} ins(%x, %w: tensor<GxCx1x1xf32>)

    After::

        %u = tensor.concat dim(0) %v, %w                              // computed ahead of time
        %c = linalg.generic {convolution} ins(%x, %u: tensor<(F+G)xCx1x1xf32>)
        %a = tensor.extract_slice %c[0, 0, 0, 0] [N, F, H, W]
        %b = tensor.extract_slice %c[0, F, 0, 0] [N, G, H, W]

    What follows all of them alike, elementwise with weights, is joined too: biases and activations. A convolution
    whose result leaves the program, is padded, or goes on into an elementwise op of its own stays: after a slice that
    would be a kernel of its own. The pairs of 1x1 and 3x3 in SqueezeNet differ in their windows. Grouped ones stay.

    It pays where the channels leave parts of vectors empty, and is done there alone. A block with two branches of 1x1
    convolutions takes 0.86 of its time where each has 8 channels, 0.95 with 24 or 40 (one thread, AVX-512), and 0.99 to
    1.00 with 32.

    Options:
        always: combine wherever it can be done.
        target: the machine; None is this one.
    """

    name: ClassVar[str] = "combine-parallel-conv2d"
    opt_level: ClassVar[int] = 3
    always: bool = False
    target: Target | None = None

    def apply(self, module: ir.Module) -> None:
        """Combine the convolutions of all programs."""
        combine(module, _convolution, None if self.always else self.target or detect_host())


def _convolution(op: ir.Operation, kind: OpClass) -> WeightProduct | None:
    if not isinstance(kind, Conv) or kind.g or len(kind.f) != 1:
        return None
    return WeightProduct(op, kind.data, kind.f[0])
