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
from typing import TYPE_CHECKING, Any, Final

import attrs
import msgspec

from tallybook.ledger.errors import BadInputError
from tallybook.projections import sql_tables
from tallybook.projections.entry_history.status import status_view
from tallybook.projections.fold import fold
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.workspace.installation import install_command
from tallybook.projections.undo import history

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

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
"""Nothing is spilled to disk, fetched, kept, or taken from this program's own variables."""

TUNED: Final = ("SET enable_progress_bar = false", "SET TimeZone = 'UTC'")
"""Nothing is drawn among the answer, which is the same in every time zone."""

SHUT: Final = ("SET enable_external_access = false", "SET lock_configuration = true")
ASKS: Final = {"SELECT", "MULTI"}
"""Kinds of statements that only ask; PIVOT is the last, and makes a type of its own in memory."""

CHUNK_ROWS: Final = 10_000
"""Rows that are handed over, or fetched, at once."""

RESERVED: Final = ("at", "when", "into")
"""Words of the ledger or of an answer that SQL keeps for itself."""

ZONED: Final = "TIMESTAMP WITH TIME ZONE"
"""Times that DuckDB hands over with the help of another library alone."""


@attrs.frozen
class Table:
    """What a query answers.

    Attributes:
        columns: Their names, each once.
        rows: The rows, fetched as they are asked for; values as JSON has them.
    """

    columns: tuple[str, ...]
    rows: Iterator[tuple[Any, ...]]


def query(project: Project, text: str, when: str | Moment | None = None) -> Table:
    """Return what a query answers.

    Args:
        project: Whose ledger.
        text: One SELECT, or what can stand in its place: WITH, FROM, VALUES, DESCRIBE, SHOW, SUMMARIZE, PIVOT.
        when: The moment up to which history is taken; None for now.

    Raises:
        BadInputError: DuckDB is missing, or cannot answer.
    """
    duck = _duckdb()
    whole, until = commands.up_to(project, when)

    def read() -> Iterable[Batch]:
        return whole() if until is None else takewhile(lambda batch: batch.last <= until, whole())

    connection = duck.connect(":memory:", config=SETTINGS)
    for statement in TUNED:
        connection.execute(statement)
    _fill(connection, read, text.casefold())
    for statement in SHUT:
        connection.execute(statement)
    with _asking(text):
        _check(connection, text)
        connection.execute(text)
        columns = [(column[0], str(column[1])) for column in connection.description or []]
        if any(ZONED in type_ for _, type_ in columns):
            _without_zones(connection, text, [type_ for _, type_ in columns])
    names = _distinct([name for name, _ in columns])
    return Table(names, _rows(connection, [type_ == "JSON" for _, type_ in columns]))


def _without_zones(connection: duckdb.DuckDBPyConnection, text: str, types: list[str]) -> None:
    """Ask again, for times in UTC that have no zone in the place of those that have one."""
    connection.execute(f"CREATE TEMP TABLE zoned AS {text}")
    chosen = ", ".join(f"#{place}::{type_.replace(ZONED, 'TIMESTAMP')}" for place, type_ in enumerate(types, 1))
    connection.execute(f"SELECT {chosen} FROM zoned")  # noqa: S608 - places and types alone


@contextmanager
def _asking(text: str = "") -> Iterator[None]:
    """Let what DuckDB has against a query be an error of the query, and an interruption be one."""
    duck = _duckdb()
    try:
        yield
    except duck.InterruptException as error:
        raise KeyboardInterrupt from error
    except duck.Error as error:
        raise _fault(error, text) from error
    except RuntimeError as error:
        # It looks for signals itself, and has its own word for what Python would raise.
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


def _fill(connection: duckdb.DuckDBPyConnection, read: Callable[[], Iterable[Batch]], text: str) -> None:
    """Make every table, and fill those that the query names: each is a walk through history."""
    for name, columns in sql_tables.COLUMNS.items():
        connection.execute(f"CREATE TABLE {name} ({_columns(columns)})")
    for name, view in sql_tables.VIEWS.items():
        connection.execute(f"CREATE VIEW {name} AS {view}")
    if any(name in text for name in ("events", *sql_tables.VIEWS)):
        _insert(connection, "events", sql_tables.events(history(read)))
    if "points" in text or "graveyard" in text:
        state = fold(status_view(), history(read))
        _insert(connection, "points", sql_tables.points(state))
        _insert(connection, "graveyard", sql_tables.graves(state))


def _columns(columns: dict[str, str]) -> str:
    return ", ".join(f'"{name}" {type_}' for name, type_ in columns.items())


def _insert(connection: duckdb.DuckDBPyConnection, name: str, rows: Iterable[sql_tables.Row]) -> None:
    """Put rows into a table, a stretch at once as JSON: row by row would take a hundred times as long."""
    columns = sql_tables.COLUMNS[name]
    # Bodies come as JSON in a text, and a time as the ledger writes it.
    shape = json.dumps([{column: "BIGINT" if "INT" in type_ else "VARCHAR" for column, type_ in columns.items()}])
    chosen = ", ".join(f'one."{column}"::{type_}' for column, type_ in columns.items())
    insert = f"INSERT INTO {name} SELECT {chosen} FROM (SELECT unnest(from_json(?::JSON, ?)) AS one)"  # noqa: S608
    left = iter(rows)
    while stretch := list(islice(left, CHUNK_ROWS)):
        connection.execute(insert, [msgspec.json.encode(stretch).decode(), shape])


def _check(connection: duckdb.DuckDBPyConnection, text: str) -> None:
    """Refuse what is no single question.

    Raises:
        BadInputError: It is none, or more than one.
    """
    statements = connection.extract_statements(text)
    if len(statements) != 1:
        what = "holds no statement" if not statements else f"holds {len(statements)} statements"
        raise BadInputError("the query", what, "give one SELECT")
    if statements[0].type.name not in ASKS:
        raise BadInputError(
            "the query", f"is {statements[0].type.name}, and the tables can only be read", "give one SELECT"
        )


def _fault(error: Exception, text: str) -> BadInputError:
    """Return what DuckDB has against a query as one line."""
    said = " ".join(str(error).partition("\n\nLINE ")[0].split())
    hint = 'the columns "at" and "when" stand in double quotes' if _is_reserved(said, text) else ""
    return BadInputError("the query", said, hint)


def _is_reserved(said: str, text: str) -> bool:
    words = text.casefold().replace(",", " ").replace("(", " ").replace(")", " ").split()
    return "Parser Error" in said and any(word in words for word in RESERVED)


def _distinct(names: list[str]) -> tuple[str, ...]:
    """Return names with a number behind each that came before."""
    found: dict[str, None] = {}
    for name in names:
        distinct, number = name, 1
        while distinct in found:
            distinct, number = f"{name}_{number}", number + 1
        found[distinct] = None
    return tuple(found)


def _rows(connection: duckdb.DuckDBPyConnection, is_json: list[bool]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of an answer; an error on the way is one of the query."""
    while True:
        with _asking():
            rows = connection.fetchmany(CHUNK_ROWS)
        if not rows:
            return
        for row in rows:
            yield tuple(_plain(value, parse=parse) for value, parse in zip(row, is_json, strict=True))


def _plain(value: Any, *, parse: bool = False) -> Any:
    """Return a value as JSON has it; JSON in a text is taken apart."""
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
"""Types of what a database answers → what JSON has for it; anything else goes as its text."""
