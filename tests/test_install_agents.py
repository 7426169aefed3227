"""``init`` and ``uninstall`` for every agent: for whom, in which form, and the bytes of files before and after."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import cycle
import json
import os
from pathlib import Path
import shutil
import subprocess
import sys

import pytest

from helpers.agent_settings import AGENTS, LINE, contents, lines_of, on_path, settings_of, theirs
from helpers.command_line import Answer
from helpers.real_command import MAIN
from tallybook.projections.surfaces.agents import table
from tallybook.projections.surfaces.hooks import handler
from tallybook.projections.surfaces.install import plan
from tallybook.projections.surfaces.install.hook_entries import hook_command
from tallybook.projections.surfaces.install.places import Installation, InstallTarget

__all__ = ["on_path"]
pytestmark = pytest.mark.usefixtures("_installed")

OTHERS = [name for name in AGENTS if name != table.CLAUDE]


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


LAYOUTS: dict[str, Callable[[Installation], bytes | None]] = {
    "no file": lambda _: None,
    "empty": lambda _: b"{}",
    "another's hooks": lambda files: theirs(files).encode(),
    "tabs": lambda files: theirs(files, indent="\t").encode() + b"\n",
    "CRLF": lambda files: theirs(files, indent=4).replace("\n", "\r\n").encode(),
    "a byte order mark": lambda files: b"\xef\xbb\xbf" + theirs(files, indent=2).encode(),
    "other characters": lambda files: b'{"caf\xc3\xa9": "\\u00e9", ' + theirs(files)[1:].encode(),
}


@pytest.mark.parametrize(
    ("name", "layout", "user"),
    [
        *((name, layout, False) for name, layout in zip(cycle(AGENTS), LAYOUTS, strict=False)),
        *((name, "another's hooks", user) for name in AGENTS for user in (False, True)),
    ],
)
def test_each_agent_is_installed_once_and_removed_to_the_byte(
    project: Path, run: Callable[..., Answer], name: str, layout: str, *, user: bool
) -> None:
    """Every event calls the hook, a second run changes nothing, a dry run neither, and uninstall restores the file."""
    files, root, words = AGENTS[name], Path.home() if user else project, ["--user"] if user else []
    path = settings_of(files, project, user=user)
    if (data := LAYOUTS[layout](files)) is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    before = contents(root), path.read_bytes() if data is not None else None
    dry = run("init", name, *words, "--dry-run", "--json")
    assert before == (contents(root), path.read_bytes() if data is not None else None)
    answer = run("init", name, *words, "--json")
    assert (0, dry.out) == (answer.code, answer.out)
    line = hook_command(is_kept=files.keeps_line)
    assert sorted((event, line) for event in files.events) == sorted(lines_of(files, path))
    again = run("init", name, *words)
    assert (0, "Nothing to change: ") == (again.code, again.out.splitlines()[-1][:19])
    done = json.loads(run("uninstall", name, *words, "--json").out)
    assert ["changed", "left", "diff"] == list(done)
    assert before == (contents(root), path.read_bytes() if path.exists() else None)
    if name != table.CLAUDE:
        assert [] == list((root / ".claude").glob("config/*"))


@pytest.mark.parametrize("name", AGENTS)
def test_the_timeouts_and_events_are_those_that_the_agent_takes(
    project: Path, run: Callable[..., Answer], name: str
) -> None:
    """Each event means something to the hook, and each hook has the timeout of its event in the agent's own unit."""
    files = AGENTS[name]
    run("init", name)
    document = json.loads(settings_of(files, project).read_bytes())
    hooks = {event: group["hooks"][0] if files.is_nested else group for event, (group,) in document["hooks"].items()}
    assert [timeout if files.timeout else None for timeout in files.events.values()] == [
        hook.get(files.timeout) for hook in hooks.values()
    ]
    read = table.load(name).read
    assert [] == [event for event in files.events if read({"hook_event_name": event}).event not in handler.ACTIONS]
    assert {"hooks"} | files.document.keys() == document.keys()
    # A tool's input is no place for a playbook that a prompt can bring.
    events = {read({"hook_event_name": event}).event for event in files.events} | {"PreToolUse"}
    assert events.issuperset(table.AGENTS[name].injects_at)


@pytest.mark.parametrize("name", AGENTS)
def test_a_file_that_git_tracks_has_no_path_of_this_machine(
    project: Path, run: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A file that git tracks has the command alone; another file has the quick line, unless it must be stable."""
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:/usr/bin:/bin")
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    files = AGENTS[name]
    path = settings_of(files, project)
    run("init", name)
    assert {hook_command(is_kept=files.keeps_line)} == {line for _, line in lines_of(files, path)}
    assert (LINE == hook_command(is_kept=files.keeps_line)) == files.keeps_line
    subprocess.run(["git", "-C", str(project), "add", str(path)], check=True)
    run("init", name)
    assert {LINE} == {line for _, line in lines_of(files, path)}
    for own in (project, Path.home(), Path(sys.prefix)):
        assert str(own).encode() not in path.read_bytes()


def test_codex_keeps_a_line_that_works(project: Path, run: Callable[..., Answer]) -> None:
    """It records trust by the hash of a hook, so neither an upgrade nor another Python changes line or timeout."""
    files = AGENTS["codex"]
    path = settings_of(files, project)
    path.parent.mkdir()
    data = json.dumps({"hooks": {event: [files.item("tallybook hook", 7)] for event in files.events}}).encode()
    path.write_bytes(data)
    assert "has the hooks already" in run("init", "codex").out
    assert data == path.read_bytes()
    program = project / "tallybook"
    here, gone = (data.replace(b"tallybook hook", f"{path} hook".encode()) for path in (program, "/gone/tallybook"))
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    path.write_bytes(here)
    assert "has the hooks already" in run("init", "codex").out
    path.write_bytes(gone)
    run("init", "codex")
    assert {LINE} == {line for _, line in lines_of(files, path)}
    path.write_bytes(here)
    (project / ".git").mkdir()
    run("init", "codex")
    assert {LINE} == {line for _, line in lines_of(files, path)}


@pytest.mark.parametrize("name", AGENTS)
def test_a_folder_that_leads_out_of_the_project_is_refused(
    project: Path, run: Callable[..., Answer], tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    """As Claude Code's is: nothing is written there."""
    away = tmp_path_factory.mktemp("away")
    shutil.rmtree(project / ".claude")
    (project / AGENTS[name].folder).symlink_to(away)
    answer = run("init", name)
    assert (4, "", 1) == (answer.code, answer.out, len(answer.err.splitlines()))
    assert ([], False) == (list(away.iterdir()), (project / ".claude" / "ledger").exists())


@pytest.mark.parametrize("name", AGENTS)
def test_settings_may_be_a_link_into_the_home(project: Path, run: Callable[..., Answer], name: str) -> None:
    """As people have it who keep them elsewhere: the file is changed and restored, and the link stays."""
    files = AGENTS[name]
    path, target = settings_of(files, project), Path.home() / "dotfiles" / "hooks.json"
    for folder in (path.parent, target.parent):
        folder.mkdir(parents=True, exist_ok=True)
    data = theirs(files, indent=1)
    target.write_text(data)
    path.symlink_to(target)
    before = contents(project)
    assert 0 == run("init", name).code
    assert len(files.events) == len(lines_of(files, target))
    assert 0 == run("uninstall", name).code
    assert (data, target, before) == (target.read_text(), path.readlink(), contents(project))
