"""Numbers, names and times are read in all their common spellings, without an exception."""

from __future__ import annotations

from hashlib import sha256
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
    "written",
    [
        *(None, [], {}, [1], {"a": 1}, "", "%", "many", "1 2", "1,5", "0x10", "1_000", "nan", "inf", "-", ".", "e3"),
        *(2**53 + 1, -(2**53) - 1, float("nan"), float("inf"), float("-inf"), 1e300, "1e300", "9" * 31, "١٢"),
    ],
)
def test_any_other_value_is_no_number(written: object) -> None:
    """Nothing is guessed: neither words, nor numbers that JSON readers interpret differently."""
    assert read_number(written) is None


@pytest.mark.parametrize(
    ("written", "read"),
    [("ac01", "ac01"), ("  AC-01 ", "AC-01"), ("Prüfung", "Prüfung"), (42, "42"), (1.5, "1.5"), ('a"b\\', 'a"b\\')],
)
def test_a_name_is_read_as_written(written: object, read: str) -> None:
    """Only the blanks around it are dropped; a number is a name as well."""
    assert read == read_name(written)


@pytest.mark.parametrize("written", ["x" * 201, "tab\there", "line\nbreak", "half \ud800", "\x00", "zero\u200bwidth"])
def test_an_unusable_name_becomes_its_digest(written: str) -> None:
    """A name that is too long or cannot be printed still differs from every other."""
    digest = sha256(written.encode(errors="surrogatepass")).hexdigest()[:32]
    assert f"digest:{digest}" == read_name(written)


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


@pytest.mark.parametrize(
    ("written", "read"),
    [
        *(("2026-01-16", "2026-01-16T00:00:00.000000Z"), ("20260116", "2026-01-16T00:00:00.000000Z")),
        *(
            ("2026-01-16T22:00:00." + "0" * 39 + "Z", "2026-01-16T22:00:00.000000Z"),
            ("2026-01-16T22:00:00.123456789Z", "2026-01-16T22:00:00.123456Z"),
            (1768600800.25, "2026-01-16T22:00:00.250000Z"),
        ),
        *((10**11, "5138-11-16T09:46:40.000000Z"), (10**11 + 1, "1973-03-03T09:46:40.001000Z")),
        *((10**8, "1973-03-03T09:46:40.000000Z"), ("1970-01-01", "1970-01-01T00:00:00.000000Z")),
        *(
            ("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z"),
            ("1712101012345", "2024-04-02T23:36:52.345000Z"),
        ),
    ],
)
def test_a_moment_keeps_its_fractions(written: object, read: str) -> None:
    """They are read to microseconds; a date is its first moment, and only eight digits alone are a date."""
    assert read == read_time(written)


@pytest.mark.parametrize(
    "written",
    [
        *(None, True, False, "", "yesterday", "2026-13-01", "2026-01-16T25:00:00Z", [], {}),
        *(0, -1, "0", 12, 10**8 - 1, 1e300, 253_402_300_800_000),
        "2026-01-16T22:00:00." + "0" * 40 + "Z",
        *(
            "1969-12-31T23:59:59Z",
            "0001-01-01T00:00:00+14:00",
            "9999-12-31T23:59:59-14:00",
            "2026-01-16" + " " * 60 + "Z",
        ),
        *(10**16, "99999999", float("nan")),
    ],
)
def test_any_other_value_is_no_moment(written: object) -> None:
    """A moment before 1970 or after 9999 is refused too."""
    assert read_time(written) is None


@given(JSON)
def test_no_value_raises_and_every_result_is_in_bounds(value: Any) -> None:
    """For any JSON a moment is one that the ledger would write, and a name fits its field."""
    found = read_number(value)
    assert found is None or abs(found) <= 2**53
    assert len(read_name(value)) <= 200
    assert read_name(value).isprintable()
    when = read_time(value)
    assert when is None or clock.moment(clock.to_unix_us(when)).at == when
