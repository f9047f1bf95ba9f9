"""``tvm.relay.testing``: networks with random weights, as scripts begin with ``resnet.get_workload()``."""

from __future__ import annotations

from typing import NoReturn

from ...absent import refuse_name
from . import mlp, mobilenet, resnet, squeezenet, vgg

__all__ = ["mlp", "mobilenet", "resnet", "squeezenet", "vgg"]


def __getattr__(name: str) -> NoReturn:
    refuse_name("relay.testing", name, __all__)
