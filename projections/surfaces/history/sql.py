"""``tallybook sql``: one query over the verified ledger and its views, in a database that lives in memory alone.

DuckDB is an extra. It is shut off from files, the network and its own settings before the query is looked at.
"""

from __future__ import annotations

from contextlib import contextmanager
from datetime import date, time, timedelta
from decimal import Decimal
from itertools import islice, takewhile
import json
from math import isfinite
import re
from typing import TYPE_CHECKING, Any, Final

import attrs
import msgspec

from tallybook.ledger.errors import BadInputError
from tallybook.ledger.sharing.numbers import plain
from tallybook.projections import sql_tables
from tallybook.projections.entry_history.status import status_view
from tallybook.projections.fold import fold, history
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.history.reading import log_with_book, open_log
from tallybook.projections.surfaces.workspace.installation import install_command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import duckdb

    from tallybook.ledger.records import Batch
    from tallybook.projections.surfaces.history.moments import Moment
    from tallybook.projections.surfaces.workspace.project import Project

SETTINGS: Final = {
    "temp_directory": "",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_persistent_secrets": "false",
    "python_enable_replacements": "false",
}
"""DuckDB writes nothing to disk, fetches nothing, stores no secrets and reads no variables of this program."""

TUNED: Final = ("SET enable_progress_bar = false", "SET TimeZone = 'UTC'")
"""Without a progress bar in the answer, which is the same in every time zone."""

SHUT: Final = ("SET enable_external_access = false", "SET lock_configuration = true")
ASKS: Final = {"SELECT", "MULTI"}
"""Kinds of statements that only read; PIVOT is the second, because it makes a type of its own in memory."""

CHUNK_ROWS: Final = 10_000
"""Rows that are inserted or fetched at once."""

RESERVED: Final = ("at", "when", "into")
"""Names of columns that are reserved words of SQL."""

ZONED: Final = "TIMESTAMP WITH TIME ZONE"
"""DuckDB returns such times only with the help of another library."""


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
        text: One SELECT, or WITH, FROM, VALUES, DESCRIBE, SHOW, SUMMARIZE or PIVOT in its place.
        when: The moment up to which history counts; None for now.

    Raises:
        BadInputError: DuckDB is missing, or refuses the query.
    """
    duck = _duckdb()
    whole, until = commands.up_to(project, when)

    def read() -> Iterable[Batch]:
        return whole() if until is None else takewhile(lambda batch: batch.last <= until, whole())

    connection = duck.connect(":memory:", config=SETTINGS)
    for statement in TUNED:
        connection.execute(statement)
    shared = log_with_book(open_log(project))
    columns = {
        name: own | (sql_tables.SHARED_COLUMNS[name] if shared else {}) for name, own in sql_tables.COLUMNS.items()
    }
    _create_tables(connection, read, text.casefold(), columns)
    for statement in SHUT:
        connection.execute(statement)
    with _asking(text):
        _check(connection, text)
        connection.execute(text)
        found = [(column[0], str(column[1])) for column in connection.description or []]
        if any(ZONED in type_ for _, type_ in found):
            _without_zones(connection, text, [type_ for _, type_ in found])
    names = _distinct([name for name, _ in found])
    return Table(names, _rows(connection, [type_ == "JSON" for _, type_ in found]))


def _without_zones(connection: duckdb.DuckDBPyConnection, text: str, types: list[str]) -> None:
    """Run the query again, with times in UTC without a zone in place of times with one."""
    connection.execute(f"CREATE TEMP TABLE zoned AS {text}")
    chosen = ", ".join(f"#{place}::{type_.replace(ZONED, 'TIMESTAMP')}" for place, type_ in enumerate(types, 1))
    connection.execute(f"SELECT {chosen} FROM zoned")  # noqa: S608 - places and types alone


@contextmanager
def _asking(text: str = "") -> Iterator[None]:
    """Turn DuckDB's errors into errors of the query, and its interruptions into `KeyboardInterrupt`."""
    duck = _duckdb()
    try:
        yield
    except duck.InterruptException as error:
        raise KeyboardInterrupt from error
    except duck.Error as error:
        raise _fault(error, text) from error
    except RuntimeError as error:
        # It checks for signals itself, and raises this where Python would raise KeyboardInterrupt.
        if "interrupted" not in str(error):
            raise
        raise KeyboardInterrupt from error


def _duckdb() -> Any:
    """Return the library.

    Raises:
        BadInputError: It is not installed.
    """
    try:
        import duckdb
    except ImportError as error:
        hint = f"run: {install_command('duckdb')}"
        raise BadInputError("sql", "needs the package duckdb, which is not installed", hint) from error
    return duckdb


def _create_tables(
    connection: duckdb.DuckDBPyConnection,
    read: Callable[[], Iterable[Batch]],
    text: str,
    columns: Mapping[str, Mapping[str, str]],
) -> None:
    """Create every table, and fill those that the query names: each takes a fold of history."""
    for name, types in columns.items():
        fields = ", ".join(f'"{column}" {type_}' for column, type_ in types.items())
        connection.execute(f"CREATE TABLE {name} ({fields})")
    for name, view in sql_tables.VIEWS.items():
        connection.execute(f"CREATE VIEW {name} AS {view}")
    if any(name in text for name in ("events", *sql_tables.VIEWS)):
        rows = sql_tables.shared_events if "writer" in columns["events"] else sql_tables.events
        _insert(connection, "events", columns["events"], rows(history(read)))
    if "points" in text or "graveyard" in text:
        state = fold(status_view(), history(read))
        _insert(connection, "points", columns["points"], sql_tables.entries(state))
        _insert(connection, "graveyard", columns["graveyard"], sql_tables.graves(state))


def _insert(
    connection: duckdb.DuckDBPyConnection, name: str, columns: Mapping[str, str], rows: Iterable[sql_tables.Row]
) -> None:
    """Insert rows into a table, many at once as JSON: row by row would take a hundred times as long."""
    # Bodies come as JSON in a text, and a time as the ledger writes it.
    shape = json.dumps([{column: "BIGINT" if "INT" in type_ else "VARCHAR" for column, type_ in columns.items()}])
    chosen = ", ".join(f'one."{column}"::{type_}' for column, type_ in columns.items())
    insert = f"INSERT INTO {name} SELECT {chosen} FROM (SELECT unnest(from_json(?::JSON, ?)) AS one)"  # noqa: S608
    remaining = map(plain, rows) if "writer" in columns else iter(rows)
    while chunk := list(islice(remaining, CHUNK_ROWS)):
        connection.execute(insert, [msgspec.json.encode(chunk).decode(), shape])


def _check(connection: duckdb.DuckDBPyConnection, text: str) -> None:
    """Refuse a text that is not a single query.

    Raises:
        BadInputError: It has no statement, several, or one that is not a query.
    """
    statements = connection.extract_statements(text)
    if len(statements) != 1:
        problem = "holds no statement" if not statements else f"holds {len(statements)} statements"
        raise BadInputError("the query", problem, "give one SELECT")
    if statements[0].type.name not in ASKS:
        raise BadInputError(
            "the query", f"is {statements[0].type.name}, and the tables can only be read", "give one SELECT"
        )


def _fault(error: Exception, text: str) -> BadInputError:
    """Return DuckDB's error about a query as one line."""
    message = " ".join(str(error).partition("\n\nLINE ")[0].split())
    words = re.split(r"[\s,()]+", text.casefold())
    is_reserved = "Parser Error" in message and not set(RESERVED).isdisjoint(words)
    return BadInputError(
        "the query", message, 'put the columns "at" and "when" in double quotes' if is_reserved else ""
    )


def _distinct(names: list[str]) -> tuple[str, ...]:
    """Return names, with a number appended to each that was used before."""
    distinct: dict[str, None] = {}
    for name in names:
        candidate, number = name, 1
        while candidate in distinct:
            candidate, number = f"{name}_{number}", number + 1
        distinct[candidate] = None
    return tuple(distinct)


def _rows(connection: duckdb.DuckDBPyConnection, is_json: list[bool]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of the result; an error on the way is an error of the query."""
    while True:
        with _asking():
            rows = connection.fetchmany(CHUNK_ROWS)
        if not rows:
            return
        for row in rows:
            yield tuple(_plain(value, parse=parse) for value, parse in zip(row, is_json, strict=True))


def _plain(value: Any, *, parse: bool = False) -> Any:
    """Return a value as JSON has it; JSON in a text is parsed if asked for."""
    if parse and isinstance(value, str):
        return json.loads(value)
    return next((convert(value) for types, convert in PLAIN if isinstance(value, types)), str(value))


PLAIN: Final[tuple[tuple[Any, Callable[[Any], Any]], ...]] = (
    ((str, bool, int, type(None)), lambda value: value),
    (float, lambda value: value if isfinite(value) else str(value)),
    (Decimal, lambda value: int(value) if value == value.to_integral_value() else float(value)),
    ((date, time), lambda value: value.isoformat()),
    (timedelta, timedelta.total_seconds),
    (dict, lambda value: {str(key): _plain(child) for key, child in value.items()}),
    ((list, tuple), lambda value: [_plain(child) for child in value]),
    (bytes, bytes.hex),
)
"""Types of DuckDB's values → the conversion to JSON; any other value becomes its text."""
