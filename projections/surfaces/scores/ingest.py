"""From objects to the ledger: each is a batch of its own, recorded once however often its file comes.

Nothing is folded for it and the playbook stays what it was, so a file of any length takes bounded memory: a stretch of
objects is appended in one transaction, with one flush.
"""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs

from tallybook.ledger import clock
from tallybook.ledger.encoding.codec import encode
from tallybook.ledger.errors import BadInputError, CannotWriteError, LockHeldError, Problem
from tallybook.ledger.events import BaselineSet, FeedbackRecorded, TelemetryKept
from tallybook.ledger.storage import disk, spool
from tallybook.ledger.telemetry import intake
from tallybook.projections.scores.view import unknown_parts
from tallybook.projections.surfaces.history import cache_files
from tallybook.projections.surfaces.history.reading import open_for_append
from tallybook.projections.surfaces.scores import configuration
from tallybook.projections.surfaces.scores.ingest_files import Item, items
from tallybook.projections.surfaces.writing import secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tallybook.ledger.backends.jsonl import JsonlLog
    from tallybook.ledger.events import Event
    from tallybook.ledger.line import Draft
    from tallybook.projections.scores.configuration.model import Config
    from tallybook.projections.surfaces.workspace.project import Project

STRETCH: Final = 4_000
"""Objects that are appended in one transaction, at most."""
SPOOLED: Final = 1_000
"""A call with no more objects waits for nobody: while another process holds the ledger, the spool keeps them."""
PATIENCE_MS: Final = 10_000
"""How long a longer one waits for the lock."""

PROBLEMS_SHOWN: Final = 200
_LIKE_SHOWN = 20
_TYPES_SHOWN = 500
_OTHERS = "others"
_FREE: Final[dict[type[Any], str]] = {TelemetryKept: "original", FeedbackRecorded: "note", BaselineSet: "reason"}
_STRETCH_BYTES = 8 * 1024 * 1024
# Enough of a digest to tell a file's objects apart; where it did not, the second of them would count as a repetition
# of the first under a number of its own.
_SEEN_CHARS = 16


@attrs.define
class Fed:
    """What became of all that was sent, so far.

    Attributes:
        recorded: Kind → events of it that were recorded.
        repeated: How many objects had been recorded before.
        kept: Type of telemetry that says nothing of a score, or could not be used → how many were kept of it.
        problems: What was odd, as many as are shown.
        more: How many further ones there were.
        seq_from: Number of the first event recorded, None for none.
        seq_to: Number of the last one.
        spooled: How many objects wait, because another process held the ledger.
        unscored: Why the configuration scores nothing of an event → how many such events were sent.
    """

    recorded: Counter[str] = attrs.field(factory=Counter)
    repeated: int = 0
    kept: Counter[str] = attrs.field(factory=Counter)
    problems: list[Problem] = attrs.field(factory=list)
    more: int = 0
    seq_from: int | None = None
    seq_to: int | None = None
    spooled: int = 0
    unscored: Counter[str] = attrs.field(factory=Counter)

    @property
    def taken(self) -> int:
        """Return how much of what was sent could be read."""
        return self.recorded.total() + self.repeated + self.spooled

    def note(self, problem: Problem) -> None:
        """Keep what was odd: the first few of a kind."""
        full = len(self.problems) >= PROBLEMS_SHOWN
        if full or sum(one.message == problem.message for one in self.problems) >= _LIKE_SHOWN:
            self.more += 1
        else:
            self.problems.append(problem)

    def count(self, piece: Piece, seqs: tuple[int, int] | None) -> None:
        """Note what became of an object: the numbers of its first and last line, None where it was there before."""
        if seqs is None:
            self.repeated += 1
            return
        self.seq_from = seqs[0] if self.seq_from is None else self.seq_from
        self.seq_to = seqs[1]
        self.recorded.update(draft.kind for draft in piece.drafts)
        if piece.kept is not None:
            self.kept[piece.kept if piece.kept in self.kept or len(self.kept) < _TYPES_SHOWN else _OTHERS] += 1


class Piece(NamedTuple):
    """An object, ready to be appended.

    Attributes:
        drafts: Its events.
        by: Who says so.
        key: What names it for ever, None where it may come twice.
        kept: Its type where it is kept and counts nothing, None elsewhere.
        size: About how many bytes it takes.
    """

    drafts: list[Draft]
    by: dict[str, str]
    key: str | None
    kept: str | None
    size: int


@attrs.frozen
class Defaults:
    """What stands for what an object does not name.

    Attributes:
        session: The session; empty for none.
        component: The component; empty for none.
    """

    session: str = ""
    component: str = ""


def feed(
    project: Project, sources: Iterable[Iterable[Item | Problem]], defaults: Defaults, tell: Callable[[int], None]
) -> Fed:
    """Record objects.

    Args:
        project: Where.
        sources: For each file what it holds.
        defaults: What stands for what an object does not name.
        tell: Hears now and then how many objects are done with.

    Raises:
        TallybookError: The ledger is damaged, or could not be written; what was recorded by then says so.
    """
    fed = Fed()
    config = _config(project)
    pieces = (piece for source in sources for piece in _pieces(source, defaults, fed, config))
    with closing(open_for_append(project)) as log:
        stretch = _stretch(pieces)
        first = True
        while stretch:
            following = _stretch(pieces)
            _append(log, stretch, fed, alone=first and not following and len(stretch) <= SPOOLED)
            tell(fed.taken)
            stretch, first = following, False
    return fed


def files(names: Sequence[str]) -> Iterator[Iterator[Item | Problem]]:
    """Yield what each file holds."""
    return map(items, names)


def _config(project: Project) -> Config | None:
    """Return the configuration of the scores, None where it is invalid: `doctor` and `score` report that."""
    try:
        return configuration.load(project)
    except BadInputError:
        return None


def _pieces(source: Iterable[Item | Problem], defaults: Defaults, fed: Fed, config: Config | None) -> Iterator[Piece]:
    """Yield the objects of one file as they are to be appended; what is odd goes to the notes."""
    seen: Counter[int] = Counter()
    for item in source:
        if isinstance(item, Problem):
            fed.note(item)
            continue
        said = intake.fill_defaults(item.value, defaults.session, defaults.component)
        taken = intake.read_object(said)
        for message in taken.problems:
            fed.note(Problem(item.place, message))
        if config is not None:
            fed.unscored.update(why for event in taken.events for why in unknown_parts(config, event))
        key = intake.idempotency_key(said) if taken.when is not None else _numbered(said, item.file, seen)
        rater = "import" if item.file else taken.rater
        events = taken.events
        if rater != "human":
            events = tuple(_screened(event, said, item.place, fed) for event in events)
        kept = next((event.type for event in events if isinstance(event, TelemetryKept)), None)
        by = {"rater": rater} | ({"session": taken.session} if taken.session else {})
        yield Piece([encode(event, taken.when) for event in events], by, key, kept, item.size)


def _numbered(said: dict[str, Any], file: str, seen: Counter[int]) -> str | None:
    """Return the key of an object that names no time: which of those like it in its file it is; None outside of one."""
    if not file:
        return None
    # A number takes less room than a text, and a file may have a million of them.
    like = int(intake.idempotency_key(said, file)[-_SEEN_CHARS:], 16)
    before, seen[like] = seen[like], seen[like] + 1
    return intake.idempotency_key(said, file, before)


def _screened(event: Any, said: dict[str, Any], place: str, fed: Fed) -> Event:
    """Return an event without the secrets in its free text."""
    field = _FREE.get(type(event), "")
    whole = field == "original"
    masked, notes = secrets.mask_value(place, said if whole else getattr(event, field, None))
    for problem in notes:
        fed.note(problem)
    changed: Event = (
        attrs.evolve(event, **{field: intake.encode_original(masked) if whole else masked}) if notes else event
    )
    return changed


def _stretch(pieces: Iterator[Piece]) -> list[Piece]:
    """Return the next pieces, as many as one transaction takes."""
    stretch: list[Piece] = []
    size = 0
    for piece in pieces:
        stretch.append(piece)
        size += piece.size
        if len(stretch) == STRETCH or size > _STRETCH_BYTES:
            break
    return stretch


def _append(log: JsonlLog, stretch: Sequence[Piece], fed: Fed, *, alone: bool) -> None:
    """Append a stretch in one transaction; one that is a whole small call waits in the spool for a held lock.

    Raises:
        LockHeldError: Another process held the ledger all the while, and nothing was recorded.
        CannotWriteError: The same, and a part of the call was recorded before.
    """
    try:
        with log.transaction(disk.LOCK_WAIT_MS if alone else PATIENCE_MS) as tx:
            tx.look_up(piece.key for piece in stretch if piece.key is not None)
            done = [(piece, tx.append(piece.drafts, piece.by, piece.key)) for piece in stretch]
        cache_files.remove_former(log.folder)
        cache_files.sweep(log.folder)
    except LockHeldError as error:
        if alone:
            _spool(log, stretch)
            fed.spooled += len(stretch)
            return
        if not fed.taken:
            raise
        hint = f"{fed.taken:,} objects were recorded; run it again, what stands already is not recorded twice"
        raise CannotWriteError(log.path, f"held by another process for {PATIENCE_MS} ms", hint) from error
    for piece, batch in done:
        fed.count(piece, None if batch is None else (batch.first, batch.last))


def _spool(log: JsonlLog, stretch: Sequence[Piece]) -> None:
    """Put objects where the next command that writes takes them in."""
    now = log.now()
    for piece in stretch:
        spool.check(piece.drafts, piece.by, piece.key, now.at)
    waiting = [
        {"facts": [[one.kind, one.v, one.body, one.free] for one in piece.drafts], "by": piece.by, "key": piece.key}
        | ({"when": piece.drafts[0].when} if piece.drafts[0].when else {})
        for piece in stretch
    ]
    spool.put(log.folder, now.at, clock.new_id(now.unix_us), waiting)
