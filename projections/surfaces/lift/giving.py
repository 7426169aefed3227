"""What is given out in a session by other ways than hooks: it obeys the session's draw."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from tallybook.ledger.errors import TallybookError
from tallybook.ledger.events import Numbers, PlaybookInjected
from tallybook.ledger.fast_stdlib import dumps
from tallybook.projections.surfaces.hooks import citations, draws, injection
from tallybook.projections.surfaces.workspace import settings
from tallybook.projections.surfaces.writing import record
from tallybook.projections.surfaces.writing.requests import PlainEvents, Request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tallybook.projections.surfaces.workspace.project import Project


def withheld(project: Project, session: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return which entries of a playbook a session is not given."""
    return draws.draw(project, session, names, len(names), settings.read(project).hold).held


def record_given(project: Project, session: str, selected: Sequence[str], candidates: Sequence[str]) -> tuple[str, ...]:
    """Record that a session was given what was selected, and return what its draw withholds of it.

    Nothing is recorded where no question is open and the session was given all of it before. A session whose lineage no
    hook began is given all, without a draw, and does not count.
    """
    # A citation counts only for what a session was given, so that what this gives is recorded where it is new.
    if draws.read_question(project) is None and citations.find_given(project, session, selected).issuperset(selected):
        return ()
    drawn = draws.draw(project, session, selected, len(candidates), settings.read(project).hold)
    event = PlaybookInjected(
        # A place stays empty: refilled, an entry without effect seemed to hurt in 80 of 80 simulated histories.
        tuple(name for name in selected if name not in drawn.held),
        drawn.held,
        Numbers({"room": len(candidates) - len(selected)}),
        None,
        injection.digest(dumps(list(candidates))),
        drawn.question,
        drawn.lineage,
        drawn.units,
        drawn.probability,
    )
    # An answer does not wait for the ledger.
    with suppress(TallybookError):
        record.write(project, [Request(PlainEvents((event,)), {"rater": "tallybook", "session": session})])
    return drawn.held
