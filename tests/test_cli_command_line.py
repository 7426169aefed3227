"""How the command line is parsed: names, ratings, verbs, options in any position, and standard input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from helpers.authors import HUMAN
from helpers.repository import ROOT
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.agents import table
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.command_line import Run

COMMAND = [sys.executable, "-c", "from tallybook.projections.surfaces.entry_point import main; main()"]


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with three entries."""
    place = Project(project)
    for text in ("Quote ids.", "Name the unit.", "Test first."):
        commands.add(place, text, HUMAN)
    return place


def names(project: Project) -> list[str]:
    """Return the names of the entries in the playbook."""
    return [point["name"] for point in commands.show(project)["key_points"]]


# Names and ratings


def test_rate_accepts_capitals_and_short_names(here: Project, run: Run) -> None:
    """`rate KPT_001 kpt_02 Helpful` rates both entries, each once, and prints them with their new counts."""
    answer = run("rate", "KPT_001", "kpt_02", "kpt_001", "Helpful")
    assert (0, "kpt_001  +1 -0  Quote ids.\nkpt_002  +1 -0  Name the unit.\nrecorded as events 8 to 10\n", "") == answer
    assert [(1, 0), (1, 0), (0, 0)] == [
        (point["helpful"], point["harmful"]) for point in commands.show(here)["key_points"]
    ]


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["why", "KPT_2"], "kpt_002  kept\n  Name the unit.\n"),
        (["reword", "Kpt_02", "Name each unit."], "kpt_002 reworded"),
        (["merge", "KPT_001", "kpt_2"], "kpt_002 merged into kpt_001"),
    ],
)
def test_other_verbs_accept_a_name_in_another_case(run: Run, words: list[str], says: str) -> None:
    """A verb about an entry takes its name in another case or without its zeros."""
    answer = run(*words)
    assert (0, says) == (answer.code, answer.out[: len(says)]), answer


# Several names


def test_retire_takes_several_names(here: Project, run: Run) -> None:
    """`retire`, `restore`, `pin` and `pin --off` take several names, each once, and record them as one batch."""
    expected = "kpt_001 retired; recorded as event 8\nkpt_003 retired; recorded as event 9\n"
    assert (0, expected, "") == run("retire", "kpt_001", "kpt_003", "kpt_001")
    assert ["kpt_002"] == names(here)
    assert 0 == run("undo").code
    assert ["kpt_001", "kpt_002", "kpt_003"] == names(here)
    for verb in (["pin"], ["pin", "--off"], ["retire"], ["restore"]):
        answer = run(*verb, "kpt_002", "kpt_003", "--json")
        events = json.loads(answer.out)["events"]
        assert ["kpt_002", "kpt_003"] == [event["summary"].split()[0] for event in events]


def test_one_bad_name_among_several_changes_nothing(here: Project, run: Run) -> None:
    """If one of several names is refused, none is retired."""
    answer = run("retire", "kpt_001", "kpt_404")
    assert (1, "tallybook: kpt_404: no entry ever had this name") == (answer.code, answer.err.partition(";")[0])
    assert ["kpt_001", "kpt_002", "kpt_003"] == names(here)


def test_two_entries_with_one_text_are_not_both_restored(here: Project, run: Run) -> None:
    """`restore A B` of two entries with the same text is refused, and restores neither."""
    assert 0 == run("retire", "kpt_001").code
    commands.add(here, "Quote ids.", HUMAN)
    assert 0 == run("retire", "kpt_004").code
    answer = run("restore", "kpt_001", "kpt_004")
    assert (1, "tallybook: kpt_004: would have the text of kpt_001") == (answer.code, answer.err.partition(";")[0])
    assert ["kpt_002", "kpt_003"] == names(here)


# Options and verbs


@pytest.mark.parametrize(
    "words",
    [
        ["--json", "--project", "{}", "show"],
        ["show", "--project", "{}", "--json"],
        ["--project", "/nowhere/at/all", "show", "--json", "--project={}"],
        ["--json", "show", "--project", "{}"],
    ],
)
def test_the_project_and_json_options_are_accepted_anywhere(
    here: Project, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: list[str]
) -> None:
    """`--project` and `--json` mean the same before and after the verb; the last project counts."""
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(tmp_path / "other"))
    answer = run(*(word.format(here.root) for word in words))
    assert (0, 3) == (answer.code, len(json.loads(answer.out)["key_points"]))


@pytest.mark.parametrize(
    ("word", "right"),
    [
        ("edit", "`tallybook reword NAME TEXT`"),
        ("ls", "`tallybook show` for entries, or `tallybook log` for events"),
        ("rm", "`tallybook retire NAME`"),
        ("search", "`tallybook why WORDS`"),
        ("config", "`.claude/config/tallybook.toml`"),
        ("version", "`tallybook --version`"),
        ("install", "`tallybook init`"),
        ("push", "`tallybook sync`"),
        ("retir", "did you mean retire"),
    ],
)
def test_an_unknown_verb_is_answered_with_the_right_one(run: Run, word: str, right: str) -> None:
    """An unknown verb exits 2 with the verb that does it, and never names `redact`."""
    answer = run(word, "kpt_001")
    assert (2, "", True, False) == (answer.code, answer.out, right in answer.err, "redact" in answer.err), answer.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ["rate", "kpt_001", "helpful", "--reson", "x"],
            "--reson is not an option of `tallybook rate`; did you mean --reason?",
        ),
        (["show", "--nowhere"], "--nowhere is not an option of `tallybook show`; see `tallybook show --help`"),
        (["--jsno", "show"], "--jsno is not an option of `tallybook`; did you mean --json?"),
        (["rate", "helpful"], "Missing argument 'NAME...'; see `tallybook rate --help`"),
        (["frobnicate"], "'frobnicate' is not a command; see `tallybook --help`"),
    ],
)
def test_a_wrong_option_is_answered_with_the_nearest_one(run: Run, words: list[str], says: str) -> None:
    """A wrong command line exits 2 with what is wrong and what to do about it."""
    assert (2, "", f"tallybook: {says}\n") == run(*words)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], ["kpt_001", "kpt_002", "kpt_003"]),
        (["--sort", "name"], ["kpt_001", "kpt_002", "kpt_003"]),
        (["--sort", "helpful"], ["kpt_002", "kpt_003", "kpt_001"]),
        (["--sort", "harmful"], ["kpt_002", "kpt_001", "kpt_003"]),
        (["--sort", "trust"], ["kpt_003", "kpt_002", "kpt_001"]),
        (["--sort", "trust", "--limit", "2"], ["kpt_003", "kpt_002"]),
        (["--limit", "1"], ["kpt_001"]),
        (["-n", "9"], ["kpt_001", "kpt_002", "kpt_003"]),
    ],
)
def test_show_sorts_and_limits_the_entries(here: Project, run: Run, words: list[str], expected: list[str]) -> None:
    """`show --sort` puts the largest first, equal ones as they were; `--limit` also says how many there are."""
    for name, helpful, harmful in (("kpt_002", 3, 2), ("kpt_003", 2, 0)):
        for rating, number in (("helpful", helpful), ("harmful", harmful)):
            for _ in range(number):
                commands.rate(here, name, rating, HUMAN)
    assert expected == [entry["name"] for entry in json.loads(run("show", "--json", *words).out)["key_points"]]
    *rows, count = run("show", *words).out.splitlines()
    assert expected == [row.split()[0] for row in rows if row.startswith("kpt_")]
    assert ("3 key points" if len(expected) == 3 else f"{len(expected)} of 3 key points") in count


def test_help_is_a_verb(run: Run) -> None:
    """`help` prints what --help prints, and `help rate` the help of `rate`."""
    assert run("--help") == run("help") == run("help", "--help")
    assert run("rate", "--help") == run("help", "rate")
    assert (0, 2) == (run("help").code, run("help", "no-such-verb").code)


def test_a_hook_of_an_unknown_agent_names_the_known_ones(project: Path) -> None:
    """`hook nobody` exits 0, prints nothing for the agent, and names the agents on the error output."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "CLAUDE_PROJECT_DIR": str(project)}
    done = subprocess.run(
        [*COMMAND, "hook", "nobody"], input="{}", capture_output=True, text=True, check=False, env=environment
    )
    names = ", ".join(table.AGENTS)
    told = f"tallybook: hook 'nobody': not an agent; use {names}\n"
    assert (0, "", told) == (done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize(
    "words",
    [
        ["hook", "--project", "{}"],
        ["--project", "{}", "hook"],
    ],
    ids=" ".join,
)
def test_a_hook_accepts_the_project_anywhere(
    here: Project, tmp_path_factory: pytest.TempPathFactory, words: list[str]
) -> None:
    """`--project` before or after `hook` names the project, whatever folder the payload names."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    payload = {"hook_event_name": "SessionStart", "source": "startup", "session_id": "s1", "cwd": str(elsewhere)}
    done = subprocess.run(
        [*COMMAND, *(word.format(here.root) for word in words)],
        input=json.dumps(payload),
        capture_output=True,
        text=True,
        check=False,
        cwd=elsewhere,
        env={name: value for name, value in os.environ.items() if name != "CLAUDE_PROJECT_DIR"},
    )
    assert (0, "") == (done.returncode, done.stderr)
    assert "[kpt_001]" in done.stdout


# Standard input


def test_add_reads_standard_input(here: Project, run: Run) -> None:
    """`add -` adds the text of standard input, without its last line end."""
    assert 0 == run("add", "-", stdin="Keep “lines”\napart.\n".encode()).code
    assert "Keep “lines”\napart." == commands.show(here)["key_points"][-1]["text"]
