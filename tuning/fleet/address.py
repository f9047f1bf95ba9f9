"""Where a fleet's scheduler is, and the certificates with which one speaks to it."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ...core.errors import FleetError
from ...core.own_files import data_folder

if TYPE_CHECKING:
    from distributed import Security

DEFAULT_PORT = 9190  # that of TVM's tracker
LOOPBACK = "127.0.0.1"
AUTHORITY = "ca.pem"
_SCHEDULER_ADDRESS = re.compile(r"(?:(\w+)://)?(\[[^\]]+\]|[^:/\[\]]+)(?::(\d+))?")


@dataclass(frozen=True)
class Fleet:
    """A fleet's scheduler, as its users give it.

    address: ``tls://host:port``, or ``tcp://127.0.0.1:port`` of one that was started without certificates on this
    machine. certificates: the folder with them; by default ``default_certificates()``. key: that of the workers which
    are to measure; by default what ``default_key`` says of the target and the number of threads.
    """

    address: str
    certificates: str | Path | None = None
    key: str | None = None


def default_certificates() -> Path:
    """The folder in which certificates are looked for: ``tilewright/fleet`` among the user's data."""
    return data_folder() / "fleet"


def parse_address(text: str) -> str:
    """An address with all its parts: ``tls://host:port``. Raises FleetError for what is none.

    ``tcp://``, without encryption, is for this machine alone.
    """
    match = _SCHEDULER_ADDRESS.fullmatch(text)
    scheme = (match[1] or "tls") if match else ""
    if match is None or scheme not in ("tls", "tcp") or int(match[3] or DEFAULT_PORT) > 65535:
        raise FleetError(f"'{text}' is no address of a fleet: give tls://host:port")
    if scheme == "tcp" and not is_loopback(match[2]):
        raise FleetError(f"{text}: a fleet without encryption is for this machine alone: give tls://, or 127.0.0.1")
    return f"{scheme}://{match[2]}:{match[3] or DEFAULT_PORT}"


def split_address(address: str) -> tuple[str, int]:
    """The host and the port of an address with all its parts."""
    parts = urlsplit(address)
    return parts.hostname or LOOPBACK, parts.port or DEFAULT_PORT


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine as nobody else sees it."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def require_distributed() -> None:
    """Raise FleetError where the packages of the extra are not installed."""
    try:
        import distributed  # noqa: F401
    except ImportError as error:
        raise FleetError("a fleet needs Dask: pip install 'tilewright[fleet]'") from error


def make_security(address: str, certificates: str | Path | None, role: str) -> Security | None:
    """What a ``role`` (scheduler, worker, client) proves who it is with; None for an address without encryption.

    Raises FleetError where a certificate is not there.
    """
    require_distributed()
    if address.startswith("tcp://"):
        return None
    from distributed import Security

    folder = Path(certificates) if certificates is not None else default_certificates()
    authority, own = folder / AUTHORITY, folder / f"{role}.pem"
    for path in (authority, own):
        if not path.is_file():
            raise FleetError(
                f"{path} is not there: give the folder of the fleet's certificates (--certificates), which"
                " `tilewright fleet certificates FOLDER` makes"
            )
    security = Security(
        require_encryption=True,
        tls_ca_file=str(authority),
        **{f"tls_{role}_cert": str(own), f"tls_{role}_key": str(own)},
    )
    try:
        security.get_connection_args(role)
    except OSError as error:  # of ssl's, too
        raise FleetError(f"{own} and {AUTHORITY} are no certificate with its key: {error}") from error
    return security
