"""``tvm.topi.nn``: the operators of neural networks, as tensor expressions."""

from __future__ import annotations

from typing import NoReturn

from ...absent import refuse_name
from . import convolution, elementwise, normalization, padding, pooling
from . import dense as _dense
from .convolution import *  # noqa: F403
from .dense import *  # noqa: F403
from .elementwise import *  # noqa: F403
from .normalization import *  # noqa: F403
from .padding import *  # noqa: F403
from .pooling import *  # noqa: F403

__all__: list[str] = []
__all__ += [*convolution.__all__, *_dense.__all__, *elementwise.__all__, *normalization.__all__, *padding.__all__]
__all__ += pooling.__all__


def __getattr__(name: str) -> NoReturn:
    refuse_name("topi.nn", name, __all__)
