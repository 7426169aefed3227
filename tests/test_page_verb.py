"""`tallybook page`: the file that it writes, what is in it, and what never is."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from helpers.authors import HUMAN
from helpers.film_reader import bytes_of, read_page
from helpers.reference_model import extraction
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.console.story_text import tell_story
from tallybook.projections.surfaces.page.document import assemble, is_page, security_policy
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.command_line import Run

HOSTILE = "</script><script>alert(1)</script>\u202e<!--style-->&lt;" + "x" * 9000
SESSION = "$(touch owned)"
TOKEN = "ghp_" + "a1B2" * 9


@pytest.fixture
def here(project: Path) -> Project:
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


def test_it_says_what_the_file_has(here: Project, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer names the file, its events, moments, entries and sessions, what it leaves out, and the head."""
    monkeypatch.chdir(here.root)
    done = run("page")
    head = run("verify").out.rpartition(" ")[2].strip()
    data = (here.root / "tallybook-page.html").read_bytes()
    assert (0, "") == (done.code, done.err)
    assert (
        "tallybook-page.html written: 15 events, 6 moments, 2 entries, 2 sessions; with the texts of entries, "
        f"without quotes and reasons; ledger head {head}; {len(data):,} bytes\n"
    ) == done.out
    told = json.loads(run("page", "--json").out)
    assert ["path", "bytes", "counts", "texts", "quotes", "head", "warnings"] == list(told)


def test_it_overwrites_a_page_and_nothing_else(here: Project, run: Run) -> None:
    """A page is replaced; any other file only with --force; the playbook and the ledger never."""
    path, other = here.root / "a.html", here.root / "b.html"
    other.write_text("mine")
    assert (0, 0) == (run("page", "-o", str(path)).code, run("page", "-o", str(path)).code)
    done = run("page", "-o", str(other))
    why = "is not a page of Tallybook; give another file, or --force"
    assert (2, f"tallybook: {other}: {why}\n") == (done.code, done.err)
    assert "mine" == other.read_text()
    assert 0 == run("page", "-o", str(other), "--force").code
    assert (True, True) == (is_page(path), is_page(other))
    for refused in (here.playbook, here.ledger / "x.html", here.root):
        assert 2 == run("page", "-o", str(refused), "--force").code, refused


def test_it_opens_at_a_moment_and_an_entry(here: Project, run: Run) -> None:
    """WHEN and NAME are in the page; without them it opens at the end with no entry selected."""
    meta, document, _ = page(here, run, "--at", "~3", "KPT_2")
    names = document["film"]["names"]
    assert (12, "kpt_002") == (meta["opens"]["event"], names[meta["opens"]["entry"]])
    assert {"event": 15, "entry": None} == page(here, run)[0]["opens"]


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (("nothing",), 1, "nothing: no entry ever had this name"),
        (("--at", "99"), 2, "--at 99: the ledger ends at seq 15"),
        (("--with-quotes", "--without-texts"), 2, "--with-quotes and --without-texts: exclude each other"),
    ],
)
def test_bad_input_writes_no_file(here: Project, run: Run, words: tuple[str, ...], code: int, why: str) -> None:
    """An unknown entry or moment, and options that contradict each other, get one line and no file."""
    done = run("page", "-o", str(here.root / "a.html"), *words)
    assert (code, True) == (done.code, done.err.startswith(f"tallybook: {why}"))
    assert not (here.root / "a.html").exists()


def test_the_security_policy_allows_the_own_style_and_script_alone(here: Project, run: Run) -> None:
    """The hashes are those of the only style and the only script that runs; nothing is named by an address."""
    _, _, text = page(here, run)
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
    here = Project(project)
    commands.add(here, HOSTILE, HUMAN)
    meta, document, text = page(here, run, "kpt_001")
    assert (False, False) == ("alert(1)" in text, "\u202e" in text)
    assert [HOSTILE] == document["film"]["texts"]
    hostile = assemble({"served": False, "project": "</script><!--script-->"}, {}).decode()
    assert ("</script><!--script-->", 3) == (read_page(hostile)[0]["project"], hostile.count("</script>"))
    assert "project" in meta


def test_without_texts_leaves_out_texts_and_people(here: Project, run: Run) -> None:
    """No text, session, agent, model or project name is anywhere in the file; counts and names are."""
    commands.rate(here, "kpt_001", "helpful", HUMAN, reason="it was right")
    meta, document, text = page(here, run, "--without-texts")
    everything = text.encode() + bytes_of(document)
    for private in ("use types", "delete the cache", "s-one", "touch owned", "agent-x", "model-y", "it was right"):
        assert private.encode() not in everything, private
    assert (False, "", 2) == (meta["texts"], meta["project"], meta["counts"]["sessions"])
    assert "texts" not in document["film"]
    full = bytes_of(page(here, run, "--with-quotes")[1])
    for shown in ("use types", "s-one", "touch owned", "agent-x", "model-y", "it was right"):
        assert shown.encode() in full, shown


def test_quotes_and_reasons_are_left_out_unless_asked_for(here: Project, run: Run) -> None:
    """A reason of a rating, a retirement or an undo is in the file with --with-quotes alone."""
    commands.rate(here, "kpt_001", "helpful", HUMAN, reason="said in the review")
    assert 0 == run("retire", "kpt_003", "--reason", "never needed").code
    reasons = (b"said in the review", b"never needed")
    meta, document, _ = page(here, run)
    assert [] == [reason for reason in reasons if reason in bytes_of(document)]
    assert (False, False) == (meta["quotes"], bool(document["quotes"]))
    meta, document, _ = page(here, run, "--with-quotes")
    said = document["quotes"]
    quotes = dict(zip(said["event"], map(tuple, said["quotes"]), strict=True))
    assert {("note", "helpful: said in the review"), ("reason", "never needed")} == set(quotes.values())


def test_secrets_are_masked_and_redacted_texts_gone(here: Project, run: Run) -> None:
    """A token that a person recorded is masked on the page, and a redacted text is nowhere in it."""
    commands.add(here, f"log in with {TOKEN}", HUMAN)
    commands.add(here, "ask Miller about it", HUMAN)
    assert 0 == run("redact", "--text", "ask Miller about it", "--reason", "a name", "--yes", "--expect", "1").code
    meta, document, _ = page(here, run, "--with-quotes")
    everything = bytes_of(document)
    assert (False, False) == (TOKEN.encode() in everything, b"Miller" in everything)
    assert {"log in with [masked: GitHub Token]", "[redacted]"} <= {*document["film"]["texts"]}
    assert ["the texts of 1 event are redacted"] == meta["warnings"]


def test_a_story_says_what_why_says(here: Project, run: Run) -> None:
    """The sentences, the deciding events and the other names are those of `why`, also after an undo."""
    commands.record(here, extraction(new=["use TYPES"]), HUMAN)
    for words in (("undo", "14"), ("merge", "kpt_001", "kpt_004"), ("retire", "kpt_003"), ("undo",), ("undo",)):
        run(*words)
    _, document, _ = page(here, run, "--with-quotes")
    names = document["film"]["names"]
    tables = document["stories"]
    assert (len(names), 0) == (len(tables["stories"]), tables["omitted"])
    for told in tables["stories"]:
        story, extras = commands.why(here, names[told["entry"]])
        assert list(tell_story(story, extras)) == told["sentences"]
        assert [event["seq"] for event in extras["deciding"]] == told["deciding"]
        others = [[names[name], status, relation, names[of]] for name, status, relation, of in told["others"]]
        assert [[row[key] for key in ("name", "status", "relation", "of")] for row in extras["lineage"]] == others


def test_redact_and_doctor_list_the_pages_of_a_project(here: Project, run: Run) -> None:
    """A page in the project is out of reach of a redaction, wherever it lies and whatever it is called."""
    other = here.root / "docs" / "old.HTM"
    for path in (other, here.root / ".hidden" / "a.html", here.root / "node_modules" / "a.html"):
        path.parent.mkdir()
        assert 0 == run("page", "-o", str(path)).code
    (here.root / "docs" / "index.html").write_text("<p>mine</p>")
    assert "is a page" not in run("doctor").out
    words = ("redact", "--text", "use types", "--reason", "a name", "--yes", "--expect", "1")
    assert [str(other)] == json.loads(run(*words, "--dry-run", "--json").out)["pages"]
    line = f"out of reach: {other} is a page, which may hold it; delete it, or write it again with `tallybook page`"
    assert line in run(*words).out.splitlines()
    fix = f"run `tallybook page -o {other}` to write it again"
    assert f"note  redaction: docs/old.HTM is a page, which no redaction reaches; {fix}" in run("doctor").out
