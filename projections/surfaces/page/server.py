"""The page on the loopback interface: read only, behind a random token, made again when the ledger has grown."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from hmac import compare_digest
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
import os
import sys
from threading import Lock, active_count
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from tallybook.ledger.clock import new_secret
from tallybook.ledger.errors import TallybookError
from tallybook.ledger.fast_stdlib import dumps
from tallybook.projections.surfaces.console.output import note
from tallybook.projections.surfaces.history.reading import open_log
from tallybook.projections.surfaces.page.document import Choices, make, read_end, security_policy
from tallybook.projections.surfaces.workspace.project import Project

HOST: Final = "127.0.0.1"
_TOKEN_BYTES: Final = 32
_CHECK_S: Final = 1.0
"""Seconds between two looks at whether the process that started this one is still there."""
_REQUEST_S: Final = 10
"""Seconds that a client has for each piece of its request."""
MAX_THREADS: Final = 64
"""Connections at a time; a browser opens six. Further ones are closed."""

REFUSED: Final = "the token is missing, wrong or used; use the last address the server printed"
"""Why a browser without the cookie gets nothing, and how it gets in."""

_HEADERS: Final = {
    "Cache-Control": "no-store",
    # A policy in the page itself cannot forbid that another page frames it.
    "Content-Security-Policy": f"{security_policy(served=True)}; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class PageServer(ThreadingHTTPServer):
    """A server of one page, on a free port of the loopback interface.

    Attributes:
        token: What the address has; each is exchanged once.
        cookie: What a browser gets for it.
        parent: The process that started this one.
    """

    daemon_threads = True
    timeout = _CHECK_S

    def __init__(self, project: Project, choices: Choices, announce: Callable[[str], object]) -> None:
        """Listen.

        Args:
            project: The project whose page it serves.
            choices: What the page shows.
            announce: Takes the next address each time that one was used.
        """
        self._project, self._choices, self._announce = project, choices, announce
        self._lock = Lock()
        self._made, self._page = (0, 0, 0), b""
        # What is wrong with the ledger or the options is said before there is an address.
        self.page()
        self._other_threads = active_count()
        # Taken before anybody knows the address: from then on whoever started this process may end.
        self.parent = os.getppid()
        self.token, self.cookie = (new_secret(_TOKEN_BYTES).hex() for _ in range(2))
        super().__init__((HOST, 0), Handler)

    def page(self) -> bytes:
        """Return the page, made again only after the log file changed."""
        with self._lock:
            # Taken first: what is appended meanwhile is noticed the next time.
            status = open_log(self._project).path.stat()
            made = status.st_ino, status.st_size, status.st_mtime_ns
            if self._made != made:
                self._made, self._page = made, make(self._project, self._choices)[0]
            return self._page

    def head(self) -> bytes:
        """Return ``{head, redactions}`` as JSON, as a page's ``meta`` has them."""
        return dumps(read_end(open_log(self._project))).encode()

    def exchange(self, token: str) -> bool:
        """Return whether a token is the current one; then it is void, and the next address is announced."""
        with self._lock:
            if not _equals(token, self.token):
                return False
            self.token = new_secret(_TOKEN_BYTES).hex()
            # The browser is let in also where nobody reads the output any more.
            with suppress(OSError):
                self._announce(self.address)
            return True

    def verify_request(self, *_: Any) -> bool:
        """Return whether there is room for a connection."""
        return active_count() - self._other_threads < MAX_THREADS

    def handle_error(self, *_: Any) -> None:
        """Say in one line what failed; a client that went away is no error."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            note(f"page: {type(error).__name__}: {error}")

    @property
    def cookie_name(self) -> str:
        """Return the name of the cookie: browsers send a host's cookies to each of its ports."""
        return f"tallybook-{self.server_port}"

    @property
    def address(self) -> str:
        """Return the address to open, with the current token."""
        return f"http://{HOST}:{self.server_port}/?token={self.token}"


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: PageServer
    timeout = _REQUEST_S
    server_version, sys_version = "tallybook", ""

    def do_GET(self) -> None:
        """Answer with the page, the head of the ledger, or the cookie."""
        try:
            path = urlsplit(self.path)
        except ValueError:
            self._refuse(HTTPStatus.BAD_REQUEST, "this is not an address; use the one that the server printed")
            return
        token = parse_qs(path.query).get("token", [""])[0]
        # Any other name is a name that somebody made lead here.
        if self.headers.get("Host") not in {f"{name}:{self.server.server_port}" for name in (HOST, "localhost")}:
            self._refuse(HTTPStatus.MISDIRECTED_REQUEST, "this name is not the server's; use the address it printed")
        elif path.path == "/" and token and (self._is_known() or self.server.exchange(token)):
            # A browser that is in already loses the token from its address, and uses none up.
            cookie = f"{self.server.cookie_name}={self.server.cookie}; HttpOnly; SameSite=Strict; Path=/"
            self._answer(HTTPStatus.SEE_OTHER, "text/plain", b"", **{"Location": "/", "Set-Cookie": cookie})
        elif not self._is_known():
            self._refuse(HTTPStatus.FORBIDDEN, REFUSED)
        elif path.path == "/":
            self._send("text/html", self.server.page)
        elif path.path == "/head":
            self._send("application/json", self.server.head)
        else:
            self._refuse(HTTPStatus.NOT_FOUND, "there is nothing here; the page is at /")

    def _is_known(self) -> bool:
        """Return whether the browser has the cookie."""
        try:
            morsel = SimpleCookie(self.headers.get("Cookie", "")).get(self.server.cookie_name)
        except CookieError:
            return False
        return morsel is not None and _equals(morsel.value, self.server.cookie)

    def _send(self, kind: str, compute: Callable[[], bytes]) -> None:
        """Answer with what is computed, or with why it cannot be."""
        try:
            data = compute()
        except (TallybookError, OSError) as error:
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))
        else:
            self._answer(HTTPStatus.OK, kind, data)

    def _refuse(self, status: HTTPStatus, why: str) -> None:
        self._answer(status, "text/plain", f"{why}\n".encode(errors="replace"))

    def _answer(self, status: HTTPStatus, kind: str, data: bytes, **headers: str) -> None:
        self.send_response(status)
        lines = {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(data)), **_HEADERS, **headers}
        for name, value in lines.items():
            self.send_header(name, value)
        self.end_headers()
        with suppress(ConnectionError):
            self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that http.server gives it
        """Print nothing: the terminal belongs to the person."""


def _equals(given: str, secret: str) -> bool:
    # How long this takes must not tell how much of a secret was right.
    return compare_digest(given.encode("utf-8", "replace"), secret.encode())
