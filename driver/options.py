"""The options of a compilation, and the report on it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from ..core.errors import TargetError
from ..core.limits import ORDINARY, ModelLimits
from ..core.progress import Teller
from ..core.target import Target
from ..records.tuned import TunedSchedules
from ..runtime.process.threads import default_threads
from ..workers.process import Limits
from .cache.store import Cache

if TYPE_CHECKING:
    from ..passes.infra.context import PassContext

ExecutorKind = Literal["objects", "engine"]
WeightsPlace = Literal["beside", "inside"]

_OF_PROGRAM = (
    "kernels",
    "calls",
    "prepared",
    "arena_bytes",
    "weight_bytes",
    "code_bytes",
    "specializations",
    "variants",
    "notes",
)


@dataclass
class CompileReport:
    """The report on a compilation: seconds by stage, the sizes of what it made, and notes on problems.

    ``kernels``, ``prepared`` weights and bytes of weights and code are those of the program, its ``specializations``
    and its ``variants`` together; ``calls`` and the arena are its own, for the first of several targets. ``cached``
    says that the whole is from the cache, ``cached_kernels`` how many of the kernels are. ``files`` are the paths of
    all that was written.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    kernels: int = 0
    calls: int = 0
    prepared: int = 0
    arena_bytes: int = 0
    weight_bytes: int = 0
    code_bytes: int = 0
    specializations: list[str] = field(default_factory=list)
    variants: list[str] = field(default_factory=list)
    cached: bool = False
    cached_kernels: int = 0
    files: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time of the block to ``seconds[name]``."""
        start = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    def of_program(self) -> dict[str, Any]:
        """The part of the report that is about the program, not about how it was made."""
        return {name: getattr(self, name) for name in _OF_PROGRAM}


@dataclass(frozen=True)
class Options:
    """The options of a compilation. ``Compilation`` gives workers the part that they need (``jobs.Settings``).

    ``context`` is the pass context that the user entered, if any; ``model_limits`` is what the import accepts.
    ``progress`` is told what is being done, ``cache`` is where to look first, if anywhere, ``limits`` what each
    compilation may take. With ``profile`` the program times its calls.

    ``states`` are pairs of an output and the input that it is in the next run; None for those that are found.

    ``codegens`` are the names of the user's code generators that take part, in the order in which they choose.

    Without ``sessions`` no program of its own is made for these.

    ``variants`` are the targets besides the first one. ``weights`` says whether these have a file of their own, beside
    the program, or are a part of its code.

    ``records`` are the schedules that kernels get from earlier tuning, unless the context gives them others.
    """

    target: Target
    opt_level: int = 3
    context: PassContext | None = None
    model_limits: ModelLimits = ORDINARY
    executor: ExecutorKind = "objects"
    num_threads: int | None = None
    progress: Teller = field(default_factory=Teller, compare=False)
    cache: Cache | None = None
    limits: Limits = field(default_factory=Limits)
    variants: tuple[Target, ...] = ()
    weights: WeightsPlace = "beside"
    profile: bool = False
    states: tuple[tuple[str, str], ...] | None = None
    codegens: tuple[str, ...] = ()
    sessions: bool = True
    records: TunedSchedules = field(default_factory=TunedSchedules, compare=False)

    @property
    def threads(self) -> int:
        """The threads that the program is made for: those of its own, or as many as it would have on this machine."""
        return self.num_threads or default_threads()

    @property
    def targets(self) -> tuple[Target, ...]:
        """All targets, in the order in which they were given."""
        return (self.target, *self.variants)

    def refuse_foreign(self) -> None:
        """Raise TargetError where the code for none of the targets can run on this machine."""
        if not any(target.runs_here for target in self.targets):
            self.target.refuse_foreign()

    def refuse_several(self, what: str) -> None:
        """Raise TargetError for several targets where ``what`` takes one."""
        if self.variants:
            raise TargetError(f"{what} is for one target, {len(self.targets)} are given: give one CPU by -mcpu")
