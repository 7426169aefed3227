"""Deliveries under a key that the caller gives: the same payload is a repeat, another one is refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from helpers.authors import HUMAN
from helpers.spool_files import held, spooled
from tallybook.ledger.encoding.codec import decode
from tallybook.ledger.errors import UsedKeyError
from tallybook.ledger.line import join_key, split_key
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.sharing.engines.engine import Engine
from tallybook.ledger.sharing.engines.memory import MemoryStore
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.sharing.syncing import Machine, sync
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import record as recording
from tallybook.projections.surfaces.writing.requests import Request, Update

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.command_line import Run

HELPFUL = {"evaluations": [{"name": "kpt_001", "rating": "helpful"}]}
UNKNOWN = {"evaluations": [{"name": "kpt_901", "rating": "helpful"}]}
DIGEST = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with one entry."""
    made = Project(project)
    commands.add(made, "Use type hints", HUMAN)
    return made


def helpful(project: Project, name: str = "kpt_001") -> int:
    """Return how often an entry was helpful."""
    return commands.playbook(project).state.entries[name].helpful


def keys(project: Project) -> list[str | None]:
    """Return the key of each batch."""
    return [batch.records[0].key for batch in decode(JsonlLog(project.ledger).read())]


@pytest.mark.parametrize("key", ["k", "k payload:" + DIGEST, "k payload:", "ключ", "x" * 200])
def test_a_key_and_its_digest_are_told_apart(key: str) -> None:
    """What a line has as its key is read as it was written, whatever the caller's key looks like."""
    assert (key, DIGEST) == split_key(join_key(key, DIGEST))
    assert key == join_key(key, "")
    for plain in ("k", "k payload:", "k payload:" + DIGEST[1:], "k payload:" + DIGEST.upper()):
        assert (plain, "") == split_key(plain)


@pytest.mark.parametrize(
    ("first", "other"),
    [
        (("add", "Write tests"), ("add", "Write docs")),
        (("add", "Write tests"), ("add", "Write tests", "--section", "OTHERS")),
        (("rate", "kpt_001", "helpful"), ("rate", "kpt_001", "harmful")),
        (("rate", "kpt_001", "helpful"), ("rate", "kpt_001", "helpful", "--reason", "it fitted")),
        (("rate", "kpt_001", "helpful"), ("add", "Write tests")),
    ],
)
def test_another_payload_under_a_key_is_refused(
    here: Project, run: Run, first: tuple[str, ...], other: tuple[str, ...]
) -> None:
    """The same delivery again is a repeat with the first one's numbers; another one ends with 1 and changes nothing."""
    made = json.loads(run(*first, "--key", "ci:7", "--json").out)
    again = run(*first, "--key", "ci:7", "--json")
    assert (0, made["seq_from"], made["seq_to"], True) == (
        again.code,
        *(json.loads(again.out)[field] for field in ("seq_from", "seq_to", "repeated")),
    )
    numbers = f"events {made['seq_from']} to {made['seq_to']}"
    assert f"already recorded under this key, as {numbers}; nothing was added" in run(*first, "--key", "ci:7").out
    before = (here.ledger / "events.jsonl").read_bytes()
    refused = run(*other, "--key", "ci:7", "--json")
    assert (1, "") == (refused.code, refused.out)
    assert f"key ci:7: was used for another payload, recorded as {numbers}; use another key" in refused.err
    assert before == (here.ledger / "events.jsonl").read_bytes()


def test_a_payload_is_the_same_in_any_order_of_its_keys(here: Project) -> None:
    """The order of the members of a JSON object says nothing, that of a list does."""
    two = [{"name": "kpt_001", "rating": "helpful"}, {"name": "kpt_001", "rating": "neutral"}]
    commands.record(here, {"evaluations": two, "new_key_points": []}, HUMAN, "k")
    swapped = [dict(reversed(one.items())) for one in two]
    assert commands.record(here, {"new_key_points": [], "evaluations": swapped}, HUMAN, "k").repeated
    with pytest.raises(UsedKeyError):
        commands.record(here, {"evaluations": two[::-1], "new_key_points": []}, HUMAN, "k")


@pytest.mark.parametrize(
    "wrong",
    [
        UNKNOWN,
        {"evaluations": [{"name": "kpt_001", "rating": "great"}]},
        {"evaluations": [{"name": "kpt_001"}], "new_key_points": [""]},
        {"evaluations": []},
        {"new_key_points": ["Use type hints"]},
    ],
)
def test_a_delivery_without_effect_takes_no_key(here: Project, wrong: dict[str, Any]) -> None:
    """The corrected delivery under the same key counts, and takes it."""
    outcomes = [commands.record(here, wrong, HUMAN, "k") for _ in range(2)]
    assert [False, False] == [outcome.repeated for outcome in outcomes]
    assert None is keys(here)[-1]
    assert not commands.record(here, HELPFUL, HUMAN, "k").repeated
    assert "k" == keys(here)[-1]
    assert commands.record(here, HELPFUL, HUMAN, "k").repeated
    with pytest.raises(UsedKeyError):
        commands.record(here, wrong, HUMAN, "k")
    assert (1, True) == (helpful(here), commands.verify(here).ok)


def test_a_rating_of_an_entry_that_has_gone_takes_no_key(here: Project, run: Run) -> None:
    """Its reason is noted, and after `restore` the same delivery counts."""
    run("retire", "kpt_001")
    words = ("rate", "kpt_001", "helpful", "--reason", "it fitted", "--key", "k")
    assert "no such entry in the playbook" in run(*words).out
    run("restore", "kpt_001")
    assert "recorded as events" in run(*words).out
    assert 1 == helpful(here)


def test_a_delivery_of_which_a_part_has_an_effect_takes_its_key(here: Project) -> None:
    """What was ignored in it does not free the key: the rest would count twice."""
    half = {"evaluations": HELPFUL["evaluations"] + UNKNOWN["evaluations"]}
    commands.record(here, half, HUMAN, "k")
    with pytest.raises(UsedKeyError):
        commands.record(here, HELPFUL, HUMAN, "k")
    assert 1 == helpful(here)


def test_under_a_key_of_tallybooks_own_the_first_counts(here: Project) -> None:
    """A part of a transcript that is rated again, perhaps otherwise, is silently left out, and so is an idle one."""
    for payload in (UNKNOWN, HELPFUL):
        report = recording.write(here, [Request(Update(payload), {"rater": "reflector"}, "reflection:s1:1")])
    assert (True, 4, 5) == (report.outcomes[0].repeated, report.outcomes[0].seq_from, report.outcomes[0].seq_to)
    assert (0, "reflection:s1:1") == (helpful(here), keys(here)[-1])


def test_a_line_of_an_earlier_version_has_a_key_and_no_digest(here: Project) -> None:
    """Its payload is not known, so whatever comes under its key is a repeat."""
    recording.write(here, [Request(Update(HELPFUL), HUMAN, "k")])
    assert b',"key":"k","at":' in (here.ledger / "events.jsonl").read_bytes()
    assert commands.record(here, UNKNOWN, HUMAN, "k").repeated


def test_the_digest_is_shown_beside_the_key(here: Project, run: Run) -> None:
    """`log --json` has the key as it was given, and the digest in a member of its own."""
    commands.record(here, HELPFUL, HUMAN, "ключ")
    commands.record(here, HELPFUL, HUMAN, "k")
    rows = [json.loads(line) for line in run("log", "--json").out.splitlines()]
    keyed = [(row["key"][:7], len(row["payload"])) for row in rows if "key" in row]
    assert [("digest:", 32), ("k", 32)] == keyed
    assert 1 == len({row["payload"] for row in rows if "payload" in row})


def test_a_spooled_delivery_keeps_its_key_and_its_digest(here: Project) -> None:
    """Once it is recorded, the same delivery is a repeat, and another payload under its key is refused."""
    with held(here):
        assert commands.record(here, HELPFUL, HUMAN, "k").spooled
        assert commands.record(here, HELPFUL, HUMAN, "k").spooled
        with pytest.raises(UsedKeyError, match="was used for another payload, in the spool"):
            commands.record(here, UNKNOWN, HUMAN, "k")
    assert 2 == len(spooled(here))
    assert commands.record(here, HELPFUL, HUMAN, "k").repeated
    with pytest.raises(UsedKeyError):
        commands.record(here, UNKNOWN, HUMAN, "k")
    with held(here), pytest.raises(UsedKeyError, match="recorded as events"):
        commands.record(here, UNKNOWN, HUMAN, "k")
    assert (1, []) == (helpful(here), spooled(here))


def test_a_spooled_rating_is_the_same_delivery_as_one_that_was_not(here: Project) -> None:
    """The spool keeps a rating as an update of exact names, and the digest of what the caller gave."""
    with held(here):
        assert commands.rate(here, "kpt_1", "helpful", HUMAN, "k").spooled
    assert commands.rate(here, "kpt_1", "helpful", HUMAN, "k").repeated
    assert 1 == helpful(here)


def test_a_spooled_delivery_without_effect_takes_no_key(here: Project) -> None:
    """The corrected one counts, whether it comes before or after the first is recorded."""
    with held(here):
        commands.record(here, UNKNOWN, HUMAN, "k")
    assert not commands.record(here, HELPFUL, HUMAN, "k").repeated
    assert 1 == helpful(here)


def test_a_book_knows_the_deliveries_of_every_machine(tmp_path: Path) -> None:
    """After a sync the same delivery on another machine is a repeat of an event of the book; others are refused."""
    anna, ben, engine = Project(tmp_path / "anna"), Project(tmp_path / "ben"), Engine(MemoryStore())

    def publish(project: Project) -> None:
        sync(Machine(str(project.ledger), project.root.name, "", "demo"), engine)

    for project in (anna, ben):
        project.claude.mkdir(parents=True)
    commands.add(anna, "Use type hints", HUMAN)
    publish(anna)
    commands.add(ben, "Write tests", HUMAN)
    publish(ben)
    assert not commands.record(anna, HELPFUL, HUMAN, "ci:7").repeated
    publish(anna)
    publish(ben)
    again = commands.record(ben, HELPFUL, HUMAN, "ci:7")
    assert (True, True) == (again.repeated, str(again.seq_from).startswith("book:"))
    with pytest.raises(UsedKeyError, match="recorded as events book:"):
        commands.record(ben, {"new_key_points": ["Other"]}, HUMAN, "ci:7")
    for project in (ben, anna):
        publish(project)
        assert 1 == helpful(project)


def test_a_delivery_that_two_machines_of_a_book_take_counts_once(tmp_path: Path) -> None:
    """Neither knows the other's yet, and the second to be published repeats the first."""
    anna, ben, engine = Project(tmp_path / "anna"), Project(tmp_path / "ben"), Engine(MemoryStore())

    def publish(project: Project) -> None:
        sync(Machine(str(project.ledger), project.root.name, "", "demo"), engine)

    for project in (anna, ben):
        project.claude.mkdir(parents=True)
    commands.add(anna, "Use type hints", HUMAN)
    publish(anna)
    commands.add(ben, "Write tests", HUMAN)
    publish(ben)
    for project in (anna, ben):
        assert not commands.record(project, HELPFUL, HUMAN, "ci:7").repeated
    for project in (anna, ben, anna):
        publish(project)
    assert [1, 1] == [helpful(anna), helpful(ben)]


def test_a_key_of_both_playbooks_is_refused_before_either_counts(here: Project, run: Run) -> None:
    """A delivery for the project and one's own playbook counts as a whole or not at all."""
    run("init", "--mine")
    run("add", "--mine", "Answer briefly")
    both = {"evaluations": [{"name": name, "rating": "helpful"} for name in ("kpt_001", "my_001")]}
    own = {"evaluations": [{"name": "my_001", "rating": "helpful"}]}
    first = commands.record(here, both, HUMAN, "k")
    again = commands.record(here, both, HUMAN, "k")
    assert first.mine is not None
    assert again.mine is not None
    assert (True, True, first.mine.seq_from) == (again.repeated, again.mine.repeated, again.mine.seq_from)
    for other in (own, HELPFUL):
        with pytest.raises(UsedKeyError):
            commands.record(here, other, HUMAN, "k")
    commands.record(here, own, HUMAN, "k2")
    with pytest.raises(UsedKeyError):
        commands.record(here, both, HUMAN, "k2")
    assert 1 == helpful(here)
