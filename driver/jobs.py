"""The work that compile workers do. Everything here takes and gives plain data, and imports MLIR only when called."""

from __future__ import annotations

import os
import tempfile
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from ..core.breadcrumbs import Snapshot, step
from ..core.choices import Choice, GivenOption, collect_choices
from ..core.codegens import CodegenChoice
from ..core.dims import InputShapes
from ..core.errors import ArtifactError, TilewrightError
from ..core.externals import Externals
from ..core.limits import ORDINARY, ModelLimits
from ..core.model import FileSlice, Model, Param
from ..core.program import Kernel, Plan, Program
from ..core.report import CheckReport, Work
from ..core.specialization import Shapes, Sizes, name_specialization, naming_specialization, resolve
from ..core.subgraph_code import SubgraphCode
from ..core.target import Target
from ..frontends.foreign import LinalgText
from ..te.computation import Computation

if TYPE_CHECKING:
    from ..passes.infra.context import PassContext

SPILL_BYTES = 1 << 16


@dataclass(frozen=True)
class Planned:
    """A model after the graph passes: what is to be compiled, and where its weights are.

    ``files`` are those that the import read besides the model's own, ``notes`` what it has to say to a user,
    ``source`` is the SHA-256 of the model's file, if there is one; ``externals`` are what kernels call that a user has
    written, ``generated`` is code that they call which code generators of users have made. ``choices`` are decisions of
    its graph passes that records may make.
    """

    plan: Plan
    params: Mapping[str, Param]
    name: str
    files: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()
    source: str = ""
    externals: Externals = field(default_factory=Externals)
    generated: tuple[SubgraphCode, ...] = ()
    choices: tuple[Choice, ...] = ()


@dataclass(frozen=True)
class Settings:
    """The settings of a compilation that its jobs need. ``context`` is the pass context that the user entered, if any;
    ``model_limits`` is what the import accepts. ``states`` are those that the user declares, as pairs of an output and
    an input; None for those that are found. ``codegens`` are the names of code generators that take part.

    Without ``sessions`` there is no program of its own for these. ``choices`` are decisions of the graph passes that
    records have, as pairs of a key and an option.
    """

    target: Target
    opt_level: int = 3
    context: PassContext | None = None
    model_limits: ModelLimits = ORDINARY
    states: tuple[tuple[str, str], ...] | None = None
    codegens: tuple[str, ...] = ()
    sessions: bool = True
    choices: tuple[tuple[str, GivenOption], ...] = ()

    def schedules(self, kernel: str | None = None) -> str:
        """A text that identifies the schedules given by hand, for one kernel or all; "" for none."""
        if self.context is None:
            return ""
        from ..passes.schedule.language import by_hand

        return by_hand.key_text(self.context.config, None if kernel is None else [kernel])

    def pass_context(self) -> PassContext:
        """The context to run passes in."""
        from ..passes.infra.context import PassContext

        return self.context or PassContext(opt_level=self.opt_level)


def warm_up() -> None:
    """Import what jobs need."""
    from ..passes import pipeline  # noqa: F401


def plan_file(
    path: str, label: str, input_shapes: InputShapes, specialized: bool, folder: str, settings: Settings
) -> tuple[Planned, Settings]:
    """Import a model file and run the graph passes. Errors call the file ``label``.

    ``input_shapes`` may be those of a specialization, which errors then name. Large weights that the import decodes are
    written to ``folder``.
    """
    from .. import frontends
    from ..dialects.context import reused_context

    naming = naming_specialization(cast(Shapes, input_shapes)) if specialized else nullcontext()
    with naming, _label_errors(path, label), reused_context():
        with _import_step(path, label, input_shapes):
            codegens = CodegenChoice(settings.codegens, str(settings.target))
            model = frontends.import_model(path, input_shapes, settings.model_limits, codegens)
        return plan_model(model, folder, replace(settings, states=()) if specialized else settings)


def specialized_shapes(
    path: str, label: str, input_shapes: InputShapes, specialize: Sequence[Sizes], limits: ModelLimits
) -> dict[str, Shapes]:
    """The shapes of all inputs in each specialization, by what it is called; ``label`` is what errors call the file.

    Raises ModelError for one that does not fit what the inputs may be.
    """
    from .. import frontends

    if not specialize:
        return {}
    with _label_errors(path, label), _import_step(path, label, input_shapes):
        inputs = frontends.model_inputs(path, input_shapes, limits)
        return {name_specialization(shapes, inputs): shapes for shapes in resolve(specialize, inputs, path)}


def examine(
    path: str, label: str, input_shapes: InputShapes, limits: ModelLimits, codegens: CodegenChoice | None = None
) -> CheckReport:
    """Report what a model file needs, all that is unsupported in it, and if its sizes are known, the work of a run.

    The report and errors call the file ``label``. ``codegens`` are those of the user that are asked what they support.
    """
    from .. import frontends

    with _label_errors(path, label), _import_step(path, label, input_shapes):
        report, model = frontends.examine_model(path, input_shapes, limits, codegens)
        return replace(report if model is None else _with_work(report, model), model=label)


def _with_work(report: CheckReport, model: Model) -> CheckReport:
    from ..passes.analysis.footprint import estimate_footprint
    from ..passes.ir.kernel import list_functions

    with model.module.context:
        found = estimate_footprint(list_functions(model.module)[0])
    if found is None:
        return report
    weights = sum(param.info.nbytes for param in model.params.values())
    work = Work(found.flops, weights, found.activation_bytes, weights + found.activation_bytes)
    loops = [f"loops whose steps only the run knows ({found.open_loops}) count as one step"] if found.open_loops else []
    return replace(report, work=work, notes=(*report.notes, *loops))


def merge(planned: Sequence[Planned], targets: Sequence[str]) -> Planned:
    """Programs, their specializations and variants as one; ``targets`` are as ``passes.merge`` takes them."""
    from ..passes.merge import merge

    plan, params = merge([each.plan for each in planned], [each.params for each in planned], targets)
    lists = ("files", "notes", "generated", "choices")
    joined = (tuple(dict.fromkeys(x for each in planned for x in getattr(each, n))) for n in lists)
    files, notes, generated, choices = joined
    externals = Externals.join(each.externals for each in planned)
    return Planned(plan, params, planned[0].name, files, notes, planned[0].source, externals, generated, choices)


def plan_bytecode(bytecode: bytes, shell: Model, settings: Settings) -> tuple[Planned, Settings]:
    """Run the graph passes on a model whose module comes as bytecode; ``shell`` is the model without it."""
    from ..dialects import ir
    from ..dialects.context import make_context

    with make_context(), ir.Location.unknown():
        return plan_model(replace(shell, module=ir.Module.parse(bytecode)), "", settings)


def plan_linalg(source: LinalgText, settings: Settings) -> tuple[Planned, Settings]:
    """Import a model that comes as another compiler's text, and run the graph passes on it."""
    return plan_model(_import(source), "", settings)


def plan_expressions(source: Computation, settings: Settings) -> tuple[Planned, Settings]:
    """Lower a schedule of tensor expressions, and plan its kernels."""
    from ..te.emit import emit_model

    with step("lowering"):
        model = emit_model(source.schedule, source.args, source.name)
    model = replace(model, externals=source.externals)
    return plan_model(model, "", replace(settings, states=()))


def expressions_text(source: Computation) -> bytes:
    """The module of a schedule of tensor expressions."""
    from ..te.emit import emit_model

    return _print_module(emit_model(source.schedule, source.args, source.name).module.operation)


def linalg_text(source: LinalgText) -> bytes:
    """The module of a model that comes as another compiler's text, with the nodes' names."""
    return _print_module(_import(source).module.operation)


def _import(source: LinalgText) -> Model:
    from ..frontends.linalg.importer import import_linalg

    with step("import"):
        return import_linalg(source.text, source.inputs, source.outputs, source.params, source.name, source.samples)


def plan_model(model: Model, folder: str, settings: Settings) -> tuple[Planned, Settings]:
    """Run the graph passes on a model; the result holds no IR and no large array."""
    from ..passes import sessions

    limits, declared = settings.model_limits, settings.states
    with collect_choices(dict(settings.choices)) as table:
        plan = sessions.plan_with_session(
            model, settings.target, settings.pass_context(), limits, declared, alone=not settings.sessions
        )
    choices = tuple(table.asked.values())
    originals = [info.name for info in plan.params if info.name not in plan.prepare]
    originals += [info.name for program in plan.prepare.values() for info in program.params]
    params = {name: _spill(model.params[name], folder) for name in dict.fromkeys(originals)}
    code = {"externals": model.externals, "generated": model.generated}
    notes = (*model.notes, *_note_choices(choices))
    return Planned(plan, params, model.name, model.files, notes, **code, choices=choices), settings


def _note_choices(choices: Sequence[Choice]) -> list[str]:
    """A note that says how many decisions are those of records, if any is."""
    tuned = sum(choice.taken != choice.default for choice in choices)
    return [f"decisions of the plan from records: {tuned} of {len(choices)}"] if tuned else []


def compile_kernel(bytecode: bytes, settings: Settings) -> tuple[Kernel, Settings]:
    """Compile one kernel to an object."""
    from ..passes import pipeline

    return pipeline.compile_kernel(bytecode, settings.target, settings.pass_context()), settings


def compile_tuned_kernel(bytecode: bytes, name: str, schedule: str, settings: Settings) -> tuple[Kernel, Settings]:
    """Compile one kernel to an object by a schedule that tuning has found, the JSON of one, if it still fits."""
    from ..passes import tuned

    target, most = settings.target, settings.model_limits.program_bytes
    return tuned.compile_tuned_kernel(bytecode, name, target, settings.pass_context(), schedule, most), settings


def compile_llvm_text(text: bytes, target: Target, level: int) -> bytes:
    """The object of LLVM IR that a user gives."""
    from ..dialects import codegen

    return codegen.compile_text(text, target, level)


def emit_support(target: Target) -> bytes:
    """The object with the support of entries."""
    from ..passes.lower import entry

    return entry.emit_support(target)


def emit_weights_function(target: Target) -> bytes:
    """The object that gives a host weights that are inside."""
    from ..passes.lower import entry

    return entry.emit_weights_function(target)


def emit_entry(
    program: Program,
    kernels: Mapping[str, Kernel],
    metadata: str | None,
    number: int,
    target: Target,
    profile: bool,
) -> bytes:
    """The object around a program's kernels, which may come without their objects; ``number`` is the program's.

    With ``profile`` it times their calls.
    """
    from ..passes.lower import entry

    return entry.emit_entry(program, kernels, metadata, number, target, profile)


def emit_routine(program: Program, number: int, target: Target) -> bytes:
    """The object with the code of a program that has a routine, which ``emit_entry`` completes."""
    from ..passes.lower import entry

    return entry.emit_routine(program, number, target)


def emit_kernel_table(names: Sequence[str]) -> bytes:
    """The object that gives a host the kernels' addresses."""
    from ..passes.lower import entry

    return entry.emit_kernel_table(names)


def _spill(param: Param, folder: str) -> Param:
    """The weight with its data in a file, so that it need not travel: arrays of some size are written to ``folder``."""
    array = param.source
    if not isinstance(array, np.ndarray) or array.nbytes < SPILL_BYTES or not folder:
        return param
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
        file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return Param(param.info, FileSlice(Path(file.name), 0, array.nbytes))


def import_text(path: str, label: str, input_shapes: InputShapes | None, limits: ModelLimits = ORDINARY) -> bytes:
    """The imported module as text, with the nodes' names."""
    from .. import frontends

    with _label_errors(path, label), _import_step(path, label, input_shapes):
        module = frontends.import_model(path, input_shapes, limits).module
        return _print_module(module.operation)


def kernels_text(plan: Plan) -> bytes:
    """The programs and the kernels of a plan as text."""
    from ..dialects import ir
    from ..dialects.context import make_context

    programs = {
        "main": plan.main,
        **plan.functions,
        **{f"prepare {name}": program for name, program in plan.prepare.items()},
    }
    parts = ["\n".join(f"// {line}" for line in f"{name}: {p}".splitlines()).encode() for name, p in programs.items()]
    with make_context():
        parts += [_print_module(ir.Module.parse(bytecode).operation) for bytecode in plan.kernels.values()]
    return b"\n// -----\n".join(parts)


def schedules_text(plan: Plan, schedules: Mapping[str, str], settings: Settings) -> tuple[bytes, Settings]:
    """The schedules of a plan's kernels as one transform module: for each a sequence, or its loops as comments.

    ``schedules`` are those that tuning has found.
    """
    from ..passes.tuned import describe_tuned_schedule

    target, context = settings.target, settings.pass_context()
    texts = {
        name: describe_tuned_schedule(code, name, target, context, schedules.get(name, ""))
        for name, code in plan.kernels.items()
    }
    parts = [textwrap.indent(f"// {name}\n{text.rstrip()}\n", "  ") for name, text in texts.items()]
    return "\n".join(["module attributes {transform.with_named_sequence} {", *parts, "}\n"]).encode(), settings


def whole_text(
    plan: Plan,
    kind: Literal["llvm-dialect", "llvm", "asm"],
    profile: bool,
    schedules: Mapping[str, str],
    settings: Settings,
) -> tuple[bytes, Settings]:
    """The whole program in one module: as it is, its LLVM IR after the optimiser, or its assembly.

    With ``profile`` it times its calls. ``schedules`` are those that tuning has found.
    """
    from ..passes import whole

    sources = {name: plan.kernels[name] for name in dict.fromkeys(call.kernel for call in plan.main.calls)}
    context = settings.pass_context()
    module, _ = whole.lower_program(plan.main, sources, settings.target, lambda _: "{}", context, profile, schedules)
    if kind == "llvm-dialect":
        return _print_module(module.operation), settings
    return whole.emit_program(module, settings.target, kind, settings.opt_level), settings


def redo_step(facts: Mapping[str, Any], module: str) -> bytes:
    """Take a step again that a crash bundle has; ``module`` is the path of what it begins with."""
    if "import" in facts:
        return import_text(facts["import"], facts["import"], facts["input_shapes"])
    from ..passes import by_command

    target, context = by_command.restore_context(facts)
    try:
        text = Path(module).read_text()
    except OSError as error:
        raise ArtifactError(f"cannot read '{module}': {error.strerror}") from error
    return by_command.run(text, module, facts["passes"], target, context, facts["emit"] or None)


def _print_module(op: Any) -> bytes:
    return op.get_asm(enable_debug_info=True, use_local_scope=True).encode()


def _import_step(path: str, label: str, input_shapes: InputShapes | None) -> AbstractContextManager[None]:
    """The import as a step."""
    temporary = os.path.basename(label) != os.path.basename(path)
    facts = {"name": "import", "import": path, "input_shapes": dict(input_shapes or {}), "inside": temporary}
    return step("", lambda: Snapshot("", facts))


@contextmanager
def _label_errors(path: str, label: str) -> Iterator[None]:
    """Let errors call the file by the name that the user gave."""
    try:
        yield
    except TilewrightError as error:
        raise type(error)(str(error).replace(path, label)) from error
