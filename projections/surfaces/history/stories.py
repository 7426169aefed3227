"""Two moments compared, and the story of an entry from the batches that concern it.

Folding these batches gives what all of history gives. Of a long ledger no others are read, so damage in them is found
by ``verify``. The status of every name is saved in checkpoints, with events as answers name them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger import events
from tallybook.ledger.codec import decode
from tallybook.ledger.errors import EXIT_NO, DamagedLedgerError, TallybookError
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.names import find_name
from tallybook.ledger.records import Batch
from tallybook.ledger.scan import read_batches_at
from tallybook.ledger.sharing.numbers import BOOK, format_shared_number
from tallybook.projections.history import entry_history
from tallybook.projections.history.comparisons import diff
from tallybook.projections.playbook.fold import fold_history
from tallybook.projections.surfaces.console.output import format_counts
from tallybook.projections.surfaces.history.checkpoints import Form, is_long
from tallybook.projections.surfaces.history.playbook_file import WITH_EDIT, AsOf, fold_as_of
from tallybook.projections.surfaces.history.reading import fold_view, has_book, open_log
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
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
        from tallybook.projections.surfaces.history import shared_log

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
    read = read or history_of(log, name, statuses)
    if name not in statuses.stories:
        statuses.stories |= fold_history(entry_history.entries_view({name}), read, end).stories
    answer = entry_history.explain(statuses.stories[name], statuses)
    if has_book(opened):
        from tallybook.projections.surfaces.history import shared_log

        shared_log.add_arrivals(opened.syncs, answer)
    return answer, statuses


def is_known(project: Project, words: str, *, by_words: bool = False) -> bool:
    """Return whether an entry ever had a name, or with ``by_words`` a text with these words."""
    state = fold_view(STATUS_FORM, open_log(project))
    return (
        bool(entry_history.find_by_words(state, words)) if by_words else find_name(words, state.book.used) is not None
    )


# The batches about an entry


def history_of(log: JsonlLog, name: str, statuses: entry_history.EntryStatuses) -> Callable[[], Iterable[Batch]]:
    """Return a function that reads, from the beginning, the batches that decide the story of an entry.

    These are the batches that concern it, or an entry that was ever merged with or joined to it, and every undoing and
    redaction; all of history where one of them is damaged.

    Args:
        log: The ledger.
        name: The name of the entry.
        statuses: The status of every name at the end of the ledger.
    """

    def read(places: Mapping[int, int]) -> list[Batch]:
        return list(decode(log.read_batches(places) if has_book(log) else read_batches_at(log, places.values())))

    # Reading the whole log explains damage better.
    with suppress(DamagedLedgerError):
        merges: list[set[str]] = []
        for event in chain.from_iterable(batch.events for batch in read(statuses.links)):
            merges += [{event.name, *event.merged}] if isinstance(event, events.PointMerged) else []
            merges += [{event.name, event.to}] if isinstance(event, events.PointMatched) else []
        kin, size = {name}, 0
        while len(kin) > size:
            size = len(kin)
            kin = kin.union(*(merged for merged in merges if merged & kin))
        places = statuses.links | dict(chain.from_iterable(statuses.places.get(member, {}).items() for member in kin))
        batches = read(dict(sorted(places.items())))
        return lambda: batches
    return lambda: decode(log.read())


# The checkpoint of statuses


_REASONED: Final = frozenset(
    kind for kind, (cls, _) in events.EVENT_TYPES.items() if "reason" in attrs.fields_dict(cls)
)


def _number_in_book(state: entry_history.EntryStatuses, find_reason: Callable[[str], str | None]) -> None:
    def number(event: entry_history.EventReference) -> entry_history.NamedEvent:
        named = entry_history.name_event(event)
        # A rating or an update, as most are, has none to look for.
        reason = find_reason(named.row["id"]) if named.row["kind"] in _REASONED else None
        row = named.row | {"seq": format_shared_number(BOOK + named.row["seq"])}
        return named._replace(row=row, reason=reason or named.reason)

    state.last_changes = {name: number(event) for name, event in state.last_changes.items()}
    state.undone = {name: (text, number(by)) for name, (text, by) in state.undone.items()}
    state.links = {BOOK + last: offset for last, offset in state.links.items()}
    state.places = {
        name: {BOOK + last: offset for last, offset in places.items()} for name, places in state.places.items()
    }


STATUS_FORM: Final[Form[entry_history.EntryStatuses]] = Form(
    "standing", entry_history.ENTRIES, lambda state: state.book, number_in_book=_number_in_book
)
