"""Taking another history of the same book, and landing in it again what it lacks.

The old history's rest and the own pending batches behave like a machine's own pending batches: each lands on the new
history, keeps its ids, and counts once.
"""

from __future__ import annotations

from itertools import chain, takewhile
from typing import TYPE_CHECKING

import attrs

from tallybook.ledger import clock
from tallybook.ledger.encoding.codec import decode, encode
from tallybook.ledger.events import BookTaken, EventsVoided, PointMatched
from tallybook.ledger.line import START, batch_key
from tallybook.ledger.sharing import erasing
from tallybook.ledger.sharing import replica as replicas
from tallybook.ledger.sharing.counting import count, ids_of, read_pieces, within_rules
from tallybook.ledger.sharing.engines.engine import Outcome
from tallybook.ledger.sharing.equal_texts import (
    edits_with_other_text,
    equal_entries,
    had_text,
    redaction_links,
    text_events,
)
from tallybook.ledger.sharing.landing import Names, OwnBatch, land
from tallybook.ledger.sharing.publishing import Publisher, cut_runs
from tallybook.ledger.storage.redaction import redacted_ids
from tallybook.projections.fold import fold, fold_history
from tallybook.projections.playbook.view import PLAYBOOK
from tallybook.projections.surfaces.sharing.pending_landing import (
    MAKES_ENTRY,
    ids_of_session,
    joined_entries,
)
from tallybook.projections.surfaces.sharing.syncing import PIECE_BYTES, RULES, SYSTEM, OtherBookError, Sync

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from tallybook.ledger.events import Entry
    from tallybook.ledger.line import RawBatch
    from tallybook.ledger.records import Batch
    from tallybook.ledger.sharing.engines.engine import Contents, End, Engine
    from tallybook.projections.playbook.view import Playbook
    from tallybook.projections.surfaces.sharing.syncing import Machine

_MADE = (*MAKES_ENTRY, PointMatched)


@attrs.define
class Rejoined:
    """What taking another history did.

    Attributes:
        copy: Folder of the copy that is the present one now.
        kept: Folder of the copy that was set aside; empty where the history was the same.
        taken: How many events of the new history this machine did not have.
        landed: The batches that the new history lacked and that were appended to it again, as in the old history.
        end: Event number and chain value of the book's end.
    """

    copy: str = ""
    kept: str = ""
    taken: int = 0
    landed: list[Batch] = attrs.field(factory=list)
    end: tuple[int, str] = (0, "")


def rejoin(machine: Machine, engine: Engine) -> Rejoined:
    """Take the engine's history of the book, and append to it what it lacks and this machine has.

    The copy that this machine had is set aside, so past moments stay what they were. If it is interrupted, the next
    call goes on: what is in the engine already is recognised by its ids.

    Raises:
        LockHeldError: A sync of this project runs.
        OtherBookError: The engine holds another book, or nothing.
        EngineError: The engine cannot be reached, or this machine may not write what the history lacks.
    """
    with replicas.lock(machine.folder):
        replicas.set_aside_foreign(machine.folder, machine.load_end())
        return _Rejoin(machine, engine).run_again()


class _Rejoin(Sync):
    """The state of one rejoining."""

    def run_again(self) -> Rejoined:
        block = self.current.block
        # Names in pending batches mean own entries that the old history has.
        self.upto = self.log.history.frontier.upto
        fresh, contents = self._fetch()
        done = Rejoined(fresh.folder, self.replica.folder)
        while True:
            # What the new history redacts is erased by now, and lands so.
            history = self.log.refreshed().history
            published, own = self._old_history()
            book = list(fresh.read())
            rest = Rest(published, own, book, redaction_links(self.log.own.read()))
            done.landed = rest.missing
            if self._append_rest(fresh, contents.end, rest.land(self._publisher)):
                break
            self.result.tries += 1
            clock.wait_about(min(1.0, 0.01 * 2**self.result.tries))
            contents = self._go_on(fresh)
        done.end = fresh.end()[:2]
        had = {id_ for batch in published for id_ in ids_of(batch)}
        done.taken = sum(1 for batch in book for id_ in ids_of(batch) if id_ not in had)
        upto = max([history.frontier.upto, self.upto, *(one.records[-1].seq for one in history.pending)])
        names = {name: rest.renamed.get(new, new) for name, new in self.renamed.items()}
        self.machine.save_end(done.end)
        log = self.log.own
        with log.transaction() as tx:
            tx.mark_shared()
            tx.append([encode(BookTaken(*done.end, upto, tuple(names), tuple(names.values())))], {"rater": SYSTEM})
        log.close()
        kept = any(f'"first":{block[0]},"last":{block[1]}' in str(line) for one in book for line in one.lines)
        current = replicas.Current(fresh.name, history.end, history.frontier.seq, block if kept else (0, 0))
        replicas.write_current(self.machine.folder, current)
        self.replica, self.current = fresh, current
        self._erase()
        return done

    def _old_history(self) -> tuple[list[RawBatch], list[RawBatch]]:
        """Return the history that this machine has, and own batches that are not in it as they land at its end.

        Without a copy that has the frontier, all own batches take their place.
        """
        chain = self.log.history.frontier.chain
        if not chain or self.replica.has(chain):
            return list(self.replica.read()), [raw for _, raw in self._land()[1] if raw is not None]
        return [], list(self.log.own.read())

    def _publisher(self, writer: str) -> Publisher:
        at = clock.clamp_time(self.machine.now().at, self.replica.end().at)
        return Publisher(writer or self.machine.writer, at, clock.new_salt, self.machine.mask)

    def _fetch(self) -> tuple[replicas.Replica, Contents]:
        """Return a new copy with the engine's history.

        Raises:
            OtherBookError: It is another book, or there is none.
        """
        contents = self.engine.read(0)
        counted = count(contents.runs, START, set())
        batches = counted.batches
        if not batches:
            raise OtherBookError(
                f"{self.engine.address}: holds nothing; run `tallybook sync`, which gives back what this machine has"
            )
        self._check_book(batches[0])
        if within_rules(batches, RULES)[1]:
            raise OtherBookError(f"{self.engine.address}: its book follows newer rules; upgrade to go on")
        fresh = replicas.next_copy(self.machine.folder)
        fresh.append(batches, counted.data)
        erasing.list_lost(fresh, batches, {"rater": SYSTEM})
        self._redact(fresh, fresh.read)
        return fresh, contents

    def _go_on(self, fresh: replicas.Replica) -> Contents:
        """Take in what others appended meanwhile."""
        for piece in read_pieces(self.engine, fresh, PIECE_BYTES):
            contents, counted = piece
            if counted.batches:
                fresh.append(counted.batches, counted.data)
                erasing.list_lost(fresh, counted.batches, {"rater": SYSTEM})
        self._redact(fresh, fresh.read)
        return contents

    def _append_rest(self, fresh: replicas.Replica, expected: End, landed: Sequence[RawBatch]) -> bool:
        """Append batches to the engine and the new copy; False where another machine was quicker."""
        for run in cut_runs(landed, fresh.end(), self.engine.run_bytes):
            answer = self.engine.append(expected, [run])
            if answer.outcome is not Outcome.DONE or answer.end is None:
                return False
            expected = answer.end
            fresh.append([one for one in landed if run.first <= one.first <= run.last])
        return True


class Rest:
    """What one history of a book has and another lacks.

    Attributes:
        missing: The batches that land again.
        names: Name in the old history → name in the new one, of entries that are in both and made after they part.
        renamed: Those of them that differ.
    """

    def __init__(
        self,
        published: Sequence[RawBatch],
        own: Sequence[RawBatch],
        book: Sequence[RawBatch],
        links: Sequence[frozenset[str]] = (),
        known: Collection[str] | None = None,
    ) -> None:
        """Compare two histories.

        Args:
            published: The old history.
            own: Own batches as they land at its end.
            book: The new history.
            links: The ids of events whose texts were equal before they were redacted, as this machine found them.
            known: The names that mean in both histories the same; None for those of the part that both have.
        """
        self._known = known
        self._is_whole = bool(published)
        same = sum(
            1 for _ in takewhile(lambda pair: pair[0].chain == pair[1].chain, zip(published, book, strict=False))
        )
        self._common, self._old, self._book = published[:same], [*published, *own], book
        self._links = [*links, *redaction_links([*published, *book])]
        self._ids = {id_ for batch in book for id_ in ids_of(batch)}
        rest = [batch for batch in self._old[same:] if self._ids.isdisjoint(ids_of(batch))]
        self.missing = [batch for batch in decode(rest) if not _is_system(batch)]
        self.renamed: dict[str, str] = {}
        self.names: dict[str, str] = {}

    def land(self, publisher: Callable[[str], Publisher]) -> list[RawBatch]:
        """Return the missing batches as they land at the end of the new history.

        Args:
            publisher: Returns how batches of a writer are written; given an empty label for own ones.
        """
        was, state = _playbook(self._common), _playbook(self._book)
        names = Names()
        known = self._known
        if known is None:
            known = was.used if self._is_whole else state.used
        redacted = frozenset(id_ for batch in (*self._old, *self._book) for id_ in redacted_ids(batch))
        facts = _Facts(frozenset(known), self._book, self._links, joined_entries(self._book), redacted)
        missing = {one.records[0].id for one in self.missing}
        known_names = dict(_made(decode(self._book)))
        landed = facts.landed
        after = self._book[-1].position
        for index, batch in enumerate(decode(self._old[len(self._common) :]), len(self._common) + 1):
            if batch.records[0].id in missing:
                facts.before = dict(was.entries)
                one = land(OwnBatch(tuple(batch.records), 0), state, names, facts)
                if one.events:
                    raw = publisher(batch.records[0].by.writer or "").frame(one, after)
                    landed.append(raw)
                    after = raw.position
                    state = _advanced(state, raw, [*self._book, *landed])
                    known_names |= dict(_made(decode([raw])))
            for id_, name in _made([batch]):
                if id_ in known_names:
                    names.landed[name] = names.by_id[id_] = known_names[id_]
            facts.before_batches.append(batch)
            was = _advanced(was, self._old[index - 1], self._old[:index])
        self.names = names.landed
        self.renamed = {name: new for name, new in names.landed.items() if name != new}
        return landed


def _is_system(batch: Batch) -> bool:
    """Return whether a batch is the book's own: its opening or a block of names."""
    return type(batch.events[0]).__name__ in {"BookOpened", "BookBlock"}


def _made(batches: Iterator[Batch] | Sequence[Batch]) -> Iterator[tuple[str, str]]:
    """Yield the id of each event that may make an entry, and the entry's name."""
    for batch in batches:
        for record in batch.records:
            if isinstance(record.event, _MADE):
                yield record.id, record.event.name


def _playbook(batches: Sequence[RawBatch]) -> Playbook:
    return fold_history(PLAYBOOK, lambda: decode(batches))


def _advanced(state: Playbook, raw: RawBatch, history: Sequence[RawBatch]) -> Playbook:
    """Return a playbook after one more batch; folded anew if the batch undoes something."""
    (batch,) = decode([raw])
    if any(isinstance(event, EventsVoided) for event in batch.events):
        return _playbook(history)
    return fold(PLAYBOOK, [batch], state)


@attrs.define
class _Facts:
    """Answers of this landing; see `landing.Book`."""

    used: frozenset[str]
    book: Sequence[RawBatch]
    links: Sequence[frozenset[str]] = ()
    joined: Mapping[str, str] = attrs.field(factory=dict)
    redacted: frozenset[str] = frozenset()
    before: Mapping[str, Entry] = attrs.field(factory=dict)
    before_batches: list[Batch] = attrs.field(factory=list)
    landed: list[RawBatch] = attrs.field(factory=list)

    def has_key(self, key: str) -> bool:
        return any(batch_key(batch.lines[0]) == key for batch in self.book)

    def had(self, name: str, taken: int) -> bool:  # noqa: ARG002 - as the protocol has it
        return name in self.used

    def own_name(self, name: str) -> None:
        """Return nothing: every name is one of the old history."""

    def made_name(self, id_: str) -> None:
        """Return nothing, as ``own_name``."""

    def matched(self, name: str) -> str | None:
        return self.joined.get(name)

    def published(self, own: OwnBatch) -> None:
        """Return nothing: `Rest` leaves out what the book has."""

    def linked(self, id_: str) -> frozenset[str]:
        return equal_entries(id_, self.links, lambda: text_events([*self.book, *self.landed]))

    def had_text(self, id_: str, name: str) -> bool:
        return had_text(id_, name, self.links, chain(self.book, self.landed))

    def has_text(self, id_: str) -> bool:
        return id_ in edits_with_other_text(lambda: self.book, self.redacted)

    def shown(self, own: OwnBatch) -> Mapping[str, Entry]:  # noqa: ARG002 - as the protocol has it
        return self.before

    def session_ids(self, own: OwnBatch, session: str) -> tuple[str, ...]:  # noqa: ARG002 - as the protocol has it
        # Only what never landed undoes a session: an own ledger whose copy of the book is missing.
        return tuple(ids_of_session(self.before_batches, session))
