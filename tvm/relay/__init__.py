"""``tvm.relay``: networks, of files and of functions."""

from __future__ import annotations

from typing import Any as _Any

from ..absent import refuse_name
from ..network.registry import FUNCTIONS
from ..runtime import load_param_dict, save_param_dict
from . import (
    analysis,
    backend,
    build_module,
    expr,
    expr_functor,
    frontend,
    function,
    op,
    qnn,
    testing,
    transform,
    ty,
    vm,
)
from .build_module import build, create_executor
from .expr import (
    Call,
    Constant,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Tuple,
    TupleGetItem,
    TupleWrapper,
    Var,
    bind,
    const,
    var,
)
from .expr_functor import ExprFunctor, ExprMutator, ExprVisitor
from .op import image, nn
from .ty import Any, FuncType, IncompleteType, TensorType, TupleType, scalar_type

__all__ = [
    "Any",
    "Call",
    "Constant",
    "Expr",
    "ExprFunctor",
    "ExprMutator",
    "ExprVisitor",
    "FuncType",
    "Function",
    "GlobalVar",
    "If",
    "IncompleteType",
    "Let",
    "TensorType",
    "Tuple",
    "TupleGetItem",
    "TupleType",
    "TupleWrapper",
    "Var",
    "analysis",
    "backend",
    "bind",
    "build",
    "build_module",
    "const",
    "create_executor",
    "expr",
    "expr_functor",
    "frontend",
    "function",
    "image",
    "load_param_dict",
    "nn",
    "op",
    "qnn",
    "save_param_dict",
    "scalar_type",
    "testing",
    "transform",
    "ty",
    "var",
    "vm",
]


def __getattr__(name: str) -> _Any:
    if name in FUNCTIONS:
        return FUNCTIONS[name]
    refuse_name("relay", name, [*__all__, *sorted(each for each in FUNCTIONS if "." not in each)])


def __dir__() -> list[str]:
    return [*__all__, *(each for each in FUNCTIONS if "." not in each)]
