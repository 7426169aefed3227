"""``tallybook sql``: one query over the verified ledger and its views, in a SQLite database that lives in memory alone.

Once the tables are filled, an authorizer lets a statement read them and do nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from functools import lru_cache
import json
from math import isfinite
import re
import sqlite3
from typing import TYPE_CHECKING, Any, Final

from tallybook.ledger import clock
from tallybook.ledger.errors import BadInputError
from tallybook.ledger.events import RATINGS
from tallybook.ledger.records import Batch, EventRecord
from tallybook.ledger.sharing.numbers import plain
from tallybook.projections.history.entry_history import ENTRIES, blame, graveyard
from tallybook.projections.history.event_rows import kind_of, row
from tallybook.projections.playbook.fold import UndoneEvent, fold, history
from tallybook.projections.playbook.inject import interval
from tallybook.projections.surfaces.history.moments import history_at
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from tallybook.projections.surfaces.history.moments import Moment

LIMIT_S: Final = 60.0
"""Seconds after which a query is ended."""
MAX_VALUE_BYTES: Final = 50_000_000
"""Size of the largest value that a query can make."""
_STEPS_BETWEEN_LOOKS: Final = 10_000
_CHUNK_ROWS: Final = 1_000

_READS: Final = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE)
_NO_FUNCTIONS: Final = ("load_extension", "zeroblob", "randomblob")
"""The first reads a file; the others make large values at no cost."""

# The tables


Row = dict[str, Any]


def _parse_columns(text: str) -> dict[str, str]:
    return dict(column.split() for column in text.split(","))


COLUMNS: Final = {
    "events": _parse_columns(
        "seq INTEGER, id TEXT, at TEXT, when TEXT, kind TEXT, v INTEGER, session TEXT, rater TEXT,"
        "agent TEXT, model TEXT, body JSON, free JSON, void INTEGER, writer TEXT, book INTEGER"
    ),
    "points": _parse_columns(
        "name TEXT, text TEXT, helpful INTEGER, harmful INTEGER, low REAL, high REAL,"
        "changed INTEGER, at TEXT, rater TEXT, changed_book INTEGER, writer TEXT"
    ),
    "graveyard": _parse_columns(
        "name TEXT, text TEXT, helpful INTEGER, harmful INTEGER, status TEXT, rule TEXT, reason TEXT,"
        "went_into TEXT, seq INTEGER, at TEXT, rater TEXT, session TEXT, book INTEGER, writer TEXT"
    ),
}
"""Table → its columns → their types in SQLite. Times are texts as the ledger writes them, truth values 0 and 1.

``writer`` is the machine of a shared event, and ``book`` its number in the shared book; without these they are NULL.
"""

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


def _event(record: EventRecord) -> Row:
    """Return an event as a row; ``void`` says whether it is undone in its history."""
    is_undone = isinstance(record.event, UndoneEvent)
    event = record.event.event if isinstance(record.event, UndoneEvent) else record.event
    kind, version = kind_of(event)
    body, free = _contents(event)
    head = {"seq": record.seq, "id": record.id, "at": record.at, "when": record.when, "kind": kind, "v": version}
    by = {field: getattr(record.by, field) for field in ("session", "rater", "agent", "model", "writer")}
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


def _flatten(entries: Iterable[Row]) -> Iterator[Row]:
    """Yield entries of the playbook, or those that left it, with their interval and the parts of their last event."""
    for entry in entries:
        event = entry.pop("event")
        by, (low, high) = event["by"], interval(entry["helpful"], entry["harmful"])
        author = {field: by.get(field) for field in ("rater", "session", "writer")}
        place = {"seq": event["seq"], "changed": event["seq"], "at": event["at"], "went_into": entry.get("into")}
        yield entry | {"low": low, "high": high} | place | author


# The answer


# Columns of the type JSON come back as values; a value that a query made stays a text.
sqlite3.register_converter("json", json.loads)


def query(project: Project, text: str, moment: Moment | None = None) -> Iterator[tuple[Any, ...]]:
    """Yield the names of the columns of an answer, each once, then its rows; values as JSON has them.

    The rows are fetched when they are iterated, and the database lives as long as that.

    Args:
        project: The project.
        text: One SELECT, WITH or VALUES, or PRAGMA table_info.
        moment: The moment up to which history counts; None for now.

    Raises:
        BadInputError: SQLite refuses the query, or it is more than a query, or takes longer than ``LIMIT_S``.
    """
    with closing(sqlite3.connect(":memory:", isolation_level=None, detect_types=sqlite3.PARSE_DECLTYPES)) as database:
        # Sorted rows would otherwise go to a file.
        database.execute("PRAGMA temp_store = MEMORY")
        _create_tables(database, history_at(project, moment), text.casefold())
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
        database.set_authorizer(_authorize)
        until_s = clock.elapsed_s() + LIMIT_S
        database.set_progress_handler(lambda: clock.elapsed_s() > until_s, _STEPS_BETWEEN_LOOKS)
        with _translate_errors(text, until_s):
            cursor = database.execute(text)
        if cursor.description is None:
            raise BadInputError("the query", "holds no statement", "give one SELECT")
        yield _distinct([column[0] for column in cursor.description])
        while True:
            with _translate_errors(text, until_s):
                rows = cursor.fetchmany(_CHUNK_ROWS)
            if not rows:
                return
            for row in rows:
                yield tuple(map(_to_json, row))


def _authorize(action: int, first: str | None, second: str | None, *_: object) -> int:
    """Let a statement read tables and call functions that change and open nothing."""
    is_allowed = (
        action in _READS
        or (action == sqlite3.SQLITE_FUNCTION and second not in _NO_FUNCTIONS)
        or (action == sqlite3.SQLITE_PRAGMA and first == "table_info")
    )
    return sqlite3.SQLITE_OK if is_allowed else sqlite3.SQLITE_DENY


@contextmanager
def _translate_errors(text: str, until_s: float) -> Iterator[None]:
    """Turn SQLite's errors into errors of the query, and an interruption into `KeyboardInterrupt`."""
    try:
        yield
    except (sqlite3.Error, sqlite3.Warning) as error:
        if getattr(error, "sqlite_errorname", "") != "SQLITE_INTERRUPT":
            raise _fault(error, text) from error
        if clock.elapsed_s() <= until_s:
            # Ctrl-C, which arrived while the progress handler ran.
            raise KeyboardInterrupt from error
        raise BadInputError("the query", f"takes longer than {LIMIT_S:g} seconds", "ask for less") from error
    except UnicodeEncodeError as error:
        raise BadInputError("the query", "is not UTF-8 text", "give it as UTF-8") from error
    except MemoryError as error:
        raise BadInputError("the query", "needs more memory than there is", "ask for less") from error


def _create_tables(database: sqlite3.Connection, read: Callable[[], Iterable[Batch]], text: str) -> None:
    """Create every table, and fill those that the query names: each takes a fold of history."""
    for name, types in COLUMNS.items():
        fields = ", ".join(f'"{column}" {type_}' for column, type_ in types.items())
        database.execute(f"CREATE TABLE {name} ({fields})")
    for name, view in VIEWS.items():
        database.execute(f"CREATE VIEW {name} AS {view}")
    if any(name in text for name in ("events", *VIEWS)):
        rows = (_event(record) for batch in history(read) for record in batch.records)
        _insert(database, "events", rows)
    if "points" in text or "graveyard" in text:
        state = fold(ENTRIES, history(read))
        _insert(database, "points", _flatten(blame(state)))
        _insert(database, "graveyard", _flatten(graveyard(state)))


def _insert(database: sqlite3.Connection, name: str, rows: Iterable[Row]) -> None:
    """Insert rows into a table; what a row lacks is NULL."""
    columns = COLUMNS[name]
    marks = ", ".join("?" * len(columns))
    values = (tuple(map(row.get, columns)) for row in map(plain, rows))
    database.execute("BEGIN")
    database.executemany(f"INSERT INTO {name} VALUES ({marks})", values)  # noqa: S608 - our own table
    database.execute("COMMIT")


def _fault(error: Exception, text: str) -> BadInputError:
    """Return SQLite's error about a query as one line."""
    message = " ".join(str(error).split())
    if "one statement at a time" in message:
        return BadInputError("the query", "holds several statements", "give one SELECT")
    if message.startswith(("not authorized", "access to ", "prohibited")):
        return BadInputError("the query", f"does more than read the tables ({message})", "give one SELECT")
    is_reserved = "syntax error" in message and "when" in re.split(r"[\s,()]+", text.casefold())
    return BadInputError("the query", message, 'put the column "when" in double quotes' if is_reserved else "")


def _distinct(names: list[str]) -> tuple[str, ...]:
    """Return names, with a number appended to each that was used before."""
    distinct: dict[str, None] = {}
    for name in names:
        candidate, number = name, 1
        while candidate in distinct:
            candidate, number = f"{name}_{number}", number + 1
        distinct[candidate] = None
    return tuple(distinct)


def _to_json(value: Any) -> Any:
    """Return a value as JSON has it: bytes in hex, and an infinite number as a text."""
    if isinstance(value, bytes):
        return value.hex()
    return value if not isinstance(value, float) or isfinite(value) else str(value)
