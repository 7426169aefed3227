"""``tallybook sql``: one query over the verified ledger and its views, in a SQLite database that lives in memory alone.

Once the tables are filled, an authorizer lets a statement read them and do nothing else.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from itertools import takewhile
import json
from math import isfinite
import re
import sqlite3
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger import clock
from tallybook.ledger.errors import BadInputError
from tallybook.ledger.sharing.numbers import plain
from tallybook.projections import sql_tables
from tallybook.projections.entry_history.view import ENTRIES
from tallybook.projections.fold import fold, history
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.history.reading import log_with_book, open_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from tallybook.ledger.records import Batch
    from tallybook.projections.surfaces.history.moments import Moment
    from tallybook.projections.surfaces.workspace.project import Project

LIMIT_S: Final = 60.0
"""Seconds after which a query is ended."""
MAX_VALUE_BYTES: Final = 50_000_000
"""Size of the largest value that a query can make."""
_STEPS_BETWEEN_LOOKS: Final = 10_000
_CHUNK_ROWS: Final = 1_000

_READS: Final = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE)
_NO_FUNCTIONS: Final = ("load_extension", "zeroblob", "randomblob")
"""The first reads a file; the others make large values at no cost."""

# Columns of the type JSON come back as values; a value that a query made stays a text.
sqlite3.register_converter("json", json.loads)


@attrs.frozen
class Table:
    """The result of a query.

    Attributes:
        columns: The names of its columns, each once.
        rows: The rows, fetched when they are iterated; values as JSON has them.
    """

    columns: tuple[str, ...]
    rows: Iterator[tuple[Any, ...]]


def query(project: Project, text: str, when: str | Moment | None = None) -> Table:
    """Return the result of a query.

    Args:
        project: The project.
        text: One SELECT, WITH or VALUES, or PRAGMA table_info.
        when: The moment up to which history counts; None for now.

    Raises:
        BadInputError: SQLite refuses the query, or it is more than a query, or takes longer than ``LIMIT_S``.
    """
    whole, until = commands.up_to(project, when)

    def read() -> Iterable[Batch]:
        return whole() if until is None else takewhile(lambda batch: batch.last <= until, whole())

    shared = log_with_book(open_log(project))
    columns = {
        name: own | (sql_tables.SHARED_COLUMNS[name] if shared else {}) for name, own in sql_tables.COLUMNS.items()
    }
    rows = _answer(text, read, columns)
    return Table(_distinct(next(rows)), rows)


def _answer(text: str, read: Callable[[], Iterable[Batch]], columns: Mapping[str, Mapping[str, str]]) -> Iterator[Any]:
    """Yield the names of the columns of an answer, then its rows; the database lives as long as they are read."""
    with closing(sqlite3.connect(":memory:", isolation_level=None, detect_types=sqlite3.PARSE_DECLTYPES)) as database:
        # Sorted rows would otherwise go to a file.
        database.execute("PRAGMA temp_store = MEMORY")
        _create_tables(database, read, text.casefold(), columns)
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
        database.set_authorizer(_authorize)
        until_s = clock.elapsed_s() + LIMIT_S
        database.set_progress_handler(lambda: clock.elapsed_s() > until_s, _STEPS_BETWEEN_LOOKS)
        with _querying(text, until_s):
            cursor = database.execute(text)
        if cursor.description is None:
            raise BadInputError("the query", "holds no statement", "give one SELECT")
        yield [column[0] for column in cursor.description]
        while True:
            with _querying(text, until_s):
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
def _querying(text: str, until_s: float) -> Iterator[None]:
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
    except MemoryError as error:
        raise BadInputError("the query", "needs more memory than there is", "ask for less") from error


def _create_tables(
    database: sqlite3.Connection,
    read: Callable[[], Iterable[Batch]],
    text: str,
    columns: Mapping[str, Mapping[str, str]],
) -> None:
    """Create every table, and fill those that the query names: each takes a fold of history."""
    for name, types in columns.items():
        fields = ", ".join(f'"{column}" {type_}' for column, type_ in types.items())
        database.execute(f"CREATE TABLE {name} ({fields})")
    for name, view in sql_tables.VIEWS.items():
        database.execute(f"CREATE VIEW {name} AS {view}")
    if any(name in text for name in ("events", *sql_tables.VIEWS)):
        rows = sql_tables.shared_events if "writer" in columns["events"] else sql_tables.events
        _insert(database, "events", columns["events"], rows(history(read)))
    if "points" in text or "graveyard" in text:
        state = fold(ENTRIES, history(read))
        _insert(database, "points", columns["points"], sql_tables.entries(state))
        _insert(database, "graveyard", columns["graveyard"], sql_tables.graves(state))


def _insert(
    database: sqlite3.Connection, name: str, columns: Mapping[str, str], rows: Iterable[sql_tables.Row]
) -> None:
    """Insert rows into a table; what a row lacks is NULL."""
    marks = ", ".join("?" * len(columns))
    plain_rows = map(plain, rows) if "writer" in columns else rows
    values = (tuple(map(row.get, columns)) for row in plain_rows)
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
