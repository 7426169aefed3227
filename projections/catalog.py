"""The catalog of views for the tests: `tests/test_projections_laws.py` folds each under the same laws.

Commands import a view directly.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import attrs

from tallybook.projections.comparison.whatif import Exclusion, alternative_view
from tallybook.projections.entry_history.view import entries_view
from tallybook.projections.lift.view import lift_view
from tallybook.projections.playbook.aging import aged_view
from tallybook.projections.playbook.prune import POLICIES, SPEC_POLICY
from tallybook.projections.playbook.view import playbook_view
from tallybook.projections.proposals import PROPOSALS
from tallybook.projections.reflections import REFLECTIONS
from tallybook.projections.review import reviews_view
from tallybook.projections.scores.drops import leads_view
from tallybook.projections.scores.view import scores_view
from tallybook.projections.votes import VOTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallybook.projections.fold import View


@attrs.frozen
class CatalogRow:
    """A view in the catalog.

    Attributes:
        about: What it shows, in one line.
        make: Makes the view; takes the configuration of the scores where ``by_config`` is set, else nothing.
        by_config: Whether it depends on the configuration of the scores.
    """

    about: str
    make: Callable[..., View[Any]]
    by_config: bool = False


_WITHOUT = Exclusion(sessions=frozenset({"s1"}), raters=frozenset({"reflector"}))
_TIMES = ("1970-01-01T00:00:01", "2100-01-01")
_NAMES = ("kpt_001", "kpt_002", "pat-001")

VIEWS: dict[str, CatalogRow] = {
    "playbook": CatalogRow("the entries of the playbook, with their counts", playbook_view),
    **{
        f"playbook-{name}": CatalogRow(f"the same under the policy {name}", partial(playbook_view, policy))
        for name, policy in POLICIES.items()
        if policy is not SPEC_POLICY
    },
    "playbook-aged": CatalogRow("the same where a rating counts half after 90 days", aged_view),
    "alternative": CatalogRow(
        "the playbook as it is, and as it would be without some of its events",
        partial(alternative_view, without=_WITHOUT),
    ),
    "entries": CatalogRow("the status of every name ever used, and the event that last changed it", entries_view),
    "stories": CatalogRow("the same with the whole stories of several entries", partial(entries_view, _NAMES)),
    "scores": CatalogRow("the measurements and scores of every session", scores_view, by_config=True),
    "lift": CatalogRow("what was asked about the playbook, and what was drawn for it", lift_view, by_config=True),
    "leads": CatalogRow("what changed in the playbook between two times", partial(leads_view, *_TIMES)),
    "proposals": CatalogRow("the proposed changes that nobody has decided yet", lambda: PROPOSALS),
    "reviews": CatalogRow("which entries sessions were given and cited, and decisions about them", reviews_view),
    "votes": CatalogRow("which entries each lineage of sessions rated and cited", lambda: VOTES),
    "reflections": CatalogRow("which sessions await reflection, and the tokens spent", lambda: REFLECTIONS),
}
"""Name → view. To add a view, write a module in the folder of its subject and add a row here."""
