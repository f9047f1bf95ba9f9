"""The forms of a module between passes, each with its verifier, and when they are verified.

A pass says with ``form`` in which form it leaves a module; one that says nothing leaves the form that it found. So a
pass that breaks a rule is caught right after it, and the message names it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from ...core.errors import CompileError, InternalError
from ...dialects import ir
from ...dialects.context import diagnostics
from ..infra.base import ModuleForm
from .kernels import verify_buffers, verify_llvm, verify_memory, verify_scratch, verify_tensors, verify_wrapped
from .programs import verify_calls, verify_main, verify_slots

VERIFIERS: Mapping[ModuleForm, Callable[[ir.Module], None]] = {
    ModuleForm.MAIN: verify_main,
    ModuleForm.CALLS: verify_calls,
    ModuleForm.SLOTS: verify_slots,
    ModuleForm.TENSORS: verify_tensors,
    ModuleForm.BUFFERS: verify_buffers,
    ModuleForm.MEMORY: verify_memory,
    ModuleForm.SCRATCH: verify_scratch,
    ModuleForm.LLVM: verify_llvm,
    ModuleForm.WRAPPED: verify_wrapped,
}


def is_enabled() -> bool:
    """Return whether the environment asks for it: ``TILEWRIGHT_VERIFY`` or ``TILEWRIGHT_DEBUG`` is set and not 0."""
    return any(os.environ.get(name, "") not in ("", "0") for name in ("TILEWRIGHT_VERIFY", "TILEWRIGHT_DEBUG"))


def is_after_each_pass() -> bool:
    """Return whether a form is verified after each pass, and not once, where it ends: ``TILEWRIGHT_VERIFY=forms``.

    Where that is said, it holds with ``TILEWRIGHT_DEBUG`` too, by which tests have runs guarded.
    """
    return os.environ.get("TILEWRIGHT_VERIFY") != "forms"


def verify(form: ModuleForm, module: ir.Module, stage: str) -> None:
    """Raise InternalError that names the ``stage`` where a module is not in the ``form`` that the stage leaves."""
    if form is ModuleForm.FOREIGN:
        return
    try:
        with diagnostics("MLIR's verifier"):
            module.operation.verify()
        VERIFIERS[form](module)
    except CompileError as error:
        reason = " ".join(str(error).split())
        raise InternalError(f"{stage} breaks a rule of the form '{form.value}': {reason}") from error
