"""Files of exported programs (``model.pt2``): a worker reads one first, this process what it found to be good.

``torch.export.load`` unpickles example inputs, weights and constants, and imports, evaluates and calls what texts of
the file name. Here none of that is reached: see ``package`` for the archive, ``program_text`` for the graph.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch._export.serde.serialize import _SERIALIZE_TO_TORCH_DTYPE, SerializedArtifact, deserialize
from torch.export import ExportedProgram

from ...core.errors import InternalError, ModelError, TilewrightError
from ...core.limits import GIB, ORDINARY, ModelLimits
from ...workers import Pool, get_pool
from ...workers.process import CONVERTER, Job
from .conversion import read_file
from .nesting import BadNestingError, check_types
from .package import Package, Stored, refuse_odd_file
from .program_text import REMEDY

READ_SECONDS, READ_BYTES = 300, 16 * GIB  # of a worker's CPU, and its memory: weights are not read there


def read_archive(path: Path, using: Pool | None = None, limits: ModelLimits = ORDINARY) -> ExportedProgram:
    """The program of a file, which a worker of ``using`` has read before.

    ModelError, in one line, for what is none, or cannot be read without running its code.
    """
    refuse_odd_file(str(path), str(path), limits)
    reader = using.of(CONVERTER) if using else get_pool(1, CONVERTER).with_limits(get_pool(1, CONVERTER).limits)
    reader.limits = replace(
        reader.limits,
        memory=min(reader.limits.memory or READ_BYTES, READ_BYTES),
        cpu_seconds=min(reader.limits.cpu_seconds, READ_SECONDS),
        bundles=False,
    )
    try:
        [found] = reader.run([Job(f"the reading of {path}", read_file, (os.path.abspath(path), str(path), limits))])
    except InternalError as error:  # torch ended the worker, or did not come to an end: the file made it
        raise ModelError(f"{path} cannot be read as an exported program: {error}") from error
    try:
        check_types(found.program.types)
        return _deserialize_program(found.program.text, *_load_tensors(path, found))
    except BadNestingError as error:
        raise ModelError(f"{path} nests its arguments or results in what is not read: it {error}") from None
    except TilewrightError:
        raise
    except Exception as error:
        raise _unreadable(str(path), error) from error


def rehearse(found: Package, label: str) -> None:
    """Do what the caller's process will do with a file, without its weights. ModelError where torch cannot."""
    from .source import TorchSource

    try:
        program = _deserialize_program(
            found.program.flat, *({s.name: _of(s, _make_empty_storage(s)) for s in side} for side in found[1:])
        )
        source = TorchSource(lambda: program, label)
        steps: Sequence[Callable[[], Any]] = (source.graph_lines, source.conversion, source.sizes, source.output_names)
        for step in steps:
            with contextlib.suppress(TilewrightError):  # which the caller's process will say
                step()
    except Exception as error:
        raise _unreadable(label, error) from error


def _deserialize_program(text: bytes, weights: Mapping[str, Any], constants: Mapping[str, Any]) -> ExportedProgram:
    return deserialize(SerializedArtifact(text, weights, constants, b""))  # type: ignore[arg-type]


def _unreadable(label: str, error: Exception) -> ModelError:
    reason = (str(error).strip().splitlines() or [""])[-1].split(". ")[0]
    shown = "".join(c if c.isprintable() else "?" for c in reason)[:200] or type(error).__name__
    return ModelError(f"{label} cannot be read as an exported program: {shown}")


def _load_tensors(path: Path, found: Package) -> list[dict[str, torch.Tensor]]:
    """Weights and constants; those that share elements in the file do so here."""
    storages: dict[int, torch.Tensor] = {}
    with open(path, "rb") as file:
        for stored in (*found.weights, *found.constants):
            if stored.begin not in storages:
                storages[stored.begin] = storage = torch.empty(stored.nbytes, dtype=torch.uint8)
                file.seek(stored.begin)
                if file.readinto(storage.numpy().data) != stored.nbytes:
                    raise ModelError(f"{path} was changed while it was read: {REMEDY} again")
    return [{s.name: _of(s, storages[s.begin]) for s in side} for side in (found.weights, found.constants)]


def _make_empty_storage(stored: Stored) -> torch.Tensor:
    return torch.empty(stored.nbytes, dtype=torch.uint8, device="meta")


def _of(stored: Stored, storage: torch.Tensor) -> torch.Tensor:
    """The tensor on its storage."""
    dtype = _SERIALIZE_TO_TORCH_DTYPE[stored.dtype]
    tensor = torch.empty(0, dtype=dtype, device=storage.device)
    tensor.set_(storage.untyped_storage(), stored.offset, stored.sizes, stored.strides)  # type: ignore[call-overload]
    floating = dtype.is_floating_point or dtype.is_complex
    if stored.is_param:
        return torch.nn.Parameter(tensor, requires_grad=stored.requires_grad and floating)
    return tensor.requires_grad_(stored.requires_grad and floating)
