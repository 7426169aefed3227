"""The redaction that the page of engines describes for git, typed as it stands there."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from helpers.books import make_run
from helpers.documentation import PAGES
from helpers.git_repositories import git, make_remote
from tallybook.ledger.batches import verify_run
from tallybook.ledger.line import FRAME_BYTES, START, Draft, Position, Stamp, frame, head_field
from tallybook.ledger.sharing.engines.engine import NOTHING, Outcome, Run
from tallybook.ledger.sharing.engines.git import GitEngine
from tallybook.ledger.storage.redaction import mask

if TYPE_CHECKING:
    from pathlib import Path

TEXT = "the text that should go "


def make_text_run(text: str, after: Position) -> tuple[Run, Position]:
    """Return a run of one batch: a text between two ratings, of which the last is on the line of the chain."""
    ids = iter("abcdefghijklmnopqrstuvwxyz")
    drafts = [
        Draft("point.rated", 1, {"name": "kpt_001", "rating": "helpful"}),
        Draft("point.added", 1, {"name": "kpt_900"}, {"text": text}),
    ]
    batch = frame(
        drafts, Stamp(after, "2026-11-23T12:00:00.000000Z", {"rater": "x"}, lambda: next(ids), lambda: "salt")
    )
    return Run(batch.first, batch.last, after.chain, batch.chain, batch.raw), batch.position


def test_the_documented_commands_erase_a_text_and_its_history(tmp_path: Path) -> None:
    """The text is gone from every object that the branch reaches; no byte moved, and the book verifies and goes on."""
    remote = make_remote(tmp_path / "remote.git")
    long, end = make_text_run(TEXT * 2000, Position(0, NOTHING.chain, 0))
    other, end = make_run(end, "ben", "kpt_002", text="another text")
    short, end = make_text_run(TEXT, end)
    engine = GitEngine(str(remote), "main", str(tmp_path / "cache"))
    for run in (long, other, short):
        assert Outcome.DONE is engine.append(engine.read(0).end, [run]).outcome
    section = PAGES["ledger/sharing/engines/README.md"].split("\n## git\n")[1].split("\n## ")[0]
    script = section.split("```sh\n")[1].split("```")[0].replace("BOOK", "main").replace("REMOTE", f"file://{remote}")
    event = "b"
    who = {f"GIT_{who}_{field}": "me@here" for who in ("AUTHOR", "COMMITTER") for field in ("NAME", "EMAIL")}
    command = ["sh", "-eu", "-c", script.replace("EVENT", event)]
    subprocess.run(command, cwd=tmp_path, check=True, env=os.environ | who, capture_output=True)
    runs = engine.read(0).runs
    expected = [mask(run.data[:-FRAME_BYTES], {event}) + run.data[-FRAME_BYTES:] for run in (long, other, short)]
    assert expected == [run.data for run in runs]
    data = b"".join(run.data for run in runs)
    assert (False, True) == (TEXT.encode() in data, b"another text" in data)
    assert end == verify_run(data, START, (), None).batches[-1].position
    assert "1" == git(remote, "rev-list", "--count", "tallybook/main")
    more, _ = make_run(end, "anna", "kpt_003")
    assert Outcome.DONE is engine.append(engine.read(0).end, [more]).outcome
    assert [head_field(run.data, b"id") for run in (long, other, short, more)] == [
        head_field(run.data, b"id") for run in engine.read(0).runs
    ]
