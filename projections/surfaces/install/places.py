"""The files of each agent: where it reads its settings, what init writes there, and what the agent trusts."""

from __future__ import annotations

from collections.abc import Mapping
import json
import os
from pathlib import Path
import re
import shutil
import stat
import tomllib
from typing import Any, Final, NamedTuple

import attrs

from tallybook import prompts
from tallybook.ledger.errors import BadInputError, CannotWriteError
from tallybook.ledger.storage import disk
from tallybook.projections.surfaces.agents import gemini, table
from tallybook.projections.surfaces.workspace import project as projects

UNCHANGED: Final = "nothing was changed"


class Installation(NamedTuple):
    """The files of an agent.

    Attributes:
        name: Its name in the table.
        title: Its name for people.
        folder: Its folder in a project.
        file: The file with hooks, as a path in either folder.
        events: Its own name of each event that calls the hook → the timeout, in its own unit.
        timeout: The key of the timeout; empty if a hook is its command line alone.
        key: The key of the command line.
        is_nested: Whether an item of an event's list holds a list of hooks, or is a hook.
        document: The rest of a new file.
        signs: Files and folders of a project that show that the agent is used there; empty for its folder.
        programs: The commands that start it.
        prompts: Its slash commands or skills, as a pattern of packaged files; empty without any.
        prompts_folder: The folder of these in the project and at home; empty for the agent's own.
        other_hooks: Patterns of other files of a project that may hold its hooks.
        users_hooks: Patterns of other files in its folder of a user that may hold its hooks, plugins included.
        runs: The agent of the table whose project settings it runs as well; empty if there is none.
        keeps_line: Whether a changed command line makes it distrust the hook.
        record_of_trust: Its file, in the user's folder, that records which hooks are trusted; empty if there is none.
        remark: What ``init`` says about it, empty if there is nothing to say.
    """

    name: str
    title: str
    folder: str
    file: str
    events: Mapping[str, int]
    timeout: str = "timeout"
    key: str = "command"
    is_nested: bool = True
    document: Mapping[str, Any] = {}
    signs: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    prompts: str = ""
    prompts_folder: str = ""
    other_hooks: tuple[str, ...] = ()
    users_hooks: tuple[str, ...] = ()
    runs: str = ""
    keeps_line: bool = False
    record_of_trust: str = ""
    remark: str = ""

    def item(self, line: str, timeout: int) -> dict[str, Any]:
        """Return an item of an event's list that calls a command line."""
        hook = {"type": "command", self.key: line, self.timeout: timeout} if self.timeout else {self.key: line}
        return {"hooks": [hook]} if self.is_nested else hook


_CLAUDES_EVENTS: Final = ("SessionStart", "UserPromptSubmit", "PostToolUse", "Stop")
_ALL_FILES: Final = (
    Installation(
        name=table.CLAUDE,
        title="Claude Code",
        folder=".claude",
        file="settings.json",
        events=dict.fromkeys((*_CLAUDES_EVENTS, "SubagentStart", "SubagentStop", "PreCompact", "SessionEnd"), 10),
        programs=("claude",),
        prompts="commands/*.md",
        other_hooks=(".claude/settings.local.json",),
        users_hooks=("plugins/cache/*/*/*/hooks/hooks.json",),
    ),
    Installation(
        name="codex",
        title="Codex CLI",
        folder=".codex",
        file="hooks.json",
        # Of SessionEnd it cuts a longer timeout down to 3 seconds, and warns.
        events=dict.fromkeys((*_CLAUDES_EVENTS, "SubagentStop", "PreCompact"), 10) | {"SessionEnd": 3},
        programs=("codex",),
        # No folder of slash commands is known of it.
        prompts="skills/*/SKILL.md",
        prompts_folder=".agents",
        other_hooks=(".codex/config.toml",),
        users_hooks=("config.toml", "plugins/cache/*/*/*/hooks/hooks.json"),
        # Codex trusts a hook by the hash of its command and timeout, and skips a changed one without a word.
        keeps_line=True,
        record_of_trust="config.toml",
    ),
    Installation(
        name="gemini",
        title="Gemini CLI",
        folder=".gemini",
        file="settings.json",
        # Its timeouts are milliseconds.
        events=dict.fromkeys(gemini.EVENTS, 10_000),
        programs=("gemini",),
        prompts="commands/*.toml",
        users_hooks=("extensions/*/hooks/hooks.json",),
    ),
    Installation(
        name="copilot",
        title="Copilot CLI",
        folder=".github",
        file="hooks/tallybook.json",
        # Only names of events in this spelling come back in the payload.
        events=dict.fromkeys((*_CLAUDES_EVENTS, "SubagentStart", "PreCompact", "SessionEnd"), 10),
        timeout="timeoutSec",
        key="bash",
        is_nested=False,
        document={"version": 1},
        signs=(".github/hooks", ".github/copilot", ".github/copilot-instructions.md"),
        programs=("copilot",),
        prompts="skills/*/SKILL.md",
        prompts_folder=".agents",
        other_hooks=(".github/hooks/*.json", ".github/copilot/settings.json", ".github/copilot/settings.local.json"),
        users_hooks=("hooks/*.json", "settings.json"),
        runs=table.CLAUDE,
    ),
    # By the descriptions of others, as its module.
    Installation(
        name="cursor",
        title="Cursor",
        folder=".cursor",
        file="hooks.json",
        # As it is given nothing, only events with citations and ends are installed.
        events=dict.fromkeys(("postToolUse", "afterAgentResponse", "stop", "sessionEnd"), 0),
        timeout="",
        is_nested=False,
        document={"version": 1},
        programs=("cursor", "cursor-agent"),
        remark="is not given the playbook, because no answer of its hooks is known to reach the model; "
        "its hooks record which entries it cites",
    ),
)
FILES: Final = {files.name: files for files in _ALL_FILES}
"""Name of an agent of the table → its files."""


FOLDER: Final = "CLAUDE_PROJECT_DIR"
"""Environment variable by which an agent tells a hook the folder where it was started."""


@attrs.frozen
class InstallTarget:
    """Where an installation goes: into a project, or into the user's own settings.

    Attributes:
        folder: The folder where the agent is started; None for the user's settings, which apply everywhere.
        project: The project whose ledger begins; None for the user's settings.
    """

    folder: Path | None = None
    project: projects.Project | None = None

    @property
    def base(self) -> Path:
        """Return the folder that holds the agents' folders, without links."""
        return Path(os.path.realpath(home() if self.folder is None else self.folder))

    @property
    def bases(self) -> set[Path]:
        """Return the folders that stay where they are empty: those with agents' folders, and some of these."""
        # A variable can move that of an agent.
        users = [users_folder(name) for name in FILES] if self.folder is None else []
        # A link to a folder would lead nowhere; the ledger and the playbook are in Claude Code's.
        linked = {Path(os.path.realpath(folder)) for folder in users if folder.is_symlink()}
        own = agent_folder(self, FILES[table.CLAUDE])
        return {self.base, own, *linked, *(Path(os.path.realpath(folder)).parent for folder in users)}


def find_target(given: str | None, *, user: bool) -> InstallTarget:
    """Return where an installation goes.

    The agent is started in the given folder, else in ``CLAUDE_PROJECT_DIR``, else at the top of the git repository,
    else in the nearest parent with a ``.claude`` folder, else in the current folder.

    Args:
        given: The value of ``--project``, None without one.
        user: Whether to install into the user's own settings.

    Raises:
        BadInputError: There is no such folder, or it is the root or the home folder, in which hooks find no project.
    """
    if user:
        if given:
            raise BadInputError("--user", "excludes --project", UNCHANGED)
        return InstallTarget()
    here = Path.cwd()
    named = given or os.environ.get(FOLDER)
    # Without links, so that one in the place of a file of ours shows.
    folder = Path(os.path.realpath(here / named)) if named else find_start_folder(here)
    if not folder.is_dir():
        raise BadInputError(str(folder), "is not a folder", UNCHANGED)
    if kind := projects.describe_shared_folder(folder):
        hint = "go into a project, or give --user for what holds in all of them"
        raise BadInputError(str(folder), f"is {kind}, not a project", hint)
    # Without --project, the ledger is the one that a hook of an agent in that folder finds.
    root = folder if given else Path(projects.project_around(str(folder)) or folder)
    return InstallTarget(folder, projects.Project(root, folder))


def agent_folder(target: InstallTarget, files: Installation) -> Path:
    """Return an agent's folder.

    Raises:
        CannotWriteError: It leads out of the project, or is not a folder.
    """
    if target.folder is None:
        return Path(os.path.realpath(users_folder(files.name)))
    folder = Path(projects.claude_folder(target.folder, files.folder))
    if os.path.lexists(folder) and not folder.is_dir():
        raise CannotWriteError(folder, "is not a folder", "move it away")
    return folder


def is_used(target: InstallTarget, files: Installation) -> bool:
    """Say whether an agent is there: its folder in the project or at home, or its command."""
    signs = files.signs or (files.folder,)
    paths = [] if target.folder is None else [target.folder / sign for sign in signs]
    return any(map(os.path.exists, (*paths, users_folder(files.name)))) or any(map(shutil.which, files.programs))


def find_start_folder(here: Path) -> Path:
    """Return the folder where an agent is most likely started by a person in a folder below it."""
    folders = projects.repository_folders(os.path.realpath(here))
    return Path(folders[-1] if folders else projects.nearest_project(str(here)))


def home() -> Path:
    """Return the user's home folder; where the system knows none, a path that does not exist."""
    try:
        return Path.home()
    except RuntimeError:
        return Path(os.devnull) / "home"


def users_folder(name: str = table.CLAUDE) -> Path:
    """Return an agent's own folder of this user."""
    variable, folder = table.AGENTS[name].home
    return Path(os.environ.get(variable) or home() / folder)


def settings_file(target: InstallTarget, files: Installation) -> Path:
    """Return the file with an agent's hooks, or the file that a link in its place leads to.

    Raises:
        CannotWriteError: It is not a regular file, or the link leads out of the user's home and the project.
    """
    path = agent_folder(target, files) / files.file
    real = Path(os.path.realpath(path))
    # People keep their settings elsewhere and link to them.
    within = [os.path.realpath(folder) for folder in (home(), target.folder) if folder is not None]
    if path.is_symlink() and not any(map(real.is_relative_to, within)):
        raise CannotWriteError(path, f"leads to {real}, out of your home and the project", UNCHANGED)
    if os.path.lexists(path) and not (real.exists() and stat.S_ISREG(real.stat().st_mode)):
        raise CannotWriteError(path, "is not a regular file", f"move it away; {UNCHANGED}")
    return real if path.is_symlink() else path


PACKAGED: Final = Path(prompts.__file__).parent
CONFIG: Final = "tallybook.toml"


def config_file(target: InstallTarget) -> tuple[Path, bytes]:
    """Return the path and the bytes of the commented settings, which all agents share."""
    return agent_folder(target, FILES[table.CLAUDE]) / "config" / CONFIG, (PACKAGED / CONFIG).read_bytes()


def prompt_files(target: InstallTarget, files: Installation) -> dict[Path, bytes]:
    """Return an agent's slash commands or skills, by path."""
    folder = target.base / files.prompts_folder if files.prompts_folder else agent_folder(target, files)
    paths = sorted(PACKAGED.glob(files.prompts)) if files.prompts else ()
    return {folder / path.relative_to(PACKAGED): path.read_bytes() for path in paths}


# What an agent trusts

_MAX_BYTES = 4 * 1024 * 1024


def find_running_events(files: Installation, path: Path) -> set[str]:
    """Return the events of a file of hooks that an agent trusts, and that no person switched off in its interface.

    Codex CLI records its trust as ``[hooks.state."FILE:session_start:0:0"]``, with a hash that is not checked here;
    FILE of a plugin is ``NAME@MARKETPLACE:hooks/hooks.json``. It writes ``enabled = false`` there for a hook that is
    switched off, and ``[features] hooks = false`` for all of them.
    """
    record = read_document(users_folder(files.name) / files.record_of_trust)
    if table.object_of(record, "features").get("hooks") is False:
        return set()
    paths = {str(path), os.path.realpath(path)}
    match path.parts:
        case [*_, "plugins", "cache", market, name, _, folder, file]:
            paths.add(f"{name}@{market}:{folder}/{file}")
    states: dict[str, list[bool]] = {}
    for key, value in table.object_of(table.object_of(record, "hooks"), "state").items():
        # FILE, event, two indices
        file, *place = key.rsplit(":", 3)
        if file in paths and len(place) == 3:  # noqa: PLR2004 - as above
            states.setdefault(place[0], []).append(not (isinstance(value, dict) and value.get("enabled") is False))
    names = {event: re.sub("(?<!^)(?=[A-Z])", "_", event).lower() for event in files.events}
    return {event for event, name in names.items() if all(states.get(name, [False]))}


def read_document(path: Path) -> dict[str, Any]:
    """Return the document in a JSON or TOML file, empty where it cannot be read; links are followed as agents do."""
    try:
        text = disk.read_small(os.path.realpath(path), _MAX_BYTES).decode("utf-8-sig")
        document = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (OSError, ValueError, RecursionError, CannotWriteError):
        return {}
    return document if isinstance(document, dict) else {}
