"""Requests as JSON: how they wait in the spool, and how they are read again, when nothing in them is trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from tallybook.ledger import clock
from tallybook.ledger.decisions import operations
from tallybook.ledger.decisions.update import read_entries
from tallybook.ledger.encoding.codec import encode
from tallybook.ledger.encoding.event_json import REFUSALS, structure
from tallybook.ledger.errors import BadInputError
from tallybook.ledger.events import PointNoted
from tallybook.ledger.line import is_digest
from tallybook.ledger.playbook_constants import PLAYBOOK_NEUTRAL
from tallybook.projections.playbook.render import entry_json
from tallybook.projections.surfaces.writing.requests import Action, Change, PlainEvents, Request, Update, check

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallybook.ledger.events import Event


def request_to_json(request: Request) -> dict[str, Any]:
    """Return a request as JSON for the spool; an import does not wait."""
    action = request.action
    fields: dict[str, Any] = {"by": dict(request.by), "key": request.key} | (
        {"payload": request.payload} if request.payload else {}
    )
    if isinstance(action, Update):
        drafts = map(encode, action.plain_events)
        rows = [[one.kind, one.v, one.body, one.free] for one in drafts]
        terms: dict[str, Any] = {"may": action.may, "shown": action.shown} if action.may else {}
        terms |= {"origin": action.origin} if action.origin else {}
        return fields | {"update": action.payload, "names": dict(action.names), "beside": rows} | terms
    if isinstance(action, PlainEvents):
        drafts = map(encode, action.events)
        return fields | {"facts": [[one.kind, one.v, one.body, one.free] for one in drafts]}
    if isinstance(action, Change):
        base, found = ([entry_json(entry) for entry in entries] for entries in (action.base, action.found))
        return fields | {"base": base, "found": found, "top": action.top}
    raise BadInputError("request", "is not in the spool")


def requests_from_json(values: Any, key: str, when: Any) -> list[Request]:
    """Return the requests of one spool file.

    Args:
        values: A list of what `request_to_json` returned, read again and not trusted.
        key: Names the file, so that each request is recorded once.
        when: When they were sent, not trusted either.

    Raises:
        BadInputError: One of them is not a request, or they are not a list; none of them may be recorded.
    """
    if not isinstance(values, list):
        raise BadInputError("requests", f"expected a list, got {type(values).__name__}")
    return [request_from_json(value, f"{key}:{index}", when) for index, value in enumerate(values)]


def request_from_json(value: Any, key: str, when: Any) -> Request:
    """Return a request from the spool.

    Args:
        value: What `request_to_json` returned, read again and not trusted.
        key: The key for a request without one, so that it is recorded once.
        when: When it was sent, not trusted either; a request that says itself when it happened happened then.

    Raises:
        BadInputError: It is not a request.
    """
    fields = value if isinstance(value, dict) else {}
    when = fields.get("when", when)
    _check_moment(when)
    given, names, top = fields.get("key"), fields.get("names"), fields.get("top")
    if "update" in fields:
        pairs = names.items() if isinstance(names, dict) else ()
        texts = {text: name for text, name in pairs if isinstance(name, str)}
        events, origin = _parse_plain_events(fields.get("beside", ())), fields.get("origin")
        action: Action = Update(
            fields["update"], texts, events, *_terms(fields), origin=origin if isinstance(origin, str) else ""
        )
    elif "facts" in fields:
        action = PlainEvents(_parse_plain_events(fields["facts"]))
        if not action.events:
            raise BadInputError("facts", "are none")
    elif "found" in fields and isinstance(top, str):
        action = Change(read_entries(fields.get("base"), "base"), read_entries(fields["found"], "found"), top)
    else:
        raise BadInputError("request", "is not an update, a change or facts")
    position, payload = fields.get("position"), fields.get("payload")
    request = Request(
        action,
        fields.get("by", {}),
        given if isinstance(given, str) and given else key,
        when,
        position if type(position) is int and position > 0 else None,
        payload if isinstance(payload, str) and is_digest(payload) and given else "",
    )
    check(request)
    return request


def rename_entries(request: Request, renamed: Mapping[str, str]) -> Request:
    """Return a request with other names of entries in its ratings and notes.

    Raises:
        BadInputError: It holds a curator's operations, in which names are not translated.
    """
    action = request.action
    if not renamed or not isinstance(action, Update):
        return request
    payload: dict[str, Any] = dict(action.payload)
    if payload.get(operations.OPERATIONS) or payload.get(operations.TAGS):
        raise BadInputError("names", "mean other entries since a sync", "record it again with the names of today")
    if isinstance(payload.get("evaluations"), list):
        payload["evaluations"] = [_renamed(one, renamed) for one in payload["evaluations"]]
    notes = (
        attrs.evolve(one, name=renamed.get(one.name, one.name)) if isinstance(one, PointNoted) else one
        for one in action.plain_events
    )
    return attrs.evolve(request, action=attrs.evolve(action, payload=payload, plain_events=tuple(notes)))


def _renamed(rating: Any, renamed: Mapping[str, str]) -> Any:
    """Return a rating of a payload, which is not trusted, with another name."""
    name = rating.get("name") if isinstance(rating, dict) else None
    return rating | {"name": renamed[name]} if isinstance(name, str) and name in renamed else rating


def _terms(fields: Mapping[str, Any]) -> tuple[str, tuple[str, ...] | None]:
    """Return on which terms a spooled update's operations count; they are only ever proposed where that is unclear."""
    may, shown = fields.get("may", ""), fields.get("shown")
    names = tuple(name for name in shown if isinstance(name, str)) if isinstance(shown, list) else None
    return (may if may in {"", operations.APPLY, operations.PERSON} else operations.PROPOSE), names


def _check_moment(when: Any) -> None:
    """Refuse a time that the ledger would not write: on a line it would be damage for ever."""
    try:
        fits = isinstance(when, str) and clock.moment(clock.to_unix_us(when)).at == when
    except (ValueError, OverflowError, OSError):
        fits = False
    if not fits:
        raise BadInputError("at", "is not a time as the ledger writes it")


def _parse_plain_events(value: Any) -> tuple[Event, ...]:
    """Return plain events from the spool: a list of kind, version, body and free text."""
    try:
        rows = [(kind, version, {**body, **(free or {})}) for kind, version, body, free in value]
        if not all(kind in PLAYBOOK_NEUTRAL for kind, _, _ in rows):
            raise BadInputError("facts", "are not events without an effect on the playbook")
        return tuple(structure(*row) for row in rows)
    except REFUSALS as error:
        raise BadInputError("facts", f"do not fit their kind: {error}") from error
