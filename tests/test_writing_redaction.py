"""Redaction: what is erased, what is left, and what refuses a redacted text; `tests/tape/stories` has its answers."""

from __future__ import annotations

from collections.abc import Callable
import json
import os
from pathlib import Path
import shutil
import stat
import subprocess
import sys

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
import pytest

from helpers.authors import HUMAN
from helpers.command_line import Run
from helpers.events import list_events
from helpers.redactions import (
    PRIVATE,
    TOLD,
    content,
    counts,
    held,
    holding,
    project_with_secret,
    strike,
    texts,
)
from helpers.repository import ROOT
from tallybook import compat
from tallybook.ledger.errors import EXIT_NO
from tallybook.ledger.events import PointRated
from tallybook.ledger.playbook_constants import REDACTED
from tallybook.ledger.storage.redacted_digests import (
    FOLDER,
    MIN_TEXT_CHARS,
    NAME,
    RedactedTextError,
    normalize_look,
)
from tallybook.projections.playbook.render import playbook_bytes
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.cli import main
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing.curation import make_undo
from tallybook.projections.surfaces.writing.redact import RedactionTarget, redact
from tallybook.projections.surfaces.writing.requests import Request

TORN = b'{"crc":"00000000","seq":4,"id":"torn","body":"hunter2'


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with three entries and three ratings; one text has the secret."""
    return project_with_secret(project)


@pytest.mark.parametrize("target", [RedactionTarget(text=PRIVATE), RedactionTarget(event="4")], ids=["text", "event"])
def test_a_text_is_erased_and_all_else_is_unchanged(here: Project, target: RedactionTarget) -> None:
    """The answer names its event; counts, other texts and the chain stay; a head noted before is still valid."""
    before, head = counts(here), commands.verify_and_fold(here)[0].head
    done = redact(here, target, "it was private", HUMAN)
    assert ([4], [], ()) == ([event.seq for event in done.events], done.remaining, done.bodies)
    assert ([], []) == (holding(here), holding(here, "hunter2"))
    assert ["Use type hints", REDACTED, "Test the edges"] == texts(here)
    assert before == counts(here)
    commands.check(here)
    verdict = commands.verify_and_fold(here, expect=f"{head.seq}:{head.chain}")[0]
    assert ((), (), [4]) == (verdict.problems, verdict.notes, [redaction.seq for redaction in verdict.redacted])


def test_no_moment_shows_a_redacted_text(here: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """No moment, story, list of events, prompt or rendering shows it."""
    strike(here)
    for seq in range(1, 15):
        assert TOLD not in [entry["text"] for entry in commands.show(here, str(seq))["key_points"]]
        assert b"hunter2" not in playbook_bytes(commands.playbook(here, str(seq)).state)
    for words in (["why", "kpt_002"], ["log"], ["log", "kpt_002"], ["show"], ["show", "--at", "5"], ["verify"]):
        for flags in ([], ["--json"]):
            assert 0 == main.run(["--project", str(here.root), *words, *flags])
    loaded = compat.load_playbook()
    told = capsys.readouterr().out + compat.format_playbook(loaded) + json.dumps(loaded)
    assert "hunter2" not in told
    assert REDACTED in told
    (row,) = [row for row in list_events(here) if row["seq"] == 4]
    assert None is row["free"]
    assert "event.redacted" in [row["kind"] for row in commands.why(here, "kpt_002")["trail"]]


def test_a_dry_run_gives_the_same_answer_and_writes_nothing(here: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """It names the events and files that hold the text, spooled payloads and manual edits too."""
    (here.claude / "settings.json").write_text(TOLD)
    with held(here):
        assert commands.add(here, f"spooled {PRIVATE}", HUMAN).spooled
    before = content(here)
    assert 0 == main.run(["--project", str(here.root), "redact", "--text", PRIVATE, "--dry-run"])
    out = capsys.readouterr().out
    assert before == content(here)
    for named in ("would be redacted: event 4, point.added kpt_002", "/spool/", "playbook.json", "settings.json"):
        assert named in out


# None that ids and digests have: there a text would stand by chance.
LETTERS = st.text(st.sampled_from(list('xyXY"\\/{}é🔑\n\t\x01\u2028 ,:')), min_size=4, max_size=12)
SECRETS = LETTERS.filter(lambda text: len(text.strip()) >= MIN_TEXT_CHARS)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(secret=SECRETS, others=st.lists(LETTERS, min_size=1, max_size=3), beside=LETTERS, long=st.booleans())
def test_any_text_can_be_erased_from_the_project(
    new_project: Callable[[], Path], secret: str, others: list[str], beside: str, *, long: bool
) -> None:
    """No file holds it afterwards; other texts, all counts and the chain before it stay."""
    here = Project(new_project())
    said = [f"{beside}{secret}{'x' * 10_000 * long}{secret}", *(f"other {text}" for text in others)]
    names = commands.record(here, {"new_key_points": said}, HUMAN).added
    commands.rate(here, names[0], "helpful", HUMAN)
    (here.ledger / "a.json").write_text(json.dumps({"said": said}))
    shown, before, head = texts(here), counts(here), commands.verify_and_fold(here)[0].head
    done = strike(here, secret)
    assert ([], [], []) == (done.remaining, holding(here, secret), list(done.bodies))
    look = normalize_look(secret)
    is_alike = len(look.strip()) >= MIN_TEXT_CHARS
    gone = [secret in text or (is_alike and look in normalize_look(text)) for text in shown]
    assert [REDACTED if is_gone else text for text, is_gone in zip(shown, gone, strict=True)] == texts(here)
    assert before == counts(here)
    verdict = commands.verify_and_fold(here, expect=f"{head.seq}:{head.chain}")[0]
    assert ((), ()) == (verdict.problems, verdict.notes)
    assert 1 == sum(isinstance(e, PointRated) for batch in reading.batches(here) for e in batch.events)
    commands.check(here)


TEXTS = ["Work with type hints", "Test with real files", "Quote ids"]
MAIN = "from tallybook.projections.surfaces.entry_point import main; main()"


@pytest.fixture
def named(project: Path) -> Project:
    """Return a project with two entries that hold the word, and one that does not."""
    named = Project(project)
    for text in TEXTS:
        commands.add(named, text, HUMAN)
    return named


def words(named: Project, *more: str) -> list[str]:
    """Return the command line that redacts a common word."""
    return ["--project", str(named.root), "redact", "--text", "with", "--reason", "a slip", *more]


@pytest.mark.skipif(os.name != "posix", reason="terminals are made on POSIX")
@pytest.mark.parametrize(("answer", "code"), [("n", EXIT_NO), ("", EXIT_NO), ("y", 0)])
def test_a_terminal_lists_the_events_and_asks(named: Project, answer: str, code: int) -> None:
    """Each event and its text are listed before the question, and only a yes redacts them."""
    before = content(named)
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-B", "-c", MAIN, *words(named)], stdin=theirs, stdout=theirs, stderr=theirs, cwd=ROOT
    ) as process:
        os.close(theirs)
        os.write(ours, f"{answer}\n".encode())
        shown = ""
        try:
            while piece := os.read(ours, 4096):
                shown += piece.decode()
        except OSError:
            # The terminal's other end is closed.
            pass
    os.close(ours)
    assert code == process.returncode
    assert all(text in shown.partition("Redact the whole text of 2 events?")[0] for text in TEXTS[:2])
    assert "Redact the whole text of 2 events?" in shown
    assert (code == 0) == (texts(named) == [REDACTED, REDACTED, TEXTS[2]])
    assert (code != 0) == (before == content(named))


FIRST, LAST = "Use type hints", "Test the edges"


def assert_erased(here: Project, *others: str) -> None:
    """Check that the playbook has these texts after the first ones, and no file holds the secret."""
    assert [FIRST, REDACTED, LAST, *others] == texts(here)
    assert ([], []) == (holding(here), holding(here, "hunter2"))
    verdict = commands.verify_and_fold(here)[0]
    assert ((), ()) == (verdict.problems, verdict.notes)


def test_an_update_saved_after_a_redaction_loses_only_the_redacted_text(here: Project) -> None:
    """Its other texts and ratings count, and a rating of the refused text counts for no entry."""
    loaded = compat.load_playbook()
    strike(here)
    compat.update_playbook_data(loaded, {"new_key_points": [f"so {PRIVATE}"], "evaluations": []})
    (refused,) = {entry["name"] for entry in loaded["key_points"]} - {"kpt_001", "kpt_002", "kpt_003"}
    commands.add(here, "of another session", HUMAN)
    rated = [{"name": name, "rating": "harmful"} for name in (refused, "kpt_001")]
    compat.update_playbook_data(loaded, {"new_key_points": ["fresh"], "evaluations": rated})
    with pytest.warns(UserWarning, match="redacted by event 14"):
        compat.save_playbook(loaded)
    assert_erased(here, "of another session", "fresh")
    assert [1, 0, 0, 0, 0] == [entry["harmful"] for entry in commands.show(here)["key_points"]]
    assert [FIRST, TOLD, LAST, "fresh"] == [entry["text"] for entry in loaded["key_points"]]
    compat.update_playbook_data(loaded, {"evaluations": [{"name": refused, "rating": "harmful"}]})
    compat.save_playbook(loaded)
    assert [1, 0, 0, 0, 0] == [entry["harmful"] for entry in commands.show(here)["key_points"]]


def test_the_reason_of_an_undo_is_compared_under_the_lock(here: Project) -> None:
    """A redaction can end after the undo began."""
    undo = Request(make_undo(["id-1"], reason=f"for {PRIVATE}"), HUMAN)
    strike(here)
    with pytest.raises(RedactedTextError):
        commands.record_request(here, undo)
    assert_erased(here)


def test_the_digests_are_in_one_private_file_that_git_ignores(here: Project) -> None:
    """It is 0600, holds no text, has a key of its own, and is ignored even if the ledger is tracked."""
    strike(here)
    path = here.ledger / FOLDER / NAME
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    assert "hunter2" not in path.read_text()
    shared = stat.S_IMODE(here.ledger.stat().st_mode) | stat.S_IWGRP
    here.ledger.chmod(shared)
    strike(here, FIRST)
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    (here.ledger / ".gitignore").unlink()
    for words in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *words], cwd=here.root, check=True, capture_output=True)
    tracked = subprocess.run(["git", "ls-files"], cwd=here.root, check=True, capture_output=True, text=True).stdout
    assert "events.jsonl" in tracked
    assert NAME not in tracked


@pytest.mark.usefixtures("here")
def test_what_looks_the_same_is_found_after_a_backslash(run: Run) -> None:
    """The backslash of a path is no escape that hides what follows it."""
    run("add", r"Read C:\nadia  zwiebel first")
    assert "point.added kpt_004" in run("redact", "--text", "nadia zwiebel", "--dry-run").out


def test_a_redacted_text_in_the_spool_is_left_out(here: Project) -> None:
    """The next command says so, and records the rest of the payload."""
    strike(here)
    with held(here):
        assert commands.record(here, {"new_key_points": [f"{TOLD}!", "later"]}, {"rater": "reflector"}).spooled
    notes = commands.rate(here, "kpt_001", "helpful", HUMAN).notes
    assert any("the text was redacted by event 14; a person can add it" in note for note in notes)
    assert_erased(here, "later")
