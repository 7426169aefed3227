"""Every view by name: what it tells, and what makes it. The laws in tests/test_projections_laws.py run over it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import attrs

from tallybook.projections.comparison.bisection import search_view
from tallybook.projections.comparison.conditions import parse
from tallybook.projections.comparison.diff import departures_view
from tallybook.projections.comparison.whatif import Without, alternative_view
from tallybook.projections.entry_history.audit import audit_view
from tallybook.projections.entry_history.status import standing_view
from tallybook.projections.playbook.aging import aged_view
from tallybook.projections.playbook.prune import POLICIES, SPEC_POLICY
from tallybook.projections.playbook.view import playbook_view
from tallybook.projections.reflections import reflections_view
from tallybook.projections.scores.reports.drop_causes import leads_view
from tallybook.projections.scores.view import scores_view

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallybook.projections.fold import View


@attrs.frozen
class Listed:
    """A view in the catalog.

    Attributes:
        about: What it tells, in one line.
        make: Makes the view; takes the name of an entry where ``of_entry`` says so, the configuration of the scores
            where ``by_config`` does, else nothing.
        of_entry: Whether there is one such view for each entry.
        by_config: Whether what it shows depends on that configuration.
    """

    about: str
    make: Callable[..., View[Any]]
    of_entry: bool = False
    by_config: bool = False


_WITHOUT = Without(sessions=frozenset({"s1"}), raters=frozenset({"reflector"}))
_TIMES = ("1970-01-01T00:00:01", "2100-01-01")
_EXAMPLE = parse("count > 1 and not pruned(kpt_001)")

VIEWS: dict[str, Listed] = {
    "playbook": Listed("the key points that stand, with their counts", playbook_view),
    "departures": Listed("the playbook, and how each entry that is out of it left", departures_view),
    **{
        f"playbook-{name}": Listed(f"the same under the policy {name}", partial(playbook_view, policy))
        for name, policy in POLICIES.items()
        if policy is not SPEC_POLICY
    },
    "playbook-aged": Listed("the same where a rating counts half after 90 days", aged_view),
    "alternative": Listed(
        "the playbook as it is, and as it would be without some of its events",
        partial(alternative_view, without=_WITHOUT),
    ),
    "search": Listed("since when a condition on the playbook holds", partial(search_view, _EXAMPLE)),
    "audit": Listed("the whole story of one entry", audit_view, of_entry=True),
    "standing": Listed("how every name that ever was stands, and the event that last changed it", standing_view),
    "scores": Listed("what was measured of every session, and what it scores", scores_view, by_config=True),
    "leads": Listed("what changed in the playbook between two times", partial(leads_view, *_TIMES)),
    "reflections": Listed("which sessions are owed a reflection, and what reflection has cost", reflections_view),
}
"""Name → the view. To add one: a module beside this, and a row here."""
