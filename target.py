"""The machine that code is made for."""

from __future__ import annotations

import difflib
import functools
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import cpus
from .errors import TargetError

NATIVE = "native"
_OPTIONS = "-mcpu=NAME and -mattr=+FEATURE,-FEATURE"
# What stands for a cache whose size the system, or the CPU's name, does not tell.
_L1_BYTES, _L2_BYTES, _L3_BYTES = 32 << 10, 256 << 10, 8 << 20


@dataclass(frozen=True)
class DotProduct:
    """The instruction that sums of products of bytes are made with.

    ``lanes`` is how many sums of 32 bits it makes, ``terms`` how many products each of them adds up: four of bytes, or
    two of numbers of 16 bits, which bytes are widened to.
    """

    lanes: int
    terms: int


@dataclass(frozen=True)
class Target:
    """A CPU, and the numbers that schedules are made from.

    ``cpu`` is LLVM's name, or "native" for this machine's; ``changes`` ("+fma", "-avx2") were asked for besides.
    ``features`` are all that code may use (of ``cpus.FEATURES``). ``lanes`` is the number of float32 in a vector
    register, ``registers`` their count. Cache sizes are in bytes; ``cores`` are those that this process may use.
    """

    arch: str = "x86"
    cpu: str = NATIVE
    changes: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    lanes: int = 4
    registers: int = 16
    l1_bytes: int = _L1_BYTES
    l2_bytes: int = _L2_BYTES
    l3_bytes: int = _L3_BYTES
    cores: int = 1

    @property
    def triple(self) -> str:
        """LLVM's name of machine and system."""
        return "x86_64-unknown-linux-gnu"

    @property
    def has_fma(self) -> bool:
        """Whether a product and a sum are one instruction."""
        return "fma" in self.features or "fma4" in self.features

    @property
    def dot_product(self) -> DotProduct:
        """The instruction for sums of products of bytes: VNNI's, or that of all x86-64 CPUs in the widest vectors."""
        if "avx512vnni" in self.features or "avxvnni" in self.features:
            return DotProduct(16 if "avx512vnni" in self.features else 8, 4)
        return DotProduct(16 if "avx512bw" in self.features else 8 if "avx2" in self.features else 4, 2)

    def __str__(self) -> str:
        """The text that ``parse`` takes."""
        options = [f"-mcpu={self.cpu}"] if self.cpu != NATIVE else []
        options += [f"-mattr={','.join(self.changes)}"] if self.changes else []
        return " ".join([self.arch, *options])

    @staticmethod
    def parse(text: str | Target) -> Target:
        """A target from ``"x86 [-mcpu=NAME] [-mattr=+FEATURE,-FEATURE]"``; ``"x86"`` is this machine.

        A CPU that is named brings its own vectors and caches; its third level is taken to be 8 MiB. Raises TargetError
        for anything that is not known, and says what is.
        """
        if isinstance(text, Target):
            return text
        arch, *words = text.split() or [""]
        if arch != "x86":
            raise TargetError(f"unknown target '{text}': the known one is 'x86' (this CPU), with {_OPTIONS} for others")
        options = _options(words, text)
        cpu, changes = options.get("-mcpu", NATIVE), tuple(filter(None, options.get("-mattr", "").split(",")))
        if cpu == NATIVE and not changes:
            return host()
        if cpu != NATIVE and cpu not in cpus.known():
            raise TargetError(f"unknown CPU '{cpu}' in target '{text}': {_choices(cpu, cpus.known())}")
        features = host().features if cpu == NATIVE else cpus.known()[cpu]
        return _target(cpu, changes, _changed(features, changes, text))

    def missing(self) -> tuple[str, ...]:
        """The features that code for this target may use and this machine's CPU lacks."""
        return lacking(self.features)

    def refuse_foreign(self) -> None:
        """Raise TargetError where code for this target cannot run on this machine."""
        if missing := self.missing():
            raise TargetError(
                f"code for target '{self}' cannot run here: this CPU lacks {', '.join(missing)}; "
                "write the program with compile.py and run it on such a CPU"
            )


# Code that runs on every x86-64 CPU.
BASELINE = Target(cpu="x86-64")


@functools.cache
def host() -> Target:
    """This machine. Raises TargetError where it is not a CPU that we make code for."""
    if os.uname().machine != "x86_64":
        raise TargetError(f"no code generator for this machine ({os.uname().machine}): x86-64 is needed")
    return _target(NATIVE, (), host_features())


@functools.cache
def host_features() -> tuple[str, ...]:
    """Those features of this machine's CPU that code is made for, by LLVM's names."""
    with open("/proc/cpuinfo") as f:
        lines = (line.split(":", 1)[1] for line in f if line.startswith("flags"))
        return cpus.from_linux(set(next(lines, "").split()))


def cpu_name() -> str:
    """This machine's CPU in its maker's words, with their number: ``2 x AMD EPYC``."""
    with open("/proc/cpuinfo") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return f"{len(names)} x {names[0]}" if names else "an unknown CPU"


def lacking(features: Iterable[str]) -> tuple[str, ...]:
    """Those of the features that this machine's CPU lacks."""
    return tuple(sorted(set(features) - set(host_features())))


def _target(cpu: str, changes: tuple[str, ...], features: tuple[str, ...]) -> Target:
    wide = "avx512f" in features
    lanes, registers = 16 if wide else 8 if "avx" in features else 4, 32 if wide else 16
    if cpu == NATIVE:
        usual = (_L1_BYTES, _L2_BYTES, _L3_BYTES)
        sizes = [_cache_bytes(level + 1) or usual[level] for level in range(3)]
    else:
        sizes = [*cpus.caches(cpu), _L3_BYTES]
    return Target("x86", cpu, changes, features, lanes, registers, *sizes, cores=len(os.sched_getaffinity(0)))


def _options(words: Sequence[str], text: str) -> dict[str, str]:
    """Values by option."""
    options: dict[str, str] = {}
    for word in words:
        name, _, value = word.partition("=")
        if name not in ("-mcpu", "-mattr") or not value:
            raise TargetError(f"unknown option '{word}' in target '{text}': the known ones are {_OPTIONS}")
        if name in options:
            raise TargetError(f"option '{name}' is given twice in target '{text}': give it once")
        options[name] = value
    return options


def _changed(features: Sequence[str], changes: Sequence[str], text: str) -> tuple[str, ...]:
    """The features after changes, one by one as LLVM makes them: what a feature implies comes and goes with it."""
    now = set(features)
    for change in changes:
        sign, feature = change[0], change[1:]
        if sign not in "+-" or feature not in cpus.FEATURES:
            choices = _choices(change.lstrip("+-"), cpus.FEATURES)
            raise TargetError(f"unknown feature '{change}' in target '{text}': {choices}, each after a + or a -")
        now = now | cpus.closure([feature]) if sign == "+" else now - cpus.dependents(feature)
    return tuple(f for f in cpus.FEATURES if f in now)


def _choices(name: str, known: Iterable[str]) -> str:
    """All known names in a sentence, those nearest to ``name`` first."""
    names = list(known)
    near = difflib.get_close_matches(name.lower(), names, n=5)
    return "the known ones are " + ", ".join(dict.fromkeys([*near, *names]))


def _cache_bytes(level: int) -> int:
    """Size of this level's data cache, 0 where the system does not say."""
    for folder in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        kind, size = (folder / "type").read_text().strip(), (folder / "size").read_text().strip()
        if int((folder / "level").read_text()) == level and kind in ("Data", "Unified"):
            return int(size.removesuffix("K")) << 10
    return 0
