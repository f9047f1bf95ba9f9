"""``tvm.topi``: operators as tensor expressions, whose stages ``te.create_schedule`` schedules."""

from __future__ import annotations

from typing import NoReturn

from ..absent import refuse_name
from . import broadcast, elementwise, generic, nn, products, reduction, tag, testing, transform, utils
from .broadcast import *  # noqa: F403
from .elementwise import *  # noqa: F403
from .products import *  # noqa: F403
from .reduction import *  # noqa: F403
from .transform import *  # noqa: F403

x86 = generic

__all__ = ["generic", "nn", "tag", "testing", "utils", "x86"]
__all__ += [*broadcast.__all__, *elementwise.__all__, *products.__all__, *reduction.__all__, *transform.__all__]


def __getattr__(name: str) -> NoReturn:
    refuse_name("topi", name, __all__)
