"""``tvm._ffi.base``: the errors that scripts name."""

from __future__ import annotations

from ..error import TVMError

__all__ = ["TVMError"]
