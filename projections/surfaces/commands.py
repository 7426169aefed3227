"""One function per verb: takes values, returns a value, prints nothing.

What only some of them need is loaded by those: a command is a process, and most of its life is what it loads.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import attrs

from tallybook.ledger.errors import (
    EXIT_NO,
    BadInputError,
    CannotWriteError,
    LockHeldError,
    TallybookError,
)
from tallybook.ledger.events import RATINGS
from tallybook.ledger.fast_stdlib import NamedTuple, import_lazily
from tallybook.ledger.storage import disk, spool
from tallybook.projections.playbook.checkpoint import PLAYBOOK_FORM
from tallybook.projections.playbook.render import playbook_bytes, playbook_dict, read_stamp
from tallybook.projections.playbook.view import PLAYBOOK
from tallybook.projections.surfaces.history import playbook_file, reading
from tallybook.projections.undo import fold_history

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from tallybook.ledger.decisions import curation as curate
    from tallybook.ledger.decisions import update as decide
    from tallybook.ledger.records import Batch
    from tallybook.ledger.storage import redacted_digests as redactions
    from tallybook.ledger.verification import Verdict
    from tallybook.projections.entry_history.status import EntryStatuses
    from tallybook.projections.playbook.view import Playbook
    from tallybook.projections.surfaces.history import as_of as standings
    from tallybook.projections.surfaces.history.as_of import Stood
    from tallybook.projections.surfaces.history.moments import Moment
    from tallybook.projections.surfaces.workspace.project import Project
    from tallybook.projections.surfaces.writing import record as recording
    from tallybook.projections.surfaces.writing import requests
    from tallybook.projections.surfaces.writing.record import Outcome, Report
    from tallybook.projections.surfaces.writing.requests import Request
else:
    curate, decide = (
        import_lazily("tallybook.ledger.decisions.curation"),
        import_lazily("tallybook.ledger.decisions.update"),
    )
    redactions = import_lazily("tallybook.ledger.storage.redacted_digests")
    recording = import_lazily("tallybook.projections.surfaces.writing.record")
    requests = import_lazily("tallybook.projections.surfaces.writing.requests")
    standings = import_lazily("tallybook.projections.surfaces.history.as_of")


class DriftError(TallybookError):
    """``playbook.json``, or a score file, is not what the ledger says."""

    exit_code = EXIT_NO

    def __init__(self, path: Path, what: str) -> None:
        """Say how it differs."""
        super().__init__(f"{path}: {what}; run `tallybook replay`, which keeps manual edits")


class Imported(NamedTuple):
    """What became of a legacy file.

    Attributes:
        imported: How many entries became seed events.
        skipped: How many items did not: their text stands already, or they hold no key point.
        problems: What was odd, as (source, message).
        repeated: Whether this very file had been imported before.
    """

    imported: int
    skipped: int
    problems: tuple[dict[str, str], ...]
    repeated: bool


def import_file(project: Project, data: bytes, source: str) -> Imported:
    """Take a legacy playbook into the ledger as seed events; the same file twice adds nothing."""
    from tallybook.ledger.decisions.legacy_import import read_legacy

    legacy = read_legacy(data, source)
    report = recording.write(project, [requests.Request(requests.Import(data, source), {"rater": "import"})])
    (outcome,) = report.outcomes
    odd = [(one.source, one.message) for one in legacy.problems]
    odd += [(f"{source}: {one.item}", one.reason) for one in outcome.ignored]
    problems = tuple({"source": source, "message": message} for source, message in odd)
    skipped = len(legacy.items) + len(legacy.skipped) - len(outcome.added)
    return Imported(len(outcome.added), skipped, problems, outcome.repeated)


def add(project: Project, text: str, by: Mapping[str, str], key: str | None = None, *, again: bool = False) -> Outcome:
    """Add a new key point.

    Args:
        project: Whose ledger.
        text: The key point.
        by: Who says so.
        key: What names this delivery for ever.
        again: Whether a text that was redacted is accepted from now on, from every source.

    Raises:
        BadInputError: The text cannot be recorded, or another rater than a person accepts what was redacted.
        RedactedTextError: The text was redacted, and is not accepted.
    """
    fault = decide.text_fault(text)
    if fault is not None:
        raise BadInputError("TEXT", fault, "nothing was recorded")
    if again and by.get("rater") != "human":
        raise BadInputError("--again", "needs the rater human", "nothing was recorded")
    if (why := redactions.load(project.ledger).refusal(text)) is not None:
        if not again:
            raise redactions.RedactedTextError("TEXT", why)
        with closing(reading.open_log(project)) as log, log.transaction():
            redactions.accept(log.folder, text)
    return _one(recording.write(project, [requests.Request(requests.Update({"new_key_points": [text]}), by, key)]))


def rate(project: Project, name: str, rating: str, by: Mapping[str, str], key: str | None = None) -> Outcome:
    """Rate one entry; as ``rate_all``."""
    return rate_all(project, requests.Rating((name,), rating), by, key)


def rate_all(project: Project, given: requests.Rating, by: Mapping[str, str], key: str | None = None) -> Outcome:
    """Rate entries that are or were in the playbook, all in one batch.

    Raises:
        BadInputError: The rating is none of RATINGS, or the reason cannot be recorded.
        UnknownEntryError: No entry ever had one of the names.
    """
    rating = given.rating.lower() if given.rating.lower() in RATINGS else given.rating
    for name in given.names:
        if (fault := decide.rating_fault({"name": name, "rating": rating})) is not None:
            raise BadInputError("NAME RATING", fault, "nothing was recorded")
    if rating not in RATINGS:
        raise BadInputError("RATING", f"{rating!r} is not a rating", "use helpful, harmful or neutral")
    if given.reason and (fault := curate.reason_fault(given.reason)) is not None:
        raise BadInputError("--reason", fault, "nothing was recorded")
    return recorded(project, requests.Request(attrs.evolve(given, rating=rating), by, key))


def record(project: Project, payload: Any, by: Mapping[str, str], key: str | None = None) -> Outcome:
    """Record an extraction result as one batch."""
    return _one(recording.write(project, [requests.Request(requests.Update(payload), by, key)]))


def recorded(project: Project, request: Request) -> Outcome:
    """Record one request."""
    return _one(recording.write(project, [request]))


def _one(report: Report) -> Outcome:
    """Return the outcome of the only request, with what was odd on the way."""
    notes = [str(problem) for problem in report.problems]
    if report.unrendered is not None:
        # Only the cause: the rest of the message would seem to be about the ledger, where all is recorded.
        cause = str(report.unrendered).partition("; ")[0].partition(", so it may or may not")[0]
        notes.append(f"recorded, but {cause}; run `tallybook replay`")
    return attrs.evolve(report.outcomes[0], notes=tuple(notes))


def now(project: Project) -> Playbook:
    """Return the playbook as it stands, with what a hand changed in the file and no command has taken in yet."""
    log = reading.open_log(project)
    state = reading.current(log)
    found = playbook_file.examine(project, state, log.read)
    return playbook_file.with_found(state, found, log.now().at)


class Then(NamedTuple):
    """The playbook as it stood at a moment.

    Attributes:
        playbook: What stood.
        told: Which moment that is, for people: "event 812, 2026-11-21 20:17 UTC".
        notes: What they should hear beside it, a line each.
    """

    playbook: Playbook
    told: str
    notes: tuple[str, ...]


def at(project: Project, when: str) -> Then:
    """Return the playbook as it stood at a moment."""
    found = standings.stood(project, PLAYBOOK_FORM, when)
    return Then(found.state, found.told, found.notes)


def show(project: Project, when: str | None = None) -> dict[str, Any]:
    """Return the playbook in the specification's format, now or at a moment."""
    return playbook_dict(now(project) if when is None else at(project, when).playbook)


def replay(project: Project) -> Playbook:
    """Take in what waits and what a hand changed, and write ``playbook.json`` anew from the ledger."""
    report = recording.write(project, [], cold=True)
    if report.state is None:
        raise LockHeldError(project.ledger, disk.LOCK_WAIT_MS)
    error = report.unrendered
    if isinstance(error, CannotWriteError):
        raise CannotWriteError(project.playbook, error.reason, "the ledger is intact; try again") from error
    if error is not None:
        raise error
    return report.state


def replay_bytes(project: Project, when: str | Then | None) -> bytes:
    """Return the bytes that ``playbook.json`` has at a moment, writing nothing."""
    if when is None:
        return playbook_bytes(reading.current(reading.open_log(project), cold=True))
    return playbook_bytes((at(project, when) if isinstance(when, str) else when).playbook)


def write_replay(project: Project, when: str | Then | None, output: Path) -> None:
    """Write the playbook of a moment to another file than the project's own."""
    write_beside(project, output, lambda: replay_bytes(project, when))


def write_beside(project: Project, output: Path, data: Callable[[], bytes]) -> None:
    """Write a playbook to a file that is neither the project's own nor one of the ledger's.

    Raises:
        BadInputError: It is one of these, and nothing was asked or written.
    """
    place = output.resolve()
    if place == project.playbook.resolve():
        raise BadInputError(str(output), "is the project's own playbook", "give another file")
    if place.is_relative_to(project.ledger.resolve()):
        raise BadInputError(str(output), "is in the ledger's folder", "give another file")
    disk.replace_file(output, data())


def check(project: Project) -> None:
    """Compare ``playbook.json`` with the ledger.

    Raises:
        DriftError: It is missing, stale, unreadable or changed.
    """
    log = reading.open_log(project)
    state = reading.current(log, cold=True)
    data = playbook_file.read_bytes(project.playbook)
    if data is None:
        # What is measured begins a ledger, too, and says nothing of a playbook.
        if state.stamp[0]:
            raise DriftError(project.playbook, "is missing")
        return
    found = playbook_file.examine(project, state, log.read)
    if found.unreadable:
        raise DriftError(project.playbook, "is not a playbook")
    if found.events:
        raise DriftError(project.playbook, "has a manual edit that is not recorded yet")
    if data != playbook_bytes(state):
        raise DriftError(project.playbook, "is older than the ledger")


def drift(project: Project) -> str | None:
    """Say how ``playbook.json`` differs from the ledger, None where it does not."""
    try:
        check(project)
    except DriftError as error:
        return str(error)
    return None


def why(project: Project, words: str, when: str | Moment | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the stable answer to `why`, and what is told beside it; as ``telling.story_of``."""
    from tallybook.projections.entry_history.audit import explain
    from tallybook.projections.surfaces.history.entry_story import story_of

    return explain(*story_of(project, words, when))


def up_to(project: Project, when: str | Moment | None) -> tuple[Callable[[], Iterator[Batch]], int | None]:
    """Return what reads history, and up to which event; the whole of the ledger without a moment."""
    from tallybook.projections.surfaces.history import moments

    moment = moments.meant(project, when)
    return ((lambda: reading.batches(project)), None) if moment is None else (moment.history, moment.seq)


def standing(project: Project, when: str | None = None) -> Stood[EntryStatuses]:
    """Return how every name stands at a moment; now, with what a hand changed in the file, without one."""
    from tallybook.projections.surfaces.history.checkpoint_standing import STANDING_FORM

    return standings.stands(project, STANDING_FORM) if when is None else standings.stood(project, STANDING_FORM, when)


def log(project: Project, name: str | None = None) -> Iterator[dict[str, Any]]:
    """Yield the events of the ledger, newest last; with a name, those that concern it.

    Raises:
        UnknownEntryError: No event names it.
    """
    from tallybook.projections import event_rows
    from tallybook.projections.surfaces.history import events

    return map(event_rows.row, events.events(reading.open_log(project), event_rows.EventFilter(name)))


def spool_notes(project: Project) -> tuple[str, ...]:
    """Return a note about the payloads in the spool, none where the spool is empty."""
    payloads, problems = spool.read_files(project.ledger)
    number = len(payloads) + len(problems)
    if not number:
        return ()
    files = "1 payload is" if number == 1 else f"{number} payloads are"
    return (f"{files} in the spool; the next command that writes records {'it' if number == 1 else 'them'}",)


def verify(
    project: Project,
    progress: Callable[[int, int], None] = lambda _done, _size: None,
    expect: str | None = None,
) -> Verdict:
    """Verify the ledger from its first byte to its last, and against a ``SEQ:CHAIN`` that was noted elsewhere.

    Raises:
        BadInputError: What is expected is no ``SEQ:CHAIN``.
    """
    from tallybook.ledger.verification import verify as verify_log

    noted = None if expect is None else read_stamp(expect)
    if expect is not None and noted is None:
        raise BadInputError(f"--expect {expect}", "is not a SEQ:CHAIN", "use the head that `tallybook verify` printed")
    return verify_log(reading.open_log(project), progress, noted)


def salvage(project: Project) -> dict[str, Any]:
    """Return the playbook folded from every batch of a damaged ledger that proves itself."""
    from tallybook.ledger.verification import salvage as salvage_log

    try:
        return playbook_dict(fold_history(PLAYBOOK, lambda: salvage_log(reading.open_log(project))))
    except FileNotFoundError:
        return playbook_dict(PLAYBOOK.start())
