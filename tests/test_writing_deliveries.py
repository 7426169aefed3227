"""Deliveries under a key, and the diagnostics of what they change."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from helpers.authors import HUMAN
from helpers.memory_store import MemoryStore
from helpers.spool_files import held, spooled
from tallybook.ledger.codec import decode
from tallybook.ledger.errors import UsedKeyError
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.sharing.engine import Engine
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.sharing.syncing import Machine, sync
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from helpers.command_line import Run

    Diagnostics = Callable[[str], list[str]]


HELPFUL = {"evaluations": [{"name": "kpt_001", "rating": "helpful"}]}
UNKNOWN = {"evaluations": [{"name": "kpt_901", "rating": "helpful"}]}


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
    assert (1, True) == (helpful(here), commands.verify_and_fold(here)[0].ok)


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


pytestmark = pytest.mark.usefixtures("diagnostic_mode")

LEGACY = {"key_points": ["Use types", {"text": "Write tests", "score": -2}]}
MIGRATED = "Migrated 2 playbook entries:\n"
PRUNED = (
    'Pruned 1 key points:\n  - kpt_001: "Use types" (helpful=0, harmful=3) reason: harmful >= 3 AND harmful > helpful'
)
HARMFUL = json.dumps({"evaluations": [{"name": "kpt_001", "rating": "harmful"}] * 3})


@pytest.mark.parametrize("words", [("add", "Name ids"), ("rate", "kpt_001", "helpful"), ("replay",), ("init",)])
def test_a_verb_that_adopts_the_playbook_reports_the_migration(
    run: Run, write_playbook: Callable[[object], Path], diagnostics: Diagnostics, words: tuple[str, ...]
) -> None:
    """The first verb that writes takes in the old file and writes one diagnostic of it; the next writes none."""
    write_playbook(LEGACY)
    assert 0 == run(*words).code
    [report] = diagnostics("playbook_migration")
    assert report.startswith(MIGRATED)
    assert {"name": "kpt_002", "from": "dict_with_score", "original_score": -2} in json.loads(report[len(MIGRATED) :])
    run("add", "Name more ids")
    assert 1 == len(diagnostics("playbook_migration"))


def test_a_verb_that_prunes_reports_it(run: Run, project: Path, diagnostics: Diagnostics) -> None:
    """The update that prunes an entry writes one diagnostic with its name, text, counts and the rule."""
    commands.add(Project(project), "Use types", HUMAN)
    assert 0 == run("record", "-", stdin=HARMFUL.encode()).code
    assert [PRUNED] == [report.strip() for report in diagnostics("playbook_pruning")]
    run("add", "Name ids")
    assert 1 == len(diagnostics("playbook_pruning"))


def test_a_diagnostic_that_cannot_be_written_costs_no_event(run: Run, project: Path, diagnostics: Diagnostics) -> None:
    """With a file in place of the folder, the update is recorded and a note says what could not be written."""
    commands.add(Project(project), "Use types", HUMAN)
    (project / ".claude" / "diagnostic").write_text("")
    done = run("record", "-", stdin=HARMFUL.encode())
    assert (0, True) == (done.code, "diagnostic" in done.err)
    assert "pruned kpt_001" in done.out
    assert [] == diagnostics("playbook_pruning")
