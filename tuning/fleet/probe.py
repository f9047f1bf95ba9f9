"""Whether a fleet's scheduler answers, and knows us: asked before Dask is, which would try for long and say little."""

from __future__ import annotations

import socket
import ssl
from typing import TYPE_CHECKING

from ...core.errors import FleetError
from .address import split_address

if TYPE_CHECKING:
    from distributed import Security

_PROBE_SECONDS = 10.0


def check_scheduler(address: str, security: Security | None, role: str, seconds: float = _PROBE_SECONDS) -> None:
    """Connect to a scheduler as a ``role``, and leave. FleetError where nobody answers, or who does is not known.

    A scheduler speaks first, when it has seen the certificate of who connects.
    """
    host, port = split_address(address)
    context = security.get_connection_args(role)["ssl_context"] if security else None
    try:
        with socket.create_connection((host, port), seconds) as plain:
            if context is None:
                _hear(plain, address)
                return
            with context.wrap_socket(plain) as secure:
                _hear(secure, address)
    except ssl.SSLCertVerificationError as error:
        raise FleetError(
            f"the scheduler at {address} has a certificate that the folder's authority did not make"
            f" ({error.verify_message}): use the certificates of this fleet"
        ) from error
    except ssl.SSLError as error:
        raise FleetError(_explain_refusal(address, role, error)) from error
    except TimeoutError as error:
        asked = "" if security else ": does it have certificates (tls://)?"
        raise FleetError(f"the scheduler at {address} does not answer within {seconds:g} s{asked}") from error
    except OSError as error:
        raise FleetError(
            f"no scheduler answers at {address} ({error.strerror or error}): start it by `tilewright fleet scheduler`"
        ) from error


def _hear(channel: socket.socket, address: str) -> None:
    if not channel.recv(1):
        raise FleetError(f"the scheduler at {address} closes the connection: does it have certificates (tls://)?")


def _explain_refusal(address: str, role: str, error: ssl.SSLError) -> str:
    reason = (error.reason or str(error)).replace("_", " ").lower()
    if error.reason in ("WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"):
        return f"the scheduler at {address} does not speak TLS ({reason}): is it one with --insecure?"
    return (
        f"the scheduler at {address} refuses the {role}'s certificate ({reason}): use the certificates of this fleet,"
        " or make new ones where they have expired"
    )
