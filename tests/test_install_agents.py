"""``init`` and ``uninstall`` for every agent of the table: for whom, in which form, and what they share."""

from __future__ import annotations

from contextlib import suppress
import json
import os
from pathlib import Path
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING

import pytest

from helpers.agent_settings import AGENTS, contents, lines_of, on_path, settings_of
from helpers.real_command import MAIN
from tallybook.projections.surfaces.agents import table
from tallybook.projections.surfaces.install import places, plan
from tallybook.projections.surfaces.install.places import InstallTarget

if TYPE_CHECKING:
    from collections.abc import Callable

    from helpers.command_line import Answer

__all__ = ["on_path"]

pytestmark = pytest.mark.usefixtures("_installed")

OTHERS = [name for name in AGENTS if name != table.CLAUDE]


def test_only_the_named_agent_is_installed(project: Path, run: Callable[..., Answer]) -> None:
    """Several may be named, each once; Claude Code's settings are not touched, and there is a ledger."""
    answer = run("init", "codex", "gemini", "codex")
    assert (0, "") == (answer.code, answer.err)
    assert f"Next: start codex or gemini in {project} and trust the hook; " in answer.out
    assert not (project / ".claude" / "settings.json").exists()
    assert (project / ".claude" / "ledger" / "events.jsonl").exists()
    assert ["codex", "gemini"] == plan.find_installed(InstallTarget(project))


@pytest.mark.parametrize("verb", ["init", "uninstall"])
def test_an_unknown_agent_is_refused(project: Path, run: Callable[..., Answer], verb: str) -> None:
    """One line names those that there are, the exit code is 2, and nothing is changed."""
    answer = run(verb, "codex", "emacs")
    line = f"tallybook: {verb} emacs: is not an agent; use claude, codex, gemini, copilot or cursor\n"
    assert (2, "", line) == answer
    assert [] == list((project / ".claude").iterdir())


def test_agents_that_are_there_are_listed(project: Path, run: Callable[..., Answer], on_path: Path) -> None:
    """By their folder in the project or at home, or by their command; `--all` installs them and Claude Code."""
    (project / ".gemini").mkdir()
    (Path.home() / ".codex").mkdir()
    on_path.with_name("cursor-agent").symlink_to(on_path)
    (project / ".github" / "workflows").mkdir(parents=True)
    out = run("init").out
    line = "Also here: codex, gemini, cursor. `tallybook init codex gemini cursor` or `--all` installs them."
    assert line == out.splitlines()[-1]
    assert ["codex", "gemini", "cursor"] == json.loads(run("init", "--json").out)["others"]
    assert "Also here" not in run("init", "claude").out
    assert 0 == run("init", "--all").code
    assert ["claude", "codex", "gemini", "cursor"] == plan.find_installed(InstallTarget(project))
    assert [] == json.loads(run("init", "--json").out)["others"]
    assert "Also here" not in run("init").out


def on_a_terminal(*words: str, typed: str) -> str:
    """Run the command on a terminal on which a person types, and return what it shows."""
    ours, its = os.openpty()
    command = [sys.executable, "-c", MAIN, *words]
    with subprocess.Popen(command, stdin=its, stdout=its, stderr=its, close_fds=True) as process:
        os.close(its)
        os.write(ours, typed.encode())
        shown = b""
        # At the end of the process the system reports an error in place of an empty read.
        with suppress(OSError):
            while piece := os.read(ours, 65_536):
                shown += piece
        assert 0 == process.wait()
    os.close(ours)
    return shown.decode().replace("\r\n", "\n")


@pytest.mark.skipif(os.name != "posix", reason="this system has no such terminals")
@pytest.mark.parametrize(("typed", "then"), [("y\n", ["claude", "codex"]), ("\n", ["claude"])])
def test_a_person_is_asked_once(project: Path, typed: str, then: list[str]) -> None:
    """On a terminal, after Claude Code's installation and not in a dry run; the default is no."""
    (project / ".codex").mkdir()
    assert "Install them now?" not in on_a_terminal("init", "--dry-run", typed="")
    assert [] == plan.find_installed(InstallTarget(project))
    shown = on_a_terminal("init", typed=typed)
    assert 1 == shown.count("Install them now? [y/N]: ")
    assert then == plan.find_installed(InstallTarget(project))


def test_copilot_runs_the_hooks_of_claude_code(project: Path, run: Callable[..., Answer]) -> None:
    """So nothing is installed for it unless it is named, and then a note says that both files are run."""
    (Path.home() / ".copilot").mkdir()
    path = project / ".claude" / "settings.json"
    answer = run("init", "--all")
    note = f"note: Copilot CLI runs the hooks in {path} as well; `tallybook init copilot` installs its own\n"
    assert note == answer.err
    assert ["claude"] == plan.find_installed(InstallTarget(project))
    assert f"note: Copilot CLI also runs the hooks in {path}; each event counts once\n" == run("init", "copilot").err
    assert 0 == run("init", "--user", "--all").code
    assert ["claude", "copilot"] == plan.find_installed(InstallTarget())
    run("uninstall", "claude")
    assert ["copilot"] == plan.find_installed(InstallTarget(project))
    assert "" == run("init", "copilot").err


def test_cursor_is_given_no_playbook_and_that_is_said(project: Path, run: Callable[..., Answer]) -> None:
    """Only events for citations and ends are installed."""
    answer = run("init", "cursor")
    assert (
        "note: Cursor is not given the playbook, because no answer of its hooks is known to reach the model"
        in answer.err
    )
    events = {
        table.load("cursor").read({"hook_event_name": event}).event
        for event, _ in lines_of(AGENTS["cursor"], settings_of(AGENTS["cursor"], project))
    }
    assert {"PostToolUse", "Stop", "SessionEnd"} == events


def test_what_agents_share_stays_as_long_as_one_has_it(project: Path, run: Callable[..., Answer]) -> None:
    """The skills of Codex and Copilot, and Tallybook's own settings, go with the last one; without a name all go."""
    run("init", "codex", "copilot", "gemini")
    config, skill = project / ".claude" / "config" / "tallybook.toml", project / ".agents/skills/playbook/SKILL.md"
    run("uninstall", "codex")
    again = f"Nothing to remove: Tallybook has nothing for codex in {project}.\n"
    assert again == run("uninstall", "codex").out
    assert [True, True] == [config.exists(), skill.exists()]
    run("uninstall", "copilot")
    assert [True, False] == [config.exists(), skill.exists()]
    assert 0 == run("uninstall").code
    assert ({}, False) == (contents(project), config.exists())
    assert f"Nothing to remove: Tallybook has nothing in {project}.\n" == run("uninstall").out


@pytest.mark.parametrize("name", OTHERS)
def test_uninstall_without_a_name_passes_over_files_that_were_never_ours(
    project: Path, run: Callable[..., Answer], name: str
) -> None:
    """Settings with comments, which some agents allow, do not keep Claude Code's hooks from being removed."""
    path = settings_of(AGENTS[name], project)
    path.parent.mkdir(parents=True)
    path.write_text("// mine\n{}")
    run("init")
    answer = run("uninstall")
    assert (0, "", "// mine\n{}") == (answer.code, answer.err, path.read_text())
    assert not (project / ".claude" / "settings.json").exists()


def test_slash_commands_are_in_each_agents_form(project: Path, run: Callable[..., Answer]) -> None:
    """From one packaged text: TOML for Gemini CLI, skills for Codex and Copilot, none for Cursor."""
    run("init", "--all")
    run("init", *AGENTS)
    for path in sorted((places.PACKAGED / "commands").glob("*.md")):
        prompt = places.read_prompt(path)
        assert path.read_text() == (project / ".claude" / "commands" / path.name).read_text()
        command = tomllib.loads((project / ".gemini" / "commands" / f"{path.stem}.toml").read_text())
        assert prompt.description == command["description"]
        assert "!{tallybook " in command["prompt"]
        assert "The user asks: {{args}}\n" in command["prompt"]
        skill = (project / ".agents" / "skills" / path.stem / "SKILL.md").read_text()
        assert skill.startswith(f"---\nname: {path.stem}\ndescription: {prompt.description}\n---\n")
        assert [] == [mark for mark in ("$ARGUMENTS", "!`", "{{") if mark in skill]
        for line in prompt.body.splitlines()[6:]:
            assert line in command["prompt"]
            assert line in skill
    assert not (project / ".cursor" / "commands").exists()


def test_the_folder_of_a_user_may_be_another(
    project: Path, run: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As CODEX_HOME and COPILOT_HOME say."""
    for name, variable in (("codex", "CODEX_HOME"), ("copilot", "COPILOT_HOME")):
        own = project / "own" / name
        monkeypatch.setenv(variable, str(own))
        assert 0 == run("init", "--user", name).code
        assert AGENTS[name].events.keys() == {event for event, _ in lines_of(AGENTS[name], own / AGENTS[name].file)}
        assert 0 == run("uninstall", "--user", name).code
        assert not own.exists()
