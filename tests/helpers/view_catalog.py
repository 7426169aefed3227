"""Every view of the product by name, for the laws that hold for all of them. Commands import a view directly."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tallybook.projections.history.entry_history import entries_view
from tallybook.projections.history.reflections import REFLECTIONS
from tallybook.projections.history.review import PROPOSALS, reviews_view
from tallybook.projections.history.votes import VOTES
from tallybook.projections.playbook.entry import POLICIES
from tallybook.projections.playbook.fold import View
from tallybook.projections.playbook.view import playbook_view
from tallybook.projections.scores.lift import lift_view
from tallybook.projections.scores.view import scores_view

_NAMES = ("kpt_001", "kpt_002", "pat-001")

VIEWS: dict[str, Callable[[], View[Any]]] = {
    "playbook": playbook_view,
    **{f"playbook-{name}": partial(playbook_view, policy) for name, policy in POLICIES.items()},
    "entries": entries_view,
    "stories": partial(entries_view, _NAMES),
    "proposals": lambda: PROPOSALS,
    "reviews": reviews_view,
    "votes": lambda: VOTES,
    "reflections": lambda: REFLECTIONS,
}
"""Name → what makes the view. To add a view, add a row here."""

CONFIGURED_VIEWS: dict[str, Callable[..., View[Any]]] = {"scores": scores_view, "lift": lift_view}
"""Name → what makes a view of a configuration of the scores."""
