"""Rebuilding the score files from the ledger, and comparing them with it. Light to load: every replay imports it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tallybook.ledger.errors import BadInputError, TallybookError
from tallybook.ledger.events import KIND_OF, BenchmarkRecorded, FeedbackRecorded, MetricsRecorded, SessionEnded
from tallybook.ledger.storage import disk
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.console.output import format_count
from tallybook.projections.surfaces.history.reading import open_own_log
from tallybook.projections.surfaces.scores.configuration import PLACE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallybook.projections.scores.view import Scores
    from tallybook.projections.surfaces.scores.files import Written
    from tallybook.projections.surfaces.workspace.project import Project

SCORED: Final = (MetricsRecorded, BenchmarkRecorded, FeedbackRecorded, SessionEnded)
"""Events that are scored by every configuration."""
_FOREIGN_SHOWN: Final = 5


def has_scores(project: Project) -> bool:
    """Return whether anything may be scored, without decoding the ledger and without loading the scores.

    With a configuration of the project's own, events of the playbook may be scored as well.
    """
    log = open_own_log(project)
    has_scored_events = any(log.may_contain(f'"kind":"{KIND_OF[kind]}"'.encode()) for kind in SCORED)
    return has_scored_events or (project.root / PLACE).exists()


def rebuild(project: Project) -> Iterator[str]:
    """Write every score file that differs from the ledger, and yield what to report, a line each.

    Raises:
        TallybookError: The configuration is invalid, or a file cannot be written.
    """
    if not has_scores(project):
        return
    from tallybook.projections.surfaces.scores import files

    result = files.rebuild(project, _state(project))
    if result.written or result.deleted:
        yield f"{result.folder}: {format_count(result.written, 'score file')} written, {result.deleted} deleted"
    yield from _remarks(result)


def check(project: Project) -> None:
    """Compare the score files with the ledger.

    Raises:
        DriftError: Some are missing, or differ.
    """
    if not has_scores(project):
        return
    from tallybook.projections.surfaces.scores import files

    state = _state(project)
    places = files.differing(project, state)
    if places:
        others = f", and {format_count(len(places) - 1, 'more such file')}" if len(places) > 1 else ""
        folder = files.folder_of(project, state.config.storage.path)
        raise commands.DriftError(folder / places[0], f"is missing or differs from the ledger{others}")


def refresh(project: Project, state: Scores) -> Iterator[str]:
    """Write the score files that are out of date, and yield what to report, a line each.

    A file that cannot be written is reported and is not an error: the caller asked for scores, not for files.

    Raises:
        BadInputError: The configuration names a folder that cannot be used.
    """
    from tallybook.projections.surfaces.scores import files

    try:
        yield from _remarks(files.bring_up_to_date(project, state))
    except BadInputError:
        raise
    except (TallybookError, OSError) as error:
        # Nothing was to be recorded, so that part of the message would only confuse.
        why = disk.reason(error) if isinstance(error, OSError) else str(error).partition("; nothing was recorded")[0]
        yield f"the score files are not up to date: {why}"


def _state(project: Project) -> Scores:
    from tallybook.projections.surfaces.scores import configuration
    from tallybook.projections.surfaces.scores.answers import state_of

    return state_of(project, configuration.load(project))


def _remarks(result: Written) -> Iterator[str]:
    for place in result.foreign[:_FOREIGN_SHOWN]:
        yield f"{result.folder / place} is not a score file of Tallybook's and was left as it is"
    if len(result.foreign) > _FOREIGN_SHOWN:
        yield f"{len(result.foreign) - _FOREIGN_SHOWN} more such files"
    for former in result.former:
        yield f"{former}: score files of an earlier storage.path stay as they are; delete them if nothing reads them"
