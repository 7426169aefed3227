"""A page made of a project's ledger: what is on it, and the file."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import version
import re
from shlex import quote
from typing import TYPE_CHECKING, Any, Final
import unicodedata

import attrs

from tallybook.ledger.encoding.codec import decode
from tallybook.ledger.errors import BadInputError, NothingToDoError, UnknownEntryError
from tallybook.ledger.events import KIND_OF
from tallybook.ledger.line import START
from tallybook.ledger.names import find_name
from tallybook.ledger.sharing.numbers import shared_number
from tallybook.projections.entry_history.answers import explain
from tallybook.projections.entry_history.view import entries_view
from tallybook.projections.fold import UNDOABLE, fold_history
from tallybook.projections.playbook.aging import DAY_US, AgedPolicy
from tallybook.projections.playbook.prune import POLICIES, SPEC_POLICY, Policy
from tallybook.projections.surfaces.console.output import format_count
from tallybook.projections.surfaces.console.story_text import tell_story
from tallybook.projections.surfaces.history.reading import log_with_book, open_log
from tallybook.projections.surfaces.page import document
from tallybook.projections.surfaces.page.film import MAX_MOMENTS, STATUSES, fold_film
from tallybook.projections.surfaces.page.scores import scores_part
from tallybook.projections.surfaces.sharing.own_history import renumber
from tallybook.projections.surfaces.writing.curation import is_of_entry
from tallybook.projections.surfaces.writing.secrets import mask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from tallybook.ledger.line import RawBatch
    from tallybook.ledger.log import Log
    from tallybook.ledger.records import Batch
    from tallybook.projections.entry_history.view import EntryStatuses
    from tallybook.projections.surfaces.history.moments import Moment
    from tallybook.projections.surfaces.page.film import Film, Read
    from tallybook.projections.surfaces.workspace.project import Project

AGED_EVENTS: Final = 20_000
"""Longest history for which half-lives are computed: each costs as much as several other policies."""

MAX_ROWS: Final = 20_000
"""Most events that all the stories together tell; the entries that changed last have theirs."""

MAX_STORIES: Final = 500
"""Most stories: each entry is compared with every name, to find the same guidance under other names."""

_STATES: Final = 8
"""How many earlier states are held at a time; entries ask for the moments before the same undos."""

PLAIN: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*")
"""What the script puts into a command as it is; README.md repeats it."""

_REFUSED: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Categories of characters that a terminal obeys or hides: controls, marks of direction, halves of pairs, line ends."""

ALTERNATIVES: Final[dict[str, Policy]] = {
    **{f"--policy {name}": policy for name, policy in POLICIES.items() if policy is not SPEC_POLICY},
    **{
        f"--floor {floor}": attrs.evolve(
            SPEC_POLICY, floor=floor, about=f"an update prunes it for good from {floor} harmful on"
        )
        for floor in (1, 2, 5, 8)
    },
    **{
        f"--margin {margin}": attrs.evolve(
            SPEC_POLICY, margin=margin, about=f"an update prunes it for good at {margin} more harmful than helpful"
        )
        for margin in (2, 4)
    },
    **{
        f"--half-life {days}d": AgedPolicy(
            half_life=f"{days}d", half_life_us=days * DAY_US, about=f"a rating counts half after {days} days"
        )
        for days in (30, 90)
    },
}
"""Options of `what-if` → another policy that is computed for the page."""

COMMANDS: Final = {
    "show": "tallybook show --at {event}",
    "log": "tallybook log --since {before} --until {event}",
    "diff": "tallybook diff {other} {event}",
    "former": "tallybook show --gone --at {event}",
    "why_at": "tallybook why --at {event} {entry}",
    "log_entry": "tallybook log {entry}",
    "log_session": "tallybook log --session={session}",
    "undo_event": "tallybook undo {event}",
    "undo_session": "tallybook undo --of={session}",
    "without_session": "tallybook what-if --without=session:{session}",
    "score_session": "tallybook score --session={session} --detail",
    "score": "tallybook score --at {event}",
    "blame": "tallybook score --blame {from}..{to}",
    "page": "tallybook page --at {event}",
}
"""Name → a command line to copy; README.md has what its places are filled with."""


@attrs.frozen
class Choices:
    """What a page is asked to show.

    Attributes:
        moment: The moment at which it opens; None for the end.
        name: The entry that is selected; None for none.
        with_quotes: Whether reasons and notes are in it.
        with_texts: Whether texts, session ids, agents, models and machines are in it.
        served: Whether a server sends it.
    """

    moment: Moment | None = None
    name: str | None = None
    with_quotes: bool = False
    with_texts: bool = True
    served: bool = False


@attrs.frozen
class Page:
    """A page.

    Attributes:
        data: The bytes of the file.
        meta: What is in it.
    """

    data: bytes
    meta: dict[str, Any]

    def describe(self) -> str:
        """Return what is in it, for people."""
        nouns = {"events": "event", "moments": "moment", "entries": "entry", "sessions": "session"}
        counts = [
            format_count(self.meta["counts"][key], noun, "entries" if noun == "entry" else "")
            for key, noun in nouns.items()
        ]
        texts = "with the texts of entries" if self.meta["texts"] else "without texts, session ids, agents and models"
        quotes = "with quotes and reasons" if self.meta["quotes"] else "without quotes and reasons"
        return f"{', '.join(counts)}; {texts}, {quotes}; ledger head {self.meta['head']}; {len(self.data):,} bytes"


def make(project: Project, choices: Choices) -> Page:
    """Return the page of a project.

    Raises:
        NothingToDoError: The ledger has no event.
        UnknownEntryError: No event names the entry.
    """
    log, moment = open_log(project), choices.moment
    now, head = log.now().at, log.head()
    numbers: dict[int, int] = {}
    # A commit's history may be another than the project's own.
    commit = moment if moment is not None and moment.commit else None
    if commit is not None:
        read = _from_beginning(commit.history)
    elif log_with_book(log):
        read = _from_beginning(lambda: _numbered_history(log, numbers))
    else:
        read = history_of(project)
    film = fold_film(read, {"film": SPEC_POLICY, **alternatives(head.seq)}, MAX_MOMENTS)
    if not film.last:
        raise NothingToDoError("page", "the ledger has no event yet", "record one first")
    meta = _meta(film, project, choices, has_commands=commit is None) | {"made": now}
    if numbers:
        # The page's own numbers are 1, 2, 3 and so on; the server answers with the head of the ledger.
        labels = {new: str(shared_number(seq)) for new, seq in numbers.items()}
        meta |= {"head": f"{head.seq}:{head.chain}", "labels": [[new, label] for new, label in labels.items()]}
        meta["opens"]["event"] = film.last
    content = {
        "film": {
            **film.part(with_texts=choices.with_texts),
            "quoted": quote_all(film.names.numbers, quote_argument),
        },
        "sessions": _sessions_part(film) if choices.with_texts else {},
        "stories": _stories_part(film, lambda: read(START), choices),
        "quotes": _quotes_part(film) if choices.with_quotes else None,
        "scores": None,
    }
    sections = ""
    try:
        content["scores"] = scores_part(project, film, commit)
    except BadInputError:
        # Its own message has the path of the file.
        meta["warnings"].append("without scores: their configuration is invalid; run `tallybook score`")
    if commit is None:
        from tallybook.projections.surfaces.selection.lift_notes import page_section

        # With scores that cannot be read nothing is known of lift either.
        with suppress(BadInputError):
            sections = page_section(project)
    return Page(document.assemble(meta, content, sections), meta)


def _from_beginning(read: Callable[[], Iterable[Batch]]) -> Read:
    """Return what reads a history after a position that can be read from its beginning only."""
    return lambda position: (batch for batch in read() if batch.last > position.seq)


def _numbered_history(log: Log, numbers: dict[int, int]) -> Iterator[Batch]:
    """Yield a shared history with the event numbers 1, 2, 3 and so on, which the columns of a page need.

    Args:
        log: The shared history.
        numbers: Takes the number of each batch's first event → its number in the shared history.
    """

    def batches() -> Iterator[RawBatch]:
        last = 0
        for batch in log.read():
            numbers[last + 1] = batch.first
            yield renumber(batch, range(last + 1, last + len(batch.lines) + 1))
            last += len(batch.lines)

    return decode(batches())


def alternatives(events: int) -> dict[str, Policy]:
    """Return the other policies that are computed for a history of about so many events, by their options."""
    return {
        options: policy
        for options, policy in ALTERNATIVES.items()
        if events <= AGED_EVENTS or not isinstance(policy, AgedPolicy)
    }


def history_of(project: Project) -> Read:
    """Return what reads the history of a project's ledger after a position."""
    log = open_log(project)
    return lambda position: decode(log.read(position))


def _meta(film: Film, project: Project, choices: Choices, *, has_commands: bool) -> dict[str, Any]:
    """Return what the script knows before it unpacks the document."""
    numbers = film.names.numbers
    name = None if choices.name is None else find_name(choices.name, set(numbers))
    if choices.name is not None and name is None:
        raise UnknownEntryError(choices.name, None)
    warnings = [f"the texts of {format_count(film.redacted, 'event')} are redacted"] if film.redacted else []
    if film.base:
        older, shown = format_count(film.skipped, "older moment"), format_count(len(film.moment_authors), "moment")
        warnings.append(f"the page has the last {shown}; {older}, up to event {film.base}, are one snapshot")
    policies = [
        {
            "stream": options,
            "policy": policy.name,
            "rule": policy.rule,
            "about": policy.about,
            "command": f"tallybook what-if {options} --at {{event}}" if has_commands else "",
        }
        for options, policy in ALTERNATIVES.items()
    ]
    return {
        "format": document.FORMAT,
        "tallybook": version("tallybook"),
        "project": project.root.name if choices.with_texts else "",
        "ledger": film.ledger,
        "head": f"{film.last}:{film.chain}",
        "served": choices.served,
        "texts": choices.with_texts,
        "quotes": choices.with_quotes,
        "warnings": warnings,
        "counts": {
            "events": film.last,
            "moments": len(film.sizes),
            "entries": len(film.own.book.mutable),
            "names": len(numbers),
            "sessions": len(film.sessions.numbers),
        },
        "opens": {
            "event": film.last if choices.moment is None else choices.moment.seq,
            "entry": None if name is None else numbers[name],
        },
        "statuses": STATUSES,
        "rule": SPEC_POLICY.rule,
        "policies": [policy for policy in policies if policy["stream"] in film.tracks],
        "omitted_policies": [policy for policy in policies if policy["stream"] not in film.tracks],
        # The commands read the project's ledger, and not the one of a commit.
        "commands": COMMANDS if has_commands else {},
        "undo": {kind: "event" if is_of_entry(kind) else "batch" for kind in sorted(KIND_OF[one] for one in UNDOABLE)},
    }


def _sessions_part(film: Film) -> dict[str, Any]:
    """Return the sessions by number: ids, agents and models."""
    ids = list(film.sessions.numbers)
    agents = [", ".join(filter(None, film.agents[number])) for number in range(1, len(ids) + 1)]
    return {"ids": ids, "quoted": quote_all(ids, quote_value), "agents": agents}


def _quotes_part(film: Film) -> dict[str, Any]:
    """Return the reasons and notes of events."""
    return {
        "event": [seq for seq, _, _ in film.quotes],
        "quotes": [[field, mask(text).text] for _, field, text in film.quotes],
    }


# Stories: what `why` says about each entry, and the numbers of the events that decided


def _stories_part(film: Film, read: Callable[[], Iterable[Batch]], choices: Choices) -> dict[str, Any]:
    """Return the stories of the entries that changed last, as of the end of the film."""
    counts, numbers = Counter(film.entries), film.names.numbers
    names, told, rows = list(numbers), list[str](), 0
    for entry in filter(None, dict.fromkeys(reversed(film.entries))):
        rows += counts[entry]
        if rows > MAX_ROWS or len(told) == MAX_STORIES:
            break
        told.append(names[entry - 1])
    view = entries_view(told)

    @lru_cache(maxsize=_STATES)
    def as_of(until: int) -> EntryStatuses:
        return fold_history(view, read, until)

    stories = [_tell(film, name, as_of, choices) for name in told]
    return {"stories": stories, "omitted": len(numbers) - len(stories)}


def _tell(film: Film, name: str, as_of: Callable[[int], EntryStatuses], choices: Choices) -> dict[str, Any]:
    """Return a story as the page shows it: ``{entry, sentences, deciding, others}``."""
    state, numbers = as_of(film.last), film.names.numbers
    story, extras = explain(state.stories[name], state, lambda until: as_of(until).stories[name])
    shown = extras
    if not choices.with_quotes:
        left_by = extras["vanished_by"]
        # Its own summary quotes a reason, or names a session.
        summary = left_by and {**left_by, "summary": film.words_of(left_by["seq"])}
        shown = {**extras, "notes": [], "original": None, "vanished_by": summary}
    sentences = tell_story(story if choices.with_texts else _hide(story), shown)
    return {
        "entry": numbers[name],
        "sentences": [mask(sentence).text for sentence in sentences],
        "deciding": [event["seq"] for event in extras["deciding"]],
        "others": [
            [numbers[row["name"]], row["status"], row["relation"], numbers[row["of"]]] for row in extras["lineage"]
        ],
    }


def _hide(story: Mapping[str, Any]) -> dict[str, Any]:
    """Return a story without who acted in which session."""

    def hidden(row: Mapping[str, Any]) -> dict[str, Any]:
        return {**row, "by": {"rater": row["by"]["rater"]}}

    rows = {key: [hidden(row) for row in story[key]] for key in ("trail", "ignored")}
    return {**story, **rows, "decided_by": story["decided_by"] and hidden(story["decided_by"])}


# Values in commands to copy: quoted for a shell, and refused where they hold control characters


def quote_value(value: str) -> str | None:
    """Return a value quoted for a shell, None where it holds control characters."""
    return None if any(unicodedata.category(char) in _REFUSED for char in value) else quote(value)


def quote_argument(value: str) -> str | None:
    """Return a value as the last argument of a command: one that looks like an option follows ``--``."""
    text = quote_value(value)
    return f"-- {text}" if text is not None and value.startswith("-") else text


def quote_all(values: Iterable[str], form: Callable[[str], str | None]) -> dict[int, str | None]:
    """Return each value that is not plain by its index, quoted for a shell, or None where it is refused."""
    return {number: form(value) for number, value in enumerate(values) if not PLAIN.fullmatch(value)}
