"""Draws, drawn again: with the secret, anyone who doubts a draw can repeat it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tallybook.ledger.encoding.codec import decode
from tallybook.ledger.events import PlaybookInjected
from tallybook.projections.lift.view import is_unit_held
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.hooks import draws

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallybook.ledger.records import EventRecord
    from tallybook.projections.surfaces.workspace.project import Project


class Redrawn(NamedTuple):
    """The draws of a ledger, drawn again.

    Attributes:
        again: How many injections were drawn again.
        unknown: How many were not, because their secret is not here.
        different: Those that came out otherwise, a line each.
    """

    again: int = 0
    unknown: int = 0
    different: tuple[str, ...] = ()


def draw_again(project: Project) -> Redrawn:
    """Draw again for each recorded draw whose secret this user has."""
    log = reading.open_own_log(project)
    known = draws.read_secrets(project)
    again, unknown, different = 0, 0, []
    for record in _drawn(log):
        event: Any = record.event
        secret = known.get(event.question)
        # The secret stays with the user who asked: elsewhere a draw cannot be repeated, and that is no fault of it.
        if secret is None:
            unknown += 1
            continue
        again += 1
        odd = [unit for unit in event.units if is_unit_held(event, unit) != _draw(secret, event, unit)]
        if odd:
            different.append(f"event {record.seq}: {', '.join(odd)} came out otherwise when drawn again")
    return Redrawn(again, unknown, tuple(different))


def _drawn(log: Any) -> Iterator[EventRecord]:
    for batch in decode(log.read()):
        # Line heads are decoded only where a batch injects, as that is slow.
        if PlaybookInjected in map(type, batch.events):
            for record in batch.records:
                event: Any = record.event
                if isinstance(event, PlaybookInjected) and event.question:
                    yield record


def _draw(secret: bytes, event: PlaybookInjected, unit: str) -> bool:
    return draws.is_held(secret, event.question, event.lineage, unit, event.probability)
