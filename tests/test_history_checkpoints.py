"""Checkpoints of the playbook: whatever their state, every answer is that of the whole history."""

from __future__ import annotations

from itertools import count
from random import Random
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import attrs
import msgspec
import pytest

from helpers.authors import HUMAN
from helpers.cache_damages import DAMAGES
from helpers.cache_places import caches_of, make_caches
from tallybook.ledger import clock
from tallybook.ledger.backends.jsonl import JsonlLog
from tallybook.ledger.encoding.codec import decode, encode
from tallybook.ledger.errors import DamagedLedgerError
from tallybook.ledger.events import EventsVoided, PlaybookUpdated, PointAdded, PointPinned, PointRated, PointRetired
from tallybook.ledger.storage import disk
from tallybook.ledger.storage.redaction import PendingRedaction, write_pending
from tallybook.projections.entry_history.status import STATUS_VIEW, blame, graveyard
from tallybook.projections.fold import fold_history
from tallybook.projections.playbook.entry_state import REDACTED
from tallybook.projections.playbook.view import PLAYBOOK, Playbook
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.history import cache_files, reading
from tallybook.projections.surfaces.history.entry_story import STATUS_FORM
from tallybook.projections.surfaces.history.reading import PLAYBOOK_FORM
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import redact

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tallybook.ledger.events import Event
    from tallybook.projections.surfaces.history.reading import Form

BATCHES = 45


@pytest.fixture(autouse=True)
def _checkpoint_after_every_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a checkpoint due after every batch."""
    monkeypatch.setattr(reading, "TIMES", 0)
    for name in ("APART_BYTES", "TAIL_BYTES"):
        monkeypatch.setattr(cache_files, name, 0)
    monkeypatch.setattr(reading, "_TAIL_PART", 1 << 40)


@pytest.fixture
def log(project: Path) -> Iterator[JsonlLog]:
    """Return a ledger of a batch a minute, with some undos, and undos of undos."""
    minutes = count(1_700_000_000_000_000, 60_000_000)
    made = JsonlLog(Project(project).ledger, lambda: clock.moment(next(minutes)))
    grow(made, BATCHES)
    yield made
    made.close()


def grow(log: JsonlLog, number: int) -> None:
    """Append so many batches, each of another session."""
    chance = Random(7)  # noqa: S311 - the same history in every run, and no secret
    begin = len(list(log.read()))
    for index in range(number):
        with log.transaction() as tx:
            tx.append(
                list(map(encode, make_batch(chance, begin + index, log))), HUMAN | {"session": f"s{begin + index}"}
            )


def make_batch(chance: Random, number: int, log: JsonlLog) -> Sequence[Event]:
    """Return an update, or sometimes a decision by a person, or an undo."""
    names = [f"kpt_{one:03d}" for one in range(max(1, number - 6), number + 2)]
    if number % 13 == 12:
        records = [record for batch in decode(log.read()) for record in batch.records]
        undone = [one.id for one in records if isinstance(one.event, PointRated | EventsVoided)]
        return [EventsVoided(tuple(chance.sample(undone, 2)), None, "")]
    if number % 7 == 6:
        name = chance.choice(names)
        return [PointPinned(name, "") if number % 2 else PointRetired(name, "")]
    rated = [PointRated(chance.choice(names), chance.choice(("helpful", "harmful", "harmful"))) for _ in range(3)]
    return [PointAdded(f"kpt_{number + 1:03d}", f"text {number}"), *rated, PlaybookUpdated(1, 3, 0)]


def fields(state: Playbook) -> dict[str, Any]:
    """Return every field of a state; of its batches the moment and time."""
    fields = {name: getattr(state, name) for name in attrs.fields_dict(Playbook)}
    batches = {name: fields[name] and (fields[name].last, fields[name].at) for name in ("latest", "latest_batch")}
    return fields | batches | {"points": list(state.entries.values()), "due": list(state.due)}


def fold_cold(log: JsonlLog) -> None:
    """Fold the whole history and store the checkpoints."""
    reading.current(log, cold=True)


def fold_wholly(log: JsonlLog, until: int | None = None) -> dict[str, Any]:
    """Return the fold of the whole history from the first event."""
    return fields(fold_history(PLAYBOOK, lambda: decode(log.read()), until))


def check(log: JsonlLog) -> None:
    """Compare the end and every moment, first with the present checkpoints, then with those that this stored."""
    end = fold_wholly(log)
    places = sorted({0, *(seq for batch in log.read() for seq in (batch.first, batch.last))})
    moments = {seq: fold_wholly(log, seq) for seq in places}
    for _ in range(2):
        assert end == fields(reading.current(log))
        for seq, expected in moments.items():
            assert expected == fields(reading.current(log, seq))


def checkpoints(log: JsonlLog) -> dict[str, bytes]:
    """Return the checkpoints by name."""
    return {path.name: path.read_bytes() for path in sorted((caches_of(log.folder) / "playbook").iterdir())}


def read(log: JsonlLog, monkeypatch: pytest.MonkeyPatch, until: int | None = None) -> int:
    """Return the number of batches that an answer reads."""
    seen: list[int] = []

    def noted(batches: Any) -> Any:
        for batch in decode(batches):
            seen.append(batch.last)
            yield batch

    with monkeypatch.context() as patched:
        patched.setattr(reading, "decode", noted)
        reading.current(log, until)
    return len(seen)


def test_every_moment_is_that_of_the_whole_history(log: JsonlLog) -> None:
    """It holds without checkpoints, with those that a fold stores, and with those stored as the ledger grew."""
    check(log)
    grow(log, 30)
    check(log)
    assert {"latest"} < checkpoints(log).keys()


def test_an_answer_reads_only_new_batches(log: JsonlLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a checkpoint at the end only the batch that proves it and those appended since are read."""
    fold_cold(log)
    assert 1 == read(log, monkeypatch)
    with log.transaction() as tx:
        tx.append([encode(PlaybookUpdated(0, 0, 0))], HUMAN)
    assert 2 == read(log, monkeypatch)


def test_a_moment_is_read_from_the_nearest_earlier_checkpoint(log: JsonlLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without later undos there is one after every batch; its batch and the next one are read."""
    fold_cold(log)
    names = [int(name) for name in checkpoints(log) if name.isdigit()]
    assert 2 == read(log, monkeypatch, max(names))
    assert 2 == read(log, monkeypatch, min(names))


@pytest.mark.parametrize("how", DAMAGES)
def test_damage_changes_no_answer(log: JsonlLog, how: str) -> None:
    """A checkpoint with a wrong checksum is not used."""
    fold_cold(log)
    for name, data in checkpoints(log).items():
        (caches_of(log.folder) / "playbook" / name).write_bytes(DAMAGES[how](data))
    check(log)


def test_a_renamed_checkpoint_changes_no_answer(log: JsonlLog) -> None:
    """A checkpoint's name is only where it is looked for; its position is in its content."""
    fold_cold(log)
    folder = caches_of(log.folder) / "playbook"
    found = checkpoints(log)
    for (name, _), data in zip(found.items(), reversed(found.values()), strict=True):
        (folder / name).write_bytes(data)
    check(log)


def test_checkpoints_of_another_ledger_change_no_answer(log: JsonlLog, tmp_path: Path) -> None:
    """A cache that was copied along with a project's settings is not used."""
    other = JsonlLog(tmp_path / "other")
    grow(other, BATCHES)
    fold_cold(other)
    shutil.copytree(caches_of(other.folder), caches_of(log.folder), dirs_exist_ok=True)
    other.close()
    check(log)


def test_checkpoints_of_an_earlier_end_change_no_answer(log: JsonlLog, tmp_path: Path) -> None:
    """A cache from a backup is merely older."""
    fold_cold(log)
    shutil.copytree(caches_of(log.folder), tmp_path / "older")
    grow(log, 30)
    fold_cold(log)
    shutil.rmtree(caches_of(log.folder))
    shutil.copytree(tmp_path / "older", caches_of(log.folder))
    check(log)


def test_checkpoints_of_other_code_are_not_used(log: JsonlLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version may fold the same events differently."""
    fold_cold(log)
    monkeypatch.setattr(cache_files, "code_digest", lambda *_: "another")
    assert read(log, monkeypatch) > BATCHES


@pytest.mark.parametrize(
    ("module", "form"),
    [
        ("tallybook.projections.playbook.checkpoint", PLAYBOOK_FORM),
        ("tallybook.projections.surfaces.history.entry_story", STATUS_FORM),
    ],
    ids=lambda one: getattr(one, "name", ""),
)
def test_the_digest_of_the_code_covers_every_module_of_a_fold(module: str, form: Form[Any]) -> None:
    """Every module of Tallybook that is loaded for a fold is in the digest that its checkpoints are bound to."""
    # A package is only a folder with a docstring.
    named = "*(name for name, one in sys.modules.items() if not hasattr(one, '__path__'))"
    probe = f"import sys, tallybook.ledger.encoding.codec, tallybook.projections.fold, {module}; print({named})"
    loaded = subprocess.run([sys.executable, "-c", probe], capture_output=True, check=True, text=True).stdout.split()
    ours = {name for name in loaded if name.startswith("tallybook.")}
    assert module in ours
    assert set() == ours - cache_files.modules_of(*reading.modules_of(form)).keys()


# Other views


def json_copy(told: Any) -> Any:
    """Return JSON values after a round trip through JSON."""
    return msgspec.json.decode(msgspec.json.encode(told))


def fold_view(form: Form[Any], log: JsonlLog, until: int | None = None) -> Any:
    """Return the fold of a view from the first event, as its document."""
    return json_copy(form.pack(fold_history(form.view, lambda: decode(log.read()), until)))


@pytest.mark.parametrize("form", [PLAYBOOK_FORM, STATUS_FORM], ids=lambda form: form.name)
def test_every_view_with_checkpoints_continues_from_them(log: JsonlLog, form: Form[Any]) -> None:
    """Its state is that of the whole history, at the end as it grows and at each moment."""
    for more in (0, 1, 12, 1):
        grow(log, more)
        for _ in range(2):
            assert fold_view(form, log) == json_copy(form.pack(reading.fold_view(form, log)))
    for seq in [batch.last for batch in log.read()]:
        assert fold_view(form, log, seq) == json_copy(form.pack(reading.fold_view(form, log, seq)))
    assert (caches_of(log.folder) / form.name / reading.LATEST).exists()


def test_the_last_change_of_an_entry_survives_a_checkpoint(log: JsonlLog) -> None:
    """Blame and graveyard give the same answers from a stored state."""
    expected = fold_history(STATUS_VIEW, lambda: decode(log.read()))
    for _ in range(2):
        state = reading.fold_view(STATUS_FORM, log)
        assert (blame(expected), graveyard(expected)) == (blame(state), graveyard(state))
    grow(log, 1)
    assert len(blame(reading.fold_view(STATUS_FORM, log))) >= len(expected.book.entries)


# Redactions


def project_of(log: JsonlLog) -> Project:
    """Return the project of a ledger."""
    return Project(log.folder.parent.parent)


def test_a_redacted_text_is_in_no_checkpoint(log: JsonlLog, tmp_path: Path) -> None:
    """It is in none of the present checkpoints, and in none that a backup restores."""
    fold_cold(log)
    shutil.copytree(caches_of(log.folder), tmp_path / "older")
    redact.redact(project_of(log), redact.RedactionTarget(None, "text 4"), "private", HUMAN)
    assert [] == [name for name, data in checkpoints(log).items() if b'"text 4"' in data]
    check(log)
    shutil.rmtree(caches_of(log.folder))
    shutil.copytree(tmp_path / "older", caches_of(log.folder))
    check(log)
    assert REDACTED == reading.current(log, 30).entries["kpt_005"].text


def test_a_pending_redaction_stores_nothing(log: JsonlLog) -> None:
    """The text may still be in the log, and must not be written to another file."""
    fold_cold(log)
    shutil.rmtree(caches_of(log.folder))
    write_pending(log.folder, PendingRedaction(("an id",), ("text 4",), "private", HUMAN))
    reading.current(log)
    reading.current(log, 30)
    assert not caches_of(log.folder).exists()


def test_a_reading_that_began_before_a_redaction_stores_nothing_after_it(log: JsonlLog) -> None:
    """Its state holds the text, which the redaction has erased from every file in the meantime."""
    checkpointer = reading.checkpointer_of(log, PLAYBOOK_FORM)
    assert checkpointer is not None
    view = attrs.evolve(PLAYBOOK, start=checkpointer.begin)
    fold_history(view, lambda: checkpointer.watch(list(decode(log.read()))))
    shutil.rmtree(caches_of(log.folder), ignore_errors=True)
    redact.redact(project_of(log), redact.RedactionTarget(None, "text 4"), "private", HUMAN)
    checkpointer.store(reading.LATEST)
    assert checkpointer.stopped
    assert [] == [name for name, data in checkpoints(log).items() if b'"text 4"' in data]


# Where nothing can be stored, and damage


def test_a_checkpoint_that_cannot_be_written_costs_only_time(log: JsonlLog) -> None:
    """A file in place of the folder is left alone."""
    cache = make_caches(log.folder)
    shutil.rmtree(cache)
    cache.write_bytes(b"in the way")
    check(log)
    assert b"in the way" == cache.read_bytes()
    cache.unlink()


def test_a_held_lock_is_not_waited_for(log: JsonlLog) -> None:
    """While another process stores a checkpoint, this one skips it."""
    fold_cold(log)
    shutil.rmtree(caches_of(log.folder) / "playbook")
    with (caches_of(log.folder) / cache_files.LOCK).open("rb+") as held:
        assert disk.try_lock(held.fileno())
        assert fold_wholly(log) == fields(reading.current(log))
    assert {} == checkpoints(log)


def test_a_replay_reads_everything_whatever_the_cache_holds(log: JsonlLog, run: Any) -> None:
    """Replay, replay --check and verify find damage before a checkpoint; later events are still answered."""
    project = project_of(log)
    commands.replay(project)
    data = log.path.read_bytes()
    log.path.write_bytes(data.replace(b'"text 4"', b'"text 5"'))
    assert _whole_history_is_damaged(log)
    assert [3, 3, 3] == [run(*words).code for words in (("replay",), ("replay", "--check"), ("verify",))]
    assert 0 == run("show").code


def _whole_history_is_damaged(log: JsonlLog) -> bool:
    """Return whether the whole history is unreadable."""
    try:
        fold_wholly(log)
    except DamagedLedgerError:
        return True
    return False
