"""tvm-ffi, which is imported here, and without torch.

It imports torch first, where that is installed (its remedy for clashing symbols on Windows): more than a second, and
GNU's OpenMP in the scope that all libraries share, for programs that may never see one of torch's tensors. What tvm-ffi
would have of it: conversions of ``torch.dtype``, and CUDA streams. Tensors of torch come by DLPack, without these.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from typing import Any

__all__ = ["tvm_ffi"]


class _NoTorch(MetaPathFinder):
    """Torch is not there, for the thread that made this."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        if fullname == "torch" and threading.get_ident() == self._thread:
            raise ModuleNotFoundError("torch is not imported for tvm-ffi", name=fullname)


@contextmanager
def _without_torch() -> Iterator[None]:
    finder = _NoTorch()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


with _without_torch():
    import tvm_ffi
