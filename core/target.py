"""The machine that code is made for."""

from __future__ import annotations

import ctypes
import difflib
import functools
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from . import cpus
from .cpus import Architecture
from .errors import TargetError

NATIVE = "native"
_ARCHITECTURES = "'x86' (this CPU) and 'aarch64'"
_OPTIONS = "-mcpu=NAME and -mattr=+FEATURE,-FEATURE"
# What stands for a cache whose size the system, or the CPU's name, does not tell.
_L1_BYTES, _L2_BYTES, _L3_BYTES = 32 << 10, 256 << 10, 8 << 20
# Second caches in a result that is written faster to memory than to a last cache behind a mesh.
_MESH_RATIO = 4


@dataclass(frozen=True)
class DotProduct:
    """The ``instruction`` that sums of products of bytes, or of bfloat16, are made with.

    ``lanes`` is how many sums of 32 bits it makes, ``terms`` how many products each of them adds up: four of bytes, two
    of numbers of 16 bits, or one of 32 bits, which bytes are widened to. ``bits`` are those of the operands.
    """

    lanes: int
    terms: int
    instruction: Literal["vpdpbusd", "pmaddwd", "usdot", "sdot", "mla", "vdpbf16ps"]
    bits: int = 8

    @property
    def group(self) -> int:
        """How many steps of the sum lie together in 32 bits."""
        return 32 // self.bits

    @property
    def widened(self) -> bool:
        """Return whether its operands are bytes in 16 bits."""
        return self.bits == 16 and self.instruction == "pmaddwd"


@dataclass(frozen=True)
class Target:
    """A CPU, and the numbers that schedules are made from.

    ``cpu`` is LLVM's name, or "native" for this machine's; ``changes`` ("+fma", "-avx2") were asked for besides.
    ``features`` are all that code may use (of its architecture's). ``lanes`` is the number of float32 in a vector
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
    def architecture(self) -> Architecture:
        """The facts about its architecture."""
        return cpus.ARCHITECTURES[self.arch]

    @property
    def triple(self) -> str:
        """LLVM's name of machine and system."""
        return self.architecture.triple

    @property
    def baseline(self) -> Target:
        """Any CPU of the architecture."""
        return BASELINES[self.arch]

    @property
    def has_fma(self) -> bool:
        """Return whether a product and a sum are one instruction."""
        return self.arch == cpus.AARCH64.name or "fma" in self.features or "fma4" in self.features

    @property
    def converts_to_least(self) -> bool:
        """Return whether a float that no integer is near to, or NaN, is converted to the least integer."""
        return self.arch == cpus.X86.name

    @property
    def scales_by_powers(self) -> bool:
        """Return whether an instruction multiplies float32 by powers of two, denormal results rounded once."""
        return "avx512vl" in self.features

    @property
    def stores_by_masks(self) -> bool:
        """Return whether a part of a vector is stored as fast as all of it. AMD's CPUs take long for AVX2's."""
        return "avx512vl" in self.features

    @property
    def halves_vectors(self) -> bool:
        """Return whether vectors of 64 bytes go through units of 32, as Zen 4's do: memory is as fast beside them."""
        return {"avx512f", "sse4a"} <= {*self.features} and "avxvnni" not in self.features

    @property
    def keeps_two_steps(self) -> bool:
        """Return whether registers hold a tile that takes all of them while LLVM makes two steps of a sum one.

        Its models of Skylake's and Ice Lake's CPUs load elements of the second step ahead, one register too many:
        1024 x 256 by 256 columns then take 1.4 times as long.
        """
        return "avx512f" not in self.features or bool({"avx512fp16", "sse4a"} & {*self.features})

    @property
    def keeps_tight_tiles(self) -> bool:
        """Return whether LLVM leaves a tile in registers of which few are left, as its model of Sapphire Rapids does.

        Those of other CPUs load ahead what the tile's sums are added to: half of 26 sums then go through memory beside
        numbers that are unpacked, in 1.4 to 1.7 times the time (Zen 5).
        """
        return "avx512f" not in self.features or "avx512fp16" in self.features

    @property
    def fetches_pairs(self) -> bool:
        """Return whether a line is fetched with the one beside it, as Intel's CPUs do: both should be used at once."""
        return self._is_intel

    @property
    def joins_ascending(self) -> bool:
        """Return whether only stores in the order of addresses are joined to lines, as Intel's CPUs do."""
        return self._is_intel

    @property
    def streamed_bytes(self) -> int:
        """From how many bytes of a result on non-temporal stores pay; 0 for never: AArch64's take two instructions.

        That is half of the last cache, which has what was read as well. Intel's CPUs with AVX-512 share that cache
        among many cores, over a mesh. Writing to it takes longer than to memory from four times the second cache on,
        even if the next kernel then reads from memory: 12 MB are copied in 0.49 of the time and read in 1.2 (together
        0.7), 8 MB in 0.53 and 1.4 (0.78), 2 MB in 1.05 and 2.0 (1.3).
        """
        if self.arch != cpus.X86.name:
            return 0
        behind_mesh = "avx512f" in self.features and self._is_intel
        return min(self.l3_bytes // 2, _MESH_RATIO * self.l2_bytes) if behind_mesh else self.l3_bytes // 2

    @property
    def _is_intel(self) -> bool:
        """Return whether an x86 CPU is not one of AMD's, all of which have SSE4a."""
        return self.arch == cpus.X86.name and "sse4a" not in self.features

    @property
    def looked_up_bytes(self) -> int:
        """How many bytes are looked up at once in a table of all of them; 0 where no instructions serve."""
        return 64 if "avx512vbmi" in self.features else 32 if "avx2" in self.features else 0

    @property
    def looks_up_numbers(self) -> bool:
        """Return whether 16 floats are looked up at once in a register of them."""
        return self.arch == cpus.X86.name and "avx512f" in self.features

    def multiplies_matrices(self, bits: int) -> bool:
        """Return whether registers hold matrices of bytes, or of bfloat16, which an instruction multiplies (AMX)."""
        return {8: "amx-int8", 16: "amx-bf16"}.get(bits, "") in self.features

    def find_dot_product(self, bits: int) -> DotProduct | None:
        """The instruction for sums of products of bytes or of bfloat16, by their bits; None where there is none."""
        if bits == 16:
            return DotProduct(16, 2, "vdpbf16ps", 16) if "avx512bf16" in self.features else None
        return self.dot_product if bits == 8 else None

    @property
    def widened_dot_product(self) -> DotProduct | None:
        """The instruction for products of bytes by such as are 16 bits wide; None where bytes are not widened."""
        dot = self.dot_product
        return DotProduct(dot.lanes, 2, dot.instruction, 16) if dot.instruction == "pmaddwd" else None

    @property
    def dot_product(self) -> DotProduct:
        """The instruction for sums of products of bytes that the CPU has, in the widest vectors."""
        if self.arch == cpus.AARCH64.name:
            if "dotprod" not in self.features:
                return DotProduct(4, 1, "mla")
            return DotProduct(4, 4, "usdot" if "i8mm" in self.features else "sdot")
        if "avx512vnni" in self.features or "avxvnni" in self.features:
            return DotProduct(16 if "avx512vnni" in self.features else 8, 4, "vpdpbusd")
        return DotProduct(16 if "avx512bw" in self.features else 8 if "avx2" in self.features else 4, 2, "pmaddwd")

    def __str__(self) -> str:
        """The text that ``parse`` takes."""
        options = [f"-mcpu={self.cpu}"] if self.cpu != NATIVE else []
        options += [f"-mattr={','.join(self.changes)}"] if self.changes else []
        return " ".join([self.arch, *options])

    @staticmethod
    def parse(text: str | Target) -> Target:
        """A target from ``"x86 [-mcpu=NAME] [-mattr=+FEATURE,-FEATURE]"``; ``"x86"`` is this machine.

        ``"aarch64 ..."`` are AArch64's CPUs, all of them where none is named. ``"llvm ..."``, as TVM's users write it,
        is this machine's architecture.

        A CPU that is named brings its own vectors and caches; its third level is taken to be 8 MiB. Raises TargetError
        for anything that is not known, and says what is.
        """
        if isinstance(text, Target):
            return text
        _check_text(text)
        arch, *words = text.split() or [""]
        if arch == "llvm":
            arch = next((name for name, each in cpus.ARCHITECTURES.items() if each.machine == os.uname().machine), arch)
        if arch not in cpus.ARCHITECTURES:
            raise TargetError(
                f"unknown target '{text}': the known ones are {_ARCHITECTURES}, with {_OPTIONS} for others"
            )
        known = cpus.ARCHITECTURES[arch]
        options = _options(words, text)
        usual = NATIVE if known is cpus.X86 else known.baseline
        cpu, changes = options.get("-mcpu", usual), tuple(filter(None, options.get("-mattr", "").split(",")))
        native = cpu == NATIVE and known is cpus.X86
        if native and not changes:
            return detect_host()
        if "," in cpu:
            raise TargetError(f"target '{text}' names several CPUs, which compile takes: give one here")
        if not native and cpu not in known.known:
            raise TargetError(f"unknown CPU '{cpu}' in target '{text}': {_choices(cpu, known.known)}")
        features = detect_host().features if native else known.known[cpu]
        return _target(known, cpu, changes, _apply_changes(known, features, changes, text))

    @staticmethod
    def parse_all(text: str | Target) -> tuple[Target, ...]:
        """One target for each CPU in ``"x86 -mcpu=NAME,NAME,..."``, in this order; ``-mattr`` changes all of them.

        Raises TargetError as ``parse``, and for an empty or a repeated name.
        """
        if isinstance(text, Target):
            return (text,)
        _check_text(text)
        words = text.split()
        place = next((i for i, word in enumerate(words) if word.startswith("-mcpu=") and "," in word), None)
        if place is None:
            return (Target.parse(text),)
        names = words[place].removeprefix("-mcpu=").split(",")
        if "" in names:
            raise TargetError(f"an empty name in target '{text}': give CPUs as in -mcpu=x86-64-v2,x86-64-v3")
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise TargetError(f"CPU '{twice}' is given twice in target '{text}': give it once")
        return tuple(Target.parse(" ".join([*words[:place], f"-mcpu={n}", *words[place + 1 :]])) for n in names)

    @property
    def runs_here(self) -> bool:
        """Return whether code for this target can run on this machine."""
        return self.architecture.machine == os.uname().machine and not self.find_missing()

    def find_missing(self) -> tuple[str, ...]:
        """The features that code for this target may use and this machine's CPU lacks."""
        return find_missing_features(self.features)

    def refuse_foreign(self) -> None:
        """Raise TargetError where code for this target cannot run on this machine."""
        if self.architecture.machine != os.uname().machine:
            raise TargetError(
                f"code for target '{self}' cannot run here: this machine is {os.uname().machine}; "
                "write the program with compile.py and run it on such a CPU"
            )
        if missing := self.find_missing():
            raise TargetError(
                f"code for target '{self}' cannot run here: this CPU lacks {', '.join(missing)}; "
                "write the program with compile.py and run it on such a CPU"
            )


# Code that runs on every CPU of an architecture.
BASELINES = {"x86": Target(cpu=cpus.X86.baseline)}
BASELINES["aarch64"] = Target("aarch64", cpus.AARCH64.baseline, registers=32)


@functools.cache
def detect_host() -> Target:
    """This machine. Raises TargetError where it is not a CPU that we make code for."""
    if os.uname().machine != "x86_64":
        raise TargetError(f"no code generator for this machine ({os.uname().machine}): x86-64 is needed")
    return _target(cpus.X86, NATIVE, (), host_features())


@functools.cache
def host_features() -> tuple[str, ...]:
    """Those features of this machine's CPU that code is made for, and that this process may use, by LLVM's names."""
    with open("/proc/cpuinfo") as f:
        lines = (line.split(":", 1)[1] for line in f if line.startswith("flags"))
        features = cpus.X86.from_linux(set(next(lines, "").split()))
    if "amx-tile" in features and not _request_matrix_registers():
        return tuple(feature for feature in features if feature not in cpus.X86.dependents("amx-tile"))
    return features


def _request_matrix_registers() -> bool:
    """Ask Linux for the registers of matrices, which a process may use once it has asked; return whether it may.

    They make a thread's saved state 8 KiB longer: Linux refuses where a thread handles signals on a smaller stack.
    """
    arch_prctl, request_permission, tile_data = 158, 0x1023, 18  # ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    return ctypes.CDLL(None).syscall(arch_prctl, request_permission, tile_data) == 0


def cpu_name() -> str:
    """This machine's CPU in its maker's words, with their number: ``2 x AMD EPYC``."""
    with open("/proc/cpuinfo") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return f"{len(names)} x {names[0]}" if names else "an unknown CPU"


def find_missing_features(features: Iterable[str]) -> tuple[str, ...]:
    """Those of the features that this machine's CPU lacks."""
    return tuple(sorted(set(features) - set(host_features())))


def _check_text(text: object) -> None:
    if not isinstance(text, str):
        raise TargetError(f"a target is a text, as 'x86 -mcpu=x86-64-v2,x86-64-v3', not a {type(text).__name__}")


def _target(known: Architecture, cpu: str, changes: tuple[str, ...], features: tuple[str, ...]) -> Target:
    wide = "avx512f" in features
    lanes, registers = 16 if wide else 8 if "avx" in features else 4, 32 if wide or known is cpus.AARCH64 else 16
    if cpu == NATIVE:
        usual = (_L1_BYTES, _L2_BYTES, _L3_BYTES)
        sizes = [_cache_bytes(level + 1) or usual[level] for level in range(3)]
    else:
        sizes = [*known.caches(cpu), _L3_BYTES]
    return Target(known.name, cpu, changes, features, lanes, registers, *sizes, cores=len(os.sched_getaffinity(0)))


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


def _apply_changes(known: Architecture, features: Sequence[str], changes: Sequence[str], text: str) -> tuple[str, ...]:
    """The features after changes, one by one as LLVM makes them: what a feature implies comes and goes with it."""
    now = set(features)
    for change in changes:
        sign, feature = change[0], change[1:]
        if sign not in "+-" or feature not in known.features:
            choices = _choices(change.lstrip("+-"), known.features)
            raise TargetError(f"unknown feature '{change}' in target '{text}': {choices}, each after a + or a -")
        now = now | known.closure([feature]) if sign == "+" else now - known.dependents(feature)
    return tuple(f for f in known.features if f in now)


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
