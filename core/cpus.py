"""Tables of CPUs: their names, the features that code may use, and their caches.

Names and features are LLVM's, so reading a target needs no LLVM. A test compares these tables with LLVM's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True, eq=False)
class Architecture:
    """The CPUs of an architecture.

    ``machine`` is what Linux calls it, ``baseline`` the CPU whose code all others run. ``table`` has each feature's
    name in Linux, and what it implies. ``families`` are CPUs of the same features, the CPU that they are made from, and
    what they have besides; ``sizes`` the KiB of their first and second level where they are not the ``usual`` ones.
    ``unseen`` are features that LLVM would use and Linux does not show.
    """

    name: str
    machine: str
    baseline: str
    table: Mapping[str, tuple[str, str]]
    families: Sequence[tuple[str, str, str]]
    sizes: Sequence[tuple[str, int, int]]
    usual: tuple[int, int]
    unseen: tuple[str, ...] = ()

    @property
    def triple(self) -> str:
        """LLVM's name of machine and system."""
        return f"{self.machine}-unknown-linux-gnu"

    @cached_property
    def features(self) -> tuple[str, ...]:
        """All features in order."""
        return tuple(self.table)

    def closure(self, features: Iterable[str]) -> set[str]:
        """The features with all that they imply."""
        found: set[str] = set()
        waiting = list(features)
        while waiting:
            feature = waiting.pop()
            if feature not in found:
                found.add(feature)
                waiting += self.table[feature][1].split()
        return found

    def dependents(self, feature: str) -> set[str]:
        """The feature and all that imply it: what is gone without it."""
        return {other for other in self.features if feature in self.closure([other])}

    @cached_property
    def known(self) -> dict[str, tuple[str, ...]]:
        """The features of each CPU, by its name; in the order of ``features``."""
        cpus: dict[str, tuple[str, ...]] = {}
        for names, parent, added in self.families:
            features = self.closure([*cpus.get(parent, ()), *added.split()])
            cpus |= dict.fromkeys(names.split(), tuple(f for f in self.features if f in features))
        return cpus

    def caches(self, cpu: str) -> tuple[int, int]:
        """Bytes of a CPU's first-level data cache and of its second level."""
        sizes = next((sizes for names, *sizes in self.sizes if cpu in names.split()), self.usual)
        return sizes[0] << 10, sizes[1] << 10

    def name_model(self, cpu: str, features: Iterable[str]) -> str:
        """The known CPU whose instructions take as long as those of one with these features that is called ``cpu``.

        LLVM goes by the number of the model, which a virtual machine may make up: one of Intel's with AVX-512 and AMX
        was a Rocket Lake to it. One that has more features than the CPU of its name is the largest that has no others.
        """
        own = {*features}
        if own <= {*self.known.get(cpu, self.features)}:
            return cpu
        fitting = [name for name, its in self.known.items() if own >= {*its}]
        return max(fitting, key=lambda name: len(self.known[name]), default=cpu)

    def from_linux(self, flags: set[str]) -> tuple[str, ...]:
        """The features of a CPU, from those that Linux lists."""
        return tuple(feature for feature, (flag, _) in self.table.items() if flag in flags)

    def linux_flags(self, features: Iterable[str]) -> list[str]:
        """Linux's names of the features."""
        return [self.table[feature][0] for feature in features]


# Features that LLVM uses on its own when it makes code, and those of matrices (AMX), which we use.
_X86_FEATURES = {
    "sse3": ("pni", ""),
    "ssse3": ("ssse3", "sse3"),
    "sse4.1": ("sse4_1", "ssse3"),
    "sse4.2": ("sse4_2", "sse4.1"),
    "sse4a": ("sse4a", "sse3"),
    "popcnt": ("popcnt", ""),
    "movbe": ("movbe", ""),
    "lzcnt": ("abm", ""),
    "bmi": ("bmi1", ""),
    "bmi2": ("bmi2", ""),
    "tbm": ("tbm", ""),
    "gfni": ("gfni", ""),
    "avx": ("avx", "sse4.2"),
    "f16c": ("f16c", "avx"),
    "fma": ("fma", "avx"),
    "fma4": ("fma4", "avx sse4a"),
    "xop": ("xop", "fma4"),
    "avx2": ("avx2", "avx"),
    "avxvnni": ("avx_vnni", "avx2"),
    "avx512f": ("avx512f", "avx2 f16c fma"),
    "avx512cd": ("avx512cd", "avx512f"),
    "avx512dq": ("avx512dq", "avx512f"),
    "avx512bw": ("avx512bw", "avx512f"),
    "avx512vl": ("avx512vl", "avx512f"),
    "avx512ifma": ("avx512ifma", "avx512f"),
    "avx512vnni": ("avx512_vnni", "avx512f"),
    "avx512vpopcntdq": ("avx512_vpopcntdq", "avx512f"),
    "avx512vbmi": ("avx512vbmi", "avx512bw"),
    "avx512vbmi2": ("avx512_vbmi2", "avx512bw"),
    "avx512bitalg": ("avx512_bitalg", "avx512bw"),
    "avx512bf16": ("avx512_bf16", "avx512bw"),
    "avx512fp16": ("avx512_fp16", "avx512bw"),
    "amx-tile": ("amx_tile", ""),
    "amx-int8": ("amx_int8", "amx-tile"),
    "amx-bf16": ("amx_bf16", "amx-tile"),
}

# Nobody could tell whether code with these runs, so none is made.
_X86_UNSEEN = ("avx10.1", "avx10.2", "avxifma", "avxneconvert", "avxvnniint8", "avxvnniint16")
_X86_UNSEEN += ("ccmp", "cf", "egpr", "ndd", "nf", "ppx", "push2pop2", "zu")

_X86_FAMILIES = (
    ("x86-64 generic k8 opteron athlon64 athlon-fx", "", ""),
    ("nocona k8-sse3 opteron-sse3 athlon64-sse3", "x86-64", "sse3"),
    ("amdfam10 barcelona", "nocona", "sse4a popcnt lzcnt"),
    ("core2", "nocona", "ssse3"),
    ("btver1", "amdfam10", "ssse3"),
    ("bonnell atom", "core2", "movbe"),
    ("penryn", "core2", "sse4.1"),
    ("x86-64-v2 nehalem corei7 westmere", "penryn", "sse4.2 popcnt"),
    ("silvermont slm goldmont goldmont-plus", "x86-64-v2", "movbe"),
    ("tremont", "silvermont", "gfni"),
    ("sandybridge corei7-avx", "x86-64-v2", "avx"),
    ("ivybridge core-avx-i", "sandybridge", "f16c"),
    ("bdver1", "sandybridge", "lzcnt xop"),
    ("bdver2 bdver3", "bdver1", "f16c fma bmi tbm"),
    ("bdver4", "bdver2", "movbe avx2 bmi2"),
    ("btver2", "ivybridge", "sse4a movbe bmi lzcnt"),
    ("x86-64-v3 haswell core-avx2 broadwell skylake", "ivybridge", "avx2 fma movbe bmi bmi2 lzcnt"),
    ("znver1 znver2 znver3", "x86-64-v3", "sse4a"),
    ("gracemont alderlake raptorlake meteorlake arrowlake arrowlake-s lunarlake", "x86-64-v3", "gfni avxvnni"),
    ("sierraforest grandridge clearwaterforest pantherlake wildcatlake", "gracemont", ""),
    ("knl", "x86-64-v3", "avx512cd"),
    ("knm", "knl", "avx512vpopcntdq"),
    ("x86-64-v4 skylake-avx512 skx", "x86-64-v3", "avx512cd avx512dq avx512bw avx512vl"),
    ("cascadelake", "x86-64-v4", "avx512vnni"),
    ("cooperlake", "cascadelake", "avx512bf16"),
    ("cannonlake", "x86-64-v4", "avx512ifma avx512vbmi"),
    (
        "icelake-client icelake-server rocketlake tigerlake",
        "cannonlake",
        "gfni avx512vbmi2 avx512vnni avx512bitalg avx512vpopcntdq",
    ),
    ("novalake", "icelake-server", "avxvnni avx512bf16 avx512fp16"),
    ("sapphirerapids emeraldrapids graniterapids graniterapids-d diamondrapids", "novalake", "amx-int8 amx-bf16"),
    ("znver4", "icelake-server", "sse4a avx512bf16"),
    ("znver5", "znver4", "avxvnni"),
)

_X86_CACHES = (
    ("skylake-avx512 skx cascadelake cooperlake x86-64-v4", 32, 1024),
    ("icelake-client rocketlake", 48, 512),
    ("icelake-server tigerlake alderlake", 48, 1280),
    ("raptorlake meteorlake sapphirerapids emeraldrapids graniterapids graniterapids-d diamondrapids", 48, 2048),
    ("arrowlake arrowlake-s lunarlake pantherlake novalake", 48, 2560),
    ("gracemont sierraforest grandridge clearwaterforest", 32, 2048),
    ("znver1 znver2 znver3 amdfam10 barcelona", 32, 512),
    ("znver4", 32, 1024),
    ("znver5", 48, 1024),
)

X86 = Architecture("x86", "x86_64", "x86-64", _X86_FEATURES, _X86_FAMILIES, _X86_CACHES, (32, 256), _X86_UNSEEN)

# Code for AArch64 uses no more than these, whatever else the CPU has: vectors of open length (SVE) are not among them.
_ARM_FEATURES = {"dotprod": ("asimddp", ""), "i8mm": ("i8mm", "dotprod")}

_ARM_FAMILIES = (
    ("generic cortex-a34 cortex-a35 cortex-a53 cortex-a57 cortex-a72 cortex-a73 kryo falkor carmel a64fx", "", ""),
    ("thunderx thunderxt81 thunderxt83 thunderxt88 thunderx2t99 thunderx3t110 exynos-m3 cyclone", "generic", ""),
    ("apple-a7 apple-a8 apple-a9 apple-a10 apple-a11 apple-a12 apple-s4 apple-s5", "generic", ""),
    ("cortex-a55 cortex-a65 cortex-a65ae cortex-a75 cortex-a76 cortex-a76ae cortex-a77", "generic", "dotprod"),
    ("cortex-a78 cortex-a78ae cortex-a78c cortex-x1 cortex-x1c cortex-r82 cortex-r82ae", "cortex-a76", ""),
    ("neoverse-e1 neoverse-n1 exynos-m4 exynos-m5 saphira tsv110", "cortex-a76", ""),
    ("apple-a13 apple-a14 apple-m1 apple-s6 apple-s7 apple-s8", "cortex-a76", ""),
    ("cortex-a510 cortex-a520 cortex-a520ae cortex-a320", "cortex-a55", "i8mm"),
    ("cortex-a710 cortex-a715 cortex-a720 cortex-a720ae cortex-a725", "cortex-a510", ""),
    ("cortex-x2 cortex-x3 cortex-x4 cortex-x925 c1-nano c1-pro c1-premium c1-ultra", "cortex-a710", ""),
    ("neoverse-v1 neoverse-512tvb neoverse-v2 neoverse-v3 neoverse-v3ae neoverse-n2 neoverse-n3", "cortex-a710", ""),
    ("ampere1 ampere1a ampere1b ampere1c cobalt-100 grace gb10 olympus oryon-1 fujitsu-monaka", "neoverse-n2", ""),
    ("apple-a15 apple-a16 apple-a17 apple-a18 apple-a19 apple-s9 apple-s10", "apple-a14", "i8mm"),
    ("apple-m2 apple-m3 apple-m4 apple-m5", "apple-a15", ""),
)

_ARM_CACHES = (
    ("generic cortex-a34 cortex-a35 cortex-a53 cortex-a55 cortex-a510 cortex-a520 cortex-a320", 32, 256),
    ("cortex-a57 cortex-a72 cortex-a73", 32, 1024),
    ("neoverse-n1 neoverse-n2 neoverse-v1 neoverse-512tvb ampere1 ampere1a cobalt-100 grace", 64, 1024),
    ("neoverse-v2 neoverse-v3 neoverse-v3ae neoverse-n3 ampere1b ampere1c cortex-x4 cortex-x925", 64, 2048),
    ("apple-m1 apple-a14", 128, 4096),
    ("apple-m2 apple-m3 apple-m4 apple-m5 apple-a15 apple-a16 apple-a17", 128, 4096),
)

AARCH64 = Architecture("aarch64", "aarch64", "generic", _ARM_FEATURES, _ARM_FAMILIES, _ARM_CACHES, (64, 512))

ARCHITECTURES = {architecture.name: architecture for architecture in (X86, AARCH64)}
