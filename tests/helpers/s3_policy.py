"""Helpers of tests: a proxy before an S3 that lets through what a bucket's policy allows, as the real service does.

moto evaluates no condition of a policy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
import re
import threading
from typing import Any
from urllib.parse import urlsplit

_PASSED_ON = {"connection", "host", "transfer-encoding", "content-length"}


def _applies(statement: Mapping[str, Any], who: str, action: str, *, is_conditional: bool) -> bool:
    """Return whether a statement of a policy is about a request."""
    named = statement.get("Principal", statement.get("NotPrincipal"))["AWS"]
    actions = [statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"]
    is_meant = (who in named) == ("Principal" in statement) and action in actions
    condition = statement.get("Condition")
    # The policy of the page has this condition alone: the header is not there.
    assert condition is None or condition == {"Null": {"s3:if-none-match": "true"}}
    return is_meant and not (condition and is_conditional)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        key = re.search(r"Credential=([^/]+)/", self.headers.get("Authorization", ""))
        reads = "s3:ListBucket" if "list-type" in self.path else "s3:GetObject"
        action = {"PUT": "s3:PutObject", "DELETE": "s3:DeleteObject"}.get(self.command, reads)
        is_conditional = self.headers.get("If-None-Match") is not None
        who = key[1] if key else ""
        effects = {
            statement["Effect"]
            for statement in self.server.policy["Statement"]
            if _applies(statement, who, action, is_conditional=is_conditional)
        }
        self.server.requests.append((who, action, effects == {"Allow"}))
        if effects != {"Allow"}:
            self._answer(403, {}, b"<Error><Code>AccessDenied</Code></Error>")
            return
        connection = HTTPConnection(self.server.place)
        connection.request(self.command, self.path, body, dict(self.headers))
        answer = connection.getresponse()
        fields = {name: value for name, value in answer.getheaders() if name.lower() not in _PASSED_ON}
        self._answer(answer.status, fields, answer.read())

    def _answer(self, status: int, fields: Mapping[str, str], content: bytes) -> None:
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_DELETE = do_GET = do_HEAD = do_PUT = _serve  # noqa: N815 - names of the base class

    def log_message(self, format: str, *_: object) -> None:  # noqa: A002 - its name in the base class
        """Print nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    place: str
    policy: Mapping[str, Any]
    requests: list[tuple[str, str, bool]]


@contextmanager
def enforce(place: str, policy: Mapping[str, Any]) -> Iterator[tuple[str, list[tuple[str, str, bool]]]]:
    """Enforce a policy before a server.

    Yields:
        The address to use instead, and who requested what, and whether it was allowed.
    """
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.place, server.policy, server.requests = urlsplit(place).netloc, policy, []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", server.requests
        finally:
            server.shutdown()
            thread.join()
