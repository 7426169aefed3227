"""Other stores of the same events, each in a file of its own that is changed, and their answers."""

from __future__ import annotations

from collections import Counter
from importlib.util import find_spec
import json
from random import Random
import sqlite3
from typing import TYPE_CHECKING, Any, NamedTuple

from faults import NoToolError, Setting, Tally

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Rows = list[tuple[Any, ...]]
"""Events, each as (seq, kind, body and text in JSON)."""
COUNT = 2_000


class Rival(NamedTuple):
    """Another store of the same events.

    Attributes:
        name: What the table calls it.
        path: The file that is changed.
        read: Reads all events, and raises where it notices something.
        check: Says whether its own check finds nothing wrong; None where it has none.
    """

    name: str
    path: Path
    read: Callable[[], Rows]
    check: Callable[[], bool] | None = None


def jsonl(folder: Path, rows: Rows) -> Rival:
    """Return a file of JSON lines, read by json.loads."""
    path = folder / "plain.jsonl"
    path.write_text("".join(json.dumps(dict(zip(("seq", "kind", "body"), row, strict=True))) + "\n" for row in rows))
    return Rival(
        "plain JSONL", path, lambda: [tuple(json.loads(line).values()) for line in path.read_bytes().splitlines()]
    )


def _ask(path: Path, question: str) -> Rows:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(question).fetchall()
    finally:
        connection.close()


SELECT = "SELECT seq, kind, body FROM events ORDER BY seq"
CHECK = "PRAGMA integrity_check"


def _fill(path: Path, rows: Rows, *setup: str) -> sqlite3.Connection:
    """Return an open database with an event in each row, each committed by itself."""
    connection = sqlite3.connect(path, isolation_level=None)
    for command in setup:
        connection.execute(command)
    connection.execute("CREATE TABLE events (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, body TEXT NOT NULL)")
    for row in rows:
        connection.execute("INSERT INTO events VALUES (?, ?, ?)", row)
    return connection


def sqlite_main(folder: Path, rows: Rows) -> Rival:
    """Return an SQLite database in one file."""
    path = folder / "main.db"
    _fill(path, rows).close()
    return Rival("SQLite, main file", path, lambda: _ask(path, SELECT), lambda: _ask(path, CHECK) == [("ok",)])


def sqlite_wal(folder: Path, rows: Rows) -> Rival:
    """Return an SQLite database with all of its rows in the write-ahead log, as a crash leaves it."""
    path = folder / "wal.db"
    connection = _fill(path, rows, "PRAGMA journal_mode=WAL", "PRAGMA wal_autocheckpoint=0")
    main, log = path.read_bytes(), path.with_name("wal.db-wal").read_bytes()
    connection.close()
    copy = folder / "copy.db"
    changed, shared = folder / "copy.db-wal", folder / "copy.db-shm"
    changed.write_bytes(log)

    def ask(question: str) -> Rows:
        # Closing a database folds its log into it, so each question begins with the main file as it was.
        copy.write_bytes(main)
        shared.unlink(missing_ok=True)
        return _ask(copy, question)

    return Rival("SQLite, write-ahead log", changed, lambda: ask(SELECT), lambda: ask(CHECK) == [("ok",)])


def eventsourcing(folder: Path, rows: Rows) -> Rival:
    """Return a recorder of the library over SQLite: an aggregate for each ten events, rebuilt one by one.

    Raises:
        NoToolError: The library is not installed.
    """
    if find_spec("eventsourcing") is None:
        raise NoToolError("eventsourcing: the library is not installed (it comes with the group `bench`)")
    from eventsourcing.application import Application  # noqa: PLC0415 - a group that need not be there
    from eventsourcing.domain import Aggregate, event  # noqa: PLC0415 - as above

    class Story(Aggregate):
        def __init__(self) -> None:
            self.told: Rows = []

        @event("Told")
        def tell(self, seq: int, kind: str, body: str) -> None:
            self.told.append((seq, kind, body))

    path = folder / "eventsourcing.db"

    def opened() -> Application[Any]:
        return Application(env={"PERSISTENCE_MODULE": "eventsourcing.sqlite", "SQLITE_DBNAME": str(path)})

    app, ids = opened(), []
    for begin in range(0, len(rows), 10):
        story = Story()
        for row in rows[begin : begin + 10]:
            story.tell(*row)
        app.save(story)
        ids.append(story.id)
    app.close()

    def read() -> Rows:
        again = opened()
        try:
            stories: list[Any] = [again.repository.get(one) for one in ids]
            return [row for story in stories for row in story.told]
        finally:
            again.close()

    return Rival("eventsourcing over SQLite", path, read)


RIVALS: tuple[Callable[[Path, Rows], Rival], ...] = (jsonl, sqlite_main, sqlite_wal, eventsourcing)
"""What makes each rival in a folder and gives it the events."""


def outcomes(checked: int | None, reported: int, tried: int, silent: int, lost: int) -> dict[str, int | None]:
    """Return the counts of a tally of this row, for Tallybook and for a rival."""
    return {
        "found by its check": checked,
        "reported by reading": reported,
        "read as before": tried - reported - silent,
        "silently different": silent,
        "rows lost": lost,
    }


def _answer(question: Callable[[], Any]) -> Any:
    """Return the answer, None if the store reports any error."""
    try:
        return question()
    except Exception:  # noqa: BLE001 - whatever a rival raises is counted as a report, in its favour
        return None


def against(rival: Rival, rows: Rows, setting: Setting, change: Callable[[bytes, Random], bytes]) -> Tally:
    """Change a rival's file, and tally its reports and its silent answers."""
    whole = rival.path.read_bytes()
    if rival.read() != rows:
        raise AssertionError(f"{rival.name} does not give what it was given, before anything is changed")
    rival.path.write_bytes(whole)
    tried = min(setting.times(COUNT), COUNT)
    chance = Random(setting.seed)  # noqa: S311 - a seed to repeat it
    counts: Counter[str] = Counter()
    for _ in setting.until_stopped(range(tried)):
        counts["made"] += 1
        changed = change(whole, chance)
        rival.path.write_bytes(changed)
        found = _answer(rival.read)
        counts.update(reported=found is None, silent=found is not None and found != rows)
        counts["lost"] += 0 if found is None else len(set(map(repr, rows)) - set(map(repr, found)))
        if rival.check is not None:
            rival.path.write_bytes(changed)
            counts["checked"] += _answer(rival.check) is not True
    checked = counts["checked"] if rival.check is not None else None
    found = outcomes(checked, counts["reported"], counts["made"], counts["silent"], counts["lost"])
    return Tally("mutations", rival.name, counts["made"], found, rival=True)
