"""Redacting a text in all events asks first on a terminal, and needs `--yes` and `--expect` elsewhere (rule 2)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from helpers.authors import HUMAN
from helpers.redactions import content, held, texts
from helpers.repository import ROOT
from tallybook.ledger.errors import EXIT_BAD_INPUT, EXIT_NO
from tallybook.projections.playbook.entry_state import REDACTED
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.cli import main
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = ["Work with type hints", "Test with real files", "Quote ids"]
MAIN = "from tallybook.projections.surfaces.entry_point import main; main()"


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with two entries that hold the word, and one that does not."""
    here = Project(project)
    for text in TEXTS:
        commands.add(here, text, HUMAN)
    return here


def words(here: Project, *more: str) -> list[str]:
    """Return the command line that redacts a common word."""
    return ["--project", str(here.root), "redact", "--text", "with", "--reason", "a slip", *more]


def test_without_a_terminal_a_text_is_redacted_only_with_the_number_of_events(
    here: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a pipe `--yes` needs `--expect` with the number that `--dry-run` shows; else nothing changes (rule 2)."""
    before = content(here)
    for more in ((), ("--yes",), ("--expect", "2"), ("--yes", "--expect", "1"), ("--yes", "--json")):
        assert EXIT_BAD_INPUT == main.run(words(here, *more))
        out, err = capsys.readouterr()
        assert ("", before) == (out, content(here))
        assert "--expect: the text is in 2 events" in err
        assert "list them with --dry-run, then give --yes --expect 2; nothing was redacted" in err
    assert 0 == main.run(words(here, "--dry-run"))
    assert "note: 2 events in all; off a terminal, --text needs --yes --expect 2" in capsys.readouterr().out
    assert 0 == main.run(words(here, "--yes", "--expect", "2"))
    assert [REDACTED, REDACTED, TEXTS[2]] == texts(here)


@pytest.mark.skipif(os.name != "posix", reason="terminals are made on POSIX")
@pytest.mark.parametrize(("answer", "code"), [("n", EXIT_NO), ("", EXIT_NO), ("y", 0)])
def test_a_terminal_lists_the_events_and_asks(here: Project, answer: str, code: int) -> None:
    """Each event and its text are listed before the question, and only a yes redacts them."""
    before = content(here)
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-B", "-c", MAIN, *words(here)], stdin=theirs, stdout=theirs, stderr=theirs, cwd=ROOT
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
    assert (code == 0) == (texts(here) == [REDACTED, REDACTED, TEXTS[2]])
    assert (code != 0) == (before == content(here))


def test_the_dry_run_counts_the_spool_and_a_manual_edit(here: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """The number that --dry-run says is the one that --expect needs, with payloads and an edit not recorded yet."""
    document = json.loads(here.playbook.read_bytes())
    document["key_points"].append({"name": "kpt_900", "text": "Edit with care", "helpful": 1, "harmful": 0})
    here.playbook.write_text(json.dumps(document))
    with held(here):
        assert commands.add(here, "Wait with the others", HUMAN).spooled
        assert commands.record(here, {"new_key_points": ["Go with a model", "Nothing"]}, HUMAN, "once").spooled
    before = content(here)
    assert 0 == main.run(words(here, "--dry-run"))
    expected = "note: 5 events in all, 3 of them not recorded yet; off a terminal, --text needs --yes --expect 5"
    assert expected in capsys.readouterr().out
    assert 0 == main.run(words(here, "--dry-run", "--json"))
    answer = json.loads(capsys.readouterr().out)
    assert (5, 3, before) == (len(answer["events"]), answer["unrecorded"], content(here))
    assert 0 == main.run(words(here, "--yes", "--expect", "5", "--json"))
    done = json.loads(capsys.readouterr().out)
    assert [(one["seq"], one["kind"]) for one in answer["events"]] == [(e["seq"], e["kind"]) for e in done["events"]]
    assert (0, 5) == (done["unrecorded"], texts(here).count(REDACTED))
