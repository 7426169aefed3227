"""A log that was replaced by a copy of it: no writer seals it, appends to it or acknowledges it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
import shutil

import pytest

from helpers.command_line import Run
from helpers.hook_calls import call
from helpers.ledger_logs import append
from helpers.spool_files import spooled
from tallybook.ledger.errors import DamagedLedgerError
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.verification import verify
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.workspace.project import Project

OURS, THEIRS = "kpt_a", "kpt_b"


def diverge(folder: Path, count: int) -> tuple[JsonlLog, bytes]:
    """Return a ledger, and the log of a copy of it that has ``count`` other ratings in place of its last."""
    copied = folder.with_name("copy")
    log, other = JsonlLog(folder), JsonlLog(copied)
    append(log, "kpt_s")
    shutil.copytree(folder, copied)
    append(log, OURS)
    append(other, *[THEIRS] * count)
    other.close()
    return log, other.path.read_bytes()


def move_in(log: JsonlLog, data: bytes) -> None:
    """Rename another file over a log."""
    fresh = log.path.with_name("fresh")
    fresh.write_bytes(data)
    fresh.replace(log.path)


def overwrite(log: JsonlLog, data: bytes) -> None:
    """Overwrite the file of a log, which a writer may have open."""
    log.path.write_bytes(data)


@pytest.mark.parametrize("replace", [move_in, overwrite])
@pytest.mark.parametrize("count", [1, 4, 2_000], ids=["as long", "longer", "longer than the tail that is read"])
def test_a_replaced_log_is_damage_to_a_writer(
    tmp_path: Path, count: int, replace: Callable[[JsonlLog, bytes], None]
) -> None:
    """Whether the copy is as long or longer, a transaction refuses it and changes neither log nor head."""
    log, data = diverge(tmp_path / "ledger", count)
    head = (log.folder / "head").read_bytes()
    replace(log, data)
    with pytest.raises(DamagedLedgerError, match=r"does not have the chain .* that was acknowledged"):
        append(log, "late")
    log.close()
    assert (data, head) == (log.path.read_bytes(), (log.folder / "head").read_bytes())
    assert not (log.folder / "quarantine").exists()
    assert not verify(JsonlLog(log.folder)).ok


def test_a_hook_changes_nothing_in_a_damaged_ledger(project: Path, run: Run) -> None:
    """With a copy in place of the project's log, the hook spools its payload and seals nothing."""
    here, copy = Project(project), Project(project / "copy")
    commands.add(here, "Quote ids as strings.", {"rater": "human"})
    shutil.copytree(here.claude, copy.claude)
    commands.rate(here, "kpt_001", "helpful", {"rater": "human"})
    for _ in range(4):
        commands.rate(copy, "kpt_001", "harmful", {"rater": "human"})
    shutil.copyfile(copy.ledger / "events.jsonl", here.ledger / "events.jsonl")
    data = (here.ledger / "events.jsonl").read_bytes()
    assert 3 == run("verify").code
    transcript = project / "transcript.jsonl"
    transcript.write_text("{}\n")
    payload = {
        "hook_event_name": "SessionEnd",
        "cwd": str(project),
        "transcript_path": str(transcript),
    }
    call(payload)
    assert data == (here.ledger / "events.jsonl").read_bytes()
    assert 3 == run("verify").code
    assert 1 == len(spooled(here))
