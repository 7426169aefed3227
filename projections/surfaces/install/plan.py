"""The steps of ``init`` and ``uninstall``: planned first, shown, and then taken one by one."""

from __future__ import annotations

import contextlib
import difflib
from pathlib import Path
import re
import stat
from typing import TYPE_CHECKING, Final

import attrs

from tallybook import prompts
from tallybook.ledger.errors import BadInputError, CannotWriteError
from tallybook.ledger.storage import disk
from tallybook.projections.surfaces.history.reading import open_log
from tallybook.projections.surfaces.install import hook_command, hook_entries, places
from tallybook.projections.surfaces.install.hook_entries import UNCHANGED
from tallybook.projections.surfaces.writing.record import write

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from tallybook.projections.surfaces.install.places import InstallTarget
    from tallybook.projections.surfaces.workspace.project import Project

PACKAGED: Final = Path(prompts.__file__).parent
BACKUP: Final = "settings.json.before-tallybook"
CONFIG: Final = "tallybook.toml"
LEFT: Final = "left"

_FOLDERS: Final = ("commands", "config")
"""Folders that `uninstall` removes once they are empty."""
_CHANGED: Final = "differs from what this version writes, so it is yours"
# The front matter of a slash command lists what it may run.
_VERB = re.compile(rb"Bash\(tallybook ([a-z-]+)")


@attrs.frozen
class Step:
    """One file of an installation.

    Attributes:
        path: The file.
        result: created, changed, restored, deleted, or left.
        why: The reason to print; may be empty.
        before: Its bytes now, None without a file.
        after: Its bytes afterwards, None without a file.
        has_diff: Whether to show people the difference.
    """

    path: Path
    result: str
    why: str = ""
    before: bytes | None = None
    after: bytes | None = None
    has_diff: bool = False

    def __str__(self) -> str:
        """Return the line that people see, ``created FILE: why``."""
        return f"{self.result} {self.path}" + (f": {self.why}" if self.why else "")


def install(place: InstallTarget, line: str, verbs: Collection[str]) -> tuple[Step, ...]:
    """Return the steps of an installation; the settings come last, because they make the agent use the other files.

    Args:
        place: The place of the installation.
        line: The command line of the hook.
        verbs: The verbs of this version; a slash command that runs another verb is not installed.
    """
    path = places.settings_file(place)
    before = _read(path)
    after = hook_entries.install(before, line, str(path))
    planned = [_install_file(place.claude / name, data) for name, data in _packaged_files(verbs).items()]
    # Settings that have our hooks already, with an older command line, are not what they were before Tallybook.
    if before not in {None, after} and not hook_entries.calls_everywhere(before, str(path)):
        planned.append(_back_up(place, before))
    why = "has the hooks already" if before == after else ""
    return *planned, attrs.evolve(_write(path, before, after, why), has_diff=True)


def remarks(planned: Sequence[Step]) -> tuple[str, ...]:
    """Return remarks on the hooks that the settings have after an installation, a line each."""
    path, after = planned[-1].path, planned[-1].after or b""
    return tuple(filter(None, map(hook_command.remark, dict.fromkeys(hook_entries.own_commands(after, str(path))))))


def _back_up(place: InstallTarget, before: bytes | None) -> Step:
    path = place.claude / BACKUP
    if not _is_plain(path):
        raise CannotWriteError(path, "is not a regular file", f"move it away; {UNCHANGED}")
    if _read(path) is not None:
        return Step(path, LEFT, "a backup from before, kept as it is")
    return Step(path, "created", "the settings as they were", None, before)


def _install_file(path: Path, data: bytes) -> Step:
    """Return the step for a packaged file; another file in its place is left."""
    if not _is_plain(path):
        return Step(path, LEFT, "a link or something else than a file is in its place")
    before = _read(path)
    return _write(path, before, data) if before in {None, data} else Step(path, LEFT, _CHANGED)


def _packaged_files(verbs: Collection[str] | None = None) -> Mapping[str, bytes]:
    """Return the packaged files by their place in the agent's folder; slash commands only if they run these verbs."""
    commands = {f"commands/{path.name}": path.read_bytes() for path in sorted((PACKAGED / "commands").glob("*.md"))}
    runnable = {name: data for name, data in commands.items() if verbs is None or _verbs_of(data) <= set(verbs)}
    return runnable | {f"config/{CONFIG}": (PACKAGED / CONFIG).read_bytes()}


def _verbs_of(data: bytes) -> set[str]:
    """Return the verbs that a slash command may run."""
    return {verb.decode() for verb in _VERB.findall(data)}


def uninstall(place: InstallTarget) -> Iterator[Step]:
    """Return the steps that remove an installation; none where there is none."""
    path = places.settings_file(place)
    before = _read(path)
    if before is not None:
        yield from _uninstall_hooks(place, path, before)
    for name, data in _packaged_files().items():
        file = place.claude / name
        if _is_plain(file) and (current := _read(file)) is not None:
            # A file that somebody has changed is theirs.
            yield Step(file, "deleted", before=current) if current == data else Step(file, LEFT, _CHANGED)


def _uninstall_hooks(place: InstallTarget, path: Path, before: bytes) -> Iterator[Step]:
    """Yield the steps for the settings: back to the backup if nothing else changed, or else only without our hooks."""
    backup = place.claude / BACKUP
    saved = _read(backup) if _is_plain(backup) else None
    delete_backup = Step(backup, "deleted", "no longer needed", saved)
    own = hook_entries.own_commands(before, str(path))
    if not own:
        yield from [delete_backup] if saved == before else ()
    elif any(_install_hooks(saved, line, str(backup)) == before for line in dict.fromkeys(own)):
        yield Step(path, "deleted" if saved is None else "restored", "as it was before", before, saved, has_diff=True)
        yield from [delete_backup] if saved is not None else ()
    else:
        after = hook_entries.remove(before, str(path))
        if after != before:
            yield Step(path, "changed", "the hooks are removed, the rest stays", before, after, has_diff=True)
        if own := hook_entries.own_commands(after, str(path)):
            yield Step(path, LEFT, f"`{own[0]}` does more than call Tallybook; remove it yourself")
        if saved is not None:
            yield Step(backup, LEFT, "not put back, as more than our hooks would change")


def _install_hooks(data: bytes | None, line: str, source: str) -> bytes | None:
    """Return settings with our hooks; None where that is impossible, or where they had hooks of ours before."""
    try:
        had_hooks = data is not None and hook_entries.remove(data, source) != data
        return None if had_hooks else hook_entries.install(data, line, source)
    except BadInputError:
        return None


def ledger(project: Project) -> Step:
    """Return the step that begins a project's ledger; an existing one is left."""
    path = project.ledger / "events.jsonl"
    if open_log(project).exists():
        return Step(path, LEFT, "the ledger goes on")
    return Step(path, "created", f"from {project.playbook}" if project.playbook.exists() else "with an empty playbook")


def begin(project: Project) -> tuple[str, ...]:
    """Begin a project's ledger, from its ``playbook.json`` if it has one; return problems, a line each."""
    report = write(project, [], begin=True)
    return tuple(map(str, filter(None, (*report.problems, report.unrendered))))


# One step


def _write(path: Path, before: bytes | None, after: bytes, why: str = "") -> Step:
    if before == after:
        return Step(path, LEFT, why or "is as it should be", before, after)
    return Step(path, "created" if before is None else "changed", why, before, after)


def take(step: Step) -> None:
    """Take a step.

    Raises:
        CannotWriteError: The file has changed since the step was planned, or cannot be written.
        OutcomeUnknownError: The disk did not confirm the write.
    """
    if step.result == LEFT:
        return
    if step.after is None:
        _check_unchanged(step)
        step.path.unlink()
        if step.path.parent.name in _FOLDERS:
            # The system refuses to remove a folder that is not empty.
            with contextlib.suppress(OSError):
                step.path.parent.rmdir()
        return
    disk.make_folder(step.path.parent)
    disk.replace_file(step.path, step.after, may_replace=lambda: _check_unchanged(step))


def _check_unchanged(step: Step) -> bool:
    """Return True.

    Raises:
        CannotWriteError: The file has changed since the step was planned.
    """
    if _read(step.path) != step.before:
        raise CannotWriteError(step.path, "was changed by another program", "the file is unchanged; try again")
    return True


def _read(path: Path) -> bytes | None:
    """Return the bytes of a file, None where there is none.

    Raises:
        CannotWriteError: It cannot be read, is not a regular file, or its folder is a link.
    """
    try:
        return disk.read_file(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise CannotWriteError(path, disk.reason(error), "nothing was changed") from error


def _is_plain(path: Path) -> bool:
    """Return whether a path is free or a regular file, in a folder that is not a link."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISDIR(path.parent.lstat().st_mode):
            return False
        return stat.S_ISREG(path.lstat().st_mode)
    return True


def diff(step: Step) -> str:
    """Return what a step changes in settings, as a unified diff; empty for other files."""
    if not step.has_diff:
        return ""
    # splitlines() of bytes ends a line where an editor does, not at other characters of Unicode.
    sides = ((data or b"").splitlines() for data in (step.before, step.after))
    old, new = ([line.decode("utf-8", "replace") for line in lines] for lines in sides)
    old_name, new_name = ("/dev/null" if data is None else str(step.path) for data in (step.before, step.after))
    return "\n".join(difflib.unified_diff(old, new, old_name, new_name, lineterm=""))
