"""``tvm.rpc``: the tracker, which is the scheduler of a fleet (``docs/fleet.md``); other servers are refused."""

from __future__ import annotations

from typing import Any, NoReturn

from ..core.errors import InputError
from ..tuning.fleet.address import Fleet
from ..tuning.fleet.tracker import Tracker

__all__ = ["LocalSession", "Server", "TrackerSession", "connect", "connect_tracker"]


class TrackerSession(Tracker):
    """A connection to a tracker: ``summary()`` and ``text_summary()`` say which servers it has."""

    def __enter__(self) -> TrackerSession:
        return self

    def request(self, key: str, *args: Any, **kwargs: Any) -> NoReturn:
        """Ask for a session with a server: InputError, as servers measure, and lend nothing else."""
        raise InputError(
            f"a fleet's servers lend no sessions: measure on '{key}' by autotvm.RPCRunner('{key}', host, port)"
        )


def connect_tracker(url: str, port: int) -> TrackerSession:
    """A connection to the tracker of a host, with the certificates of the user's fleet.

    ``tcp://127.0.0.1`` is one of this machine without certificates. Raises FleetError where none answers.
    """
    return TrackerSession(Fleet(f"{url}:{port}"))


def connect(url: str, port: int, key: str = "", *args: Any, **kwargs: Any) -> NoReturn:
    """A server of another machine: InputError."""
    _refuse(f"{url}:{port}")


def Server(host: str = "0.0.0.0", port: int = 9091, *args: Any, **kwargs: Any) -> NoReturn:
    """A server on this machine: InputError."""
    _refuse(f"{host}:{port}")


def LocalSession(*args: Any, **kwargs: Any) -> NoReturn:
    """As ``Server``."""
    _refuse("this machine")


def _refuse(where: str) -> NoReturn:
    raise InputError(
        f"rpc to {where}: programs run in this process; compile.py writes those of other machines, to be copied there,"
        " and `tilewright fleet` starts what measures"
    )
