"""``tvm.te``: the package's own tensor expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from .. import te
from ..core.errors import ExpressionError
from ..te import *  # noqa: F403  (they have TVM's names)
from . import functions
from .functions import *  # noqa: F403

__all__ = ["extern", "hybrid"]
__all__ += [*te.__all__, *functions.__all__]


def extern(shape: Any, inputs: Any, fcompute: Callable[..., Any], name: str = "extern", **others: Any) -> NoReturn:
    """Functions of the host in schedules: ExpressionError."""
    raise ExpressionError(
        f"'{name}' is computed by a function of the host: s[...].tensorize calls C functions, and tw.register_op puts"
        " functions of the host into networks"
    )


class _Hybrid:
    """Python functions as computations."""

    def __getattr__(self, name: str) -> NoReturn:
        raise ExpressionError(f"te.hybrid.{name} compiles Python's source: write it as a te.compute")


hybrid = _Hybrid()
