"""``tvm.contrib.debugger``: programs whose kernels are looked at one by one."""

from . import debug_executor

__all__ = ["debug_executor"]
