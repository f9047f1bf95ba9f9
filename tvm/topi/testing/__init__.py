"""``tvm.topi.testing``: what operators give, by numpy, for scripts that compare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from ... import te
from ...absent import refuse_name
from .. import generic
from . import convolutions, images, rows
from .convolutions import *  # noqa: F403
from .images import *  # noqa: F403
from .rows import *  # noqa: F403

__all__ = ["get_broadcast_schedule", "get_elemwise_schedule", "get_injective_schedule", "get_reduce_schedule"]
__all__ += [*convolutions.__all__, *images.__all__, *rows.__all__]


def get_injective_schedule(target: Any) -> Callable[..., te.Schedule]:
    """What schedules operators for a target: all loops are left to the compiler."""
    return generic.schedule_injective


get_broadcast_schedule = get_elemwise_schedule = get_reduce_schedule = get_injective_schedule


def __getattr__(name: str) -> NoReturn:
    refuse_name("topi.testing", name, __all__)
