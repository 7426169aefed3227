"""The doctor's checks of choices: whose ledger is used, settings, the configuration of the scores, a shared book."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tallybook.ledger.errors import BadInputError, CannotWriteError
from tallybook.ledger.sharing import replica
from tallybook.ledger.verification import verify
from tallybook.projections.surfaces.doctor.finding import BAD, NOTE, OK, Finding, format_names
from tallybook.projections.surfaces.history.reading import log_with_book, open_log
from tallybook.projections.surfaces.scores.configuration import PLACE
from tallybook.projections.surfaces.sharing import membership
from tallybook.projections.surfaces.sharing.engines import ENGINES
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
    from tallybook.projections.surfaces.sharing.membership import Membership
    from tallybook.projections.surfaces.sharing.shared_log import SharedLog

_OWN_LEDGER = "`own = true` in the section `[ledger]` of {}"


def check_folder(context: Context) -> Iterator[Finding]:
    """Say whose ledger is used where it is another folder's, and warn of a second ledger in a linked worktree."""
    root = context.project.root.resolve()
    start = (context.project.start or root).resolve()
    folders = repository_folders(str(start))
    top = Path(folders[-1]) if folders else None
    yield from _shared_ledger(root, start, top)
    yield from _second_ledger(root, top)
    if top is not None and is_cut_off(str(top)):
        message = f"{top} is a linked worktree that no repository lists, so it shares no ledger"
        yield Finding(NOTE, message, "if it or the repository was moved, run `git worktree repair` in it")


def _shared_ledger(root: Path, start: Path, top: Path | None) -> Iterator[Finding]:
    """Name the project where it is another folder than the one that the search for it began in."""
    if root == start:
        return
    shares = top is not None and str(root) == main_worktree(str(top))
    whose = "the main worktree of this repository" if shares else "which contains this folder"
    fix = f"{_OWN_LEDGER.format(_settings_of(top if top and shares else start))} gives this folder its own"
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
    for path in settings.files(context.project):
        loaded = settings.load(path)
        for problem in loaded.wrong:
            yield Finding(BAD, str(problem), "correct it; until then the default counts")
        if loaded.unknown:
            fix = "correct or remove it; `tallybook init` writes a commented file with every setting"
            yield Finding(NOTE, f"{path}: there is no setting {format_names(loaded.unknown)}", fix)
        if refused := _refused_spending(path, loaded):
            fix = f"set it in {settings.users_file()}; a project may only turn reflection off or lower its cost"
            yield Finding(NOTE, f"{path}: {format_names(refused)} does not count here", fix)
        if path == settings.users_file() and has_own_ledger(path):
            fix = "move it into the settings of the folder that needs its own ledger"
            yield Finding(NOTE, f"{path}: [ledger] own counts for one folder and not for a user", fix)


def check_scores(context: Context) -> Iterator[Finding]:
    """Check the project's own configuration of the scores: with a mistake it scores nothing until it is corrected."""
    # PyYAML takes a while to import, so projects without a configuration skip it.
    if not os.path.lexists(context.project.root / PLACE):
        return
    from tallybook.projections.surfaces.scores import configuration, files

    try:
        files.folder_of(context.project, configuration.load(context.project).storage.path)
    except BadInputError as error:
        message, _, fix = str(error).partition("; ")
        yield Finding(
            BAD, message, f"{fix or 'correct it'}; until then `score`, `score gate` and `score baseline` fail"
        )


def check_sharing(context: Context) -> Iterator[Finding]:
    """Check the part of a project in a shared book; a project that shares none is not mentioned."""
    log, part = open_log(context.project), membership.load(context.project)
    if log_with_book(log):
        yield from _check_copy(log, part)
    elif part is not None:
        yield Finding(NOTE, f"the book {part.name} was never taken in", "run `tallybook sync`")
    misfit = None if part is not None else membership.find_misfit(context.project)
    if misfit is not None:
        yield Finding(NOTE, f"nothing is sent or fetched here: {misfit[0]}", f"run: {misfit[1]}")
    elif part is None and log_with_book(log):
        why = "nothing is sent or fetched here: the ledger has a shared book, and no settings of this user share it"
        yield Finding(NOTE, why, "run: tallybook share ENGINE ADDRESS")


def _check_copy(log: SharedLog, part: Membership | None) -> Iterator[Finding]:
    """Verify the copy of the book, and that it has all that the playbook contains."""
    verdict, taken = verify(log.copy.log), log.history.frontier.seq
    for problem in verdict.problems:
        yield Finding(BAD, f"the copy of the book: {problem}", "run `tallybook sync`", is_damage=True)
    if not verdict.problems and verdict.head.seq < taken:
        message = f"the copy of the book ends at book:{verdict.head.seq}, and the playbook needs it up to book:{taken}"
        yield Finding(BAD, message, "run `tallybook sync`")
    if part is not None and part.engine not in ENGINES:
        yield Finding(BAD, f"{part.engine!r} is not an engine of this Tallybook", "upgrade, or share it anew")
    elif part is not None and replica.read_current(log.folder) is None:
        yield Finding(NOTE, "the note of the copy's place is missing", "run `tallybook sync`")
    elif part is not None:
        yield Finding(OK, f"book {part.name} in {part.engine} up to book:{log.history.frontier.seq}")
