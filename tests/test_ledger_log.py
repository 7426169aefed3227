"""The contract of every back end: one suite over the table ``LOGS``, and its small helpers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from helpers.ledger_logs import BY, Clock, append, lines, names, rated
from helpers.memory_log import LOGS
from tallybook.ledger.line import FORMAT, START, Draft
from tallybook.ledger.log import JsonlLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from helpers.memory_log import AnyLog

UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
KEYS = ["k", "", "a:b c", 'with "quotes"', "back\\slash", "ключ", "tab\there", "x" * 5000, "half \ud800"]


@pytest.fixture
def clock() -> Clock:
    """Return a clock that the test moves."""
    return Clock()


@pytest.fixture(params=sorted(LOGS))
def log(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[AnyLog]:
    """Return an empty ledger of each kind."""
    opened = LOGS[request.param](tmp_path / "ledger", clock)
    yield opened
    opened.close()


@pytest.fixture
def reopened(log: AnyLog) -> Callable[[], AnyLog]:
    """Return a function that reopens the ledger like a later process; memory stays as it is."""
    return lambda: JsonlLog(log.folder, log.now) if isinstance(log, JsonlLog) else log


def test_an_untouched_ledger_is_empty(log: AnyLog) -> None:
    """It has no event, its head is the start, and reading creates no file."""
    assert ([], START, False) == (list(log.read()), log.head(), log.exists())


def test_the_first_event_names_the_ledger(log: AnyLog) -> None:
    """The genesis event has a fresh id of the ledger and its format, and precedes all others."""
    append(log, "a")
    genesis = lines(log)[0]
    assert (1, "ledger.opened", FORMAT) == (genesis["seq"], genesis["kind"], genesis["body"]["format"])
    assert UUID7.fullmatch(genesis["body"]["ledger"])
    assert log.exists()


def test_an_appended_event_is_read(log: AnyLog, clock: Clock) -> None:
    """An event has its seq, time, place in the batch, rater, kind, body, free text and time of happening."""
    with log.transaction() as tx:
        tx.append([*rated("a"), Draft("x.y", 2, {"n": 1}, {"text": "ü\u2028"}, "2020-01-01T00:00:00.000000Z")], BY, "k")
    first, second = lines(log)[1:]
    assert (2, "k", [1, 2], BY) == (first["seq"], first["key"], first["part"], first["by"])
    assert (3, [2, 2], "x.y", 2, {"n": 1}) == tuple(second[name] for name in ("seq", "part", "kind", "v", "body"))
    assert ("ü\u2028", "2020-01-01T00:00:00.000000Z") == (second["free"]["text"], second["when"])
    assert [clock().at] * 2 == [first["at"], second["at"]]


@pytest.mark.parametrize("key", KEYS, ids=range(len(KEYS)))
def test_a_key_counts_once(log: AnyLog, reopened: Callable[[], AnyLog], key: str) -> None:
    """For any text a second delivery is refused: in one transaction, later, and by a later process."""
    with log.transaction() as tx:
        assert tx.append(rated("a"), BY) is not None
        assert tx.append(rated("b"), BY, key) is not None
        assert tx.append(rated("c"), BY, key) is None
    assert append(log, "d", key=key) is None
    assert append(reopened(), "e", key=key) is None
    assert ["a", "b"] == names(log)


@pytest.mark.parametrize(
    ("seconds", "kept"), [(-1e-6, True), (-1, True), (-3600, True), (-3600.000001, False), (-86400, False), (1, False)]
)
def test_time_runs_back_only_by_more_than_an_hour(log: AnyLog, clock: Clock, seconds: float, kept: bool) -> None:
    """A clock up to an hour behind is raised to the last event's time; one further behind is written as read."""
    append(log, "a")
    before = clock().at
    later = clock.move(seconds)
    append(log, "b")
    assert (before if kept else later) == lines(log)[-1]["at"]
