"""``tvm.relay.expr_functor``: walks over expressions."""

from __future__ import annotations

from ..network.functor import ExprFunctor, ExprMutator, ExprVisitor

__all__ = ["ExprFunctor", "ExprMutator", "ExprVisitor"]
