"""``tvm.runtime.module``: programs, as ``tvm.runtime`` has them."""

from . import Module, load_module

__all__ = ["Module", "load_module"]
