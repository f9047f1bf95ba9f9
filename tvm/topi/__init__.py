"""``tvm.topi``: the helpers of its operators."""

from . import utils

__all__ = ["utils"]
