"""``tvm.contrib``: compilers of the system, executors of programs, archives and temporary folders."""

from . import cc, clang, debugger, download, graph_executor, tar, utils

__all__ = ["cc", "clang", "debugger", "download", "graph_executor", "tar", "utils"]
