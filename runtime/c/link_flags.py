"""The C compiler's flags for a program that uses a header: paths of tvm-ffi's headers, and libraries."""

from __future__ import annotations

from pathlib import Path

from ..process.ffi import tvm_ffi
from ..process.threads import packaged_runtime


def link_flags() -> list[str]:
    """Options for behind the sources: what they name is found when the program runs, too.

    CompileError where the package with the OpenMP runtime is not installed.
    """
    info = tvm_ffi.libinfo
    ffi, openmp = Path(info.find_libtvm_ffi()).parent, packaged_runtime().parent
    include = dict.fromkeys((info.find_include_path(), info.find_dlpack_include_path()))
    # Without new tags the folders count for model.so as well, which names none itself. The program need not call
    # OpenMP: the code that it loads does.
    folders = ["-Wl,--disable-new-dtags", *(f"-Wl,-rpath,{folder}" for folder in (ffi, openmp))]
    libraries = ["-ltvm_ffi", "-Wl,--push-state,--no-as-needed", "-lomp", "-Wl,--pop-state", "-ldl", "-lm"]
    return [*(f"-I{folder}" for folder in include), f"-L{ffi}", f"-L{openmp}", *folders, *libraries, "-pthread"]
