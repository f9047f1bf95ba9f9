"""Vector transfers of a scheduled kernel become loads and stores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...dialects import ir, transform
from ..infra import Pass
from ..kernel import scheduled_functions
from .interleave import interleave_transposes


@dataclass(frozen=True)
class LowerTransfers(Pass):
    """Rows are loaded and stored whole, transposes are shuffles (``interleave.py``), more rows are left to be unrolled.

    Before::

        %v = vector.transfer_read %x[%i, %c0], %pad {in_bounds = [true]} : memref<64x32xf32>, vector<16xf32>

    After::

        %v = vector.load %x[%i, %c0] : memref<64x32xf32>, vector<16xf32>
    """

    name: ClassVar[str] = "lower-transfers"

    def apply(self, module: ir.Module) -> None:
        """Rewrite all scheduled functions of the module."""
        for function in scheduled_functions(module):
            interleave_transposes(function)
            with transform.sequence() as script:
                transform.apply_patterns(
                    script.root,
                    "vector.lower_transfer max_transfer_rank = 1",
                    "vector.lower_shape_cast",
                    "vector.sink_mem_ops",
                    "canonicalization",
                    vector_lower_transpose="shuffle_1d",
                )
            transform.apply(script, function)
