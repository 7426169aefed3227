"""Entries that may be stale: without a sign of use, or about a path that git no longer has. Nothing is recorded."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from tallybook.ledger.encoding.codec import decode
from tallybook.ledger.fast_stdlib import import_lazily
from tallybook.projections.fold import fold_history
from tallybook.projections.review import MIN_SESSIONS, Reviews, reviews_view, stale_words
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.workspace.personal import PersonalPlaybook

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tallybook.ledger.events import Entry
    from tallybook.projections.entry_history.view import EntryStatuses
    from tallybook.projections.surfaces.sharing import membership
    from tallybook.projections.surfaces.workspace import git
    from tallybook.projections.surfaces.workspace.project import Project
else:
    git, membership = import_lazily(
        "tallybook.projections.surfaces.workspace.git", "tallybook.projections.surfaces.sharing.membership"
    )

MAX_PATHS_OF_ENTRY: Final = 10
# The texts are other people's, and may name any number of paths.
MAX_PATHS: Final = 1_000
MAX_LOOKUPS: Final = 30
"""So many paths that are not in the index are looked up in git's history."""
_MAX_PATH_CHARS: Final = 200

_BETWEEN: Final = re.compile(r"[\s\"'`\u2018-\u201d()\[\]{}<>,;|=*]+")
_LINE: Final = re.compile(r"(:\d+)+$")
_PATH: Final = re.compile(r"[\w@+.][\w@+.-]*(/[\w@+.-]+)*")


def load_reviews(project: Project) -> Reviews:
    """Return the state of the review view of a ledger, as of now."""
    log = reading.open_log(project)
    part = membership.load(project) if reading.log_with_book(log) else None
    return fold_history(reviews_view(part.writer if part is not None else ""), lambda: decode(log.read()))


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
    named = {one.name: list(dict.fromkeys(find_paths(one.text)))[:MAX_PATHS_OF_ENTRY] for one in entries}
    paths = list(dict.fromkeys(path for some in named.values() for path in some))[:MAX_PATHS]
    if not paths:
        return {}
    try:
        gone = set(git.find_gone(project.root, paths, MAX_LOOKUPS))
    except git.FAILURES:
        return {}
    found = {name: [path for path in some if path in gone] for name, some in named.items()}
    return {name: some for name, some in found.items() if some}


def explain(project: Project, entry: Entry | None, statuses: EntryStatuses) -> dict[str, Any]:
    """Return what `why` says of an entry that may be stale, as ``{sessions, unused, gone, says}``.

    ``sessions`` counts those that were given it and whose citations are seen; it is None where nothing depends on it.
    """
    if entry is None:
        return {"sessions": None, "unused": False, "gone": [], "says": ""}
    told = statuses.injections.get(entry.name)
    # The whole ledger is read only for an entry that can be without a sign of use.
    may_be_unused = told is not None and told.count >= MIN_SESSIONS and entry.name not in statuses.citations
    reviews = load_reviews(project) if may_be_unused and not entry.helpful + entry.harmful else None
    gone = find_gone(project, [entry]).get(entry.name, [])
    return {
        "sessions": None if reviews is None else len(reviews.sessions.get(entry.name, ())),
        "unused": reviews is not None and reviews.is_unused(entry),
        "gone": gone,
        "says": stale_words(entry, reviews or Reviews(), gone)[1],
    }
