"""Numbers, names and times are read in all their common spellings, without an exception."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
import pytest

from helpers.json_values import JSON
from tallybook.ledger import clock
from tallybook.ledger.telemetry.read import read_name, read_number, read_time, to_snake_case


def as_json(value: object) -> str:
    """Return a number as JSON writes it, so that 1, 1.0 and true differ."""
    return json.dumps(value)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        *((8000, "8000"), (0, "0"), (-3, "-3"), (2**53, "9007199254740992"), (12.5, "12.5"), (3.0, "3.0")),
        *((True, "true"), (False, "false"), ("true", "true"), (" FALSE ", "false")),
        *(
            ("8000", "8000"),
            ("+7", "7"),
            ("-7", "-7"),
            ("75.1", "75.1"),
            ("1e3", "1000.0"),
            (".5", "0.5"),
            ("5.", "5.0"),
        ),
        *(("85%", "85"), (" 85.5 % ", "85.5")),
    ],
)
def test_a_number_is_read_as_written(written: object, read: str) -> None:
    """It may be a number or a text, with a percent sign or without; a whole number stays whole."""
    assert read == as_json(read_number(written))


@pytest.mark.parametrize(
    ("written", "read"),
    [("ac01", "ac01"), ("  AC-01 ", "AC-01"), ("Prüfung", "Prüfung"), (42, "42"), (1.5, "1.5"), ('a"b\\', 'a"b\\')],
)
def test_a_name_is_read_as_written(written: object, read: str) -> None:
    """Only the blanks around it are dropped; a number is a name as well."""
    assert read == read_name(written)


@pytest.mark.parametrize(
    ("word", "read"),
    [
        *(
            ("drift_detected", "drift_detected"),
            ("driftDetected", "drift_detected"),
            ("DriftDetected", "drift_detected"),
        ),
        *(
            ("drift.detected", "drift_detected"),
            ("Drift-Detected", "drift_detected"),
            ("drift  detected", "drift_detected"),
        ),
        *(("DRIFT_DETECTED", "drift_detected"), ("_drift:detected_", "drift_detected"), ("step2Done", "step2_done")),
        *(("", ""), ("___", ""), ("дрейф", ""), ("x" * 100, "x" * 100), ("x" * 101, "")),
    ],
)
def test_a_word_has_one_spelling(word: str, read: str) -> None:
    """Camel case, dots, dashes, blanks and capitals give the same word; one that is far too long gives none."""
    assert read == to_snake_case(word)


@pytest.mark.parametrize(
    "written",
    [
        *("2026-01-16T22:00:00.000Z", "2026-01-16T22:00:00Z", "2026-01-16T22:00:00", "2026-01-16 22:00:00"),
        *("2026-01-16T22:00", "2026-01-16T23:00:00+01:00", "2026-01-16T16:30:00-0530", "2026-01-16 22:00:00 +0000"),
        *("2026-01-16 22:00:00 UTC", "2026-01-16t22:00:00z", "20260116T220000Z", " 2026-01-16T22:00:00Z\n"),
        *(1768600800, 1768600800.0, 1768600800000, "1768600800", "1768600800000", "1768600800.0"),
    ],
)
def test_a_moment_is_read_in_every_spelling(written: object) -> None:
    """It may be ISO with a zone, or in UTC without one; seconds or milliseconds since 1970, also as a text."""
    assert "2026-01-16T22:00:00.000000Z" == read_time(written)


@given(JSON)
def test_no_value_raises_and_every_result_is_in_bounds(value: Any) -> None:
    """For any JSON a moment is one that the ledger would write, and a name fits its field."""
    found = read_number(value)
    assert found is None or abs(found) <= 2**53
    assert len(read_name(value)) <= 200
    assert read_name(value).isprintable()
    when = read_time(value)
    assert when is None or clock.moment(clock.to_unix_us(when)).at == when
