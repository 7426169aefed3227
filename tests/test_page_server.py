"""`tallybook page --serve`: who gets an answer, what it is, and when the server ends."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from http.client import HTTPConnection
import json
import os
from pathlib import Path
from random import Random
import re
import signal
import socket
import subprocess
import sys
from threading import Thread
from time import monotonic, sleep
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import attrs
from hypothesis import given
from hypothesis import strategies as st
import pytest

from helpers.browser import bytes_of, play, read_page
from helpers.commands import Run
from helpers.events import HUMAN
from helpers.manual_edits import edit, read
from helpers.reference_model import extraction
from helpers.shared_machines import Team
from helpers.view_histories import FUTURES, history
from tallybook.ledger.records import Batch
from tallybook.projections.history.entry_history import entries_view
from tallybook.projections.playbook.fold import fold_history
from tallybook.projections.scores.scoring import is_enough
from tallybook.projections.scores.summary import current_scores
from tallybook.projections.surfaces.console.story_text import tell_story
from tallybook.projections.surfaces.history.reading import open_log
from tallybook.projections.surfaces.page import server
from tallybook.projections.surfaces.page.document import Choices, assemble, make, read_end, security_policy
from tallybook.projections.surfaces.page.film import MAX_MOMENTS, STATUSES, fold_film
from tallybook.projections.surfaces.page.server import REFUSED
from tallybook.projections.surfaces.scores.configuration import state_of
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands

COMMAND = [sys.executable, "-m", "tallybook", "page", "--serve", "--json"]
END_S = 20


class ServerReply(NamedTuple):
    """An answer of the server."""

    status: int
    headers: dict[str, str]
    body: str


class RunningServer(NamedTuple):
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

    def ask(self, path: str, method: str = "GET", **headers: str) -> ServerReply:
        """Return the answer to one request."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=END_S)
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        return ServerReply(answer.status, dict(answer.getheaders()), body)

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
def served(here: Project) -> Iterator[RunningServer]:
    """Return a server of its page."""
    addresses: list[str] = []
    with server.PageServer(here, Choices(served=True), addresses.append) as running:
        addresses.append(running.address)
        thread = Thread(target=running.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield RunningServer(running, addresses)
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


def test_the_token_becomes_a_cookie_and_leaves_the_address(served: RunningServer) -> None:
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


def test_a_token_is_exchanged_once_and_another_browser_gets_the_next_one(served: RunningServer) -> None:
    """A used address lets nobody in who has no cookie; the server prints a new one each time that one was used."""
    cookie = served.cookie()
    refused = served.ask(served.path)
    assert (403, f"{REFUSED}\n", None) == (refused.status, refused.body, refused.headers.get("Set-Cookie"))
    assert 200 == served.ask("/", Cookie=cookie).status
    again = served.next_path()
    # A browser that is in already opens any of its addresses again, and uses none up.
    for path in (served.path, again):
        for reply in (served.ask(path, Cookie=cookie), served.ask(path, Cookie=cookie)):
            assert (303, "/") == (reply.status, reply.headers["Location"])
    assert (303, 403) == (served.ask(again).status, served.ask(again).status)
    third = served.next_path()
    assert 3 == len({served.path, again, third})


def test_nobody_without_the_cookie_gets_anything(served: RunningServer) -> None:
    """Without cookie or with a wrong one, and with a wrong token, every path is refused in one line."""
    paths = ("/", "/head", "/leads?from=2026-01-10&to=2026-01-11", "/other", "/?token=x", "/?token=", "/?token=%FF%00")
    for path in paths:
        for cookie in ("", f"tallybook-{served.port}=x", "tallybook-1=y", "a=\x01;b"):
            reply = served.ask(path, Cookie=cookie)
            assert 403 == reply.status
            assert f"{REFUSED}\n" == reply.body


def test_a_name_that_somebody_made_lead_here_gets_no_answer(served: RunningServer) -> None:
    """Only the loopback address and localhost with the server's port are answered, whatever the cookie."""
    cookie = served.cookie()
    for host in ("evil.example", f"evil.example:{served.port}", "127.0.0.1", "localhost:1", ""):
        assert 421 == served.ask("/", Cookie=cookie, Host=host).status, host
        assert 421 == served.ask(served.path, Host=host).status, host
    assert 200 == served.ask("/", Cookie=cookie, Host=f"localhost:{served.port}").status


def test_it_answers_get_alone(served: RunningServer) -> None:
    """Every other method is refused, with and without the cookie."""
    for headers in ({}, {"Cookie": served.cookie()}):
        assert 501 == served.ask("/", "POST", **headers).status


def test_it_is_refreshed_while_the_ledger_grows(here: Project, served: RunningServer, run: Run) -> None:
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
    assert (0, 1) == (meta["redactions"], head()["redactions"])
    meta, document = read_page(served.ask("/", Cookie=cookie).body)
    assert (["the texts of 1 event are redacted"], False) == (meta["warnings"], "Miller" in str(document["film"]))


def test_a_redaction_in_a_book_is_noticed_once(team: Team) -> None:
    """The page of a shared project and its server count it alike, pending and published."""
    team.run("anna", "add", "ask Miller")
    team.share("anna")
    project, counts = Project(team.root("anna")), []
    for words in (("show",), ("redact", "--text", "ask Miller", "--reason", "x", "--yes", "--expect", "1"), ("sync",)):
        team.run("anna", *words)
        meta = make(project, Choices(served=True))[1]
        assert read_end(open_log(project)).items() <= meta.items()
        counts.append(meta["redactions"])
    assert [0, 1, 1] == counts


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


# `tallybook page`: the file that it writes, what is in it, what never is, and how it is opened.


HOSTILE = "</script><script>alert(1)</script>\u202e<!--style-->&lt;" + "x" * 9000
SESSION = "$(touch owned)"
TOKEN = "ghp_" + "a1B2" * 9


@pytest.fixture
def rated(project: Path) -> Project:
    """Return a project with two sessions, a pruned entry, a merge, an undo and a reason."""
    made = Project(project)
    for text in ("use types", "delete the cache", "read the log"):
        commands.add(made, text, HUMAN)
    for session in ("s-one", SESSION):
        by = {"rater": "reflector", "session": session, "agent": "agent-x", "model": "model-y"}
        commands.record(made, extraction(*[("kpt_002", "harmful")] * 2, ("kpt_001", "helpful")), by)
    return made


def page(project: Project, run: Run, *options: str) -> tuple[dict[str, Any], dict[str, Any], str]:
    """Write a page, and return its meta, its document and its text."""
    assert 0 == run("page", "-o", str(project.root / "page.html"), "--force", *options).code
    text = (project.root / "page.html").read_text(encoding="utf-8")
    return *read_page(text), text


def test_it_opens_at_a_moment_and_an_entry(rated: Project, run: Run) -> None:
    """WHEN and NAME are in the page; without them it opens at the end with no entry selected."""
    meta, document, _ = page(rated, run, "--at", "~3", "KPT_2")
    names = document["film"]["names"]
    assert (12, "kpt_002") == (meta["opens"]["event"], names[meta["opens"]["entry"]])
    assert {"event": 15, "entry": None} == page(rated, run)[0]["opens"]


def test_the_security_policy_allows_the_own_style_and_script_alone(rated: Project, run: Run) -> None:
    """The hashes are those of the only style and the only script that runs; nothing is named by an address."""
    _, _, text = page(rated, run)
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    hashes = [b64encode(sha256(part.encode()).digest()).decode() for part in (script, style)]
    assert (
        f"default-src 'none'; script-src 'sha256-{hashes[0]}'; style-src 'sha256-{hashes[1]}'; "
        "base-uri 'none'; form-action 'none'"
    ) == policy
    assert policy.replace("; base-uri", "; connect-src 'self'; base-uri") == security_policy(served=True)
    assert [] == re.findall(r"\s(?:src|href|style|on\w+)=[\"'][^#]", text.replace(script, ""))


def test_texts_cannot_leave_their_element(project: Path, run: Run) -> None:
    """Markup, marks of the template and marks of direction in a text arrive as text."""
    rated = Project(project)
    commands.add(rated, HOSTILE, HUMAN)
    meta, document, text = page(rated, run, "kpt_001")
    assert (False, False) == ("alert(1)" in text, "\u202e" in text)
    assert [HOSTILE] == document["film"]["texts"]
    hostile = assemble({"served": False, "project": "</script><!--script-->"}, {}).decode()
    assert ("</script><!--script-->", 3) == (read_page(hostile)[0]["project"], hostile.count("</script>"))
    assert "project" in meta


def test_without_texts_leaves_out_texts_and_people(rated: Project, run: Run) -> None:
    """No text, session, agent, model or project name is anywhere in the file; counts and names are."""
    commands.rate(rated, "kpt_001", "helpful", HUMAN, reason="it was right")
    meta, document, text = page(rated, run, "--without-texts")
    everything = text.encode() + bytes_of(document)
    for private in ("use types", "delete the cache", "s-one", "touch owned", "agent-x", "model-y", "it was right"):
        assert private.encode() not in everything, private
    assert (False, "", 2) == (meta["texts"], meta["project"], meta["counts"]["sessions"])
    assert "texts" not in document["film"]
    full = bytes_of(page(rated, run, "--with-quotes")[1])
    for shown in ("use types", "s-one", "touch owned", "agent-x", "model-y", "it was right"):
        assert shown.encode() in full, shown


def test_quotes_and_reasons_are_left_out_unless_asked_for(rated: Project, run: Run) -> None:
    """A reason of a rating, a retirement or an undo is in the file with --with-quotes alone."""
    commands.rate(rated, "kpt_001", "helpful", HUMAN, reason="said in the review")
    assert 0 == run("retire", "kpt_003", "--reason", "never needed").code
    reasons = (b"said in the review", b"never needed")
    meta, document, _ = page(rated, run)
    assert [] == [reason for reason in reasons if reason in bytes_of(document)]
    assert (False, False) == (meta["quotes"], bool(document["quotes"]))
    meta, document, _ = page(rated, run, "--with-quotes")
    said = document["quotes"]
    quotes = dict(zip(said["event"], map(tuple, said["quotes"]), strict=True))
    assert {("note", "helpful: said in the review"), ("reason", "never needed")} == set(quotes.values())


def test_secrets_are_masked_and_redacted_texts_gone(rated: Project, run: Run) -> None:
    """A token that a person recorded is masked on the page, and a redacted text is nowhere in it."""
    commands.add(rated, f"log in with {TOKEN}", HUMAN)
    commands.add(rated, "ask Miller about it", HUMAN)
    assert 0 == run("redact", "--text", "ask Miller about it", "--reason", "a name", "--yes", "--expect", "1").code
    meta, document, _ = page(rated, run, "--with-quotes")
    everything = bytes_of(document)
    assert (False, False) == (TOKEN.encode() in everything, b"Miller" in everything)
    assert {"log in with [masked: GitHub Token]", "[redacted]"} <= {*document["film"]["texts"]}
    assert ["the texts of 1 event are redacted"] == meta["warnings"]


def test_a_story_says_what_why_says(rated: Project, run: Run) -> None:
    """The sentences, the deciding events and the other names are those of `why`, also after an undo."""
    commands.record(rated, extraction(new=["use TYPES"]), HUMAN)
    for words in (("undo", "14"), ("merge", "kpt_001", "kpt_004"), ("retire", "kpt_003"), ("undo",), ("undo",)):
        run(*words)
    _, document, _ = page(rated, run, "--with-quotes")
    names = document["film"]["names"]
    tables = document["stories"]
    assert (len(names), 0) == (len(tables["stories"]), tables["omitted"])
    for told in tables["stories"]:
        story = commands.why(rated, names[told["entry"]])
        assert list(tell_story(story)) == told["sentences"]
        assert [event["seq"] for event in story["deciding"]] == told["deciding"]
        others = [[names[name], status, relation, names[of]] for name, status, relation, of in told["others"]]
        assert [[row[key] for key in ("name", "status", "relation", "of")] for row in story["lineage"]] == others


def test_stories_together_tell_a_bounded_number_of_events(
    rated: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entries that changed last have theirs; each story holds its events in memory, however long the history is."""
    _, whole, _ = page(rated, run)
    stories = whole["stories"]["stories"]
    events = sum(number == stories[0]["entry"] + 1 for number in whole["film"]["e_entry"])
    monkeypatch.setattr("tallybook.projections.surfaces.page.document.MAX_ROWS", events)
    _, bounded, _ = page(rated, run)
    assert {"stories": stories[:1], "omitted": len(stories) - 1} == bounded["stories"]


@pytest.fixture
def measured(project: Path, run: Run) -> Project:
    """Return a project with an entry and two measured sessions, and a baseline."""
    made = Project(project)
    commands.add(made, "use types", HUMAN)
    for session, startup in (("s1", "900"), ("s2", "8000")):
        assert 0 == run("score", "record", "--session", session, "--component", "ac01", f"startup_ms={startup}").code
    assert 0 == run("score", "baseline", "ac01", "--value", "90").code
    return made


def test_the_scores_are_those_of_score(measured: Project, run: Run) -> None:
    """Each series has the values that are shown of its score, its coverage, its baseline and its alerts."""
    tables = page(measured, run)[1]["scores"]
    state = state_of(measured)
    current = current_scores(state)
    assert list(current) == [row["id"] for row in tables["series"]]
    assert sorted(state.days) == tables["days"]
    for row in tables["series"]:
        score = current[row["id"]]
        assert [level.value for level in score.levels if is_enough(level.measured, state.config)] == [
            value for value in row["values"] if value is not None
        ]
        assert score.name == row["label"]
    groups = {row["id"]: row["group"] for row in tables["series"]}
    assert ("overall", "component") == (groups["session.overall"], groups["ac01"])
    (series,) = [row for row in tables["series"] if row["id"] == "ac01"]
    assert (90, True) == (series["baseline"], 0 < series["coverage"][0] <= 1)


@pytest.fixture
def browser(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a command that writes its argument to a file next to it, as a browser would open it."""
    if os.name == "nt":
        pytest.skip("Windows opens its own browser, not that of BROWSER")
    command = tmp_path_factory.mktemp("browser") / "browser"
    command.write_text('#!/bin/sh\nprintf %s "$1" > "$0.part" && mv "$0.part" "$0.opened"\n')
    command.chmod(0o755)
    return command


def wait_for_browser(browser: Path) -> str:
    """Return what a browser was given, as soon as it was."""
    file, deadline = browser.with_name("browser.opened"), monotonic() + END_S
    while not file.exists():
        assert monotonic() < deadline
        sleep(0.02)
    return file.read_text(encoding="utf-8")


def test_open_gives_the_file_to_the_browser(here: Project, browser: Path) -> None:
    """--open starts the browser of the person with the address of the file; a space in its name is escaped."""
    done = subprocess.run(
        [sys.executable, "-m", "tallybook", "page", "-o", "my page.html", "--open"],
        cwd=here.root,
        env=os.environ | {"BROWSER": f"{browser} %s"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (here.root / "my page.html").resolve().as_uri() == wait_for_browser(browser)
    assert (True, "") == (done.stdout.startswith("my page.html written: "), done.stderr)


# The film of the page: at every moment it shows what the folds show, what `show --at` and `what-if` print.


def shown(rows: dict[str, dict[str, Any]]) -> list[tuple[str, str, int, int]]:
    """Return the playbook that the rows of a film show, in its order."""
    kept = sorted((row["place"], name) for name, row in rows.items() if STATUSES[row["status"]] == "kept")
    return [(name, rows[name]["text"], rows[name]["helpful"], rows[name]["harmful"]) for _, name in kept]


def check_every_moment(batches: list[Batch], most: int = MAX_MOMENTS) -> None:
    """Compare the film with a fold up to each moment: entries, order, texts, counts, and where each other name is."""
    film = fold_film(lambda: batches, most).part(with_texts=True)
    moments = {last: {**rows} for last, rows in play(film)}
    assert [batch.last for batch in batches[-most - 1 :]] == [*moments]
    for last, rows in moments.items():
        state = fold_history(entries_view(), lambda: batches, last)
        book = state.book
        assert (last, [attrs.astuple(point) for point in book.entries.values()]) == (last, shown(rows))
        for name in {*state.names, *rows}:
            row = rows.get(name, {"status": 0, "into": None, "flags": 0})
            status = STATUSES[row["status"]].replace("absent", "unknown")
            assert state.book.status_of(name) == status, name
            assert (name in book.pinned, name in book.pardons) == (bool(row["flags"] & 1), bool(row["flags"] & 2))
            assert (book.merged.get(name) if status == "merged" else None) == row["into"]
            if name in book.gone and name not in book.entries:
                assert attrs.astuple(book.gone[name]) == (name, row["text"] or "", row["helpful"], row["harmful"])


@given(stretches=FUTURES, most=st.integers(1, 9))
def test_every_moment_shows_what_a_fold_up_to_it_shows(stretches: list[list[Any]], most: int) -> None:
    """However few moments a page has, it agrees with a fold up to each of them."""
    check_every_moment(history(stretches), most)


def live(here: Project, run: Run, chance: Random) -> None:
    """Record a random history: ratings, curation, undos, redactions and manual edits."""
    for number in range(60):
        names = [f"kpt_{n:03d}" for n in range(1, 13)]
        name, other = chance.sample(names, 2)
        step = chance.randrange(14)
        if number < 6 or step == 0:
            commands.add(here, f"guidance {number}", HUMAN)
        elif step == 1:
            run("undo", *([] if chance.random() < 0.5 else [f"--of=s{chance.randrange(3)}"]))
        elif step == 2:
            run("undo", str(chance.randrange(2, 40)))
        elif step == 3:
            run(*chance.choice([["retire"], ["restore"], ["pin"], ["pin", "--off"]]), name)
        elif step == 4:
            run("merge", name, other)
        elif step == 5:
            text = f"guidance {chance.randrange(number)}"
            run("redact", "--text", text, "--reason", "a name", "--yes")
        elif step == 6:
            doc = read(here)
            chance.shuffle(doc["key_points"])
            edit(here, doc, **{name: {"text": f"edited in step {number}", "harmful": chance.randrange(5)}})
            run("sync")
        else:
            rated = [(chance.choice(names), chance.choice(["helpful", "harmful", "harmful"])) for _ in range(6)]
            by = {"rater": "reflector", "session": f"s{chance.randrange(3)}"}
            commands.record(here, extraction(*rated), by)


@pytest.mark.parametrize(("seed", "most"), [(0, 50_000), (1, 8)])
def test_the_page_at_a_moment_is_what_show_prints_at_it(
    project: Path, run: Run, seed: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each moment of a page, and the snapshot before its first one, has the entries of `show --at` in their order."""
    here, chance = Project(project), Random(seed)  # noqa: S311 - the same history in every run
    live(here, run, chance)
    monkeypatch.setattr("tallybook.projections.surfaces.page.document.MAX_MOMENTS", most)
    assert 0 == run("page", "-o", str(here.root / "page.html")).code
    meta, document = read_page((here.root / "page.html").read_text(encoding="utf-8"))
    keys = ("name", "text", "helpful", "harmful")
    playbooks = {last: shown(rows) for last, rows in play(document["film"])}
    for last, entries in playbooks.items():
        points = commands.show(here, str(last))["key_points"]
        assert [tuple(point[key] for key in keys) for point in points] == entries, last
    assert max(playbooks) == meta["counts"]["events"]
    if most == 8:
        older = meta["counts"]["moments"] - 8
        snapshot = f"{older} older moments, up to event {min(playbooks)}, are one snapshot"
        assert (9, True) == (len(playbooks), f"the page has the last 8 moments; {snapshot}" in meta["warnings"])
