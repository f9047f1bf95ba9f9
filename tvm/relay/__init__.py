"""``tvm.relay``: networks of ONNX files."""

from __future__ import annotations

from typing import NoReturn

from ..absent import refuse_name
from ..runtime import load_param_dict, save_param_dict
from . import frontend
from .build_module import build, create_executor
from .frontend import Any

__all__ = ["Any", "build", "create_executor", "frontend", "load_param_dict", "save_param_dict"]


def __getattr__(name: str) -> NoReturn:
    refuse_name("relay", name, __all__)
