"""``tvm.rpc``: other machines, on which this version runs nothing."""

from __future__ import annotations

from typing import Any, NoReturn

from ..core.errors import InputError


def connect(url: str, port: int, key: str = "", *args: Any, **kwargs: Any) -> NoReturn:
    """A server of another machine: InputError."""
    _refuse(f"{url}:{port}")


def connect_tracker(url: str, port: int) -> NoReturn:
    """A tracker of machines: InputError."""
    _refuse(f"{url}:{port}")


def Server(host: str = "0.0.0.0", port: int = 9091, *args: Any, **kwargs: Any) -> NoReturn:
    """A server on this machine: InputError."""
    _refuse(f"{host}:{port}")


def LocalSession(*args: Any, **kwargs: Any) -> NoReturn:
    """As ``Server``."""
    _refuse("this machine")


def _refuse(where: str) -> NoReturn:
    raise InputError(
        f"rpc to {where}: programs run in this process; compile.py writes those of other machines, to be copied there"
    )
