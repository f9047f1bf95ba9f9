"""``tvm.contrib``: compilers of the system, and temporary folders."""

from . import cc, clang, utils

__all__ = ["cc", "clang", "utils"]
