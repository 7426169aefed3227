"""``init`` and ``uninstall`` for every agent: for whom, in which form, and the bytes of files before and after."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
import json
import os
from pathlib import Path
import shlex
import shutil
import stat
import subprocess
import sys
from typing import Any

import attrs
import pytest

from helpers.agent_settings import (
    AGENTS,
    CLAUDE,
    LINE,
    OURS,
    THEIRS,
    claude,
    contents,
    lines_of,
    make_foreign_settings,
    on_path,
    settings_of,
)
from helpers.commands import CommandResult, installed
from helpers.git_repositories import git
from helpers.reviews import Terminal
from tallybook.projections.surfaces.agents import table
from tallybook.projections.surfaces.cli import install as install_verbs
from tallybook.projections.surfaces.hooks import handler
from tallybook.projections.surfaces.install import hook_entries, plan
from tallybook.projections.surfaces.install.hook_entries import hook_command, tool_command
from tallybook.projections.surfaces.install.places import Installation, InstallTarget
from tallybook.projections.surfaces.sharing import membership
from tallybook.projections.surfaces.sharing.membership import install_command
from tallybook.projections.surfaces.workspace.project import Project

__all__ = ["claude", "on_path"]
pytestmark = pytest.mark.usefixtures("_installed")

OTHERS = [name for name in AGENTS if name != table.CLAUDE]


@pytest.mark.parametrize(("typed", "then"), [("y\n", ["claude", "codex"]), ("\n", ["claude"])])
def test_a_person_is_asked_once(project: Path, typed: str, then: list[str]) -> None:
    """On a terminal, after Claude Code's installation and not in a dry run; the default is no."""
    (project / ".codex").mkdir()
    code, shown = Terminal(project, "init", "--dry-run").end()
    assert (0, False) == (code, "Install them now?" in shown)
    assert [] == plan.find_installed(InstallTarget(project))
    terminal = Terminal(project, "init")
    terminal.enter(typed)
    code, shown = terminal.end()
    assert (0, 1) == (code, shown.count("Install them now? [y/N]: "))
    assert then == plan.find_installed(InstallTarget(project))


@pytest.mark.parametrize("name", OTHERS)
def test_uninstall_without_a_name_passes_over_files_that_were_never_ours(
    project: Path, run: Callable[..., CommandResult], name: str
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
    "another's hooks": lambda files: make_foreign_settings(files).encode(),
    "tabs": lambda files: make_foreign_settings(files, indent="\t").encode() + b"\n",
    "CRLF": lambda files: make_foreign_settings(files, indent=4).replace("\n", "\r\n").encode(),
    "a byte order mark": lambda files: b"\xef\xbb\xbf" + make_foreign_settings(files, indent=2).encode(),
    "other characters": lambda files: b'{"caf\xc3\xa9": "\\u00e9", ' + make_foreign_settings(files)[1:].encode(),
}


@pytest.mark.parametrize(
    ("name", "layout", "user"),
    [
        *((name, layout, False) for name, layout in zip(cycle(AGENTS), LAYOUTS, strict=False)),
        *((name, "another's hooks", user) for name in AGENTS for user in (False, True)),
    ],
)
def test_each_agent_is_installed_once_and_removed_to_the_byte(
    project: Path, run: Callable[..., CommandResult], name: str, layout: str, *, user: bool
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
    project: Path, run: Callable[..., CommandResult], name: str
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
    project: Path, run: Callable[..., CommandResult], monkeypatch: pytest.MonkeyPatch, name: str
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


def test_codex_keeps_a_line_that_works(project: Path, run: Callable[..., CommandResult]) -> None:
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
    project: Path, run: Callable[..., CommandResult], tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    """As Claude Code's is: nothing is written there."""
    away = tmp_path_factory.mktemp("away")
    shutil.rmtree(project / ".claude")
    (project / AGENTS[name].folder).symlink_to(away)
    answer = run("init", name)
    assert (4, "", 1) == (answer.code, answer.out, len(answer.err.splitlines()))
    assert ([], False) == (list(away.iterdir()), (project / ".claude" / "ledger").exists())


@pytest.mark.parametrize("name", AGENTS)
def test_settings_may_be_a_link_into_the_home(project: Path, run: Callable[..., CommandResult], name: str) -> None:
    """As people have it who keep them elsewhere: the file is changed and restored, and the link stays."""
    files = AGENTS[name]
    path, target = settings_of(files, project), Path.home() / "dotfiles" / "hooks.json"
    for folder in (path.parent, target.parent):
        folder.mkdir(parents=True, exist_ok=True)
    data = make_foreign_settings(files, indent=1)
    target.write_text(data)
    path.symlink_to(target)
    before = contents(project)
    assert 0 == run("init", name).code
    assert len(files.events) == len(lines_of(files, target))
    assert 0 == run("uninstall", name).code
    assert (data, target, before) == (target.read_text(), path.readlink(), contents(project))


# ``init`` and ``doctor`` where only an active virtual environment has the command: what a new shell then runs.


SYSTEM_PATH = "/usr/bin:/bin"
SESSION_START = json.dumps({"hook_event_name": "SessionStart", "source": "startup", "session_id": "s1", "cwd": "."})


@attrs.frozen
class Environment:
    """A virtual environment that has the command, and a project in a repository."""

    folder: Path
    root: Path

    @property
    def program(self) -> Path:
        """The command in the environment."""
        return self.folder / "bin" / "tallybook"

    def run(self, *words: str, active: bool = True, command: str = "", given: str = "") -> tuple[int, str, str]:
        """Run the command, or another of a shell, in the project; return exit code, output and errors."""
        path = f"{self.folder / 'bin'}:{SYSTEM_PATH}" if active else SYSTEM_PATH
        environment = {"PATH": path, "HOME": os.environ["HOME"]} | ({"VIRTUAL_ENV": str(self.folder)} if active else {})
        line = command or shlex.join(["tallybook", *words])
        done = subprocess.run(
            ["sh", "-c", line], cwd=self.root, env=environment, capture_output=True, text=True, check=False, input=given
        )
        return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an environment with the package as an installer leaves it."""
    folder = tmp_path_factory.mktemp("venv") / "my env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    places = [installed(), *(path for path in sys.path if path.endswith("site-packages"))]
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "places.pth").write_text("".join(f"{place}\n" for place in places), encoding="utf-8")
    program = folder / "bin" / "tallybook"
    start = "from tallybook.__main__ import main; main()"
    # The path of the interpreter has a space, which a line that begins with #! cannot have.
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(str(folder / "bin" / "python"))} -c "{start}" "$@"\n')
    program.chmod(0o755)
    return folder


@pytest.fixture
def inside(project: Path, environment: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    """Return that environment, and a project with an entry."""
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{SYSTEM_PATH}")
    git(project, "init", "--quiet")
    made = Environment(environment, project)
    assert 0 == made.run("add", "Quote ids as strings.")[0]
    return made


@pytest.mark.parametrize("name", ["claude", "codex", "copilot"])
def test_a_file_that_git_does_not_track_names_the_program_by_its_path(inside: Environment, name: str) -> None:
    """`init` in an environment writes lines that run in a shell without it."""
    assert 0 == inside.run("init", name)[0]
    files = AGENTS[name]
    lines = {line for _, line in lines_of(files, settings_of(files, inside.root))}
    (line,) = lines
    assert str(inside.folder) in line
    code, out, err = inside.run(active=False, command=line, given=SESSION_START)
    assert (0, "") == (code, err)
    assert "Quote ids as strings." in out


def test_for_a_tracked_file_init_and_doctor_name_the_cause(inside: Environment) -> None:
    """A tracked file has the bare command: `init` and `doctor` name the environment and `uv tool install`."""
    settings = settings_of(AGENTS["claude"], inside.root)
    settings.write_text("{}", encoding="utf-8")
    git(inside.root, "add", "--force", str(settings))
    code, _, err = inside.run("init")
    assert 0 == code
    assert {"tallybook hook || :"} == {line for _, line in lines_of(AGENTS["claude"], settings)}
    assert f"note: `tallybook` is on PATH only in the environment {inside.folder}: slash commands, and hooks" in err
    assert "uv tool install" in err
    out = inside.run("doctor")[1]
    cause = "the hooks call `tallybook`, which is "
    assert f"{cause}on PATH only in the environment {inside.folder}; run `uv tool install" in out
    assert "trust" not in out
    out = inside.run(active=False, command=f"{shlex.quote(str(inside.program))} doctor")[1]
    assert f"{cause}not on PATH" in out


# Where ``init`` installs: which folder, for whom, and commands for packages.


@pytest.mark.parametrize(
    ("git", "agents", "here", "expected"),
    [
        (None, None, "a/b", "a/b"),
        (None, "a", "a/b", "a"),
        ("", "a", "a/b", ""),
        ("a", "", "a/b", "a"),
        ("a", "", "c", ""),
    ],
    ids=["nothing", "an agent's folder", "git above it", "git below it", "git beside it"],
)
def test_the_folder_is_where_the_agent_is_started(  # noqa: PLR0913 - the folders are the case
    project: Path,
    run: Callable[..., CommandResult],
    monkeypatch: pytest.MonkeyPatch,
    *,
    git: str | None,
    agents: str | None,
    here: str,
    expected: str,
) -> None:
    """The top of the git repository, else the nearest folder with a ``.claude``, else the current one."""
    (project / ".claude").rmdir()
    for folder in ("a/b", "c"):
        (project / folder).mkdir(parents=True)
    if git is not None:
        (project / git / ".git").write_text("gitdir: elsewhere")
    if agents is not None:
        (project / agents / ".claude").mkdir()
    monkeypatch.delenv("CLAUDE_PROJECT_DIR")
    monkeypatch.chdir(project / here)
    assert 0 == run("init").code
    assert ["settings.json"] == [path.name for path in project.rglob("settings.json")]
    claude = project / expected / ".claude"
    assert {*OURS, "ledger/events.jsonl"} <= {
        path.relative_to(claude).as_posix() for path in claude.rglob("*") if path.is_file()
    }


def test_a_file_that_changes_under_way_is_not_written_over(
    claude: Path, run: Callable[..., CommandResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that writes its settings between our look and our write: its bytes stay, one line says so."""
    (claude / "settings.json").write_bytes(THEIRS)
    begin = install_verbs.begin

    def meanwhile(project: Project) -> tuple[str, ...]:
        (claude / "settings.json").write_bytes(b"{}")
        return begin(project)

    monkeypatch.setattr(install_verbs, "begin", meanwhile)
    answer = run("init")
    assert (4, b"{}") == (answer.code, (claude / "settings.json").read_bytes())
    assert "settings.json: was changed by another program" in answer.err
    assert 0 == run("init").code
    assert hook_entries.own_commands((claude / "settings.json").read_bytes(), CLAUDE, "")


def test_files_are_as_private_as_the_folder(claude: Path, run: Callable[..., CommandResult]) -> None:
    """For the user alone, in a shared folder for those who share it."""
    run("init")
    modes = {stat.S_IMODE((claude / name).stat().st_mode) for name in OURS}
    assert {0o600} == modes
    run("uninstall")
    shutil.rmtree(claude)
    claude.mkdir()
    claude.chmod(0o770)
    run("init")
    assert {0o660} == {stat.S_IMODE((claude / name).stat().st_mode) for name in OURS}
    assert json.loads((claude / "settings.json").read_bytes())


def test_pip_adds_it_to_this_environment() -> None:
    """By this interpreter, whatever `pip` on PATH belongs to; it is one that pip takes."""
    words = shlex.split(install_command("duckdb"))
    assert [sys.executable, "-m", "pip", "install", "duckdb"] == words
    tried = [*words[:-1], "--dry-run", "--no-index", "attrs"]
    assert 0 == subprocess.run(tried, capture_output=True, check=False).returncode


def test_uv_adds_it_where_there_is_no_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in an environment that uv made."""
    monkeypatch.setattr(membership, "find_spec", lambda _: None)
    assert f"uv pip install --python {shlex.quote(sys.executable)} duckdb" == install_command("duckdb")


def test_pipx_injects_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Into its environment of this name, which a suffix may have made another."""
    (tmp_path / "tallybook-2").mkdir()
    (tmp_path / "tallybook-2" / "pipx_metadata.json").write_text("{}", encoding="utf-8")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "tallybook-2"))
    assert "pipx inject tallybook-2 duckdb" == install_command("duckdb")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (None, "uv tool install tallybook"),
        ({"url": "file:///a%20b/tallybook", "dir_info": {"editable": True}}, "uv tool install '/a b/tallybook'"),
        ({"url": "https://h.example/t.whl", "archive_info": {}}, "uv tool install https://h.example/t.whl"),
        ({"url": "https://h.example/t", "vcs_info": {"vcs": "git"}}, "uv tool install git+https://h.example/t"),
    ],
    ids=["an index", "a folder", "an address", "git"],
)
def test_the_tool_is_installed_from_where_this_one_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: dict[str, Any] | None, expected: str
) -> None:
    """The command that puts Tallybook on PATH names the folder, address or index that this Tallybook came from."""
    folder = tmp_path / "tallybook-0.1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: tallybook\nVersion: 0.1\n", encoding="utf-8")
    if source is not None:
        (folder / "direct_url.json").write_text(json.dumps(source), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert expected == tool_command()
