"""The ledger and its views as rows of tables for SQL queries. Pure: no database is opened here."""

from __future__ import annotations

from functools import lru_cache
import json
from typing import TYPE_CHECKING, Any, Final

from tallybook.ledger.events import RATINGS
from tallybook.ledger.records import EventRecord
from tallybook.projections.entry_history.answers import blame, graveyard
from tallybook.projections.event_rows import kind_of, row
from tallybook.projections.fold import UndoneEvent
from tallybook.projections.playbook.confidence import interval

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tallybook.ledger.records import Batch
    from tallybook.projections.entry_history.view import EntryStatuses

Row = dict[str, Any]


def _parse_columns(text: str) -> dict[str, str]:
    return dict(column.split() for column in text.split(","))


COLUMNS: Final = {
    "events": _parse_columns(
        "seq INTEGER, id TEXT, at TEXT, when TEXT, kind TEXT, v INTEGER, session TEXT, rater TEXT,"
        "agent TEXT, model TEXT, body JSON, free JSON, void INTEGER"
    ),
    "points": _parse_columns(
        "name TEXT, text TEXT, helpful INTEGER, harmful INTEGER, low REAL, high REAL,"
        "changed INTEGER, at TEXT, rater TEXT"
    ),
    "graveyard": _parse_columns(
        "name TEXT, text TEXT, helpful INTEGER, harmful INTEGER, status TEXT, rule TEXT, reason TEXT,"
        "went_into TEXT, seq INTEGER, at TEXT, rater TEXT, session TEXT"
    ),
}
"""Table → its columns → their types in SQLite. Times are texts as the ledger writes them, truth values 0 and 1."""

SHARED_COLUMNS: Final = {
    "events": _parse_columns("writer TEXT, book INTEGER"),
    "points": _parse_columns("changed_book INTEGER, writer TEXT"),
    "graveyard": _parse_columns("book INTEGER, writer TEXT"),
}
"""Table → its further columns in a shared history: the machine, and the number of an event in the book."""

# Which ratings count is decided by the vocabulary of the ledger alone.
_VALID: Final = "json_extract(body, '$.rating') IN ({})".format(", ".join(map(repr, RATINGS)))

VIEWS: Final[dict[str, str]] = {
    "ratings": f"""
        SELECT seq, id, at, "when", json_extract(body, '$.name') AS name, json_extract(body, '$.rating') AS rating,
            session, rater, agent, model, void, {_VALID} AS valid
        FROM events WHERE kind = 'point.rated'""",  # noqa: S608 - made of constants
    "sessions": f"""
        SELECT session, min("at") AS first, max("at") AS last, count(*) AS events,
            count(*) FILTER (WHERE
                kind = 'point.rated' AND NOT void AND {_VALID}
            ) AS ratings,
            count(*) FILTER (WHERE kind = 'point.added' AND NOT void) AS learned,
            count(*) FILTER (WHERE kind = 'point.cited') AS cited
        FROM events WHERE session IS NOT NULL GROUP BY session ORDER BY first, session""",  # noqa: S608 - made of constants
}
"""SQL view → its query."""


def events(batches: Iterable[Batch]) -> Iterator[Row]:
    """Yield each event as a row; ``void`` says whether it is undone in these batches."""
    for batch in batches:
        for record in batch.records:
            yield _event(record)


def shared_events(batches: Iterable[Batch]) -> Iterator[Row]:
    """Yield each event of a shared history as ``events``, with its machine and its number in the book."""
    for batch in batches:
        for record in batch.records:
            yield {"writer": record.by.writer} | _event(record)


def _event(record: EventRecord) -> Row:
    is_undone = isinstance(record.event, UndoneEvent)
    event = record.event.event if isinstance(record.event, UndoneEvent) else record.event
    kind, version = kind_of(event)
    body, free = _contents(event)
    head = {"seq": record.seq, "id": record.id, "at": record.at, "when": record.when, "kind": kind, "v": version}
    by = {field: getattr(record.by, field) for field in ("session", "rater", "agent", "model")}
    return head | by | {"body": body, "free": free, "void": is_undone}


# Most events repeat the content of an earlier one.
@lru_cache(maxsize=4096)
def _contents(event: Any) -> tuple[str, str | None]:
    """Return body and free text of an event as JSON; no free text where it has none or was redacted."""
    fields = row(EventRecord(0, "", event))
    free = fields.get("free")
    return json.dumps(fields["body"], ensure_ascii=False), None if free is None else json.dumps(
        free, ensure_ascii=False
    )


def entries(state: EntryStatuses) -> Iterator[Row]:
    """Yield each entry of the playbook with its interval and the event that last changed it."""
    for entry in blame(state):
        event = entry.pop("event")
        low, high = interval(entry["helpful"], entry["harmful"])
        by = event["by"]
        place = {"changed": event["seq"], "at": event["at"], "rater": by["rater"], "writer": by.get("writer")}
        yield entry | {"low": low, "high": high} | place


def graves(state: EntryStatuses) -> Iterator[Row]:
    """Yield each entry that left the playbook, with the event that took it out."""
    for entry in graveyard(state):
        event = entry.pop("event")
        by = event["by"]
        place = {"seq": event["seq"], "at": event["at"], "rater": by["rater"], "session": by.get("session")}
        yield entry | place | {"went_into": entry.pop("into"), "writer": by.get("writer")}
