"""Two moments compared, and the story of an entry from the batches that hold its name.

Folding these batches gives what all of history gives. Other batches are not read, so damage in them is found by
``verify``. The status of every name is saved in checkpoints, with events as answers name them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from heapq import merge
from typing import TYPE_CHECKING, Any, Final, cast

import attrs

from tallybook.ledger import events
from tallybook.ledger.codec import decode
from tallybook.ledger.errors import EXIT_NO, DamagedLedgerError, TallybookError
from tallybook.ledger.line import Position
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.names import find_name
from tallybook.ledger.records import Batch
from tallybook.ledger.scan import bytes_of, read_batches_at
from tallybook.ledger.sharing.numbers import BOOK, shared_number
from tallybook.projections.history import entry_history
from tallybook.projections.history.comparisons import diff
from tallybook.projections.playbook.fold import UndoneIds, fold_history, undos_in
from tallybook.projections.playbook.view import CHANGES
from tallybook.projections.surfaces.console.output import format_counts
from tallybook.projections.surfaces.history.checkpoints import REWRITING, Form, is_long
from tallybook.projections.surfaces.history.playbook_file import WITH_EDIT, AsOf, fold_as_of
from tallybook.projections.surfaces.history.reading import fold_view, has_book, open_log, search
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from tallybook.ledger.log import Log
    from tallybook.projections.surfaces.history.moments import Moment


# Two moments compared


@attrs.frozen
class Difference:
    """The playbook as of two moments, and what changed between them.

    Attributes:
        before: The first.
        after: The second.
        rows: The changes, as ``diff`` returns them.
    """

    before: AsOf[entry_history.EntryStatuses]
    after: AsOf[entry_history.EntryStatuses]
    rows: Mapping[str, Any]

    def json(self) -> dict[str, Any]:
        """Return it as ``diff --json`` prints it: the rows, and the moments as ``from`` and ``to``."""
        return {"from": _side_json(self.before), "to": _side_json(self.after), **self.rows}

    def lines(self) -> Iterator[tuple[str, str]]:
        """Yield the changes for people: lines with their sign, ``+``, ``-``, ``~``, or empty below such a line."""
        for row in self.rows["added"]:
            was = f", back: it was {row['was']['how']} at event {row['was']['seq']}" if row["was"] else ""
            yield "+", f"{row['name']}  {format_counts(row)}{was}"
            yield "", row["text"]
        for row in self.rows["gone"]:
            fate = self._fate(row["left"]) if row["left"] else f"{self._cause(row['name'])}, with {format_counts(row)}"
            yield "-", f"{row['name']}  {fate}"
            yield "", row["text"]
        for row in self.rows["changed"]:
            old, new = row["before"], row["after"]
            counts = [
                f"{field} {old[field]} to {new[field]}" for field in ("helpful", "harmful") if old[field] != new[field]
            ]
            yield "~", f"{row['name']}  {', '.join(counts) or 'reworded'}"
            if old["text"] != new["text"]:
                yield "", f"was: {old['text']}"
                yield "", f"now: {new['text']}"
        if self.rows["order"] is not None:
            yield "~", f"the order is {', '.join(self.rows['order'])}"

    def print(self) -> None:
        """Print the changes for people."""
        from tallybook.projections.surfaces.console import terminal

        counts = [f"{len(self.rows[part])} {part}" for part in ("added", "gone", "changed") if self.rows[part]]
        total = ", ".join([*counts, *(["another order"] if self.rows["order"] is not None else [])])
        begin, end = f"From {self.before.moment}", f"to {self.after.moment}"
        terminal.print_changes(terminal.console_for(), begin, end, self.lines(), total)

    def _fate(self, left: Mapping[str, Any]) -> str:
        """Return how an entry left the playbook."""
        seq = left["seq"]
        place = "in playbook.json" if seq is None else f"at event {seq}"
        # An undo between the two moments can make an event count that came before both.
        is_one_history = self.before.commit == self.after.commit
        if seq is not None and is_one_history and seq <= self.before.state.seq < self.after.state.seq:
            place += ", after a later undo changed the history"
        into = f" into {left['into']}" if left["into"] else ""
        return f"{left['how']}{into} {place}, with {format_counts(left)}"

    def _cause(self, name: str) -> str:
        """Return why an entry of the first playbook is missing in the second although no event removed it."""
        into = self.after.state.book.merged.get(name)
        if into is not None:
            # A shared book had an entry of the same text.
            return f"joined to {into}, which has its text"
        if self.before.commit != self.after.commit:
            return "not in that history"
        return "not there yet" if self.after.state.seq < self.before.state.seq else "what brought it was undone"


def compare(project: Project, first: str, second: str | None) -> Difference:
    """Return what changed in the playbook between two moments.

    Args:
        project: The project.
        first: The first moment.
        second: The second; None for now.
    """
    before, after = (fold_as_of(project, STATUS_FORM, when, "diff") for when in (first, second))
    log, numbers = open_log(project), [side.state.book.stamp[0] for side in (before, after)]
    if has_book(log) and all(numbers) and not (before.commit or after.commit):
        from tallybook.projections.surfaces.sharing import shared_log

        # Entries that the shared book has under another name are the same.
        renamed = shared_log.find_renamed(log.own, *numbers)
        book = before.state.book
        named = (attrs.evolve(entry, name=renamed.get(name, name)) for name, entry in book.entries.items())
        entries = {entry.name: entry for entry in named}
        before = attrs.evolve(before, state=attrs.evolve(before.state, book=attrs.evolve(book, entries=entries)))
    return Difference(before, after, diff(before.state, after.state))


def _side_json(side: AsOf[entry_history.EntryStatuses]) -> dict[str, Any]:
    batch, seq = side.state.latest_batch, side.state.seq
    at = None if batch is None else batch.at
    return {"seq": None if side.moment == WITH_EDIT else seq, "at": at, "commit": side.commit or None}


# The story of an entry


class AmbiguousEntryError(TallybookError):
    """Several entries have the words that were given."""

    exit_code = EXIT_NO

    def __init__(self, words: str, matches: list[dict[str, Any]]) -> None:
        """Keep the entries; the message says how to go on."""
        self.matches = matches
        super().__init__(f"{words!r}: {len(matches)} entries have these words; give the name of one, or more words")


def explain_entry(
    project: Project, words: str, moment: Moment | None = None
) -> tuple[dict[str, Any], entry_history.EntryStatuses]:
    """Return what `why` answers about the entry of a name, or about the only one that had a text with these words.

    Returns:
        As ``entry_history.explain``, about an unknown entry where nothing fits; of a shared book each row says when it
        came in here. And the status of every name at that moment.

    Raises:
        AmbiguousEntryError: The words fit several.
    """
    log = opened = open_log(project)
    read: Callable[[], Iterable[Batch]] | None = None
    end = None if moment is None else moment.seq
    if moment is not None and moment.is_apart:
        read, end = moment.history, None
    elif not (has_book(log) or is_long(log)):
        read = lambda: decode(log.read())  # noqa: E731
    if read is not None:
        statuses = fold_history(entry_history.entries_view({words}), read, end)
    else:
        # Of a long ledger the status of every name is in a checkpoint, and the story in a few batches.
        statuses = fold_view(STATUS_FORM, log, end)
        if has_book(log):
            log, end = log if end is None else log.open_at(end), None
    # A name comes before words.
    if (name := find_name(words, statuses.book.used)) is None:
        names = entry_history.find_by_words(statuses, words)
        if len(names) > 1:
            # The story of a wrong entry would be believed.
            raise AmbiguousEntryError(words, entry_history.entry_rows(statuses, names))
        name = names[0] if names else words
    read = read or history_of(log, {name}, statuses.links)
    if name not in statuses.stories:
        statuses.stories |= fold_history(entry_history.entries_view({name}), read, end).stories
    answer = entry_history.explain(statuses.stories[name], statuses)
    if has_book(opened):
        from tallybook.projections.surfaces.sharing import shared_log

        shared_log.add_arrivals(opened, answer)
    return answer, statuses


def is_known(project: Project, words: str, *, by_words: bool = False) -> bool:
    """Return whether an entry ever had a name, or with ``by_words`` a text with these words."""
    state = fold_view(STATUS_FORM, open_log(project))
    return (
        bool(entry_history.find_by_words(state, words)) if by_words else find_name(words, state.book.used) is not None
    )


# The batches about an entry


_ABOUT: Final = frozenset(
    kind
    for kind, _ in events.EVENT_TYPES.values()
    if kind in {*CHANGES, events.PointNoted} and "name" in attrs.fields_dict(kind)
)
"""Classes of events that change or describe an entry that they name."""


def history_of(
    log: Log, names: Collection[str], links: Mapping[int, int] | None = None
) -> Callable[[], Iterable[Batch]]:
    """Return a function that reads, from the beginning, the batches that decide the history of entries.

    These are the batches that name one of the entries, or an entry that was ever merged with or joined to one, every
    undoing and redaction, and after each of them the batches up to the update that prunes what is due; all of history
    where no file can be searched.

    Args:
        log: The ledger.
        names: The names of the entries.
        links: As in `EntryStatuses`, at the end of the ledger; None where they are not known.
    """
    if isinstance(log, JsonlLog):
        # Reading the whole log explains damage better.
        with suppress(DamagedLedgerError):
            if links is None:
                linking = search(log, [bytes_of("kind", events.KIND_OF[kind]) for kind in entry_history.LINKING])
            else:
                linking = log.read_linked(links) if has_book(log) else read_batches_at(log, links.values())
            batches = list(_find(log, names, list(decode(linking))))
            return lambda: batches
    return lambda: decode(log.read())


def _find(log: JsonlLog, names: Collection[str], linking: Sequence[Batch]) -> Iterator[Batch]:
    # Also what an undo undid that was undone later itself.
    merges, undone = [], UndoneIds()
    for batch in linking:
        merges += [{event.name, *event.merged} for event in batch.events if isinstance(event, events.PointMerged)]
        merges += [{event.name, event.to} for event in batch.events if isinstance(event, events.PointMatched)]
        for undo in undos_in(batch):
            undone.add(undo, cast("events.EventsVoided", undo.event))
    # With every entry that was ever merged with one of them, directly or not.
    kin, size = set(names), -1
    while len(kin) > size:
        size = len(kin)
        kin = kin.union(*(merged for merged in merges if merged & kin))
    last = 0
    named = decode(search(log, [bytes_of("name", name) for name in kin]))
    rewriting = [batch for batch in linking if not REWRITING.isdisjoint(map(type, batch.events))]
    for batch in merge(named, rewriting, key=lambda batch: batch.last):
        # A batch that was read on the way to an update is not read twice.
        if batch.last > last:
            yield batch
            last = batch.last
            if _leaves_open(batch, kin, undone):
                # Up to an update after which none of these entries can be due.
                later = log.read_on(batch) if has_book(log) else log.read(Position(last, batch.chain, batch.end))
                for following in decode(later):
                    yield following
                    last = following.last
                    if _leaves_open(following, kin, undone) is False:
                        break


def _leaves_open(batch: Batch, names: Collection[str], undone: UndoneIds) -> bool | None:
    """Return whether one of these entries may be due after a batch, None where the batch does not decide that.

    An update prunes what is due, unless it is undone: then a later update does.
    """
    counts = not undone.may_touch(batch)
    for event in reversed(batch.events):
        if isinstance(event, events.PlaybookUpdated) and counts:
            return False
        if type(event) in CHANGES and type(event) in _ABOUT:
            entry_names = {event.name, *getattr(event, "merged", ())}  # type: ignore[attr-defined]
            if not entry_names.isdisjoint(names):
                return True
    return None


# The checkpoint of statuses


_REASONED: Final = frozenset(
    kind for kind, (cls, _) in events.EVENT_TYPES.items() if "reason" in attrs.fields_dict(cls)
)


def _number_in_book(state: entry_history.EntryStatuses, find_reason: Callable[[str], str | None]) -> None:
    def number(event: entry_history.EventReference) -> entry_history.NamedEvent:
        named = entry_history.name_event(event)
        # A rating or an update, as most are, has none to look for.
        reason = find_reason(named.row["id"]) if named.kind in _REASONED else None
        row = named.row | {"seq": shared_number(BOOK + named.row["seq"])}
        return named._replace(row=row, reason=reason or named.reason)

    state.last_changes = {name: number(event) for name, event in state.last_changes.items()}
    state.undone = {name: (text, number(by)) for name, (text, by) in state.undone.items()}
    state.links = {BOOK + last: offset for last, offset in state.links.items()}


STATUS_FORM: Final[Form[entry_history.EntryStatuses]] = Form(
    "standing",
    entry_history.ENTRIES,
    lambda state: state.book,
    number_in_book=_number_in_book,
)
