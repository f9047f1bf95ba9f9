"""Dense layers on the same rows become one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...dialects import ir
from ..classify import Contraction, OpClass
from ..infra import Pass
from .combine import Product, combine


@dataclass(frozen=True)
class CombineParallelDense(Pass):
    """Join the weights of dense layers that read the same value, such as query, key and value of attention.

    Before::

        %q = linalg.generic {contraction} ins(%x, %wq: tensor<KxNxf32>)
        %r = linalg.generic {add} ins(%q, %bq)
        %k = linalg.generic {contraction} ins(%x, %wk: tensor<KxNxf32>)
        %s = linalg.generic {add} ins(%k, %bk)

    After::

        %w = tensor.concat dim(1) %wq, %wk                            // both computed ahead of time
        %b = tensor.concat dim(0) %bq, %bk
        %c = linalg.generic {contraction} ins(%x, %w: tensor<Kx2Nxf32>)
        %d = linalg.generic {add} ins(%c, %b)
        %r = tensor.extract_slice %d[0, 0] [M, N]
        %s = tensor.extract_slice %d[0, N] [M, N]

    What follows all of them alike, elementwise with weights, is joined too. A layer whose result leaves the program,
    is padded, or goes on into an elementwise op of its own stays: after a slice that would be a kernel of its own.

    It pays where one layer is small: three of 128 x 256 x 64 take 0.15 (one thread) to 0.22 (two) less time as one,
    three of 16 x 64 x 32 take 0.47 less, three of 1 x 768 x 768 take 0.07 to 0.11 less. Three of 128 x 768 x 768, as
    in BERT, take 0.99 of their time on two threads, and those of ViT and GPT-2 1.00: that is noise.

    Options:
        max_work: the most multiplications and additions of one layer that is combined.
    """

    name: ClassVar[str] = "combine-parallel-dense"
    opt_level: ClassVar[int] = 3
    max_work: int = 1 << 24

    def apply(self, module: ir.Module) -> None:
        """Combine the dense layers of all programs."""
        combine(module, _dense, self.max_work)


def _dense(op: ir.Operation, kind: OpClass) -> Product | None:
    if not isinstance(kind, Contraction) or kind.batch or len(kind.n) != 1:
        return None
    return Product(op, kind.lhs, kind.n[0])
