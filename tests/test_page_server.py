"""`tallybook page --serve`: who gets an answer, what it is, and when the server ends."""

from __future__ import annotations

from collections.abc import Iterator
from http.client import HTTPConnection
import json
import os
from pathlib import Path
import re
import signal
import socket
import subprocess
import sys
from threading import Thread
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest

from helpers.authors import HUMAN
from helpers.command_line import Run
from helpers.film_reader import read_page
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.page import server
from tallybook.projections.surfaces.page.document import Choices
from tallybook.projections.surfaces.page.server import REFUSED
from tallybook.projections.surfaces.workspace.project import Project

COMMAND = [sys.executable, "-m", "tallybook", "page", "--serve", "--json"]
END_S = 20


class Reply(NamedTuple):
    """An answer of the server."""

    status: int
    headers: dict[str, str]
    body: str


class Served(NamedTuple):
    """A server that answers in a thread, and the addresses that it announced."""

    server: server.PageServer
    addresses: list[str]

    @property
    def port(self) -> int:
        """Return its port."""
        return self.server.server_port

    @property
    def path(self) -> str:
        """Return the path of its first address."""
        return path_of(self.addresses[0])

    def ask(self, path: str, method: str = "GET", **headers: str) -> Reply:
        """Return the answer to one request."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=END_S)
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        return Reply(answer.status, dict(answer.getheaders()), body)

    def cookie(self) -> str:
        """Return the cookie that the address is exchanged for; an address is good for one."""
        return self.ask(self.path).headers["Set-Cookie"].partition(";")[0]

    def next_path(self) -> str:
        """Return the path of the next address that it announces."""
        return path_of(self.addresses[-1])


def path_of(address: str) -> str:
    """Return the path of an address on the loopback interface, with its token."""
    parts = urlsplit(address)
    assert ("http", "127.0.0.1") == (parts.scheme, parts.hostname)
    return f"{parts.path}?{parts.query}"


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with one entry."""
    made = Project(project)
    commands.add(made, "use types", HUMAN)
    return made


@pytest.fixture
def served(here: Project) -> Iterator[Served]:
    """Return a server of its page."""
    addresses: list[str] = []
    with server.PageServer(here, Choices(served=True), addresses.append) as running:
        addresses.append(running.address)
        thread = Thread(target=running.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield Served(running, addresses)
        running.shutdown()
        thread.join(END_S)


@pytest.fixture
def process(here: Project) -> Iterator[subprocess.Popen[str]]:
    """Return a server in a process of its own, once it has an address."""
    with subprocess.Popen(COMMAND, cwd=here.root, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert path_of(json.loads(running.stdout.readline())["address"])
        yield running
        running.kill()


def test_the_token_becomes_a_cookie_and_leaves_the_address(served: Served) -> None:
    """The address leads to one without a token, and sets a cookie that no script and no other site gets."""
    first = served.ask(served.path)
    assert (303, "/", "") == (first.status, first.headers["Location"], first.body)
    assert re.fullmatch(
        rf"tallybook-{served.port}=[0-9a-f]{{64}}; HttpOnly; SameSite=Strict; Path=/", first.headers["Set-Cookie"]
    )
    page = served.ask("/", Cookie=first.headers["Set-Cookie"].partition(";")[0])
    meta, document = read_page(page.body)
    assert (200, True, "text/html; charset=utf-8") == (page.status, meta["served"], page.headers["Content-Type"])
    assert {"film", "stories", "sessions", "quotes", "scores"} == document.keys()
    assert "no-store" == page.headers["Cache-Control"]
    assert page.headers["Content-Security-Policy"].endswith("; frame-ancestors 'none'")
    token = served.path.partition("=")[2]
    assert (False, False) == (token in page.body, token in str(page.headers))


def test_a_token_is_exchanged_once_and_another_browser_gets_the_next_one(served: Served) -> None:
    """A used address lets nobody in who has no cookie; the server prints a new one each time that one was used."""
    cookie = served.cookie()
    refused = served.ask(served.path)
    assert (403, f"{REFUSED}\n", None) == (refused.status, refused.body, refused.headers.get("Set-Cookie"))
    assert 200 == served.ask("/", Cookie=cookie).status
    again = served.next_path()
    # A browser that is in already opens any of its addresses again, and uses none up.
    for path in (served.path, again):
        assert (303, "/") == (
            served.ask(path, Cookie=cookie).status,
            served.ask(path, Cookie=cookie).headers["Location"],
        )
    assert (303, 403) == (served.ask(again).status, served.ask(again).status)
    third = served.next_path()
    assert 3 == len({served.path, again, third})


def test_nobody_without_the_cookie_gets_anything(served: Served) -> None:
    """Without cookie or with a wrong one, and with a wrong token, every path is refused in one line."""
    for path in (
        "/",
        "/head",
        "/leads?from=2026-01-10&to=2026-01-11",
        "/?token=x",
        "/?token=",
        "/other",
        "/?token=%FF%00",
    ):
        for cookie in ("", f"tallybook-{served.port}=x", "tallybook-1=y", "a=\x01;b"):
            reply = served.ask(path, Cookie=cookie)
            assert 403 == reply.status
            assert f"{REFUSED}\n" == reply.body


def test_a_name_that_somebody_made_lead_here_gets_no_answer(served: Served) -> None:
    """Only the loopback address and localhost with the server's port are answered, whatever the cookie."""
    cookie = served.cookie()
    for host in ("evil.example", f"evil.example:{served.port}", "127.0.0.1", "localhost:1", ""):
        assert 421 == served.ask("/", Cookie=cookie, Host=host).status, host
        assert 421 == served.ask(served.path, Host=host).status, host
    assert 200 == served.ask("/", Cookie=cookie, Host=f"localhost:{served.port}").status


def test_it_answers_get_alone(served: Served) -> None:
    """Every other method is refused, with and without the cookie."""
    for headers in ({}, {"Cookie": served.cookie()}):
        reply = served.ask("/", "POST", **headers)
        assert 501 == reply.status


def test_it_is_refreshed_while_the_ledger_grows(here: Project, served: Served, run: Run) -> None:
    """The head changes with the ledger, and the page that is asked for then has the new events and no redacted text."""
    cookie = served.cookie()

    def head() -> dict[str, object]:
        answer: dict[str, object] = json.loads(served.ask("/head", Cookie=cookie).body)
        return answer

    before = head()
    assert before["head"] == read_page(served.ask("/", Cookie=cookie).body)[0]["head"]
    commands.add(here, "ask Miller about it", HUMAN)
    assert before != head()
    meta, document = read_page(served.ask("/", Cookie=cookie).body)
    assert (head()["head"], True) == (meta["head"], "Miller" in str(document["film"]))
    assert 0 == run("redact", "--text", "ask Miller about it", "--reason", "a name", "--yes", "--expect", "1").code
    after = head()
    last = after["last_redaction"]
    assert isinstance(last, int)
    assert int(meta["head"].partition(":")[0]) < last
    meta, document = read_page(served.ask("/", Cookie=cookie).body)
    assert (["the texts of 1 event are redacted"], False) == (meta["warnings"], "Miller" in str(document["film"]))


@pytest.mark.skipif(os.name == "nt", reason="Windows has no signals of a terminal")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGHUP, -signal.SIGHUP)])
def test_it_ends_with_its_terminal(process: subprocess.Popen[str], number: signal.Signals, code: int) -> None:
    """Ctrl-C ends it in order, and a terminal that is closed ends it too."""
    process.send_signal(number)
    assert code == process.wait(END_S)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no parent that a process outlives in this way")
def test_it_ends_with_the_process_that_started_it(here: Project) -> None:
    """A server whose shell is killed ends, although nobody sent it a signal."""
    shell = subprocess.Popen(
        ["sh", "-c", '"$@" & echo $! >&2; wait', "sh", *COMMAND],
        cwd=here.root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert shell.stdout is not None
    port = urlsplit(json.loads(shell.stdout.readline())["address"]).port
    shell.kill()
    shell.wait()
    # Its output ends when the last process that holds it has ended.
    assert "" == shell.communicate(timeout=END_S)[0]
    with socket.socket() as client:
        assert 0 != client.connect_ex(("127.0.0.1", port or 0))
