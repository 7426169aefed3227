"""Entries that hold until a date: said by every view, given to no session after it, and carried everywhere."""

from __future__ import annotations

import json
from pathlib import Path

from helpers.commands import Run
from helpers.events import HUMAN
from helpers.hook_calls import here
from helpers.shared_machines import make_machines
from tallybook.projections.surfaces.sharing.ledger_copies import import_ledger
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands

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
