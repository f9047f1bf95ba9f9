"""``tvm.te``: the package's own tensor expressions."""

from __future__ import annotations

from typing import NoReturn

from ... import te
from ...te import *  # noqa: F403  (they have TVM's names)
from .. import functions
from ..absent import refuse_name
from ..extern import create_schedule, extern
from ..functions import *  # noqa: F403
from . import hybrid

__all__ = ["create_schedule", "extern", "hybrid"]
__all__ += [*te.__all__, *functions.__all__]


def __getattr__(name: str) -> NoReturn:
    refuse_name("te", name, __all__)
