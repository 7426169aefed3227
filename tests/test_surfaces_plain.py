"""The verbs of every day without Click: what is understood is understood as Click does, and what a command loads."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st
import pytest

from cache_places import caches_of
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.cli import main, plain
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from pathlib import Path

HUMAN = {"rater": "human"}
RATING = '{"evaluations": [{"name": "kpt_001", "rating": "helpful"}]}'
LOAD = """
import sys
from tallybook.projections.surfaces.entry import run
code = run(sys.argv[1:])
print(*sorted(sys.modules))
sys.exit(code)
"""
INSTALLED = ("click", "rich", "yaml")
# Each takes a process about as long to load as a day's ratings to fold, and none of these commands needs it.
SLOW = ("asyncio", "email", "hashlib", "logging", "subprocess", "tempfile", "zoneinfo")
# Of ours, what is for other commands: what writes, what finds a moment, what a legacy file or a redaction takes.
WRITING = (
    "tallybook.ledger.decisions.update",
    *(f"tallybook.projections.surfaces.{name}" for name in ("record", "requests", "screen")),
)
OTHERS = (
    "tallybook.ledger.decisions.legacy_import",
    "tallybook.projections.surfaces.writing.overwrite_text",
    "tallybook.projections.surfaces.writing.redaction_finish",
)
WORDS = (
    "--project",
    "--key",
    "--session",
    "--rater",
    "--reason",
    "--at",
    "--expect",
    "--salvage",
    "--json",
    "-",
    "x.json",
    "",
    "--help",
    *plain.VERBS,
)


def by_click(arguments: list[str]) -> plain.Read:
    """Return what Click makes of the same words: its parameters of the group and of the verb."""
    folders: dict[str, str | None] = {}
    read: list[tuple[str, dict[str, Any]]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(main.tallybook, "callback", folders.update)
        # The folders that are drawn are not there.
        patch.setattr(main, "find_project", lambda *_, **__: None)
        for verb in plain.VERBS:
            patch.setattr(
                main.tallybook.commands[verb], "callback", lambda verb=verb, **options: read.append((verb, options))
            )
        main.tallybook.main(list(arguments), standalone_mode=False)
    ((verb, options),) = read
    return plain.Read(folders["folder"], verb, options)


def test_a_plain_record_is_understood() -> None:
    """The command line of the README is read without Click."""
    said = plain.read(["--project", "p", "record", "--session", "s", "--key", "s:1", "--json", "-"])
    by = {"rater": "reflector", "session": "s", "agent": None, "model": None}
    assert plain.Read("p", "record", {**by, "key": "s:1", "as_json": True, "file": "-"}) == said


def test_a_plain_rating_is_understood() -> None:
    """All words but the last are names."""
    said = plain.read(["rate", "kpt_003", "kpt_007", "harmful", "--reason", "both"])
    assert said is not None
    assert (("kpt_003", "kpt_007"), "harmful", "both") == tuple(
        said.options[name] for name in ("names", "rating", "reason")
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["record", "--help"],
        ["record", "--key=1"],
        ["record", "a", "b"],
        ["record", "--key"],
        ["rate", "helpful"],
        ["rate", "--", "kpt_001", "helpful"],
        ["show", "kpt_001"],
        ["verify", "--salvage"],
        ["add"],
        ["why", "kpt_001"],
        ["--project"],
        [],
    ],
    ids=" ".join,
)
def test_anything_else_is_left_to_click(arguments: list[str]) -> None:
    """Help, other spellings, other verbs and mistakes are not guessed at."""
    assert plain.read(arguments) is None


@given(st.sampled_from(list(plain.VERBS)), st.lists(st.sampled_from(WORDS), max_size=6), st.integers(0, 2))
def test_it_agrees_with_click(verb: str, words: list[str], before: int) -> None:
    """Whatever is read without Click, Click reads the same."""
    words.insert(before, verb)
    said = plain.read(words)
    if said is not None:
        assert by_click(words) == said


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project whose ledger is long enough for a checkpoint, with a text that needs an escape in it."""
    made = Project(project)
    commands.add(made, 'Say "no" to quotes\nin ids', HUMAN)
    for number in range(30):
        commands.record(made, {"new_key_points": [f"guidance {number} " * 200], "evaluations": []}, HUMAN)
    commands.now(made)
    return made


def loaded(project: Project, *words: str, given: str = "") -> tuple[Any, set[str]]:
    """Return the answer of a command in a process of its own, and which modules that had loaded in the end."""
    done = subprocess.run(
        [sys.executable, "-c", LOAD, "--project", str(project.root), *words],
        input=given.encode(),
        capture_output=True,
        check=True,
    )
    answer, modules = done.stdout.decode().splitlines()
    return json.loads(answer), set(modules.split())


def test_showing_the_playbook_loads_nothing_that_writes(here: Project) -> None:
    """An agent that asks what stands loads no command line library and no writer."""
    assert (caches_of(here.ledger) / "playbook" / "latest").is_file()
    answer, modules = loaded(here, "show", "--json")
    assert 31 == len(answer["key_points"])
    assert set() == modules & {*INSTALLED, *SLOW, *WRITING, *OTHERS, "tallybook.projections.surfaces.history.moments"}


def test_showing_a_moment_loads_what_finds_it(here: Project) -> None:
    """Time travel folds lines that need an escape, and still loads no writer."""
    answer, modules = loaded(here, "show", "--at", "10", "--json")
    assert 0 < len(answer["key_points"]) < 31
    assert set() == modules & {*INSTALLED, *SLOW, *WRITING, *OTHERS}


@pytest.mark.parametrize(
    "words", [("rate", "kpt_001", "helpful"), ("add", "one more"), ("record",), ("verify",)], ids=lambda words: words[0]
)
def test_writing_and_verifying_load_no_library_but_those_of_the_codec(here: Project, words: tuple[str, ...]) -> None:
    """Agents and CI pay for nothing that explains, edits or redacts where nothing is to be explained."""
    answer, modules = loaded(here, *words, "--json", given=RATING)
    assert answer.get("ok", True)
    assert set() == modules & {*INSTALLED, *SLOW, *OTHERS}
    # What a model said is searched for secrets, and nothing else.
    assert ("record" in words) == ("tallybook.projections.surfaces.writing.secrets" in modules)


def test_what_does_not_fit_is_explained_all_the_same(here: Project) -> None:
    """What is loaded late is there when it is needed: Click for a mistake on the command line."""
    done = subprocess.run(
        [sys.executable, "-c", LOAD, "--project", str(here.root), "rate", "helpful"], capture_output=True, check=False
    )
    assert 2 == done.returncode
    assert b"Missing argument 'NAME...'" in done.stderr
