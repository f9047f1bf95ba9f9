"""``tvm.error``: the kinds of errors that scripts name."""

from __future__ import annotations

from ..core.errors import TilewrightError

TVMError = InternalError = OpError = DiagnosticError = TilewrightError
OpNotImplemented = OpAttributeInvalid = OpAttributeRequired = OpAttributeUnImplemented = TilewrightError

__all__ = ["DiagnosticError", "InternalError", "OpAttributeInvalid", "OpAttributeRequired", "OpAttributeUnImplemented"]
__all__ += ["OpError", "OpNotImplemented", "TVMError"]
