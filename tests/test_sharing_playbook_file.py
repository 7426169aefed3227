"""`playbook.json` in a shared project: its stamps, manual edits, other machines' files, and hooks that read it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
import json
import os
from pathlib import Path
import subprocess
import sys
from typing import Any

import msgspec
import pytest

from helpers.hook_calls import START
from helpers.ledger_files import caches_of
from helpers.long_ledgers import make_long
from helpers.shared_machines import HUMAN, SharedMachine, make_machines, make_pair, make_part
from tallybook.ledger.codec import decode
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.records import Batch
from tallybook.projections.history.entry_history import ENTRIES, entries_view, explain
from tallybook.projections.playbook.fold import fold_history
from tallybook.projections.surfaces.history import checkpoints, stories
from tallybook.projections.surfaces.history.reading import open_log
from tallybook.projections.surfaces.history.shared_log import SharedLog, add_arrivals
from tallybook.projections.surfaces.history.stories import STATUS_FORM
from tallybook.projections.surfaces.hooks.ledger_access import is_current
from tallybook.projections.surfaces.sharing.syncing import sync
from tallybook.projections.surfaces.writing import commands


@pytest.fixture(name="pair")
def _pair(tmp_path: Path) -> tuple[SharedMachine, SharedMachine]:
    return make_pair(tmp_path)


def document(machine: SharedMachine) -> dict[str, Any]:
    """Return a machine's playbook.json."""
    value: dict[str, Any] = json.loads(machine.project.playbook.read_bytes())
    return value


def edit(machine: SharedMachine, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a machine's playbook.json as a person does."""
    value = document(machine)
    change(value)
    machine.project.playbook.write_text(json.dumps(value, indent=2) + "\n")


def count_helpful(name: str, count: int) -> Callable[[dict[str, Any]], None]:
    """Return the change of one helpful count."""

    def change(value: dict[str, Any]) -> None:
        for entry in value["key_points"]:
            if entry["name"] == name:
                entry["helpful"] = count

    return change


def list_aside(machine: SharedMachine) -> list[bytes]:
    """Return what was set aside."""
    return [path.read_bytes() for path in sorted(machine.project.claude.glob("playbook.json.unreadable-*"))]


def test_the_file_says_which_moment_of_the_book_it_contains(pair: tuple[SharedMachine, SharedMachine]) -> None:
    """A shared project's file has `book` after `ledger`; one without a book has no such key."""
    anna, ben = pair
    anna.sync()
    ben.sync()
    end = ben.sync().end
    assert ["ledger", "book"] == [*document(ben)][-2:]
    assert f"{end[0]}:{end[1]}" == document(ben)["book"]
    [dora] = make_machines(ben.project.root / "more", "dora")
    commands.add(dora.project, "Alone", HUMAN)
    assert ["key_points", "ledger"] == [*document(dora)][-2:]


def test_a_user_may_have_a_key_of_that_name(tmp_path: Path) -> None:
    """Without sharing, a top-level key `book` of the user's own stays as it is."""
    [dora] = make_machines(tmp_path, "dora")
    dora.project.playbook.write_text('{"book": "A Tale", "key_points": ["Be kind"]}')
    commands.replay(dora.project)
    edit(dora, count_helpful("kpt_001", 3))
    commands.replay(dora.project)
    assert ("A Tale", 3) == (document(dora)["book"], document(dora)["key_points"][0]["helpful"])


def test_drift_is_told_in_a_shared_project(pair: tuple[SharedMachine, SharedMachine]) -> None:
    """`verify` and `replay --check` find the rendering equal, and an edit that is not recorded."""
    anna, _ = pair
    assert 0 == anna.run("verify").code
    edit(anna, count_helpful("kpt_001", 5))
    assert (1, True) == (anna.run("verify").code, "manual edit" in anna.run("verify").out)
    assert ("Always test", 5, 0) == anna.entries()["kpt_001"]


def test_another_machines_file_is_no_edit(pair: tuple[SharedMachine, SharedMachine]) -> None:
    """A file that another machine rendered records nothing; where the book says the same, nothing is set aside."""
    anna, ben = pair
    anna.sync()
    ben.sync()
    anna.sync()
    theirs = ben.project.playbook.read_bytes()
    before = len(anna.lines("log"))
    anna.project.playbook.write_bytes(theirs)
    commands.replay(anna.project)
    assert (before, []) == (len(anna.lines("log")), list_aside(anna))
    assert theirs != anna.project.playbook.read_bytes()


def test_another_machines_changed_file_is_set_aside(pair: tuple[SharedMachine, SharedMachine]) -> None:
    """A file of another machine that the book does not confirm is set aside under a dated name, and records nothing."""
    anna, ben = pair
    anna.sync()
    ben.sync()
    edit(ben, count_helpful("kpt_001", 99))
    theirs = ben.project.playbook.read_bytes()
    anna.project.playbook.write_bytes(theirs)
    before = len(anna.lines("log"))
    done = anna.run("replay", "--check")
    assert (1, True) == (done.code, "another machine" in done.err)
    done = anna.run("replay")
    assert (0, [theirs], before) == (done.code, list_aside(anna), len(anna.lines("log")))
    assert ("Always test", 1, 0) == anna.entries()["kpt_001"]


def test_a_hook_does_not_show_another_machines_file(pair: tuple[SharedMachine, SharedMachine]) -> None:
    """A hook takes a file as current only by a stamp of the own ledger, number and chain value."""
    anna, ben = pair
    anna.sync()
    ben.sync()
    for machine in (anna, ben):
        seq, _, chain = document(machine)["ledger"].partition(":")
        assert [machine is anna, machine is ben] == [
            is_current(reader.project, int(seq), chain) for reader in (anna, ben)
        ]


def test_a_hook_process_gives_what_came_in(pair: tuple[SharedMachine, SharedMachine]) -> None:
    """A real hook renders anew where a sync brought events, gives the playbook, and records in the own ledger."""
    anna, ben = pair
    commands.add(ben.project, "Sleep well", HUMAN)
    ben.sync()
    sync(anna.project, make_part(anna.project, anna.label), anna.engine, 60.0)
    assert "Sleep well" not in anna.project.playbook.read_text()
    payload = {**START, "session_id": "s7", "cwd": str(anna.project.root)}
    environment = {**os.environ, "CLAUDE_PROJECT_DIR": str(anna.project.root)}
    done = subprocess.run(
        [sys.executable, "-m", "tallybook", "hook"],
        input=json.dumps(payload),
        env=environment,
        cwd=anna.project.root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (0, "", True) == (done.returncode, done.stderr, "Sleep well" in done.stdout)
    assert "Sleep well" in anna.project.playbook.read_text()
    [injected] = anna.lines("log", "--kind", "playbook.injected")
    assert (True, None) == (isinstance(injected["seq"], int), injected.get("book"))


def test_a_document_that_is_saved_again_counts_once(pair: tuple[SharedMachine, SharedMachine]) -> None:
    """A file with its own earlier edit in it adds that no more, in a book either."""
    anna, _ = pair
    [entry, *_] = document(anna)["key_points"]
    edit(anna, count_helpful(entry["name"], 5))
    edited = anna.project.playbook.read_bytes()
    for _ in range(2):
        anna.project.playbook.write_bytes(edited)
        commands.replay(anna.project)
        [entry, *_] = document(anna)["key_points"]
        assert 5 == entry["helpful"]


# The checkpoints of a shared book: whatever becomes of them, every answer is that of the whole history.


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


def open_shared_log(machine: SharedMachine) -> SharedLog:
    """Return the history that a machine shows."""
    log = open_log(machine.project)
    assert isinstance(log, SharedLog)
    return log


def read_stories(machine: SharedMachine) -> dict[str, Any]:
    """Return the answer of `why` for each name that was ever used, from the whole history."""
    log = open_shared_log(machine)
    batches = list(decode(log.read()))
    names = fold_history(ENTRIES, lambda: batches).names
    state = fold_history(entries_view(names), lambda: batches)
    log.stamp(state, state.book)
    answers = {name: explain(state.stories[name], state) for name in names}
    for told in answers.values():
        add_arrivals(log.syncs, told)
    return answers


def check(machine: SharedMachine) -> None:
    """Compare answers with the whole history, first with the present checkpoint, then with the one it left."""
    expected = read_stories(machine)
    assert {"kpt_001", "kpt_002", "kpt_003"} < expected.keys()
    for _ in range(2):
        assert expected == {name: commands.why(machine.project, name) for name in expected}


def _move(path: Path, log: JsonlLog) -> None:
    blob = checkpoints.Blob.locate(log, path.stem)
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
    log = open_shared_log(machine).copy.log
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
    whole = sum(1 for _ in open_shared_log(machine).read())
    # What links entries is read before their batches are known, and again with them.
    assert len({*seen}) < whole // 2, (seen, whole)


@pytest.mark.parametrize("words", ["undo", "redact --text kind --reason private --yes --expect 2"])
def test_what_rewrites_the_book_and_is_pending_is_in_every_answer(machine: SharedMachine, words: str) -> None:
    """A pending undo or redaction of what the book has changes the answers before it is published."""
    before = read_stories(machine)
    done = machine.run(*words.split())
    assert 0 == done.code, done
    assert before != read_stories(machine)
    check(machine)
