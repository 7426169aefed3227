"""The doctor's checks of living with an agent: whether hooks fire, and what went wrong in one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ledger import clock, disk
from ledger.errors import CannotWriteError
from ledger.verify import salvage
from projections.history import kind_of
from projections.surfaces.findings import NOTE, OK, Finding, age
from projections.surfaces.hook import NOTE as WENT_WRONG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from projections.surfaces.findings import Patient

FIRED: Final = {
    "playbook.injected": "a session was told the playbook {} ago",
    "point.cited": "an entry was cited {} ago",
    "reflection.requested": "a reflection was asked for {} ago",
}
"""Kind that only hooks write → what is said of the last one."""


def hooks(patient: Patient) -> Iterator[Finding]:
    """Say when hooks fired last, by what they wrote, and what the last of them could not do."""
    last: dict[str, str] = {}
    for batch in salvage(patient.log) if patient.log.path.exists() else ():
        if any(kind_of(event)[0] in FIRED for event in batch.events):
            last |= {kind_of(record.event)[0]: record.at for record in batch.records}
    fired = [words.format(age(clock.unix_us(last[kind]), patient.now)) for kind, words in FIRED.items() if kind in last]
    told = "; ".join(fired) or "none has recorded anything yet"
    try:
        went_wrong = disk.read_file(patient.project.ledger / WENT_WRONG).decode("utf-8", "replace").strip()
    except (FileNotFoundError, CannotWriteError):
        if patient.log.exists():
            yield Finding(OK, told)
        return
    hint = f"delete {WENT_WRONG} in the ledger's folder once that is mended"
    yield Finding(NOTE, f"a hook could not do all that it should: {went_wrong}; {told}", hint)
