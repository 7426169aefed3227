"""The stories of the page: what `why` says about each entry, and the numbers of the events that decided."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.projections.entry_history.stories import stories_view
from tallybook.projections.entry_history.story import explain
from tallybook.projections.fold import fold_history
from tallybook.projections.surfaces.console.story_text import tell_story
from tallybook.projections.surfaces.writing.secrets import mask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tallybook.ledger.records import Batch
    from tallybook.projections.entry_history.stories import Stories
    from tallybook.projections.surfaces.page.film import Film

MAX_EVENTS: Final = 100_000
"""Longest history with stories: they need another fold of all of it, which takes longer than the film."""

MAX_ROWS: Final = 20_000
"""Most events that all the stories together are told of; the entries that changed last have theirs."""

MAX_PAIRS: Final = 500_000
"""Most pairs of a name with a story and any name: each is compared, to find the same guidance under other names."""

_STATES: Final = 8
"""How many earlier states are held at a time; entries ask for the moments before the same undos."""


@attrs.frozen
class Privacy:
    """What a story may say.

    Attributes:
        with_quotes: Whether it has reasons, notes and original items.
        with_texts: Whether it has sessions and paths.
    """

    with_quotes: bool = False
    with_texts: bool = True


def stories_part(film: Film, read: Callable[[], Iterable[Batch]], privacy: Privacy) -> dict[str, Any]:
    """Return the stories of the entries that changed last, as of the end of the film."""
    names = _latest(film) if film.last <= MAX_EVENTS else []
    numbers = film.names.numbers
    if not names:
        # Folding all of a long history for no story would cost as much as the film.
        return {"stories": [], "omitted": len(numbers)}
    view = stories_view(names)

    @lru_cache(maxsize=_STATES)
    def as_of(until: int) -> Stories:
        return fold_history(view, read, until)

    state = as_of(film.last)
    rows = [_tell(film, name, state, as_of, privacy) for name in names]
    return {"stories": rows, "omitted": len(numbers) - len(rows)}


def _latest(film: Film) -> list[str]:
    """Return the names with the latest events, up to MAX_ROWS events in all."""
    last: dict[int, int] = {}
    counts: dict[int, int] = {}
    for index, entry in enumerate(film.entries):
        if entry:
            last[entry] = index
            counts[entry] = counts.get(entry, 0) + 1
    names = list(film.names.numbers)
    chosen: list[str] = []
    rows = 0
    for entry in sorted(last, key=lambda one: -last[one]):
        rows += counts[entry]
        if rows > MAX_ROWS or len(chosen) * len(names) > MAX_PAIRS:
            break
        chosen.append(names[entry - 1])
    return chosen


def _tell(film: Film, name: str, state: Stories, as_of: Callable[[int], Stories], privacy: Privacy) -> dict[str, Any]:
    """Return a story as the page shows it: ``{entry, sentences, deciding, others}``."""
    story, extras = explain(state.stories[name], state.statuses, lambda until: as_of(until).stories[name])
    numbers = film.names.numbers
    sentences = tell_story(_hide(story, privacy), _hide_extras(film, extras, privacy))
    return {
        "entry": numbers[name],
        "sentences": [mask(sentence).text for sentence in sentences],
        "deciding": [event["seq"] for event in extras["deciding"]],
        "others": [
            [numbers[row["name"]], row["status"], row["relation"], numbers[row["of"]]] for row in extras["lineage"]
        ],
    }


def _hide(story: Mapping[str, Any], privacy: Privacy) -> dict[str, Any]:
    """Return a story without who acted in which session, where that must not be said."""
    if privacy.with_texts:
        return {**story}

    def hidden(row: Mapping[str, Any]) -> dict[str, Any]:
        return {**row, "by": {"rater": row["by"]["rater"]}}

    rows = {key: [hidden(row) for row in story[key]] for key in ("trail", "ignored")}
    return {**story, **rows, "decided_by": story["decided_by"] and hidden(story["decided_by"])}


def _hide_extras(film: Film, extras: Mapping[str, Any], privacy: Privacy) -> dict[str, Any]:
    """Return the additions to a story without quotes, where they must not be said."""
    if privacy.with_quotes:
        return {**extras}
    left_by = extras["vanished_by"]
    if left_by is not None:
        # Its own summary quotes a reason, or names a session.
        left_by = {**left_by, "summary": film.words_of(left_by["seq"])}
    return {**extras, "notes": [], "original": None, "vanished_by": left_by}
