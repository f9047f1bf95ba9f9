"""Texts of the stages of a compilation: of a model, or of a program that was compiled in this process."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from ..core.errors import CompileError
from ..core.model import Model
from ..core.program import Plan
from ..core.scratch import scratch_folder
from ..frontends.foreign import ForeignSource, LinalgText
from ..runtime.artifact.source import TextKind
from ..runtime.process.files import sha256
from . import jobs
from .compilation import Compilation, PassJob
from .jobs import Planned
from .planning import as_file, convert_source, describe_model, plan, without_data

_BETWEEN = b"\n// -----\n"  # texts of several functions


def emit_text(compilation: Compilation, kind: TextKind) -> bytes:
    """The text that a stage made; see ``api.emit``."""
    with scratch_folder() as folder:
        if kind == "linalg":
            return _emit_import(compilation, folder)
        return _emit_plan(compilation, plan(compilation, folder).plan, kind)


def _emit_import(compilation: Compilation, folder: str) -> bytes:
    source = compilation.source
    if isinstance(source, tuple):
        made = [compilation.call(f"the schedule of '{s.name}'", jobs.expressions_text, s) for s in source]
        return _BETWEEN.join(made)
    if isinstance(source, Model | Planned):
        raise CompileError("the program was built of a Model: its 'linalg' is the text of that model's module")
    if isinstance(source, ForeignSource):
        return _emit_linalg(compilation, convert_source(source, compilation.pool))
    path, label = as_file(source, folder)
    options = compilation.options
    options.progress(f"importing {label}")
    shapes = compilation.sizes.shapes
    return compilation.call(describe_model(label), jobs.import_text, path, label, shapes, options.model_limits)


def _emit_linalg(compilation: Compilation, source: LinalgText) -> bytes:
    """The text as it came, or that for all sizes of one that came for some."""
    if source.samples is None:
        return source.text.encode()
    shell = replace(source, params=without_data(source.params))
    return compilation.call(f"the import of {source.name}", jobs.linalg_text, shell)


def _emit_plan(compilation: Compilation, plan: Plan, kind: TextKind) -> bytes:
    """The text that a stage behind the graph passes makes of a plan."""
    if kind == "kernels":
        return compilation.call("the kernels' text", jobs.kernels_text, plan)
    options = compilation.options
    if kind == "schedule":
        tuned = options.records.schedules(plan.kernels, options.target)
        [text] = compilation.run([PassJob("the schedules", jobs.schedules_text, (plan, tuned), options.target)])
        return text
    options.progress("compiling the whole program")
    alone = [replace(plan, main=program, functions={}) for program in (plan.main, *plan.functions.values())]
    tuned = options.records.schedules(plan.kernels, options.target)
    work = [
        PassJob("the whole program", jobs.whole_text, (each, kind, options.profile, tuned), options.target)
        for each in alone
    ]
    return _BETWEEN.join(compilation.run(work))


@dataclass(frozen=True)
class TextRecipe:
    """How a program was compiled: a ``Recipe``. Of a file, ``digest`` is the SHA-256 that it had then."""

    compilation: Compilation
    digest: str

    def text(self, kind: TextKind) -> bytes:
        """See ``Recipe``: a file must be as it was."""
        source, sizes = self.compilation.source, self.compilation.sizes
        if isinstance(source, str | os.PathLike) and _digest(source) != self.digest:
            raise CompileError(f"{source} is not there, or not as it was when it was compiled: compile it again")
        return emit_text(replace(self.compilation, sizes=replace(sizes, specialize=())).restart(), kind)


def _digest(path: str | os.PathLike[str]) -> str:
    try:
        return sha256(Path(path))
    except OSError:
        return ""
