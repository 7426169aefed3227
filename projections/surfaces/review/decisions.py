"""What a person should decide as of now; the decisions, each recorded when it is made; entries that may be stale."""

from __future__ import annotations

from collections import Counter
import re
from typing import TYPE_CHECKING, Any, Final

from tallybook.ledger import clock
from tallybook.ledger.decisions.curation import Curation
from tallybook.ledger.encoding.codec import decode
from tallybook.ledger.events import PointReviewed
from tallybook.ledger.fast_stdlib import import_lazily
from tallybook.projections import review
from tallybook.projections.fold import fold_history
from tallybook.projections.playbook.render import entry_json
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.console.output import format_count
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.hooks import notices
from tallybook.projections.surfaces.workspace.personal import PersonalPlaybook
from tallybook.projections.surfaces.writing import proposals
from tallybook.projections.surfaces.writing.requests import Answer, Request

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tallybook.ledger.events import Entry
    from tallybook.projections.entry_history.view import EntryStatuses
    from tallybook.projections.playbook.view import Playbook
    from tallybook.projections.surfaces.sharing import membership
    from tallybook.projections.surfaces.workspace import git
    from tallybook.projections.surfaces.workspace.project import Project
    from tallybook.projections.surfaces.writing.record import Outcome
else:
    git, membership = import_lazily(
        "tallybook.projections.surfaces.workspace.git", "tallybook.projections.surfaces.sharing.membership"
    )

MAX_NAMES = 3
"""A notice has no more names."""
_DAY_US = 24 * 3600 * clock.MICROSECONDS


def find_items(project: Project) -> list[review.Item]:
    """Return what a person should decide now."""
    question = _ask(project)
    return review.select_items(question._replace(gone=find_gone(project, question.book.entries.values())))


def _ask(project: Project) -> review.Question:
    now = clock.utc_now()
    since = clock.moment(now.unix_us - review.DAYS * _DAY_US).at
    opened = proposals.open_proposals(project)
    return review.Question(commands.playbook(project).state, load_reviews(project), opened, {}, since, now.at[:10])


def refresh_notice(project: Project) -> None:
    """Write down for the next session and the next command what agents' marks ask of a person."""
    items = review.select_agents_items(_ask(project))
    number = Counter(item.why for item in items)
    parts = [f"{format_count(number[review.LESSON], 'lesson')} proposed"] if number[review.LESSON] else []
    disputed = number[review.DISPUTED]
    parts += [f"{format_count(disputed, 'entry', 'entries')} in dispute"] if disputed else []
    left = [item.names[0] for item in items if item.why == review.LEFT]
    if left:
        # Three sessions that quoted a hostile file pruned an entry, and nobody was told.
        names = ", ".join(left[-MAX_NAMES:])
        parts.append(f"agents' ratings pruned {names} (`tallybook restore {left[-1]}`)")
    # At a start the notice is seen on the terminal, and is in no request to a model.
    notices.put(project, f"{', '.join(parts)}: tallybook review" if parts else "", left)


def is_open(item: review.Item, book: Playbook) -> bool:
    """Return whether an item still can be decided: an earlier decision may have taken one of its entries out."""
    return item.proposal is not None or all((name in book.entries) != (item.why == review.LEFT) for name in item.names)


def decide(project: Project, item: review.Item, decision: str, text: str, by: Mapping[str, str]) -> Outcome:
    """Record a decision about an item, with the change that it makes in the same batch.

    Args:
        project: The project.
        item: The item.
        decision: accept or reject for a proposal; restore or leave for an entry that left; for others keep, retire,
            reword, until or merge.
        text: The new text, for reword; the new last day, for until.
        by: The person.

    Raises:
        TallybookError: The change is refused; nothing was recorded.
    """
    if item.proposal is not None:
        answer = proposals.accept if decision == "accept" else proposals.reject
        return answer(project, item.proposal, "", by)
    event = PointReviewed(item.names, item.why, decision)
    sources = item.names[1:] if decision == "merge" else ()
    reason = f"review: {item.why}"
    # To keep an entry is recorded, too: what a person decided is not asked again for 90 days.
    wish = None if decision in {"keep", "leave"} else Curation(decision, item.names[0], reason, text, sources)
    if decision == "until":
        wish = Curation("reword", item.names[0], reason, until=text)
    # One batch, so that an undo brings back the item and what its decision changed.
    return commands.record_request(project, Request(Answer(event, wish), by))


def item_json(item: review.Item, book: Playbook) -> dict[str, Any]:
    """Return an item as ``{why, names, says, entries, proposal}``."""
    return {
        "why": item.why,
        "names": list(item.names),
        "says": item.says,
        "entries": [entry_json(book.entries[name]) for name in item.names if name in book.entries],
        "proposal": None if item.proposal is None else item.proposal.seq,
    }


# Entries without a sign of use, or about a path that git no longer has; nothing of this is recorded

MAX_PATHS_OF_ENTRY: Final = 10
# The texts are other people's, and may name any number of paths.
MAX_PATHS: Final = 1_000
MAX_LOOKUPS: Final = 30
"""So many paths that are not in the index are looked up in git's history."""
_MAX_PATH_CHARS: Final = 200

_BETWEEN: Final = re.compile(r"[\s\"'`\u2018-\u201d()\[\]{}<>,;|=*]+")
_LINE: Final = re.compile(r"(:\d+)+$")
_PATH: Final = re.compile(r"[\w@+.][\w@+.-]*(/[\w@+.-]+)*")


def load_reviews(project: Project) -> review.Reviews:
    """Return the state of the review view of a ledger, as of now."""
    log = reading.open_log(project)
    part = membership.load(project) if reading.log_with_book(log) else None
    return fold_history(review.reviews_view(part.writer if part is not None else ""), lambda: decode(log.read()))


def find_paths(text: str) -> Iterator[str]:
    """Yield the relative paths that a text names: with a slash or a dot in them, and without ``..``."""
    for word in _BETWEEN.split(text):
        path = _LINE.sub("", word.rstrip(".:!?")).removeprefix("./").rstrip("/")
        is_path = "/" in word or "." in path.strip(".")
        if is_path and len(path) <= _MAX_PATH_CHARS and _PATH.fullmatch(path) and ".." not in path.split("/"):
            yield path


def find_gone(project: Project, entries: Iterable[Entry]) -> dict[str, list[str]]:
    """Return the entries whose texts name paths that git's history has and its index has not, with these paths.

    Git is asked about relative paths alone, and about so many at most. Where it does not answer, none is gone.
    """
    # A person's own playbook is for all projects, and its paths are in none of them.
    if isinstance(project, PersonalPlaybook):
        return {}
    named = {entry.name: list(dict.fromkeys(find_paths(entry.text)))[:MAX_PATHS_OF_ENTRY] for entry in entries}
    paths = list(dict.fromkeys(path for named_paths in named.values() for path in named_paths))[:MAX_PATHS]
    if not paths:
        return {}
    try:
        gone = set(git.find_gone(project.root, paths, MAX_LOOKUPS))
    except git.FAILURES:
        return {}
    found = {name: [path for path in named_paths if path in gone] for name, named_paths in named.items()}
    return {name: gone_paths for name, gone_paths in found.items() if gone_paths}


def explain(project: Project, entry: Entry | None, statuses: EntryStatuses) -> dict[str, Any]:
    """Return what `why` says of an entry that may be stale, as ``{sessions, unused, gone, says}``.

    ``sessions`` counts those that were given it and whose citations are seen; it is None where nothing depends on it.
    """
    if entry is None:
        return {"sessions": None, "unused": False, "gone": [], "says": ""}
    told = statuses.injections.get(entry.name)
    # The whole ledger is read only for an entry that can be without a sign of use.
    may_be_unused = told is not None and told.count >= review.MIN_SESSIONS and entry.name not in statuses.citations
    reviews = load_reviews(project) if may_be_unused and not entry.helpful + entry.harmful else None
    gone = find_gone(project, [entry]).get(entry.name, [])
    return {
        "sessions": None if reviews is None else len(reviews.sessions.get(entry.name, ())),
        "unused": reviews is not None and reviews.is_unused(entry),
        "gone": gone,
        "says": review.stale_words(entry, reviews or review.Reviews(), gone)[1],
    }
