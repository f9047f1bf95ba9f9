"""``autotvm.measure_option``: how configs are built and measured."""

from __future__ import annotations

import enum
import os
import statistics
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...core.errors import InputError
from ...records.trial import Trial
from ...tuning.fleet.address import Fleet, parse_address
from ..target import Target


class MeasureErrorNo(enum.IntEnum):
    """What a measurement ended with."""

    NO_ERROR = 0
    INSTANTIATION_ERROR = 1
    COMPILE_HOST = 2
    COMPILE_DEVICE = 3
    RUNTIME_DEVICE = 4
    WRONG_ANSWER = 5
    BUILD_TIMEOUT = 6
    RUN_TIMEOUT = 7
    UNKNOWN_ERROR = 8


# What the engine's trials end with, in TVM's numbers.
_ERRORS = {
    "": MeasureErrorNo.NO_ERROR,
    "refused": MeasureErrorNo.INSTANTIATION_ERROR,
    "compile": MeasureErrorNo.COMPILE_HOST,
    "crash": MeasureErrorNo.RUNTIME_DEVICE,
    "wrong": MeasureErrorNo.WRONG_ANSWER,
    "timeout": MeasureErrorNo.RUN_TIMEOUT,
}


class MeasureInput(NamedTuple):
    """What is measured."""

    target: Target
    task: Any
    config: Any


class MeasureResult(NamedTuple):
    """``costs`` are seconds of a call; where ``error_no`` is not 0, the place and the words of what was wrong.

    ``all_cost`` are the seconds of the whole trial, ``timestamp`` those of the epoch when it was over.
    """

    costs: tuple[Any, ...]
    error_no: int
    all_cost: float
    timestamp: float

    def __repr__(self) -> str:
        error = f"MeasureErrorNo.{MeasureErrorNo(self.error_no).name}" if 0 <= self.error_no <= 8 else self.error_no
        return (
            f"MeasureResult(costs={self.costs!r}, error_no={error}, all_cost={self.all_cost},"
            f" timestamp={self.timestamp!r})"
        )


class LocalBuilder:
    """Builds configs on this machine, ``n_parallel`` at a time, each in ``timeout`` seconds."""

    def __init__(
        self,
        timeout: float = 10,
        n_parallel: int | None = None,
        build_kwargs: dict[str, Any] | None = None,
        build_func: str | Callable[..., Any] = "default",
        do_fork: bool = False,
        runtime: Any = None,
    ) -> None:
        if build_func != "default":
            raise InputError(f"configs are built by the compiler, not by build_func={build_func!r}: leave it out")
        if build_kwargs or runtime is not None:
            raise InputError("what is built is one kind of program: leave build_kwargs and runtime out")
        self.timeout = _check_positive(timeout, "timeout")
        self.n_parallel = int(_check_positive(n_parallel or len(os.sched_getaffinity(0)), "n_parallel"))


class LocalRunner:
    """Measures on this machine, one config at a time, in a process of its own.

    ``repeat`` times it takes the mean of ``number`` calls, or of as many as ``min_repeat_ms`` asks for, and waits for
    ``cooldown_interval`` seconds between configs. ``enable_cpu_cache_flush`` empties caches before each repetition. A
    config that takes more than ``timeout`` seconds is ended. ``ref_input`` may have arrays for the inputs, which are
    random otherwise.
    """

    def __init__(
        self,
        timeout: float = 10,
        number: int = 4,
        repeat: int = 3,
        min_repeat_ms: float = 0,
        cooldown_interval: float = 0.1,
        enable_cpu_cache_flush: bool = False,
        module_loader: Any = None,
    ) -> None:
        if module_loader is not None:
            raise InputError("programs are loaded by the runtime: leave module_loader out")
        self.timeout = _check_positive(timeout, "timeout")
        self.number, self.repeat = int(_check_positive(number, "number")), int(_check_positive(repeat, "repeat"))
        self.min_repeat_ms, self.cooldown_interval = min_repeat_ms, cooldown_interval
        self.enable_cpu_cache_flush = enable_cpu_cache_flush
        self.ref_input: Sequence[Any] | None = None
        self.fleet: Fleet | None = None


class RPCRunner(LocalRunner):
    """Measures on the workers of a fleet that have this ``key``; ``host`` and ``port`` are those of its scheduler.

    The rest is as for ``LocalRunner``. Raises InputError for another ``priority`` than 1 and for ``n_parallel``, and
    FleetError for what is no address; when it measures, also where no worker can (``docs/fleet.md``).
    """

    def __init__(
        self,
        key: str,
        host: str,
        port: int,
        priority: int = 1,
        timeout: float = 10,
        n_parallel: int | None = None,
        number: int = 4,
        repeat: int = 3,
        min_repeat_ms: float = 0,
        cooldown_interval: float = 0.1,
        enable_cpu_cache_flush: bool = False,
        module_loader: Any = None,
    ) -> None:
        settings = (timeout, number, repeat, min_repeat_ms, cooldown_interval, enable_cpu_cache_flush, module_loader)
        super().__init__(*settings)
        self.fleet = find_fleet(key, host, port, priority, n_parallel)


def find_fleet(key: str, host: str, port: int, priority: int, n_parallel: int | None) -> Fleet:
    """A fleet as TVM's runners say it. Raises InputError and FleetError as ``RPCRunner``."""
    if priority != 1 or n_parallel not in (None, 1):
        raise InputError(
            "a fleet's jobs are done in order, one at a time by each worker: leave priority and n_parallel"
        )
    made = Fleet(f"{host}:{port}", key=key or None)
    parse_address(made.address)
    return made


def _check_positive(value: float, name: str) -> float:
    if not value > 0:
        raise InputError(f"{name} is {value}: it must be more than 0")
    return value


def measure_option(builder: Any, runner: Any) -> dict[str, Any]:
    """How to build and to measure, for ``tune``; "local" stands for either's defaults."""
    made = {
        "builder": LocalBuilder() if builder == "local" else builder,
        "runner": LocalRunner() if runner == "local" else runner,
    }
    for name, kind in (("builder", LocalBuilder), ("runner", LocalRunner)):
        if not isinstance(made[name], kind):
            raise InputError(f"the {name} is {made[name]!r}: give autotvm.{kind.__name__}()")
    return made


class KernelResult(MeasureResult):
    """Of a kernel of a network; ``costs`` are times the default's, as ``trial`` has them, which is the engine's record.

    So they can be compared whatever else has run.
    """

    trial: Trial

    @staticmethod
    def of(trial: Trial) -> KernelResult:
        """The result that a record tells."""
        number = _ERRORS.get(trial.error, MeasureErrorNo.UNKNOWN_ERROR)
        costs: tuple[Any, ...] = (number.name, trial.reason)
        if not trial.error:
            default = statistics.median(trial.default_seconds) if trial.default_seconds else 1.0
            costs = tuple(ratio * default for ratio in trial.ratios) or trial.seconds
        made = KernelResult(costs, int(number), trial.took, trial.time)
        made.trial = trial
        return made


MeasureBatch = Callable[[Sequence[MeasureInput]], list[MeasureResult]]


def mean_cost(result: MeasureResult) -> float:
    """Mean seconds of a call."""
    return sum(result.costs) / len(result.costs)
