"""Events without effect: every answer lists them, before the recorded ones."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.command_line import Run

RECORDED = b"""{"evaluations": [{"name": "kpt_001", "rating": "superb"}, {"name": "kpt_001", "rating": "neutral"}]}"""


@pytest.fixture
def rated(project: Path, run: Run) -> None:
    """Record an entry (2 to 3) and a session with an unknown rating, and a neutral one (4 to 6)."""
    del project
    run("add", "Quote ids")
    run("record", "-", "--session", "s1", stdin=RECORDED)


@pytest.mark.usefixtures("rated")
def test_an_unknown_rating_is_marked_in_the_log(run: Run) -> None:
    """`log` marks it for people and for scripts, and the update does not count it as rated."""
    lines = run("log", "--since", "3").out.splitlines()
    assert [
        "kpt_001 rated superb (counts nothing: a rating is helpful, harmful or neutral)",
        "kpt_001 rated neutral",
    ] == [line.partition("reflector  ")[2] for line in lines[:2]]
    assert "update: 1 rating, 1 ignored" == lines[2].partition("reflector  ")[2]
    rows = [json.loads(line) for line in run("log", "--kind", "point.rated", "--json").out.splitlines()]
    assert [False, None] == [row.get("counts") for row in rows]


@pytest.mark.usefixtures("rated")
def test_an_unknown_rating_is_marked_in_sql(run: Run) -> None:
    """It is an invalid row of `ratings`, and `sessions` does not count it."""
    rows = run("sql", "SELECT rating, valid FROM ratings ORDER BY seq", "--json").out.splitlines()
    assert [{"rating": "superb", "valid": 0}, {"rating": "neutral", "valid": 1}] == list(map(json.loads, rows))
    assert {"ratings": 1} == json.loads(run("sql", "SELECT ratings FROM sessions", "--json").out)


@pytest.mark.usefixtures("rated")
def test_an_unknown_rating_is_not_among_the_rated(run: Run) -> None:
    """The JSON answer of `record` lists its entry as ignored alone."""
    payload = b"""{"evaluations": [{"name": "kpt_001", "rating": "superb"}]}"""
    answer = json.loads(run("record", "-", "--json", stdin=payload).out)
    assert (["kpt_001"], []) == ([one["name"] for one in answer["ignored"]], answer["rated"])


def test_a_duplicate_text_is_named_first(project: Path, run: Run) -> None:
    """A duplicate text in `record` names the entry that has it before the recorded events."""
    del project
    run("add", "Quote ids")
    assert (
        "ignored new_key_points[0] (kpt_001): already in the playbook as kpt_001"
        == (run("record", "-", stdin=b'{"new_key_points": ["Quote ids"]}').out.splitlines()[0])
    )


def test_a_single_event_is_named_by_its_number(project: Path, run: Run) -> None:
    """A batch of one event is no range."""
    del project
    run("add", "Quote ids")
    answer = run("record", "-", stdin=b'{"new_key_points": ["Quote ids"]}')
    assert "recorded as event 4\n" == answer.out.partition("\n")[2]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--component", "ac99", "startup_ms=8000"), "unknown component ac99 (1)"),
        (("--component", "AC-01", "startup=8000"), "unknown metric startup of ac01 (1)"),
    ],
)
def test_unscored_metrics_are_named_first(project: Path, run: Run, words: tuple[str, ...], why: str) -> None:
    """`score record` first names the unscored metrics with the reason, and still records them; JSON has `unscored`."""
    del project
    lines = run("score", "record", "--session", "s1", *words).out.splitlines()
    first = f"in no score: {why}; `tallybook score --config` shows what is scored"
    assert (first, "recorded 1 measurement as event 2") == (lines[0], lines[1])
    assert {why.removesuffix(" (1)"): 1} == json.loads(run("score", "record", "--session", "s1", *words, "--json").out)[
        "unscored"
    ]


def test_scored_metrics_are_not_named(project: Path, run: Run) -> None:
    """If everything is in a score, `score record` prints only what it recorded."""
    del project
    done = run("score", "record", "--session", "s1", "--component", "ac01", "startup_ms=8000")
    assert ("", ["recorded 1 measurement as event 2"]) == (done.err, done.out.splitlines())


@pytest.mark.usefixtures("rated")
def test_an_unknown_rater_is_answered_with_the_known_ones(run: Run) -> None:
    """A mistyped --rater is noted with the raters of the ledger; a known one is not noted."""
    done = run("log", "--rater", "humna")
    note = (
        "note: --rater humna: no event comes from this rater; the raters in this ledger: human, reflector, tallybook\n"
    )
    assert (0, "", note) == (done.code, done.out, done.err)
    assert "" == run("log", "--rater", "human", "--kind", "point.rated").err
