"""Where everything gets its scores from: the one function that folds them out of a project's ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projections.scores.view import scores_view
from projections.surfaces import commands
from projections.voids import fold_history

if TYPE_CHECKING:
    from projections.scores.config import Config
    from projections.scores.view import Scores
    from projections.surfaces.project import Project
    from projections.surfaces.when import Moment


def state_of(project: Project, config: Config, when: str | Moment | None = None) -> Scores:
    """Return the scores of a project, counted, now or as they stood.

    Args:
        project: Whose ledger.
        config: What scores are made of.
        when: The moment; None for the end of the ledger.
    """
    history, until = commands.up_to(project, when)
    return fold_history(scores_view(config), history, until).count()
