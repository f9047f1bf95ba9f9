"""The names that TVM's users know, as thin files over this package: ``import tilewright.tvm as tvm``.

What has no meaning here is refused in words. Their documents are TVM's own; ``docs/tvm.md`` says what differs.
"""

from __future__ import annotations

from typing import NoReturn

from . import (
    _ffi,
    auto_scheduler,
    autotvm,
    contrib,
    error,
    ir,
    nd,
    relay,
    rpc,
    runtime,
    target,
    te,
    testing,
    tir,
    topi,
    transform,
)
from .absent import explain_missing_modules, refuse_name
from .driver import build, lower
from .error import TVMError
from .ir import IRModule
from .nd import cpu, cuda, device
from .runtime import get_global_func, register_func
from .te import const

__version__ = "0.19.0"  # whose names these are, for scripts that ask

__all__ = [
    "IRModule",
    "TVMError",
    "_ffi",
    "auto_scheduler",
    "autotvm",
    "build",
    "const",
    "contrib",
    "cpu",
    "cuda",
    "device",
    "error",
    "get_global_func",
    "ir",
    "lower",
    "nd",
    "register_func",
    "relay",
    "rpc",
    "runtime",
    "target",
    "te",
    "testing",
    "tir",
    "topi",
    "transform",
]


def __getattr__(name: str) -> NoReturn:
    refuse_name("", name, __all__)


explain_missing_modules()
