"""``tvm.target``: CPUs, as TVM's users write them."""

from __future__ import annotations

import re
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NoReturn

from ..core.cpus import ARCHITECTURES
from ..core.errors import TargetError
from ..core.target import Target as Cpu
from .absent import refuse_name

_IGNORED = ("-mtriple=", "-keys=", "-libs=", "-link-params=", "-num-cores=", "-opt-level=", "-model=", "-device=")
# An option and its value apart, as TVM prints them.
_SPACED = re.compile(r"(-[a-z-]+) +([^- ]\S*)")
_CURRENT: ContextVar[tuple[Target, ...]] = ContextVar("targets", default=())


@dataclass(frozen=True)
class TargetKind:
    """What code is made by: "llvm"."""

    name: str

    def __str__(self) -> str:
        return self.name


class Target:
    """``Target("llvm -mcpu=skylake-avx512")``, also ``Target("llvm", host="llvm")``; TargetError for what is no CPU."""

    def __init__(self, target: str | Target | dict[str, Any], host: Any = None) -> None:
        given = _text_of(target)
        own = given if host is None else _text_of(host)
        for text in (given, own):
            if (kind := text.split()[0] if text.split() else text) not in ("llvm", "x86", "aarch64"):
                raise TargetError(f"target '{kind}' is none: programs run on the CPU, which is 'llvm'")
        self.kind = TargetKind("llvm")
        self.own = Cpu.parse(_as_own(given))
        self.host = self if host is None or own == given else Target(host)
        self._text = given

    @staticmethod
    def of(target: Any) -> Target:
        """A target, or its text; None is that of the ``with`` around, else this CPU."""
        if target is None:
            return Target.current() or Target("llvm")
        return target if isinstance(target, Target) else Target(target)

    @staticmethod
    def current(allow_none: bool = True) -> Target | None:
        """The target of the ``with`` around; TargetError, or None, where there is none."""
        entered = _CURRENT.get()
        if not entered and not allow_none:
            raise TargetError("no target is entered: with tvm.target.Target('llvm'): ...")
        return entered[-1] if entered else None

    @property
    def keys(self) -> tuple[str, ...]:
        """The kinds of hardware that it is."""
        return ("cpu",)

    @property
    def model(self) -> str:
        """The name that ``-model=`` gives it, by which records of tuning are found first; "unknown" without."""
        words = (word.removeprefix("-model=") for word in self._text.split() if word.startswith("-model="))
        return next(words, "unknown")

    @property
    def mcpu(self) -> str:
        """LLVM's name of the CPU."""
        return self.own.cpu

    def __enter__(self) -> Target:
        _CURRENT.set((*_CURRENT.get(), self))
        return self

    def __exit__(self, *error: object) -> None:
        _CURRENT.set(_CURRENT.get()[:-1])

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Target({self._text!r})"


def _as_own(text: str) -> str:
    """A target's text as this package has it: without what tells TVM's own libraries and passes something."""
    arch, *words = _SPACED.sub(r"\1=\2", text).split()
    for word in words:
        if word.startswith("-mtriple="):
            machine = word.removeprefix("-mtriple=").split("-")[0]
            found = next((name for name, each in ARCHITECTURES.items() if each.machine == machine), None)
            if found is None:
                raise TargetError(f"target '{text}' is for {machine}: there is code for {', '.join(ARCHITECTURES)}")
            arch = found
    return " ".join([arch, *(word for word in words if not word.startswith(_IGNORED))])


def _text_of(target: Any) -> str:
    """The text of a target; of a dict, as TVM's configuration files have them."""
    if isinstance(target, Target):
        return str(target)
    if isinstance(target, dict):
        options = [f"-{key}={value}" for key, value in target.items() if key in ("mcpu", "mattr")]
        return " ".join([str(target.get("kind", "")), *options])
    if not isinstance(target, str):
        raise TargetError(f"a target is a text, as 'llvm', not a {type(target).__name__}")
    return target


def create(target: str | Target | dict[str, Any]) -> Target:
    """As ``Target``."""
    return Target(target)


def __getattr__(name: str) -> NoReturn:
    refuse_name("target", name, ["Target", "create"])
