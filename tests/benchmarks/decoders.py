"""Rows ``replay-form`` and ``sql``: a replay that proves nothing against libraries that only read the same lines."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import attrs

from benchmarks import replay, worker
from benchmarks.table import NoRivalError, Row, Setting, alternate, faster, figure, medians
from ledger.backends.files import LOG_NAME
from ledger.line import MAX_LINE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PAIRS = 5
LIBRARIES = ("msgspec", "orjson")
COUNTS = """
SELECT body->>'name' AS name,
    count(*) FILTER (body->>'rating' = 'helpful') AS helpful, count(*) FILTER (body->>'rating' = 'harmful') AS harmful
FROM read_json(?, format = 'newline_delimited', columns = {kind: 'VARCHAR', body: 'JSON'})
WHERE kind = 'point.rated' GROUP BY name"""


def msgspec(path: Path) -> Callable[[], int]:
    """Return what decodes every line into what a playbook needs of it: kind, name, rating and text."""
    import msgspec as library  # noqa: PLC0415 - an extra that need not be there

    body = library.defstruct("Body", [("name", str, ""), ("rating", str, "")])
    free = library.defstruct("Free", [("text", str, "")])
    line_class = library.defstruct("Line", [("kind", str), ("body", body), ("free", free | None, None)])
    decode = library.json.Decoder(line_class).decode

    def load() -> int:
        number = 0
        with path.open("rb", buffering=MAX_LINE_BYTES) as file:
            for number, line in enumerate(file, 1):  # noqa: B007 - the number of the last is the answer
                decode(line)
        return number

    return load


def orjson(path: Path) -> Callable[[], int]:
    """Return what decodes every line whole, and takes out of it what a playbook needs."""
    import orjson as library  # noqa: PLC0415 - only this row wants it

    def load() -> int:
        number, loads = 0, library.loads
        with path.open("rb", buffering=MAX_LINE_BYTES) as file:
            for number, line in enumerate(file, 1):  # noqa: B007 - as above
                said = loads(line)
                said["kind"], said["body"].get("name"), said["body"].get("rating"), said.get("free")
        return number

    return load


def duckdb(path: Path) -> Callable[[], int]:
    """Return what counts the ratings of each entry by SQL, on one thread."""
    import duckdb as library  # noqa: PLC0415 - an extra that need not be there

    connection = library.connect(config={"threads": 1})

    def count() -> int:
        return sum(helpful + harmful for _, helpful, harmful in connection.execute(COUNTS, [str(path)]).fetchall())

    return count


JOBS: dict[str, Callable[[Path], Callable[[], int]]] = {"msgspec": msgspec, "orjson": orjson, "duckdb": duckdb}
"""Name of a library → what prepares it to read a ledger."""


def _against(setting: Setting, name: str, kind: str, what: str, rival: tuple[str, str]) -> Row:
    """Measure a replay that proves nothing against a library, each pass in a fresh process."""
    folder = replay.ledger(setting, kind, setting.events)
    library, against = rival
    taken = alternate(
        lambda: worker.once("replay-form", folder)["seconds"],
        lambda: worker.once("library", library, folder / LOG_NAME)["seconds"],
        setting.pairs(PAIRS),
    )
    return Row(name, f"{what}, {setting.events:,} events", against, faster(taken), *medians(taken), "s")


def rows(setting: Setting) -> Iterator[Row]:
    """Measure the replay of repeating and of different bodies against the quicker of the JSON libraries.

    Raises:
        NoRivalError: None is installed.
    """
    here = [library for library in LIBRARIES if find_spec(library) is not None]
    if not here:
        raise NoRivalError("replay-form: no quick JSON library is installed (one comes with the extra `bench`)")
    for kind, bodies in (("alike", "bodies that repeat"), ("different", "every body different")):
        path = replay.ledger(setting, kind, setting.events) / LOG_NAME
        trial = {library: worker.once("library", library, path)["seconds"] for library in here}
        library = min(trial, key=trial.__getitem__)
        told = ", ".join(f"{one} {figure(seconds)} s" for one, seconds in trial.items())
        rival = (library, "the quickest JSON library decoding the same fields, alone")
        row = _against(setting, "replay-form", kind, f"cold replay, chain not verified, {bodies}", rival)
        yield attrs.evolve(row, note=f"the libraries, once each: {told}")


def sql(setting: Setting) -> Iterator[Row]:
    """Measure the replay against a database that counts the same from the same file.

    Raises:
        NoRivalError: It is not installed.
    """
    if find_spec("duckdb") is None:
        raise NoRivalError("sql: DuckDB is not installed (it comes with the extra `sql`)")
    rival = ("duckdb", "DuckDB counting by SQL over the same file, one thread")
    yield _against(setting, "sql", "alike", "cold replay, chain not verified", rival)
