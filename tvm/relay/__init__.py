"""``tvm.relay``: networks of ONNX files."""

from __future__ import annotations

from typing import NoReturn

from ..absent import refuse_name
from ..runtime import load_param_dict, save_param_dict
from . import backend, build_module, frontend, op, testing, vm
from .build_module import build, create_executor
from .frontend import Any

__all__ = [
    "Any",
    "backend",
    "build",
    "build_module",
    "create_executor",
    "frontend",
    "load_param_dict",
    "op",
    "save_param_dict",
    "testing",
    "vm",
]


def __getattr__(name: str) -> NoReturn:
    refuse_name("relay", name, __all__)
