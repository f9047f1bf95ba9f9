"""``tvm.relay.vm``: networks of dynamic sizes as executables, which ``runtime.vm.VirtualMachine`` runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..network.module import IRModule
from ..runtime.vm import Executable
from ..target import Target
from .build_module import build

__all__ = ["compile"]


def compile(
    mod: IRModule | Any,
    target: str | Target | Mapping[str, Any] | None = None,
    target_host: str | Target | None = None,
    params: Mapping[str, Any] | None = None,
) -> Executable:
    """Compile a network, as ``relay.build`` does."""
    return Executable(build(mod, target, target_host, params=params).module)
