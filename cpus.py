"""What is known of x86-64 CPUs: their names, the features that code is made for, and their caches.

Names and features are LLVM's, so that no LLVM is needed to read a target; a test compares this table with LLVM's own.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

# Features that LLVM uses on its own when it makes code: Linux's name for them, and what each implies.
_FEATURES = {
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
}
FEATURES = tuple(_FEATURES)

# Features that LLVM would use and Linux does not show: nobody could tell whether such code runs, so none is made.
UNSEEN = ("avx10.1", "avx10.2", "avxifma", "avxneconvert", "avxvnniint8", "avxvnniint16")
UNSEEN += ("ccmp", "cf", "egpr", "ndd", "nf", "ppx", "push2pop2", "zu")

# CPUs of the same features, the CPU that they are made from, and what they have besides.
_FAMILIES = (
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
    (
        "sapphirerapids emeraldrapids graniterapids graniterapids-d diamondrapids novalake",
        "icelake-server",
        "avxvnni avx512bf16 avx512fp16",
    ),
    ("znver4", "icelake-server", "sse4a avx512bf16"),
    ("znver5", "znver4", "avxvnni"),
)

# KiB of the first and the second level where they are not those of the first row.
_USUAL_CACHES = (32, 256)
_CACHES = (
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


def closure(features: Iterable[str]) -> set[str]:
    """The features with all that they imply."""
    found: set[str] = set()
    waiting = list(features)
    while waiting:
        feature = waiting.pop()
        if feature not in found:
            found.add(feature)
            waiting += _FEATURES[feature][1].split()
    return found


def dependents(feature: str) -> set[str]:
    """The feature and all that imply it: what is gone without it."""
    return {other for other in FEATURES if feature in closure([other])}


@functools.cache
def known() -> dict[str, tuple[str, ...]]:
    """The features of each CPU, by its name; in the order of FEATURES."""
    cpus: dict[str, tuple[str, ...]] = {}
    for names, parent, added in _FAMILIES:
        features = closure([*cpus.get(parent, ()), *added.split()])
        cpus |= dict.fromkeys(names.split(), tuple(f for f in FEATURES if f in features))
    return cpus


def caches(cpu: str) -> tuple[int, int]:
    """Bytes of a CPU's first-level data cache and of its second level."""
    sizes = next((sizes for names, *sizes in _CACHES if cpu in names.split()), _USUAL_CACHES)
    return sizes[0] << 10, sizes[1] << 10


def from_linux(flags: set[str]) -> tuple[str, ...]:
    """The features of a CPU, from those that Linux lists."""
    return tuple(feature for feature, (flag, _) in _FEATURES.items() if flag in flags)


def linux_flags(features: Iterable[str]) -> list[str]:
    """What Linux calls the features."""
    return [_FEATURES[feature][0] for feature in features]
