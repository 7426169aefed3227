"""A person's own files for all projects, in Claude's user folder: a playbook, and templates of prompts.

No setting and no file of a project can name another playbook. Standard library only: hooks load it.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from functools import cached_property
import os
import stat

from tallybook.ledger import errors
from tallybook.ledger.playbook_constants import PERSONAL_PREFIX
from tallybook.projections.surfaces.workspace import project as projects
from tallybook.projections.surfaces.workspace.project import Project, ProjectPaths, as_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tallybook.projections.surfaces.workspace.project import AnyProject

FOLDER = "my-playbook"
"""The folder in Claude's user folder that holds ``playbook.json`` and the ledger."""
_VARIABLE = "CLAUDE_CONFIG_DIR"
FIXES = {
    f"{_VARIABLE} is not a whole path": f"give {_VARIABLE} a whole path",
    f"{_VARIABLE} leads into the project": f"give {_VARIABLE} a folder outside the project",
    "the folder is another user's": "if it is yours, make yourself its owner with chown; else rename it",
    "the folder is a link": "replace the link with the folder that it leads to",
}
"""Why the folder cannot be a person's own → what to do."""
_RELATIVE, _INSIDE, _FOREIGN, _LINK = FIXES


PLAYBOOK = "playbook.txt"
"""The template around the entries that a session is given."""
MARKS = "marks.txt"
"""What asks an agent for marks, which follows that template: a line about ratings, one about lessons, a limit."""


class PersonalPlaybook(Project):
    """The paths of a person's own playbook; its folder has no ``.claude``, for it lies in one."""

    @cached_property
    def claude(self) -> Path:
        """Return the folder itself."""
        return self.root


def folder() -> str:
    """Return the folder, whether it is there or not."""
    configured = os.environ.get(_VARIABLE) or os.path.join(os.path.expanduser("~"), projects.CLAUDE)
    return os.path.join(os.path.realpath(configured), FOLDER)


def fault(project: AnyProject | None = None) -> str:
    """Return why the folder cannot be a person's own in a project, one of FIXES, empty where it can.

    A project can set variables for its sessions, but it does not know where its clone lies, nor who works in it.
    """
    configured = os.environ.get(_VARIABLE)
    if configured and not os.path.isabs(configured):
        return _RELATIVE
    path = folder()
    if configured and project is not None and projects.contains(os.path.realpath(project.root), path):
        return _INSIDE
    with suppress(OSError, AttributeError):
        if os.lstat(path).st_uid != os.geteuid():
            return _FOREIGN
    return _LINK if os.path.islink(path) else ""


def find_paths(project: AnyProject) -> ProjectPaths | None:
    """Return the paths of the person's own playbook; None where there is none, or it cannot be told in a project."""
    path = folder()
    with suppress(OSError, errors.TallybookError):
        ledger = projects.ledger_folder(path)
        if stat.S_ISREG(os.stat(os.path.join(ledger, "events.jsonl")).st_mode) and not fault(project):
            return ProjectPaths(path, path, path, ledger)
    return None


def find(project: AnyProject) -> PersonalPlaybook | None:
    """Return the person's own playbook, as ``find_paths``; None for that playbook itself."""
    paths = None if isinstance(project, PersonalPlaybook) else find_paths(project)
    return None if paths is None else PersonalPlaybook(as_path(paths.root))


def as_project(paths: ProjectPaths) -> Project:
    """Return the project, or the person's own playbook, of its paths."""
    # Only that has no `.claude` in its folder.
    kind = PersonalPlaybook if paths.claude == paths.root else Project
    return kind(as_path(paths.root))


def place(project: AnyProject | None) -> PersonalPlaybook:
    """Return where the person's own playbook is or would be.

    Raises:
        BadInputError: It cannot be there.
    """
    if why := fault(project):
        raise errors.BadInputError(folder(), f"cannot be your own playbook: {why}", FIXES[why])
    mine = PersonalPlaybook(as_path(folder()))
    # A link in its place is refused.
    projects.ledger_folder(mine.root)
    return mine


def require_own(project: AnyProject | None) -> PersonalPlaybook:
    """Return the person's own playbook for ``--mine``.

    Raises:
        BadInputError: There is none.
    """
    mine = place(project)
    if not (mine.ledger / "events.jsonl").is_file():
        raise errors.BadInputError("--mine", "you have no playbook of your own", "make one: tallybook init --mine")
    return mine


def option(project: AnyProject) -> str:
    """Return what a command needs after its words to work on this playbook: `` --mine``, or nothing."""
    return " --mine" if isinstance(project, PersonalPlaybook) else ""


def explain(project: AnyProject, error: errors.UnknownEntryError) -> errors.UnknownEntryError:
    """Return the error about an unknown name with the option that it needs, if it is of the person's own playbook."""
    is_own = error.name.casefold().startswith(PERSONAL_PREFIX) and find(project) is not None
    return errors.UnknownEntryError(error.name, "an entry of your own playbook (--mine)") if is_own else error


class DamagedPlaybookError(errors.TallybookError):
    """The ledger of the person's own playbook is damaged; the project's need not be."""

    exit_code = errors.EXIT_DAMAGED


@contextmanager
def name_damage(mine: Project) -> Iterator[None]:
    """Name the person's own playbook in an error about its ledger, which would seem to be about the project's."""
    try:
        yield
    except errors.DamagedLedgerError as error:
        what = f"your own playbook, {mine.root}: {error.problems[0]}; run `tallybook verify --mine`"
        raise DamagedPlaybookError(what) from error


# Templates of prompts


def load_template(name: str = PLAYBOOK) -> str:
    """Return a template: the user's in ``~/.claude/prompts`` where it can be read, else the packaged one."""
    import tallybook.prompts

    own = os.path.join(os.path.expanduser("~"), ".claude", "prompts", name)
    # Anything but a file that can be read is passed over: a pipe, for example, could block the reader.
    is_readable = os.path.isfile(own) and os.access(own, os.R_OK)
    path = own if is_readable else os.path.join(os.path.dirname(tallybook.prompts.__file__), name)
    # A byte that is not UTF-8 costs a character, not the session's playbook.
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
