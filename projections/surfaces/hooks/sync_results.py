"""Results of syncs with a shared book: stored by each sync, printed by the next command. Standard library only.

    <ledger>/book/results.json   a list of results, the newest last

A result is ``{at, since, events, changes, problems, shown}``: microseconds of the sync and of the first one that met
the same problems, event numbers before and after it, lines of what it changed, lines of what was wrong, and whether a
person has seen them.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
import os

from tallybook.ledger import clock
from tallybook.ledger.errors import BadInputError, TallybookError
from tallybook.ledger.fast_stdlib import dumps, loads
from tallybook.ledger.line import first_seq, kind_of
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.storage import disk
from tallybook.ledger.storage.head import lines_before

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from tallybook.projections.surfaces.workspace.project import AnyProject

    Results = list[dict[str, Any]]

FOLDER = "book"
NAME = "results.json"
MAX_RESULTS = 50
"""Older results that a person has seen are dropped."""
MAX_LINES = 200
"""A result has no more lines of changes; `diff` of its event numbers has them all."""
_LOCK = "results.lock"
_WAIT_MS = 5_000
_FAILING_US = 24 * 3600 * clock.MICROSECONDS
_FIELDS = {"at": int, "since": int, "events": list, "changes": list, "problems": list, "shown": bool}


def read(project: AnyProject) -> Results:
    """Return the results of syncs, the newest last; none where the file is not one that syncs wrote."""
    with suppress(OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, TallybookError):
        found = loads(disk.read_file(os.path.join(project.ledger, FOLDER, NAME)).decode("utf-8"))
        types = [{name: type(value) for name, value in result.items()} for result in found]
        lines = [line for result in found for line in (*result["changes"], *result["problems"])]
        if all(fields == _FIELDS for fields in types) and all(type(line) is str for line in lines):
            return list(found)
    return []


@contextmanager
def open_results(project: AnyProject) -> Iterator[Results]:
    """Give the results, and store what was changed of them at the end. One process at a time.

    Raises:
        TallybookError: The lock or the disk refuses.
    """
    # Detached syncs and a person's commands change the file at the same time.
    folder = os.path.join(project.ledger, FOLDER)
    with disk.hold_lock(os.path.join(folder, _LOCK), _WAIT_MS):
        results = read(project)
        before = dumps(results)
        yield results
        # Those that nobody has seen all stay.
        old = [result for result in results[:-MAX_RESULTS] if not result["shown"]]
        if (after := dumps([*old, *results[-MAX_RESULTS:]])) != before:
            disk.replace_file(os.path.join(folder, NAME), after.encode("utf-8", "replace"), private=True)


def add(
    results: Results, events: Sequence[int], changes: Sequence[str], problems: Sequence[str], *, shown: bool
) -> None:
    """Add the result of a sync, with the own event numbers before and after it.

    The same problems as before are the same result, so that they are told once, however often a sync meets them.
    """
    now = clock.utc_now().unix_us
    last = results[-1] if results else None
    if last is not None and not changes and not last["changes"] and last["problems"] == [*problems]:
        last.update(at=now, events=[*events], shown=last["shown"] or shown)
        return
    since = last["since"] if last is not None and problems and last["problems"] == [*problems] else now
    told = shown or not (changes or problems)
    rest = len(changes) - MAX_LINES
    lines = [*changes[:MAX_LINES], *([f"{rest} more changes"] if rest > 0 else [])]
    fresh = {"at": now, "since": since, "events": [*events], "changes": lines, "problems": [*problems]}
    results.append({**fresh, "shown": told})


def last_event(results: Sequence[dict[str, Any]]) -> int:
    """Return the own event number up to which the results say what syncs changed; 0 without results."""
    return max((result["events"][-1] for result in results if result["events"]), default=0)


def has_news(project: AnyProject) -> bool:
    """Return whether a sync changed or met something that no person has seen, as far as is quickly read."""
    results = read(project)
    if any(not result["shown"] for result in results):
        return True
    # Whether the own ledger has taken in the book since: a sync was killed before it stored that.
    log, told = JsonlLog(project.ledger), last_event(results)
    for line in lines_before(log.log_file, os.stat(log.log_file).st_size):
        if 0 < first_seq(line) <= told:
            return False
        if kind_of(line) == "book.taken":
            return True
    return False


@contextmanager
def new_results(project: AnyProject) -> Iterator[Results]:
    """Give the results that nobody has seen; they count as seen at the end. One process at a time.

    A problem that the sync before met as well is left out.

    Raises:
        TallybookError: The lock or the disk refuses.
    """
    with open_results(project) as results:
        before: list[list[str]] = [[], *(result["problems"] for result in results)]
        yield [
            {**result, "problems": [text for text in result["problems"] if text not in old]}
            for old, result in zip(before, results, strict=False)
            if not result["shown"]
        ]
        for result in results:
            result["shown"] = True


def refuse_old_failure(project: AnyProject) -> None:
    """Say that syncs fail, if they did so for more than a day.

    Raises:
        BadInputError: They do.
    """
    results = read(project)
    if results and results[-1]["problems"] and clock.utc_now().unix_us - results[-1]["since"] > _FAILING_US:
        last = results[-1]
        what = f"has failed since {clock.moment(last['since']).at[:16]}: {last['problems'][0]}"
        raise BadInputError("sync", what, "`tallybook share status` says more")
