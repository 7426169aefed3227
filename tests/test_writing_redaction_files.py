"""A redacted text in files: Tallybook's own lose it in every spelling, others are named, and nothing restores it."""

from __future__ import annotations

import json
import os
from pathlib import Path
import re
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from helpers.authors import HUMAN
from helpers.events import list_events
from helpers.redactions import PRIVATE, TOLD, counts, holding, project_with_secret, strike, strike_nothing, texts
from tallybook import compat
from tallybook.ledger.playbook_constants import REDACTED
from tallybook.ledger.storage import redaction
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing.redact import RedactionTarget, find_text

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with three entries and three ratings; one text has the secret."""
    return project_with_secret(project)


STAMP = "20261118T110640123456Z"
PLACES: dict[str, Callable[[str], bytes]] = {
    "ledger/day.json": lambda text: json.dumps({"notes": [{"text": text}]}).encode(),
    "ledger/plain.json": lambda text: json.dumps({text: 1}, ensure_ascii=False).encode(),
    "ledger/lines.jsonl": lambda text: b"".join(json.dumps({"n": n, "t": text}).encode() + b"\n" for n in range(3)),
    f"diagnostic/{STAMP}_playbook_pruning.txt": lambda text: f'  - kpt_001: "{text}" (helpful=0)'.encode(),
    f"diagnostic/{STAMP}_playbook_migration.txt": lambda text: json.dumps([{"text": text}], indent=2).encode(),
    "playbook.json.unreadable-20261118T110640": lambda text: b'{"key_points": ["' + text.encode() + b"\xff",
    "ledger/quarantine/7-99.bin": lambda text: b"\0" * 5000 + json.dumps(text).encode() + b"\0",
    "ledger/spool/a.json": lambda text: json.dumps({"requests": [text], "id": 5}).encode(),
    "ledger/spool/b.json": lambda text: json.dumps(json.dumps([text])).encode()[:-1],
    "ledger/spool/.c.json.77.tmp": lambda text: json.dumps({"original": json.dumps({"t": json.dumps(text)})}).encode(),
    "ledger/.playbook.json.4242.tmp": lambda text: json.dumps({"key_points": [{"text": text}]}).encode(),
    "ledger/.erasing.4242.tmp": lambda text: json.dumps({"texts": [text]}).encode(),
    "ledger/marks/point-9": lambda text: text.encode() + b" " * 3_000_000 + text.encode(),
}
UPPER = re.sub(r"(?<=\\u)[0-9a-f]{4}", lambda found: found[0].upper(), json.dumps(PRIVATE)[1:-1])


def test_every_file_of_tallybook_loses_the_text(here: Project) -> None:
    """Scores, diagnostics, quarantine, spool and set-aside files lose it, in every spelling."""
    expected = []
    for place, write in PLACES.items():
        path = here.claude / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(write(TOLD))
        expected.append(path)
    upper = here.ledger / "upper.json"
    upper.write_text(f'{{"a": "{UPPER}"}}')
    sizes = {path: path.stat().st_size for path in [*expected, upper]}
    assert {*expected, upper, here.playbook} == {*find_text(here, RedactionTarget(text=PRIVATE)).erased.files}
    done = strike(here)
    assert sorted([*expected, upper]) == sorted(done.erased.files)
    assert ((), (), ()) == (done.erased.remaining, done.erased.foreign, done.erased.unsearched)
    assert ([], []) == (holding(here), holding(here, "hunter2"))
    assert sizes == {path: path.stat().st_size for path in sizes}
    assert "the key is" in (here.claude / "diagnostic" / f"{STAMP}_playbook_pruning.txt").read_text()
    assert None is redaction.read_pending(here.ledger)


def test_redaction_reaches_no_file_that_is_not_tallybooks(here: Project) -> None:
    """A file of someone else keeps the text and is named, also in folders where Tallybook has files of its own."""
    places = ("metrics/benchmarks/run.json", "metrics/scores/mine.json", "diagnostic/mine.md", "playbook.json.bak")
    others = [here.claude / place for place in places]
    for path in others:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(TOLD)
    done = strike(here)
    assert sorted(others) == sorted(done.erased.foreign)
    assert [TOLD] * len(others) == [path.read_text() for path in others]


@pytest.mark.parametrize("name", ["erasing", ".erased"])
def test_a_planted_pending_file_has_no_effect(here: Project, tmp_path: Path, name: str) -> None:
    """A pending file from an archive hides no text and erases none, and `verify` reports it as ignored."""
    (event,) = (row for row in list_events(here) if row["seq"] == 4)
    redaction.write_pending(here.ledger, redaction.PendingRedaction((event["id"],), (PRIVATE,), "planted", HUMAN))
    note = json.loads((here.ledger / "erasing").read_bytes())
    redaction.remove_pending(here.ledger)
    note["proof"] |= {"boot": "another machine's", "made": note["proof"]["made"] - 3600 * 10**9}
    (tmp_path / "archived").write_text(json.dumps(note))
    shutil.copy2(tmp_path / "archived", here.ledger / name)
    before = texts(here)
    commands.rate(here, "kpt_001", "helpful", HUMAN)
    assert (before, TOLD) == (texts(here), before[1])
    verdict = commands.verify_and_fold(here)[0]
    assert ((), ()) == (verdict.problems, verdict.redacted)
    assert (name == "erasing") == any("is ignored" in note for note in verdict.notes)
    assert ((), [REDACTED]) == (strike(here).erased.remaining, texts(here)[1:2])
    assert [] == holding(here)


@pytest.mark.skipif(os.name != "posix", reason="hard links are planted on POSIX")
def test_a_hard_link_in_place_of_a_pending_file_is_left_intact(here: Project) -> None:
    """A file of someone else's that was linked in place of a finished one is not overwritten."""
    other = here.root / "notes.md"
    other.write_text(TOLD)
    for place in (".erased", "quarantine/7-99.bin"):
        (here.ledger / place).parent.mkdir(exist_ok=True)
        (here.ledger / place).hardlink_to(other)
    commands.rate(here, "kpt_001", "helpful", HUMAN)
    redaction._erase_copies(here.ledger / "quarantine", 7)
    assert TOLD == other.read_text()
    assert [False, False] == [(here.ledger / place).exists() for place in (".erased", "quarantine/7-99.bin")]


def test_a_long_text_is_erased_from_its_diagnostic_whole(here: Project, diagnostic_mode: None) -> None:
    """After a redaction by event, a diagnostic that quotes only the beginning of the text loses it."""
    del diagnostic_mode
    long = "The customer's name is on every page of this: " + "n" * 90
    playbook = compat.load_playbook()
    compat.update_playbook_data(playbook, {"new_key_points": [long], "evaluations": []})
    compat.update_playbook_data(playbook, {"evaluations": [{"name": "kpt_004", "rating": "harmful"}] * 3})
    compat.save_playbook(playbook)
    (seq,) = [row["seq"] for row in list_events(here) if long in str(row.get("free"))]
    strike(here, None, str(seq))
    assert [] == holding(here, long[:20])


def escaped(text: str) -> str:
    r"""Return a text in which every character is a ``\u`` escape."""
    return "".join(f"\\u{ord(char):04x}" for char in text)


def test_a_spelling_that_cannot_be_overwritten_is_reported(here: Project) -> None:
    """The redaction is pending, with exit code 4, until the file is deleted; the next writer then finishes."""
    path = here.ledger / "odd.txt"
    path.write_text(escaped("hunter2"))
    done = strike(here, "hunter2")
    assert 1 == len(done.erased.remaining)
    assert str(path) in done.erased.remaining[0]
    assert "not finished" in commands.verify_and_fold(here)[0].notes[0]
    commands.rate(here, "kpt_001", "helpful", HUMAN)
    assert None is not redaction.read_pending(here.ledger)
    path.unlink()
    commands.rate(here, "kpt_001", "helpful", HUMAN)
    assert None is redaction.read_pending(here.ledger)
    assert ((), [], 1) == (
        commands.verify_and_fold(here)[0].notes,
        holding(here, "hunter2"),
        len(commands.verify_and_fold(here)[0].redacted),
    )


def test_checkouts_in_the_agents_folder_are_left_out(here: Project) -> None:
    """Whole working trees that the agent has there are copies like any other; a file of that name is not."""
    inside, beside = here.claude / "worktrees" / "one" / "a.txt", here.claude / "agents" / "worktrees" / "a.txt"
    for path in (inside, beside):
        path.parent.mkdir(parents=True)
        path.write_text(TOLD)
    done = strike(here)
    assert ((beside,), ()) == (done.erased.foreign, done.erased.unsearched)
    assert [TOLD, TOLD] == [path.read_text() for path in (inside, beside)]


@pytest.mark.skipif(os.name != "posix", reason="links and pipes are made on POSIX")
def test_no_link_is_followed_out_of_the_folder(here: Project, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Links out are named as not searched, inner ones are searched at their target, and a pipe is skipped."""
    out = tmp_path_factory.mktemp("out")
    (out / "note.txt").write_text(TOLD)
    (here.ledger / "inside.txt").write_text(TOLD)
    links = {"diagnostic": out, "ledger/link.txt": out / "note.txt", "skills": out}
    for place, target in links.items():
        (here.claude / place).symlink_to(target)
    (here.ledger / "own").symlink_to(here.ledger / "inside.txt")
    (here.ledger / "nowhere").symlink_to(here.claude / "nothing")
    os.mkfifo(here.ledger / "pipe")
    done = strike(here)
    assert sorted(links) == sorted(
        str(Path(line.partition(": ")[0]).relative_to(here.claude)) for line in done.erased.unsearched
    )
    assert ((), ()) == (done.erased.remaining, done.erased.foreign)
    assert TOLD == (out / "note.txt").read_text()
    assert ([], None) == (holding(here), redaction.read_pending(here.ledger))


def test_every_name_of_a_file_loses_the_text(here: Project) -> None:
    """A backup by hard links is overwritten with the file itself; one of the log, too."""
    (here.ledger / "a.txt").write_text(TOLD)
    backup = here.root / "backup"
    shutil.copytree(here.claude, backup, copy_function=os.link)
    assert ((), ()) == (strike(here).erased.remaining, strike_nothing(here))
    left = [path.name for path in backup.rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()]
    # The old rendering was replaced, not overwritten: what stands in the backup alone is beyond reach.
    assert ["playbook.json"] == left


def test_a_legacy_file_that_is_not_imported_yet_is_found(
    project: Path, write_playbook: Callable[[object], Path]
) -> None:
    """Its entries become seed events, original items included, and lose the text; their counts stay."""
    here = Project(project)
    items = [{"text": TOLD, "score": 3, "note": TOLD}, f"plain {PRIVATE}", "other", 5, {"odd": [TOLD]}]
    write_playbook({"key_points": items, "title": TOLD, "last_updated": "2026-01-01T00:00:00Z"})
    assert [here.playbook] == list(find_text(here, RedactionTarget(text=PRIVATE)).erased.files)
    done = strike(here)
    assert ((), ()) == (done.erased.remaining, done.bodies)
    assert ([], []) == (holding(here), holding(here, "hunter2"))
    assert [REDACTED, REDACTED, "other"] == texts(here)
    assert [("kpt_001", 3, 0), ("kpt_002", 0, 0), ("kpt_003", 0, 0)] == counts(here)
    assert () == commands.verify_and_fold(here)[0].problems


def test_a_file_that_was_open_in_an_editor_restores_nothing(
    here: Project, write_playbook: Callable[[object], Path], read_playbook: Callable[[], dict[str, Any]]
) -> None:
    """A manual edit of a file that was opened before a redaction counts, except for the redacted text."""
    document = read_playbook()
    strike(here)
    document["key_points"][1]["helpful"] = 9
    document["key_points"][2]["text"] = "changed"
    document["key_points"].append("by hand")
    write_playbook(document)
    commands.replay(here)
    assert ["Use type hints", REDACTED, "changed", "by hand"] == texts(here)
    assert ([], ("kpt_002", 9, 0)) == (holding(here), counts(here)[1])
    document = read_playbook()
    document["key_points"][1]["text"] = "said anew"
    write_playbook(document)
    commands.replay(here)
    assert "said anew" == texts(here)[1]
