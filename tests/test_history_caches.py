"""The law of caches: whatever is in the cache folder, every state of a view and every answer is that of the ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256
import os
from pathlib import Path
import shutil
from typing import Any, Final

import attrs
import msgspec
import pytest

from helpers.commands import Run
from helpers.events import HUMAN
from helpers.ledger_files import caches_of, make_caches
from helpers.long_ledgers import CLOSED, LONG, ODD, STORY, grow, make_long, open_long_ledger, project_of
from helpers.score_histories import metrics
from helpers.view_histories import plain
from tallybook.ledger.codec import decode
from tallybook.ledger.events import (
    EventsVoided,
    PointAdded,
    PointMerged,
    PointPinned,
    PointRated,
    PointRestored,
    PointReworded,
)
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.playbook_constants import REDACTED
from tallybook.ledger.records import Batch
from tallybook.ledger.storage import caches
from tallybook.ledger.storage.redaction import add_pending
from tallybook.projections.playbook.fold import fold_history
from tallybook.projections.scores.config import overlay, read_config
from tallybook.projections.surfaces.history import checkpoints, reading
from tallybook.projections.surfaces.history.checkpoints import PLAYBOOK_FORM, Form
from tallybook.projections.surfaces.history.stories import STATUS_FORM
from tallybook.projections.surfaces.scores import configuration
from tallybook.projections.surfaces.scores.configuration import form_of
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands, redact
from tallybook.projections.surfaces.writing.requests import VOTES_FORM

# Deeper than Python reads.
_NEST = b"[" * 100_000


def _flip(data: bytes) -> bytes:
    """Return bytes with another one in the middle."""
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "a bit flipped": _flip,
    "cut": lambda data: data[: len(data) // 2],
    "empty": lambda _: b"",
    "something else": lambda _: b"[1, 2, 3]",
    "a sum and nothing more": lambda data: data[:32],
    "longer": lambda data: data + b" ",
    "nested, and its sum": lambda _: sha256(_NEST).hexdigest()[:32].encode() + _NEST,
}
"""What became of it → what stands there then."""

HISTORY: list[list[Any]] = [
    *STORY,
    [PointAdded("kpt_010", "Keep the private text to yourself"), CLOSED],
    [*[PointRated("kpt_001", "harmful")] * 4, CLOSED],
    [metrics("ac01", completion_rate=0.9), PointRated("kpt_010", "helpful"), CLOSED],
    [EventsVoided((), "s3", "a wrong session")],
    [PointReworded("kpt_002", "the text of kpt_002", LONG)],
]
"""A prune, an entry of which a text is redacted, metrics, an undo of a session, and a long text."""
LATER: list[list[Any]] = [
    [PointMerged("kpt_002", (ODD,), "the same")],
    [PointRestored("kpt_001", "needed"), PointPinned("kpt_001", "")],
    [PointRated(ODD, "harmful"), PointRated("kpt_002", "helpful"), CLOSED],
    [EventsVoided(("id-19",), None, "one rating")],
    [metrics("ac03", thoroughness=0.5), PointRated("kpt_010", "harmful")],
    [CLOSED],
]
"""A merge, a restore, an undo of an event, and a rating without an update, which follows later."""


@pytest.fixture
def short_log(project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[JsonlLog]:
    """Return a short ledger of which checkpoints are stored."""
    make_long(monkeypatch)
    made = open_long_ledger(project / "inner")
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(project_of(made).root))
    grow(made, HISTORY)
    yield made
    made.close()


def json_of(state: Any) -> Any:
    """Return a state as values that compare by content."""
    return plain(checkpoints.pack(state)), state.latest_batch and state.latest_batch.at


def check(form: Form[Any], log: JsonlLog) -> None:
    """Compare the end and some moments with the whole fold, first with the present blob, then with the one it left."""
    moments = [None, 0, 7, *[batch.last for batch in log.read()][-4:]]
    expected = [json_of(fold_history(form.view, lambda: decode(log.read()), until)) for until in moments]
    for _ in range(2):
        assert expected == [json_of(reading.fold_view(form, log, until)) for until in moments]


def blob_of(form: Form[Any], log: JsonlLog) -> Path:
    """Return the file of a checkpoint."""
    return caches_of(log.folder) / f"{form.name}{checkpoints.SUFFIX}"


def _write_by_other_code(path: Path, log: JsonlLog) -> None:
    """Store a state that this code would not have folded."""
    body = path.read_bytes()[64:].replace(b"of kpt", b"as kpt")
    attrs.evolve(make_blob(path, log), code="0" * 32).write(0, body)


def _move(change: int) -> Callable[[Path, JsonlLog], None]:
    def move(path: Path, log: JsonlLog) -> None:
        begin, values = msgspec.msgpack.decode(path.read_bytes()[64:])
        make_blob(path, log).write(0, msgspec.msgpack.encode([begin + change, values]))

    return move


def _store_an_older_one(path: Path, log: JsonlLog) -> None:
    older = path.read_bytes()
    grow(log, LATER)
    path.write_bytes(older)


def _roll_back(path: Path, log: JsonlLog) -> None:
    """Restore a backup of the ledger: the checkpoint is ahead of it."""
    files = {file: file.read_bytes() for file in (log.path, log.folder / "head")}
    grow(log, LATER)
    path.unlink()
    for form in FORMS:
        reading.fold_view(form, log)
    log.close()
    for file, data in files.items():
        file.write_bytes(data)


def _take_another_ledger(path: Path, log: JsonlLog) -> None:
    other = open_long_ledger(project_of(log).root / "other")
    grow(other, [*STORY, *STORY, *STORY])
    for form in FORMS:
        reading.fold_view(form, other)
    path.write_bytes((caches_of(other.folder) / path.name).read_bytes())
    other.close()


def _take_another_form(path: Path, _log: JsonlLog) -> None:
    [other, *_] = [file for file in path.parent.glob(f"*{checkpoints.SUFFIX}") if file != path]
    path.write_bytes(other.read_bytes())


def _block(path: Path, _log: JsonlLog) -> None:
    path.unlink()
    path.mkdir()


def make_blob(path: Path, log: JsonlLog) -> checkpoints.Blob:
    """Return the blob of a path, which is written as any."""
    [form] = [form for form in FORMS if form.name == path.stem]
    blob = checkpoints.Blob.locate(log, form.name, form.key)
    assert blob is not None
    return blob


def _damaged(damage: Callable[[bytes], bytes]) -> Callable[[Path, JsonlLog], None]:
    def harm(path: Path, _log: JsonlLog) -> None:
        path.write_bytes(damage(path.read_bytes()))

    return harm


SCORED_PLAYBOOK: Final = read_config(
    overlay(
        configuration.default(),
        {"scoring": {"components": {"playbook": {"enabled": True}}, "sessions": {"improvement": ["playbook"]}}},
    )
)
FORMS: tuple[Form[Any], ...] = (PLAYBOOK_FORM, STATUS_FORM, form_of(SCORED_PLAYBOOK), VOTES_FORM)
CHANGES: dict[str, Callable[[Path, JsonlLog], None]] = {
    "kept": lambda _path, _log: None,
    "deleted": lambda path, _log: path.unlink(),
    **{name: _damaged(damage) for name, damage in DAMAGES.items()},
    "by other code": _write_by_other_code,
    "a byte earlier": _move(-1),
    "a batch earlier": _move(-300),
    "after the end": _move(1 << 20),
    "older": _store_an_older_one,
    "ahead": _roll_back,
    "of another ledger": _take_another_ledger,
    "of another form": _take_another_form,
    "a folder in its place": _block,
}
"""What becomes of a blob → what does it."""


@pytest.mark.parametrize(
    ("form", "change"),
    # Every form is stored and read by the same code: what a form packs matters where its blob is used.
    [(form, change) for form in FORMS for change in (CHANGES if form is PLAYBOOK_FORM else ("kept", "older", "ahead"))],
    ids=lambda value: getattr(value, "name", value),
)
def test_no_state_of_a_blob_changes_a_state(short_log: JsonlLog, form: Form[Any], change: str) -> None:
    """Whatever becomes of a checkpoint, the end and each moment are those of the whole history."""
    for stored in FORMS:
        reading.fold_view(stored, short_log)
    CHANGES[change](blob_of(form, short_log), short_log)
    check(form, short_log)
    grow(short_log, [[CLOSED], *LATER])
    check(form, short_log)


def read(log: JsonlLog, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return the number of batches that an answer decodes."""
    seen: list[int] = []

    def noted(batches: Any) -> Iterator[Batch]:
        for batch in decode(batches):
            seen.append(batch.last)
            yield batch

    with monkeypatch.context() as patched:
        patched.setattr(checkpoints, "decode", noted)
        reading.current(log)
    return len(seen)


def test_an_answer_reads_only_new_batches(short_log: JsonlLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a checkpoint only the batch that proves it and those appended since are read."""
    reading.current(short_log)
    assert 1 == read(short_log, monkeypatch)
    grow(short_log, [[CLOSED]])
    assert 2 == read(short_log, monkeypatch)


# Redactions


def redact_text(log: JsonlLog) -> None:
    """Redact the texts with two words."""
    redact.redact(project_of(log), redact.RedactionTarget(None, "text of 'kpt_001'"), "private", HUMAN)


def test_a_redacted_text_is_in_no_checkpoint(short_log: JsonlLog, tmp_path: Path) -> None:
    """A redacted text is in none of the present checkpoints, and none that a backup restores shows it."""
    for form in FORMS:
        reading.fold_view(form, short_log)
    shutil.copytree(caches_of(short_log.folder), tmp_path / "older")
    redact_text(short_log)
    for restore in (False, True):
        if restore:
            shutil.copytree(tmp_path / "older", caches_of(short_log.folder), dirs_exist_ok=True)
        for form in FORMS:
            check(form, short_log)
            assert b"text of 'kpt_001'" not in blob_of(form, short_log).read_bytes()
    assert REDACTED == reading.current(short_log, 5).entries["kpt_001"].text


def test_a_pending_redaction_stores_nothing(short_log: JsonlLog) -> None:
    """The text may still be in the log, and must not be written to another file."""
    add_pending(short_log.folder, ("an id",), ("text",), "private", HUMAN)
    reading.current(short_log)
    assert not caches_of(short_log.folder).exists()


def test_a_reading_that_began_before_a_redaction_stores_nothing_after_it(short_log: JsonlLog) -> None:
    """Its state holds the text, which the redaction has erased from every file in the meantime."""
    reading.current(short_log)
    path = blob_of(PLAYBOOK_FORM, short_log)
    blob, data = make_blob(path, short_log), path.read_bytes()
    redact_text(short_log)
    blob.write(1, data[64:])
    assert b"text of 'kpt_001'" not in path.read_bytes()


# Where nothing can be stored, and damage


def test_a_replay_reads_everything_whatever_the_cache_holds(short_log: JsonlLog, run: Run) -> None:
    """Replay, replay --check and verify find damage before a checkpoint; later events are still answered."""
    run("replay")
    data = short_log.path.read_bytes()
    short_log.path.write_bytes(data.replace(b"text of 'kpt_001'", b"text of 'kpt_00!'"))
    assert [3, 3, 3] == [run(*words).code for words in (("replay",), ("replay", "--check"), ("verify",))]
    assert 0 == run("show").code


# The caches that are removed, by which command and when.


def begin(folder: Path, text: str = "Use type hints") -> Project:
    """Return a project with one entry and a cache."""
    (folder / ".claude").mkdir(parents=True)
    made = Project(folder)
    commands.add(made, text, HUMAN)
    (make_caches(made.ledger) / "file").write_text(text)
    return made


def age(path: Path, days: float) -> None:
    """Set a file's time of change back by so many days."""
    then = path.stat().st_mtime - days * 24 * 3600
    os.utime(path, (then, then))


def add_later(project: Project, text: str) -> None:
    """Add an entry a day after the last sweep of the cache folder."""
    swept = caches_of(project.ledger).parent.parent / checkpoints.SWEEP_STAMP
    swept.touch()
    age(swept, 1.1)
    commands.add(project, text, HUMAN)


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with one entry and a cache, in its own home folder."""
    return begin(project / "here")


@pytest.mark.parametrize("how", ["gone", "unused", "another in its place", "kept"])
def test_a_cache_is_removed_without_its_ledger_or_after_30_days(here: Project, project: Path, how: str) -> None:
    """All other caches stay."""
    other = begin(project / "other")
    place = caches_of(other.ledger)
    if how == "gone":
        shutil.rmtree(other.root)
    elif how == "unused":
        age(place / caches.OWNER, 30.1)
    elif how == "another in its place":
        shutil.rmtree(other.root)
        begin(project / "other")
    else:
        age(place / caches.OWNER, 29.9)
    add_later(here, "Write tests")
    assert (how == "kept", True) == (place.exists(), caches_of(here.ledger).exists())


def test_the_cache_folder_is_swept_once_a_day(here: Project, project: Path) -> None:
    """Later commands on the same day do not check every cache."""
    other = begin(project / "other")
    place = caches_of(other.ledger)
    shutil.rmtree(other.root)
    commands.add(here, "On the same day", HUMAN)
    assert place.exists()
    add_later(here, "On the next day")
    assert not place.exists()


def test_a_redaction_clears_every_cache_of_the_ledger_and_its_copies(here: Project, project: Path, run: Run) -> None:
    """Caches of other ledgers stay; those of other users are named as out of reach."""
    words = ("redact", "--text", "type hints", "--reason", "private", "--dry-run")
    assert "other users' caches" in run("--project", str(here.root), *words).out
    shutil.copytree(here.root, project / "copy")
    copied = make_caches(project / "copy" / ".claude" / "ledger")
    (copied / "file").write_text("Use type hints")
    other = begin(project / "other", "Write tests")
    own = caches_of(here.ledger) / "file"
    redact.redact(here, redact.RedactionTarget(text="type hints"), "private", HUMAN)
    assert [False, False, True] == [path.exists() for path in (own, copied, caches_of(other.ledger) / "file")]


def test_a_redaction_clears_a_cache_that_is_no_longer_used(here: Project) -> None:
    """A cache folder that was made readable to others since still holds the text, and is cleared."""
    own = caches_of(here.ledger)
    own.parent.parent.chmod(0o755)
    redact.redact(here, redact.RedactionTarget(text="type hints"), "private", HUMAN)
    assert not own.exists()
