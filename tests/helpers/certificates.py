"""Helpers of tests: a certificate authority of a test, and the certificate of a server on loopback."""

from __future__ import annotations

import datetime as dt
import ipaddress
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = dt.timedelta(days=1)


class Certificates(NamedTuple):
    """Files in PEM.

    Attributes:
        authority: The authority's certificate, which clients trust.
        certificate: The server's.
        key: The server's key.
    """

    authority: Path
    certificate: Path
    key: Path


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def make_certificates(folder: Path, host: str = "localhost") -> Certificates:
    """Write a new authority's certificate, and with it one for a server of this name and of 127.0.0.1."""
    now = dt.datetime.now(dt.UTC)
    files = Certificates(folder / "authority.pem", folder / "server.pem", folder / "server.key")
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    blank = x509.CertificateBuilder().not_valid_before(now - DAY).not_valid_after(now + DAY)
    authority = (
        blank.subject_name(_named("test authority"))
        .issuer_name(_named("test authority"))
        .public_key(authority_key.public_key())
        .serial_number(x509.random_serial_number())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    names = [x509.DNSName(host), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    certificate = (
        blank.subject_name(_named(host))
        .issuer_name(authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    files.authority.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    files.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private = serialization.PrivateFormat.PKCS8
    files.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, private, serialization.NoEncryption()))
    return files
