"""The files of each agent: where it reads its settings, what init writes there, and what the agent trusts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
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
from tallybook.ledger.fast_stdlib import dumps
from tallybook.ledger.storage import disk
from tallybook.projections.surfaces.agents import gemini, table
from tallybook.projections.surfaces.workspace import git
from tallybook.projections.surfaces.workspace import project as projects

UNCHANGED: Final = "nothing was changed"


class SlashCommand(NamedTuple):
    """A packaged slash command.

    Attributes:
        name: Its name, without a slash.
        description: One line that says what it does.
        body: The text after the front matter, in the form of Claude Code.
        text: All of the file.
    """

    name: str
    description: str
    body: str
    text: str


class PromptFiles(NamedTuple):
    """Where an agent looks for slash commands or skills.

    Attributes:
        folder: Their folder in the project and at home; empty for the agent's own.
        path: The path of one in that folder, with ``{}`` for its name.
        form: Returns the text of its file.
    """

    folder: str
    path: str
    form: Callable[[SlashCommand], str]


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
        prompts: Its slash commands or skills, None without any.
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
    prompts: PromptFiles | None = None
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


def as_toml(prompt: SlashCommand) -> str:
    """Return a slash command of Gemini CLI."""
    lines = [f"!{{{command}}}" if (command := _command_in(line)) else line for line in prompt.body.split("\n")]
    # The body becomes a literal string of TOML, in which no backslash begins an escape.
    body = "\n".join(lines).replace("$ARGUMENTS", "{{args}}")
    return f"description = {dumps(prompt.description)}\nprompt = '''\n{body}'''\n"


def as_skill(prompt: SlashCommand) -> str:
    """Return a skill, which an agent runs itself: it runs the commands, and there are no arguments."""
    lines = [line for line in prompt.body.split("\n\n") if "$ARGUMENTS" not in line]
    body = "\n\n".join(
        f"the output of `{command}`; run it first." if (command := _command_in(line)) else line for line in lines
    )
    return f"---\nname: {prompt.name}\ndescription: {prompt.description}\n---\n\n{body}"


def _command_in(line: str) -> str:
    """Return the command whose output stands in place of a line, empty without one."""
    return line[2:-1] if line.startswith("!`") and line.endswith("`") else ""


_CLAUDES_EVENTS: Final = ("SessionStart", "UserPromptSubmit", "PostToolUse", "Stop")
_SKILLS: Final = PromptFiles(".agents", "skills/{}/SKILL.md", as_skill)
_ALL_FILES: Final = (
    Installation(
        name=table.CLAUDE,
        title="Claude Code",
        folder=".claude",
        file="settings.json",
        events=dict.fromkeys((*_CLAUDES_EVENTS, "SubagentStart", "SubagentStop", "PreCompact", "SessionEnd"), 10),
        programs=("claude",),
        prompts=PromptFiles("", "commands/{}.md", lambda prompt: prompt.text),
        other_hooks=(".claude/settings.local.json",),
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
        prompts=_SKILLS,
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
        prompts=PromptFiles("", "commands/{}.toml", as_toml),
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
        prompts=_SKILLS,
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
        """Return the folder that holds the agents' folders."""
        return home() if self.folder is None else self.folder


def find_target(given: str | None, *, user: bool) -> InstallTarget:
    """Return where an installation goes.

    Args:
        given: The value of ``--project``, None without one.
        user: Whether to install into the user's own settings.

    Raises:
        BadInputError: There is no such folder, or it cannot be a project's.
    """
    if user:
        if given:
            raise BadInputError("--user", "excludes --project", UNCHANGED)
        return InstallTarget()
    folder = working_folder(given)
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


def own_folder(target: InstallTarget) -> Path:
    """Return the folder that has Tallybook's own settings."""
    return agent_folder(target, FILES[table.CLAUDE])


def top_folder(target: InstallTarget, files: Installation, folder: Path) -> Path:
    """Return the folder in which an agent's folders are created, and removed once they are empty."""
    own = own_folder(target)
    # The ledger and the playbook are in there.
    if folder == own or own in folder.parents:
        return own
    return target.base if folder.is_relative_to(target.base) else agent_folder(target, files).parent


def is_used(target: InstallTarget, files: Installation) -> bool:
    """Say whether an agent is there: its folder in the project or at home, or its command."""
    signs = files.signs or (files.folder,)
    paths = [] if target.folder is None else [target.folder / sign for sign in signs]
    return any(map(os.path.exists, (*paths, users_folder(files.name)))) or any(map(shutil.which, files.programs))


def working_folder(given: str | None) -> Path:
    """Return the folder where the agent is started.

    It is the given one, else ``CLAUDE_PROJECT_DIR``, else the top of the git repository, else the nearest parent with a
    ``.claude`` folder, else the current folder.

    Raises:
        BadInputError: There is no such folder, or it is the root or the home folder, in which hooks find no project.
    """
    here = Path.cwd()
    named = given or os.environ.get(FOLDER)
    folder = here / named if named else find_start_folder(here)
    if not folder.is_dir():
        raise BadInputError(str(folder), "is not a folder", UNCHANGED)
    if kind := projects.shared_kind(folder):
        hint = "go into a project, or give --user for what holds in all of them"
        raise BadInputError(str(folder), f"is {kind}, not a project", hint)
    return folder


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


def is_shared(path: Path, *, unknown: bool = True) -> bool:
    """Say whether git tracks a file.

    Args:
        path: The file.
        unknown: What to return where git cannot tell; True keeps the paths of this machine out of the file.
    """
    if not any(os.path.lexists(folder / ".git") for folder in path.parents):
        return False
    # The agent's folder may not exist yet, and git must run in one that does.
    folder = next(folder for folder in path.parents if folder.is_dir())
    try:
        return bool(git.ask(folder, "ls-files", "-z", "--", str(path)))
    except git.FAILURES:
        return unknown


PACKAGED: Final = Path(prompts.__file__).parent
CONFIG: Final = "tallybook.toml"

# The front matter of a slash command lists what it may run.
_VERB: Final = re.compile(r"Bash\(tallybook ([a-z-]+)")
_DESCRIPTION: Final = re.compile(r"^description: (.*)$", re.MULTILINE)


@attrs.frozen
class PackagedFile:
    """A file that ``init`` writes.

    Attributes:
        path: Its path.
        data: Its bytes.
        top: The folder above it that is not ours to create or remove.
    """

    path: Path
    data: bytes
    top: Path


def config_file(target: InstallTarget) -> PackagedFile:
    """Return the commented settings, which all agents share."""
    folder = own_folder(target)
    return PackagedFile(folder / "config" / CONFIG, (PACKAGED / CONFIG).read_bytes(), folder)


def prompt_files(
    target: InstallTarget, files: Installation, verbs: Collection[str] | None = None
) -> Iterator[PackagedFile]:
    """Yield an agent's slash commands or skills; only those that run these verbs, if any are given."""
    if files.prompts is None:
        return
    top = target.base / files.prompts.folder if files.prompts.folder else agent_folder(target, files)
    for path in sorted((PACKAGED / "commands").glob("*.md")):
        prompt = read_prompt(path)
        if verbs is None or {*_VERB.findall(prompt.text)} <= {*verbs}:
            data = files.prompts.form(prompt).encode()
            yield PackagedFile(top / files.prompts.path.format(prompt.name), data, top_folder(target, files, top))


def read_prompt(path: Path) -> SlashCommand:
    """Return a packaged slash command."""
    text = path.read_text(encoding="utf-8")
    _, front, body = text.split("---\n", 2)
    described = _DESCRIPTION.search(front)
    return SlashCommand(path.stem, described[1] if described else path.stem, body.lstrip("\n"), text)


# What an agent trusts

_MAX_BYTES = 4 * 1024 * 1024


def record_of_trust(files: Installation) -> Path:
    """Return the file in which an agent records the hooks that it trusts."""
    return users_folder(files.name) / files.record_of_trust


def running_events(files: Installation, path: Path) -> set[str]:
    """Return the events of a file of hooks that an agent trusts, and that no person switched off in its interface.

    Codex CLI writes ``enabled = false`` next to its trust, and ``[features] hooks = false`` for all of them.
    """
    if table.object_of(read_document(record_of_trust(files)), "features").get("hooks") is False:
        return set()
    recorded = trusted_events(files, path).items()
    return {event for event, states in recorded if all(state.get("enabled") is not False for state in states)}


def read_document(path: Path) -> dict[str, Any]:
    """Return the document in a JSON or TOML file, empty where it cannot be read; links are followed as agents do."""
    try:
        text = disk.read_small(os.path.realpath(path), _MAX_BYTES).decode("utf-8-sig")
        document = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (OSError, ValueError, RecursionError, CannotWriteError):
        return {}
    return document if isinstance(document, dict) else {}


def trusted_events(files: Installation, path: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the events of a file of hooks for which an agent has recorded trust → what it says of their hooks.

    Codex CLI records it as ``[hooks.state."FILE:session_start:0:0"]``, with a hash that is not checked here; FILE of a
    plugin is ``NAME@MARKETPLACE:hooks/hooks.json``.
    """
    state = table.object_of(table.object_of(read_document(record_of_trust(files)), "hooks"), "state")
    paths = {str(path), os.path.realpath(path)}
    match path.parts:
        case [*_, "plugins", "cache", market, name, _, folder, file]:
            paths.add(f"{name}@{market}:{folder}/{file}")
    by_key: dict[str, list[dict[str, Any]]] = {}
    for key, value in state.items():
        # FILE, event, two indices
        file, *place = key.rsplit(":", 3)
        if file in paths and len(place) == 3:  # noqa: PLR2004 - as above
            by_key.setdefault(place[0], []).append(value if isinstance(value, dict) else {})
    names = {event: re.sub("(?<!^)(?=[A-Z])", "_", event).lower() for event in files.events}
    return {event: by_key[name] for event, name in names.items() if name in by_key}
