"""How schedules are built and measured, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

from ...core.errors import InputError
from ...records.trial import Trial
from ..autotvm import results as templates


class LocalBuilder(templates.LocalBuilder):
    """Builds schedules on this machine."""

    def __init__(
        self, timeout: float = 15, n_parallel: int | None = None, build_func: str | Callable[..., Any] = "default"
    ) -> None:
        super().__init__(timeout, n_parallel, build_func=build_func)


class LocalRunner(templates.LocalRunner):
    """Measures on this machine, each schedule beside the default one, until it is known which is faster.

    So how often it calls is not ``number`` and ``repeat`` but what that takes, and caches are as a network leaves them.
    """

    def __init__(
        self,
        timeout: float = 10,
        number: int = 3,
        repeat: int = 1,
        min_repeat_ms: float = 100,
        cooldown_interval: float = 0.0,
        enable_cpu_cache_flush: bool = False,
        device: int = 0,
    ) -> None:
        if device:
            raise InputError(f"device is {device}: there is one CPU, device 0")
        super().__init__(timeout, number, repeat, min_repeat_ms, cooldown_interval, enable_cpu_cache_flush)


class RPCRunner(LocalRunner):
    """Measures on the workers of a fleet that have this ``key``, as ``autotvm.RPCRunner``."""

    def __init__(
        self,
        key: str,
        host: str,
        port: int,
        priority: int = 1,
        n_parallel: int = 1,
        timeout: float = 10,
        number: int = 3,
        repeat: int = 1,
        min_repeat_ms: float = 0,
        cooldown_interval: float = 0.0,
        enable_cpu_cache_flush: bool = False,
        device: int = 0,
    ) -> None:
        super().__init__(timeout, number, repeat, min_repeat_ms, cooldown_interval, enable_cpu_cache_flush, device)
        self.fleet = templates.find_fleet(key, host, port, priority, n_parallel)


def LocalRPCMeasureContext(*args: Any, **kwargs: Any) -> NoReturn:
    """Measuring by a server of this machine, which GPUs need: InputError."""
    raise InputError(
        "LocalRPCMeasureContext is for GPUs: auto_scheduler.LocalRunner() measures in a process of its own"
    )


class MeasureInput(NamedTuple):
    """A schedule of a kernel of a task, as its steps."""

    task: Any
    kernel: str
    steps: Any


@dataclass(frozen=True)
class MeasureResult:
    """``costs`` are seconds of a run; none where ``error_no`` is not 0. ``trial`` is the engine's record."""

    costs: tuple[float, ...]
    error_no: int
    error_msg: str
    all_cost: float
    timestamp: float
    trial: Trial | None = None

    @property
    def cost(self) -> float:
        """Mean seconds; infinite where there are none."""
        return sum(self.costs) / len(self.costs) if self.costs and not self.error_no else float("inf")

    @property
    def ratio(self) -> float:
        """The kernel's time over that of its default schedule; infinite where it failed."""
        return self.trial.ratio if self.trial is not None else float("inf")

    @property
    def gains(self) -> bool:
        """Return whether the kernel is faster than with its default schedule, for certain."""
        return self.trial is not None and self.trial.interval[1] < 1

    def __str__(self) -> str:
        shown = f"{self.cost:.4g}" if not self.error_no else ""
        return (
            f"MeasureResult(cost:[{shown}], error_no:{self.error_no}, all_cost:{self.all_cost:.2f},"
            f" Tstamp:{self.timestamp:.2f}), {self.ratio:.3f} of the default's"
        )


class PythonBasedMeasureCallback:
    """What is called with each round's inputs and results: ``callback(policy, inputs, results)``."""

    def callback(self, policy: Any, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Do something with them."""
        raise NotImplementedError
