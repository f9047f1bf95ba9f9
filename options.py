"""How to compile, and what a compilation did."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from .cache import Cache
from .jobs import Settings
from .workers.process import Limits

ExecutorKind = Literal["objects", "engine"]

_OF_PROGRAM = (
    "kernels",
    "calls",
    "prepared",
    "arena_bytes",
    "weight_bytes",
    "code_bytes",
    "specializations",
    "notes",
)


@dataclass
class CompileReport:
    """What a compilation did: seconds by stage, the sizes of what it made, and notes on what did not go well.

    ``kernels``, ``prepared`` weights and bytes of weights and code are those of the program and its ``specializations``
    together, ``calls`` and the arena are its own. ``cached`` says that the whole is from the cache, ``cached_kernels``
    how many of the kernels are.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    kernels: int = 0
    calls: int = 0
    prepared: int = 0
    arena_bytes: int = 0
    weight_bytes: int = 0
    code_bytes: int = 0
    specializations: list[str] = field(default_factory=list)
    cached: bool = False
    cached_kernels: int = 0
    notes: list[str] = field(default_factory=list)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time of the block to ``seconds[name]``."""
        start = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    def of_program(self) -> dict[str, Any]:
        """What is said of the program, however it was made."""
        return {name: getattr(self, name) for name in _OF_PROGRAM}


@dataclass(frozen=True)
class Options(Settings):
    """How to compile.

    ``progress`` is told what is being done, ``cache`` is where to look first, if anywhere, ``limits`` what each
    compilation may take. With ``profile`` the program times its calls.
    """

    executor: ExecutorKind = "objects"
    num_threads: int | None = None
    progress: Callable[[str], None] = lambda text: None
    cache: Cache | None = None
    limits: Limits = field(default_factory=Limits)
    profile: bool = False
