"""The everyday operations that verbs, `doctor` and the library share.

Each takes values, returns a value and prints nothing.
Modules that only some verbs need are loaded by those: most of a command's time goes into loading modules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from tallybook.ledger import errors
from tallybook.ledger.errors import BadInputError, NothingToDoError
from tallybook.ledger.events import RATINGS, PointNoted, PointProposed
from tallybook.ledger.fast_stdlib import import_lazily
from tallybook.ledger.line import is_digest
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.records import Batch
from tallybook.ledger.storage import disk
from tallybook.projections.playbook.fold import fold_history
from tallybook.projections.playbook.render import playbook_bytes, playbook_dict, read_stamp
from tallybook.projections.playbook.view import PLAYBOOK, Playbook
from tallybook.projections.surfaces.history import playbook_file, reading
from tallybook.projections.surfaces.history.checkpoints import PLAYBOOK_FORM
from tallybook.projections.surfaces.history.reading import Opened
from tallybook.projections.surfaces.workspace import personal
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from tallybook.ledger.decisions import update
    from tallybook.ledger.verification import Verification
    from tallybook.projections.surfaces.history.moments import Moment
    from tallybook.projections.surfaces.writing import record as recording
    from tallybook.projections.surfaces.writing import requests
else:
    update, recording, requests = import_lazily(
        "tallybook.ledger.decisions.update",
        "tallybook.projections.surfaces.writing.record",
        "tallybook.projections.surfaces.writing.requests",
    )


class DriftError(errors.TallybookError):
    """``playbook.json``, or a score file, is not what the ledger says."""

    exit_code = errors.EXIT_NO

    def __init__(self, path: Path, what: str, keeps: str = "") -> None:
        """Take how it differs, and what ``replay`` keeps of it."""
        self.path = path
        super().__init__(f"{path}: {what}; run `tallybook replay`{keeps and f', which keeps {keeps}'}")


_EDITS: Final = "manual edits"
NewEntry: TypeAlias = Mapping[str, str]
"""A new entry as an extraction result has it: ``text``, ``section``, its heading, and ``until``, its last day."""


def import_file(project: Project, data: bytes, source: str) -> tuple[dict[str, Any], bool]:
    """Import a legacy playbook as seed events; the same file twice adds nothing.

    Returns:
        ``{imported, skipped, problems}``: how many entries became seed events, how many items did not, because their
        text is in the playbook already or they hold no entry, and the odd items as ``{source, message}``; and whether
        this very file was imported before.
    """
    from tallybook.ledger.decisions.legacy_import import HEADING, read_legacy

    legacy = read_legacy(data, source, Opened(project).playbook().used)
    report = recording.write(project, [requests.Request(requests.Import(legacy), {"rater": "import"})])
    (outcome,) = report.outcomes
    problems = (
        *({"source": problem.source, "message": problem.message} for problem in legacy.problems),
        *({"source": f"{source}: {part.item}", "message": part.reason} for part in outcome.ignored),
    )
    headings = sum(part.reason == HEADING for part in legacy.skipped)
    skipped = len(legacy.items) + len(legacy.skipped) - headings - len(outcome.added)
    return {"imported": len(outcome.added), "skipped": skipped, "problems": problems}, outcome.repeated


def add(
    project: Project, point: str | NewEntry, by: Mapping[str, str], key: str | None = None, *, again: bool = False
) -> recording.Outcome:
    """Add an entry.

    Args:
        project: The project.
        point: Its text, alone or with its section and last day.
        by: Who records it.
        key: The idempotency key.
        again: Whether a text that was redacted is accepted from now on, from every source.

    Raises:
        BadInputError: The text or the day cannot be recorded, or another rater than a person accepts what was redacted.
        NothingToDoError: An entry has this text, but for case, white space and final punctuation.
        RedactedTextError: The text was redacted, and is not accepted.
    """
    from tallybook.ledger.storage import redacted_digests

    text, day = (point, "") if isinstance(point, str) else (point["text"], point.get("until", ""))
    for part, fault in (("text", update.text_fault(text)), ("until", update.day_fault(day))):
        if fault is not None:
            raise BadInputError(part, fault, "nothing was recorded")
    # What a person had erased, only a person lets back in.
    if again and by.get("rater") != "human":
        raise BadInputError("--again", "needs the rater human", "nothing was recorded")
    redactions = redacted_digests.load(project.ledger)
    if not again:
        redactions.check("text", text)
    elif redactions.refusal(text) is not None:
        with closing(reading.open_log(project)) as log, log.transaction():
            redacted_digests.accept(log.folder, text)
    extraction = {"new_key_points": [point]}
    addition = requests.Update(extraction, is_addition=True)
    digest = requests.digest_delivery(extraction, key)
    return record_request(project, requests.Request(addition, by, key, digest=digest))


def rate(  # noqa: PLR0913 - the parts of a delivery
    project: Project,
    names: str | Sequence[str],
    rating: str,
    by: Mapping[str, str],
    key: str | None = None,
    *,
    reason: str = "",
) -> recording.Outcome:
    """Rate entries that are or were in the playbook, all in one batch.

    Args:
        project: The project.
        names: The entry, or several, as a person writes them; one that is named twice counts once.
        rating: One of RATINGS.
        by: Who records it.
        key: The idempotency key.
        reason: Why, noted at each of them; empty for none.

    Raises:
        BadInputError: The rating is none of RATINGS, or the reason cannot be recorded.
        UnknownEntryError: No entry ever had one of the names.
    """
    names = (names,) if isinstance(names, str) else tuple(names)
    rating = rating.lower() if rating.lower() in RATINGS else rating
    for name in names:
        if (fault := update.find_rating_fault({"name": name, "rating": rating})) is not None:
            raise BadInputError("rating", fault, "nothing was recorded")
    if rating not in RATINGS:
        raise BadInputError("rating", f"{rating!r} is not a rating", "use helpful, harmful or neutral")
    if reason:
        from tallybook.ledger.decisions.curation import check_reason

        check_reason(reason)
    notes = tuple(PointNoted(name, f"{rating}: {reason}") for name in names if reason)
    ratings = [{"name": name, "rating": rating} for name in names]
    # People mistype, so an unknown name is refused; what record brings is kept as evidence.
    content = requests.Update({"evaluations": ratings}, plain_events=notes, is_typed=True)
    digest = requests.digest_delivery([names, rating, reason], key)
    outcome = record_request(project, requests.Request(content, by, key, digest=digest))
    disputes = [event for event in outcome.events if isinstance(event, PointProposed)]
    said = (f"{event.name}: proposed to retire, because {event.cause} leaves by a person alone" for event in disputes)
    return attrs.evolve(outcome, notes=(*outcome.notes, *said))


def record(project: Project, payload: Any, by: Mapping[str, str], key: str | None = None) -> recording.Outcome:
    """Record an extraction result as one batch, with a curator's operations in it."""
    from tallybook.projections.surfaces.workspace import settings

    may = "person" if by.get("rater") == "human" else settings.read(project).may
    content = requests.Update(payload, may=may)
    digest = requests.digest_delivery(payload, key)
    return record_request(project, requests.Request(content, by, key, digest=digest))


def record_request(project: Project, request: requests.Request) -> recording.Outcome:
    """Record one request; return its outcome, with a note for each problem.

    A rating or an update of entries of the person's own playbook goes there, and the rest to the project.

    Raises:
        NothingToDoError: All of it are ratings of a machine whose lineage has voted on these entries.
    """
    if (mine := personal.find(project)) is None:
        report = recording.write(project, [request])
    else:
        from tallybook.projections.surfaces.writing import pair

        report = pair.write(project, mine, request)
    notes = [str(problem) for problem in report.problems]
    if report.unrendered is not None:
        # Only the cause: the rest of the message would seem to be about the ledger, where all is recorded.
        cause = str(report.unrendered).partition("; ")[0].partition(", so it may or may not")[0]
        notes.append(f"recorded, but {cause}; run `tallybook replay`")
    outcome = report.outcomes[0]
    parts = (outcome, outcome.mine) if outcome.mine else (outcome,)
    if not any(part.spooled or part.repeated or part.seq_from for part in parts):
        first = next(part for part in parts if part.ignored).ignored[0]
        raise NothingToDoError(first.name or first.item, first.reason, "nothing was recorded")
    if isinstance(request.decide, requests.Update) and request.decide.is_addition and report.state is not None:
        notes += _similar_notes(project, report.state, outcome.added)
    return attrs.evolve(outcome, notes=tuple(notes))


def _similar_notes(project: Project, state: Playbook, added: Sequence[str]) -> Iterator[str]:
    """Yield for each new entry a note about the one that it resembles most, with the words that differ."""
    from tallybook.projections.history import review

    for entry in [state.entries[name] for name in added if name in state.entries]:
        others = [other for other in state.entries.values() if other.name != entry.name]
        for other in review.find_similar(entry.text, others)[:1]:
            difference = review.describe_difference(other, entry)
            merge = review.merge_command((other, entry), personal.option(project))
            text = " ".join(other.text.split())
            yield f"{entry.name} resembles {other.name}, {text!r}: {difference}; if they say the same, run: {merge}"


def playbook(project: Project, when: str | None = None) -> playbook_file.AsOf[Playbook]:
    """Return the playbook as of a moment; now, with a manual edit that is not recorded yet, without one.

    Where lines of the shared book are missing, that is the last rendering of ``playbook.json``, and a note says so.
    """
    try:
        return playbook_file.fold_as_of(project, PLAYBOOK_FORM, when)
    except errors.MissingLinesError as error:
        state = None if when else playbook_file.last_rendering(project)
        if state is None:
            raise
        note = f"{error}; this is the last rendering of playbook.json"
        return playbook_file.AsOf(state, "the last rendering of playbook.json", (note,))


def show(project: Project, when: str | None = None) -> dict[str, Any]:
    """Return the playbook in the specification's format, as ``playbook``."""
    return playbook_dict(playbook(project, when).state)


def replay(project: Project) -> tuple[Playbook, list[str]]:
    """Record the spool and a manual edit of ``playbook.json``, and write that anew from the ledger.

    Returns:
        The playbook, and notes for a person, a line each.
    """
    # Folded from the first event on: damage before a checkpoint would go unnoticed.
    report = recording.write(project, [], cold=True)
    if report.state is None:
        raise errors.LockHeldError(project.ledger, disk.LOCK_WAIT_MS)
    error = report.unrendered
    if isinstance(error, errors.CannotWriteError):
        raise errors.CannotWriteError(project.playbook, error.reason, "the ledger is intact; try again") from error
    if error is not None:
        raise error
    is_edit = bool(report.file.events) and not report.file.adopted
    edit = ["a manual edit of playbook.json was recorded; see `tallybook log`"] if is_edit else []
    return report.state, [*edit, *map(str, report.problems)]


def write_copy(project: Project, output: Path, data: Callable[[], bytes]) -> None:
    """Write a playbook to a file that is neither the project's own nor one of the ledger's.

    Raises:
        BadInputError: It is one of these; ``data`` was not called.
    """
    # Another path or a link can lead to the same file.
    place = output.resolve()
    if place == project.playbook.resolve():
        raise BadInputError(str(output), "is the project's own playbook", "give another file")
    if place.is_relative_to(project.ledger.resolve()):
        raise BadInputError(str(output), "is in the ledger's folder", "give another file")
    disk.replace_file(output, data())


def check(project: Project, state: Playbook | None = None) -> None:
    """Compare ``playbook.json`` with the ledger.

    Args:
        project: The project.
        state: The playbook as a reader of the whole ledger has folded it; None to read the ledger for it.

    Raises:
        DriftError: It is missing, stale, unreadable or changed.
        NothingToDoError: There is no ledger.
    """
    opened = Opened(project)
    _require_ledger(opened.log)
    # As in replay, no checkpoint is believed.
    state = opened.playbook(cold=True) if state is None else reading.catch_up(opened.log, state)
    data = playbook_file.read_bytes(project.playbook)
    if data is None:
        # A ledger may hold nothing but measurements, and then has no playbook.
        if state.stamp[0]:
            raise DriftError(project.playbook, "is missing", _EDITS)
        return
    file = playbook_file.examine(opened, state)
    if file.unreadable:
        raise DriftError(project.playbook, "is not a playbook", _EDITS)
    if file.is_foreign:
        raise DriftError(project.playbook, "was written on another machine and differs from the book", _EDITS)
    if file.events:
        raise DriftError(project.playbook, "has a manual edit that is not recorded yet", _EDITS)
    if data != playbook_bytes(state, opened.settings.format):
        raise DriftError(project.playbook, "is older than the ledger", _EDITS)


def _require_ledger(log: JsonlLog) -> None:
    """Refuse to compare anything with a ledger that is not there."""
    if not log.exists():
        raise NothingToDoError(str(log.folder), "there is no ledger", "the first command that writes begins one")


def drift(project: Project, state: Playbook | None = None) -> str | None:
    """Return how ``playbook.json`` differs from the ledger, None where it does not; ``state`` is as for ``check``."""
    try:
        check(project, state)
    except DriftError as error:
        return str(error)
    return None


def why(project: Project, words: str, moment: Moment | None = None) -> dict[str, Any]:
    """Return what `why` answers about an entry, as ``stories.explain_entry`` finds it."""
    from tallybook.projections.surfaces.history import stories

    return stories.explain_entry(project, words, moment)[0]


def spool_notes(project: Project) -> tuple[str, ...]:
    """Return a note about the payloads in the spool, none where the spool is empty."""
    from tallybook.ledger.storage import spool

    payloads, problems = spool.read_files(project.ledger)
    number = len(payloads) + len(problems)
    files, them = ("1 payload is", "it") if number == 1 else (f"{number} payloads are", "them")
    return (f"{files} in the spool; the next command that writes records {them}",) if number else ()


def verify_and_fold(project: Project, expect: str | None = None) -> tuple[Verification, Playbook | None]:
    """Verify the ledger from its first byte to its last, and against a ``SEQ:CHAIN`` that was noted elsewhere.

    In the same pass the playbook is folded; it is None for a shared book, whose events are not in one file.

    Raises:
        BadInputError: ``expect`` is not a ``SEQ:CHAIN``.
        NothingToDoError: There is no ledger.
    """
    from tallybook.ledger.verification import verify as verify_log

    noted = None if expect is None else read_stamp(expect)
    if expect is not None and (noted is None or not is_digest(noted[1])):
        raise BadInputError(f"--expect {expect}", "is not a SEQ:CHAIN", "use the head that `tallybook verify` printed")
    log = reading.open_log(project)
    state: Playbook | None = None

    def fold_batches(batches: Iterator[Batch]) -> None:
        nonlocal state
        # An undo needs a second read. It fails where the ledger is damaged, and then nothing is compared.
        reads = chain([batches], repeat(None))
        with suppress(errors.DamagedLedgerError):
            state = fold_history(PLAYBOOK, lambda: next(reads) or reading.batches(project))

    if not reading.has_book(log):
        verdict = verify_log(log, noted, fold_batches)
        # The verdict comes first: a missing log whose head is left is damage.
        if verdict.ok:
            _require_ledger(log)
        return verdict, state
    verdict = verify_log(log, noted)
    log.copy.log.watch = log.watch
    copy = verify_log(log.copy.log)
    problems = (problem._replace(source=f"copy of the book: {problem.source}", seq=None) for problem in copy.problems)
    return attrs.evolve(verdict, problems=(*verdict.problems, *problems)), None


def salvage(project: Project) -> dict[str, Any]:
    """Return the playbook folded from every batch of a damaged ledger that proves itself."""
    from tallybook.ledger.verification import salvage as salvage_log

    try:
        return playbook_dict(fold_history(PLAYBOOK, lambda: salvage_log(reading.open_log(project))))
    except FileNotFoundError:
        # Nothing is left of the ledger, or its head alone.
        return playbook_dict(PLAYBOOK.start())
