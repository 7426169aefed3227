"""Requests: refusals before anything is opened, their JSON in the spool, and invalid spool files."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
import pytest

from helpers.authors import HUMAN
from helpers.reference_model import extraction
from tallybook import compat
from tallybook.ledger.errors import BadInputError
from tallybook.ledger.events import Entry
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hypothesis.strategies import DrawFn

AT = "2026-01-01T00:00:00.000000Z"
ADDS = {"new_key_points": ["waited"], "evaluations": [{"name": "kpt_001", "rating": "helpful"}]}
UPDATE = {"by": HUMAN, "key": None, "update": ADDS, "names": {"waited": "kpt_002"}}
LATER = {"by": HUMAN, "key": "save 1", "update": {"evaluations": [{"name": "kpt_002", "rating": "helpful"}]}}
FILE: dict[str, Any] = {"id": "a", "at": AT, "requests": [UPDATE, LATER]}


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with one entry."""
    return make_project(project)


def make_project(folder: Path) -> Project:
    """Make a project with one entry."""
    place = Project(folder)
    commands.add(place, "use types", HUMAN)
    return place


def spool_file(project: Project, content: bytes) -> Path:
    """Put a file into the spool."""
    path = project.ledger / "spool" / "2026-01-01T000000.000000Z-a.json"
    path.parent.mkdir()
    path.write_bytes(content)
    return path


def changed(**fields: object) -> bytes:
    """Return a spool file with one update, with these fields changed."""
    return json.dumps(FILE | {"requests": [UPDATE | fields]}).encode()


# Waiting


# Junk in the spool


JUNK: list[tuple[str, bytes, str]] = [
    ("nothing", b"", "cannot be read"),
    ("half", json.dumps(FILE).encode()[:-9], "cannot be read"),
    ("no object", b"[]", "cannot be read"),
    ("no UTF-8", b"\xff\xfe{", "cannot be read"),
    ("no requests", b'{"id": "a", "at": "b"}', "cannot be read"),
    ("requests that are a number", json.dumps(FILE | {"requests": 5}).encode(), "requests: expected a list, got int"),
    ("requests that are null", json.dumps(FILE | {"requests": None}).encode(), "expected a list, got NoneType"),
    ("requests that are an object", json.dumps(FILE | {"requests": {}}).encode(), "expected a list, got dict"),
    (
        "a request in a list",
        json.dumps(FILE | {"requests": [[UPDATE]]}).encode(),
        "is neither an update nor facts",
    ),
    ("no time", json.dumps(FILE | {"at": None}).encode(), "at: is not a time"),
    ("a number as time", json.dumps(FILE | {"at": 5}).encode(), "at: is not a time"),
    ("a time that ends its text", json.dumps(FILE | {"at": 'x","by":"'}).encode(), "at: is not a time"),
    ("a time of two lines", json.dumps(FILE | {"at": "a\nb"}).encode(), "at: is not a time"),
    ("a day that is none", json.dumps(FILE | {"at": AT.replace("01-01", "02-30")}).encode(), "at: is not a time"),
    ("digits of elsewhere", json.dumps(FILE | {"at": AT.replace("2", "٢")}).encode(), "at: is not a time"),
    ("an update that is a number", changed(update=5), "expected an object, got int"),
    ("an update of nothing", changed(update={}), "neither new_key_points nor"),
    ("an update with null", changed(update={"evaluations": None}), "expected a list, got NoneType"),
    ("nobody", changed(by={}), "is not a provenance"),
    ("a rater that is a list", changed(by={"rater": ["human"]}), "is not a provenance"),
    ("a rater that is no text", changed(by={"rater": "\ud800"}), "is not a rater"),
    ("an endless rater", changed(by={"rater": "x" * 70_000}), "is not a rater"),
    ("a rater under another name", changed(by={"rater": "x", "host": "y"}), "is not a provenance"),
    (
        "a saved dict",
        json.dumps(FILE | {"requests": [{"by": HUMAN, "found": []}]}).encode(),
        "is neither an update nor facts",
    ),
]


@pytest.mark.parametrize(("content", "says"), [pytest.param(*row[1:], id=row[0]) for row in JUNK])
def test_an_invalid_spool_file_stays_and_is_named(here: Project, content: bytes, says: str) -> None:
    """It is left in place and noted, and the ratings of all others are recorded."""
    waiting = spool_file(here, content)
    for helpful in (1, 2):
        outcome = commands.rate(here, "kpt_001", "helpful", HUMAN)
        (note,) = outcome.notes
        assert note.startswith(f"spool/{waiting.name}: ")
        assert note.endswith("; it stays there")
        assert says in note
        assert content == waiting.read_bytes()
        assert {"kpt_001": Entry("kpt_001", "use types", helpful)} == commands.playbook(here).state.entries
    assert () == commands.verify(here).problems


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["\ud800", "", "kpt_001", "kpt_" + "9" * 20, AT, "a\nb", '{"a":1}', "{", "rater"]),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=5), children, max_size=3),
    max_leaves=4,
)


@st.composite
def spoiled(draw: DrawFn) -> dict[str, Any]:
    """Put any value into any one place of a spool file."""
    whole = copy.deepcopy(FILE)
    place: Any = whole
    while True:
        key = draw(st.sampled_from(list(place) if isinstance(place, dict) else range(len(place))))
        child = place[key]
        if not child or not isinstance(child, dict | list) or draw(st.integers(0, 3)) == 0:
            place[key] = draw(VALUES)
            return whole
        place = child


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=spoiled().map(lambda whole: json.dumps(whole).encode()))
def test_no_spool_file_blocks_a_write(new_project: Callable[[], Path], content: bytes) -> None:
    """Any spool file is recorded or stays with a note, and the ledger is whole afterwards."""
    project = make_project(new_project())
    waiting = spool_file(project, content)
    outcome = commands.rate(project, "kpt_001", "neutral", HUMAN)
    assert outcome.seq_to == commands.verify(project).head.seq
    assert waiting.exists() == any(note.startswith(f"spool/{waiting.name}: ") for note in outcome.notes)
    assert not waiting.exists() or content == waiting.read_bytes()
    assert () == commands.verify(project).problems
    commands.check(project)


# What comes from outside


@pytest.mark.parametrize("payload", [{"names": {}}, {"found": [], "base": [], "top": ""}, {"import": "x"}, {"base": 1}])
def test_a_payload_without_its_lists_is_refused(here: Project, payload: dict[str, Any]) -> None:
    """Without one of its two lists a payload is no extraction result, whatever else it holds."""
    before = (here.ledger / "events.jsonl").read_bytes()
    with pytest.raises(BadInputError, match="neither new_key_points nor evaluations"):
        commands.record(here, payload, HUMAN)
    assert before == (here.ledger / "events.jsonl").read_bytes()


@pytest.mark.parametrize("owner", [float("nan"), float("inf"), 2**60, "\ud800", ["\udfff"]], ids=repr)
def test_a_save_that_no_file_could_hold_is_refused(here: Project, owner: object) -> None:
    """A top-level key that playbook.json could never show is refused, and nothing is recorded."""
    playbook = compat.load_playbook()
    compat.update_playbook_data(playbook, extraction(new=["new"]))
    playbook["owner"] = owner
    before = (here.ledger / "events.jsonl").read_bytes()
    with pytest.raises(BadInputError, match=r"^top: "):
        compat.save_playbook(playbook)
    assert before == (here.ledger / "events.jsonl").read_bytes()
