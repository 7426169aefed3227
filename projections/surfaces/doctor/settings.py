"""The doctor's checks of choices: whose ledger is used, the settings files, the configuration of the scores."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tallybook.ledger.errors import BadInputError, CannotWriteError
from tallybook.projections.surfaces.doctor.finding import BAD, NOTE, OK, Finding, format_names
from tallybook.projections.surfaces.history.reading import open_log
from tallybook.projections.surfaces.scores.configuration import PLACE
from tallybook.projections.surfaces.workspace import settings
from tallybook.projections.surfaces.workspace.project import (
    CLAUDE,
    SETTINGS_PLACE,
    Project,
    has_own_ledger,
    is_cut_off,
    main_worktree,
    repository_folders,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallybook.projections.surfaces.doctor.finding import Context

_DEFAULT_FOLDER = f"{CLAUDE}/metrics/scores"
"""Folder of the score files where the configuration names no other."""

_OWN_LEDGER = "`own = true` in the section `[ledger]` of {}"


def check_folder(context: Context) -> Iterator[Finding]:
    """Say whose ledger is used where it is another folder's, and warn of a second ledger in a linked worktree."""
    root = context.project.root.resolve()
    start = (context.project.start or root).resolve()
    folders = repository_folders(str(start))
    top = Path(folders[-1]) if folders else None
    findings = [*_shared_ledger(root, start, top), *_second_ledger(root, top)]
    if top is not None and is_cut_off(str(top)):
        message = f"{top} is a linked worktree that no repository lists, so it shares no ledger"
        findings.append(Finding(NOTE, message, "if it or the repository was moved, run `git worktree repair` in it"))
    yield from findings or [Finding(OK, "its own ledger is used")]


def _shared_ledger(root: Path, start: Path, top: Path | None) -> Iterator[Finding]:
    """Name the project where it is another folder than the one that the search for it began in."""
    if root == start:
        return
    if top is None:
        yield Finding(NOTE, f"the ledger of {root}, which contains this folder, is used")
        return
    shares = str(root) == main_worktree(str(top))
    whose = "the main worktree of this repository" if shares else "which contains this folder"
    fix = f"{_OWN_LEDGER.format(_settings_of(top if shares else start))} gives this folder its own"
    yield Finding(NOTE, f"the ledger of {root}, {whose}, is used", fix)


def _second_ledger(root: Path, top: Path | None) -> Iterator[Finding]:
    """Warn where a repository has two ledgers and no setting asks for the second."""
    main = main_worktree(str(top)) if top is not None else ""
    has_two = main and str(root) != main and _has_ledger(root) and _has_ledger(Path(main))
    if has_two and not has_own_ledger(_settings_of(root)):
        message = f"{root}, in a linked worktree, has a ledger of its own, and {main} has one as well"
        fix = f"{_OWN_LEDGER.format(_settings_of(root))} confirms that; else move its {CLAUDE}/ledger away"
        yield Finding(NOTE, message, fix)


def _settings_of(folder: Path) -> Path:
    return folder / CLAUDE / SETTINGS_PLACE


def _has_ledger(folder: Path) -> bool:
    try:
        return open_log(Project(folder)).exists()
    except CannotWriteError:
        return False


def _refused_spending(path: str, loaded: settings.SettingsFile) -> list[str]:
    """Return the settings by which a project's file would spend more than the user's own file allows."""
    users = settings.users_file()
    own = settings.merge({users: settings.load(users)})
    return [
        f"[reflection] {field}"
        for field, narrows in settings.SPENDING.items()
        if path != users and field in loaded.values and not narrows(loaded.values[field], getattr(own, field))
    ]


def check_settings(context: Context) -> Iterator[Finding]:
    """Name what is ignored in the settings files."""
    findings = []
    for path in settings.files(context.project):
        loaded = settings.load(path)
        findings += [
            Finding(BAD, str(problem), "correct it; until then the default counts") for problem in loaded.wrong
        ]
        if loaded.unknown:
            fix = "correct or remove it; `tallybook init` writes a commented file with every setting"
            findings.append(Finding(NOTE, f"{path}: there is no setting {format_names(loaded.unknown)}", fix))
        if refused := _refused_spending(path, loaded):
            fix = f"set it in {settings.users_file()}; a project may only turn reflection off or lower its cost"
            findings.append(Finding(NOTE, f"{path}: {format_names(refused)} does not count here", fix))
        if path == settings.users_file() and has_own_ledger(path):
            fix = "move it into the settings of the folder that needs its own ledger"
            findings.append(Finding(NOTE, f"{path}: [ledger] own counts for one folder and not for a user", fix))
    yield from findings or [Finding(OK, "every setting counts")]


def check_scores(context: Context) -> Iterator[Finding]:
    """Check the project's own configuration of the scores, and the folder of the score files.

    A configuration with a mistake scores nothing until it is corrected.
    """
    if not any(os.path.lexists(context.project.root / path) for path in (PLACE, _DEFAULT_FOLDER)):
        yield Finding(OK, "the packaged configuration is used")
        return
    # PyYAML takes a while to import, so projects without a configuration skip it.
    from tallybook.projections.surfaces.scores import configuration, files

    try:
        folder = files.folder_of(context.project, configuration.load(context.project).storage.path)
    except BadInputError as error:
        message, _, fix = str(error).partition("; ")
        yield Finding(BAD, message, f"{fix or 'correct it'}; until then `score`, `gate` and `baseline` fail")
    else:
        if others := files.find_foreign(folder):
            yield Finding(
                NOTE,
                f"{folder}: {format_names(others)} is not a score file of Tallybook",
                "it is never changed or deleted",
            )
        yield Finding(OK, f"{configuration.PLACE} is valid")
