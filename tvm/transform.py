"""``tvm.transform``: the context that passes run in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from ..core.errors import CompileError
from ..passes.infra import context
from ..passes.infra.instruments import Instrument
from .absent import WATCHED, refuse_name
from .network import transform
from .network.transform import Pass, PassInfo, Sequential, module_pass, name_pass

__all__ = ["Pass", "PassContext", "PassInfo", "PrintIR", "Sequential", "module_pass"]

PrintIR = transform.print_ir

_RECORDS = ("relay.backend.use_auto_scheduler",)
_KEYS = {"relay.FuseOps.max_depth": "fuse-ops.max_group_size"}


def PassContext(
    opt_level: int = 2,
    required_pass: Sequence[str] | None = None,
    disabled_pass: Sequence[str] | None = None,
    instruments: Sequence[Any] | None = None,
    config: Mapping[str, Any] | None = None,
) -> context.PassContext:
    """The package's own, whose passes and keys of ``config`` may have TVM's names, too.

    Of TVM's keys those count as set that say to use tuning records, which ``ApplyHistoryBest`` does by itself. Raises
    CompileError for an instrument of TVM's kind, which watches passes that are not here.
    """
    for each in instruments or []:
        if not isinstance(each, Instrument):
            raise CompileError(f"{type(each).__name__} is no instrument: {WATCHED}")
    return context.PassContext(
        opt_level=opt_level,
        required_pass=list(map(name_pass, required_pass or [])),
        disabled_pass=list(map(name_pass, disabled_pass or [])),
        instruments=list(instruments or []),
        config={_KEYS.get(key, key): value for key, value in (config or {}).items() if key not in _RECORDS},
    )


def __getattr__(name: str) -> NoReturn:
    refuse_name("transform", name, __all__)
