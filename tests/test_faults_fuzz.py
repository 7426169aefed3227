"""Every path that reads an event has one verdict about any line: a slice of ``python -m tests.faults fuzz``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

import attrs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
import pytest

from faults import Setting, verdicts
from faults.fuzz import changed, logs, packed, proven_anew, rows, unpacked
from faults.verdicts import judge
from tallybook.ledger import search
from tallybook.ledger.codec import decode
from tallybook.ledger.errors import Problem
from tallybook.ledger.events import EVENT_TYPES
from tallybook.ledger.line import CONTINUED
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.records import Batch
from tallybook.ledger.verification import Verification, verify

SEED = 20261122
COUNT = 150
LED = 60


@settings(max_examples=COUNT, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.integers(0, len(logs()) - 1), st.randoms(use_true_random=False))
def test_every_path_has_one_verdict(tmp_path: Path, number: int, chance: Random) -> None:
    """Fold, verify, salvage, views, the writer's checks, its index and an append agree about every changed log."""
    assert () == judge(tmp_path / "ledger", changed(chance, logs()[number])).complaints


@pytest.mark.skipif(find_spec("atheris") is None, reason="atheris is not installed (it comes with the group `fuzz`)")
def test_a_run_guided_by_coverage_has_no_failures(tmp_path: Path) -> None:
    """The same holds with atheris, in its own process, and the note says so."""
    (tally,) = rows(Setting(tmp_path, SEED, LED), guided=True)
    assert () == tally.failures
    assert (LED, 0) == (tally.tried, tally.counts["complaints"])
    assert "led by coverage" in tally.note


@pytest.mark.parametrize("number", range(len(logs())))
def test_an_unchanged_log_is_valid_to_all_paths(tmp_path: Path, number: int) -> None:
    """The starting log is valid to all paths, and computing its proofs anew changes no byte."""
    data = logs()[number]
    assert (True, True, ()) == judge(tmp_path / "ledger", data)
    assert data == proven_anew(data)
    assert data == unpacked(packed(data))


def test_the_logs_hold_every_kind_and_every_form() -> None:
    """The logs hold every kind, an unknown kind, continued and redacted texts, a key and a sealed range."""
    data = b"".join(logs())
    for kind in (*EVENT_TYPES, CONTINUED, "point.starred"):
        assert b'"kind":"%b"' % kind.encode() in data, kind
    for form in (b',"key":"', b',"when":"', b',\t"free":null  ', b'"kind":"log.recovered"', bytes(99)):
        assert form in data, form


def test_a_continued_line_with_two_session_fields_is_damage_to_every_path(tmp_path: Path) -> None:
    """Its head is checked like that of any other line, though its text belongs to the line before it."""
    (log,) = {log for log in logs() if b'"kind":"text.continued"' in log and b'"by":{"rater":"test"},\t' in log}
    head, kind, rest = log.partition(b'\t"kind":"text.continued"')
    data = proven_anew(head + b'"by":{"rater":"test"},' + kind + rest)
    assert (False, False, ()) == tuple(judge(tmp_path / "ledger", data))


# The judge itself: what it is there to notice


@contextmanager
def planted(monkeypatch: pytest.MonkeyPatch, name: str, fault: Any) -> Iterator[None]:
    """Replace a path that the judge asks by a faulty one."""
    with monkeypatch.context() as patch:
        patch.setattr(verdicts, name, fault)
        yield


def _calls_it_whole(log: JsonlLog) -> Verification:
    return attrs.evolve(verify(log), problems=())


def _finds_fault(log: JsonlLog) -> Verification:
    return attrs.evolve(verify(log), problems=(Problem("events.jsonl:1", "was changed", 1, 1),))


def _crashes(_: object) -> Any:
    return int("x")


def _leaves_out(log: JsonlLog) -> Iterator[Batch]:
    yield from list(decode(log.read()))[1:]


def _knows_nothing(*_: object) -> set[str]:
    return set()


WHOLE = logs()[1]
DAMAGED = WHOLE.replace(b'"rating":"helpful"', b'"rating":"harmful"', 1)
FAULTS: list[tuple[bytes, str, Any, str]] = [
    (DAMAGED, "verify", _calls_it_whole, "a fold refuses what verify calls whole"),
    (WHOLE, "verify", _finds_fault, "a fold takes what verify calls damage: was changed"),
    (WHOLE, "verify", _crashes, "verify raises ValueError"),
    (WHOLE, "salvage", _leaves_out, "salvage leaves out what a fold gives"),
    (WHOLE, "salvage", _crashes, "salvage raises ValueError"),
    (WHOLE, "row", _crashes, "a view raises ValueError"),
]


@pytest.mark.parametrize(("data", "path", "fault", "complaint"), FAULTS, ids=[row[3] for row in FAULTS])
def test_the_judge_notices_a_path_that_disagrees(  # noqa: PLR0913, PLR0917 - a row of the table and two fixtures
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, path: str, fault: Any, complaint: str
) -> None:
    """The judge reports a path that accepts, refuses, forgets or crashes when the others do not."""
    with planted(monkeypatch, path, fault):
        found = judge(tmp_path / "ledger", data).complaints
    assert any(said.startswith(complaint) for said in found), found


def test_the_judge_notices_a_search_that_forgets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reports a key that verify finds and the writer's search does not: a second delivery would be recorded."""
    monkeypatch.setattr(search, "find_deliveries", _knows_nothing)
    assert ("the writer does not find a key that verify knows",) == judge(tmp_path / "ledger", WHOLE).complaints
