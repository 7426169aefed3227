"""Answers about the past: every number of a long history, undone and redacted events, and diffs."""

from __future__ import annotations

from bisect import bisect_right
import copy
from functools import partial
import json
from random import Random
from typing import TYPE_CHECKING, Any

import attrs
import pytest

from helpers.authors import HUMAN
from helpers.memory_log import MemoryLog
from helpers.reference_model import extraction
from tallybook.ledger.clock import moment
from tallybook.ledger.encoding.codec import decode, encode
from tallybook.ledger.events import EventsVoided, PlaybookUpdated, PointAdded, PointCited, PointRated
from tallybook.projections.fold import View, fold, fold_history
from tallybook.projections.playbook.entry_state import Entries
from tallybook.projections.playbook.view import PLAYBOOK, Playbook
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.history import moments
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from helpers.command_line import Answer, Run
    from tallybook.ledger.events import Event
    from tallybook.ledger.records import Batch

EVENTS = 10_000
UNDONE = 25
"""So many events before the end something is undone; each later moment then takes two folds from the beginning."""
CHECKPOINT_BATCHES = 25


# Every number


def make_update(chance: Random, number: int) -> list[Event]:
    """Return an update: now and then an entry, ratings of the latest ones, most of them harmful, and citations."""
    names = [f"kpt_{one:03d}" for one in range(max(1, number // 3 - 8), number // 3 + 2)]
    added = [PointAdded(f"kpt_{number // 3 + 1:03d}", f"text {number}")] if number % 3 == 0 else []
    rated = [PointRated(chance.choice(names), chance.choice(("helpful", "harmful", "harmful"))) for _ in range(3)]
    cited = [PointCited(chance.choice(names), "message")] * chance.randrange(3)
    return [*cited, *added, *rated, PlaybookUpdated(len(added), len(rated), 0)]


def long_history() -> MemoryLog:
    """Return a log of EVENTS events and a few more, in which events UNDONE before the end undo some of the first.

    A second lies between two batches.
    """
    chance = Random(5)  # noqa: S311 - the same history in every run, and no secret
    seconds = iter(range(1_700_000_000, 1_800_000_000))
    log = MemoryLog(lambda: moment(next(seconds) * 1_000_000))
    number = 0
    is_undone = False
    while log.head().seq < EVENTS:
        with log.transaction() as tx:
            if log.head().seq > EVENTS - UNDONE and not is_undone:
                is_undone = True
                ids = [one.id for batch in decode(log.batches[5:9]) for one in batch.records]
                tx.append([encode(EventsVoided(tuple(ids), None, ""))], HUMAN)
            tx.append(
                list(map(encode, make_update(chance, number))), {"rater": "reflector", "session": f"s{number // 9}"}
            )
            number += 1
    return log


def shown(state: Playbook) -> tuple[Any, ...]:
    """Return what a playbook shows."""
    return tuple(state.entries.values()), state.last_updated, state.stamp


def copied(state: Playbook) -> Playbook:
    """Return a copy of a state, which can be folded on."""
    held = {field.name: getattr(state, field.name) for field in attrs.fields(Playbook) if field.init}
    fresh: dict[str, Any] = {
        name: copy.copy(value) for name, value in held.items() if isinstance(value, dict | set | list)
    }
    return attrs.evolve(state, **fresh, entries=Entries(state.entries))


def answers(batches: list[Batch]) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Yield each event number and the fold up to it.

    Up to the undo each fold continues from the start of its part of the history; that a fold in two parts equals a fold
    at once is a law of its own.
    """
    undoing = next(batch.last for batch in batches if EventsVoided in map(type, batch.events))
    last = 0
    for first in range(0, len(batches), CHECKPOINT_BATCHES):
        window = batches[first : first + CHECKPOINT_BATCHES]
        begun = fold_history(PLAYBOOK, lambda: batches, last)
        view = View(partial(copied, begun), PLAYBOOK.table, PLAYBOOK.settle)
        for seq in range(last, window[-1].last):
            yield (
                seq,
                shown(fold(view, window, until=seq) if seq < undoing else fold_history(PLAYBOOK, lambda: batches, seq)),
            )
        last = window[-1].last


def first_of(batches: list[Batch]) -> dict[int, tuple[Any, ...]]:
    """Return the folds of the first batches, without undone events, by their last event number."""
    running = PLAYBOOK.start()
    found = {0: shown(running)}
    undone = False
    for count, batch in enumerate(batches, 1):
        undone = undone or EventsVoided in map(type, batch.events)
        first = batches[:count]
        running = fold_history(PLAYBOOK, partial(iter, first)) if undone else fold(PLAYBOOK, [batch], running)
        found[batch.last] = shown(running)
    return found


def test_every_number_shows_the_fold_of_the_first_events(project: Path) -> None:
    """For each number of a long history the fold has the whole batches up to it; `show --at` answers the same."""
    log = long_history()
    batches = list(decode(log.read()))
    expected = first_of(batches)
    lasts = sorted(expected)
    wanted = [expected[lasts[bisect_right(lasts, seq) - 1]] for seq in range(lasts[-1] + 1)]
    assert list(enumerate(wanted[:-1])) == list(answers(batches))
    place = Project(project)
    place.ledger.mkdir()
    (place.ledger / "events.jsonl").write_bytes(b"".join(raw.raw for raw in log.read()))
    for seq in (*range(0, lasts[-1], 499), *lasts[-3:]):
        assert wanted[seq] == shown(commands.playbook(place, str(seq)).state)


# What was undone or redacted


def test_a_moment_before_an_undo_shows_the_undone_events() -> None:
    """As of a time before the undo nothing is undone yet, as of its own time it is."""
    seconds = iter(range(1_700_000_000, 1_800_000_000))
    log = MemoryLog(lambda: moment(next(seconds) * 1_000_000))
    said: list[list[Event]] = [
        [PointAdded("kpt_001", "a"), PlaybookUpdated(1, 0, 0)],
        [PointRated("kpt_001", "helpful")],
    ]
    for events in said:
        with log.transaction() as tx:
            tx.append(list(map(encode, events)), HUMAN)
    (rated,) = list(decode(log.read()))[-1].records
    with log.transaction() as tx:
        tx.append([encode(EventsVoided((rated.id,), None, ""))], HUMAN)
    undoing = list(decode(log.read()))[-1]
    for at, helpful in ((rated.at, 1), (undoing.at, 0)):
        seq = moments.resolve(log, at, log.now())
        state = fold_history(PLAYBOOK, lambda: decode(log.read()), seq)
        assert helpful == state.entries["kpt_001"].helpful


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with an entry (2 to 3) that was pruned (4 to 7), and another (8 to 9)."""
    made = Project(project)
    commands.add(made, "one", HUMAN)
    commands.record(made, extraction(*[("kpt_001", "harmful")] * 3), {"rater": "reflector", "session": "s1"})
    commands.add(made, "two", HUMAN)
    return made


def test_show_names_its_moment(here: Project, run: Run) -> None:
    """Number and time of the last event follow the entries; an odd WHEN gets a note."""
    at = commands.playbook(here, "3").state.last_updated
    told = " ".join(run("show", "--at", "session:s1").out.split())
    assert told.endswith(f"as of event 3, {at[:16].replace('T', ' ')} UTC, before session s1 began")
    answer = run("show", "--at", "1d")
    assert answer.err.startswith("note: 1d is before the ledger's first event, ")
    assert "The playbook was empty at the beginning, before any event." in " ".join(answer.out.split())
    assert [] == json.loads(run("show", "--at", "1d", "--json").out)["key_points"]


# What changed


def difference(answer: Answer) -> dict[str, Any]:
    """Return the JSON answer of `diff`."""
    found: dict[str, Any] = json.loads(answer.out)
    return found


def test_diff_answers_with_both_moments_and_the_changes(here: Project, run: Run) -> None:
    """The stable shape has both ends, added and removed entries, changes, order, and further fields."""
    answer = difference(run("diff", "3", "9", "--json"))
    assert ["from", "to", "added", "gone", "changed", "order", "top"] == list(answer)
    assert [3, 9] == [answer[end]["seq"] for end in ("from", "to")]
    two = {"name": "kpt_002", "text": "two", "helpful": 0, "harmful": 0}
    assert [two | {"was": None}] == answer["added"]
    left = {"how": "pruned", "seq": 7, "helpful": 0, "harmful": 3, "into": None}
    assert [two | {"name": "kpt_001", "text": "one", "left": left}] == answer["gone"]
    assert ([], None) == (answer["changed"], answer["order"])
    assert commands.show(here)["last_updated"] == answer["top"]["last_updated"] == answer["to"]["at"]


def test_diff_without_a_second_moment_is_up_to_now(here: Project, run: Run) -> None:
    """A manual edit of the file belongs to the present, as in `show`, and is marked as one."""
    assert difference(run("diff", "3", "9", "--json")) == difference(run("diff", "3", "--json"))
    changed = json.loads(here.playbook.read_bytes())
    changed["key_points"] = []
    here.playbook.write_text(json.dumps(changed), encoding="utf-8")
    answer = run("diff", "9")
    assert "now, with a manual edit of playbook.json" in " ".join(answer.out.split())
    assert "- kpt_002  removed in playbook.json, with 0 helpful and 0 harmful\n" in answer.out
    assert commands.playbook(here, "~0").state.seq == 9


def test_a_manual_edit_that_is_not_recorded_has_no_number(here: Project, run: Run) -> None:
    """It is no event yet, so its moment is given by time, not by number."""
    changed = json.loads(here.playbook.read_bytes())
    changed["key_points"] = []
    here.playbook.write_text(json.dumps(changed), encoding="utf-8")
    answer = difference(run("diff", "9", "--json"))
    assert (9, None) == (answer["from"]["seq"], answer["to"]["seq"])
    assert answer["from"]["at"] < answer["to"]["at"] == answer["top"]["last_updated"]
    assert ("removed", None) == (answer["gone"][0]["left"]["how"], answer["gone"][0]["left"]["seq"])
    commands.replay(here)
    assert [10] == [one["left"]["seq"] for one in difference(run("diff", "9", "--json"))["gone"]]


def test_no_entry_text_controls_the_terminal(here: Project, run: Run) -> None:
    """Escape sequences in a text are shown escaped."""
    commands.add(here, "red \x1b[31m and\nnext", HUMAN)
    out = run("diff", "9").out
    assert ("\x1b" not in out, r"red \x1b[31m and\nnext" in out) == (True, True)
