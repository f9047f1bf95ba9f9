"""What a user gives to an ``ExportedProgram``: a module, a traced or scripted one, or an exported program."""

from __future__ import annotations

import contextlib
import io
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from ...errors import ModelError, UnsupportedError

SUFFIX = ".pt2"
# What torch says at the end of an error about open sizes: a line for each that it would have otherwise.
_FIXES = re.compile(r"^Suggested fixes:\n  (\S.*(?:\n  \S.*)*)", re.MULTILINE)


def is_torch(source: object) -> bool:
    """Whether ``exported`` takes it."""
    return isinstance(source, torch.nn.Module | ExportedProgram | torch.jit.ScriptFunction)


def exported(
    source: Any,
    example_inputs: Sequence[Any] | None = None,
    example_kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    name: str = "",
) -> ExportedProgram:
    """The program of ``source``, for inputs like the examples.

    Errors call it ``name``, or by its type. ``dynamic_shapes`` is as ``torch.export.export`` takes it. Raises
    ModelError for what cannot be one, UnsupportedError for a module that torch cannot export: one line
    with the module's path, the reason, and what to do.
    """
    if isinstance(source, ExportedProgram):
        return source
    name = name or type(source).__name__
    if example_inputs is None and not example_kwargs:
        raise ModelError(f"{name} needs example inputs to be exported with: give example_inputs=(x, ...)")
    _refuse_training(source)
    if isinstance(source, torch.jit.ScriptModule | torch.jit.ScriptFunction):
        source = _of_script(source, tuple(example_inputs or ()))
    try:
        with torch.no_grad(), _quiet():
            return torch.export.export(
                source, tuple(example_inputs or ()), dict(example_kwargs or {}), dynamic_shapes=dynamic_shapes
            )
    except Exception as error:
        where = _where(error, source)
        at = f"{name}: {where}" if where else name
        raise UnsupportedError(f"{at} cannot be exported: {_reason(error)}") from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep torch from printing what its errors say."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(before)


def _where(error: BaseException, source: torch.nn.Module) -> str:
    """The path of the innermost module whose ``forward`` was under way."""
    paths = {id(module): path for path, module in source.named_modules()}
    found, trace = "", error.__traceback__
    while trace is not None:
        for value in trace.tb_frame.f_locals.values():
            found = paths.get(id(value), found) if isinstance(value, torch.nn.Module) else found
        trace = trace.tb_next
    return found


def _reason(error: Exception) -> str:
    """Why, and what to do about it."""
    if isinstance(error, GuardOnDataDependentSymNode):
        return (
            "its course depends on the values of tensors: use torch.where or torch.cond, or leave it out of the module"
        )
    fixes = _FIXES.search(str(error))
    if fixes is None:
        return first_line(error)
    remedy = "; ".join(line.strip() for line in fixes[1].splitlines())
    return f"it does not take all sizes that dynamic_shapes leave open: give {remedy}"


def first_line(error: BaseException) -> str:
    """The first line of an error that says something."""
    lines = (" ".join(line.split()) for line in str(error).splitlines())
    return next(filter(None, lines), type(error).__name__)


def _refuse_training(source: Any) -> None:
    """ModelError for a module in training mode with modules that then do something else than at inference."""
    if not isinstance(source, torch.nn.Module):
        return
    kinds = (torch.nn.modules.batchnorm._NormBase, torch.nn.modules.dropout._DropoutNd)
    for path, module in source.named_modules():
        if module.training and isinstance(module, kinds):
            what = f"'{path}' ({type(module).__name__})" if path else type(module).__name__
            raise ModelError(f"{what} is in training mode, and compiled programs are for inference: call eval() first")


def _of_script(source: Any, example_inputs: tuple[Any, ...]) -> Any:
    """A traced or scripted module as one that can be exported."""
    from torch._export.converter import TS2EPConverter

    try:
        return TS2EPConverter(source, example_inputs).convert().module()
    except Exception as error:
        raise UnsupportedError(f"the scripted module cannot be exported: {first_line(error)}") from error
