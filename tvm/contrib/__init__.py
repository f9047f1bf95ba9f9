"""``tvm.contrib``: compilers of the system, executors of programs, archives and temporary folders."""

from . import cblas, cc, clang, debugger, dnnl, download, graph_executor, mkl, tar, utils

__all__ = ["cblas", "cc", "clang", "debugger", "dnnl", "download", "graph_executor", "mkl", "tar", "utils"]
