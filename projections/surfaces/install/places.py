"""The folders and files of an agent: where it is started, where it reads its settings, and what it trusts."""

from __future__ import annotations

import os
from pathlib import Path
import re
import shutil
import stat
import tomllib
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook import prompts
from tallybook.ledger.errors import BadInputError, CannotWriteError
from tallybook.ledger.storage import disk
from tallybook.projections.surfaces.agents import installation, table
from tallybook.projections.surfaces.agents.installation import Prompt
from tallybook.projections.surfaces.install.hook_entries import UNCHANGED
from tallybook.projections.surfaces.workspace import git
from tallybook.projections.surfaces.workspace import project as projects

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tallybook.projections.surfaces.agents.installation import Installation


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
        return Path(os.path.realpath(users_folder(files)))
    folder = Path(projects.claude_folder(target.folder, files.folder))
    if os.path.lexists(folder) and not folder.is_dir():
        raise CannotWriteError(folder, "is not a folder", "move it away")
    return folder


def own_folder(target: InstallTarget) -> Path:
    """Return the folder that has Tallybook's own settings."""
    return agent_folder(target, installation.FILES[table.CLAUDE])


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
    return any(map(os.path.exists, (*paths, users_folder(files)))) or any(map(shutil.which, files.programs))


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


def users_folder(files: Installation | None = None) -> Path:
    """Return an agent's own folder of this user; Claude Code's where none is named."""
    return Path(installation.users_folder(files or installation.FILES[table.CLAUDE], str(home())))


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
        if verbs is None or verbs_of(prompt.text) <= set(verbs):
            data = files.prompts.form(prompt).encode()
            yield PackagedFile(top / files.prompts.path.format(prompt.name), data, top_folder(target, files, top))


def read_prompt(path: Path) -> Prompt:
    """Return a packaged slash command."""
    text = path.read_text(encoding="utf-8")
    _, front, body = text.split("---\n", 2)
    described = _DESCRIPTION.search(front)
    return Prompt(path.stem, described[1] if described else path.stem, body.lstrip("\n"), text)


def verbs_of(text: str) -> set[str]:
    """Return the verbs that a slash command may run."""
    return set(_VERB.findall(text))


_MAX_BYTES = 4 * 1024 * 1024


def record_of_trust(files: Installation) -> Path:
    """Return the file in which an agent records the hooks that it trusts."""
    return users_folder(files) / files.record_of_trust


def trusted_events(files: Installation, path: Path) -> set[str]:
    """Return the events of a file of hooks for which an agent has recorded trust, by the agent's names."""
    return set(_read_events(files, path))


def running_events(files: Installation, path: Path) -> set[str]:
    """Return the events of a file of hooks that an agent trusts, and that no person switched off in its interface.

    Codex CLI writes ``enabled = false`` next to its trust, and ``[features] hooks = false`` for all of them.
    """
    features = _trust_settings(files).get("features")
    if isinstance(features, dict) and features.get("hooks") is False:
        return set()
    recorded = _read_events(files, path).items()
    return {event for event, states in recorded if all(state.get("enabled") is not False for state in states)}


def _trust_settings(files: Installation) -> dict[str, Any]:
    try:
        return tomllib.loads(disk.read_small(record_of_trust(files), _MAX_BYTES).decode())
    except (OSError, ValueError, RecursionError, CannotWriteError):
        return {}


def _read_events(files: Installation, path: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the recorded events of a file of hooks, by the agent's names → what the agent says of its hooks.

    Codex CLI records it as ``[hooks.state."FILE:session_start:0:0"]``, with a hash that is not checked here; FILE of a
    plugin is ``NAME@MARKETPLACE:hooks/hooks.json``.
    """
    hooks = _trust_settings(files).get("hooks")
    state = hooks.get("state") if isinstance(hooks, dict) else None
    paths = {str(path), os.path.realpath(path)}
    match path.parts:
        case [*_, "plugins", "cache", market, name, _, folder, file]:
            paths.add(f"{name}@{market}:{folder}/{file}")
    by_key: dict[str, list[dict[str, Any]]] = {}
    for key, value in state.items() if isinstance(state, dict) else ():
        # FILE, event, two indices
        file, *place = key.rsplit(":", 3)
        if file in paths and len(place) == 3:  # noqa: PLR2004 - as above
            by_key.setdefault(place[0], []).append(value if isinstance(value, dict) else {})
    names = {event: re.sub("(?<!^)(?=[A-Z])", "_", event).lower() for event in files.events}
    return {event: by_key[name] for event, name in names.items() if name in by_key}
