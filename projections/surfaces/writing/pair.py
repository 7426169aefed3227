"""One result for two ledgers, the project's and the person's own: a batch in each, under one idempotency key.

The names that the project has ever used decide which ledger gets an item. These names only grow, so a repeated result
is divided in the same way. Before it appends either batch, `write_both` saves the personal request in a file. If the
process ends in between, the next command appends the personal batch if the project's ledger has the other one, and
otherwise drops it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import nullcontext, suppress
from functools import cache
import json
from pathlib import Path
from typing import Any, Final

import attrs

from tallybook.ledger import clock
from tallybook.ledger.decisions.curation import OPERATIONS, TAGS
from tallybook.ledger.decisions.update import number_items
from tallybook.ledger.errors import BadInputError, TallybookError
from tallybook.ledger.fast_stdlib import dumps
from tallybook.ledger.line import MAX_BATCH_BYTES
from tallybook.ledger.names import find_name
from tallybook.ledger.playbook_constants import PERSONAL_PREFIX
from tallybook.ledger.storage import disk, spool
from tallybook.projections.playbook.view import Playbook
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.history.reading import Opened
from tallybook.projections.surfaces.workspace import personal
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import record as recording
from tallybook.projections.surfaces.writing.record import Write
from tallybook.projections.surfaces.writing.requests import (
    PlainEvents,
    Request,
    Update,
    request_to_json,
    requests_from_json,
)

PENDING: Final = "two-ledgers"
"""Folder of the personal ledger with a file for each result whose two batches are being appended."""
_LOCK: Final = "two-ledgers.lock"
_LOCK_WAIT_MS: Final = 5_000
_POINTS: Final = "new_key_points"
_LISTS: Final = ("evaluations", OPERATIONS, TAGS)


def _divide(request: Request, is_mine: Callable[[str], bool]) -> tuple[Request | None, Request | None]:
    """Return the parts of a request about the project's entries and about the person's own, None for no such part.

    Only an update and plain events can be about both. A new entry names none and is the project's, and so is an
    operation that names entries of both.
    """
    decide = request.decide
    if not isinstance(decide, PlainEvents | Update):
        return request, None
    events = decide.events if isinstance(decide, PlainEvents) else decide.plain_events
    own_events = tuple(event for event in events if is_mine(getattr(event, "name", "")))
    other_events = tuple(event for event in events if event not in own_events)
    if isinstance(decide, PlainEvents):
        theirs, own = (attrs.evolve(request, decide=PlainEvents(part)) for part in (other_events, own_events))
        return theirs if other_events else None, own if own_events else None
    extraction = decide.extraction
    lists = {field: extraction[field] for field in _LISTS if isinstance(extraction.get(field), list)}
    items = {place: item for field, values in lists.items() for place, item in number_items(field, values).items()}
    places = {place for place, item in items.items() if (names := _names_in(item)) and all(map(is_mine, names))}
    if not places and not own_events:
        return request, None

    def blank(kept: Collection[str]) -> dict[str, Any]:
        """Return the lists with the kept items in their places, and nothing of the others: a part can be spooled."""
        return {
            field: [item if place in kept else None for place, item in number_items(field, values).items()]
            for field, values in lists.items()
        }

    # Without a list of ratings it would be refused.
    part = {"evaluations": [], **blank(places)}
    mine = attrs.evolve(decide, extraction=part, plain_events=own_events, names={}, places=frozenset(places))
    points = extraction.get(_POINTS)
    others = {*number_items(_POINTS, points if isinstance(points, list) else ()), *items} - places
    is_empty = not (other_events or others or extraction.keys() - {*_LISTS, _POINTS})
    part = {**extraction, **blank(others)}
    remaining = attrs.evolve(decide, extraction=part, plain_events=other_events, places=frozenset(others))
    return None if is_empty else attrs.evolve(request, decide=remaining), attrs.evolve(request, decide=mine)


def _names_in(value: Any) -> list[str]:
    """Return the entries that an evaluation, a tag or an operation names."""
    fields = value if isinstance(value, dict) else {}
    sources = fields.get("source_ids")
    names = [fields.get("name"), fields.get("target_id"), *(sources if isinstance(sources, list) else ())]
    return [name for name in names if isinstance(name, str)]


def write(project: Project, mine: Project, request: Request) -> Write:
    """Record a request in the ledgers whose entries it means; as ``recording.write``, with the personal outcome.

    Raises:
        TallybookError: A ledger is damaged, or could not be written.
    """
    finish(mine)
    for owner in (project, mine):
        if request.digest and request.key is not None:
            # Before either batch: the key is of the whole delivery.
            recording.refuse_other_payload(request, reading.open_own_log(owner).find_delivery(request.key))

    @cache
    def read_used_names(owner: Project) -> set[str]:
        with personal.name_damage(owner) if owner is mine else nullcontext():
            return Opened(owner).playbook().used

    def is_mine(name: str) -> bool:
        # Most names are not of this form, and then neither ledger is read. A person may write a name in another way.
        if not name.casefold().startswith(PERSONAL_PREFIX):
            return False
        return find_name(name, read_used_names(project)) is None and find_name(name, read_used_names(mine)) is not None

    theirs, own = _divide(request, is_mine)
    if theirs is not None and own is not None:
        return write_both(project, mine, theirs, own)
    if own is None:
        return recording.write(project, [request])
    with personal.name_damage(mine):
        done = recording.write(mine, [own])
    done.outcomes = (recording.Outcome(mine=done.outcomes[0]),)
    return done


def write_both(project: Project, mine: Project, theirs: Request, own: Request) -> Write:
    """Record a request in the project and another one in the person's own playbook, both or none.

    Args:
        project: The project.
        mine: The person's own playbook.
        theirs: The project's request.
        own: The person's request.
    """
    finish(mine)
    now = clock.utc_now()
    key = theirs.key or f"two:{clock.new_id(now.unix_us)}"
    theirs, own = (attrs.evolve(side, key=key) for side in (theirs, own))
    with disk.hold_lock(mine.ledger / _LOCK, _LOCK_WAIT_MS):
        path = _save(mine, project, own, key, now.at)
        try:
            done = recording.write(project, [theirs])
        except TallybookError:
            # A failed flush leaves the outcome unknown, so the ledger is asked. Where it has nothing, nothing is to be
            # recorded here.
            if not _has_key(project, key):
                path.unlink(missing_ok=True)
            raise
        second = recording.write(mine, [own])
        path.unlink(missing_ok=True)
    done.outcomes = (attrs.evolve(done.outcomes[0], mine=second.outcomes[0]),)
    done.problems = list(dict.fromkeys((*done.problems, *second.problems)))
    return done


def merge_playbooks(project: Project, playbook: Playbook) -> Playbook:
    """Return a project's playbook with the person's own entries after it, as a session is given both.

    Only entries, names, last days and former entries are of both, and nothing may be decided or saved from it.
    """
    mine = personal.find(project)
    if mine is None:
        return playbook
    with personal.name_damage(mine):
        own = Opened(mine).playbook()
    texts = {entry.text for entry in playbook.entries.values()}
    # A name that the project has means the project's entry.
    added = {
        name: entry for name, entry in own.entries.items() if name not in playbook.used and entry.text not in texts
    }
    return attrs.evolve(
        playbook,
        entries={**playbook.entries, **added},
        used=playbook.used | own.used,
        gone={**own.gone, **playbook.gone},
        until={**own.until, **playbook.until},
    )


def _save(mine: Project, project: Project, own: Request, key: str, at: str) -> Path:
    # Another command may append it to a later playbook, where a name as typed could mean another entry.
    if isinstance(own.decide, Update) and own.decide.is_typed:
        own = attrs.evolve(own, decide=own.decide.with_exact_names(Opened(mine).playbook()))
    path = mine.ledger / PENDING / f"{clock.new_id(clock.utc_now().unix_us)}.json"
    disk.make_folder(path.parent)
    content = {"project": str(project.root), "key": key, "at": at, "requests": [request_to_json(own)]}
    disk.replace_file(path, dumps(content).encode())
    return path


def finish(mine: Project) -> None:
    """Append the personal batches of results whose project's batch was appended before the process ended."""
    # What cannot be finished now stays for the next command.
    with suppress(OSError, TallybookError):
        if any((mine.ledger / PENDING).iterdir()):
            with disk.hold_lock(mine.ledger / _LOCK, _LOCK_WAIT_MS):
                for path in sorted((mine.ledger / PENDING).glob("*.json")):
                    _finish(mine, path)


def _finish(mine: Project, path: Path) -> None:
    try:
        content = json.loads(disk.read_file(path, MAX_BATCH_BYTES))
        project, key = Project(Path(content["project"])), content["key"]
        requests = requests_from_json(content["requests"], key, content["at"]) if _has_key(project, key) else []
    except (ValueError, KeyError, TypeError, RecursionError, BadInputError):
        requests = []
    if requests:
        recording.write(mine, requests)
    path.unlink(missing_ok=True)


def _has_key(project: Project, key: str) -> bool:
    """Return whether a project's ledger or its spool has a batch under a key."""
    if reading.open_own_log(project).find_delivery(key) is not None:
        return True
    return any(request.get("key") == key for request in spool.read_requests(project.ledger))
