"""``tvm.transform``: the context that passes run in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from ..passes.infra import context
from .absent import refuse_name

_RECORDS = ("relay.backend.use_auto_scheduler",)


def PassContext(
    opt_level: int = 2,
    required_pass: Sequence[str] | None = None,
    disabled_pass: Sequence[str] | None = None,
    instruments: Sequence[Any] | None = None,
    config: Mapping[str, Any] | None = None,
) -> context.PassContext:
    """The package's own, of which names of passes and keys of ``config`` are.

    Of TVM's keys those count as set that say to use tuning records, which ``ApplyHistoryBest`` does by itself.
    """
    return context.PassContext(
        opt_level=opt_level,
        required_pass=list(required_pass or []),
        disabled_pass=list(disabled_pass or []),
        instruments=list(instruments or []),
        config={key: value for key, value in (config or {}).items() if key not in _RECORDS},
    )


def __getattr__(name: str) -> NoReturn:
    refuse_name("transform", name, ["PassContext"])
