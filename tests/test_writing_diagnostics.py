"""Diagnostic mode: each migration and each prune is reported once, whatever verb, hook or function records it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from helpers.authors import HUMAN
from helpers.hook_calls import START, call
from tallybook import compat
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from helpers.command_line import Run

    Diagnostics = Callable[[str], list[str]]

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


def test_an_import_reports_the_migration_once(run: Run, project: Path, diagnostics: Diagnostics) -> None:
    """`import` of an old file writes a diagnostic, the same file again writes none."""
    old = project / "old.json"
    old.write_text(json.dumps(LEGACY))
    for _ in range(2):
        assert 0 == run("import", str(old)).code
    [report] = diagnostics("playbook_migration")
    assert report.startswith(MIGRATED)


def test_a_hook_reports_the_migration(write_playbook: Callable[[object], Path], diagnostics: Diagnostics) -> None:
    """A hook that takes in the old file writes the diagnostic as well."""
    write_playbook(LEGACY)
    call(START)
    call(START, "s2")
    assert [True] == [report.startswith(MIGRATED) for report in diagnostics("playbook_migration")]


def test_a_verb_that_prunes_reports_it(run: Run, project: Path, diagnostics: Diagnostics) -> None:
    """The update that prunes an entry writes one diagnostic with its name, text, counts and the rule."""
    commands.add(Project(project), "Use types", HUMAN)
    assert 0 == run("record", "-", stdin=HARMFUL.encode()).code
    assert [PRUNED] == [report.strip() for report in diagnostics("playbook_pruning")]
    run("add", "Name ids")
    assert 1 == len(diagnostics("playbook_pruning"))


def test_a_prune_of_a_loaded_playbook_is_reported_once(project: Path, diagnostics: Diagnostics) -> None:
    """`update_playbook_data` reports it, and the save that records it does not report it again."""
    commands.add(Project(project), "Use types", HUMAN)
    compat.save_playbook(compat.update_playbook_data(compat.load_playbook(), json.loads(HARMFUL)))
    assert [PRUNED] == [report.strip() for report in diagnostics("playbook_pruning")]


def test_a_diagnostic_that_cannot_be_written_costs_no_event(run: Run, project: Path, diagnostics: Diagnostics) -> None:
    """With a file in place of the folder, the update is recorded and a note says what could not be written."""
    commands.add(Project(project), "Use types", HUMAN)
    (project / ".claude" / "diagnostic").write_text("")
    done = run("record", "-", stdin=HARMFUL.encode())
    assert (0, True) == (done.code, "diagnostic" in done.err)
    assert "pruned kpt_001" in done.out
    assert [] == diagnostics("playbook_pruning")


def test_without_the_file_nothing_is_written(run: Run, project: Path, diagnostics: Diagnostics) -> None:
    """Without `.claude/diagnostic_mode` neither a prune nor an import leaves a file."""
    (project / ".claude" / "diagnostic_mode").unlink()
    commands.add(Project(project), "Use types", HUMAN)
    run("record", "-", stdin=HARMFUL.encode())
    assert [] == diagnostics("playbook_pruning")
