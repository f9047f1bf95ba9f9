"""What a user gives to an ``ExportedProgram``: a module, a traced or scripted one, an exported program or its file."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from ...errors import ModelError, UnsupportedError

SUFFIX = ".pt2"


def is_torch(source: object) -> bool:
    """Whether ``exported`` takes it."""
    return isinstance(source, torch.nn.Module | ExportedProgram | torch.jit.ScriptFunction)


def exported(
    source: Any,
    example_inputs: Sequence[Any] | None = None,
    example_kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
) -> ExportedProgram:
    """The program of ``source``, for inputs like the examples.

    ``dynamic_shapes`` is as ``torch.export.export`` takes it. Raises ModelError for a file or a module that is none,
    UnsupportedError for a module that torch cannot export: one line with the reason.
    """
    if isinstance(source, ExportedProgram):
        return source
    if isinstance(source, (str, os.PathLike)):
        return _read(Path(source))
    name = type(source).__name__
    if example_inputs is None and not example_kwargs:
        raise ModelError(f"{name} needs example inputs to be exported with: give example_inputs=(x, ...)")
    _refuse_training(source)
    if isinstance(source, torch.jit.ScriptModule | torch.jit.ScriptFunction):
        source = _of_script(source, tuple(example_inputs or ()))
    with torch.no_grad():
        try:
            return torch.export.export(
                source, tuple(example_inputs or ()), dict(example_kwargs or {}), dynamic_shapes=dynamic_shapes
            )
        except Exception as error:
            raise UnsupportedError(f"{name} cannot be exported: {first_line(error)}") from error


def first_line(error: BaseException) -> str:
    """The first line of an error that says something."""
    lines = (" ".join(line.split()) for line in str(error).splitlines())
    return next(filter(None, lines), type(error).__name__)


def _read(path: Path) -> ExportedProgram:
    """The program of a file. Nothing of it is unpickled but tensors."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror or error}") from error
    except zipfile.BadZipFile as error:
        raise ModelError(f"{path} is no exported program: torch.export.save writes such files") from error
    if not any(name.endswith("/models/model.json") for name in names):
        raise ModelError(f"{path} is no exported program but another archive of torch: write it by torch.export.save")
    try:
        return torch.export.load(path)
    except Exception as error:
        raise ModelError(f"{path} cannot be loaded as an exported program: {first_line(error)}") from error


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
