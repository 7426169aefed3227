"""Steps of a random history besides the everyday ones: redactions, proposals, other histories, imports of ledgers."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from helpers.sharing_faults import CrashError, crashing
from helpers.sharing_model import UNKNOWN, Intent
from tallybook.ledger import events
from tallybook.ledger.codec import decode, encode
from tallybook.ledger.decisions.curation import Curation
from tallybook.ledger.line import START, Stamp, frame
from tallybook.ledger.playbook_constants import REDACTED
from tallybook.ledger.records import Author, EventRecord
from tallybook.ledger.sharing.book import count
from tallybook.ledger.sharing.engine import EngineError, Run
from tallybook.ledger.sharing.replica import find_ids
from tallybook.projections.playbook.fold import fold_history
from tallybook.projections.playbook.view import PLAYBOOK
from tallybook.projections.surfaces.sharing.ledger_copies import import_ledger
from tallybook.projections.surfaces.sharing.syncing import OtherBookError
from tallybook.projections.surfaces.writing import curation, redact

if TYPE_CHECKING:
    from helpers.sharing_histories import History
    from helpers.sharing_machines import Site
    from tallybook.projections.playbook.view import Playbook
    from tallybook.projections.surfaces.workspace.project import Project

PROPOSED: Final = ("retire", "reword", "unpin", "merge")
STRANGER: Final = "stranger"


# ---- Redaction ----


def redact_text(history: History, site: Site) -> None:
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


def propose(history: History, site: Site) -> None:
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


def decide(history: History, site: Site) -> None:
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


def rewrite(history: History, _: Site) -> None:
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


def rejoin(history: History, site: Site, *, kills: bool = True) -> None:
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
            with suppress(OtherBookError, EngineError), crashing(history.random.randrange(1, 12), history.random):
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


def import_other(history: History, site: Site) -> None:
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


def check_meaning(history: History, other: Site, record: EventRecord) -> None:
    """Check that an imported rating counts for the entry that the other machine rated."""
    if isinstance(record.event, events.PointRated):
        there = history.model.find(record.id, other.label)
        assert there is not None
        meant = next(getattr(origin.event, "name", "") for origin in there.records if origin.id == record.id)
        # Of an entry that was undone here the model does not know the name.
        if record.event.name.startswith(UNKNOWN):
            return
        assert history.model.is_same(meant, record.event.name), f"{record.id} rated {meant}"
