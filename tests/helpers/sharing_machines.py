"""Machines of a random history: each is a real folder, of which the model knows what every own batch means."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
import shutil
from typing import TYPE_CHECKING, Any

import attrs

from helpers.sharing_model import MAKERS, SHARED, Intent
from tallybook.ledger import clock, events
from tallybook.ledger.backends.jsonl import JsonlLog
from tallybook.ledger.encoding.codec import decode
from tallybook.ledger.line import START, Position
from tallybook.ledger.sharing import replica as replicas
from tallybook.ledger.sharing.replica import Replica
from tallybook.projections.fold import UNDOABLE
from tallybook.projections.playbook.render import playbook_bytes, playbook_dict
from tallybook.projections.playbook.view import Playbook
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.sharing.syncing import Machine, SyncResult, sync
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from helpers.sharing_model import Model
    from tallybook.ledger.events import Entry
    from tallybook.ledger.records import Batch, EventRecord
    from tallybook.ledger.sharing.engines.engine import Engine

UNKNOWN = "unknown "
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
    """

    label: str
    root: Path
    model: Model
    skew_us: int = 0
    intents: list[Intent] = attrs.field(factory=list)
    order: list[Intent] = attrs.field(factory=list)
    moments: dict[int, dict[str, Any]] = attrs.field(factory=dict)
    position: Position = START
    meaning: dict[str, str] = attrs.field(factory=dict)
    seen: dict[str, Entry] = attrs.field(factory=dict)
    actual: Playbook = attrs.field(factory=Playbook)
    rendered: dict[str, str] = attrs.field(factory=dict)

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
        in_book = set(self.order)
        return [intent for intent in self.intents if intent not in in_book]

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
            action(self.project)
        self.note_intents()
        self.check()

    def sync(self, engine: Engine, limit_s: float = 600) -> SyncResult:
        """Sync; what it raises is the caller's."""
        ledger = str(self.project.ledger)
        with self.clock():
            return sync(Machine(ledger, self.label, "", "laws", limit_s=limit_s), engine)

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
        for batch in decode(self.own.read(self.position)):
            self.position = Position(batch.last, batch.chain, batch.end)
            records = [record for record in batch.records if isinstance(record.event, SHARED)]
            if records:
                intent = self._intent(batch, records)
                self.intents.append(intent)
                self.model.note(intent)

    def _intent(self, batch: Batch, records: list[EventRecord]) -> Intent:
        made: dict[str, str] = {}
        for record in records:
            event: Any = record.event
            new = isinstance(event, MAKERS) and (
                not isinstance(event, events.PointEdited) or event.name not in self.meaning
            )
            if new:
                made[event.name] = record.id
        meaning = self.meaning | made
        translated = tuple(attrs.evolve(record, event=_translate(record.event, meaning)) for record in records)
        voided: list[str] = []
        for record in records:
            if isinstance(record.event, events.EventsVoided) and record.event.session is not None:
                voided += self._ids_of_session(record.event.session)
        return Intent(translated, batch.records[0].key, dict(self.seen), tuple(voided))

    def _ids_of_session(self, session: str) -> list[str]:
        """Return the ids of what a session did that can be undone, as far as this machine shows it."""
        return [
            record.id
            for intent in (*self.order, *self.pending)
            for record in intent.records
            if record.by.session == session
            and type(record.event) in UNDOABLE
            and not isinstance(record.event, events.EventsVoided)
        ]

    # ---- What it shows ----

    def read_order(self) -> None:
        """Read the order of the book up to its frontier from its copy of the book."""
        frontier = 0
        for batch in decode(self.own.read()):
            for event in batch.events:
                if isinstance(event, events.BookTaken):
                    frontier = event.seq
        order: dict[Intent, None] = {}
        for batch in decode(self.copy().read(frontier)):
            for record in batch.records:
                if record.id in self.model.intents:
                    order[self.model.intents[record.id]] = None
        self.order = list(order)

    def check(self, *, rendered: bool = True) -> None:
        """Compare what the machine shows with the model, and note what each name means."""
        shared = self.own.is_shared()
        expected = self.model.playbook([*self.order, *self.pending]) if shared else self.model.unshared(self.intents)
        actual = reading.current(reading.open_log(self.project))
        wanted, shown = ([one[1:] for one in rows(state)] for state in (expected, actual))
        assert wanted == shown, f"{self.label}:\n{wanted}\n{shown}"
        assert len(actual.entries) == len({*actual.entries}), self.label
        names = dict(zip(expected.entries, actual.entries, strict=True))
        in_book = set(self.order)
        for entry, name in names.items():
            if self.model.intents[entry] in in_book:
                assert name == self.model.names.setdefault(entry, name), f"{self.label}: another name in the book"
        self.meaning = {name: entry for name, entry in self.meaning.items() if name not in actual.entries}
        self.meaning |= {name: entry for entry, name in names.items()}
        self._learn_former(expected, actual)
        self.seen = dict(expected.entries)
        if rendered:
            self.rendered = {name: entry for entry, name in names.items()}
        if rendered and self.project.playbook.exists():
            assert playbook_bytes(actual) == self.project.playbook.read_bytes(), self.label
        if actual.seq:
            self.moments[actual.seq] = playbook_dict(actual)
        self.actual = actual

    def _learn_former(self, expected: Playbook, actual: Playbook) -> None:
        """Note what the names of entries mean that left the playbook: those of which it is certain."""
        former: dict[str, list[str]] = {}
        for entry, one in expected.gone.items():
            former.setdefault(f"{one.text} {one.helpful} {one.harmful} {entry in expected.merged}", []).append(entry)
        for name in {*actual.gone, *actual.merged}:
            found: list[str] = []
            if name in actual.gone:
                one = actual.gone[name]
                found = former.get(f"{one.text} {one.helpful} {one.harmful} {name in actual.merged}", [])
            self.meaning[name] = found[0] if len(found) == 1 else UNKNOWN + name

    def check_unrendered(self) -> None:
        """Compare as ``check``, where ``playbook.json`` was not written since the sync."""
        self.check(rendered=False)

    def copy(self) -> Replica:
        """Return its copy of the book."""
        current = replicas.read_current(self.project.ledger)
        return Replica(self.project.ledger, "1" if current is None else current.copy)

    def copy_bytes(self) -> bytes:
        """Return the bytes of its copy of the book."""
        return Path(self.copy().log.log_file).read_bytes()

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

    # ---- Copies and backups ----

    def copy_to(self, label: str, root: Path) -> Site:
        """Return a copy of its folder, which goes on as another machine."""
        shutil.copytree(self.root, root)
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
        )


def rows(state: Playbook) -> list[tuple[str, str, int, int]]:
    """Return the entries of a playbook as (name, text, helpful, harmful)."""
    return [(name, one.text, one.helpful, one.harmful) for name, one in state.entries.items()]


def _translate(event: Any, meaning: dict[str, str]) -> Any:
    """Return an event with entries in place of names."""
    changes: dict[str, Any] = {}
    if hasattr(event, "name"):
        changes["name"] = meaning.get(event.name, UNKNOWN + event.name)
    for field in ("names", "merged"):
        if hasattr(event, field):
            changes[field] = tuple(meaning.get(name, UNKNOWN + name) for name in getattr(event, field))
    return attrs.evolve(event, **changes) if changes else event
