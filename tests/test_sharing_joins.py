"""Joining a book with a history of one's own: what lands, what is joined to what others have, and what counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
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

import attrs
import pytest

from helpers.commands import Run
from helpers.documentation import FILES, PAGES, section
from helpers.git_repositories import git, make_remote
from helpers.git_servers import serve_https
from helpers.memory_store import MemoryStore
from helpers.s3_server import Buckets
from helpers.shared_machines import Team
from tallybook.ledger.line import START
from tallybook.ledger.sharing import git_remote
from tallybook.ledger.sharing.book import cut_runs
from tallybook.ledger.sharing.engine import NOTHING, Engine, StoredRun, UnreachableError
from tallybook.ledger.sharing.replica import Replica
from tallybook.ledger.storage import caches
from tallybook.projections.surfaces.history.shared_log import SharedLog
from tallybook.projections.surfaces.sharing import membership, operations, syncing
from tallybook.projections.surfaces.sharing.syncing import longest_wait
from tallybook.projections.surfaces.workspace.project import Project


def count_by_text(team: Team, machine: str) -> dict[str, tuple[int, int]]:
    """Return the counts of each text that a machine shows."""
    return {text: (helpful, harmful) for text, helpful, harmful in team.entries(machine).values()}


def test_a_dry_run_shows_what_joining_brings(team: Team) -> None:
    """`share --dry-run` counts the entries of the book and the own ones, and changes nothing; then they join."""
    words = ("share", "memory", "memory", "--book", "main", "--dry-run", "--json")
    for text in ("Run the tests first", "Use type hints"):
        team.run("anna", "add", text)
    made = json.loads(team.run("anna", *words).out)
    assert ("", 0, 2, {"playbook.updated": 2, "point.added": 2}, 0) == (
        *(made[key] for key in ("book", "events", "own_entries", "outgoing")),
        len(team.ids()),
    )
    # What a session did and was undone before the ledger was shared stays undone.
    team.run("anna", "rate", "kpt_001", "harmful", "--session", "s1")
    team.run("anna", "undo", "--session", "s1")
    team.share("anna")
    before = team.ids()
    for text in ("Use type hints", "Write short commits"):
        team.run("ben", "add", text)
    shown = json.loads(team.run("ben", *words).out)
    assert (True, 2, 2, before) == (bool(shown["book"]), shown["entries"], shown["own_entries"], team.ids())
    team.share("ben")
    team.sync("anna")
    assert team.entries("anna") == team.entries("ben")
    texts = ("Run the tests first", "Use type hints", "Write short commits")
    assert dict.fromkeys(texts, (0, 0)) == count_by_text(team, "ben")


def test_only_the_excess_of_another_playbook_file_counts(team: Team) -> None:
    """Of a ledger begun with another's file the counts that stand do not count again, and what is only there does."""
    team.run("anna", "add", "Use git")
    team.run("anna", "add", "Use type hints")
    for rating in ("helpful", "helpful", "harmful"):
        team.run("anna", "rate", "kpt_001", rating)
    team.share("anna")
    file = json.loads((team.root("anna") / ".claude/playbook.json").read_bytes())
    team.run("anna", "rate", "kpt_001", "harmful")
    team.sync("anna")
    # What ben's file says more than the book: two ratings, and an entry.
    file["key_points"][1]["helpful"] = 2
    file["key_points"].append({"name": "kpt_003", "text": "Only in the file", "helpful": 1, "harmful": 0})
    (team.root("ben") / ".claude/playbook.json").write_text(json.dumps(file))
    team.run("ben", "rate", "kpt_001", "helpful")
    expected = {"Use git": (3, 1), "Use type hints": (2, 0), "Only in the file": (1, 0)}
    assert expected == count_by_text(team, "ben")
    team.share("ben")
    team.sync("anna")
    for machine in ("anna", "ben"):
        assert expected | {"Use git": (3, 2)} == count_by_text(team, machine)
    team.run("ben", "sync")
    assert len(team.ids()) == len(set(team.ids()))


def test_a_join_says_which_entries_have_another_name(team: Team) -> None:
    """The answer of the join, and a comparison of before with after, follow each entry to its name in the book."""
    team.run("anna", "add", "Alpha")
    team.share("anna")
    for text in ("Beta", "Alpha"):
        team.run("ben", "add", text)
    out = team.share("ben").out
    assert "~ kpt_001 is kpt_002 in the book\n~ kpt_002 is kpt_001 in the book\n" in out
    change = json.loads(team.run("ben", "diff", "5", "--json").out)
    assert [] == change["changed"]
    assert "- kpt_003  joined to kpt_001, which has its text" in team.run("ben", "diff", "5").out


def test_a_preview_shows_what_a_playbook_without_a_ledger_publishes(team: Team) -> None:
    """A project with a playbook and no ledger publishes the entries of its file, and the preview says so."""
    file = {"version": "1.0", "key_points": [{"name": "kpt_001", "text": "Use git", "helpful": 1, "harmful": 0}]}
    folder = team.root("ben") / ".claude"
    folder.mkdir(exist_ok=True)
    (folder / "playbook.json").write_text(json.dumps(file))
    shown = json.loads(team.share("ben", "--dry-run", "--json").out)
    assert ({"playbook.adopted": 1, "point.seeded": 1}, 1) == (shown["outgoing"], shown["own_entries"])
    assert not (folder / "ledger").exists()
    team.share("ben")
    assert ["Use git"] == [text for text, _, _ in team.entries("ben").values()]


class LeavingStore(MemoryStore):
    """A store that notes which runs are asked for, and cannot be reached at the third time."""

    def __init__(self) -> None:
        """Begin with nothing."""
        super().__init__()
        self.asked: list[list[int]] = []

    def get(self, numbers: Sequence[int]) -> Mapping[int, bytes]:
        """Return runs, but for the third time."""
        self.asked.append([*numbers])
        if len(self.asked) == 3:
            raise UnreachableError(self.address, "it is away")
        return super().get(numbers)


def test_a_join_that_is_cut_off_goes_on_where_it_was(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """A book comes in piece by piece; the next sync asks for what follows the pieces that are on disk already."""
    for text in ("Run the tests first", "Use type hints"):
        team.run("anna", "add", text)
    team.share("anna")
    batches = team.batches()
    store = team.memory = LeavingStore()
    assert Engine(store).append(NOTHING, cut_runs(batches, START, 1)) is not None
    monkeypatch.setattr(syncing, "PIECE_BYTES", 1)
    team.share("ben", code=4)
    team.sync("ben")
    # The first is of the preview, the second of the piece that came in.
    assert [1, 1, 2, 2] == [numbers[0] for numbers in store.asked[:4]]
    replicas = [(team.ledger(machine) / "book" / "1" / "events.jsonl").read_bytes() for machine in ("anna", "ben")]
    assert replicas[0] == replicas[1][: len(replicas[0])]
    team.sync("anna")
    assert team.entries("anna") == team.entries("ben")


def test_a_writer_is_named_by_its_user(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """The label is the names of user and machine; `log` and `undo` take the former alone, but no part of a name."""
    team.run("anna", "add", "Write tests")
    monkeypatch.setenv("LOGNAME", "anna")
    team.share("anna")
    lines = team.run("anna", "log", "--writer", "anna", "--json").out.splitlines()
    assert "Write tests" in [json.loads(line).get("free", {}).get("text") for line in lines]
    undone = json.loads(team.run("anna", "undo", "--writer", "anna", "--yes", "--json").out)["events"]
    assert [3, 4] == [event["book"] for event in undone]
    assert "is not a writer of the book" in team.run("anna", "log", "--writer", "ann", code=2).err


@pytest.mark.parametrize("team", ["git"], indirect=True)
def test_a_join_fetches_a_book_once(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was fetched to show what joining brings is what is taken in then."""
    team.run("anna", "add", "Use type hints")
    team.share("anna")
    calls: Counter[str] = Counter()
    real = git_remote.run_git

    def run_git(words: Sequence[str], *rest: Any, **options: Any) -> Any:
        calls.update(word for word in words if word in {"ls-remote", "fetch", "push"})
        return real(words, *rest, **options)

    monkeypatch.setattr(git_remote, "run_git", run_git)
    team.share("ben")
    # It is asked again whether anything came since; this remote sends the texts with the first fetch.
    assert {"ls-remote": 2, "fetch": 1} == calls


# `share members`, and how machines of a large team take turns.


class KnowingStore(MemoryStore):
    """A store that knows who stored each run, as a database does."""

    knows_authors = True

    def list(self, after: int) -> Sequence[StoredRun]:
        """Return the numbers with an author."""
        return [entry._replace(author="anna") for entry in super().list(after)]


def test_members_are_listed_with_what_they_published(team: Team) -> None:
    """Each writer has its events, when it was seen last, how far behind it may be, and who logged in."""
    for machine in ("anna", "ben", "cleo"):
        team.share(machine, "--as", machine)
    for machine in ("anna", "ben"):
        team.run(machine, "add", f"Advice of {machine}")
        team.sync(machine)
    found = json.loads(team.run("ben", "share", "members", "--json").out)
    assert [("ben", 3, 0, True), ("anna", 4, 3, False)] == [
        (member["writer"].rpartition("-")[0], member["events"], member["behind"], member["is_this"]) for member in found
    ]
    assert "(this machine): 3 events, last seen " in team.run("ben", "share", "members").out
    assert "logged in" not in team.run("ben", "share", "members").out
    knowing = KnowingStore()
    knowing.runs = team.memory.runs
    team.memory = knowing
    assert 2 == team.run("ben", "share", "members").out.count("logged in as anna")
    assert "anna" == json.loads(team.run("ben", "share", "members", "--json").out)[0]["author"]
    # A repair stores the runs of all machines.
    team.force(team.batches())
    assert "logged in" not in team.run("ben", "share", "members").out


def test_the_more_write_the_longer_a_push_may_wait(team: Team) -> None:
    """Six pushes a minute need no turns; a larger team spreads them, over a minute at most."""
    team.share("anna")
    project = Project(team.root("anna"))
    assert (0, 0) == (longest_wait("git", 6), longest_wait("postgres", 100))
    expected = {5: 0, 8: 20, 20: 60}
    for number in range(1, 21):
        part = membership.require(project)
        membership.save(project, attrs.evolve(part, writer=f"machine-{number}"))
        team.run("anna", "add", f"Advice {number}")
        team.sync("anna")
        if number in expected:
            # The first machine has written as well: it made the book.
            writers = operations.count_recent_writers(SharedLog(project.ledger).copy)
            assert expected[number] <= longest_wait("git", writers) <= expected[number] + 10


# Who only reads a book writes nothing to it, and a sync that was killed keeps what it had fetched.


@pytest.fixture
def begun(team: Team) -> Team:
    """Return a team whose first machine has shared an entry."""
    team.run("anna", "add", "Run the tests first")
    team.share("anna")
    return team


def test_joining_and_reading_append_nothing_to_the_book(begun: Team) -> None:
    """A machine gets its block of names with its first own batch, and has given the first name of it before."""
    before = dict(begun.memory.runs)
    begun.share("ben")
    begun.sync("ben", "ben")
    assert before == begun.memory.runs
    begun.run("ben", "add", "Write short commits")
    assert "kpt_101" in begun.entries("ben")
    begun.sync("ben")
    begun.run("ben", "add", "Use type hints")
    begun.sync("ben", "anna")
    assert {"kpt_001", "kpt_101", "kpt_102"} == {*begun.entries("anna")}
    assert begun.entries("anna") == begun.entries("ben")


def test_names_of_two_newcomers_part_when_they_land(begun: Team) -> None:
    """Both expect the same block; the later one's entry is renamed, and its next names are of its own block."""
    for machine in ("ben", "cleo"):
        begun.share(machine)
        begun.run(machine, "add", f"Advice of {machine}")
        assert "kpt_101" in begun.entries(machine)
    begun.sync("ben")
    done = begun.run("cleo", "sync").out
    # The other's entry under that name is new, and nothing was reworded.
    assert "~ kpt_101 is kpt_102 in the book" in done
    assert "Advice of ben" in done
    assert "now: " not in done
    begun.sync("ben")
    begun.run("cleo", "add", "Use type hints")
    assert {"Advice of ben", "Advice of cleo"} <= {text for text, _, _ in begun.entries("ben").values()}
    assert "kpt_201" in begun.entries("cleo")


def test_a_reader_never_publishes(begun: Team) -> None:
    """With --read-only the book comes in, own events stay, and what would write is refused."""
    before = dict(begun.memory.runs)
    begun.run("ben", "add", "Own advice")
    assert json.loads(begun.share("ben", "--read-only", "--dry-run", "--json").out)["book"]
    begun.share("ben", "--read-only")
    assert "publishes nothing" in begun.run("ben", "sync").out
    assert {"Run the tests first", "Own advice"} == {text for text, _, _ in begun.entries("ben").values()}
    assert "--read-only" in json.loads(begun.run("ben", "share", "status", "--json").out)["read_only"]
    for action in ("repair", "upgrade"):
        begun.run("ben", "share", action, "--yes")
    assert before == begun.memory.runs
    # An engine that lost its end is not given back by a reader.
    begun.empty()
    begun.sync("ben")
    assert {} == begun.memory.runs
    begun.sync("anna")
    # The command that turns sharing on again does not make it publish.
    assert begun.run("ben", "share", "off").out.endswith(" --read-only\n")
    # Without the option the machine publishes from then on.
    begun.share("ben")
    begun.sync("anna")
    assert "Own advice" in {text for text, _, _ in begun.entries("anna").values()}


@pytest.mark.parametrize("team", ["git"], indirect=True)
def test_a_job_reads_a_book_that_it_may_not_write_to(team: Team) -> None:
    """The command of the recipe for CI joins through a remote that refuses every push, and a later sync goes on."""
    team.run("anna", "add", "Run the tests first")
    team.share("anna")
    hook = Path(team.address) / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    command = "tallybook share git --read-only --yes"
    assert f"`{command}`" in section(FILES, "CI and git hooks")
    words = command.split()[1:]
    team.run("job", *words[:2], team.address, "--book", "main", *words[2:])
    assert ["Run the tests first"] == [text for text, _, _ in team.entries("job").values()]
    hook.unlink()
    team.run("anna", "rate", "kpt_001", "helpful")
    team.sync("anna", "job")
    assert ("Run the tests first", 1, 0) == team.entries("job")["kpt_001"]


def test_a_reader_makes_no_book(begun: Team) -> None:
    """There is nothing to read under a name that no book has."""
    begun.book = "other"
    begun.memory = MemoryStore()
    assert "holds no book" in begun.share("ben", "--read-only", code=2).err


@pytest.mark.parametrize("step", ["pull", "push"])
def test_a_killed_sync_keeps_its_copy(begun: Team, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed after its copy grew and before anything says so, the next sync goes on with that copy."""
    begun.share("ben")
    if step == "pull":
        begun.run("anna", "rate", "kpt_001", "helpful")
        begun.sync("anna")
    else:
        begun.run("ben", "rate", "kpt_001", "helpful")

    append = Replica.append

    def append_and_die(*words: Any) -> None:
        append(*words)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Replica, "append", append_and_die)
        begun.run("ben", "sync", code=130)
    done = json.loads(begun.run("ben", "sync", "--json").out)
    assert "" == done["set_aside"]
    begun.sync("anna")
    assert ("Run the tests first", 1, 0) == begun.entries("ben")["kpt_001"] == begun.entries("anna")["kpt_001"]


def test_a_sync_that_another_overtook_leaves_the_copy(begun: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sync whose process goes on only after the next one has appended to the copy does not note an older end."""
    begun.share("ben")
    sync = syncing.sync

    def sync_twice(*words: Any) -> syncing.SyncResult:
        result = sync(*words)
        monkeypatch.setattr(syncing, "sync", sync)
        begun.run("ben", "add", "Write tests")
        begun.sync("ben", "anna")
        return result

    monkeypatch.setattr(syncing, "sync", sync_twice)
    begun.sync("anna")
    assert "" == json.loads(begun.run("anna", "sync", "--json").out)["set_aside"]


# The recipes for a company, run as the documentation has them, as far as this machine goes.


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


class _JoinHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _JoinServer

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


class _JoinServer(ThreadingHTTPServer):
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
    with _JoinServer(("127.0.0.1", 0), _JoinHandler) as server:
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
