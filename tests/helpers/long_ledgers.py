"""Ledgers that have checkpoints from their first batch on, and their events."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
import pytest

from helpers.events import HUMAN
from helpers.reference_model import COUNTS
from helpers.view_histories import KNOWN
from tallybook.ledger import clock
from tallybook.ledger.codec import decode, encode
from tallybook.ledger.events import (
    EventRedacted,
    EventsVoided,
    PlaybookUpdated,
    PointAdded,
    PointEdited,
    PointMerged,
    PointPinned,
    PointRated,
    PointRestored,
    PointRetired,
    PointReworded,
    PointSeeded,
    PointUnpinned,
)
from tallybook.ledger.log import JsonlLog
from tallybook.projections.surfaces.history import checkpoints
from tallybook.projections.surfaces.workspace.project import Project

ODD = 'kpt "007" \\ ü\t\n'
LONG = "word " * 3_000
NAMES = ("kpt_001", "kpt_002", ODD)
CLOSED = PlaybookUpdated(0, 0, 0)
NAMED = st.sampled_from(NAMES)
NONE = st.just("")
IDS = st.integers(2, 25).map("id-{}".format)
SAID = (
    st.builds(PointRated, NAMED, st.sampled_from(["helpful", "harmful", "harmful"])),
    st.builds(PointRated, NAMED, st.just("harmful")),
    st.just(CLOSED),
    st.builds(PointMerged, NAMED, st.lists(NAMED, min_size=1, max_size=2).map(tuple), NONE),
    st.builds(PointSeeded, NAMED, COUNTS, COUNTS, st.just("canonical"), st.just("seed"), NONE),
    st.builds(PointEdited, NAMED, COUNTS, COUNTS, st.just("by hand")),
    st.builds(PointReworded, NAMED, NONE, st.just(LONG)),
    st.sampled_from([PointRetired, PointRestored, PointPinned, PointUnpinned]).flatmap(
        lambda kind: st.builds(kind, NAMED, NONE)
    ),
    st.builds(EventsVoided, st.lists(IDS, min_size=1, max_size=4).map(tuple), st.none(), NONE),
    st.builds(EventsVoided, st.just(()), st.integers(1, 6).map("s{}".format), NONE),
    st.builds(EventRedacted, IDS, st.just("private")),
    KNOWN,
)
STRETCHES = st.lists(st.lists(st.one_of(SAID), min_size=1, max_size=3), min_size=2, max_size=8)
LEARNED: list[Any] = [*(PointAdded(name, f"the text of {name!a}") for name in NAMES), CLOSED]
STORY: list[list[Any]] = [
    LEARNED,
    [PointRated("kpt_001", "helpful"), CLOSED],
    [PointRated("kpt_002", "harmful")] * 3,
    [PointRated("kpt_001", "harmful")],
    [PointRated(ODD, "helpful"), CLOSED],
    [PointRated("kpt_002", "helpful"), CLOSED],
]


def make_long(patch: pytest.MonkeyPatch) -> None:
    """Store checkpoints of a ledger however short it is."""
    patch.setattr(checkpoints, "TAIL_BYTES", 0)


def open_long_ledger(folder: Path) -> JsonlLog:
    """Return the ledger of a new project in a folder, a minute a batch."""
    (folder / ".claude").mkdir(parents=True)
    minutes = count(1_700_000_000_000_000, 60_000_000)
    return JsonlLog(Project(folder).ledger, lambda: clock.moment(next(minutes)))


def project_of(log: JsonlLog) -> Project:
    """Return the project of a ledger."""
    return Project(log.folder.parent.parent)


def grow(log: JsonlLog, stretches: Sequence[Sequence[Any]]) -> None:
    """Append batches, each of another session; an event of the number N is called ``id-N`` among them."""
    begin = len(list(log.read()))
    for index, events in enumerate(stretches, begin):
        ids = [record.id for batch in decode(log.read()) for record in batch.records]
        with log.transaction() as tx:
            tx.append([encode(_name_events(event, ids)) for event in events], HUMAN | {"session": f"s{index}"})


def _name_events(event: Any, ids: Sequence[str]) -> Any:
    """Return an event that names events of this ledger by their ids."""
    known = {f"id-{number}": id_ for number, id_ in enumerate(ids, 1)}
    if isinstance(event, EventsVoided):
        return event.evolve(ids=tuple(known.get(id_, id_) for id_ in event.ids))
    if isinstance(event, EventRedacted):
        return event.evolve(id=known.get(event.id, event.id))
    return event
