"""Real transports of git on this machine: a server over https with a password, and an ssh that stays here."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
import os
from pathlib import Path
import ssl
import subprocess
import threading


def make_ssh(folder: Path, script: str = "") -> Path:
    """Make a program that git takes for ssh: it notes its arguments in ``ssh-calls``, and runs the command here.

    Args:
        folder: Where it is put; to be put before all in PATH.
        script: What it does after the command, which is in ``$last``.
    """
    folder.mkdir(exist_ok=True)
    lines = ["#!/bin/sh", f'echo "$@" >> {folder}/ssh-calls', "for last; do :; done", 'sh -c "$last"', script]
    (folder / "ssh").write_text("\n".join(lines), encoding="utf-8")
    (folder / "ssh").chmod(0o755)
    return folder


class _GitHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _GitServer

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def log_message(self, format: str, *_: object) -> None:  # noqa: A002 - its name in the base class
        """Print nothing."""

    def _answer(self) -> None:
        login = self.headers.get("Authorization", "")
        self.server.logins.append(login)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if login != self.server.login:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        path, _, query = self.path.partition("?")
        done = subprocess.run(
            ["git", "http-backend"],
            input=body,
            stdout=subprocess.PIPE,
            check=True,
            env={
                "PATH": os.environ["PATH"],
                "GIT_PROJECT_ROOT": str(self.server.folder),
                "GIT_HTTP_EXPORT_ALL": "1",
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "REQUEST_METHOD": self.command,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "REMOTE_USER": "anna",
            },
        )
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.send_response(int(fields.pop("Status", "200").split()[0]))
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class _GitServer(ThreadingHTTPServer):
    folder: Path
    login: str
    logins: list[str]


@contextmanager
def serve_https(folder: Path, user: str, password: str) -> Iterator[tuple[int, Path, list[str]]]:
    """Serve a folder's repositories over https to one user; yield port, certificate to trust, and logins sent."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    words = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    subprocess.run([*words.split(), "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with _GitServer(("127.0.0.1", 0), _GitHandler) as server:
        server.folder, server.logins = folder, []
        server.login = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port, certificate, server.logins
        finally:
            server.shutdown()
            thread.join()
