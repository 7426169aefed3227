"""The checkpoints of a shared book: whatever becomes of them, every answer is that of the whole history."""

from __future__ import annotations

from collections.abc import Callable, Iterator
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from helpers.cache_places import caches_of
from helpers.long_ledgers import make_long
from helpers.shared_machines import HUMAN, SharedMachine, make_pair
from tallybook.ledger.codec import decode
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.records import Batch
from tallybook.projections.fold import fold_history
from tallybook.projections.history.entry_history import ENTRIES, entries_view, explain
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.history import checkpoints, stories
from tallybook.projections.surfaces.history.reading import open_log
from tallybook.projections.surfaces.history.stories import STATUS_FORM
from tallybook.projections.surfaces.sharing.shared_log import SharedLog, add_arrivals


@pytest.fixture(name="machine")
def _machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SharedMachine:
    """Return a machine with checkpoints and pending events; its book has a prune, a merge, an undo, a join."""
    make_long(monkeypatch)
    anna, ben = make_pair(tmp_path)
    for _ in range(4):
        commands.rate(ben.project, "kpt_001", "harmful", HUMAN)
    for words in ("add units", "add grammes", "rate kpt_003 helpful", "undo"):
        assert 0 == ben.run(*words.split()).code
    [units, grammes] = list(ben.entries())[-2:]
    assert 0 == ben.run("merge", units, grammes).code
    for machine in (ben, anna):
        machine.sync()
    for words in ("rate kpt_003 harmful --reason unkind", "add seconds", "retire kpt_002"):
        assert 0 == anna.run(*words.split()).code
    return anna


def shared_log(machine: SharedMachine) -> SharedLog:
    """Return the history that a machine shows."""
    log = open_log(machine.project)
    assert isinstance(log, SharedLog)
    return log


def read_stories(machine: SharedMachine) -> dict[str, Any]:
    """Return the answer of `why` for each name that was ever used, from the whole history."""
    log = shared_log(machine)
    batches = list(decode(log.read()))
    state = fold_history(ENTRIES, lambda: batches)
    log.stamp(state, state.book)
    answers = {}
    for name in state.names:

        def tell(until: int | None, name: str = name) -> Any:
            return fold_history(entries_view({name}), lambda: batches, until).stories[name]

        answers[name] = explain(tell(None), state, tell)
        add_arrivals(log.own, answers[name])
    return answers


def check(machine: SharedMachine) -> None:
    """Compare answers with the whole history, first with the present checkpoint, then with the one it left."""
    expected = read_stories(machine)
    assert {"kpt_001", "kpt_002", "kpt_003"} < expected.keys()
    for _ in range(2):
        assert expected == {name: commands.why(machine.project, name) for name in expected}


def _move(path: Path, log: JsonlLog) -> None:
    blob = checkpoints.Blob.of(log, path.stem)
    assert blob is not None
    begin, values = msgspec.msgpack.decode(path.read_bytes()[64:])
    blob.write(0, msgspec.msgpack.encode([begin - 300, values]))


CHANGES: dict[str, Callable[[Path, JsonlLog], None]] = {
    "kept": lambda _path, _log: None,
    "deleted": lambda path, _: path.unlink(),
    "of another position": _move,
    "torn": lambda path, _: os.truncate(path, path.stat().st_size // 2),
}
"""What becomes of a checkpoint → what does it; `test_history_caches` has more, which are the same for every log."""


@pytest.mark.parametrize("change", CHANGES)
def test_no_state_of_a_checkpoint_changes_an_answer(machine: SharedMachine, change: str) -> None:
    """Whatever becomes of the checkpoint of a book, `why` answers as the whole history does, and after a sync too."""
    commands.why(machine.project, "kpt_001")
    log = shared_log(machine).copy.log
    path = caches_of(log.folder) / f"{STATUS_FORM.name}{checkpoints.SUFFIX}"
    assert path.exists()
    CHANGES[change](path, log)
    check(machine)
    machine.sync()
    check(machine)


def test_an_answer_reads_little_of_a_long_book(machine: SharedMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a checkpoint on, `why` decodes the batches of its entry and no others of the book."""
    seen: list[int] = []

    def noted(batches: Any) -> Iterator[Batch]:
        for batch in decode(batches):
            seen.append(batch.last)
            yield batch

    commands.why(machine.project, "kpt_001")
    for module in (checkpoints, stories):
        monkeypatch.setattr(module, "decode", noted)
    commands.why(machine.project, "kpt_004")
    whole = sum(1 for _ in shared_log(machine).read())
    assert len(seen) < whole // 2, (len(seen), whole)


@pytest.mark.parametrize("words", ["undo", "redact --text kind --reason private --yes --expect 2"])
def test_what_rewrites_the_book_and_is_pending_is_in_every_answer(machine: SharedMachine, words: str) -> None:
    """A pending undo or redaction of what the book has changes the answers before it is published."""
    before = read_stories(machine)
    done = machine.run(*words.split())
    assert 0 == done.code, done
    assert before != read_stories(machine)
    check(machine)
