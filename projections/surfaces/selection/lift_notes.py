"""What other answers say of lift: `why`, `show --lift`, `score --blame`, `what-if` and the page; nothing if unasked."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from tallybook.ledger.fast_stdlib import import_lazily
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from tallybook.projections.lift import Lift
    from tallybook.projections.surfaces.history.moments import Moment
    from tallybook.projections.surfaces.scores import configuration
    from tallybook.projections.surfaces.selection import lift_questions
else:
    # They load the modules of the scores, and most ledgers have no question.
    configuration, lift_questions = import_lazily(
        "tallybook.projections.surfaces.scores.configuration",
        "tallybook.projections.surfaces.selection.lift_questions",
    )

_ASKED: Final = b'"kind":"lift.asked"'


def _load(project: Project, moment: Moment | None) -> Lift | None:
    """Return the questions of a ledger as of a moment, None where it has none."""
    has_question = reading.open_own_log(project).may_contain(_ASKED)
    return lift_questions.load_state(project, moment) if has_question else None


def entry_lines(project: Project, name: str, moment: Moment | None = None) -> list[str]:
    """Return what lift knows of an entry as of a moment, in a line."""
    state = _load(project, moment)
    line = "" if state is None else lift_questions.entry_line(state, name)
    return [f"Lift: {line}."] if line else []


def summary_lines(project: Project, moment: Moment | None = None) -> list[str]:
    """Return what lift knows as of a moment, a line for each unit of each question."""
    state = _load(project, moment)
    return [] if state is None else [f"lift: {line}" for line in lift_questions.summary_lines(state)]


def hurting_names(project: Project, moment: Moment | None = None) -> frozenset[str]:
    """Return the entries of which lift says that they hurt, by themselves or as one of the new entries."""
    state = _load(project, moment)
    return frozenset() if state is None else lift_questions.hurting_names(state)


def page_section(project: Project) -> str:
    """Return the section of the page that says how sessions go and what lift knows; empty where there is neither."""
    lines = (*filter(None, [configuration.line(project)]), *summary_lines(project))
    items = "".join(f"<li>{escape(line.removeprefix('lift: '))}</li>" for line in lines)
    if not items:
        return ""
    title = '<h2 id="lift-title">Does it help?</h2>'
    return f'<section id="lift" aria-labelledby="lift-title">{title}<ul>{items}</ul></section>'
