"""Files of measurements: every form, and any other content."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
import pytest

from helpers.json_values import JSON
from tallybook.ledger.errors import Problem
from tallybook.projections.surfaces.scores.read import Item, items

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OBJECTS: list[dict[str, Any]] = [{"n": number, "text": 'a "{[]}", \u2028 line\nü'} for number in range(3)]

FORMS: dict[str, Callable[[list[dict[str, Any]]], str]] = {
    "lines": lambda found: "\n".join(map(json.dumps, found)),
    "lines with an end": lambda found: "".join(f"{json.dumps(one)}\n" for one in found),
    "lines of another system": lambda found: "".join(f"{json.dumps(one)}\r\n" for one in found),
    "lines far apart": lambda found: "\n\n  ".join(json.dumps(one, ensure_ascii=False) for one in found) + "\n\n",
    "an array": json.dumps,
    "an array over lines": lambda found: json.dumps(found, indent=2),
    "an array with a line each": lambda found: "[\n" + ",\n".join(map(json.dumps, found)) + "\n]\n",
    "arrays": lambda found: "\n".join(json.dumps([one]) for one in found),
    "objects over lines": lambda found: "\n".join(json.dumps(one, indent=4) for one in found),
    "with a byte order mark": lambda found: "\ufeff" + "\n".join(map(json.dumps, found)),
}


def found(file: Path) -> list[dict[str, Any]]:
    """Return the objects of a valid file."""
    read = list(items(str(file)))
    assert [] == [one for one in read if isinstance(one, Problem)]
    return [one.value for one in read if isinstance(one, Item)]


def places_and_problems(file: Path) -> list[str]:
    """Return the content of a file, each object by its place and each problem by its message."""
    read = (str(one) if isinstance(one, Problem) else one.place for one in items(str(file)))
    return [one.replace(str(file.parent), ".") for one in read]


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lambda data: gzip.compress(data[:9]) + gzip.compress(data[9:])])
@pytest.mark.parametrize("form", FORMS)
def test_objects_have_many_forms(tmp_path: Path, form: str, pack: Callable[[bytes], bytes]) -> None:
    """They are one a line, in an array or one after another, packed or not, whatever the file's name."""
    file = tmp_path / "events.txt"
    file.write_bytes(pack(FORMS[form](OBJECTS).encode()))
    assert OBJECTS == found(file)


def test_an_object_has_its_place(tmp_path: Path) -> None:
    """The place is its line, its index in an array, or the file of a single object."""
    places = {
        "lines": ["./f:1", "./f:2", "./f:3"],
        "lines far apart": ["./f:1", "./f:3", "./f:5"],
        "an array": ["./f:1[0]", "./f:1[1]", "./f:1[2]"],
        "an array over lines": ["./f[0]", "./f[1]", "./f[2]"],
        "arrays": ["./f:1[0]", "./f:2[0]", "./f:3[0]"],
        "objects over lines": ["./f[0]", "./f[1]", "./f[2]"],
    }
    file = tmp_path / "f"
    for form, expected in places.items():
        file.write_text(FORMS[form](OBJECTS), encoding="utf-8")
        assert expected == places_and_problems(file), form
    file.write_text(json.dumps(OBJECTS[0], indent=2), encoding="utf-8")
    assert ["./f"] == places_and_problems(file)


BAD_LINES = [
    ("no json", "is not JSON: Expecting value (character 1); it is not recorded"),
    ('{"torn": "off', "is not JSON: Unterminated string starting at (character 10); it is not recorded"),
    ("\udcff\udcfe", "is not UTF-8 text, from byte 0 on; it is not recorded"),
    ("\0\0\0", "is not JSON: Expecting value (character 1); it is not recorded"),
    *((line, "is not a JSON object; it is not recorded") for line in ("12", "null", '"text"', "true", "NaN")),
    ("[" * 102 + "]" * 102, "is nested more than 100 deep; it is not recorded"),
    ('{"a":' * 101 + "1" + "}" * 101, "is nested more than 100 deep; it is not recorded"),
    ("[" * 100_000, "is nested more than 100 deep; it is not recorded"),
]


@pytest.mark.parametrize(("line", "problem"), BAD_LINES, ids=[problem[:20] for _, problem in BAD_LINES])
def test_a_bad_line_affects_itself_alone(tmp_path: Path, line: str, problem: str) -> None:
    """The other lines are read, and it is named by its number."""
    file = tmp_path / "f"
    for at in range(3):
        lines = ['{"n": 1}', '{"n": 2}']
        lines.insert(at, line)
        file.write_bytes("\n".join(lines).encode(errors="surrogateescape"))
        expected = [f"./f:{number}" for number in (1, 2, 3)]
        expected[at] = f"./f:{at + 1}: {problem}"
        assert expected == places_and_problems(file)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", ["./f: is empty"]),
        (b" \n\n\t\n", ["./f: is empty"]),
        (gzip.compress(b"", mtime=0), ["./f: is empty"]),
        (b"[]", ["./f:1: is an empty list"]),
        (
            b'[{"n": 1}, 2, [{"n": 3}]]',
            [
                "./f:1[0]",
                "./f:1[1]: is not a JSON object; it is not recorded",
                "./f:1[2]: is not a JSON object; it is not recorded",
            ],
        ),
        (b"{\n", ["./f:1: is not JSON: Expecting property name enclosed in double quotes (character 2)"]),
        (
            gzip.compress(b'{"n": 1}\n' * 3, mtime=0)[:-9] + b"\xff" * 9,
            ["./f: cannot be read to its end: Error -3 while decompressing data: invalid stored block lengths"],
        ),
        (b"\x1f\x8b\x00", ["./f: cannot be read to its end: Compressed file ended before the end-of-stream marker"]),
    ],
)  # fmt: skip
def test_a_file_without_objects_is_reported(tmp_path: Path, data: bytes, expected: list[str]) -> None:
    """It is empty, torn, or of another format."""
    file = tmp_path / "f"
    file.write_bytes(data)
    lines = [line for line in places_and_problems(file) if line != "./f:1" or "./f:1" in expected]
    assert len(expected) == len(lines), lines
    assert [] == [(one, line) for one, line in zip(expected, lines, strict=True) if not line.startswith(one[:40])]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('{"n": 1}{"n": 2}', ["./f:1[0]", "./f:1[1]"]),
        ('{"n": 1} \t[{"n": 2}]', ["./f:1[0]", "./f:1[1][0]"]),
        ('{"n": 1}{"n": ', ["./f:1", "./f:1: is not JSON: Expecting value (character 14); it is not recorded"]),
        ('{"n": 1} x', ["./f:1", "./f:1: is not JSON: Expecting value (character 10); it is not recorded"]),
    ],
)
def test_lines_of_two_writers_are_separated(tmp_path: Path, line: str, expected: list[str]) -> None:
    """If two writers wrote at once, or one broke off, the whole object at the line's beginning counts."""
    file = tmp_path / "f"
    file.write_text(f"{line}\n{{}}", encoding="utf-8")
    assert [*expected, "./f:2"] == places_and_problems(file)


def test_ambiguous_numbers_are_texts(tmp_path: Path) -> None:
    """So the rest of their object counts, and the spelling is kept."""
    file = tmp_path / "f"
    file.write_text('{"a": NaN, "b": -Infinity, "c": 1e999, "d": 9007199254740993, "e": 1' + "0" * 5000 + "}")
    (value,) = found(file)
    assert ["NaN", "-Infinity", "1e999", "9007199254740993", "1" + "0" * 5000] == list(value.values())


LINES = JSON.map(json.dumps).map(str.encode) | st.binary(max_size=30)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(LINES, max_size=6), packed=st.booleans())
def test_any_file_can_be_read(tmp_path: Path, lines: list[bytes], packed: bool) -> None:
    """Nothing raises; every object and every problem has its place."""
    data = b"\n".join(lines)
    file = tmp_path / "f"
    file.write_bytes(gzip.compress(data) if packed else data)
    read = list(items(str(file)))
    assert read
    for one in read:
        assert (one.source if isinstance(one, Problem) else one.place).startswith(str(file))
        assert isinstance(one, Problem) or json.dumps(one.value)
