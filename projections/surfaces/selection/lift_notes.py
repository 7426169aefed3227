"""What other answers say of lift: `why`, `show --lift`, `score --blame`, `what-if` and the page; nothing if unasked."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from tallybook.ledger.fast_stdlib import import_lazily
from tallybook.projections.surfaces.history import reading

if TYPE_CHECKING:
    from tallybook.projections.surfaces.history.moments import Moment
    from tallybook.projections.surfaces.scores import configuration
    from tallybook.projections.surfaces.selection import lift_questions
    from tallybook.projections.surfaces.workspace.project import Project
else:
    # They load the modules of the scores, and most ledgers have no question.
    configuration, lift_questions = import_lazily(
        "tallybook.projections.surfaces.scores.configuration",
        "tallybook.projections.surfaces.selection.lift_questions",
    )

_ASKED: Final = b'"kind":"lift.asked"'


def was_asked(project: Project) -> bool:
    """Say whether a ledger may have a question."""
    return reading.open_own_log(project).may_contain(_ASKED)


def entry_lines(project: Project, name: str, moment: Moment | None = None) -> list[str]:
    """Return what lift knows of an entry as of a moment, in a line."""
    if not was_asked(project):
        return []
    line = lift_questions.entry_line(lift_questions.load_state(project, moment), name)
    return [f"Lift: {line}."] if line else []


def summary_lines(project: Project, moment: Moment | None = None) -> list[str]:
    """Return what lift knows as of a moment, a line for each unit of each question."""
    if not was_asked(project):
        return []
    return [f"lift: {line}" for line in lift_questions.summary_lines(lift_questions.load_state(project, moment))]


def hurting_names(project: Project, moment: Moment | None = None) -> frozenset[str]:
    """Return the entries of which lift says that they hurt, by themselves or as one of the new entries."""
    return (
        lift_questions.hurting_names(lift_questions.load_state(project, moment)) if was_asked(project) else frozenset()
    )


def page_section(project: Project) -> str:
    """Return the section of the page that says how sessions go and what lift knows; empty where there is neither."""
    lines = (*filter(None, [configuration.line(project)]), *summary_lines(project))
    items = "".join(f"<li>{escape(line.removeprefix('lift: '))}</li>" for line in lines)
    if not items:
        return ""
    title = '<h2 id="lift-title">Does it help?</h2>'
    return f'<section id="lift" aria-labelledby="lift-title">{title}<ul>{items}</ul></section>'
