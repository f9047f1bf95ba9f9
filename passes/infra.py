"""Passes, the context they run in, sequences of them, and the instruments that watch.

A pass is a frozen dataclass: its fields are its options, ``apply`` rewrites the module in place. A pass that does not
understand a piece of IR leaves it alone; a pass that cannot keep its promise raises CompileError.
"""

from __future__ import annotations

import contextvars
import dataclasses
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TextIO

from ..dialects import PassManager, ir
from ..dialects.context import diagnostics
from ..errors import CompileError, TilewrightError


@dataclass(frozen=True)
class Pass:
    """Base of all passes. ``name`` is the command-line name, ``opt_level`` the least level at which the pass runs."""

    name: ClassVar[str] = ""
    opt_level: ClassVar[int] = 0

    def apply(self, module: ir.Module) -> None:
        """Rewrite ``module`` in place. Raises CompileError for what must be understood and is not."""
        raise NotImplementedError(self.name)

    def __str__(self) -> str:
        """The pass as the command line writes it; options that have their default are left out."""
        options = [
            f"{f.name}={getattr(self, f.name)}"
            for f in dataclasses.fields(self)
            if f.init and getattr(self, f.name) != _default(f)
        ]
        return self.name + ("{" + " ".join(options) + "}" if options else "")


@dataclass(frozen=True)
class MlirPass(Pass):
    """An upstream pipeline under the name of a pass: ``MlirPass("cse")`` or ``MlirPass("func.func(canonicalize)")``."""

    pipeline: str

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The pipeline's own text."""
        return self.pipeline

    def apply(self, module: ir.Module) -> None:
        """Run the pipeline on the whole module."""
        PassManager.parse(f"builtin.module({self.pipeline})", module.context).run(module.operation)

    def __str__(self) -> str:
        return self.pipeline


class Instrument:
    """Watches passes run. ``index`` counts the passes of one context from 0."""

    def before(self, stage: Pass, module: ir.Module, index: int) -> None:
        """Called before each pass that is not skipped."""

    def after(self, stage: Pass, module: ir.Module, index: int) -> None:
        """Called after each pass that succeeded."""


@dataclass
class Timing(Instrument):
    """Adds up the seconds that each pass takes, in ``seconds[name]``."""

    seconds: dict[str, float] = field(default_factory=dict)
    _start: float = 0.0

    def before(self, stage: Pass, module: ir.Module, index: int) -> None:
        self._start = time.perf_counter()

    def after(self, stage: Pass, module: ir.Module, index: int) -> None:
        self.seconds[stage.name] = self.seconds.get(stage.name, 0.0) + time.perf_counter() - self._start

    def __str__(self) -> str:
        rows = sorted(self.seconds.items(), key=lambda row: -row[1])
        return "\n".join(f"{seconds * 1e3:10.1f} ms  {name}" for name, seconds in rows)


@dataclass
class PrintIR(Instrument):
    """Prints the module after the named passes (``all``: after each), as `--print-ir-after` asks."""

    names: Sequence[str]
    file: TextIO | None = None

    def after(self, stage: Pass, module: ir.Module, index: int) -> None:
        if "all" in self.names or stage.name in self.names:
            print(f"// ----- IR after {stage} -----\n{module}", file=self.file or sys.stderr)


@dataclass
class DumpIR(Instrument):
    """Writes the module after each pass to its own file of a folder: ``03-convert-layout.mlir``."""

    folder: Path

    def after(self, stage: Pass, module: ir.Module, index: int) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        safe = "".join(c if c.isalnum() or c in "-_" else "_" for c in stage.name)
        with open(self.folder / f"{index:02d}-{safe}.mlir", "w") as file:
            file.write(str(module.operation.get_asm(enable_debug_info=True, pretty_debug_info=True)))


class Verify(Instrument):
    """Verifies the module after each pass, so that the pass which broke it is the one that is named."""

    def after(self, stage: Pass, module: ir.Module, index: int) -> None:
        module.operation.verify()


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
        config: ``{"convert-layout.desired": "none"}`` sets the option ``desired`` of the pass ``convert-layout``.
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
        return PassContext.entered() or PassContext()

    @staticmethod
    def entered() -> PassContext | None:
        """The innermost context that is entered, if any."""
        stack = _CURRENT.get()
        return stack[-1] if stack else None

    def __enter__(self) -> PassContext:
        _CURRENT.set((*_CURRENT.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        _CURRENT.set(_CURRENT.get()[:-1])

    def enabled(self, stage: Pass) -> bool:
        """Whether ``stage`` runs in this context."""
        if stage.name in self.disabled_pass:
            return False
        return stage.name in self.required_pass or stage.opt_level <= self.opt_level

    def configured(self, stage: Pass) -> Pass:
        """``stage`` with the options that ``config`` sets for it."""
        prefix = f"{stage.name}."
        options = {k.removeprefix(prefix): v for k, v in self.config.items() if k.startswith(prefix)}
        return with_options(stage, options) if options else stage

    def run(self, stage: Pass, module: ir.Module) -> None:
        """Run one pass under the instruments; raises CompileError that names the pass and the node it failed at."""
        if not self.enabled(stage):
            return
        stage, index = self.configured(stage), self._count
        self._count += 1
        for instrument in self.instruments:
            instrument.before(stage, module, index)
        with module.context, diagnostics(f"pass '{stage.name}'"):
            stage.apply(module)
            for instrument in self.instruments:
                instrument.after(stage, module, index)


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


def parse_pipeline(text: str, table: Mapping[str, type[Pass]]) -> tuple[Pass, ...]:
    """Passes of a command line: ``"simplify,convert-layout{desired=none}"``.

    A name that is not in ``table`` must be an upstream pass. Raises CompileError for unknown names and options.
    """
    return tuple(_parse_pass(word, table) for word in _split(text) if word)


def with_options(stage: Pass, options: Mapping[str, Any]) -> Pass:
    """``stage`` with some fields replaced; strings are converted to the type of the field's default."""
    fields = {f.name: f for f in dataclasses.fields(stage)}
    values = {}
    for name, value in options.items():
        if name not in fields:
            known = ", ".join(fields) or "none"
            raise CompileError(f"pass '{stage.name}' has no option '{name}'; its options: {known}")
        values[name] = _convert(value, _default(fields[name]), f"option '{name}' of pass '{stage.name}'")
    return dataclasses.replace(stage, **values)


def _parse_pass(word: str, table: Mapping[str, type[Pass]]) -> Pass:
    name, _, rest = word.partition("{")
    if name not in table:
        return _upstream(word)
    options = {}
    for pair in rest.removesuffix("}").split():
        key, equals, value = pair.partition("=")
        if not equals:
            raise CompileError(f"option '{pair}' of pass '{name}' has no value; write {pair}=VALUE")
        options[key] = value
    return with_options(table[name](), options)


def _upstream(word: str) -> Pass:
    try:
        with ir.Context():
            PassManager.parse(f"builtin.module({word})")
    except (ValueError, TilewrightError):
        raise CompileError(f"unknown pass '{word}'; `tilewright opt --list` shows the known ones") from None
    return MlirPass(word)


def _split(text: str) -> Iterable[str]:
    """Split at the commas that are outside of braces and parentheses."""
    depth, start = 0, 0
    for i, char in enumerate(text):
        depth += (char in "{(") - (char in "})")
        if char == "," and depth == 0:
            yield text[start:i].strip()
            start = i + 1
    yield text[start:].strip()


def _default(option: dataclasses.Field[Any]) -> Any:
    if option.default_factory is not dataclasses.MISSING:
        return option.default_factory()
    return option.default


def _convert(value: Any, default: Any, what: str) -> Any:
    if not isinstance(value, str) or isinstance(default, str):
        return value
    try:
        if isinstance(default, bool):
            return {"true": True, "false": False, "1": True, "0": False}[value.lower()]
        return type(default)(value)
    except (KeyError, ValueError):
        raise CompileError(f"{what} is '{value}', not a {type(default).__name__}") from None
