"""A page made of a project's ledger: what is on it, and the file."""

from __future__ import annotations

from contextlib import suppress
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger.encoding.codec import decode
from tallybook.ledger.errors import BadInputError, NothingToDoError, UnknownEntryError
from tallybook.ledger.events import KIND_OF
from tallybook.ledger.line import START
from tallybook.ledger.names import find_name
from tallybook.projections.fold import UNDOABLE
from tallybook.projections.playbook.aging import DAY_US, AgedPolicy
from tallybook.projections.playbook.prune import POLICIES, SPEC_POLICY, Policy
from tallybook.projections.surfaces.console.output import format_count
from tallybook.projections.surfaces.history.reading import log_with_book, open_log
from tallybook.projections.surfaces.page import document, parts
from tallybook.projections.surfaces.page.film import MAX_MOMENTS, STATUSES, fold_film
from tallybook.projections.surfaces.page.scores import scores_part
from tallybook.projections.surfaces.writing.curation import is_of_entry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tallybook.ledger.line import RawBatch
    from tallybook.ledger.log import Log
    from tallybook.ledger.records import Batch
    from tallybook.projections.surfaces.history.moments import Moment
    from tallybook.projections.surfaces.page.film import Film, Read
    from tallybook.projections.surfaces.workspace.project import Project

AGED_EVENTS: Final = 20_000
"""Longest history for which half-lives are computed: each costs as much as several other policies."""

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
    "graveyard": "tallybook show --gone --at {event}",
    "why": "tallybook why {entry}",
    "why_at": "tallybook why --at {event} {entry}",
    "log_entry": "tallybook log {entry}",
    "log_session": "tallybook log --session={session}",
    "undo_event": "tallybook undo {event}",
    "undo_session": "tallybook undo --of={session}",
    "without_session": "tallybook what-if --without=session:{session}",
    "score_session": "tallybook score --session={session} --detail",
    "score": "tallybook score --at {event}",
    "blame_overall": "tallybook score --blame {from}..{to}",
    "blame_between": "tallybook score --component {score} --blame {from}..{to}",
    "bisect": "tallybook bisect {condition}",
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
        with_texts: Whether texts, session ids, agents and models are in it.
        served: Whether a server sends it.
    """

    moment: Moment | None = None
    name: str | None = None
    with_quotes: bool = False
    with_texts: bool = True
    served: bool = False


SHARED: Final = "events are numbered as they count in this machine's shared history; `tallybook log` has their names"


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
        counts = self.meta["counts"]
        nouns = {"events": "event", "moments": "moment", "entries": "entry", "sessions": "session"}
        sizes = ", ".join(
            format_count(counts[key], noun, "entries" if noun == "entry" else "") for key, noun in nouns.items()
        )
        texts = "with the texts of entries" if self.meta["texts"] else "without texts, session ids, agents and models"
        quotes = "with quotes and reasons" if self.meta["quotes"] else "without quotes and reasons"
        return f"{sizes}; {texts}, {quotes}; ledger head {self.meta['head']}; {len(self.data):,} bytes"


def make(project: Project, choices: Choices) -> Page:
    """Return the page of a project.

    Raises:
        NothingToDoError: The ledger has no event.
        UnknownEntryError: No event names the entry.
    """
    log = open_log(project)
    now = log.now().at
    # A commit's history may be another than the project's own.
    commit = choices.moment if choices.moment is not None and choices.moment.commit else None
    shared = log if commit is None and log_with_book(log) else None
    if commit is not None:
        read = from_beginning(commit.history)
    elif shared is not None:
        read = from_beginning(lambda: numbered_history(shared))
    else:
        read = history_of(project)
    film = fold_film(read, {"film": SPEC_POLICY, **alternatives(log.head().seq)}, MAX_MOMENTS)
    if not film.last:
        raise NothingToDoError("page", "the ledger has no event yet", "record one first")
    # Commands read the project's own history, and name events by other numbers than the page of a shared one.
    meta = _meta(film, project, choices, has_commands=commit is None and shared is None)
    meta |= {"made": now}
    with_texts = choices.with_texts
    content = {
        "film": parts.film_part(film, with_texts=with_texts),
        "sessions": parts.sessions_part(film, with_texts=with_texts),
        "stories": parts.stories_part(film, lambda: read(START), choices),
        "quotes": parts.quotes_part(film) if choices.with_quotes else None,
        "scores": None,
    }
    sections = ""
    if shared is not None:
        from tallybook.projections.surfaces.page.lanes import lanes_section

        head = log.head()
        meta |= {"head": f"{head.seq}:{head.chain}", "opens": meta["opens"] | {"event": film.last}}
        meta["warnings"].append(SHARED)
        sections = lanes_section(shared, with_texts=with_texts)
    try:
        content["scores"] = scores_part(project, film, lambda: read(START), commit, with_texts=with_texts)
    except BadInputError:
        # Its own message has the path of the file.
        meta["warnings"].append("without scores: their configuration is invalid; run `tallybook score`")
    if commit is None:
        from tallybook.projections.surfaces.lift.notes import page_section

        # With scores that cannot be read nothing is known of lift either.
        with suppress(BadInputError):
            sections += page_section(project)
    return Page(document.assemble(meta, content, sections), meta)


def from_beginning(read: Callable[[], Iterable[Batch]]) -> Read:
    """Return what reads a history after a position that can be read from its beginning only."""
    return lambda position: (batch for batch in read() if batch.last > position.seq)


def numbered_history(log: Log) -> Iterator[Batch]:
    """Yield a shared history with the event numbers 1, 2, 3 and so on, which the columns of a page need."""
    from tallybook.projections.surfaces.sharing.own_history import renumber

    def batches() -> Iterator[RawBatch]:
        last = 0
        for batch in log.read():
            end = last + len(batch.lines)
            yield renumber(batch, range(last + 1, end + 1))
            last = end

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
            "entries": len(film.tracks["film"].book.mutable),
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
        "commands": COMMANDS if has_commands else {},
        "undo": {kind: "event" if is_of_entry(kind) else "batch" for kind in sorted(KIND_OF[one] for one in UNDOABLE)},
    }
