"""``tvm.contrib``: compilers of the system, executors of programs, and temporary folders."""

from . import cc, clang, debugger, download, graph_executor, utils

__all__ = ["cc", "clang", "debugger", "download", "graph_executor", "utils"]
