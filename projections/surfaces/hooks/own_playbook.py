"""The person's own playbook in a session: its entries, and what its ledger records. Standard library only.

Its ledger gets a batch under the same key as the project's: of an injection after it, and only if that was new, so that
a hook that ends in between loses a record and invents none.
"""

from __future__ import annotations

from tallybook.ledger import clock
from tallybook.ledger.errors import TallybookError
from tallybook.projections.playbook import inject
from tallybook.projections.surfaces.hooks import blocks, citations, ledger_access, lineages
from tallybook.projections.surfaces.workspace import personal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from tallybook.ledger.line import Draft
    from tallybook.projections.surfaces.agents.agent import Payload
    from tallybook.projections.surfaces.workspace.project import ProjectPaths


def read_entries(project: ProjectPaths, theirs: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the entries of the person's own playbook that a project has neither by name nor by text; often none.

    Args:
        project: The project.
        theirs: The project's entries.
    """
    mine = personal.find_paths(project)
    if mine is None:
        return []
    try:
        own = ledger_access.read_entries(mine)
    except TallybookError as error:
        # The project's entries must reach the session in any case.
        ledger_access.save_error(project, error)
        return []
    taken = {one[field] for one in theirs for field in ("name", "text")}
    return [one for one in own if one["name"] not in taken and one["text"] not in taken]


def offered(
    project: ProjectPaths, theirs: Sequence[Mapping[str, Any]], payload: Payload
) -> tuple[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]]:
    """Return what can be given to a session: of the person's own entries, and of a project's entries, ``theirs``.

    What a block in a file gives the agent already is left out.
    """
    today, block = clock.utc_now().at[:10], blocks.find_read(project, payload)
    own = read_entries(project, theirs)
    theirs = [entry for entry in theirs if block is None or not block.has(entry)]
    return inject.leave_out_expired(own, today), inject.leave_out_expired(theirs, today)


def read_both(project: ProjectPaths, payload: Payload) -> tuple[Sequence[Mapping[str, Any]], tuple[str, ...]]:
    """Return the entries for a session, and the names of the person's own among them.

    Newer entries come later, and are taken first; the own ones lie evenly among the project's, so that each playbook
    gets its share of the room.
    """
    own, theirs = offered(project, ledger_access.read_entries(project), payload)
    if not own:
        return theirs, ()
    places = [(place / len(group), one) for group in (own, theirs) for place, one in enumerate(group, 1)]
    both = [one for _, one in sorted(places, key=lambda pair: pair[0])]
    return both, tuple(one["name"] for one in own)


def append(project: ProjectPaths, drafts: Sequence[Draft], payload: Payload, key: str) -> None:
    """Append what happened to the person's own entries, if anything did; an error is saved for ``doctor``."""
    mine = personal.find_paths(project) if drafts else None
    if mine is not None:
        try:
            ledger_access.append(mine, drafts, payload.by, key)
        except TallybookError as error:
            ledger_access.save_error(project, error)


def cite(project: ProjectPaths, theirs: Iterable[Mapping[str, Any]], payload: Payload) -> list[str]:
    """Return the person's own entries that a text cites, of those that its lineage was given."""
    mine = personal.find_paths(project)
    if mine is None:
        return []
    names = citations.find_cited(payload.text, {entry["name"]: entry for entry in read_entries(project, theirs)})
    given = lineages.find_given(mine, payload.session, names)
    return [name for name in names if name in given]
