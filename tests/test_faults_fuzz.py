"""Every path that reads an event has one verdict about any line: a slice of ``python -m tests.faults fuzz``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
import json
import os
from pathlib import Path
from random import Random
import subprocess
import sys
from typing import Any, NamedTuple

import attrs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
import pytest

from faults import FaultOptions, verdicts
from faults.fuzz import change_log, hostile, log_of, logs, pack_log, prove_again, rows, unpack_log
from faults.verdicts import RATED, Case, ReadResult, end_of, judge
from helpers.commands import ROOT
from tallybook.ledger import search, strict_json
from tallybook.ledger.codec import decode, encode
from tallybook.ledger.errors import BadInputError, DamagedLedgerError, Problem
from tallybook.ledger.events import EVENT_TYPES
from tallybook.ledger.fast_stdlib import dumps
from tallybook.ledger.line import CONTINUED, Draft
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.records import Batch
from tallybook.ledger.verification import Verification, verify
from tallybook.projections.surfaces.workspace.project import Project

SEED = 20261122
COUNT = 150
LED = 60


@settings(max_examples=COUNT, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.integers(0, len(logs()) - 1), st.randoms(use_true_random=False))
def test_every_path_has_one_verdict(tmp_path: Path, number: int, chance: Random) -> None:
    """Fold, verify, salvage, views, the writer's checks, its index and an append agree about every changed log."""
    assert () == judge(tmp_path / "ledger", change_log(chance, logs()[number])).complaints


@pytest.mark.skipif(find_spec("atheris") is None, reason="atheris is not installed (it comes with the group `fuzz`)")
def test_a_run_guided_by_coverage_has_no_failures(tmp_path: Path) -> None:
    """The same holds with atheris, in its own process, and the note says so."""
    (tally,) = rows(FaultOptions(tmp_path, SEED, LED), guided=True)
    assert () == tally.failures
    assert (LED, 0) == (tally.tried, tally.counts["complaints"])
    assert "led by coverage" in tally.note


@pytest.mark.parametrize("number", range(len(logs())))
def test_an_unchanged_log_is_valid_to_all_paths(tmp_path: Path, number: int) -> None:
    """The starting log is valid to all paths, and computing its proofs anew changes no byte."""
    data = logs()[number]
    assert (True, True, ()) == judge(tmp_path / "ledger", data)
    assert data == prove_again(data)
    assert data == unpack_log(pack_log(data))


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
    data = prove_again(head + b'"by":{"rater":"test"},' + kind + rest)
    assert (False, False, ()) == tuple(judge(tmp_path / "ledger", data))


# The judge itself: what it is there to notice


@contextmanager
def plant_fault(monkeypatch: pytest.MonkeyPatch, name: str, fault: Any) -> Iterator[None]:
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
    with plant_fault(monkeypatch, path, fault):
        found = judge(tmp_path / "ledger", data).complaints
    assert any(said.startswith(complaint) for said in found), found


def test_the_judge_notices_a_search_that_forgets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reports a key that verify finds and the writer's search does not: a second delivery would be recorded."""
    monkeypatch.setattr(search, "find_deliveries", _knows_nothing)
    assert ("the writer does not find a key that verify knows",) == judge(tmp_path / "ledger", WHOLE).complaints


# JSON that readers interpret differently, or that our writer never spells: in every place of a line, and as input.


SEQ = 2
STARRED = Draft("point.starred", 1, {"x": "HERE"})
TOLD = Draft("point.starred", 1, {}, {"why": "HERE"})
ADDED = Draft("point.added", 1, {"name": "kpt_001"}, {"text": "HERE"})
NAMED = Draft("point.rated", 1, {"name": "HERE", "rating": "helpful"})
COUNTED = Draft("playbook.updated", 1, {"added": "HERE", "rated": 0, "ignored": 0})
PLACES: dict[str, tuple[Draft, bytes, bytes]] = {
    "a value of an unknown kind": (STARRED, b'"HERE"', b"%b"),
    "the body of an unknown kind": (STARRED, b'{"x":"HERE"}', b"%b"),
    "a text of an unknown kind": (TOLD, b'"HERE"', b"%b"),
    "a field": (NAMED, b'"HERE"', b"%b"),
    "a number": (COUNTED, b'"HERE"', b"%b"),
    "a body": (NAMED, b'{"name":"HERE","rating":"helpful"}', b"%b"),
    "one more field": (NAMED, b'"helpful"', b'"helpful","more":%b'),
    "a text": (ADDED, b'"HERE"', b"%b"),
    "a free value": (ADDED, b'{"salt":"5a17","text":"HERE"}', b"%b"),
    "a salt": (ADDED, b'"5a17"', b"%b"),
    "a kind": (NAMED, b'"point.rated"', b"%b"),
    "a version": (NAMED, b'"v":1', b'"v":%b'),
    "a rater": (NAMED, b'"test"', b"%b"),
    "who says so": (NAMED, b'{"rater":"test"}', b"%b"),
    "an id": (NAMED, b'"id-2"', b"%b"),
    "a time": (NAMED, b'"at":', b'"at":%b,"when":'),
    "a key": (NAMED, b'"at":', b'"key":%b,"at":'),
    "a seq": (NAMED, b'"seq":2', b'"seq":%b'),
    "a part": (NAMED, b"[1,1]", b"%b"),
}
"""Place → a draft, the bytes of its line that give way, and what takes their place around the hostile JSON."""

DISAGREE, AGREE, CANONICAL = (
    [name for name, (_, readers) in hostile().items() if readers == what] for what in ("disagree", "agree", "canonical")
)
# The door leaves halves of surrogate pairs to the framer, so that one bad item costs nothing but itself.
SURROGATES = [name for name in DISAGREE if "surrogate" in name and "UTF-8" not in name]


class HostileVerdicts(NamedTuple):
    """The verdicts about a log with hostile JSON in its second line.

    Attributes:
        found: Event numbers that verify names.
        answer: The result of a fold.
        complaints: Exceptions of a path that are no errors of Tallybook, or have more than one line.
    """

    found: set[int | None]
    answer: ReadResult
    complaints: list[str]

    @property
    def refused(self) -> int | None:
        """Return the event number that the fold names, None if it accepts the log."""
        refused = self.answer.refused
        return refused.problems[0].seq if isinstance(refused, DamagedLedgerError) else None


def log_with(place: str, text: bytes) -> bytes:
    """Return a log of three lines whose second has these bytes in a place, with matching proofs."""
    draft, old, new = PLACES[place]
    opening, line, rest = log_of([draft], [encode(RATED)]).splitlines(keepends=True)
    return prove_again(opening + line.replace(old, new % text, 1) + rest, renumbered=False)


def read(folder: Path, data: bytes) -> HostileVerdicts:
    """Pass a log, all of it acknowledged, to verify and to a fold."""
    case = Case(folder, data, end_of(data))
    verdict = case.answer_of("verify", lambda: verify(case.log))
    answer = case.read_by("a fold", lambda: decode(case.log.read()))
    found = {problem.seq for problem in verdict.problems} if isinstance(verdict, Verification) else set[int | None]()
    return HostileVerdicts(found, answer, case.complaints)


def read_in_every_place(folder: Path, text: bytes) -> dict[str, HostileVerdicts]:
    """Return the verdicts about hostile JSON in every place."""
    return {place: read(folder / "ledger", log_with(place, text)) for place in PLACES}


@pytest.mark.parametrize("name", DISAGREE)
def test_ambiguous_json_is_damage_anywhere(tmp_path: Path, name: str) -> None:
    """Verify and every fold refuse it and name its line, although checksum, sum and chain fit; nothing crashes."""
    reads = read_in_every_place(tmp_path, hostile()[name][0])
    assert {place: [] for place in PLACES} == {place: verdict.complaints for place, verdict in reads.items()}
    assert [] == [place for place, verdict in reads.items() if SEQ not in verdict.found]
    assert [] == [place for place, verdict in reads.items() if verdict.refused != SEQ]


@pytest.mark.parametrize("name", AGREE)
def test_another_spelling_never_changes_the_meaning(tmp_path: Path, name: str) -> None:
    """Verify names the line; a fold refuses it, or reads it as the canonical spelling."""
    text = hostile()[name][0]
    canonical = dumps(strict_json.loads(text, "case")).encode()
    reads = read_in_every_place(tmp_path, text)
    assert {place: [] for place in PLACES} == {place: verdict.complaints for place, verdict in reads.items()}
    assert [] == [place for place, verdict in reads.items() if SEQ not in verdict.found]
    for place, verdict in reads.items():
        if verdict.refused != SEQ:
            plain = read(tmp_path / "plain", log_with(place, canonical)).answer
            assert [told.events for told in plain.batches] == [told.events for told in verdict.answer.batches], place


@pytest.mark.parametrize("name", CANONICAL)
def test_all_readers_agree_about_odd_canonical_json(tmp_path: Path, name: str) -> None:
    """In an unknown kind it is kept; elsewhere verify and a fold both accept it, or both refuse it."""
    reads = read_in_every_place(tmp_path, hostile()[name][0])
    assert {place: [] for place in PLACES} == {place: verdict.complaints for place, verdict in reads.items()}
    assert [] == [place for place, verdict in reads.items() if (SEQ in verdict.found) != (verdict.refused == SEQ)]
    assert set() == reads["a value of an unknown kind"].found


@pytest.mark.parametrize("name", [name for name in DISAGREE if name not in SURROGATES])
def test_ambiguous_json_is_refused_as_input(name: str) -> None:
    """A payload that has it anywhere is refused in one line, on every Python."""
    with pytest.raises(BadInputError) as caught:
        strict_json.loads(b'{"x":' + hostile()[name][0] + b"}", "standard input")
    assert 1 == len(str(caught.value).splitlines())


def record(project: Path, given: bytes) -> tuple[int, bytes, bytes]:
    """Run ``tallybook record -`` in its own process; return its exit code, its answer and its error."""
    command = [sys.executable, "-B", "-c", "from tallybook.__main__ import main; main()"]
    words = ["--project", str(project), "record", "-", "--json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([*command, *words], input=given, capture_output=True, check=False, env=environment)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "name",
    ["a key twice", "2 to the 64", "a byte order mark", "a raw NUL in a text", "a depth of 100,000", "two documents"],
)
def test_a_hostile_payload_ends_in_one_line(project: Path, name: str) -> None:
    """Ambiguous JSON gets exit code 2 and one line on standard error, and nothing is recorded."""
    code, out, err = record(project, b'{"new_key_points":["x"],"more":%b}' % hostile()[name][0])
    assert (2, b"") == (code, out), err
    assert err.startswith(b"tallybook: ")
    assert 1 == len(err.decode().splitlines())
    assert not Project(project).ledger.exists()


@pytest.mark.parametrize("name", ["a lone high surrogate", "a lone surrogate as a key"])
def test_half_of_a_surrogate_pair_affects_its_own_item_alone(project: Path, name: str) -> None:
    """The rest of the payload is recorded, the item is named, and the ledger is whole."""
    code, out, err = record(project, b'{"new_key_points":["x",%b]}' % hostile()[name][0])
    assert (0, b"") == (code, err)
    answer = json.loads(out)
    assert (["kpt_001"], ["new_key_points[1]"]) == (answer["added"], [item["item"] for item in answer["ignored"]])
    assert () == verify(JsonlLog(Project(project).ledger)).problems
