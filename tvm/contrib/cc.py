"""``tvm.contrib.cc``: the system's C compiler."""

from ..linking import create_shared, cross_compiler, get_cc

__all__ = ["create_shared", "cross_compiler", "get_cc"]
