"""The score files of a state: places, shapes, names, and how long they stay."""

from __future__ import annotations

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from helpers.score_examples import AT, EXAMPLE, MEASURED, config, example, folded, noon, plain
from helpers.score_files import SESSION_FILE
from tallybook.projections.scores import files as score_files


def test_the_documents_session_is_a_file_to_the_byte() -> None:
    """Scores of 92, 88, 85, 95, 78, 82, 75, 90 and 94 are stored as in "Per-Session Scores"."""
    found = dict(score_files.files(example(config())))
    assert SESSION_FILE.encode() == score_files.document_bytes(found[f"sessions/{EXAMPLE}.json"])


def test_a_day_is_stored_as_the_document_has_it() -> None:
    """Three sessions of 80, 90 and 95: average 88.33, and 7 days before of 86 → improving; keys in the order there."""
    sessions = [(f"b{day}", noon(f"2026-01-{day:02}"), plain(86), "") for day in range(9, 16)]
    day = [(f"s{value}", noon("2026-01-16"), plain(value), "") for value in (80, 90, 95)]
    found = dict(score_files.files(folded(config(), *sessions, *day)))["daily/2026-01-16.json"]
    assert {
        "date": "2026-01-16",
        "sessions_count": 3,
        "component_averages": {"ac09": {"avg": 88, "min": 80, "max": 95}},
        "session_averages": {"handoff": 88, "overall": 88},
        "session_ranges": {"handoff": {"min": 80, "max": 95}, "overall": {"min": 80, "max": 95}},
        "trend": {"direction": "improving", "delta": 0.3},
    } == found
    order = ["date", "sessions_count", "component_averages", "session_averages", "session_ranges", "trend"]
    assert order == list(found)


def test_a_version_compares_with_the_one_before_by_their_numbers() -> None:
    """2.10 follows 2.9, in any order of appearance: 90 after 80."""
    sessions = [("b", AT, plain(90), "2.10"), ("a", AT, plain(80), "2.9"), ("c", AT, plain(70), "")]
    found = [(one["version"], one["trend"]) for one in score_files.version_documents(folded(config(), *sessions))]
    assert [("2.9", None), ("2.10", {"direction": "improving", "delta": 10.0})] == found


@given(st.text(max_size=150), st.text(max_size=150))
def test_no_two_ids_have_one_file(one: str, other: str) -> None:
    """This holds on a file system that ignores case too; and every name is valid, of at most 255 bytes."""
    names = [score_files.file_name(id_) for id_ in (one, other, one.upper(), other.casefold())]
    assert len({one, other, one.upper(), other.casefold()}) == len({name.casefold() for name in names})
    assert [] == [name for name in names if not re.fullmatch(r"[a-z0-9_~-][a-z0-9._~-]{0,120}", name)]


def test_every_written_file_is_recognised() -> None:
    """This includes an odd id, an odd version, and every period."""
    sessions = [("../x", AT, MEASURED, "V 1"), ("s", AT, plain(3), "1.0")]
    for place, document in score_files.files(folded(config(), *sessions)):
        folder, _, name = place.partition("/")
        assert score_files.is_score_file(folder, name, json.loads(score_files.document_bytes(document)))
