"""Days of scores that rise and fall, with changes of the playbook and undos between them."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from tallybook.ledger import clock
from tallybook.ledger.encoding.codec import decode, encode
from tallybook.ledger.events import EventsVoided, MetricsRecorded, Numbers, PlaybookUpdated, PointAdded
from tallybook.ledger.log import JsonlLog

if TYPE_CHECKING:
    from tallybook.projections.surfaces.workspace.project import Project

DAYS = 8
UNDOING = {2, 5}
"""Days at whose end the last change is undone."""


def record_days(project: Project) -> None:
    """Record on each of eight days three new entries, the scores of a session between them, and undos on two days."""
    chance = Random(5)  # noqa: S311 - the same history in every run
    for day in range(DAYS):
        for part in range(3):
            at, number = f"2026-01-{10 + day}T{6 + 4 * part:02}:00:00.000000Z", 3 * day + part + 1
            _append(project, at, [PointAdded(f"kpt_{number:03}", f"guidance {number}"), PlaybookUpdated(0, 0, 0)])
            if part == 1:
                _append(project, at, [MetricsRecorded("ac03", Numbers({"accuracy": chance.randrange(101)}), "")])
        if day in UNDOING:
            *_, last = decode(JsonlLog(project.ledger).read())
            _append(project, at, [EventsVoided((last.records[0].id,), None, "")])


def _append(project: Project, at: str, events: list[Any]) -> None:
    """Append a batch at a time, in a session of its own."""
    log = JsonlLog(project.ledger, lambda: clock.moment(clock.to_unix_us(at)))
    with log.transaction() as tx:
        tx.append([encode(event) for event in events], {"rater": "reflector", "session": f"s-{at[5:13]}"})
    log.close()
