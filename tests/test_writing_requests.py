"""Requests: refusals before anything is opened, their JSON in the spool, and invalid spool files."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import attrs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
import pytest

from helpers.authors import HUMAN
from helpers.reference_model import EXTRACTIONS, NAMES, TEXTS, extraction, point
from tallybook import compat
from tallybook.ledger.decisions.legacy_import import read_legacy
from tallybook.ledger.errors import BadInputError
from tallybook.ledger.events import Entry
from tallybook.ledger.line import BY_FIELDS
from tallybook.ledger.storage import spool
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing.requests import (
    Change,
    Import,
    Request,
    Update,
    request_from_json,
    request_to_json,
)

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


# What a model might send beside its lists, under names that mean something elsewhere in the program.
BESIDE = st.dictionaries(st.sampled_from(["names", "found", "base", "top", "import", "update", "key", "by"]), TEXTS)
PAYLOADS = st.builds(lambda brought, beside: {"evaluations": []} | brought | beside, EXTRACTIONS, BESIDE)
UPDATES = st.builds(Update, PAYLOADS, st.dictionaries(TEXTS, NAMES))
BY = st.dictionaries(st.sampled_from(BY_FIELDS), TEXTS).map(lambda by: by | HUMAN)
REQUESTS = st.builds(Request, UPDATES, BY, st.none() | TEXTS)


@given(request=REQUESTS)
def test_a_request_survives_the_spool(request: Request) -> None:
    """It is the same after the JSON of the spool, with its time, and a key if it had none."""
    waited = json.loads(json.dumps(request_to_json(request)))
    assert attrs.evolve(request, key=request.key or "spool:a:0", when=AT) == request_from_json(waited, "spool:a:0", AT)


@pytest.mark.parametrize(
    "decide", [Import(read_legacy(b'{"key_points": []}')), Change((), ())], ids=["an import", "a change"]
)
def test_what_can_be_sent_again_is_not_spooled(decide: Import | Change) -> None:
    """A file and a saved dict are still there later, so neither is ever put into the spool."""
    with pytest.raises(BadInputError, match="is not in the spool"):
        request_to_json(Request(decide, HUMAN))


def test_spooled_requests_are_recorded_together_and_in_order(here: Project) -> None:
    """Two updates are two batches, at the time they were sent, and their file is removed."""
    waiting = spool_file(here, json.dumps(FILE).encode())
    state = commands.replay(here)
    assert not waiting.exists()
    assert [Entry("kpt_001", "use types", 1), Entry("kpt_002", "waited", 1)] == list(state.entries.values())
    assert {AT} == {row["when"] for row in commands.list_events(here) if row["seq"] > 3}


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


OUTSIDE: list[dict[str, Any]] = [
    {"names": {"mine": "kpt_900", "use types": "kpt_900"}},
    {"names": 5},
    {"found": [], "base": [point(text="use types")], "top": '{"owner":"you"}'},
    {"found": [point(text="obey me", helpful=99)], "base": [], "top": ""},
    {"import": json.dumps({"key_points": ["obey me"]}), "source": "old.json"},
    {"update": {"new_key_points": ["obey me"]}},
    {"by": {"rater": "human"}, "key": "theirs", "when": AT, "what": "import"},
]


@pytest.mark.parametrize("beside", OUTSIDE, ids="-".join)
@pytest.mark.parametrize("waits", [False, True], ids=["at once", "spooled"])
def test_a_payload_is_read_as_an_extraction_result_alone(here: Project, beside: dict[str, Any], *, waits: bool) -> None:
    """Further keys of a payload change nothing, whether it is recorded at once or spooled."""
    payload = extraction(("kpt_001", "harmful"), new=["mine"]) | beside
    if waits:
        spool.put(here.ledger, AT, "a", [request_to_json(Request(Update(payload), HUMAN))])
        commands.replay(here)
    else:
        commands.record(here, payload, HUMAN)
    kinds = [row["kind"] for row in commands.list_events(here)][3:]
    assert ["point.added", "point.rated", "playbook.updated"] == kinds
    state = commands.playbook(here).state
    assert [Entry("kpt_001", "use types", 0, 1), Entry("kpt_002", "mine")] == list(state.entries.values())
    assert {"version": "1.0"} == state.top


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


def test_an_empty_key_is_refused() -> None:
    """An empty key is a mistake: which deliveries it would refuse is unknown."""
    with pytest.raises(BadInputError, match="key: is empty"):
        Request(Update({"evaluations": []}), HUMAN, "")
