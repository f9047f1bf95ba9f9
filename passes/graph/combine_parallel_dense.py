"""Dense layers on the same rows become one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...core.target import Target, detect_host
from ...dialects import ir
from ..analysis.kinds import Contraction, OpClass
from ..infra.base import Pass
from .rewriting.combine import WeightProduct, combine


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

    It pays where the layers' columns leave parts of vectors empty, and is done there alone. A block of attention of 128
    rows by 48 columns takes 0.96 of its time (one thread, AVX-512). With full vectors it does not pay: the layers are
    0.33 ms as three and as one where they are 128 x 256 x 256, and all of such a block takes 1.00 to 1.02 of its time;
    one of 128 x 768 x 768, BERT's, takes 0.98 to 0.99.

    Options:
        always: combine wherever it can be done.
        target: the machine; None is this one.
    """

    name: ClassVar[str] = "combine-parallel-dense"
    opt_level: ClassVar[int] = 3
    always: bool = False
    target: Target | None = None

    def apply(self, module: ir.Module) -> None:
        """Combine the dense layers of all programs."""
        combine(module, _dense, None if self.always else self.target or detect_host())


def _dense(op: ir.Operation, kind: OpClass) -> WeightProduct | None:
    if not isinstance(kind, Contraction) or kind.batch or len(kind.n) != 1:
        return None
    return WeightProduct(op, kind.lhs, kind.n[0])
