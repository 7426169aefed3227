"""The steps of ``init`` and ``uninstall``, one per file: planned first, shown, and then made one by one."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
import contextlib
import difflib
import json
import os
from pathlib import Path
from typing import Final

import attrs

from tallybook.ledger.errors import BadInputError, CannotWriteError, TallybookError
from tallybook.ledger.storage import disk
from tallybook.projections.surfaces.agents import table
from tallybook.projections.surfaces.console.output import format_count
from tallybook.projections.surfaces.install import hook_entries, places
from tallybook.projections.surfaces.install.places import UNCHANGED, Installation, InstallTarget
from tallybook.projections.surfaces.workspace import git
from tallybook.projections.surfaces.workspace.project import Project, repository_folders

BACKUP: Final = ".before-tallybook"
"""The end of the name of a backup, after the name of the settings."""
_CHANGED: Final = "differs from what this version writes, so it is yours"
LEFT: Final = "left"


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


def write_step(path: Path, before: bytes | None, after: bytes, why: str = "") -> Step:
    """Return the step that gives a file these bytes."""
    if before == after:
        return Step(path, LEFT, why or "is as it should be", before, after)
    return Step(path, "created" if before is None else "changed", why, before, after)


def take(step: Step, bases: Collection[Path] = ()) -> None:
    """Take a step; folders between its file and a base that are empty once it is deleted go as well.

    Raises:
        CannotWriteError: The file has changed since the step was planned, or cannot be written.
        OutcomeUnknownError: The disk did not confirm the write.
    """
    if step.result == LEFT:
        return

    def is_unchanged() -> bool:
        return read(step.path) == step.before

    # An agent may write its settings between the look and the write.
    if step.after is not None:
        disk.make_folder(step.path.parent)
        is_done = disk.replace_file(step.path, step.after, may_replace=is_unchanged)
    elif is_done := is_unchanged():
        step.path.unlink()
    if not is_done:
        raise CannotWriteError(step.path, "was changed by another program", "the file is unchanged; try again")
    # The system refuses to remove a folder that is not empty.
    with contextlib.suppress(OSError):
        for folder in step.path.parents:
            if folder in bases or not any(base in folder.parents for base in bases):
                break
            folder.rmdir()


def read(path: Path) -> bytes | None:
    """Return the bytes of a file, None where there is none.

    Raises:
        CannotWriteError: It cannot be read, is not a regular file, or its folder is a link.
    """
    try:
        return disk.read_file(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise CannotWriteError(path, disk.reason(error), UNCHANGED) from error


def is_plain(path: Path) -> bool:
    """Return whether a path is free or a regular file, and leads through no link."""
    return os.path.realpath(path) == str(path) and (path.is_file() or not os.path.lexists(path))


def diff(step: Step) -> str:
    """Return what a step changes in settings, as a unified diff; empty for other files."""
    if not step.has_diff:
        return ""
    # splitlines() of bytes ends a line where an editor does, not at other characters of Unicode.
    sides = ((data or b"").splitlines() for data in (step.before, step.after))
    old, new = ([line.decode("utf-8", "replace") for line in lines] for lines in sides)
    old_name, new_name = ("/dev/null" if data is None else str(step.path) for data in (step.before, step.after))
    return "\n".join(difflib.unified_diff(old, new, old_name, new_name, lineterm=""))


# Which agents


def find_installed(target: InstallTarget) -> list[str]:
    """Return the agents whose settings call Tallybook; settings that cannot be read do not."""
    installed = []
    for name, files in places.FILES.items():
        with contextlib.suppress(TallybookError):
            document = places.read_document(places.settings_file(target, files))
            installed += [name] if hook_entries.own_calls(document, files) else []
    return installed


# Installing


def install(target: InstallTarget, names: Sequence[str]) -> tuple[Step, ...]:
    """Return the steps of an installation.

    The settings of each agent come last, because they make it use the other files.

    Args:
        target: Where the installation goes.
        names: The agents.
    """
    agents = [places.FILES[name] for name in names]
    copied: dict[Path, bytes] = {}
    for files in agents:
        copied |= places.prompt_files(target, files)
    copied |= [places.config_file(target)]
    planned = [_install_file(path, data) for path, data in copied.items()]
    for files in agents:
        planned += _install_hooks(target, files)
    return tuple(planned)


def _install_hooks(target: InstallTarget, files: Installation) -> Iterator[Step]:
    path = places.settings_file(target, files)
    before = read(path)
    line = _find_kept_line(files, path, before)
    line = line or hook_entries.hook_command(is_shared=git.is_tracked(path, unknown=True), is_kept=files.keeps_line)
    after = hook_entries.install(before, files, line, str(path))
    # Settings that have our hooks already, of an earlier version, are not what they were before Tallybook.
    if before not in {None, after} and not hook_entries.own_commands(before, files, str(path)):
        backup = _backup(target, files)
        if not is_plain(backup):
            raise CannotWriteError(backup, "is not a regular file", f"move it away; {UNCHANGED}")
        if read(backup) is None:
            yield Step(backup, "created", "the settings as they were", None, before)
        else:
            yield Step(backup, LEFT, "a backup from before, kept as it is")
    events = format_count(len(files.events), "event")
    why = "has the hooks already" if before == after else f"calls Tallybook at {events} of {files.title}"
    yield attrs.evolve(write_step(path, before, after, why), has_diff=True)


def _find_kept_line(files: Installation, path: Path, before: bytes | None) -> str:
    """Return the line of an agent that would distrust another one, if it works; empty without one."""
    if not files.keeps_line or before is None:
        return ""
    for line in hook_entries.own_commands(before, files, str(path)):
        call = hook_entries.call_of(line)
        if call is None or call.python or not call.is_plain:
            continue
        # A path of this machine does not stay in a file that others read.
        is_named = call.program == hook_entries.COMMAND
        if is_named if git.is_tracked(path, unknown=True) else not hook_entries.find_fault(call)[0]:
            return line
    return ""


def remarks(target: InstallTarget, names: Sequence[str]) -> list[str]:
    """Return remarks on an installation, a line each."""
    found = [remark] if (remark := hook_entries.remark()) else []
    for name in names:
        files = places.FILES[name]
        path = places.settings_file(target, files)
        # A new worktree has the files that git tracks and no others.
        is_in_repository = target.folder is not None and repository_folders(os.path.realpath(target.folder))
        if name == table.CLAUDE and is_in_repository and not git.is_tracked(path, unknown=True):
            fix = "commit it and run `tallybook init` again, or run `tallybook init --user`"
            found.append(f"`claude --worktree` runs no hooks of {path} while git does not track it; {fix}")
        if files.remark:
            found.append(f"{files.title} {files.remark}")
    return found


def _backup(target: InstallTarget, files: Installation) -> Path:
    path = places.agent_folder(target, files) / files.file
    return path.with_name(path.name + BACKUP)


def _install_file(path: Path, data: bytes) -> Step:
    """Return the step for a packaged file; another file in its place is left."""
    # Nothing is written through a link: what it leads to may be another's file.
    if not is_plain(path):
        return Step(path, LEFT, "a link or something else than a file is in its place")
    before = read(path)
    return write_step(path, before, data) if before in {None, data} else Step(path, LEFT, _CHANGED)


# Uninstalling


def uninstall(target: InstallTarget, names: Collection[str]) -> Iterator[Step]:
    """Yield the steps that remove the installation of some agents, or of all where none is named.

    What agents share stays as long as another one has it.
    """
    here = find_installed(target)
    leaving = [name for name in table.AGENTS if name in (names or table.AGENTS)]
    kept = [places.FILES[name] for name in here if name not in leaving]
    kept_paths = {file for files in kept for file in places.prompt_files(target, files)}
    for name in leaving:
        files, is_ours = places.FILES[name], name in {*here, *names, table.CLAUDE}
        try:
            yield from _uninstall_hooks(target, files)
        except CannotWriteError:
            # Nobody named this agent, and nothing of ours is known to be there.
            if is_ours:
                raise
        for file, packaged in places.prompt_files(target, files).items():
            if file not in kept_paths:
                kept_paths.add(file)
                yield from _delete_file(file, packaged, is_ours=is_ours)
    if not kept:
        yield from _delete_file(*places.config_file(target), is_ours=True)
        yield from () if target.project is None else exclusions(target.project, remove=True)


def _delete_file(path: Path, data: bytes, *, is_ours: bool) -> Iterator[Step]:
    if not is_plain(path) or (current := read(path)) is None:
        return
    if current == data:
        yield Step(path, "deleted", before=current)
    elif is_ours:
        # A file that somebody has changed is theirs.
        yield Step(path, LEFT, _CHANGED)


def _uninstall_hooks(target: InstallTarget, files: Installation) -> Iterator[Step]:
    """Yield the steps for the settings: back to the backup if nothing else changed, or else only without our hooks."""
    path = places.settings_file(target, files)
    before = read(path) or b""
    backup = _backup(target, files)
    saved = read(backup) if is_plain(backup) else None
    delete_backup = Step(backup, "deleted", "no longer needed", saved)
    # Settings of other agents may be in a form that is not read.
    own = hook_entries.own_commands(before, files, str(path)) if hook_entries.COMMAND.encode() in before else []
    if not own:
        yield from [delete_backup] if saved == before else ()
        return
    after = hook_entries.remove(before, files, str(path))
    # Without a backup the file came with the hooks, and goes with them unless others added to it.
    data, original = json.dumps(files.document).encode() if saved is None else saved, None
    # A backup that is not readable is not put back.
    with contextlib.suppress(BadInputError):
        # Empty lists and objects of the original went with our hooks.
        original = hook_entries.read(hook_entries.remove(data, files, str(backup)), files, str(backup))
    if hook_entries.read(after, files, str(path)) == original:
        result = "deleted" if saved is None else "restored"
        yield Step(path, result, "as it was before", before, saved, has_diff=True)
        yield from [delete_backup] if saved is not None else ()
        return
    if after != before:
        yield Step(path, "changed", "the hooks are removed, the rest stays", before, after, has_diff=True)
    if own := hook_entries.own_commands(after, files, str(path)):
        yield Step(path, LEFT, f"`{own[0]}` does more than call Tallybook; remove it yourself")
    if saved is not None:
        yield Step(backup, LEFT, "not put back, as more than our hooks would change")


# What git ignores


def exclusions(project: Project, *, remove: bool = False) -> tuple[Step, ...]:
    """Return the step that makes git ignore ``playbook.json`` in this clone, or removes that; none without git."""
    path = git.exclude_file(project)
    if path is None:
        return ()
    before, patterns = read(path), git.exclude_patterns(project)
    if not remove:
        after = git.with_patterns(before or b"", patterns)
        return (write_step(path, before, after, "git ignores playbook.json in this clone"),)
    after = git.without_patterns(before or b"", patterns)
    is_same = after == (before or b"")
    return () if is_same else (Step(path, "changed", "the lines of Tallybook are removed", before, after),)
