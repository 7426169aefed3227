"""The recipes for a company, run as the documentation has them, as far as this machine goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
import json
from pathlib import Path
import re
import shlex
import shutil
import threading
from typing import Any
from urllib.parse import urlsplit

import pytest

from helpers.commands import Run
from helpers.documentation import PAGES
from helpers.git_repositories import git, make_remote
from helpers.git_servers import serve_https
from helpers.s3_server import Buckets
from tallybook.ledger.storage import caches

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


Here = Callable[..., str]

RECIPES = PAGES["ledger/sharing/README.md"].split("\n## For a company\n")[1].split("\n## ")[0]
POLICY = PAGES["ledger/sharing/ENGINES.md"].split("### Rights in S3")[1].split("```json\n")[1].split("```")[0]
TOKEN = "t0ken-of-the-job-4711"  # noqa: S105 - of this test's own server


def commands(title: str) -> list[list[str]]:
    """Return the words of each command of a recipe."""
    script = RECIPES.split(f"### {title}\n")[1].split("```sh\n")[1].split("```")[0]
    return [shlex.split(line) for line in script.splitlines()]


@pytest.fixture(name="here")
def _here(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Here:
    """Return what runs a command in a machine's project, a folder of its name."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(caches.VARIABLE, str(tmp_path / "caches"))
    monkeypatch.delenv("CLAUDE_PROJECT_DIR", raising=False)

    def run_in(machine: str, *words: str) -> str:
        (tmp_path / machine / ".claude").mkdir(parents=True, exist_ok=True)
        answer = run("--project", str(tmp_path / machine), *words)
        assert answer.code == 0, answer
        return answer.out

    return run_in


@pytest.mark.skipif(not shutil.which("openssl"), reason="openssl makes the certificate of the server")
def test_a_job_of_ci_reads_the_book(here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a token in a variable a job shows the entries of the team, and publishes nothing."""
    remote = make_remote(tmp_path / "acme" / "app.git")
    git(remote, "config", "http.receivepack", "true")
    here("anna", "add", "Run the tests before a commit")
    here("anna", "share", "git", str(remote), "--book", "acme+app", "--yes")
    monkeypatch.setenv("CI_TOKEN", TOKEN)
    with serve_https(tmp_path, "x-access-token", TOKEN) as (port, certificate, _):
        (tmp_path / ".gitconfig").write_text(f"[http]\n\tsslCAInfo = {certificate}\n", encoding="utf-8")
        words = [[word.replace("HOST", f"127.0.0.1:{port}") for word in line] for line in commands("In CI")]
        said = [here("job", *line[1:]) for line in words]
        here("job", "add", "An entry of the job")
        here("job", "sync")
    assert "Run the tests before a commit" in said[-1]
    assert TOKEN not in "".join(said)
    here("anna", "sync")
    assert "An entry of the job" not in here("anna", "show")


def test_writers_append_and_a_redactor_erases(
    here: Here, s3_bucket: Buckets, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under the policy of the page writers share, nobody deletes, and only the redactor overwrites."""
    address = s3_bucket.new_address()
    bucket = address.removeprefix("s3://").partition("/")[0]
    text = POLICY.replace('"WRITERS"', '"anna", "ben", "rita"').replace("REDACTOR", "rita").replace("BUCKET", bucket)
    with enforce(s3_bucket.place, json.loads(text)) as (place, requests):
        words = [
            [word.replace("s3://BUCKET/PATH", address.replace(s3_bucket.place, place)) for word in line[1:]]
            for line in commands("In an object store")
        ]
        share, redact, repair = words
        for who in ("anna", "ben", "rita"):
            monkeypatch.setenv("AWS_ACCESS_KEY_ID", who)
            here(who, "add", "Ask Petra Zwiebel" if who == "anna" else f"An entry of {who}")
            here(who, *share)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ben")
        here("ben", *[word.replace("TEXT", "Petra Zwiebel") for word in redact])
        here("ben", "sync")
        refused = run("--project", str(tmp_path / "ben"), *repair)
        assert "let an owner of the book run `tallybook share repair` as well" in refused.err
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "rita")
        here("rita", "sync")
        here("rita", *repair)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "stranger")
        (tmp_path / "stranger" / ".claude").mkdir(parents=True)
        assert 4 == run("--project", str(tmp_path / "stranger"), *share).code
    assert [("ben", "s3:PutObject")] == sorted(
        {(who, action) for who, action, ok in requests if not ok and who == "ben"}
    )
    assert "s3:DeleteObject" not in {action for _, action, _ in requests}
