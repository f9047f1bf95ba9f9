"""Questions about a model that is not compiled. A worker answers first, as the file may hold anything."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .. import frontends, workers
from ..core import specialization
from ..core.codegens import CodegenChoice, choose_codegens
from ..core.dims import InputShapes
from ..core.limits import ORDINARY, ModelLimits, limits_for
from ..core.model import Model
from ..core.report import CheckReport, Specialization
from ..core.scratch import scratch_folder
from ..core.specialization import Shapes, Sizes
from ..core.target import Target
from ..workers.process import Job
from . import jobs
from .compilation import RequestedSizes
from .planning import as_file, model_bytes

if TYPE_CHECKING:
    from onnx import ModelProto


def check_model(
    source: str | os.PathLike[str] | bytes | ModelProto,
    input_shapes: InputShapes | None = None,
    specialize: Sequence[Sizes] | None = None,
    untrusted: bool = False,
) -> CheckReport:
    """Report what a model needs, all that is unsupported in it, and the estimated work of a run, without compiling it.

    Where its shapes are open and not given, the work is left out. Code generators that are registered are asked what
    they support, and compile nothing. Raises ModelError where the source is no valid model,
    is beyond the limits of a model that is ``untrusted``, or sizes that ``specialize`` gives do not fit it.
    """
    asked = RequestedSizes.of(input_shapes, specialize)
    codegens = CodegenChoice(choose_codegens(), str(Target.parse("x86")))
    with _open_questions(source, limits_for(untrusted), codegens) as ask:
        report = ask.examine(asked.shapes)
        specializations, problems = [], list(report.problems)
        for sizes, shapes in ask.resolve_specializations(asked).items():
            with specialization.naming_specialization(shapes):
                own = ask.examine(shapes)
            specializations.append(Specialization(sizes, own.work))
            problems += [problem for problem in own.problems if problem not in problems]
    return replace(report, supported=not problems, problems=tuple(problems), specializations=tuple(specializations))


def specialized_shapes(
    source: str | os.PathLike[str] | bytes | ModelProto,
    input_shapes: InputShapes | None,
    specialize: Sequence[Sizes],
    limits: ModelLimits = ORDINARY,
) -> dict[str, Shapes]:
    """The shapes of all inputs in each specialization, by what it is called. Raises ModelError as ``check_model``."""
    asked = RequestedSizes.of(input_shapes, specialize)
    with _open_questions(source, limits) as ask:
        return ask.resolve_specializations(asked)


def import_model(
    source: str | os.PathLike[str] | bytes | ModelProto,
    input_shapes: InputShapes | None = None,
    untrusted: bool = False,
) -> Model:
    """Import an ONNX model in this process, where its module can be inspected and changed.

    A worker has imported it before, and lived. Raises as ``check_model``, and UnsupportedError for what it would list.
    """
    limits = limits_for(untrusted)
    with _open_questions(source, limits) as ask:
        ask.examine(RequestedSizes.of(input_shapes).shapes)
    path = isinstance(source, (str, os.PathLike))
    return frontends.import_model(os.fspath(source) if path else model_bytes(source), input_shapes, limits)


class _Questions:
    """The questions about one model; ``path`` is its file, which errors call ``label``."""

    def __init__(self, path: str, label: str, limits: ModelLimits, codegens: CodegenChoice | None) -> None:
        self._file, self._limits, self._codegens = (path, label), limits, codegens

    def examine(self, shapes: InputShapes) -> CheckReport:
        arguments = (*self._file, shapes, self._limits, self._codegens)
        return self._ask(Job(f"the check of {self._file[1]}", jobs.examine, arguments))

    def resolve_specializations(self, asked: RequestedSizes) -> dict[str, Shapes]:
        if not asked.specialize:
            return {}
        arguments = (*self._file, asked.shapes, asked.specialize, self._limits)
        return self._ask(Job(f"the inputs of {self._file[1]}", jobs.specialized_shapes, arguments))

    @staticmethod
    def _ask(job: Job) -> Any:
        return workers.get_pool(1).run([job])[0]


@contextmanager
def _open_questions(
    source: str | os.PathLike[str] | bytes | ModelProto, limits: ModelLimits, codegens: CodegenChoice | None = None
) -> Iterator[_Questions]:
    """One process is enough, and starts sooner than as many as compile; what comes as no file is put into one."""
    with scratch_folder() as folder:
        yield _Questions(*as_file(source, folder), limits, codegens)
