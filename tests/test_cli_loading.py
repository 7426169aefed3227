"""The modules that a command loads: a short process spends most of its time on loading them."""

from __future__ import annotations

import json
from pathlib import Path
import subprocess
import sys
from typing import Any

import pytest

from helpers.authors import HUMAN
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.workspace.project import Project

RATING = '{"evaluations": [{"name": "kpt_001", "rating": "helpful"}]}'
LOAD = """
import sys
from tallybook.projections.surfaces.cli.main import run
code = run(sys.argv[1:])
print(*sorted(sys.modules))
sys.exit(code)
"""
INSTALLED = ("cattrs", "rich", "yaml")
# Each takes a process about as long to load as a day's ratings to fold, and none of these commands needs it.
SLOW = ("asyncio", "email", "hashlib", "logging", "subprocess", "tempfile", "zoneinfo")
# Of ours, what is for other commands: what writes, what finds a moment, what a legacy file or a redaction takes.
WRITING = (
    "tallybook.ledger.decisions.update",
    *(f"tallybook.projections.surfaces.writing.{name}" for name in ("record", "requests", "secrets")),
)
OTHERS = (
    "tallybook.ledger.decisions.legacy_import",
    "tallybook.projections.surfaces.writing.erasure",
    "tallybook.projections.surfaces.writing.redact",
)


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project whose ledger is long enough for a checkpoint, with a text that needs an escape."""
    made = Project(project)
    commands.add(made, 'Say "no" to quotes\nin ids', HUMAN)
    for number in range(30):
        commands.record(made, {"new_key_points": [f"guidance {number} " * 200], "evaluations": []}, HUMAN)
    commands.playbook(made)
    return made


def loaded(project: Project, *words: str, given: str = "") -> tuple[Any, set[str]]:
    """Return the answer of a command in its own process, and the modules that it had loaded at its end."""
    done = subprocess.run(
        [sys.executable, "-c", LOAD, "--project", str(project.root), *words],
        input=given.encode(),
        capture_output=True,
        check=True,
    )
    answer, modules = done.stdout.decode().splitlines()
    return json.loads(answer), set(modules.split())


READING = {*INSTALLED, *SLOW, *WRITING, *OTHERS}


@pytest.mark.parametrize(
    ("words", "others"),
    [
        (("show",), READING | {"tallybook.projections.surfaces.history.moments"}),
        (("show", "--at", "10"), READING),
        (("rate", "kpt_001", "helpful"), {*INSTALLED, *SLOW, *OTHERS}),
        (("add", "one more"), {*INSTALLED, *SLOW, *OTHERS}),
        (("record",), {*INSTALLED, *SLOW, *OTHERS}),
        (("verify",), {*INSTALLED, *SLOW, *OTHERS}),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, tuple) else "",
)
def test_a_command_loads_what_it_needs(here: Project, words: tuple[str, ...], others: set[str]) -> None:
    """What reads loads nothing that writes, also of a moment, and what writes nothing that explains or erases."""
    answer, modules = loaded(here, *words, "--json", given=RATING)
    assert answer.get("ok", True)
    assert set() == modules & others
    # What a model said is searched for secrets, and nothing else.
    assert ("record" in words) == ("tallybook.projections.surfaces.writing.secrets" in modules)
