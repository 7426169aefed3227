"""Rows ``load``, ``at`` and ``size``: the cost of a long ledger's end, of its past, and of its bytes."""

from __future__ import annotations

from contextlib import closing
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from benchmarks.append import appended
from benchmarks.commands import whole_process
from benchmarks.crowd import RATING
from benchmarks.table import Row, Setting, alternate, faster, medians
from benchmarks.worker import once
from tallybook.ledger.codec import decode
from tallybook.ledger.line import LOG_NAME
from tallybook.ledger.log import JsonlLog
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tallybook.ledger.records import EventRecord

PAIRS = 15
LONG, SHORT = 10, 1_000
"""A load is measured at so many times the asked for length, and at this part of it."""
MILLISECONDS = 1_000


def project_of(setting: Setting, kind: str, events: int) -> Project:
    """Return a project with a ledger of so many events and its checkpoints."""
    project = Project(setting.folder / f"lengths-{kind}-{events}")
    once("build", project.ledger, kind, events)
    commands.playbook(project)
    return project


def _after_one_more(project: Project, words: tuple[str, ...]) -> Callable[[], float]:
    """Return a function that appends a rating, which is not counted, and returns the seconds of a command after it."""
    run = whole_process(project, words)

    def measured() -> float:
        with closing(JsonlLog(project.ledger)) as log:
            appended(log, [RATING])
        return run()

    return measured


def load(setting: Setting) -> Iterator[Row]:
    """Measure showing a long ledger after one new event, against a short one."""
    lengths = (setting.events * LONG, max(setting.events // SHORT, 1))
    ours, theirs = (_after_one_more(project_of(setting, "alike", length), ("show", "--json")) for length in lengths)
    ours()
    theirs()
    taken = alternate(ours, theirs, setting.pairs(PAIRS))
    what, against = (f"`show` behind one new event, whole process, {length:,} events" for length in lengths)
    yield Row("load", what, against, faster(taken), *medians(taken, MILLISECONDS), "ms")


def _minimal(record: EventRecord) -> bytes:
    """Return an event as the least JSON with the same meaning: no id, no chain, its kind known by its fields."""
    said: dict[str, Any] = {"at": record.at, "session": record.by.session} | attrs.asdict(record.event)
    return json.dumps(said, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def size(setting: Setting) -> Iterator[Row]:
    """Measure the bytes of a ledger of ratings against the least JSON with the same meaning."""
    folder = setting.folder / "size"
    once("build", folder, "alike", min(setting.events, 100_000))
    path = Path(folder) / LOG_NAME
    records = [record for batch in decode(JsonlLog(folder).read()) for record in batch.records]
    theirs, ours = sum(len(_minimal(record)) for record in records), path.stat().st_size
    number = len(records)
    what, against = (
        f"bytes an event, {number:,} events, sessions with UUIDs",
        "the same facts as minimal JSON, without id",
    )
    yield Row("size", what, against, (theirs / ours,), ours / number, theirs / number, "bytes")
