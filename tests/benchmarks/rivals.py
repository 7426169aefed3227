"""Row ``eventsourcing``: rebuilding from a recorder of that library against a replay; and a hook in the old way."""

from __future__ import annotations

from functools import cache, partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from benchmarks import worker
from benchmarks.table import NoRivalError, Row, Setting, alternate, faster, medians

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ENTRIES = 200
PAIRS = 3
PATIENCE_S = 5
# It rebuilds some 30,000 events a second and writes them no faster; a million would take minutes.
MAX_EVENTS = 100_000
MICROSECONDS = 1_000_000
REPLAYS = {"replay": "chain verified", "replay-form": "chain not verified"}

OLD_HOOK = """
import json, os, sys
path, what = sys.argv[1:]
payload = json.load(sys.stdin)
with open(path, encoding="utf-8") as file:
    playbook = json.load(file)
if what == "injection":
    lines = ["[{name}] helpful={helpful} harmful={harmful} :: {text}".format(**one) for one in playbook["key_points"]]
    print(json.dumps({"hookSpecificOutput": {"additionalContext": "\\n".join(lines)[:8000]}}))
playbook["key_points"][6]["helpful"] += 1
with open(path + ".tmp", "w", encoding="utf-8") as file:
    json.dump(playbook, file, indent=2)
    file.flush()
    os.fsync(file.fileno())
os.replace(path + ".tmp", path)
"""
"""A hook as playbook tools have it: load all of ``playbook.json``, count, and write all of it."""


@cache
def _entry() -> tuple[type[Any], type[Any]]:
    """Return the library's application, and an entry that can be rated as one of its aggregates; a process has one."""
    from eventsourcing.application import Application  # noqa: PLC0415 - a group that need not be there
    from eventsourcing.domain import Aggregate, event  # noqa: PLC0415 - as above

    class Point(Aggregate):
        def __init__(self, text: str) -> None:
            self.text = text
            self.helpful = 0
            self.harmful = 0

        @event("Rated")
        def rate(self, rating: str) -> None:
            self.helpful += rating == "helpful"
            self.harmful += rating == "harmful"

    return Application, Point


def _env(database: str, patience_s: int) -> dict[str, str]:
    """Return the library's settings for an SQLite database."""
    sqlite = {"PERSISTENCE_MODULE": "eventsourcing.sqlite", "SQLITE_DBNAME": database}
    return sqlite | {"SQLITE_LOCK_TIMEOUT": str(patience_s)}


def rated(database: str, patience_s: int) -> Callable[[], object]:
    """Return a function that rates an entry of its own, durably.

    Args:
        database: File of an SQLite database, which others may use at once.
        patience_s: How long a writer waits for the others.
    """
    application, point = _entry()
    app = application(env=_env(database, patience_s))
    entry = point("Read the whole traceback before you change a line.")

    def rate() -> None:
        entry.rate("helpful")
        app.save(entry)

    return rate


def prepare(database: str, events: int) -> Callable[[], int]:
    """Fill a recorder with rated entries.

    Args:
        database: File of an SQLite database; empty for the library's recorder in memory.
        events: How many events to record, shared among ENTRIES aggregates.

    Returns:
        A function that rebuilds every aggregate from its events, and returns the number of events.
    """
    application, point_class = _entry()
    app = application(env=_env(database, PATIENCE_S) if database else {})
    ids = []
    for number in range(ENTRIES):
        point = point_class(f"Read the whole traceback of area {number} before you change a line.")
        for index in range(max(events // ENTRIES - 1, 1)):
            point.rate("harmful" if index % 10 == 0 else "helpful")
        app.save(point)
        ids.append(point.id)

    def rebuild() -> int:
        return sum(app.repository.get(id_).version for id_ in ids)

    return rebuild


def rows(setting: Setting) -> Iterator[Row]:
    """Measure a replay against the library's recorder in memory, then against its SQLite.

    Raises:
        NoRivalError: The library is not installed.
    """
    if find_spec("eventsourcing") is None:
        raise NoRivalError("eventsourcing: the library is not installed (it comes with the group `bench`)")
    events = min(setting.events, MAX_EVENTS)
    ledger = setting.folder / f"alike-{events}"
    worker.once("build", ledger, "alike", events)
    recorders = {"in memory": "", "in SQLite": str(setting.folder / "eventsourcing.db")}
    for name, database in recorders.items():
        with worker.Worker("eventsourcing", database, events) as rival:
            rival.ready()

            def theirs(rival: worker.Worker = rival) -> float:
                rival.go()
                return _per_event(rival.answer())

            taken = {job: alternate(partial(_replayed, job, ledger), theirs, setting.pairs(PAIRS)) for job in REPLAYS}
        against = f"eventsourcing rebuilding {ENTRIES} aggregates from as many, {name}"
        for job, pairs in taken.items():
            what = f"cold replay of {events:,} events in a file, {REPLAYS[job]}"
            yield Row("eventsourcing", what, against, faster(pairs), *medians(pairs, MICROSECONDS), "µs an event")


def _replayed(job: str, ledger: Path) -> float:
    return _per_event(worker.once(job, ledger))


def _per_event(answer: dict[str, float]) -> float:
    return answer["seconds"] / answer["events"]
