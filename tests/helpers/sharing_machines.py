"""Machines of a random history: each is a real folder, of which the model knows what every own batch means."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
import shutil
from typing import Any

import attrs

from helpers.ledger_files import head_of
from helpers.shared_machines import make_part
from helpers.sharing_faults import ShakyEngine
from helpers.sharing_model import MAKERS, SHARED, UNKNOWN, BookModel, Intent, Seen, look
from tallybook.ledger import clock, events
from tallybook.ledger.codec import decode
from tallybook.ledger.errors import BadInputError, NothingToDoError, UnknownEntryError
from tallybook.ledger.events import Entry
from tallybook.ledger.line import START, Position, RawBatch, complete_lines, join_chained_bytes
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.playbook_constants import REDACTED
from tallybook.ledger.records import Batch, EventRecord
from tallybook.ledger.sharing.replica import Replica, find_ids
from tallybook.ledger.storage.redacted_digests import RedactedTextError
from tallybook.projections.playbook.fold import UNDOABLE
from tallybook.projections.playbook.render import playbook_bytes, playbook_dict
from tallybook.projections.playbook.view import Playbook
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.history.shared_log import SharedLog
from tallybook.projections.surfaces.sharing.membership import Membership
from tallybook.projections.surfaces.sharing.syncing import SyncResult, rejoin, sync
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands

_moment = clock.moment


@attrs.define
class Site:
    """One machine of a history.

    Attributes:
        label: Its name, in messages.
        root: Its folder.
        model: What it is compared with.
        skew_us: How far its clock is off, in microseconds.
        intents: Its own batches of shared kinds, in order.
        order: The batches of the book up to its frontier.
        moments: Own event number → what it showed then.
        position: Up to where its own ledger was read.
        meaning: Name → entry, as the machine shows it.
        seen: Entry → as the machine shows it.
        actual: The playbook as the machine shows it.
        rendered: Name in ``playbook.json`` → entry.
        is_rendered: Whether ``playbook.json`` shows the present playbook.
        book_names: Entry in the book up to its frontier → its name there.
        landed: What landing made of events of the book.
        redacted: Texts that this machine knows to be redacted.
        erased: Events whose texts came in erased.
        clear: Events whose texts an engine had in the clear, or another ledger.
        proposed: Id of a proposal → the entry that it means.
    """

    label: str
    root: Path
    model: BookModel
    skew_us: int = 0
    intents: list[Intent] = attrs.field(factory=list)
    order: list[Intent] = attrs.field(factory=list)
    moments: dict[int, dict[str, Any]] = attrs.field(factory=dict)
    position: Position = START
    meaning: dict[str, str] = attrs.field(factory=dict)
    seen: dict[str, Entry] = attrs.field(factory=dict)
    actual: Playbook = attrs.field(factory=Playbook)
    rendered: dict[str, str] = attrs.field(factory=dict)
    is_rendered: bool = False
    book_names: dict[str, str] = attrs.field(factory=dict)
    landed: dict[str, Seen] = attrs.field(factory=dict)
    redacted: frozenset[str] = frozenset()
    erased: set[str] = attrs.field(factory=set)
    clear: set[str] = attrs.field(factory=set)
    proposed: dict[str, str] = attrs.field(factory=dict)

    @property
    def project(self) -> Project:
        """Return it as a project."""
        return Project(self.root)

    @property
    def own(self) -> JsonlLog:
        """Return its own ledger."""
        return JsonlLog(self.project.ledger)

    @property
    def pending(self) -> list[Intent]:
        """Return its own batches that its frontier does not contain."""
        in_book = {record.id for intent in self.order for record in intent.records}
        return [intent for intent in self.intents if in_book.isdisjoint(record.id for record in intent.records)]

    @contextmanager
    def clock(self) -> Iterator[None]:
        """Let its clock be the clock."""
        clock.moment = lambda unix_us: _moment(unix_us + self.skew_us)
        try:
            yield
        finally:
            clock.moment = _moment

    # ---- Acting ----

    def do(self, action: Callable[[Project], object]) -> None:
        """Let its user do something, and note what it means."""
        with self.clock():
            try:
                action(self.project)
            except (BadInputError, NothingToDoError, RedactedTextError, UnknownEntryError):
                # What a killed sync left is rendered all the same.
                commands.replay(self.project)
        self.note_intents()
        self.check()

    def part(self) -> Membership:
        """Return its part in the book."""
        return make_part(self.project, self.label, "laws")

    def sync(self, engine: ShakyEngine, limit_s: float = 600) -> SyncResult:
        """Sync; what it raises is the caller's."""
        self.note_erased(engine.batches)
        with self.clock():
            return sync(self.project, self.part(), engine, limit_s)

    def rejoin(self, engine: ShakyEngine) -> None:
        """Take another history of the book; what it raises is the caller's."""
        self.note_erased(engine.batches)
        with self.clock():
            rejoin(self.project, self.part(), engine)

    def after_sync(self) -> None:
        """Render, as `sync` does at its end, and compare."""
        self.read_order()
        with self.clock():
            commands.replay(self.project)
        self.note_intents()
        self.check()

    # ---- What its batches mean ----

    def note_intents(self) -> None:
        """Take the own batches that are new, with entries in place of names."""
        if not self.own.exists():
            return
        for number, batch in enumerate(decode(self.own.read(self.position))):
            self.position = Position(batch.last, batch.chain, batch.end)
            records = [record for record in batch.records if isinstance(record.event, SHARED)]
            if records:
                if number:
                    # An imported batch changes what the next one's manual edits saw.
                    self.seen = dict(self._expected(self.landed).entries)
                intent = self._intent(batch, records)
                self.intents.append(intent)
                self.model.note(intent, self.label)

    def _intent(self, batch: Batch, records: list[EventRecord]) -> Intent:
        made: dict[str, str] = {}
        for record in records:
            event: Any = record.event
            new = isinstance(event, MAKERS) and (
                not isinstance(event, events.PointEdited) or event.name not in self.meaning
            )
            if new:
                made[event.name] = record.id
        self.meaning |= made
        translated = tuple(attrs.evolve(record, event=self._translate(record)) for record in records)
        voided: list[str] = []
        for record in records:
            if isinstance(record.event, events.EventsVoided) and record.event.session is not None:
                voided += self.ids_of_session(record.event.session)
        return Intent(
            records=translated,
            key=batch.records[0].key,
            was=dict(self.seen),
            voided=tuple(voided),
            copies=self.model.find_copies(translated, self.seen.values()),
        )

    def ids_of_session(self, session: str) -> list[str]:
        """Return the ids of what a session did that can be undone, as far as this machine shows it."""
        return [
            record.id
            for intent in (*self.order, *self.pending)
            for record in intent.records
            if record.by.session == session
            and type(record.event) in UNDOABLE
            and not isinstance(record.event, events.EventsVoided)
        ]

    def _translate(self, record: EventRecord) -> Any:
        """Return an event with entries in place of names, and with the text that it had where it was recorded."""
        event: Any = record.event
        meaning, changes = self.meaning, dict[str, Any]()
        for field in ("name", "to"):
            if hasattr(event, field):
                changes[field] = meaning.get(getattr(event, field), UNKNOWN + getattr(event, field))
        for field in ("names", "merged"):
            if hasattr(event, field):
                changes[field] = tuple(meaning.get(name, UNKNOWN + name) for name in getattr(event, field))
        if getattr(event, "text", None) == REDACTED:
            there = self.model.text(record.id)
            is_edit = isinstance(event, events.PointEdited) and changes["name"] in self.seen
            if is_edit and (there is None or event.change == "kept"):
                # An edit of the counts of a redacted entry leaves the text, and so does one that lost its own.
                changes["change"] = "kept"
            elif there is not None:
                # Another machine recorded it, before this one redacted the text.
                changes["text"] = there
        return attrs.evolve(event, **changes) if changes else event

    # ---- What it shows ----

    def read_order(self) -> None:
        """Read the order of the book up to its frontier from its copy of the book."""
        log = SharedLog(self.project.ledger)
        order: dict[Intent, None] = {}
        self.book_names, self.landed = {}, {}
        entries: dict[str, str] = {}
        for batch in decode(log.copy.read(log.history.frontier.seq)):
            for record in batch.records:
                intent = self.model.find(record.id, record.by.writer or "")
                if intent is not None:
                    order[intent] = None
            look(batch.records, entries, self.landed)
        self.book_names = {entry: name for name, entry in entries.items()}
        self.order = list(order)

    def places(self, intent: Intent) -> range:
        """Return where in the order an own batch can have landed: after those before it, and before those after it."""
        index = self.intents.index(intent)
        at = {landed: place for place, landed in enumerate(self.order)}
        first = max((at[intent] + 1 for intent in self.intents[:index] if intent in at), default=0)
        last = min((at[intent] for intent in self.intents[index + 1 :] if intent in at), default=len(self.order))
        return range(first, max(first, last) + 1)

    def _landed_now(self) -> dict[str, Seen]:
        """Return what landing made of the events of the book, and makes of pending ones, where the model asks that."""
        if not self.model.follows or not head_of(self.own).shared:
            return self.landed
        entries, landed = {name: entry for entry, name in self.book_names.items()}, dict(self.landed)
        self._look_at_pending(entries, landed)
        return landed

    def _look_at_pending(self, entries: dict[str, str], landed: dict[str, Seen]) -> None:
        for batch, _ in SharedLog(self.project.ledger).land_pending():
            look([attrs.evolve(event.record, event=event.event) for event in batch.events], entries, landed)

    def _expected(self, landed: dict[str, Seen]) -> Playbook:
        if head_of(self.own).shared:
            return self.model.playbook([*self.order, *self.pending], landed)
        return self.model.unshared(self.intents)

    def check(self, *, rendered: bool = True) -> None:
        """Compare what the machine shows with the model, and note what each name means."""
        expected = self._expected(self._landed_now())
        actual = reading.current(reading.open_log(self.project))
        self.redacted = self._redacted_texts()
        wanted, shown = ([row[1:] for row in rows(state)] for state in (expected, actual))
        texts = [*(text for text, *_ in shown), *[""] * len(wanted)]
        wanted = [(self._mask(row[0], text), *row[1:]) for row, text in zip(wanted, texts, strict=False)]
        assert wanted == shown, f"{self.label}:\n{wanted}\n{shown}"
        names = dict(zip(expected.entries, actual.entries, strict=True))
        for entry, name in names.items():
            if entry in self.book_names:
                assert name == self.book_names[entry], f"{self.label}: another name in the book"
        # Where the book has had a name, it means no own entry any more, even if that one was undone.
        former = self.meaning | {name: entry for entry, name in self.book_names.items()}
        # Another history of the book can lack an entry; its name means nothing then.
        self.meaning = {name: entry for name, entry in former.items() if name in actual.used - actual.entries.keys()}
        self.meaning |= {name: entry for entry, name in names.items()}
        self._learn_former(expected, actual)
        self.seen = dict(expected.entries)
        exists = self.project.playbook.exists()
        self.is_rendered = exists and playbook_bytes(actual) == self.project.playbook.read_bytes()
        assert self.is_rendered or not exists or not rendered, f"{self.label}: playbook.json"
        if rendered or self.is_rendered:
            self.rendered = {name: entry for entry, name in names.items()}
        if actual.seq:
            self.moments[actual.seq] = playbook_dict(actual)
        self.actual = actual

    def _mask(self, text: str, shown: str) -> str:
        """Return a text as this machine may show it: redacted, where it knows that or the writer erased it before."""
        if text in self.redacted or (text in self.model.redacted and shown == REDACTED):
            return REDACTED
        return text

    def check_moment(self, seq: int) -> None:
        """Check that a past moment is what was shown then, without texts that anyone redacted since."""
        then, now, redacted = self.moments[seq], commands.show(self.project, str(seq)), self.model.redacted
        begun = head_of(self.own).shared and SharedLog(self.project.ledger).open_at(seq).history.frontier.seq
        for shown, point in zip(then["key_points"], now["key_points"], strict=False):
            # Of an edit whose text was redacted before it was published only the counts stay. A moment before anything
            # of the book was taken in shows the edit as the own ledger has it: redacted.
            was_left_out = point["text"] == REDACTED and not begun
            if shown["text"] in redacted or (shown["text"] == REDACTED and point["text"] in redacted) or was_left_out:
                point["text"] = shown["text"]
        assert then == now, f"{self.label} --at {seq}"

    def _learn_former(self, expected: Playbook, actual: Playbook) -> None:
        """Note what the names of entries mean that left the playbook: those of which it is certain."""
        former: dict[str, list[str]] = {}
        landed = {name: entry for entry, name in self.book_names.items()}
        if head_of(self.own).shared and not landed.keys() >= {*actual.gone, *actual.merged}:
            self._look_at_pending(landed, {})
        for entry, gone in expected.gone.items():
            text = self._mask(gone.text, "")
            former.setdefault(f"{text} {gone.helpful} {gone.harmful} {entry in expected.merged}", []).append(entry)
        for name in {*actual.gone, *actual.merged}:
            found: list[str] = []
            if name in actual.gone:
                gone = actual.gone[name]
                found = former.get(f"{gone.text} {gone.helpful} {gone.harmful} {name in actual.merged}", [])
            self.meaning[name] = landed.get(name) or (found[0] if len(found) == 1 else UNKNOWN + name)

    def check_unrendered(self) -> None:
        """Compare as ``check``, where ``playbook.json`` was not written since the sync."""
        self.check(rendered=False)

    def copy(self) -> Replica:
        """Return its copy of the book."""
        return SharedLog(self.project.ledger).copy

    def book_bytes(self) -> bytes:
        """Return the bytes of its copy of the book; without texts that can be redacted, if anyone redacted one."""
        data = Path(self.copy().log.log_file).read_bytes()
        return join_chained_bytes(complete_lines(data)) if self.model.redacted else data

    def book_end(self) -> int:
        """Return up to where it has the book."""
        return self.copy().end().seq

    def certain(self, names: Any) -> list[str]:
        """Return those of some names of which the model knows what they mean."""
        return [name for name in names if not self.meaning.get(name, UNKNOWN).startswith(UNKNOWN)]

    def expected_after_edit(self, before: list[Any], after: list[Any]) -> dict[str, tuple[str, int, int]]:
        """Return what entries are once a change of ``playbook.json`` is recorded: what they are now, and the change.

        Args:
            before: The file's entries as they were rendered, maybe some time ago.
            after: The file's entries with the change.
        """
        changed = {point["name"]: point for point in after}
        expected: dict[str, tuple[str, int, int]] = {}
        for old in before:
            entry, new = self.rendered[old["name"]], changed.get(old["name"])
            now = self.seen.get(entry)
            if now is not None and new is not None and new != old:
                text = now.text if new["text"] == old["text"] else new["text"]
                counts = (max(getattr(now, key) + new[key] - old[key], 0) for key in ("helpful", "harmful"))
                expected[entry] = (text, *counts)
        return expected

    # ---- What it can know of redacted texts ----

    def note_erased(self, batches: Iterable[RawBatch]) -> None:
        """Note the texts that come in erased, with what an engine got back or with a ledger that had erased them."""
        if self.model.redacted:
            coming = [*batches]
            # What this machine has, it had in the clear, unless that is noted already.
            here = self.copy().ids()
            here |= {id_ for batch in self.own.read() for id_ in find_ids(batch.data)} if self.own.exists() else set()
            records = [record for batch in decode(coming) for record in batch.records if hasattr(record.event, "text")]
            hidden = {record.id for record in records if getattr(record.event, "text", None) in {None, REDACTED}}
            self.erased |= hidden - here
            # An engine had it in the clear before, and the sync was killed that would have taken it in.
            self.clear -= hidden - here
            self.clear |= {record.id for record in records} - hidden

    def _redacted_texts(self) -> frozenset[str]:
        """Return the texts that this machine knows to be redacted: those of events that had them in the clear."""
        texts: set[str] = set()
        if not self.model.redacted or not self.own.exists():
            return frozenset()
        log = SharedLog(self.project.ledger)
        book = [record for batch in decode(log.copy.read(log.history.frontier.seq)) for record in batch.records]
        own = [record for batch in decode(self.own.read()) for record in batch.records]
        hidden = {record.id for record in (*book, *own) if getattr(record.event, "text", None) == REDACTED}
        # A text that was erased here before it came in comes in once more with the book.
        hidden |= self.erased - (self.clear & {record.id for record in book})
        # An edit whose own text was redacted before it was published came in as one that left the text of its entry.
        here = {record.id for record in (*book, *own) if getattr(record.event, "change", "") != "kept"} - hidden
        for record in (*book, *own):
            if isinstance(record.event, events.EventRedacted) and record.event.id in here:
                texts |= self.model.texts.get(record.event.id, set()) - {REDACTED}
        return frozenset(texts)

    # ---- Copies and backups ----

    def copy_to(self, label: str, root: Path) -> Site:
        """Return a copy of its folder, which goes on as another machine."""
        shutil.copytree(self.root, root)
        self.model.copy_forms(self.label, label)
        return attrs.evolve(
            self,
            label=label,
            root=root,
            intents=[*self.intents],
            order=[*self.order],
            moments=dict(self.moments),
            meaning=dict(self.meaning),
            seen=dict(self.seen),
            rendered=dict(self.rendered),
            book_names=dict(self.book_names),
            landed=dict(self.landed),
            erased={*self.erased},
            clear={*self.clear},
            proposed=dict(self.proposed),
        )


def rows(state: Playbook) -> list[tuple[str, str, int, int]]:
    """Return the entries of a playbook as (name, text, helpful, harmful)."""
    return [(name, entry.text, entry.helpful, entry.harmful) for name, entry in state.entries.items()]
