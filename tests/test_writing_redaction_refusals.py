"""Saves, manual edits, imports, updates and `add` refuse a redacted text, and nothing else."""

from __future__ import annotations

import json
import shutil
import stat
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from helpers.authors import HUMAN
from helpers.redactions import PRIVATE, TOLD, held, holding, project_with_secret, strike, texts
from tallybook import compat
from tallybook.ledger.errors import EXIT_NO, CannotWriteError
from tallybook.ledger.playbook_constants import REDACTED
from tallybook.ledger.storage.redacted_digests import FOLDER, NAME, RedactedTextError
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.writing.curation import make_undo
from tallybook.projections.surfaces.writing.requests import Request

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from helpers.command_line import Run
    from tallybook.projections.surfaces.workspace.project import Project

NAMED = "the text was redacted by event 14; a person can add it with `tallybook add --again`"
FIRST, LAST = "Use type hints", "Test the edges"


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with three entries and three ratings; one text has the secret."""
    return project_with_secret(project)


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


@pytest.mark.parametrize("stamped", [True, False])
def test_a_file_saved_after_a_redaction_restores_no_text(
    here: Project,
    write_playbook: Callable[[object], Path],
    read_playbook: Callable[[], dict[str, Any]],
    *,
    stamped: bool,
) -> None:
    """An old file, with its `ledger` key or without, counts except for the text, and the redaction is named."""
    document = read_playbook()
    strike(here)
    if not stamped:
        del document["ledger"]
    document["note"] = f"about {PRIVATE}"
    document["key_points"][2]["helpful"] = 5
    document["key_points"] += [f"and {PRIVATE}", {"text": "odd", "why": TOLD}, "fresh"]
    write_playbook(document)
    done = commands.rate(here, "kpt_001", "helpful", HUMAN)
    assert any(NAMED in note for note in done.notes)
    assert_erased(here, "odd", "fresh")
    assert 5 == commands.show(here)["key_points"][2]["helpful"]


def test_an_import_restores_no_redacted_text(here: Project) -> None:
    """The other entries of the file are imported, and the refused ones are among its problems."""
    strike(here)
    document = {"key_points": [TOLD, "fresh", {"text": "odd", "why": PRIVATE}, {"no": PRIVATE}], "title": PRIVATE}
    done = commands.import_file(here, json.dumps(document).encode(), "old.json")
    assert (2, 4) == (done.imported, sum(NAMED in problem["message"] for problem in done.problems) + 1)
    assert_erased(here, "fresh", "odd")


def test_an_update_and_its_quotes_restore_no_redacted_text(here: Project) -> None:
    """A reflection's refused text is ignored with its reason, at once and from the spool; the rest counts."""
    strike(here)
    payload = {"new_key_points": [TOLD, "fresh"], "evaluations": [{"name": "kpt_001", "rating": "harmful"}]}
    done = commands.record(here, payload, {"rater": "reflector"})
    assert [("new_key_points[0]", NAMED)] == [(part.item, part.reason) for part in done.ignored]
    with held(here):
        assert commands.record(here, {"new_key_points": [f"{TOLD}!", "later"]}, {"rater": "reflector"}).spooled
    noted = commands.rate(here, "kpt_001", "helpful", HUMAN, reason=f"for {PRIVATE}")
    assert any(NAMED in note for note in noted.notes)
    assert_erased(here, "fresh", "later")


def test_add_refuses_a_redacted_text_and_again_accepts_it(here: Project, run: Run) -> None:
    """`add` exits 1 and names the redaction; `add --again` by a person adds it, and later saves accept it."""
    plain = json.loads(json.dumps(compat.load_playbook()))
    strike(here)
    refused = run("add", TOLD)
    assert (1, "") == (refused.code, refused.out)
    assert f"text: {NAMED}" in refused.err
    assert 2 == run("add", "--again", TOLD, "--rater", "reflector").code
    assert_erased(here)
    assert 0 == run("add", "--again", TOLD).code
    assert [FIRST, REDACTED, LAST, TOLD] == texts(here)
    commands.rate(here, "kpt_001", "helpful", HUMAN)
    with pytest.raises(RedactedTextError):
        commands.add(here, f"also {PRIVATE}", HUMAN)
    compat.save_playbook(plain)
    assert [FIRST, TOLD, LAST] == texts(here)[:3]
    strike(here)
    with pytest.raises(RedactedTextError):
        commands.add(here, TOLD, HUMAN)


@pytest.mark.parametrize("words", [("retire", "kpt_001"), ("undo", "3")])
def test_a_reason_that_holds_a_redacted_text_is_refused(here: Project, run: Run, words: tuple[str, ...]) -> None:
    """The reason of a retirement or an undo is a new text like any other."""
    strike(here)
    done = run(*words, "--reason", f"for {PRIVATE}")
    assert (EXIT_NO, "", f"tallybook: reason: {NAMED}; nothing was recorded\n") == done
    assert_erased(here)


def test_the_reason_of_an_undo_is_compared_under_the_lock(here: Project) -> None:
    """A redaction can end after the undo began."""
    undo = Request(make_undo(["id-1"], reason=f"for {PRIVATE}"), HUMAN)
    strike(here)
    with pytest.raises(RedactedTextError):
        commands.record_request(here, undo)
    assert_erased(here)


def test_a_short_redacted_text_is_refused_as_whole_words_alone(here: Project) -> None:
    """A needle under 8 characters refuses texts that hold it as words, and a longer one all that hold it."""
    commands.add(here, "Jane is the customer", HUMAN)
    commands.add(here, "the mailbox of customers", HUMAN)
    strike(here, "Jane")
    strike(here, "customers")
    for text in ("ask Jane, always", "ourcustomersare"):
        with pytest.raises(RedactedTextError):
            commands.add(here, text, HUMAN)
    commands.add(here, "Janette, MaryJane", HUMAN)


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


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"key": "x"}', b'{"key": "00", "redacted": [1], "accepted": []}'])
def test_a_damaged_file_of_digests_refuses_new_texts(here: Project, data: bytes) -> None:
    """The texts to refuse are unknown, and the error names the file."""
    strike(here)
    (here.ledger / FOLDER / NAME).write_bytes(data)
    with pytest.raises(CannotWriteError, match=NAME):
        commands.add(here, "fresh", HUMAN)
