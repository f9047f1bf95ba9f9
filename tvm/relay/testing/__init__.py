"""``tvm.relay.testing``: networks with random weights, as scripts begin with ``resnet.get_workload()``."""

from __future__ import annotations

from typing import NoReturn

from ...absent import refuse_name
from . import init, layers, mlp, mobilenet, resnet, squeezenet, vgg
from .init import create_workload

__all__ = ["create_workload", "init", "layers", "mlp", "mobilenet", "resnet", "squeezenet", "vgg"]


def __getattr__(name: str) -> NoReturn:
    refuse_name("relay.testing", name, __all__)
