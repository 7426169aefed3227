"""Landed batches as bytes of the book, and what of them leaves this machine."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import attrs

from tallybook.ledger.codec import encode
from tallybook.ledger.event_json import FREE_FIELDS
from tallybook.ledger.events import EventRedacted
from tallybook.ledger.line import WRITER, Stamp, frame, split_long_texts
from tallybook.ledger.sharing import rules
from tallybook.ledger.sharing.engines.engine import Run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tallybook.ledger.events import Event
    from tallybook.ledger.line import Draft, Position, RawBatch
    from tallybook.ledger.records import Author
    from tallybook.ledger.sharing.landing import Landed


@attrs.frozen
class Publisher:
    """How this machine writes a landed batch.

    Attributes:
        writer: The label of this machine in the book; empty for its own view of a pending batch.
        at: When it is published; None for the time of the own event.
        new_salt: Returns a new salt for each text.
        mask: Returns a text with its secrets masked.
    """

    writer: str = ""
    at: str | None = None
    new_salt: Callable[[], str] = str
    mask: Callable[[str], str] = str

    def frame(self, landed: Landed, after: Position) -> RawBatch:
        """Return a landed batch, which has an event, as the batch after a position.

        Raises:
            BadInputError: A masked text makes a line too long.
        """
        # Events keep their ids, by which a machine finds that a batch is in the book already.
        ids: list[str] = []
        drafts: list[Draft] = []
        lines: Counter[str] = Counter()
        for event in landed.events:
            when = event.record.when or (None if self.at is None else event.record.at)
            # A void of a long session takes several events, and a long text several lines.
            for draft in split_long_texts([encode(self.masked(event.event), when)]):
                drafts.append(draft)
                lines[event.record.id] += 1
                number = lines[event.record.id]
                ids.append(event.record.id if number == 1 else f"{event.record.id}.{number}")
        first_record = landed.sent.records[0]
        at = first_record.at if self.at is None else self.at
        by, remaining = self._by(first_record.by), iter(ids)
        return frame(drafts, Stamp(after, at, by, lambda: next(remaining), self.new_salt, landed.key))

    def masked(self, event: Event) -> Event:
        """Return an event as it leaves this machine."""
        if isinstance(event, EventRedacted):
            # Why a text was redacted stays on this machine.
            return EventRedacted(event.id, "")
        texts = {field: self.mask(getattr(event, field) or "") for field in FREE_FIELDS[type(event)]}
        return attrs.evolve(event, **texts) if texts else event

    def _by(self, author: Author) -> dict[str, str]:
        """Return who recorded the batch, without the place of the evidence, which is a path of this machine."""
        by = {"rater": author.rater, "session": author.session, "agent": author.agent, "model": author.model}
        return {field: value for field, value in (by | {WRITER: self.writer}).items() if value}


def cut_runs(batches: Sequence[RawBatch], after: Position, run_bytes: int) -> list[Run]:
    """Return whole batches as runs of about so many bytes; what changes the rules begins a run.

    Args:
        batches: Batches that follow one another.
        after: The position before them.
        run_bytes: How many bytes a run has at most; a batch alone may have more.
    """
    runs: list[Run] = []
    piece: list[RawBatch] = []
    size, before = 0, after.chain
    for batch in batches:
        length = len(batch.raw)
        if piece and (size + length > run_bytes or rules.may_change(batch.lines[0])):
            runs.append(_run(piece, before))
            before, piece, size = piece[-1].chain, [], 0
        piece.append(batch)
        size += length
    return [*runs, _run(piece, before)] if piece else runs


def _run(batches: Sequence[RawBatch], before: str) -> Run:
    return Run(batches[0].first, batches[-1].last, before, batches[-1].chain, b"".join(batch.raw for batch in batches))
