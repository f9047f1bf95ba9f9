"""``tvm.relay.function``: functions."""

from __future__ import annotations

from ..network.expr import Function

__all__ = ["Function"]
