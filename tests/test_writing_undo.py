"""`undo`: which change it takes, what it leaves alone, and the command that each answer names."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from helpers.authors import HUMAN
from helpers.events import list_events
from helpers.injections import injected
from helpers.reference_model import book, extraction, point
from tallybook.ledger.codec import encode
from tallybook.ledger.errors import EXIT_NO
from tallybook.ledger.events import PointCited, ReflectionCompleted, ReflectionRequested
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.command_line import Run
    from tallybook.ledger.events import Event

ENTRIES = 2_000


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with two entries (events 2 to 5) of which the second was rated harmful (events 6 and 7)."""
    made = Project(project)
    for text in ("Quote ids as strings.", "Ask Jane Roe."):
        commands.add(made, text, HUMAN)
    commands.rate(made, "kpt_002", "harmful", HUMAN)
    return made


def shown(here: Project) -> dict[str, tuple[int, int]]:
    """Return the counts of the entries in playbook.json, which must be the replay."""
    commands.check(here)
    doc = json.loads(here.playbook.read_bytes())
    return {kp["name"]: (kp["helpful"], kp["harmful"]) for kp in doc["key_points"]}


def append(here: Project, *events: Event) -> None:
    """Append a batch like a hook or a reflection."""
    with reading.open_log(here).transaction() as tx:
        tx.append(list(map(encode, events)), {"rater": "agent", "session": "s1"})


def log_bytes(here: Project) -> bytes:
    """Return the log's bytes."""
    return (here.ledger / "events.jsonl").read_bytes()


def import_file(here: Project, run: Run, count: int) -> None:
    """Import a legacy file with so many entries, named by their texts' numbers."""
    file = here.root / "old.json"
    points = [point(f"old_{number}", f"text {number}") for number in range(count)]
    file.write_text(json.dumps(book(*points)), encoding="utf-8")
    assert 0 == run("import", str(file)).code


# Which change plain undo takes


def test_undo_skips_injections_citations_and_reflection_records(here: Project, run: Run) -> None:
    """Events since the last rating changed neither the playbook nor a score, so the rating is undone."""
    append(here, injected(("kpt_001",), 1), PointCited("kpt_001", "message"))
    append(here, ReflectionRequested(100, "SessionEnd", "t.jsonl"))
    append(here, ReflectionCompleted("claude", 10, 20))
    commands.record(here, extraction(), {"rater": "reflector", "session": "s1"})
    undone = "undone: event 6, kpt_002 rated harmful\nundone: event 7, update: 1 rating\n"
    assert (0, f"{undone}to bring this back, run: tallybook undo 13\n", "") == run("undo")
    assert {"kpt_001": (0, 0), "kpt_002": (0, 0)} == shown(here)


# What plain undo leaves alone


def refusal(here: Project, run: Run) -> str:
    """Return the message of a plain undo that changes nothing; the ledger must not change, and the exit code is 1."""
    before = log_bytes(here)
    answer = run("undo")
    assert (EXIT_NO, "", 1) == (answer.code, answer.out, answer.err.count("\n"))
    assert before == log_bytes(here)
    return answer.err


def test_undo_after_a_redaction_names_the_change_before_it(here: Project, run: Run) -> None:
    """A redaction cannot be undone; the rating before it is undone by the number that the answer names."""
    assert 0 == run("redact", "--text", "Jane Roe", "--reason", "a name", "--yes", "--expect", "1").code
    assert (
        "tallybook: undo: nothing was changed: the last change is a redaction, event 8, which cannot be undone; "
        "to undo event 7 (kpt_002 rated harmful), run: tallybook undo 7\n"
    ) == refusal(here, run)
    assert 0 == run("undo", "7").code
    assert {"kpt_001": (0, 0), "kpt_002": (0, 0)} == shown(here)


def test_undo_after_an_undo_names_the_redo_and_the_change_before_it(here: Project, run: Run) -> None:
    """Repeated, it does not walk back: it changes nothing until one of the two commands is chosen."""
    assert 0 == run("undo").code
    for _ in range(2):
        assert (
            "tallybook: undo: nothing was changed: the last change is itself an undo, event 8; to bring back what it "
            'undid, run: tallybook undo 8; to undo event 5 (learned kpt_002 "Ask Jane Roe."), '
            "run: tallybook undo 5\n"
        ) == refusal(here, run)
    assert "to bring this back, run: tallybook undo 9\n" in run("undo", "8").out
    assert {"kpt_001": (0, 0), "kpt_002": (0, 1)} == shown(here)
    said = refusal(here, run)
    assert "an undo, event 9; to bring back what it undid, run: tallybook undo 9; " in said
    assert said.endswith("run: tallybook undo 7\n")


def test_undo_takes_no_import_and_names_the_command_for_it(here: Project, run: Run) -> None:
    """The import and the change before it stay, until one is chosen by its number."""
    import_file(here, run, 3)
    said = refusal(here, run)
    assert "the last change is an import, event 8, which needs its number; to undo it, run: tallybook undo 8;" in said
    assert said.endswith("to undo event 7 (kpt_002 rated harmful), run: tallybook undo 7\n")
    assert 0 == run("undo", "8").code
    assert {"kpt_001": (0, 0), "kpt_002": (0, 1)} == shown(here)


# What a number stands for


def test_the_number_of_an_update_means_all_of_it(here: Project, run: Run) -> None:
    """The number of a rating in it means the rating alone."""
    commands.record(here, extraction(("kpt_001", "helpful"), ("kpt_002", "helpful")), {"rater": "human"})
    assert [8] == [event["seq"] for event in json.loads(run("undo", "8", "--json").out)["events"]]
    assert {"kpt_001": (0, 0), "kpt_002": (1, 1)} == shown(here)
    assert [9, 10] == [event["seq"] for event in json.loads(run("undo", "10", "--json").out)["events"]]
    assert {"kpt_001": (0, 0), "kpt_002": (0, 1)} == shown(here)


@pytest.mark.usefixtures("here")
def test_restore_of_an_undone_entry_names_the_undo(run: Run) -> None:
    """The answer is the command that restores the entry."""
    assert 0 == run("undo", "4").code
    refused = "tallybook: kpt_002: was undone by event 8; run: tallybook undo 8\n"
    assert (EXIT_NO, "", refused) == run("restore", "kpt_002")
    assert 0 == run("undo", "8").code
    refused = "tallybook: kpt_002: is in the playbook; nothing was recorded\n"
    assert (EXIT_NO, "", refused) == run("restore", "kpt_002")


@pytest.mark.usefixtures("here")
def test_restore_of_a_merged_entry_names_the_undo_of_the_merge(run: Run) -> None:
    """The answer is the command that separates the entries, also after an earlier merge was undone."""
    for words in (("merge", "kpt_001", "kpt_002"), ("undo", "8"), ("merge", "kpt_001", "kpt_002")):
        assert 0 == run(*words).code
    refused = "tallybook: kpt_002: was merged into kpt_001 by event 10; run: tallybook undo 10\n"
    assert (EXIT_NO, "", refused) == run("restore", "kpt_002")
    assert 0 == run("undo", "10").code


# Thousands of events


def seqs_of_last_batch(here: Project) -> list[int]:
    """Return the numbers of the events of the last batch."""
    rows: list[dict[str, Any]] = list(list_events(here))
    at = rows[-1]["at"]
    return [row["seq"] for row in rows if row["at"] == at]


def test_an_import_of_thousands_is_undone_and_redone_with_one_command_each(here: Project, run: Run) -> None:
    """The undo is one batch of several events; its number, in the answer, restores all of it."""
    import_file(here, run, ENTRIES)
    before = here.playbook.read_bytes()
    answer = run("undo", "8", "--reason", "x" * 1_000)
    first = 8 + ENTRIES + 1
    assert (0, "") == (answer.code, answer.err)
    assert f"and {ENTRIES + 1 - 20:,} more\nto bring this back, run: tallybook undo {first}\n" in answer.out
    assert [first, first + 1, first + 2] == seqs_of_last_batch(here)
    assert {"kpt_001": (0, 0), "kpt_002": (0, 1)} == shown(here)
    assert f"run: tallybook undo {first};" in refusal(here, run)
    for number in (first + 1, first + 3):
        # Any event of a batch of undos stands for the whole batch: back it comes, and goes again.
        assert 0 == run("undo", str(number)).code
    assert {"kpt_001": (0, 0), "kpt_002": (0, 1)} == shown(here)
    assert 0 == run("undo", str(first + 4)).code
    assert json.loads(before)["key_points"] == json.loads(here.playbook.read_bytes())["key_points"]
    assert 0 == run("verify").code
