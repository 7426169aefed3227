"""Random histories of machines that share a book, for the laws of sharing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
import json
from pathlib import Path
import random
import shutil
from typing import Any, Final

import attrs

from helpers import sharing_steps
from helpers.ledger_files import head_of
from helpers.memory_store import FAULTS
from helpers.sharing_faults import CrashError, ShakyEngine, crashing
from helpers.sharing_machines import Site
from helpers.sharing_model import Intent, Model
from tallybook.ledger import events
from tallybook.ledger.codec import decode
from tallybook.ledger.decisions.curation import Curation
from tallybook.ledger.errors import NothingToDoError
from tallybook.ledger.events import Numbers
from tallybook.ledger.names import SECTIONS
from tallybook.ledger.playbook_constants import REDACTED
from tallybook.ledger.sharing.engine import Engine, ReadOnlyError, UnreachableError
from tallybook.projections.surfaces.sharing.syncing import OtherBookError
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands
from tallybook.projections.surfaces.writing import record as recording
from tallybook.projections.surfaces.writing.curation import make_undo
from tallybook.projections.surfaces.writing.requests import PlainEvents, Request

TEXTS: Final = [f"Text {number:02d}" for number in range(14)]
SESSIONS: Final = ("s1", "s2", "s3", "s4")
LEGACY: Final = (
    [("kpt_001", 0, 2, 1), ("kpt_002", 1, 0, 0), ("kpt_003", 2, 3, 3)],
    [("kpt_001", 2, 1, 4), ("kpt_002", 3, 5, 0)],
    [("style", 4, 1, 0), ("kpt_002", 0, 4, 1)],
)
"""Legacy files: names, index of the text, helpful and harmful of each entry."""
CURATIONS: Final = ("retire", "restore", "pin", "unpin", "reword", "merge", "retire", "restore", "move")
MACHINES: Final = 5
ROUNDS: Final = 4
"""As often machines sync in the end, until all have the same."""


def legacy_bytes(index: int) -> bytes:
    """Return a legacy file."""
    points = [
        {"name": name, "text": TEXTS[text], "helpful": helpful, "harmful": harmful}
        for name, text, helpful, harmful in LEGACY[index]
    ]
    return json.dumps({"version": "1.0", "key_points": points}).encode()


class History:
    """One random history; ``told`` has what was done, for a failure's message."""

    def __init__(self, seed: int, folder: Path, engine: Engine | None = None) -> None:
        """Begin with up to five machines that know nothing of one another, and an engine; None for one in memory."""
        self.random = random.Random(seed)  # noqa: S311 - a seeded history, no secret
        self.folder = folder
        self.model = Model()
        self.engine = ShakyEngine(self.random, engine)
        self.told: list[str] = []
        self.backups: dict[str, tuple[Path, Site]] = {}
        self.sites = [self._new_site(label) for label in "ABCDE"[: self.random.choice((2, 2, 3, 3, 4, 5))]]

    def _new_site(self, label: str) -> Site:
        root = self.folder / label
        (root / ".claude").mkdir(parents=True)
        skew = self.random.choice((0, 0, 0, 5_000_000, -5_000_000, 86_400_000_000, -86_400_000_000))
        return Site(label, root, self.model, skew)

    def run(self, steps: int) -> None:
        """Do random things, then let everything settle, and compare."""
        for _ in range(steps):
            self.step(self.random.choice(self.sites))
        self.settle()

    def step(self, site: Site) -> None:
        """Let a machine do something."""
        chosen: Callable[[History, Site], None] = self.random.choices(list(STEPS), list(STEPS.values()))[0]
        self.told.append(f"{site.label} {chosen.__name__}")
        chosen(self, site)

    # ---- What users do ----

    def by(self) -> dict[str, str]:
        """Return a rater."""
        return {"rater": self.random.choice(("human", "reflector")), "session": self.random.choice(SESSIONS)}

    def text(self) -> str:
        """Return a text, often one that others have as well."""
        if self.random.random() < 0.6:
            return self.random.choice(TEXTS)
        return f"Unique {self.random.getrandbits(40):010x}"

    def name(self, site: Site) -> str:
        """Return the name of an entry of a machine, at times one that is not there."""
        names = list(site.seen)
        if not names or self.random.random() < 0.05:
            return f"kpt_{self.random.randrange(1, 400):03d}" if self.random.random() < 0.5 else "nothing"
        by_entry = {entry: name for name, entry in site.meaning.items()}
        return by_entry[self.random.choice(names)]

    def usable(self, site: Site, *names: str) -> bool:
        """Return whether the model knows what these names mean, if they mean anything."""
        state = site.actual
        return all(name not in state.used or site.certain([name]) for name in names)

    def add(self, site: Site) -> None:
        """Add an entry."""
        text, by = self.text(), self.by()
        site.do(lambda project: commands.add(project, text, by))

    def record(self, site: Site) -> None:
        """Record what a reflection found, at times a delivery that another machine gets as well."""
        texts = [self.text() for _ in range(self.random.choice((0, 0, 1, 1, 2, 3)))]
        rated = [self.name(site) for _ in range(self.random.choice((0, 1, 1, 2, 3)))]
        key = self.random.choice((None, None, None, "delivery-1", "delivery-2", "delivery-3"))
        ratings = [
            {"name": name, "rating": self.random.choice(("helpful", "harmful", "harmful", "harmful", "neutral"))}
            for name in rated
            for _ in range(self.random.choice((1, 1, 1, 3)))
        ]
        if not self.usable(site, *rated):
            return
        by = self.by()
        payload = {"new_key_points": texts, "evaluations": ratings}
        site.do(lambda project: commands.record(project, payload, by, key))

    def load_legacy(self, site: Site) -> None:
        """Import a legacy file."""
        data, how = legacy_bytes(self.random.randrange(len(LEGACY))), self.random.random()
        if how < 0.3 and not site.own.exists() and not site.project.playbook.exists():
            site.project.playbook.write_bytes(data)
            site.do(commands.replay)
        else:
            site.do(lambda project: commands.import_file(project, data, "legacy"))

    def edit(self, site: Site) -> None:
        """Change ``playbook.json`` by hand."""
        if not site.project.playbook.exists() or not site.own.exists():
            return
        document: dict[str, Any] = json.loads(site.project.playbook.read_bytes())
        points = document["key_points"]
        before = json.loads(json.dumps(points))
        for _ in range(self.random.choice((1, 1, 2, 3))):
            self._change(points)
        if any(point["text"] in self.model.redacted for point in points):
            # What brings a redacted text back is left out.
            return
        redacted = {
            point["name"]: point["text"] for point in before if point["text"] in {REDACTED, *self.model.redacted}
        }
        if not site.is_rendered and any(
            point["text"] != redacted.get(point["name"], point["text"]) for point in points
        ):
            # In a file that is older than a redaction, a text of a redacted entry may be the old one.
            return
        if self.random.random() < 0.1:
            document["note"] = f"note {self.random.randrange(3)}"
        expected = site.expected_after_edit(before, points)
        site.project.playbook.write_text(json.dumps(document, indent=2))
        site.do(commands.replay)
        actual = {
            entry: (state.text, state.helpful, state.harmful) for entry, state in site.seen.items() if entry in expected
        }
        assert expected == actual, f"{site.label}: an edit of what was rendered"

    def _change(self, points: list[Any]) -> None:
        how = self.random.randrange(6)
        if how == 0 or not points:
            points.append(
                {"name": f"new_{self.random.getrandbits(30):x}", "text": self.text(), "helpful": 1, "harmful": 0}
            )
            return
        point = self.random.choice(points)
        if how == 1:
            point["helpful"] = self.random.randrange(5)
        elif how == 2:
            point["harmful"] = self.random.randrange(5)
        elif how == 3:
            point["text"] = self.text()
        elif how == 4:
            points.remove(point)
        else:
            self.random.shuffle(points)

    def curate(self, site: Site) -> None:
        """Retire, restore, reword, pin, unpin, merge or move into a section."""
        verb, by = self.random.choice(CURATIONS), self.by()
        state = site.actual
        known = site.certain(state.gone) if verb == "restore" else list(state.entries)
        if not known:
            return
        name, source = self.random.choice(known), self.random.choice(known)
        if verb == "merge" and source == name:
            return
        sources, section = (source,) if verb == "merge" else (), self.random.choice([*SECTIONS])
        what = Curation(verb, name, text=self.text(), sources=sources, section=section)

        def action(project: Project) -> None:
            try:
                commands.record_request(project, Request(what, by))
            except NothingToDoError:
                commands.replay(project)

        site.do(action)

    def undo(self, site: Site) -> None:
        """Undo an event, a batch, or a session; at times an undo."""
        shown: list[Intent] = [*site.order, *site.pending]
        if not shown:
            return
        intent = self.random.choice(shown[-6:])
        ids = [record.id for record in intent.records]
        how = self.random.random()
        what = make_undo(ids if how < 0.6 else [self.random.choice(ids)])
        if how > 0.85:
            session = self.random.choice(SESSIONS)
            shared = head_of(site.own).shared
            what = make_undo(tuple(site.ids_of_session(session))) if shared else make_undo((), session)
        site.do(lambda project: recording.write(project, [Request(what, {"rater": "human"})]))

    def own_kinds(self, site: Site) -> None:
        """Record what the book does not share."""
        plain: events.Event = events.PointCited(self.name(site), "message")
        if self.random.random() < 0.5:
            plain = events.MetricsRecorded("ac01", Numbers({"calls": 1}), "")
        by = self.by()
        site.do(lambda project: recording.write(project, [Request(PlainEvents((plain,)), by)]))

    # ---- What machines do ----

    def sync(self, site: Site) -> None:
        """Sync; at times it is killed, or another machine is quicker."""
        how = self.random.random()
        if how < 0.25 and len(self.sites) > 1:
            other = self.random.choice([candidate for candidate in self.sites if candidate is not site])
            self.told.append(f"{other.label} is quicker")
            self.engine.before_append = lambda: self.sync_whole(other)
        elif how < 0.35:
            self.engine.faults.fault = self.random.choice(FAULTS)
        elif how < 0.4:
            self.engine.refusal = ReadOnlyError("memory", "you may not write")
        elif how < 0.45:
            self.engine.refusal = UnreachableError("memory", "no network")
        if how > 0.6:
            self.sync_killed(site)
        else:
            self.sync_whole(site, self.random.choice((0, 600, 600)))
        self.engine.calm()

    def sync_killed(self, site: Site) -> None:
        """Sync, and kill it at one of its steps."""
        number = self.random.randrange(1, 30)
        try:
            with crashing(number, self.random):
                site.sync(self.engine)
                with site.clock():
                    commands.replay(site.project)
        except CrashError as error:
            self.told.append(f"killed: {error}")
        except OtherBookError:
            sharing_steps.rejoin(self, site)
            return
        self.engine.calm()
        if self.random.random() < 0.5:
            site.after_sync()
        else:
            site.read_order()
            site.note_intents()
            site.check_unrendered()

    def sync_whole(self, site: Site, limit_s: float = 600) -> None:
        """Sync to the end, or as far as the engine and the time allow."""
        try:
            with suppress(UnreachableError):
                site.sync(self.engine, limit_s)
        except OtherBookError:
            sharing_steps.rejoin(self, site)
        else:
            site.after_sync()

    def copy(self, site: Site) -> None:
        """Copy a folder; both go on."""
        if len(self.sites) < MACHINES:
            label = "ABCDE"[len(self.sites)]
            self.sites.append(site.copy_to(label, self.folder / label))

    def back_up(self, site: Site) -> None:
        """Make a backup, or restore one: what it lacks is lost unless the book has it."""
        if site.label in self.backups and self.random.random() < 0.6:
            path, before = self.backups[site.label]
            shutil.rmtree(site.root)
            shutil.copytree(path, site.root)
            restored = before.copy_to(site.label, self.folder / f"unused-{self.random.getrandbits(60):x}")
            shutil.rmtree(restored.root)
            self.sites[self.sites.index(site)] = attrs.evolve(restored, root=site.root)
        else:
            path = self.folder / f"backup-{site.label}"
            shutil.rmtree(path, ignore_errors=True)
            self.backups[site.label] = (path, site.copy_to(site.label, path))

    def lose(self, _: Site) -> None:
        """Roll the engine back or empty it; then the machine that has most syncs first."""
        self.engine.lose()
        self.sync_whole(max(self.sites, key=lambda site: site.book_end()))

    def disturb(self, _: Site) -> None:
        """Put a run into the engine that does not count."""
        self.engine.disturb()

    # ---- The end ----

    def settle(self) -> None:
        """Sync all machines until nothing moves, and check the laws."""
        self.engine.calm()
        for _ in range(ROUNDS):
            for site in sorted(self.sites, key=lambda site: -site.book_end()):
                self.told.append(f"{site.label} settles")
                self.sync_whole(site)
            if len({site.book_bytes() for site in self.sites}) == 1:
                break
        first = self.sites[0]
        for site in self.sites:
            assert site.book_bytes() == first.book_bytes(), f"replicas of {site.label} and {first.label}"
            assert commands.show(site.project) == commands.show(first.project), site.label
        self._check_once()
        for site in self.sites:
            for seq in self.random.sample(sorted(site.moments), min(3, len(site.moments))):
                site.check_moment(seq)
            sharing_steps.check_erased(site, *site.redacted)

    def _check_once(self) -> None:
        """Check that each batch of each machine is in the book once."""
        copy = self.sites[0].copy()
        ids = [record.id for batch in decode(copy.read()) for record in batch.records]
        assert len(ids) == len(set(ids))
        in_book = set(ids)
        for site in self.sites:
            for intent in site.pending:
                places = (site.order[:place] for place in site.places(intent))
                missing = not any(self.model.concerns_nobody([*place, intent], site.landed) for place in places)
                assert not missing, f"{site.label}: {intent.id} is not in the book"
            for intent in site.order:
                assert not in_book.isdisjoint(record.id for record in intent.records)


STEPS: Final = {
    History.add: 12,
    History.record: 22,
    History.load_legacy: 3,
    History.edit: 8,
    History.curate: 12,
    History.undo: 6,
    History.own_kinds: 3,
    History.sync: 28,
    History.copy: 1,
    History.back_up: 2,
    History.lose: 1,
    History.disturb: 1,
    sharing_steps.redact_text: 3,
    sharing_steps.propose: 2,
    sharing_steps.decide: 3,
    sharing_steps.rewrite: 1,
    sharing_steps.import_other: 2,
}
"""A step → how often it comes."""
