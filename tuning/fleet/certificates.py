"""The certificates of a fleet: an authority of its own, and what each role proves itself with."""

from __future__ import annotations

import datetime
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.errors import FleetError
from .address import AUTHORITY

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

AUTHORITY_KEY = "ca-key.pem"
ROLES = ("scheduler", "worker", "client")
_MOST_DAYS = 3650
_EARLY = datetime.timedelta(hours=1)  # clocks of machines differ


@dataclass(frozen=True)
class _Authority:
    certificate: x509.Certificate
    key: EllipticCurvePrivateKey


def make_certificates(folder: Path, days: int = 365) -> list[Path]:
    """Make what a folder lacks of a fleet's certificates, and return it.

    That is the authority (``ca.pem``, with its key in ``ca-key.pem``), and a file with certificate and key for each
    role: ``scheduler.pem``, ``worker.pem``, ``client.pem``. They are valid for some ``days``; the authority is for ten
    years. A client's cannot stand for a scheduler or a worker. The user alone can read the keys.

    Raises FleetError where the folder cannot be written, or has half of an authority.
    """
    try:
        import cryptography  # noqa: F401
    except ImportError as error:
        raise FleetError("certificates need a package: pip install 'tilewright[fleet]'") from error
    if not 1 <= days <= _MOST_DAYS:
        raise FleetError(f"days is {days}: give a number from 1 to {_MOST_DAYS}")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        authority, made = _settle_authority(folder)
        for role in ROLES:
            path = folder / f"{role}.pem"
            if not path.exists():
                _write(path, _make_certificate(role, authority, days))
                made.append(path)
    except OSError as error:
        raise FleetError(f"cannot write certificates to {folder}: {error.strerror or error}") from error
    return made


def _settle_authority(folder: Path) -> tuple[_Authority, list[Path]]:
    """The folder's authority, which is made where there is none."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

    certificate, secret = folder / AUTHORITY, folder / AUTHORITY_KEY
    if certificate.exists() or secret.exists():
        try:
            key = load_pem_private_key(secret.read_bytes(), None)
            found = x509.load_pem_x509_certificate(certificate.read_bytes())
        except (OSError, ValueError, TypeError) as error:
            raise FleetError(
                f"{folder} has no whole authority: {AUTHORITY} and {AUTHORITY_KEY} belong together; bring the one that"
                " is missing, or give an empty folder"
            ) from error
        if not isinstance(key, EllipticCurvePrivateKey) or key.public_key() != found.public_key():
            raise FleetError(f"{secret} is not the key of {certificate}: give an empty folder")
        return _Authority(found, key), []
    made = _make_authority()
    _write(secret, _dump_key(made.key))
    _write(certificate, made.certificate.public_bytes(Encoding.PEM), mode=0o644)
    return made, [certificate, secret]


def _make_authority() -> _Authority:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    key, name = ec.generate_private_key(ec.SECP256R1()), _name("authority")
    usage = x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    builder = _begin_certificate(name, name, key, _MOST_DAYS)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(usage, critical=True)
    return _Authority(builder.sign(key, hashes.SHA256()), key)


def _make_certificate(role: str, authority: _Authority, days: int) -> bytes:
    """A certificate and its key; a client's is good for nothing that others connect to."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509.oid import ExtendedKeyUsageOID

    key = ec.generate_private_key(ec.SECP256R1())
    uses = [ExtendedKeyUsageOID.CLIENT_AUTH]
    if role != "client":
        uses.append(ExtendedKeyUsageOID.SERVER_AUTH)
    builder = _begin_certificate(_name(role), authority.certificate.subject, key, days)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=True)
    above = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    builder = builder.add_extension(above, critical=False)
    made = builder.sign(authority.key, hashes.SHA256())
    return made.public_bytes(Encoding.PEM) + _dump_key(key)


def _begin_certificate(
    subject: x509.Name, issuer: x509.Name, key: EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    from cryptography import x509

    now = datetime.datetime.now(datetime.timezone.utc)
    builder = x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    return builder.not_valid_before(now - _EARLY).not_valid_after(now + datetime.timedelta(days=days))


def _name(role: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"tilewright fleet {role}")])


def _dump_key(key: EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _write(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Write a file whose name it has only when it is whole."""
    number, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(number, "wb") as file:
            file.write(content)
        os.chmod(name, mode)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
