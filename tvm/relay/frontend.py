"""``relay.frontend``: networks of files and modules."""

from __future__ import annotations

from typing import NoReturn

from ...core.errors import ModelError
from .onnx_files import from_onnx
from .torch_modules import from_pytorch

__all__ = ["from_onnx", "from_pytorch"]


def __getattr__(name: str) -> NoReturn:
    if name.startswith("from_"):
        raise ModelError(f"relay.frontend.{name} is not there: export the network to ONNX, or give PyTorch's")
    raise AttributeError(f"tilewright.tvm.relay.frontend has no '{name}'")
