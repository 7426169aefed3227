"""What a machine of a random history can know of redacted texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallybook.ledger import events
from tallybook.ledger.encoding.codec import decode
from tallybook.ledger.line import START
from tallybook.ledger.sharing.counting import count
from tallybook.ledger.storage.redaction import find_erased
from tallybook.projections.playbook.entry_state import REDACTED
from tallybook.projections.surfaces.sharing.shared_log import SharedLog

if TYPE_CHECKING:
    from helpers.sharing_faults import ShakyEngine
    from helpers.sharing_machines import Site


def note_erased(site: Site, engine: ShakyEngine) -> None:
    """Note the texts that come in erased, because the engine got them back from a machine that had erased them."""
    if site.model.redacted:
        batches = count(engine.runs, START, set()).batches
        here = {id_.decode() for id_ in site.copy().ids()}
        site.erased |= {id_ for batch in batches for _, id_ in find_erased(batch)} - here


def redacted_texts(site: Site) -> frozenset[str]:
    """Return the texts that this machine knows to be redacted: those of events that had them in the clear."""
    texts: set[str] = set()
    if not site.model.redacted or not site.own.exists():
        return frozenset()
    log = SharedLog(site.project.ledger)
    book = [record for batch in decode(log.copy.read(log.history.frontier.seq)) for record in batch.records]
    own = [record for batch in decode(site.own.read()) for record in batch.records]
    hidden = {record.id for record in (*book, *own) if getattr(record.event, "text", None) == REDACTED}
    # What this machine recorded, it had in the clear.
    hidden |= site.erased - {record.id for record in own}
    here = {record.id for record in (*book, *own)} - hidden
    for record in (*book, *own):
        if isinstance(record.event, events.EventRedacted) and record.event.id in here:
            texts |= site.model.texts.get(record.event.id, set()) - {REDACTED}
    return frozenset(texts)
