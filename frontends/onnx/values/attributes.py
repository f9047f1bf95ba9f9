"""What attributes of nodes are, in the signatures of converters."""

from __future__ import annotations

from collections.abc import Sequence

Ints = Sequence[int]
Floats = Sequence[float]

ML_DOMAIN = "ai.onnx.ml"
