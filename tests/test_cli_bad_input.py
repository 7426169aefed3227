"""Bad input gets one clear line and the right exit code, and nothing is lost."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from helpers.authors import HUMAN
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.command_line import Answer, Run

MIB = 1024 * 1024
BY_HAND = "learned by hand"


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with an entry that was rated once."""
    place = Project(project)
    commands.add(place, BY_HAND, HUMAN)
    commands.rate(place, "kpt_001", "helpful", HUMAN)
    return place


def protected_bytes(project: Project) -> dict[str, bytes]:
    """Return the bytes that no failing command may change."""
    files = (project.ledger / "events.jsonl", project.playbook)
    return {path.name: path.read_bytes() for path in files if path.is_file()}


def assert_refused(answer: Answer, code: int, says: str) -> None:
    """Check that an answer is one line of error on standard error, with this exit code."""
    assert (code, "") == (answer.code, answer.out)
    assert answer.err.startswith("tallybook: ")
    assert "\n" == answer.err[-1]
    assert 1 == len(answer.err.splitlines())
    assert says in answer.err


# What is refused, so that nothing is recorded


ADDS = json.dumps({"new_key_points": ["new"]})
PAYLOADS: list[tuple[str, bytes, str]] = [
    ("nothing", b"", "standard input: is empty"),
    ("not JSON", b"kpt_001 helpful", "is not JSON"),
    ("cut off", ADDS[:-2].encode(), "is not JSON"),
    ("two values", f"{ADDS}{ADDS}".encode(), "is not JSON"),
    ("a list", b"[]", "expected an object, got list"),
    ("an object of another kind", b'{"name": "kpt_001", "rating": "helpful"}', "neither new_key_points nor"),
    ("texts that are no list", b'{"new_key_points": "new"}', "expected a list"),
    ("null instead of a list", b'{"evaluations": null, "new_key_points": ["new"]}', "expected a list"),
    ("NaN", b'{"evaluations": [], "x": NaN}', "NaN"),
    ("a key twice", b'{"evaluations": [], "evaluations": []}', "'evaluations' twice"),
    ("a number beyond 2^53", b'{"evaluations": [], "x": 9007199254740993}', "beyond 2^53"),
    ("not UTF-8", b'{"new_key_points": ["caf\xe9"]}', "is not UTF-8"),
    ("100,000 levels", b"[" * 100_000, "nested too deeply"),
    ("17 MiB", b'{"new_key_points": ["' + b"x" * 17 * MIB + b'"]}', "more than 16,777,216 bytes"),
]


@pytest.mark.parametrize(("stdin", "says"), [pytest.param(*row[1:], id=row[0]) for row in PAYLOADS])
def test_other_input_than_an_extraction_result_is_refused(here: Project, run: Run, stdin: bytes, says: str) -> None:
    """`record` answers unreadable input with one line and exit code 2, and the ledger does not change."""
    before = protected_bytes(here)
    assert_refused(run("record", stdin=stdin), 2, says)
    assert before == protected_bytes(here)


ARGUMENTS: list[tuple[str, list[str], int, str]] = [
    ("an unknown name", ["rate", "kpt_999", "helpful"], 1, "no entry ever had this name"),
    ("an empty name", ["rate", "", "helpful"], 2, "expected a text as name"),
    ("an unknown rating", ["rate", "kpt_001", "great"], 2, "rating: 'great' is not a rating; use helpful"),
    ("an empty rating", ["rate", "kpt_001", ""], 2, "expected a text as rating"),
    ("an empty text", ["add", ""], 2, "the text is empty"),
    ("a text of 1 MiB", ["add", "x" * MIB], 2, "1,048,576 characters"),
    ("half of a surrogate pair", ["add", "\udce9"], 2, "surrogate pair"),
    ("a rater that steers a terminal", ["add", "new", "--rater", "\x1b[2J"], 2, "printable characters"),
    ("an empty session", ["add", "new", "--session", ""], 2, "--session: needs 1 to 200"),
    ("a session of 1,000 characters", ["add", "new", "--session", "x" * 1000], 2, "needs 1 to 200"),
    ("an empty model", ["rate", "kpt_001", "helpful", "--model", ""], 2, "--model"),
    ("an empty key", ["add", "new", "--key", ""], 2, "key: is empty"),
    ("a file that is not there", ["record", "nowhere.json"], 2, "nowhere.json: cannot be read"),
    ("a folder instead of a file", ["import", "."], 2, "cannot be read"),
    ("an unknown verb", ["forget", "kpt_001"], 2, "forget"),
    ("an unknown option", ["show", "--colour"], 2, "--colour"),
    ("a missing argument", ["rate", "kpt_001"], 2, "NAME"),
    ("an argument too many", ["add", "two", "words"], 2, "words"),
    ("a moment that is none", ["show", "--at", "yesterday"], 2, "is not a moment"),
    ("a moment to come", ["show", "--at", "6"], 2, "the ledger ends at seq 5"),
    ("a check of a moment", ["replay", "--check", "--at", "1"], 2, "--check"),
    ("a project that is not a folder", ["--project", "nowhere", "show"], 2, "is not a folder"),
    ("an output that has no folder", ["replay", "--output", "nowhere/book.json"], 4, "No such file"),
]


@pytest.mark.parametrize(("arguments", "code", "says"), [pytest.param(*row[1:], id=row[0]) for row in ARGUMENTS])
def test_bad_arguments_are_refused(here: Project, run: Run, arguments: list[str], code: int, says: str) -> None:
    """A command with a bad argument answers with one line and the right exit code, and changes nothing."""
    before = protected_bytes(here)
    assert_refused(run(*arguments), code, says)
    assert before == protected_bytes(here)


FILES: list[tuple[str, bytes, str]] = [
    ("nothing", b"", "is empty"),
    ("not JSON", b"- use types", "is not JSON"),
    ("not UTF-8", b'{"key_points": ["caf\xe9"]}', "is not UTF-8"),
    ("100,000 levels", b"[" * 100_000, "nested"),
]


@pytest.mark.parametrize(("stdin", "says"), [pytest.param(*row[1:], id=row[0]) for row in FILES])
def test_a_file_that_is_not_a_legacy_playbook_is_refused(here: Project, run: Run, stdin: bytes, says: str) -> None:
    """`import` answers an unreadable file with one line and exit code 2, and the ledger does not change."""
    before = protected_bytes(here)
    assert_refused(run("import", "-", stdin=stdin), 2, says)
    assert before == protected_bytes(here)


# Taken in part: what can be used counts, and the rest is named


PARTS: list[tuple[str, object, str]] = [
    ("an unknown name", {"evaluations": [{"name": "kpt_999", "rating": "helpful"}]}, "(kpt_999): no such entry"),
    ("an unknown rating", {"evaluations": [{"name": "kpt_001", "rating": "great"}]}, "'great' has no effect"),
    ("no rating", {"evaluations": [{"name": "kpt_001"}]}, "expected a text as rating"),
    ("a bare name", {"evaluations": ["kpt_001"]}, "expected an object with name and rating, got str"),
    ("an empty text", {"new_key_points": [""]}, "new_key_points[0]: the text is empty"),
    ("no text", {"new_key_points": [{"section": "OTHERS"}]}, "expected a text, got NoneType"),
    ("a text of 1 MiB", {"new_key_points": ["x" * MIB]}, "1,048,576 characters"),
    ("half of a surrogate pair", {"new_key_points": ["\ud800"]}, "surrogate pair"),
    ("a text that stands", {"new_key_points": [BY_HAND]}, "already in the playbook as kpt_001"),
]


@pytest.mark.parametrize(("payload", "says"), [pytest.param(*row[1:], id=row[0]) for row in PARTS])
def test_an_invalid_item_does_not_affect_the_others(
    here: Project, run: Run, payload: dict[str, list[Any]], says: str
) -> None:
    """An invalid item of an extraction result is named on one line, and the others are recorded."""
    good: dict[str, list[Any]] = {"new_key_points": ["good"], "evaluations": [{"name": "kpt_001", "rating": "helpful"}]}
    both = {field: [*payload.get(field, []), *items] for field, items in good.items()}
    answer = run("record", stdin=json.dumps(both).encode())
    assert (0, "") == (answer.code, answer.err)
    assert [True] == [says in line for line in answer.out.splitlines() if line.startswith("ignored ")]
    points = commands.playbook(here).state.entries
    assert (2, "good") == (points["kpt_001"].helpful, points["kpt_002"].text)
