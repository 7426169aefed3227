"""Entries that hold until a date: said by every view, given to no session after it, and carried everywhere."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from helpers.authors import HUMAN
from helpers.hook_calls import START, call, here, told
from helpers.shared_machines import make_machines
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.histories.joining import import_ledger
from tallybook.projections.surfaces.mcp import tools
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.command_line import Run

__all__ = ["here"]

PAST, FUTURE = "2020-01-31", "2999-12-31"


def days(project: Project) -> dict[str, str]:
    """Return the days in playbook.json, which must equal the replay and every answer."""
    commands.check(project)
    document = json.loads(project.playbook.read_bytes())
    assert all(["name", "text", "helpful", "harmful"] == [*entry] for entry in document["key_points"])
    assert document.get("until") == commands.show(project).get("until")
    found: dict[str, str] = document.get("until", {})
    return found


def given(run: Run) -> set[str]:
    """Return the entries that `show --as-agent` gives, which must be those of a hook and of MCP."""
    names = {entry["name"] for entry in json.loads(run("show", "--as-agent", "--json").out)["entries"]}
    told_names = {line.partition("]")[0][1:] for line in told(call(START)).split("\n") if line.startswith("[")}
    assert names == told_names
    return names


def test_an_entry_past_its_day_is_given_to_no_session(here: Project, run: Run) -> None:
    """Hooks, `show --as-agent` and MCP leave it out; show, why and review say so, and it stays in the playbook."""
    assert 0 == run("add", "Skip the broken test", "--until", PAST).code
    assert 0 == run("add", "Freeze the schema", "--until", FUTURE).code
    assert {"kpt_001", "kpt_002", "kpt_004"} == given(run)
    assert {"kpt_003": PAST, "kpt_004": FUTURE} == days(here)
    shown = " ".join(run("show").out.split())
    assert f"Skip the broken test (not injected: held until {PAST})" in shown
    assert f"Freeze the schema (until {FUTURE})" in shown
    assert f"holds until {PAST}" in run("why", "kpt_003").out
    assert PAST == json.loads(run("why", "kpt_003", "--json").out)["until"]
    [item] = json.loads(run("review", "--json").out)
    assert ("expired", ["kpt_003"]) == (item["why"], item["names"])
    names = [entry["name"] for entry in tools.list_offered(commands.show(here))]
    assert ["kpt_001", "kpt_002", "kpt_004"] == names


def test_a_day_is_changed_and_taken_off(here: Project, run: Run) -> None:
    """`reword --until` alone leaves the text, `never` takes the day off, and each is undone like any change."""
    assert 0 == run("reword", "kpt_001", "--until", PAST).code
    assert 0 == run("reword", "kpt_002", "Write tests first", "--until", PAST, "--reason", "for this release").code
    assert {"kpt_001": PAST, "kpt_002": PAST} == days(here)
    assert set() == given(run)
    assert 0 == run("reword", "kpt_002", "--until", "never").code
    assert {"kpt_001": PAST} == days(here)
    assert 0 == run("undo").code
    assert {"kpt_001": PAST, "kpt_002": PAST} == days(here)
    texts = [entry["text"] for entry in commands.show(here)["key_points"]]
    assert ["Use type hints", "Write tests first"] == texts


def test_a_manual_edit_of_the_days_is_recorded(here: Project, run: Run) -> None:
    """A day that a person writes into playbook.json counts; a file without the key says nothing about days."""
    run("reword", "kpt_001", "--until", FUTURE)

    def edit(**keys: Any) -> None:
        document = json.loads(here.playbook.read_bytes())
        document.pop("until", None)
        here.playbook.write_text(json.dumps(document | keys), encoding="utf-8")
        commands.replay(here)

    edit(until={"kpt_001": PAST, "kpt_002": FUTURE, "kpt_009": PAST})
    assert {"kpt_001": PAST, "kpt_002": FUTURE} == days(here)
    edit(until={"kpt_002": "some day"})
    assert {} == days(here)
    run("reword", "kpt_001", "--until", FUTURE)
    edit(mood="good")
    assert {"kpt_001": FUTURE} == days(here)


def test_days_come_with_a_file_a_ledger_and_a_book(here: Project, run: Run, tmp_path: Path) -> None:
    """`import` of a playbook.json and of a ledger, and a shared book, bring the day under the entry's name there."""
    run("reword", "kpt_001", "--until", FUTURE)
    for folder, source in (("file", here.playbook), ("ledger", here.ledger)):
        other = Project(tmp_path / folder)
        other.claude.mkdir(parents=True)
        commands.add(other, "Another", HUMAN)
        if folder == "file":
            commands.import_file(other, source.read_bytes(), "playbook.json")
        else:
            import_ledger(other, str(source), dry_run=False, accept_loss=False)
        names = {entry["text"]: entry["name"] for entry in commands.show(other)["key_points"]}
        assert {names["Use type hints"]: FUTURE} == days(other)
    anna, ben = make_machines(tmp_path, "anna", "ben")
    commands.add(anna.project, {"text": "From Anna", "until": FUTURE}, HUMAN)
    commands.add(ben.project, "From Ben", HUMAN)
    for machine in (anna, ben, anna, ben):
        machine.sync()
    names = {text: name for name, (text, _, _) in ben.entries().items()}
    assert {names["From Anna"]: FUTURE} == days(ben.project) == days(anna.project)
    assert 0 == ben.run("reword", names["From Ben"], "--until", PAST).code
    for machine in (ben, anna):
        machine.sync()
    assert PAST == days(anna.project)[names["From Ben"]]
    assert 0 == anna.run("what-if", "--floor", "2").code
