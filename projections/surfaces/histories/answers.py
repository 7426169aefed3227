"""What ``import --ledger`` answers: what was found, what it brought, and what counted nothing."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import attrs

from tallybook.projections.surfaces.console.output import answer, format_count, note, say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallybook.projections.surfaces.histories.joining import ImportedLedger

# A terminal shows so many of them; JSON has all.
_MAX_IGNORED = 8


def print_imported(done: ImportedLedger, source: str, *, as_json: bool, dry_run: bool, **_: bool) -> None:
    """Print the result of an import of a ledger.

    Args:
        done: The result.
        source: What was imported, as a person typed it.
        as_json: Whether to print JSON.
        dry_run: Whether nothing was recorded.
    """
    note(*_notes(done))
    if not as_json:
        say(*_lines(done, source, dry_run=dry_run))
        return
    arrival = done.arrival
    first, last = done.events or (None, None)
    answer({
        "seq_from": first,
        "seq_to": last,
        "added": arrival.added,
        "joined": arrival.joined,
        "renamed": arrival.renamed,
        "ratings": arrival.ratings,
        "batches": len(arrival.batches),
        "known": arrival.known,
        "ignored": list(map(attrs.asdict, arrival.ignored)),
        "masked": arrival.masked,
        "redacted": done.redacted,
        "unproven": done.unproven,
        "repaired": done.kept,
        "aside": list(done.aside),
        "lost": done.lost,
        "dry_run": dry_run,
    })  # fmt: skip


def _notes(done: ImportedLedger) -> Iterator[str]:
    if done.lost:
        yield f"event {done.lost} was acknowledged and is in no copy; what only it had is lost"
    if done.unproven:
        yield f"{format_count(done.unproven, 'line')} left out: no chain from a first line proves them"
    if done.arrival.masked:
        yield f"{format_count(done.arrival.masked, 'text')} looked like a secret and was masked"
    if done.tracked is not None:
        command = f"git add --force {shlex.quote(str(done.tracked))}"
        yield f"git tracks {done.tracked}; `{command}` and a commit keep this version"


def _lines(done: ImportedLedger, source: str, *, dry_run: bool) -> Iterator[str]:
    arrival = done.arrival
    if done.kept is not None:
        yield f"events.jsonl {'would be' if dry_run else 'is'} whole up to event {done.kept}, as it was acknowledged"
    yield from (f"set aside: {path}" for path in done.aside)
    entries = format_count(len(arrival.added), "entry", "entries")
    brings = f"{format_count(arrival.ratings, 'rating')} and {entries}"
    if not arrival.batches:
        yield f"nothing new in {source}: {format_count(arrival.known, 'batch', 'batches')} of it are here already"
    elif dry_run:
        yield f"{source} would bring {brings}; nothing was recorded"
    elif done.events is not None:
        yield f"{brings} from {source}, recorded as events {done.events[0]} to {done.events[1]}"
    if arrival.added:
        yield f"added {', '.join(arrival.added)}"
    yield from (f"{old} there is {new} here, with the same text" for old, new in arrival.joined.items())
    yield from (f"{old} there is {new} here" for old, new in arrival.renamed.items())
    if done.redacted:
        yield f"{format_count(done.redacted, 'text')} erased, as in the other ledger"
    yield from (f"ignored {one.item}: {one.reason}" for one in arrival.ignored[:_MAX_IGNORED])
    if len(arrival.ignored) > _MAX_IGNORED:
        yield f"and {len(arrival.ignored) - _MAX_IGNORED:,} more; --json lists them all"
