"""``tvm.te``: the package's own tensor expressions."""

from __future__ import annotations

from ... import te
from ...te import *  # noqa: F403  (they have TVM's names)
from .. import functions
from ..extern import create_schedule, extern
from ..functions import *  # noqa: F403
from . import hybrid

__all__ = ["create_schedule", "extern", "hybrid"]
__all__ += [*te.__all__, *functions.__all__]
