"""What stages of a compilation made, as text: of a model, or of a program that was compiled in this process."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.errors import CompileError
from ..core.program import Plan
from ..frontends.foreign import ForeignSource, LinalgText
from ..runtime.artifact.source import TextKind
from ..runtime.process.files import sha256
from ..workers import Pool
from ..workers.process import Job
from . import jobs
from .options import CompileReport, Options
from .planning import Asked, as_file, converted, plan_source, titled, without_data

if TYPE_CHECKING:
    from onnx import ModelProto

Source = str | os.PathLike[str] | bytes | ForeignSource


def emit(source: Source | ModelProto, kind: TextKind, asked: Asked, options: Options, pool: Pool) -> bytes:
    """What ``driver.emit`` says."""
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        if kind == "linalg":
            if isinstance(source, ForeignSource):
                source.prepare(pool, options.model_limits)
                return _linalg(converted(source, pool), pool)
            path, label = as_file(source, folder)
            options.progress(f"importing {label}")
            arguments = (path, label, asked.shapes, options.model_limits)
            return pool.run([Job(titled(label), jobs.import_text, arguments)])[0]
        return emit_plan(plan_source(source, asked, options, pool, folder, CompileReport()).plan, kind, options, pool)


def _linalg(source: LinalgText, pool: Pool) -> bytes:
    """The text as it came, or that for all sizes of one that came for some."""
    if source.samples is None:
        return source.text.encode()
    shell = replace(source, params=without_data(source.params))
    return pool.run([Job(f"the import of {source.name}", jobs.linalg_text, (shell,))])[0]


def emit_plan(plan: Plan, kind: TextKind, options: Options, pool: Pool) -> bytes:
    """What a stage behind the graph passes made of a plan."""
    if kind == "kernels":
        return pool.run([Job("the kernels' text", jobs.kernels_text, (plan,))])[0]
    options.progress("compiling the whole program")
    arguments = (plan, kind, options.profile, options.fork(""))
    [(text, forked)] = pool.run([Job("the whole program", jobs.whole_text, arguments)])
    options.join("", forked)
    return text


@dataclass(frozen=True)
class FileRecipe:
    """A program that was compiled from a file, or from the bytes of one, whose SHA-256 was ``digest``."""

    source: Source
    digest: str
    asked: Asked
    options: Options
    pool: Callable[[], Pool]

    def text(self, kind: TextKind) -> bytes:
        """See ``Recipe``: the file must be as it was."""
        if isinstance(self.source, (str, os.PathLike)) and _digest(self.source) != self.digest:
            raise CompileError(f"{self.source} is not there, or not as it was when it was compiled: compile it again")
        return emit(self.source, kind, replace(self.asked, specialize=()), self.options, self.pool())


@dataclass(frozen=True)
class PlanRecipe:
    """A program that was compiled from a model in this process."""

    plan: Plan
    options: Options
    pool: Callable[[], Pool]

    def text(self, kind: TextKind) -> bytes:
        """See ``Recipe``."""
        if kind == "linalg":
            raise CompileError("the program was built of a Model: its 'linalg' is the text of that model's module")
        return emit_plan(self.plan, kind, self.options, self.pool())


def _digest(path: str | os.PathLike[str]) -> str:
    try:
        return sha256(Path(path))
    except OSError:
        return ""
