"""``tvm.transform``: the context that passes run in."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from ..passes.infra import context
from .absent import refuse_name

_RECORDS = ("relay.backend.use_auto_scheduler",)
_KEYS = {"relay.FuseOps.max_depth": "fuse-ops.max_group_size"}
# TVM's passes that have other names here; those of the rest differ in their letters alone.
_PASSES = {"AlterOpLayout": "convert-layout", "DeadCodeElimination": "dead-code"}


def PassContext(
    opt_level: int = 2,
    required_pass: Sequence[str] | None = None,
    disabled_pass: Sequence[str] | None = None,
    instruments: Sequence[Any] | None = None,
    config: Mapping[str, Any] | None = None,
) -> context.PassContext:
    """The package's own, whose passes and keys of ``config`` may have TVM's names, too.

    Of TVM's keys those count as set that say to use tuning records, which ``ApplyHistoryBest`` does by itself.
    """
    return context.PassContext(
        opt_level=opt_level,
        required_pass=list(map(_own_name, required_pass or [])),
        disabled_pass=list(map(_own_name, disabled_pass or [])),
        instruments=list(instruments or []),
        config={_KEYS.get(key, key): value for key, value in (config or {}).items() if key not in _RECORDS},
    )


def _own_name(name: str) -> str:
    """The name that a pass has here: ``FuseOps`` is ``fuse-ops``."""
    return _PASSES.get(name) or re.sub("(?<=[a-z0-9])(?=[A-Z][a-z])", "-", name).lower()


def __getattr__(name: str) -> NoReturn:
    refuse_name("transform", name, ["PassContext"])
