"""``tvm.contrib``: compilers of the system, executors of programs, and temporary folders."""

from . import cc, clang, download, graph_executor, utils

__all__ = ["cc", "clang", "download", "graph_executor", "utils"]
