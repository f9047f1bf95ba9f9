"""Every error that a user can cause. Each message is one line: what, where, why, what to do."""

from __future__ import annotations

import builtins


class TilewrightError(Exception):
    """Base of all errors that Tilewright raises on purpose; commands print it as one line and exit with code 2."""


class ModelError(TilewrightError):
    """The model file cannot be read, is not valid, or lacks something (an extent, external data)."""


class UnsupportedError(ModelError):
    """The model is valid, but uses ops, types or attributes that have no converter. Lists all of them."""


class OpenExtentError(UnsupportedError):
    """Something needs a size as a number that only the run will know."""


class CompileError(TilewrightError):
    """A pass, a schedule or code generation failed, or the compile worker died."""


class InternalError(CompileError):
    """The compiler itself is at fault: it crashed, found no end, or made IR that MLIR refuses."""


class CompileTimeoutError(CompileError):
    """A compilation took more time than it was given; says where it was."""


class ScheduleError(CompileError):
    """A schedule that cannot be: says which loop or axis, why, and what would do."""


class TargetError(TilewrightError):
    """Unknown target, CPU or feature, or code for a CPU that this machine is not."""


class InputError(TilewrightError):
    """Wrong names, shapes, dtypes or layout of the tensors given to a compiled module."""


class TimeoutError(TilewrightError, builtins.TimeoutError):
    """What was given a time limit took longer."""


class ArtifactError(TilewrightError):
    """A compiled artifact cannot be written, read, or does not fit its weights, this CPU or this version."""
