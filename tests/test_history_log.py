"""`log`: rows of plain JSON, combined filters, little decoding, and following what is appended."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st
import pytest

from helpers.commands import Answer, Run
from helpers.events import HUMAN
from helpers.ledger_codec import sample
from helpers.memory_log import MemoryLog
from helpers.reference_model import extraction
from helpers.view_histories import KNOWN
from tallybook.ledger import damage, scan, search, verification
from tallybook.ledger.codec import decode, encode
from tallybook.ledger.errors import BadInputError, UnknownEntryError
from tallybook.ledger.events import EVENT_TYPES, PointRated
from tallybook.ledger.records import Author, EventRecord
from tallybook.ledger.storage import disk
from tallybook.projections.history.event_rows import EventFilter, row
from tallybook.projections.surfaces.history import events as listing
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands

READING = (damage, disk, scan, search, verification)

IDS = ["s1", "s2", "s\"'é"]
SAID = st.fixed_dictionaries(
    {"rater": st.sampled_from(["human", "reflector"])}, optional={"session": st.sampled_from(IDS)}
)
BATCHES = st.lists(st.tuples(SAID, st.lists(KNOWN, min_size=1, max_size=4)), max_size=6)
NAMES = st.sampled_from(["kpt_001", "kpt_010", "pat-001", "never"])
KINDS = st.lists(st.sampled_from(["point.*", "point.rated", "playbook.updated", "events.*", "nothing.*"]), max_size=2)


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with two entries (2 to 3, 4 to 5), the first rated harmful in session s-one (6 to 8)."""
    made = Project(project)
    for text in ("one", "two"):
        commands.add(made, text, HUMAN)
    rated = extraction(("kpt_001", "harmful"), ("kpt_002", "helpful"))
    commands.record(made, rated, {"rater": "reflector", "session": "s-one"})
    return made


def log_of(batches: list[tuple[dict[str, str], list[Any]]]) -> MemoryLog:
    """Return a log of these batches, each with its provenance; line 1 opens it."""
    made = MemoryLog()
    for by, events in batches:
        with made.transaction() as tx:
            tx.append([encode(event) for event in events], by)
    return made


def seqs(answer: Answer) -> list[int]:
    """Return the numbers of the events that a command listed as JSON."""
    return [json.loads(line)["seq"] for line in answer.out.splitlines()]


# Rows


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_every_kind_becomes_a_row_of_plain_json(kind: str) -> None:
    """Each field of each kind is in body or free, and survives JSON unchanged."""
    event = sample(kind)
    told = row(EventRecord(812, "2026-11-21T20:17:03.123456Z", event, "019a", Author("reflector", session="s1")))
    assert told == json.loads(json.dumps(told))
    assert (kind, EVENT_TYPES[kind][1]) == (told["kind"], told["v"])
    assert {field.name for field in attrs.fields(type(event))} == {*told["body"], *(told.get("free") or {})}


# What is chosen


@settings(max_examples=200)
@given(
    batches=BATCHES,
    name=st.none() | NAMES,
    session=st.none() | st.sampled_from(IDS),
    rater=st.none() | st.sampled_from(["human", "nobody"]),
    kinds=KINDS,
    bounds=st.tuples(st.integers(0, 20), st.none() | st.integers(0, 20)),
)
def test_filters_on_bytes_and_on_events_agree(  # noqa: PLR0913, PLR0917 - one for each filter
    batches: list[tuple[dict[str, str], list[Any]]],
    name: str | None,
    session: str | None,
    rater: str | None,
    kinds: list[str],
    bounds: tuple[int, int | None],
) -> None:
    """Choosing batches by their bytes leaves out no event that a check of every single event would list."""
    made = log_of(batches)
    wanted = EventFilter(name, session, rater, tuple(kinds), *bounds)
    every = [record for batch in decode(made.read()) for record in batch.records]
    expected = [record for record in every if wanted.takes(record)]
    known = name is None or any(EventFilter(name).takes(record) for record in every)
    if known:
        assert expected == list(listing.events(made, wanted))
    else:
        with pytest.raises(UnknownEntryError):
            list(listing.events(made, wanted))


# The last events


def make_ratings(here: Project, number: int) -> None:
    """Append so many ratings."""
    with reading.open_log(here).transaction() as tx:
        for _ in range(number):
            tx.append([encode(PointRated("kpt_001", "neutral"))], {"rater": "human"})


@pytest.mark.parametrize("tail", [b"", b"torn", b"no break"])
def test_the_last_events_are_those_of_the_whole_list(here: Project, run: Run, tail: bytes) -> None:
    """Whatever precedes the end, a sealed range with whole lines or an undo, `log -n N` lists the last N of `log`."""
    log = here.ledger / "events.jsonl"
    make_ratings(here, 3)
    log.write_bytes(log.read_bytes() + b"\0\n" + log.read_bytes().splitlines(keepends=True)[-1].replace(b"1", b"9"))
    commands.rate(here, "kpt_001", "helpful", HUMAN)
    assert 0 == run("undo").code
    make_ratings(here, 2)
    log.write_bytes(log.read_bytes()[:-1] if tail == b"no break" else log.read_bytes() + tail)
    every = run("log", "--json").out.splitlines()
    for number in range(1, len(every) + 3):
        assert every[-number:] == run("log", "-n", str(number), "--json").out.splitlines()
    people = run("log").out.splitlines()
    assert people[-4:] == run("log", "-n", "4").out.splitlines()


# `verify`: a head noted elsewhere, and the log read once


@pytest.fixture
def changed(project: Path) -> Project:
    """Return a project with three entries and a rating each."""
    changed = Project(project)
    for text in ("one", "two", "three"):
        commands.add(changed, text, HUMAN)
    for name in ("kpt_001", "kpt_002", "kpt_003"):
        commands.rate(changed, name, "helpful", HUMAN)
    return changed


def test_a_head_noted_elsewhere_is_found_again(changed: Project) -> None:
    """A printed head stays valid as the ledger grows; any other head is a problem."""
    head = commands.verify_and_fold(changed)[0].head
    commands.rate(changed, "kpt_001", "harmful", HUMAN)
    assert commands.verify_and_fold(changed, expect=f"{head.seq}:{head.chain}")[0].ok
    (problem,) = commands.verify_and_fold(changed, expect=f"{head.seq}:{'0' * 32}")[0].problems
    assert head.seq == problem.seq
    assert not commands.verify_and_fold(changed, expect=f"{head.seq + 50}:{head.chain}")[0].ok
    with pytest.raises(BadInputError):
        commands.verify_and_fold(changed, expect="yesterday")[0]


def test_verify_reads_the_log_once(changed: Project, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """`verify` of a long ledger reads each of its bytes from the disk once, and a few at its ends again."""
    commands.record(changed, {"new_key_points": [f"{number} " + "x" * 9_000 for number in range(100)]}, HUMAN)
    log, read_at, sizes = changed.ledger / "events.jsonl", disk.read_at, []

    def counting(fd: int, size: int, offset: int) -> bytes:
        data = read_at(fd, size, offset)
        if os.path.samestat(os.fstat(fd), log.stat()):
            sizes.append(len(data))
        return data

    for module in READING:
        monkeypatch.setattr(module, "read_at", counting)
    assert 0 == run("--project", str(changed.root), "verify").code
    assert 1.0 <= sum(sizes) / log.stat().st_size < 1.2
