"""The context that passes run in, and sequences of them."""

from __future__ import annotations

import contextvars
import dataclasses
import difflib
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ...core.breadcrumbs import Snapshot, step
from ...core.errors import CompileError
from ...core.target import Target
from ...dialects import extents, ir
from ...dialects.context import diagnostics
from .base import Pass
from .instruments import Instrument
from .options import with_options

# The key of a context's config that holds schedules by the names of kernels (`schedule/by_hand.py`).
SCHEDULES = "schedules"
TARGET, SCHEDULE = "target", "schedule"  # the options that the pipeline gives its passes
_UNSETTABLE = (f".{TARGET}", f"apply-schedule.{SCHEDULE}")


# The other spelling of the options of `convert-layout`, by kind of op.
_LAYOUTS, _LAYOUT_OF = "desired_layouts", "convert-layout."

_CURRENT: contextvars.ContextVar[tuple[PassContext, ...]] = contextvars.ContextVar(
    "tilewright_pass_contexts", default=()
)


@dataclass
class PassContext:
    """What decides which passes run, with which options, and who watches; ``with PassContext(...):`` makes it current.

    Args:
        opt_level: passes whose own ``opt_level`` is higher are skipped.
        required_pass: names that run at any level.
        disabled_pass: names that never run; wins over ``required_pass``.
        instruments: called around each pass, in order.
        config: ``{"fuse-ops.max_group_size": 4}`` sets the option ``max_group_size`` of the pass ``fuse-ops``;
            ``{"desired_layouts": {"conv2d": "NCHW"}}`` is ``{"convert-layout.conv2d": "NCHW"}``;
            ``{"schedules": {"matmul_1a2b3c4d": schedule}}`` gives kernels, by name, a ``Schedule`` or its JSON to be
            carried out in place of the family's. A compilation raises CompileError for a key that is none.
    """

    opt_level: int = 3
    required_pass: Sequence[str] = ()
    disabled_pass: Sequence[str] = ()
    instruments: Sequence[Instrument] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    _count: int = field(default=0, init=False, repr=False)

    @staticmethod
    def current() -> PassContext:
        """The innermost context that is entered, or one with the defaults."""
        return PassContext.find_current() or PassContext()

    @staticmethod
    def find_current() -> PassContext | None:
        """The innermost context that is entered, if any."""
        stack = _CURRENT.get()
        return stack[-1] if stack else None

    def __enter__(self) -> PassContext:
        _CURRENT.set((*_CURRENT.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        _CURRENT.set(_CURRENT.get()[:-1])

    @property
    def cacheable(self) -> bool:
        """Whether it changes nothing that the cache's keys do not tell: the level and schedules are there."""
        named = self.required_pass or self.disabled_pass or self.instruments
        return not named and set(self.config) <= {SCHEDULES}

    def is_enabled(self, stage: Pass) -> bool:
        """Whether ``stage`` runs in this context."""
        if stage.name in self.disabled_pass:
            return False
        return stage.name in self.required_pass or stage.opt_level <= self.opt_level

    def configure(self, stage: Pass) -> Pass:
        """``stage`` with the options that ``config`` sets for it."""
        if not self.config:
            return stage
        prefix = f"{stage.name}."
        config = _with_layouts(self.config)
        options = {k.removeprefix(prefix): v for k, v in config.items() if k.startswith(prefix)}
        return with_options(stage, options) if options else stage

    def run(self, stage: Pass, module: ir.Module) -> None:
        """Run one pass under the instruments; raises CompileError that names the pass and the node it failed at."""
        if not self.is_enabled(stage):
            return
        stage, index = self.configure(stage), self._count
        self._count += 1
        for instrument in self.instruments:
            instrument.before(stage, module, index)
        noted = step(f"pass '{stage.name}'", lambda: snapshot(module, stage.name, self.opt_level, stage))
        with noted, module.context, diagnostics(f"pass '{stage.name}'"):
            with self.timing_stage(stage.name), extents.scope():  # of what is noted, later passes may erase some
                stage.apply(module)
            for instrument in self.instruments:
                instrument.after(stage, module, index)

    @contextmanager
    def timing_stage(self, name: str) -> Iterator[None]:
        """Tell the instruments how long the block took."""
        start = time.perf_counter()
        yield
        for instrument in self.instruments:
            instrument.spent(name, time.perf_counter() - start)

    def forks(self) -> bool:
        """Whether all instruments can watch in other processes."""
        return all(instrument.fork("") is not None for instrument in self.instruments)

    def fork(self, part: str) -> PassContext:
        """The context for a part of the work that may run in another process, where all instruments fork."""
        if not self.forks():
            return self
        return dataclasses.replace(self, instruments=[instrument.fork(part) for instrument in self.instruments])

    def join(self, part: str, forked: PassContext) -> None:
        """Take the instruments of ``fork(part)`` back."""
        if forked is not self:
            for instrument, own in zip(self.instruments, forked.instruments, strict=True):
                instrument.join(part, own)


def snapshot(
    module: ir.Module,
    name: str,
    opt_level: int,
    stage: Pass | None = None,
    target: Target | None = None,
    emit: str = "",
) -> Snapshot:
    """What it takes to run a pass on a module again, or to ``emit`` code from it."""
    # The generic form is written, and read, where an op is not as it has to be.
    text: Any = module.operation.get_asm(enable_debug_info=True, print_generic_op_form=True, assume_verified=True)
    schedule = getattr(stage, SCHEDULE, None)
    facts = {
        "name": name,
        "passes": stage.text((TARGET, SCHEDULE)) if stage else "",
        "emit": emit,
        "target": str(getattr(stage, TARGET, None) or target or ""),
        "opt_level": opt_level,
        "schedules": {symbol: schedule.to_json() for symbol in _symbols(module)} if schedule is not None else {},
    }
    return Snapshot(text, facts)


def _symbols(module: ir.Module) -> list[str]:
    ops = (op.operation.attributes for op in module.body.operations)
    return [ir.StringAttr(attributes["sym_name"]).value for attributes in ops if "sym_name" in attributes]


@dataclass(frozen=True)
class Sequential(Pass):
    """Passes in order, as one pass."""

    name: ClassVar[str] = "sequential"
    passes: tuple[Pass, ...] = ()

    def apply(self, module: ir.Module) -> None:
        """Run each pass in the current PassContext."""
        context = PassContext.current()
        for stage in self.passes:
            context.run(stage, module)


def check_context(context: PassContext, table: Mapping[str, type[Pass]], others: Collection[str] = ()) -> None:
    """Raise CompileError for what a context says of passes that ``table`` and ``others`` have not, or of their options,
    and for a layout of unknown ops."""
    watched = (name for instrument in context.instruments for name in instrument.passes)
    for name in (*context.required_pass, *context.disabled_pass, *watched):
        if name not in table and name not in others:
            raise CompileError(
                f"there is no pass '{name}'{_meant(name, table)}; `tilewright opt --list` shows them all"
            )
    options = (f"{name}.{f.name}" for name, cls in table.items() for f in dataclasses.fields(cls))
    known = [option for option in options if not option.endswith(_UNSETTABLE)]
    kinds = [o.removeprefix(_LAYOUT_OF) for o in known if o.startswith(_LAYOUT_OF) and o != f"{_LAYOUT_OF}desired"]
    for key in context.config:
        if key not in (*known, _LAYOUTS, SCHEDULES):
            raise CompileError(f"config has no key '{key}'; its keys: {', '.join((*known, _LAYOUTS, SCHEDULES))}")
    for key in _with_layouts(context.config).keys() - context.config.keys():
        if (kind := key.removeprefix(_LAYOUT_OF)) not in kinds:
            raise CompileError(f"config '{_LAYOUTS}' has no kind of op '{kind}'; its kinds: {', '.join(kinds)}")


def _meant(name: str, table: Mapping[str, type[Pass]]) -> str:
    close = difflib.get_close_matches(name, table, 1)
    return f", only '{close[0]}'" if close else ""


def _with_layouts(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config with its desired layouts as options of the pass that converts layouts."""
    layouts = config.get(_LAYOUTS, {})
    if not isinstance(layouts, Mapping):
        raise CompileError(f"config '{_LAYOUTS}' is {layouts!r}: give a layout by kind of op, {{'conv2d': 'NCHW'}}")
    options = {key: value for key, value in config.items() if key != _LAYOUTS}
    for kind, layout in layouts.items():
        known = options.setdefault(f"{_LAYOUT_OF}{kind}", layout)
        if known != layout:
            raise CompileError(f"config gives '{kind}' two layouts, {known!r} and in '{_LAYOUTS}' {layout!r}: give one")
    return options
