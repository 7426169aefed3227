"""What a machine of a random history can know of redacted texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallybook.ledger import events
from tallybook.ledger.codec import decode
from tallybook.ledger.playbook_constants import REDACTED
from tallybook.ledger.sharing.replica import find_ids
from tallybook.projections.surfaces.sharing.shared_log import SharedLog

if TYPE_CHECKING:
    from collections.abc import Iterable

    from helpers.sharing_machines import Site
    from tallybook.ledger.line import RawBatch


def note_erased(site: Site, batches: Iterable[RawBatch]) -> None:
    """Note the texts that come in erased, with what an engine got back or with a ledger that had erased them."""
    if site.model.redacted:
        coming = [*batches]
        # What this machine has, it had in the clear, unless that is noted already.
        here = site.copy().ids()
        here |= {id_ for batch in site.own.read() for id_ in find_ids(batch.data)} if site.own.exists() else set()
        records = [record for batch in decode(coming) for record in batch.records if hasattr(record.event, "text")]
        hidden = {record.id for record in records if getattr(record.event, "text", None) in {None, REDACTED}}
        site.erased |= hidden - here
        # An engine had it in the clear before, and the sync was killed that would have taken it in.
        site.clear -= hidden - here
        site.clear |= {record.id for record in records} - hidden


def redacted_texts(site: Site) -> frozenset[str]:
    """Return the texts that this machine knows to be redacted: those of events that had them in the clear."""
    texts: set[str] = set()
    if not site.model.redacted or not site.own.exists():
        return frozenset()
    log = SharedLog(site.project.ledger)
    book = [record for batch in decode(log.copy.read(log.history.frontier.seq)) for record in batch.records]
    own = [record for batch in decode(site.own.read()) for record in batch.records]
    hidden = {record.id for record in (*book, *own) if getattr(record.event, "text", None) == REDACTED}
    # A text that was erased here before it came in comes in once more with the book.
    hidden |= site.erased - (site.clear & {record.id for record in book})
    # An edit whose own text was redacted before it was published came in as one that left the text of its entry.
    here = {record.id for record in (*book, *own) if getattr(record.event, "change", "") != "kept"} - hidden
    for record in (*book, *own):
        if isinstance(record.event, events.EventRedacted) and record.event.id in here:
            texts |= site.model.texts.get(record.event.id, set()) - {REDACTED}
    return frozenset(texts)
