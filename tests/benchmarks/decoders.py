"""Rows ``replay-form`` and ``sql``: a replay without verification against libraries that read the same lines.

Before any measurement each rival that counts ratings must return the counts of a replay.
"""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
import os
import sys
from typing import TYPE_CHECKING

import attrs

from benchmarks import replay, worker
from benchmarks.table import NoRivalError, Row, Setting, alternate, faster, figure, medians
from tallybook.ledger.encoding.codec import decode
from tallybook.ledger.line import LOG_NAME, MAX_LINE_BYTES
from tallybook.ledger.log import JsonlLog
from tallybook.projections.fold import fold
from tallybook.projections.playbook.prune import Policy
from tallybook.projections.playbook.view import PLAYBOOK, Playbook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Counts = dict[str, tuple[int, int]]
    """Name of an entry → how often it was rated helpful, and how often harmful."""

PAIRS = 5
LIBRARIES = ("msgspec", "orjson")
COUNTS = """
SELECT body->>'name' AS name,
    count(*) FILTER (body->>'rating' = 'helpful') AS helpful, count(*) FILTER (body->>'rating' = 'harmful') AS harmful
FROM read_json(?, format = 'newline_delimited', columns = {kind: 'VARCHAR', body: 'JSON'})
WHERE kind = 'point.rated' GROUP BY name"""


def msgspec(path: Path) -> Callable[[], int]:
    """Return a function that decodes the fields of every line that a playbook needs: kind, name, rating and text."""
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
    """Return a function that decodes every line whole, and takes the fields that a playbook needs."""
    import orjson as library  # noqa: PLC0415 - only this row wants it

    def load() -> int:
        number, loads = 0, library.loads
        with path.open("rb", buffering=MAX_LINE_BYTES) as file:
            for number, line in enumerate(file, 1):  # noqa: B007 - as above
                said = loads(line)
                said["kind"], said["body"].get("name"), said["body"].get("rating"), said.get("free")
        return number

    return load


class OtherCountError(Exception):
    """A rival counts other ratings than a replay, so that its time means nothing."""


def duckdb(path: Path) -> Callable[[], Counts]:
    """Return a function that counts the ratings of each entry by SQL, on one thread."""
    import duckdb as library  # noqa: PLC0415 - an extra that need not be there

    connection = library.connect(config={"threads": 1})

    def count() -> Counts:
        found = connection.execute(COUNTS, [str(path)]).fetchall()
        return {name: (helpful, harmful) for name, helpful, harmful in found}

    return count


def polars(path: Path) -> Callable[[], Counts]:
    """Return a function that counts the ratings of each entry by a lazy query, on one thread.

    Bodies differ from kind to kind, and a schema guessed from the first lines would be theirs. So the
    schema is that of a rating: further fields are ignored, and missing ones are null, as in the other kinds.
    """
    # It asks once, as it is imported, how many threads it may have.
    os.environ["POLARS_MAX_THREADS"] = "1"
    import polars as pl  # noqa: PLC0415 - an extra that need not be there

    body = pl.Struct({"name": pl.String, "rating": pl.String})
    name, rating = (pl.col("body").struct.field(field) for field in ("name", "rating"))
    counts = (
        pl.scan_ndjson(path, schema={"kind": pl.String, "body": body})
        .filter(pl.col("kind") == "point.rated")
        .group_by(name)
        .agg(helpful=(rating == "helpful").sum(), harmful=(rating == "harmful").sum())
    )

    def count() -> Counts:
        return {name: (helpful, harmful) for name, helpful, harmful in counts.collect().rows()}

    return count


COUNTERS: dict[str, tuple[str, Callable[[Path], Callable[[], Counts]]]] = {
    "duckdb": ("DuckDB counting by SQL over the same file, one thread", duckdb),
    "polars": ("Polars counting by a lazy query over the same file, one thread", polars),
}
"""Name of a library that counts → how it does, and what prepares it."""


def _in_all(prepare: Callable[[Path], Callable[[], Counts]], path: Path) -> Callable[[], int]:
    """Return a function that makes a library count, and returns the number of ratings."""
    count = prepare(path)
    return lambda: sum(map(sum, count().values()))


JOBS: dict[str, Callable[[Path], Callable[[], int]]] = {
    "msgspec": msgspec,
    "orjson": orjson,
    **{name: partial(_in_all, prepare) for name, (_, prepare) in COUNTERS.items()},
}
"""Name of a library → what prepares it to read a ledger."""


def replayed(folder: Path) -> Counts:
    """Return the counts of an unverified replay without prunes, at which those of an entry would end."""
    state = Playbook(policy=Policy("none", floor=sys.maxsize))
    points = fold(PLAYBOOK, decode(JsonlLog(folder).read(verify=False)), state).entries.values()
    return {point.name: (point.helpful, point.harmful) for point in points}


def others(ours: Counts, theirs: Counts) -> list[str]:
    """Return the names with different counts, sorted; an entry without ratings may be left out."""
    none = (0, 0)
    return sorted(name for name in {*ours, *theirs} if ours.get(name, none) != theirs.get(name, none))


def _against(setting: Setting, name: str, kind: str, what: str, rival: tuple[str, str]) -> Row:
    """Measure an unverified replay against a library, each pass in a fresh process."""
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
    """Measure the replay against rivals that return the same counts from the same file.

    Raises:
        NoRivalError: One of them is not installed; raised after the other rows.
        OtherCountError: One returns other counts.
    """
    missing = [library for library in COUNTERS if find_spec(library) is None]
    for library, (against, _) in COUNTERS.items():
        if library in missing:
            continue
        folder = replay.ledger(setting, "alike", setting.events)
        if number := worker.once("other-counts", library, folder)["others"]:
            raise OtherCountError(f"sql: {library} counts other ratings than a replay of {number:.0f} entries")
        yield _against(setting, "sql", "alike", "cold replay, chain not verified", (library, against))
    if missing:
        raise NoRivalError(f"sql: {', '.join(missing)} is not installed (they come with the extras `sql` and `bench`)")
