"""Turns a user's object into an ``ExportedProgram``: a module, a traced or scripted one, or an exported program."""

from __future__ import annotations

import contextlib
import inspect
import io
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.export import Dim, ExportedProgram
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from ...core.errors import ModelError, UnsupportedError, first_line
from .operators import KeepingRecurrent

PT2_SUFFIX = ".pt2"
# What torch says at the end of an error about open sizes: a line for each that it would have otherwise.
_FIXES = re.compile(r"^Suggested fixes:\n  (\S.*(?:\n  \S.*)*)", re.MULTILINE)
_VIOLATED = re.compile(r"^ *- (\S.*)", re.MULTILINE)  # a guard that does not hold for all sizes
_MOST_VIOLATED = 3
_SIZE = re.compile(r"L\['(\w+)'\]((?:\[[^\]]*\])*)\.size\(\)\[(\d+)\]")
_ADVICE = re.compile(r" If you're using (?:mark_dynamic|Dim).*")  # of torch, about functions that are not called here
_GUARD = re.compile(r"data-dependent expression (.{1,80}?)(?: \(unhinted|\.  |\n|$)")
_CAUSE = re.compile(r"^Caused by: \(.*?([\w.-]+:\d+ in [\w<>]+)\)", re.MULTILINE)


def is_torch(source: object) -> bool:
    """Return whether ``export_module`` takes it."""
    return isinstance(source, torch.nn.Module | ExportedProgram | torch.jit.ScriptFunction)


def export_module(
    source: Any,
    example_inputs: Sequence[Any] | Mapping[str, Any] | torch.Tensor | None = None,
    dynamic_shapes: Any = None,
    name: str = "",
) -> ExportedProgram:
    """The program of ``source``, for inputs like the examples: the arguments in order, or by name, or the only one.

    Where torch takes an open axis of an example for a constant, since it has one element, the export is tried again
    with two. Errors call the program ``name``, or by its type. ``dynamic_shapes`` is as ``torch.export.export`` takes
    it. Raises ModelError for what cannot be one, UnsupportedError for a module that torch cannot export: one line with
    the module's path, the reason, and what to do.
    """
    if isinstance(source, ExportedProgram):
        return source
    name = name or type(source).__name__
    if example_inputs is None:
        raise ModelError(f"{name} needs example inputs to be exported with: give example_inputs=(x, ...)")
    args, kwargs = _arguments(example_inputs, name)
    _refuse_training(source)
    if isinstance(source, torch.jit.ScriptModule | torch.jit.ScriptFunction):
        source = _of_script(source, args)
    try:
        return _export_quietly(source, args, kwargs, dynamic_shapes)
    except Exception as error:
        with contextlib.suppress(Exception):  # the first error tells what is wrong with what was given
            doubled = _with_two(source, args, kwargs, dynamic_shapes)
            if doubled is not None:
                return _export_quietly(source, *doubled, dynamic_shapes)
        where = _find_module_path(error, source)
        at = f"{name}: {where}" if where else name
        raise UnsupportedError(f"{at} cannot be exported: {_explain_error(error)}") from error


def _arguments(examples: Any, name: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call, by position and by name. ModelError for what says neither."""
    if isinstance(examples, torch.Tensor):
        return (examples,), {}
    if isinstance(examples, Mapping):
        return (), dict(examples)
    if isinstance(examples, (list, tuple)):
        return tuple(examples), {}
    raise ModelError(f"{name} has a {type(examples).__name__} as example inputs: give a tuple, (x, ...), of arguments")


def _export_quietly(
    source: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any
) -> ExportedProgram:
    with torch.no_grad(), _quiet(), KeepingRecurrent():
        return torch.export.export(source, args, kwargs, dynamic_shapes=dynamic_shapes)


def _with_two(
    source: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """The arguments with two elements along open axes that have one; None where there is no such axis."""
    bound = inspect.signature(source.forward).bind(*args, **kwargs)
    given = dict(bound.arguments)
    dims = (
        dynamic_shapes if isinstance(dynamic_shapes, Mapping) else dict(zip(given, dynamic_shapes or (), strict=False))
    )
    grown = {key: _grown(value, dims.get(key)) for key, value in given.items()}
    bound.arguments.update(grown)
    return None if all(grown[key] is given[key] for key in given) else (bound.args, bound.kwargs)


def _grown(value: Any, dims: Any) -> Any:
    """An argument whose open axes of one element are repeated; the same object where there are none."""
    if isinstance(value, torch.Tensor) and isinstance(dims, (Mapping, list, tuple)):
        for axis, dim in dims.items() if isinstance(dims, Mapping) else enumerate(dims):
            extent, wanted = value.shape[axis], _second_size(dim, value.shape[axis])
            if wanted != extent:
                value = value.index_select(axis, torch.arange(wanted, device=value.device) % extent)
        return value
    if isinstance(value, Mapping) and isinstance(dims, Mapping):
        parts = {key: _grown(part, dims.get(key)) for key, part in value.items()}
        return value if all(parts[key] is value[key] for key in parts) else parts
    if isinstance(value, (list, tuple)) and isinstance(dims, (list, tuple)):
        parts = [_grown(part, dim) for part, dim in zip(value, dims, strict=True)]
        return value if all(a is b for a, b in zip(parts, value, strict=True)) else type(value)(parts)
    return value


def _second_size(dim: Any, extent: int) -> int:
    """A second size for an axis described by ``dim``: for 1, or a size computed from 1, the one that belongs to 2."""
    if dim is None or isinstance(dim, int) or dim is Dim.STATIC:
        return extent
    of = getattr(dim, "fn", lambda root: root)
    return int(of(2)) if of(1) == extent else extent


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


def _find_module_path(error: BaseException, source: torch.nn.Module) -> str:
    """The path of the innermost module whose ``forward`` was under way."""
    paths = {id(module): path for path, module in source.named_modules()}
    found, trace = "", error.__traceback__
    while trace is not None:
        for value in trace.tb_frame.f_locals.values():
            found = paths.get(id(value), found) if isinstance(value, torch.nn.Module) else found
        trace = trace.tb_next
    return found


def _explain_error(error: Exception) -> str:
    """Why, and what to do about it."""
    text = str(error)
    if isinstance(error, GuardOnDataDependentSymNode):
        found = [match[1].strip() for match in (_GUARD.search(text), _CAUSE.search(text)) if match]
        where = f" ({', at '.join(found)})" if found else ""
        remedy = "use torch.where or torch.cond, or leave it out of the module"
        return f"its course depends on the values of tensors{where}: {remedy}"
    violated, fixes = _VIOLATED.findall(text), _FIXES.search(text)
    if fixes is None and not violated:
        return first_line(error)
    guards = [_SIZE.sub(r"\1\2.shape[\3]", _ADVICE.sub("", line)).rstrip(".") for line in violated]
    more = f"; and {len(guards) - _MOST_VIOLATED} more" if len(guards) > _MOST_VIOLATED else ""
    why = f": {'; '.join(guards[:_MOST_VIOLATED])}{more}" if guards else ""
    remedy = "; ".join(line.strip() for line in fixes[1].splitlines()) if fixes else "one name to sizes that are equal"
    return f"it does not take all sizes that dynamic_shapes leave open{why}: give {remedy}"


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
