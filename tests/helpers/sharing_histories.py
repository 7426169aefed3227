"""Random histories of machines that share a book, for the laws of sharing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
import json
from pathlib import Path
import random
import shutil
import tempfile
from typing import Any, Final

import attrs

from helpers.engines import Fixtures
from helpers.ledger_files import head_of
from helpers.memory_store import FAULTS
from helpers.sharing_faults import CrashError, ShakyEngine, crash_at_step
from helpers.sharing_machines import Site
from helpers.sharing_model import UNKNOWN, BookModel, Intent
from tallybook.ledger import events
from tallybook.ledger.codec import decode, encode
from tallybook.ledger.decisions.curation import Curation
from tallybook.ledger.errors import NothingToDoError
from tallybook.ledger.events import Numbers
from tallybook.ledger.line import START, Stamp, frame
from tallybook.ledger.names import SECTIONS
from tallybook.ledger.playbook_constants import REDACTED
from tallybook.ledger.records import Author, EventRecord
from tallybook.ledger.sharing.book import count
from tallybook.ledger.sharing.engine import Engine, EngineError, ReadOnlyError, Run, UnreachableError
from tallybook.ledger.sharing.replica import find_ids
from tallybook.projections.playbook.fold import fold_history
from tallybook.projections.playbook.view import PLAYBOOK, Playbook
from tallybook.projections.surfaces.sharing.ledger_copies import import_ledger
from tallybook.projections.surfaces.sharing.syncing import OtherBookError
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands, curation, redact
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


class RandomHistory:
    """One random history; ``told`` has what was done, for a failure's message."""

    def __init__(self, seed: int, folder: Path, engine: Engine | None = None) -> None:
        """Begin with up to five machines that know nothing of one another, and an engine; None for one in memory."""
        self.random = random.Random(seed)  # noqa: S311 - a seeded history, no secret
        self.folder = folder
        self.model = BookModel()
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
        chosen: Callable[[RandomHistory, Site], None] = self.random.choices(list(STEPS), list(STEPS.values()))[0]
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
            with crash_at_step(number, self.random):
                site.sync(self.engine)
                with site.clock():
                    commands.replay(site.project)
        except CrashError as error:
            self.told.append(f"killed: {error}")
        except OtherBookError:
            rejoin(self, site)
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
            rejoin(self, site)
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
            check_erased(site, *site.redacted)

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


# Further steps: redactions, proposals, other histories, imports of ledgers.

PROPOSED: Final = ("retire", "reword", "unpin", "merge")
STRANGER: Final = "stranger"


# ---- Redaction ----


def redact_text(history: RandomHistory, site: Site) -> None:
    """Redact a text that the machine has: an own one or another's, published or not."""
    texts = sorted({entry.text for entry in site.actual.entries.values()} - {REDACTED})
    if not texts:
        return
    text = history.random.choice(texts)
    history.told.append(f"  {text}")
    history.model.redacted.add(text)

    def action(project: Project) -> None:
        redact.redact(project, redact.RedactionTarget(text=text), "a name", {"rater": "human"})

    site.do(action)
    check_erased(site, text)


def check_erased(site: Site, *texts: str) -> None:
    """Check that no file of a machine has a text that it knows to be redacted."""
    files = [path for path in site.root.rglob("*") if path.is_file()]
    for text in texts:
        holding = [path.name for path in files if text.encode() in path.read_bytes()]
        assert [] == holding, f"{site.label}: {text} was redacted"


# ---- Proposals ----


def propose(history: RandomHistory, site: Site) -> None:
    """Propose a change of an entry, as an agent does."""
    names = site.certain(site.actual.entries)
    if len(names) < len(("name", "source")):
        return
    name, source = history.random.sample(names, 2)
    verb = history.random.choice(PROPOSED)
    wish = Curation(verb, name, text=history.text(), sources=(source,) if verb == "merge" else ())
    by, meant = history.by(), site.meaning[name]

    def action(project: Project) -> None:
        curation.propose(project, wish, "protected", by)

    site.do(action)
    for proposal in curation.open_proposals(site.project):
        site.proposed.setdefault(proposal.id, meant)


def decide(history: RandomHistory, site: Site) -> None:
    """Accept or reject an open proposal; an accepted one changes the entry that was meant."""
    waiting = curation.open_proposals(site.project) if site.own.exists() else []
    if not waiting:
        return
    proposal = history.random.choice(waiting)
    decision = curation.accept if history.random.random() < 0.7 else curation.reject

    def action(project: Project) -> None:
        decision(project, proposal, "", {"rater": "human"})

    number = len(site.intents)
    site.do(action)
    for intent in site.intents[number:]:
        changed = [record.event.name for record in intent.records if isinstance(record.event, CHANGES)]
        meant = site.proposed[proposal.id]
        assert all(history.model.is_same(meant, entry) for entry in changed), f"{site.label}: {meant} was proposed"


CHANGES: Final = (events.PointRetired, events.PointReworded, events.PointUnpinned, events.PointMerged)


# ---- Another history of the book ----


def rewrite(history: RandomHistory, _: Site) -> None:
    """Let the engine lose its end, and a stranger append something else there."""
    engine = history.engine
    runs = engine.runs
    kept = runs[: history.random.randrange(1, len(runs) + 1)] if runs else []
    batches = count(kept, START, set()).batches
    if not batches:
        return
    state = fold_history(PLAYBOOK, lambda: decode(batches))
    texts = {entry.text for entry in state.entries.values()}
    text = next(text for text in iter(history.text, "") if text not in texts)
    name = next(f"kpt_{number:03d}" for number in range(history.random.randrange(1, 300), 999) if free(state, number))
    id_, last = f"stranger-{history.random.getrandbits(60):x}", batches[-1]
    added = EventRecord(1, last.position.at, events.PointAdded(id_, text), id_, Author(STRANGER))
    history.model.note(Intent((added,), None, {}), STRANGER)
    stamp = Stamp(last.position, added.at, {"rater": "human", "writer": STRANGER}, lambda: id_, lambda: "salt")
    batch = frame([encode(events.PointAdded(name, text))], stamp)
    engine.put([*kept, Run(batch.first, batch.last, last.chain, batch.chain, batch.raw)])


def free(state: Playbook, number: int) -> bool:
    """Return whether no entry has, or had, the name with a number."""
    return f"kpt_{number:03d}" not in state.used


def rejoin(history: RandomHistory, site: Site, *, kills: bool = True) -> None:
    """Take the engine's history of the book; at times that is killed, and done again."""
    history.told.append(f"{site.label} rejoins")
    batches = count(history.engine.read(0).runs, START, set()).batches
    there = {id_ for batch in batches for id_ in find_ids(batch.data)}
    for intent in (*site.order, *site.pending):
        ids = {record.id for record in intent.records}
        if there.isdisjoint(ids):
            history.model.relanded |= ids
    if kills and history.random.random() < 0.5:
        try:
            with suppress(OtherBookError, EngineError), crash_at_step(history.random.randrange(1, 12), history.random):
                site.rejoin(history.engine)
        except CrashError as error:
            history.told.append(f"killed: {error}")
            site.read_order()
            site.note_intents()
            site.check_unrendered()
    with suppress(OtherBookError, EngineError):
        site.rejoin(history.engine)
    site.after_sync()


# ---- Another ledger ----


def import_other(history: RandomHistory, site: Site) -> None:
    """Import another machine's own ledger: its batches are here once, and mean the entries that they meant there."""
    other = history.random.choice(history.sites)
    if other is site or not other.own.exists() or not site.own.exists():
        return
    history.told.append(f"  of {other.label}")

    def action(project: Project) -> None:
        import_ledger(project, str(other.root), dry_run=False, accept_loss=False)

    number = len(site.intents)
    site.note_erased(other.own.read())
    site.do(action)
    # Open proposals come along.
    site.proposed = {**other.proposed, **site.proposed}
    for intent in site.intents[number:]:
        for record in intent.records:
            check_meaning(history, other, record)


def check_meaning(history: RandomHistory, other: Site, record: EventRecord) -> None:
    """Check that an imported rating counts for the entry that the other machine rated."""
    if isinstance(record.event, events.PointRated):
        there = history.model.find(record.id, other.label)
        assert there is not None
        meant = next(getattr(origin.event, "name", "") for origin in there.records if origin.id == record.id)
        # Of an entry that was undone here the model does not know the name.
        if record.event.name.startswith(UNKNOWN):
            return
        assert history.model.is_same(meant, record.event.name), f"{record.id} rated {meant}"


STEPS: Final = {
    RandomHistory.add: 12,
    RandomHistory.record: 22,
    RandomHistory.load_legacy: 3,
    RandomHistory.edit: 8,
    RandomHistory.curate: 12,
    RandomHistory.undo: 6,
    RandomHistory.own_kinds: 3,
    RandomHistory.sync: 28,
    RandomHistory.copy: 1,
    RandomHistory.back_up: 2,
    RandomHistory.lose: 1,
    RandomHistory.disturb: 1,
    redact_text: 3,
    propose: 2,
    decide: 3,
    rewrite: 1,
    import_other: 2,
}
"""A step → how often it comes."""


# Runs of such histories, in memory where the system has a folder there.

MakeEngine = Callable[[Path], Engine | None]

HISTORY_STEPS: Final = 30
_SHM: Final = Path("/dev/shm")  # noqa: S108 - each run makes a folder of its own in it


@contextmanager
def memory_folder() -> Iterator[Path]:
    """Give an empty folder, in memory where the system has it, because every step of a history flushes files."""
    folder = Path(tempfile.mkdtemp(prefix="tallybook-laws-", dir=_SHM if _SHM.is_dir() else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


NAMES: Final = {"memory": "memory", "git": "git by path", "postgres": "postgres", "s3": "s3", "azure": "azure"}
"""Name on the command line → that of the engine."""


@contextmanager
def open_engines(name: str) -> Iterator[MakeEngine]:
    """Start what an engine needs, and give a function that opens one on a new book in a folder."""
    with ExitStack() as stack:
        fixtures = Fixtures(stack, Path())

        def make_engine(folder: Path) -> Engine | None:
            fixtures.folder = folder
            return None if name == "memory" else fixtures.open_book(NAMES[name])()

        yield make_engine


def run_history(seed: int, folder: Path, steps: int = HISTORY_STEPS, make_engine: MakeEngine = lambda _: None) -> None:
    """Run one history, and say what was done where a law is broken."""
    place = folder / f"history-{seed}"
    place.mkdir()
    engine = make_engine(place)
    history = RandomHistory(seed, place, engine)
    try:
        history.run(steps)
    except Exception as error:
        told = "\n".join(history.told)
        raise AssertionError(f"history {seed}, {steps} steps: {type(error).__name__}: {error}\n{told}") from error
    finally:
        history.engine.close()
        shutil.rmtree(place)
