"""A playbook as a dict that remembers its origin and every update since, so that ``compat`` can save both."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

from tallybook.ledger import clock
from tallybook.ledger.decisions.legacy_import import read_legacy
from tallybook.ledger.decisions.update import (
    decide_extraction,
    rating_fault,
    read_entries,
    read_extraction,
    text_fault,
)
from tallybook.ledger.errors import BadInputError
from tallybook.ledger.events import Entry, PointAdded, PointRated
from tallybook.ledger.names import is_usable_name, parse_number
from tallybook.ledger.playbook_constants import STAMP, UNTIL
from tallybook.projections.playbook import render
from tallybook.projections.playbook.entry_state import add_rating
from tallybook.projections.playbook.prune import SPEC_POLICY
from tallybook.projections.playbook.view import Playbook
from tallybook.projections.surfaces.writing.diagnostics import Told
from tallybook.projections.surfaces.writing.requests import Change, Request, Update

if TYPE_CHECKING:
    from collections.abc import Mapping


class LoadedPlaybook(dict[str, Any]):
    """The playbook that ``load_playbook`` returns: a plain dict to its user, which remembers its origin.

    Attributes:
        base: The entries as they were loaded or last saved, with the updates since; what else differs is an edit.
        top: The other top-level keys as they were loaded or last saved.
        high_water: Highest number of a name ever used in the ledger or in this dict.
        updates: What was applied and not yet saved: (extraction result, text → name in this dict, its key).
        known: Every name that the ledger had when this dict was loaded, and that this dict got since.
        decided: What is pinned, pardoned and merged; it is no part of the document.
        told: What diagnostics were written of since it was loaded or saved.
    """

    def __init__(self, document: Mapping[str, Any], state: Playbook) -> None:
        """Take a canonical document of a playbook."""
        super().__init__(document)
        self.base: list[dict[str, Any]] = []
        self.top: dict[str, Any] = {}
        self.high_water = 0
        self.updates: list[tuple[dict[str, Any], dict[str, str], str]] = []
        self.known = set(state.used)
        self.decided = Playbook()
        self.told = Told(None, frozenset())
        self.settle(state)

    def settle(self, state: Playbook) -> None:
        """Take the present content as loaded or saved."""
        self.base = copy.deepcopy(self["key_points"])
        named = [entry.get("name") for entry in self["key_points"] if isinstance(entry, dict)]
        self.known |= {name for name in named if isinstance(name, str)}
        self.top = _top(self)
        self.high_water = max(self.high_water, state.high_water)
        self.updates = []
        self.told = Told(self.told.file, frozenset())
        self.decided = Playbook(pinned=state.pinned, pardons=state.pardons, merged=state.merged)

    def apply(self, payload: dict[str, Any], names: dict[str, str]) -> None:
        """Note an update for the next save; call it before the dict has its result.

        Left out are texts that a program put into the dict itself, which the save records as an edit, and evaluations
        of its entries, or of names that it never got from the ledger: there they can be another entry's names.
        """
        put_here = {entry["name"] for entry in self["key_points"]} - {entry["name"] for entry in self.base}
        texts = {entry["text"] for entry in self.base} | names.keys()
        self.known |= set(names.values())
        known = self.known - put_here
        fresh = [one for one in payload["new_key_points"] if text_fault(one) is not None or one in texts]
        ratings = [one for one in payload["evaluations"] if rating_fault(one) is not None or one["name"] in known]
        update = {"new_key_points": [*map(_json_or_none, fresh)], "evaluations": [*map(_json_or_none, ratings)]}
        self.base = apply_extraction(self.base, update, self.decided, 0, names)[0]
        self.high_water = max([self.high_water, *(parse_number(name) or 0 for name in names.values())])
        # Its own key, so that an update that was spooled and is saved again counts once.
        self.updates.append((update, names, f"save:{clock.new_id(clock.utc_now().unix_us)}"))


def _json_or_none(item: Any) -> Any:
    """Return a copy of an item; None where it is not JSON, so that it can wait in the spool and is ignored as well."""
    try:
        return json.loads(json.dumps(item, allow_nan=False, ensure_ascii=False).encode())
    except (ValueError, TypeError, RecursionError):
        return None


def _top(document: Mapping[str, Any]) -> dict[str, Any]:
    return copy.deepcopy(
        {key: document[key] for key in document if key not in {"key_points", "last_updated", STAMP, UNTIL}}
    )


def apply_extraction(
    entries: list[dict[str, Any]],
    payload: Mapping[str, Any],
    decided: Playbook,
    high_water: int,
    wishes: Mapping[str, str] | None = None,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, str]]:
    """Return the entries that stay, those that are pruned, and the names given to new texts."""
    present = {entry["name"]: _entry_of(entry) for entry in entries}
    highest = max((parse_number(name) or 0 for name in present), default=0)
    state = Playbook(entries=present, high_water=max(highest, high_water), used=set(present))
    decision = decide_extraction(read_extraction(payload, "extraction_result"), state, wishes)
    by_name = {entry["name"]: entry for entry in entries}
    names: dict[str, str] = {}
    for event in decision.events:
        if isinstance(event, PointAdded):
            entry = render.entry_json(Entry(event.name, event.text or ""))
            entries = [*entries, entry]
            by_name[event.name] = entry
            names[entry["text"]] = event.name
        elif isinstance(event, PointRated):
            meant = by_name.get(event.name) or by_name.get(decided.merged.get(event.name, ""))
            if meant is not None:
                after = add_rating(_entry_of(meant), event.rating)
                meant.update(helpful=after.helpful, harmful=after.harmful)
    pruned = [
        entry for entry in entries if SPEC_POLICY.prunes(_entry_of(entry)) and not decided.protects(_entry_of(entry))
    ]
    return [entry for entry in entries if entry not in pruned], pruned, names


def _entry_of(entry: Mapping[str, Any]) -> Entry:
    return Entry(entry["name"], entry["text"], entry.get("helpful", 0), entry.get("harmful", 0))


def _entries(entries: list[Any]) -> tuple[Entry, ...]:
    """Return a dict's entries; those that a program left in another shape are read as a legacy file's."""
    try:
        found = read_entries(entries, "key_points")
        if len({entry.name for entry in found}) == len(found) and all(is_usable_name(entry.name) for entry in found):
            return found
    except BadInputError:
        pass
    document = json.dumps({"key_points": entries}).encode()
    return tuple(item.entry for item in read_legacy(document, "key_points").items)


def list_requests(playbook: LoadedPlaybook) -> list[Request]:
    """Return the requests of a save: each update, then all other changes as one edit."""
    by = {"rater": "reflector"}
    requests = [Request(Update(payload, names), by, key) for payload, names, key in playbook.updates]
    base, entries = tuple(map(_entry_of, playbook.base)), _entries(playbook["key_points"])
    top = _top(playbook)
    changed = json.dumps(top) if top != playbook.top else ""
    if not requests or entries != base or changed:
        requests.append(Request(Change(base, entries, changed), {"rater": "agent"}))
    return requests
