"""A page made of a project's ledger: what is on it, and the file."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger.encoding.codec import decode
from tallybook.ledger.errors import BadInputError, NothingToDoError, UnknownEntryError
from tallybook.ledger.events import KIND_OF
from tallybook.ledger.names import find_name
from tallybook.projections.fold import UNDOABLE
from tallybook.projections.playbook.aging import DAY_US, AgedPolicy
from tallybook.projections.playbook.prune import POLICIES, SPEC_POLICY, Policy
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.console.output import format_count
from tallybook.projections.surfaces.history.reading import log_with_book, open_log
from tallybook.projections.surfaces.page import document, parts
from tallybook.projections.surfaces.page.film import MAX_MOMENTS, fold_film
from tallybook.projections.surfaces.page.scores import Source, scores_part
from tallybook.projections.surfaces.page.stories import Privacy, stories_part
from tallybook.projections.surfaces.page.track import STATUSES
from tallybook.projections.surfaces.writing.curation import is_of_entry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tallybook.ledger.line import Position, RawBatch
    from tallybook.ledger.log import Log
    from tallybook.ledger.records import Batch
    from tallybook.projections.surfaces.history.moments import Moment
    from tallybook.projections.surfaces.page.film import Film, Read
    from tallybook.projections.surfaces.workspace.project import Project

FLOORS: Final = (1, 2, 5, 8)
"""The floors of the specification's policy that are computed for the page besides its own."""

MARGINS: Final = (2, 4)
"""Its margins that are computed as well."""

HALF_LIVES: Final = (30, 90)
"""The half-lives of ratings, in days, with which it is computed as well."""

AGED_EVENTS: Final = 20_000
"""Longest history for which half-lives are computed: each costs as much as several other policies."""

ALTERNATIVES: Final[dict[str, tuple[Policy, str]]] = {
    **{
        f"policy-{name}": (policy, f"tallybook what-if --policy {name} --at {{event}}")
        for name, policy in POLICIES.items()
        if policy is not SPEC_POLICY
    },
    **{
        f"policy-floor-{floor}": (
            attrs.evolve(SPEC_POLICY, floor=floor, about=f"an update prunes it for good from {floor} harmful on"),
            f"tallybook what-if --floor {floor} --at {{event}}",
        )
        for floor in FLOORS
    },
    **{
        f"policy-margin-{margin}": (
            attrs.evolve(
                SPEC_POLICY,
                margin=margin,
                about=f"an update prunes it for good at {margin} more harmful than helpful",
            ),
            f"tallybook what-if --margin {margin} --at {{event}}",
        )
        for margin in MARGINS
    },
    **{
        f"policy-half-life-{days}d": (
            AgedPolicy(
                half_life=f"{days}d", half_life_us=days * DAY_US, about=f"a rating counts half after {days} days"
            ),
            f"tallybook what-if --half-life {days}d --at {{event}}",
        )
        for days in HALF_LIVES
    },
}
"""Stream → another policy, and the command that computes the same."""

COMMANDS: Final = {
    "show": "tallybook show --at {event}",
    "log": "tallybook log --since {before} --until {event}",
    "diff": "tallybook diff {other} {event}",
    "graveyard": "tallybook graveyard --at {event}",
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
    now = open_log(project).now().at
    moment = choices.moment
    # A commit's history may be another than the project's own.
    read, _ = commands.up_to(project, moment if moment is not None and moment.commit else None)
    policies = alternatives(open_log(project).head().seq)
    shared = not (moment is not None and moment.commit) and log_with_book(open_log(project))
    if shared:
        read = partial(numbered_history, open_log(project))
    is_other = shared or (moment is not None and moment.commit)
    film = fold_film(
        partial(_after, read) if is_other else history_of(project), {"film": SPEC_POLICY, **policies}, MAX_MOMENTS
    )
    if not film.last:
        raise NothingToDoError("page", "the ledger has no event yet", "record one first")
    meta = _meta(film, project, choices, now)
    if shared:
        head = open_log(project).head()
        meta |= {"head": f"{head.seq}:{head.chain}", "warnings": [*meta["warnings"], SHARED]}
    content = _content(film, read, choices)
    try:
        content["scores"] = scores_part(
            project, Source(film, read, choices.with_texts), moment if moment is not None and moment.commit else None
        )
    except BadInputError:
        # Its own message has the path of the file.
        meta["warnings"].append("without scores: their configuration is invalid; run `tallybook score`")
    sections = _lanes(project, choices) if shared else ""
    if moment is None or not moment.commit:
        sections += _lift(project)
    return Page(document.assemble(meta, content, sections), meta)


def _lift(project: Project) -> str:
    """Return the section about lift; without it where the scores' configuration is invalid."""
    from tallybook.projections.surfaces.lift.notes import page_section

    with suppress(BadInputError):
        return page_section(project)
    return ""


def _lanes(project: Project, choices: Choices) -> str:
    """Return the section of a shared project: a lane for each writer."""
    from tallybook.projections.surfaces.page.lanes import lanes_section
    from tallybook.projections.surfaces.sharing.shared_log import SharedLog

    return lanes_section(SharedLog(project.ledger), with_texts=choices.with_texts)


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
    """Return the other policies that are computed for a history of about so many events, by stream."""
    return {
        stream: policy
        for stream, (policy, _) in ALTERNATIVES.items()
        if events <= AGED_EVENTS or not isinstance(policy, AgedPolicy)
    }


def history_of(project: Project) -> Read:
    """Return what reads the history of a project's ledger after a position."""
    log = open_log(project)
    return lambda position: decode(log.read(position))


def _after(read: Callable[[], Iterable[Batch]], position: Position) -> Iterator[Batch]:
    """Yield the batches after a position of a history that can be read from its beginning only."""
    return (batch for batch in read() if batch.last > position.seq)


def _content(film: Film, read: Callable[[], Iterable[Batch]], choices: Choices) -> dict[str, Any]:
    """Return the document of a page, without scores."""
    return {
        "film": parts.film_part(film, with_texts=choices.with_texts),
        "sessions": parts.sessions_part(film, with_texts=choices.with_texts),
        "stories": stories_part(film, read, Privacy(choices.with_quotes, choices.with_texts)),
        "quotes": parts.quotes_part(film) if choices.with_quotes else None,
        "scores": None,
    }


def _meta(film: Film, project: Project, choices: Choices, now: str) -> dict[str, Any]:
    """Return what the script knows before it unpacks a stream."""
    numbers = film.names.numbers
    name = None if choices.name is None else find_name(choices.name, set(numbers))
    if choices.name is not None and name is None:
        raise UnknownEntryError(choices.name, None)
    # Commands read the project's own history, not that of a commit.
    is_own = choices.moment is None or not choices.moment.commit
    shared = is_own and log_with_book(open_log(project))
    # The commands name events by other numbers than the page of a shared history.
    is_own = is_own and not shared
    redacted = len(film.redacted)
    warnings = [f"the texts of {format_count(redacted, 'event')} are redacted"] if redacted else []
    if film.base:
        older, shown = format_count(film.skipped, "older moment"), format_count(len(film.moment_authors), "moment")
        warnings.append(f"the page has the last {shown}; {older}, up to event {film.base}, are one snapshot")
    return {
        "format": document.FORMAT,
        "tallybook": version("tallybook"),
        "made": now,
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
            "sessions": len(parts.read_people(film).sessions),
        },
        "opens": {
            "event": film.last if choices.moment is None or shared else choices.moment.seq,
            "entry": None if name is None else numbers[name],
        },
        "statuses": STATUSES,
        "rule": SPEC_POLICY.rule,
        "policies": [_policy(stream, is_own=is_own) for stream in ALTERNATIVES if stream in film.tracks],
        "omitted_policies": [_policy(stream, is_own=is_own) for stream in ALTERNATIVES if stream not in film.tracks],
        "commands": COMMANDS if is_own else {},
        "undo": {kind: "event" if is_of_entry(kind) else "batch" for kind in sorted(KIND_OF[one] for one in UNDOABLE)},
    }


def _policy(stream: str, *, is_own: bool) -> dict[str, Any]:
    """Return a policy as the script knows it; its command reads the project's own history."""
    policy, command = ALTERNATIVES[stream]
    return {
        "stream": stream,
        "policy": policy.name,
        "floor": policy.floor,
        "margin": policy.margin,
        "half_life": policy.half_life if isinstance(policy, AgedPolicy) else None,
        "rule": policy.rule,
        "about": policy.about,
        "command": command if is_own else "",
    }
