"""Which config a template gets: that of the ``with`` around, as the best of a log."""

from __future__ import annotations

import logging
from collections.abc import Collection
from contextvars import ContextVar
from typing import Any

from ...passes.schedule.language.schedule import Schedule
from ..target import Target
from .space import Config, FallbackConfigEntity

logger = logging.getLogger("autotvm")
_ENTERED: ContextVar[tuple[DispatchContext, ...]] = ContextVar("dispatch_contexts", default=())
_WARNED: set[str] = set()


class DispatchContext:
    """What answers questions for configs; ``with`` lets it do so before those around it."""

    def query(self, target: Target | None, workload: Any) -> Config | None:
        """The config for a workload; None leaves the answer to the contexts around."""
        return None

    def find_schedules(self, target: Target, threads: int, kernels: Collection[str]) -> dict[str, Schedule]:
        """The schedules that it has for kernels of a network, by name, for a target and a number of threads."""
        return {}

    def __enter__(self) -> Any:
        _ENTERED.set((*_ENTERED.get(), self))
        return self

    def __exit__(self, *error: object) -> None:
        _ENTERED.set(_ENTERED.get()[:-1])


class ApplyConfig(DispatchContext):
    """One config for all questions."""

    def __init__(self, config: Config) -> None:
        self._config = config

    def query(self, target: Target | None, workload: Any) -> Config:
        """The config."""
        return self._config


class FallbackContext(DispatchContext):
    """What answers where no other context does: the first entity of each knob, and a warning."""

    def query(self, target: Target | None, workload: Any) -> Config:
        """A config of its own."""
        if workload is not None:
            message = (
                f"Cannot find config for target={Target.of(target)}, workload={workload}. A fallback configuration is"
                " used, which may bring great performance regression."
            )
            if message not in _WARNED:
                _WARNED.add(message)
                logger.warning(message)
        return FallbackConfigEntity()


def query(target: Target | None, workload: Any) -> Config:
    """The config that the innermost context gives."""
    for context in reversed(_ENTERED.get()):
        found = context.query(target, workload)
        if found is not None:
            return found
    return FallbackContext().query(target, workload)


def list_contexts() -> tuple[DispatchContext, ...]:
    """The contexts of the ``with`` around, the innermost first."""
    return _ENTERED.get()[::-1]
