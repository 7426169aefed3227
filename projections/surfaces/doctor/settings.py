"""The doctor's checks of what people decide: the folder that is used, the settings, and what scores are made of."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tallybook.ledger.errors import BadInputError, CannotWriteError
from tallybook.projections.surfaces.doctor.finding import BAD, NOTE, OK, Finding, named
from tallybook.projections.surfaces.history.reading import open_log
from tallybook.projections.surfaces.scores.cli.score import OWN
from tallybook.projections.surfaces.workspace import settings, worktree
from tallybook.projections.surfaces.workspace.project import CLAUDE, Project

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallybook.projections.surfaces.doctor.finding import Patient

USUAL = f"{CLAUDE}/metrics/scores"
"""Where the score files lie where nobody says otherwise."""

SAYS_OWN = "`own = true` in the section `[ledger]` of {}"


def folder(patient: Patient) -> Iterator[Finding]:
    """Say whose ledger is used where it is another folder's, and where a worktree has one beside the main one's."""
    root = patient.project.root.resolve()
    start = (patient.project.start or root).resolve()
    folders = worktree.folders(str(start))
    top = Path(folders[-1]) if folders else None
    found = [*_elsewhere(root, start, top), *_beside(root, top)]
    if top is not None and worktree.is_cut_off(str(top)):
        what = f"{top} says that it is a linked worktree, and no repository knows it, so it shares no ledger"
        found.append(Finding(NOTE, what, "if one of them was moved, `git worktree repair` tells them"))
    yield from found or [Finding(OK, "its own ledger is used")]


def _elsewhere(root: Path, start: Path, top: Path | None) -> Iterator[Finding]:
    """Name the project where it is another folder than the one that the search began in."""
    if root == start:
        return
    if top is None:
        yield Finding(NOTE, f"the ledger of {root} is used, which this folder lies in")
        return
    shares = str(root) == worktree.main_of(str(top))
    whose = "the main worktree of this repository" if shares else "which this folder lies in"
    hint = f"{SAYS_OWN.format(_settings_of(top if shares else start))} gives it another"
    yield Finding(NOTE, f"the ledger of {root} is used, {whose}", hint)


def _beside(root: Path, top: Path | None) -> Iterator[Finding]:
    """Say where two ledgers are kept, and nobody decided that there shall be two."""
    main = worktree.main_of(str(top)) if top is not None else ""
    two = main and str(root) != main and _keeps_one(root) and _keeps_one(Path(main))
    if two and not worktree.says_own(_settings_of(root)):
        what = f"{root}, in a linked worktree, keeps a ledger of its own beside that of {main}"
        hint = f"{SAYS_OWN.format(_settings_of(root))} says that it shall; else move {CLAUDE}/ledger in it away"
        yield Finding(NOTE, what, hint)


def _settings_of(folder: Path) -> Path:
    return folder / CLAUDE / worktree.SETTINGS


def _keeps_one(folder: Path) -> bool:
    try:
        return open_log(Project(folder)).exists()
    except CannotWriteError:
        return False


def _wider(path: str, found: settings.Found) -> list[str]:
    """Return what a project's file would spend beyond what the user's own says."""
    users = settings.users_file()
    own = settings.in_force({users: settings.load(users)})
    return [
        f"[reflection] {field}"
        for field, narrows in settings.SPENDING.items()
        if path != users and field in found.values and not narrows(found.values[field], getattr(own, field))
    ]


def in_force(patient: Patient) -> Iterator[Finding]:
    """Name what stands in the settings files and does not count."""
    found = []
    for path in settings.files(patient.project):
        one = settings.load(path)
        found += [Finding(BAD, str(problem), "mend it: until then it does not count") for problem in one.wrong]
        if one.unknown:
            hint = "a later Tallybook may know it, or it is misspelt; the README lists those there are"
            found.append(Finding(NOTE, f"{path}: nothing here is called {named(one.unknown)}", hint))
        if wider := _wider(path, one):
            hint = f"what costs is chosen in {settings.users_file()}; a project turns it off or lowers it"
            found.append(Finding(NOTE, f"{path}: {named(wider)} does not count here", hint))
        if path == settings.users_file() and worktree.says_own(path):
            hint = "put it into the settings of the folder that is to keep its own"
            found.append(Finding(NOTE, f"{path}: [ledger] own counts for one folder, and not for a user", hint))
    yield from found or [Finding(OK, "nothing in them but what counts")]


def scores(patient: Patient) -> Iterator[Finding]:
    """Say what is wrong in the project's own configuration of the scores, and what lies among their files.

    Until a mistake there is mended nothing is scored.
    """
    if not any(os.path.lexists(patient.project.root / path) for path in (OWN, USUAL)):
        yield Finding(OK, "scored as the packaged configuration has it")
        return
    # YAML is read where there is some, and nowhere else.
    from tallybook.projections.surfaces.scores import configuration, files

    try:
        folder = files.folder_of(patient.project, configuration.load(patient.project).path)
    except BadInputError as error:
        what, _, hint = str(error).partition("; ")
        yield Finding(BAD, what, f"{hint or 'mend it'}; until then `score`, `gate` and `baseline` answer nothing")
    else:
        if others := files.strangers(folder):
            yield Finding(NOTE, f"{folder}: {named(others)} is none of Tallybook's score files", "it stays as it is")
        yield Finding(OK, f"{configuration.PLACE} can be taken")
