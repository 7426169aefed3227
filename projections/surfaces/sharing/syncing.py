"""One sync: read what others appended to the book, append the pending batches, record both positions.

If a sync is interrupted at any step, the next sync continues. The engine is read before
anything is appended, so an append whose outcome is unknown is found by its ids.

Batches of other machines that a new history lacks come back when these machines sync. For a machine that never returns,
`import --ledger` imports them from the copy that was set aside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from itertools import chain
from itertools import count as count_from
import os
from pathlib import Path
import shutil
from typing import Any, Final

import attrs

from tallybook.ledger import clock
from tallybook.ledger.codec import decode, encode
from tallybook.ledger.errors import EXIT_DAMAGED, DamagedLedgerError, MissingLinesError, TallybookError
from tallybook.ledger.events import BookBlock, BookOpened, BookTaken, Event, EventRedacted
from tallybook.ledger.line import LOG_NAME, START, Position, RawBatch, Stamp, frame
from tallybook.ledger.names import parse_number
from tallybook.ledger.sharing import book as table
from tallybook.ledger.sharing import engine as engines
from tallybook.ledger.sharing import replica as replicas
from tallybook.ledger.sharing.book import SKIPPED, Publisher, SkippedRun, count, cut_pieces, cut_runs, read_pieces
from tallybook.ledger.sharing.engine import Engine
from tallybook.ledger.sharing.landing import Landed, LandedEvent, land
from tallybook.ledger.sharing.replica import Current, Replica
from tallybook.ledger.storage.head import ledger_id
from tallybook.ledger.storage.redaction import read_redacted_ids
from tallybook.projections.history.event_rows import summary
from tallybook.projections.surfaces.history.shared_log import SHARED_KINDS, SharedLog, highest_in_block
from tallybook.projections.surfaces.hooks import sync_results
from tallybook.projections.surfaces.sharing import membership
from tallybook.projections.surfaces.sharing.membership import LIMIT_S, Membership, share_command
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import redact, secrets

PIECE_BYTES: Final = 16 * 1024 * 1024
"""How many bytes of a book are taken in at once."""
_LEFT: Final = 25
"""With fewer names left the next block is taken."""
_MAX_DOUBLINGS: Final = 4
_MAX_PAUSE_S: Final = 8.0
SYSTEM: Final = "tallybook"
_BY: Final = {"rater": SYSTEM}


# Hosts of git advise six pushes a minute for a repository.
_PUSH_S: Final = 10
_FREE_PUSHES: Final = 6
_LONGEST_WAIT_S: Final = 60.0


def longest_wait(engine: str, writers: int) -> float:
    """Return how many seconds at most a machine should wait before a sync that nobody waits for.

    It keeps the pushes of many machines to a remote of git apart.

    Args:
        engine: Name of the engine.
        writers: How many machines wrote to the book lately.
    """
    return min(_LONGEST_WAIT_S, max(0, writers - _FREE_PUSHES) * _PUSH_S) if engine == "git" else 0.0


class OtherBookError(TallybookError):
    """The engine holds another book, or another history of it."""

    exit_code = EXIT_DAMAGED


def _differs(address: str) -> OtherBookError:
    return OtherBookError(
        f"{address}: its history differs from the one that this machine has; nothing was sent; "
        "run `tallybook sync --rejoin` to take that history and land there what it lacks"
    )


def newer_rules(address: str, run: SkippedRun) -> engines.EngineError:
    """Return what a person reads of a book with rules that this version does not know."""
    command = f"`tallybook share repair --without {run.place.removeprefix('run ')}`"
    hint = f"upgrade to go on; if nobody upgraded the book, {command} takes that run out"
    return engines.EngineError(address, f"{run.name}: {run.why}", hint)


@attrs.define
class SyncResult:
    """What a sync did.

    Attributes:
        taken: How many events of others came in.
        published: How many own batches went out.
        pending: How many own batches wait still.
        tries: How many appends met another machine that was quicker.
        end: Event number and chain value of the book's end.
        restored: How many events the engine had lost and got back from this machine.
        skipped: Runs of the engine that do not count.
        refusal: Why nothing can be appended; empty where it can.
        set_aside: Folder of a copy of the book that was damaged or that this machine did not write; mostly empty.
        moved: Where the book is now, as its engine says; None where it did not move.
        unsealed: Of a move, why the former place could not state it; empty where it does.
    """

    taken: int = 0
    published: int = 0
    pending: int = 0
    tries: int = 0
    end: tuple[int, str] = (0, "")
    restored: int = 0
    skipped: list[SkippedRun] = attrs.field(factory=list)
    refusal: str = ""
    set_aside: str = ""
    moved: engines.BookLocation | None = None
    unsealed: str = ""

    @property
    def problems(self) -> list[str]:
        """Return what was wrong, for people."""
        return [*map(str, self.skipped), *([self.refusal] if self.refusal else [])]


def mask(part: Membership, text: str) -> str:
    """Return a text as it leaves this machine: with its secrets masked, unless its user published it as it is."""
    return text if part.unmasked and membership.digest(text) in part.unmasked else secrets.mask(text)


def note_ends(project: Project, part: Membership, before: tuple[int, str], end: tuple[int, str]) -> None:
    """Note in the user's settings where the replica ends, and where it will end.

    Noted before something is appended to it: a sync that is killed in between leaves one of both.
    """
    copy = Path(project.ledger, replicas.FOLDER, replicas.read_current(project.ledger).copy)
    book = part.book or ledger_id(copy / LOG_NAME)
    membership.save(project, attrs.evolve(part, book=book, before=before, end=end))


def drop_skipped(project: Project) -> None:
    """Forget the runs that do not count, because the book was stored anew without them."""
    with sync_results.open_results(project) as results:
        for result in results:
            result["problems"] = [text for text in result["problems"] if SKIPPED not in text]


def check_book(address: str, first: RawBatch, book: str) -> None:
    """Refuse a book other than the one that this machine shares.

    Args:
        address: The engine's address.
        first: The first batch that was read.
        book: Id of the book that this machine shares; empty where it does not share one yet.

    Raises:
        OtherBookError: It is another.
    """
    if first.first > 1:
        return
    (batch,) = decode([first])
    opened: Any = batch.events[0]
    if book and opened.book != book:
        raise OtherBookError(
            f"{address}: holds another book, {opened.name} ({opened.book}); nothing was sent; "
            "run `tallybook share status`"
        )


def find_lost(engine: Engine, replica: Replica, book: str) -> tuple[engines.Contents, Position, list[RawBatch]]:
    """Return what an engine holds, the position where its history ends, and the batches of a replica after that.

    Raises:
        OtherBookError: It holds another book, or a history that is not the beginning of the replica's, nor its end.
    """
    contents = engine.read(0)
    batches = count(contents.runs, START, set()).batches
    end, start = replica.end(), batches[-1].position if batches else START
    if any((batch.last, batch.chain) == end[:2] for batch in batches):
        return contents, start, []
    own = {(batch.last, batch.chain): batch for batch in replica.read()}
    if batches and start[:2] not in own:
        check_book(engine.address, batches[0], book)
        raise _differs(engine.address)
    return contents, start, [batch for batch in own.values() if batch.last > start.seq]


def put_missing(replica: Replica, engine: Engine, book: str, *, moves: bool = False) -> int:
    """Put the lines of the book that an engine lacks; return how many, -1 where another machine was quicker.

    Args:
        replica: This machine's copy of the book.
        engine: The engine.
        book: The book's id.
        moves: Whether the book moves there: an engine that holds nothing, or sealed it, gets all of it.

    Raises:
        OtherBookError: It holds another book, or another history of this one.
        ReadOnlyError: This user may not write there.
        UnreachableError: It does not answer.
    """
    contents, start, lines = find_lost(engine, replica, book)
    if moves and (contents.moved or not start.seq):
        # Fresh runs count only as a whole, so nobody takes a part of the book for all of it.
        lines = list(replica.read())
        after = engine.replace(contents.after_seal, cut_runs(lines, START, engine.run_bytes))
    elif lines:
        after = engine.append(contents.end, cut_runs(lines, start, engine.run_bytes))
    else:
        return 0
    return sum(batch.last - batch.first + 1 for batch in lines) if after else -1


def frame_system(after: Position, event: Event, writer: str, now: clock.Now) -> RawBatch:
    """Return an event of the book itself as a batch after a position."""
    by = {"rater": SYSTEM, "writer": writer}
    at = clock.clamp_time(now.at, after.at)
    return frame([encode(event)], Stamp(after, at, by, lambda: clock.new_id(now.unix_us), clock.new_salt))


def sync(
    project: Project, part: Membership, engine: Engine, limit_s: float, result: SyncResult | None = None
) -> SyncResult:
    """Bring the own ledger and the book together.

    Args:
        project: The project.
        part: Its part in the book.
        engine: The engine.
        limit_s: Seconds after which what is left stays pending.
        result: What an earlier sync of the same command did; this one adds to it.

    Raises:
        LockHeldError: Another sync of this project runs.
        OtherBookError: The engine holds another book or another history; nothing was sent.
        EngineError: The engine cannot be reached.
        TallybookError: The own ledger is damaged or could not be written.
    """
    with replicas.lock(project.ledger):
        aside = _set_aside_foreign(project, part)
        try:
            result = Sync(project, part, engine, limit_s, result).run()
        except (DamagedLedgerError, MissingLinesError):
            copy = SharedLog(project.ledger).copy
            if copy.is_whole():
                raise
            aside = replicas.set_aside(copy)
            result = Sync(project, part, engine, limit_s).run()
    result.set_aside = aside or result.set_aside
    return result


def _set_aside_foreign(project: Project, part: Membership) -> str:
    """Set the copy of the book aside if it does not end where the last sync noted, and return its folder.

    A project can bring such a copy along, and what it has must not reach the engine.
    """
    # Read under the lock: a sync that ran until now has noted another end.
    known = membership.last_known(project) or part
    copy = Replica(project.ledger, replicas.read_current(project.ledger).copy)
    if not os.path.lexists(copy.folder):
        return ""
    with suppress(TallybookError, OSError):
        if copy.end()[:2] in [end if end[0] else START[:2] for end in (known.end, known.before)]:
            return ""
    return replicas.set_aside(copy)


class Sync:
    """The state of one sync."""

    def __init__(
        self, project: Project, part: Membership, engine: Engine, limit_s: float, result: SyncResult | None = None
    ) -> None:
        """Read what the own ledger says of the book; nothing is written yet."""
        self.project = project
        self.part = part
        self.engine = engine
        self.result = result or SyncResult()
        self.log = SharedLog(project.ledger)
        self.replica = self.log.copy
        self.current = attrs.evolve(replicas.read_current(project.ledger), copy=self.replica.name)
        self.deadline = clock.elapsed_s() + limit_s
        # Own event number up to which batches are known to be in the book, and names that differ there.
        self.upto = 0
        self.renamed: dict[str, str] = {}
        self.newer: SkippedRun | None = None
        # Whether a batch before those that are published now names an entry that the book does not have yet.
        self.has_gap = False
        self.landed: list[LandedEvent] = []

    def run(self) -> SyncResult:
        """Do it; see ``sync``."""
        before = self.log.history.frontier
        self.upto = before.upto
        self._erase()
        if self.replica.end().seq > before.seq:
            # An interrupted sync took them in.
            new = decode(batch for batch in self.replica.read() if batch.last > before.seq)
            writers = ((batch.records[0].by.writer, len(batch.records)) for batch in new)
            self.result.taken += sum(number for writer, number in writers if writer != self.part.writer)
        while True:
            started = clock.elapsed_s()
            contents = self._take_in()
            if before.chain and not self.replica.has(before.chain):
                raise _differs(self.engine.address)
            if self._append(contents) or clock.elapsed_s() > self.deadline:
                break
            self.result.tries += 1
            # In proportion to how long a try takes, so that a slow engine spreads its machines as well as a fast one.
            pause = (clock.elapsed_s() - started) * 2 ** min(self.result.tries, _MAX_DOUBLINGS)
            clock.wait_up_to(min(_MAX_PAUSE_S, pause))
        self._note_frontier(before.seq)
        self.result.end = self.replica.end()[:2]
        self.result.pending = self.log.refresh().count_pending()
        # While the lock is held: the next sync may have appended to the copy by the time that a caller goes on.
        note_ends(self.project, self.part, self.result.end, self.result.end)
        return self.result

    # ---- (a) and (b): read, verify, append to the replica ----

    def _take_in(self) -> engines.Contents:
        skipped = {run.place: run for run in self.result.skipped}
        for piece in read_pieces(self.engine, self.replica, PIECE_BYTES, self.current.read_to):
            contents, counted = piece
            if contents.is_fresh:
                drop_skipped(self.project)
            skipped |= {run.place: run for run in counted.skipped}
            batches, self.newer = counted.batches, counted.newer
            if batches:
                self._store(self.replica, batches)
                self.result.taken += batches[-1].last - batches[0].first + 1
            if self.newer:
                break
            if batches:
                self._note(contents.end)
        self.result.skipped = [*skipped.values()]
        self.result.moved = contents.moved
        # Also where something came in: a piece may end before fresh runs that have another history.
        is_end = contents.end[:2] == self.replica.end()[:2]
        if not is_end and not self.newer and not contents.moved and self._give_back():
            return self._take_in()
        self._erase(batches)
        if not self.newer:
            self._note(contents.end)
        return contents

    def _store(self, copy: Replica, batches: Sequence[RawBatch]) -> None:
        """Append batches of the engine to a copy of the book."""
        check_book(self.engine.address, batches[0], self.part.book)
        replicas.list_lost(copy, batches, _BY)
        note_ends(self.project, self.part, self.replica.end()[:2], batches[-1].position[:2])
        copy.append(batches)

    def _note(self, end: engines.End | None = None, **changes: Any) -> None:
        """Store how far the copy is; with an end, up to which run it was read, so that no sync reads that again."""
        if end is not None:
            changes["read_to"] = engines.End(*self.replica.end()[:2], end.token)
        current = attrs.evolve(self.current, **changes)
        if current != self.current:
            self.current = current
            replicas.write_current(self.project.ledger, current)

    def _erase(self, new: Sequence[RawBatch] = ()) -> None:
        """Erase what the book says is redacted: also what a killed sync took in, and what a lost copy brings back."""
        end = self.replica.end().seq
        if self.current.erased == end:
            return
        after = self.current.erased
        # Often just these were appended, and the copy need not be read.
        is_all = new and new[0].first == after + 1
        self._redact(lambda: new if is_all else (batch for batch in self.replica.read() if batch.last > after))
        replicas.erase_listed(self.replica, self.current.erased)
        self._note(erased=end)

    def _redact(self, read: Callable[[], Iterable[RawBatch]]) -> None:
        """Erase what batches of a copy redact, and what they bring back of texts that were redacted here."""
        done: set[str] = set()
        while redacted := {*self._find_redacted(read())} - done:
            redact.redact_linked(self.project, redacted, _BY)
            self.log.refresh()
            # What was erased just now may come again after that.
            done |= redacted

    def _find_redacted(self, batches: Iterable[RawBatch]) -> Iterator[str]:
        find_returning = redact.make_returning_finder(self.project)
        for batch in batches:
            yield from read_redacted_ids(batch)
            yield from find_returning(batch)

    def _give_back(self) -> bool:
        """Find out why an engine does not go on where the replica ends, and put what it lost; return whether it did.

        Raises:
            OtherBookError: It holds another history.
        """
        try:
            restored = put_missing(self.replica, self.engine, self.part.book)
        except engines.ReadOnlyError:
            # Another machine gives it back.
            return False
        if restored < 0 and clock.elapsed_s() > self.deadline:
            raise engines.UnreachableError(
                self.engine.address, "it lost its end, and does not confirm that it has it again"
            )
        self.result.restored += max(restored, 0)
        return restored != 0

    # ---- (c): land and append ----

    def _append(self, contents: engines.Contents) -> bool:
        """Append what is pending; False where another machine was quicker or the outcome is unknown."""
        pending = (event for sent in self.log.history.pending for event in sent.batch.events)
        if ids := [event.id for event in pending if isinstance(event, EventRedacted)]:
            # An imported ledger also redacts what came in before it was imported, or only now.
            redact.redact_linked(self.project, ids, _BY)
            self.log.refresh()
        address, place = self.engine.address, self.result.moved
        self.result.refusal = str(newer_rules(address, self.newer)) if self.newer else ""
        if place is not None:
            command = share_command(*place, read_only=self.engine.read_only)
            self.result.refusal = f"{address}: the book moved to {place.address}; run: {command}"
        if self.result.refusal:
            return True
        if self.engine.read_only:
            seq = self.replica.end().seq
            self._next_block(self.log.book_playbook(seq).used, 0)
            return True
        (block, parts), limit = self._land(), self.engine.run_bytes
        expected = contents.end
        try:
            # The events of the book count no bytes, so all of them are in the first piece.
            for piece in cut_pieces(parts, lambda part: part[1].size if part[0] and part[1] else 0, limit):
                raws = [raw for _, raw in piece if raw is not None]
                if raws:
                    end = self.engine.append(expected, cut_runs(raws, self.replica.end(), self.engine.run_bytes))
                    if end is None:
                        return False
                    expected = end
                    note_ends(self.project, self.part, self.replica.end()[:2], raws[-1].position[:2])
                    self.replica.append(raws)
                    given = {} if block is None else {"block": block, "is_given": True}
                    # Own redactions were erased before they were published.
                    self._note(expected, erased=self.replica.end().seq, **given)
                self._note_published([landing for landing, _ in piece if landing is not None])
                if clock.elapsed_s() > self.deadline:
                    return True
        except engines.ReadOnlyError as error:
            self.result.refusal = str(error)
        return True

    def _note_published(self, landed: Sequence[Landed]) -> None:
        for landing in landed:
            self.renamed |= landing.renamed
            self.has_gap = self.has_gap or landing.lacks
            # What is after a batch that cannot land yet is known by its ids.
            if not self.has_gap:
                self.upto = max(self.upto, landing.sent.batch.last)
            if not landing.lacks and not (landing.is_here and self.has_gap):
                # A redaction that the book had already concerns nobody else.
                self.result.published += bool(landing.events) or landing.is_here
                self.landed += landing.events

    def _land(self) -> tuple[tuple[int, int] | None, Iterator[tuple[Landed | None, RawBatch | None]]]:
        """Return the block of names that is taken, and what is appended: events of the book, and pending batches."""
        self.has_gap = False
        end = self.replica.end()
        log = self.log.open_at_book(end, self.upto)
        state = log.book_playbook(end.seq)
        prelude: list[RawBatch] = []
        now, writer = clock.utc_now(), self.part.writer
        if not end.seq:
            opened = BookOpened(self.part.book or clock.new_id(now.unix_us), self.part.name, 1, table.NEWEST)
            prelude.append(frame_system(end, opened, writer, now))
        last = prelude[-1].position if prelude else end
        pending = log.history.pending
        # A redaction names no entry.
        naming = [sent for sent in pending if {*map(type, sent.batch.events)} - {EventRedacted}]
        block = self._next_block(state.used, len(naming))
        if block is not None:
            prelude.append(frame_system(last, BookBlock(*block), writer, now))
            last = prelude[-1].position
        publisher = Publisher(writer, clock.clamp_time(now.at, last.at), clock.new_salt, partial(mask, self.part))

        def frame(landed: Landed, after: Position) -> RawBatch | None:
            # Every machine would skip it, this one too, and it would be sent again for ever.
            faults = filter(None, map(table.find_event_fault, (event.event for event in landed.events)))
            if fault := next(faults, ""):
                seq = landed.sent.batch.first
                self.result.refusal = f"event {seq} of the own ledger does not fit a book and stays here: {fault}"
                return None
            return publisher.frame(landed, after)

        return block, chain([(None, raw) for raw in prelude], land(pending, log.ground(state), frame, last))

    def _next_block(self, used: Iterable[str], pending: int) -> tuple[int, int] | None:
        """Return the lowest free block of names; None where nothing is pending, or enough names are left."""
        first, last = self.current.block
        if last and self.current.is_given:
            names = self.log.present_ground().state.used
            left = last - max(highest_in_block(names, self.current.block), first - 1)
            if not pending or (left >= _LEFT and not pending > table.BLOCK):
                return None
        numbers = {parse_number(name) or 0 for name in used}
        taken = self.replica.blocks() | {(number - 1) // table.BLOCK * table.BLOCK + 1 for number in numbers}
        # Not the one after the highest: somebody may have taken that on purpose, so that there would be no other.
        begin = next(begin for begin in count_from(1, table.BLOCK) if begin not in taken)
        block = begin, begin + table.BLOCK - 1
        if not pending:
            # Reading takes nothing from the book: until something is published these names are only likely.
            self._note(block=block, is_given=False)
            return None
        return block

    # ---- (d): the frontier ----

    def _note_frontier(self, seq: int) -> None:
        """Append ``book.taken``, unless nothing came and nothing went."""
        end, before = self.replica.end(), self.log.refresh().history
        if (end.seq, self.upto) == (seq, before.frontier.upto) or not end.seq:
            return
        self._append_taken(end, self.upto, self.renamed)
        self.log.refresh()
        if before.pending and before.pending[-1].batch.last > self.upto:
            # The event just appended says what the frontier is, so it must be read again.
            after = self.log.history
            self._note(upto=after.begin, taken=self.log.find_known_end(after.pending[0]))
        else:
            # What was published just now is not read again.
            self._note(upto=before.end, taken=before.frontier.seq)

    def _append_taken(self, end: Position, upto: int, renamed: Mapping[str, str]) -> None:
        with closing(self.log.own) as own, own.transaction() as tx:
            tx.mark_shared()
            taken = BookTaken(end.seq, end.chain, upto, tuple(renamed), tuple(renamed.values()))
            tx.append([encode(taken)], _BY)

    # ---- Another history ----

    def take_history(self) -> Replica:
        """Make the engine's history the present copy, and return it.

        Raises:
            OtherBookError: It is another book, or there is none.
        """
        fresh = replicas.next_copy(self.project.ledger)
        # At once: what is before fresh runs must not get into the copy.
        for _, counted in read_pieces(self.engine, fresh, None):
            if counted.newer:
                raise OtherBookError(f"{self.engine.address}: its book follows newer rules; upgrade to go on")
            if counted.batches:
                self._store(fresh, counted.batches)
        end = fresh.end()
        if not end.seq:
            raise OtherBookError(
                f"{self.engine.address}: holds nothing; run `tallybook sync`, which gives back what this machine has"
            )
        if self.replica.has(end.chain):
            # It lost its end at most, and gets that back.
            shutil.rmtree(fresh.folder)
            return self.replica
        self._redact(fresh.read)
        names = self._new_names(fresh)
        # The pointer first: until the own ledger says so, the copy that it names is the one with the frontier.
        block = self.current.block
        current = Current(fresh.name, block=block if block[0] in fresh.blocks() else (0, 0))
        replicas.write_current(self.project.ledger, current)
        self._append_taken(end, self._find_upto(fresh), names)
        return fresh

    def _find_upto(self, fresh: Replica) -> int:
        """Return the own event number up to which the new history has all batches."""
        there, last = fresh.ids(), 0
        for batch in self.log.own.read():
            is_shared = any(kind in line for line in batch.lines for kind in SHARED_KINDS)
            if is_shared and there.isdisjoint(replicas.find_ids(batch.data)):
                break
            last = batch.last
        return last

    def _new_names(self, fresh: Replica) -> dict[str, str]:
        """Return the entries that have another name in the new history: name → name there."""
        with suppress(MissingLinesError):
            before = self.log.book_playbook(self.log.history.frontier.seq).ids
            there = self.log.open_at_book(fresh.end(), 0).book_playbook(fresh.end().seq).ids
            after = {id_: name for name, id_ in there.items()}
            return {name: after[id_] for name, id_ in before.items() if after.get(id_, name) != name}
        return {}


def rejoin(project: Project, part: Membership, engine: Engine) -> dict[str, Any]:
    """Take the engine's history of the book, and append to it the own batches that it lacks.

    The copy that this machine had is set aside, so past moments stay what they were. If it is interrupted, the next
    call goes on: what is in the engine already is recognised by its ids.

    Returns:
        ``{copy, kept, taken, landed, end, missing, pending, refusal}``: the folders of the copy that is the present
        one now and of the one that was set aside; how many events of the new history this machine did not have; the own
        events that the new history lacked, as ``{id, writer, summary}``; event number and chain value of the book's
        end; how many events of others the former copy alone has; how many own batches wait still; and why nothing can
        be appended, empty where it can.

    Raises:
        LockHeldError: A sync of this project runs.
        OtherBookError: The engine holds another book, or nothing.
        EngineError: The engine cannot be reached, or this machine may not write what the history lacks.
    """
    with replicas.lock(project.ledger):
        _set_aside_foreign(project, part)
        former = Sync(project, part, engine, LIMIT_S)
        had = former.replica.ids()
        fresh = former.take_history()
        new = fresh.ids()
        sync = Sync(project, part, engine, LIMIT_S)
        result = sync.run()
        return {
            "copy": fresh.folder,
            "kept": former.replica.folder,
            "taken": len(new - had),
            "landed": [
                {"id": landed.record.id, "writer": landed.record.by.writer, "summary": summary(landed.event)}
                for landed in sync.landed
            ],
            "end": result.end,
            "missing": sync.log.count_missing(former.replica),
            "pending": result.pending,
            "refusal": result.refusal,
        }
