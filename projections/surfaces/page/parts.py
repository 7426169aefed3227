"""The parts of the page's document, made of a film: README.md has what each holds."""

from __future__ import annotations

from collections import Counter
from functools import cache, lru_cache
from itertools import repeat
import re
from shlex import quote
from typing import TYPE_CHECKING, Any, Final
import unicodedata

from tallybook.projections.entry_history.answers import explain
from tallybook.projections.entry_history.view import entries_view
from tallybook.projections.fold import fold_history
from tallybook.projections.playbook.confidence import interval
from tallybook.projections.surfaces.console.story_text import tell_story
from tallybook.projections.surfaces.page.film import Interned
from tallybook.projections.surfaces.writing.secrets import mask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tallybook.ledger.records import Batch
    from tallybook.projections.entry_history.view import EntryStatuses
    from tallybook.projections.surfaces.page.film import Film, Row
    from tallybook.projections.surfaces.page.make import Choices

PLAIN: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*")
"""What the script puts into a command as it is; README.md repeats it."""

_REFUSED: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Categories of characters that a terminal obeys or hides: controls, marks of direction, halves of pairs, line ends."""

MAX_EVENTS: Final = 100_000
"""Longest history with stories: they need another fold of all of it, which takes longer than the film."""

MAX_ROWS: Final = 20_000
"""Most events that all the stories together are told of; the entries that changed last have theirs."""

MAX_PAIRS: Final = 500_000
"""Most pairs of a name with a story and any name: each is compared, to find the same guidance under other names."""

_STATES: Final = 8
"""How many earlier states are held at a time; entries ask for the moments before the same undos."""


def film_part(film: Film, *, with_texts: bool = True) -> dict[str, Any]:
    """Return the film: tables, moments, events and changes."""
    texts = Interned()
    rows = {stream: _columns(film, rows, texts) for stream, rows in film.rows.items()}
    names, times = list(film.names.numbers), film.times[film.skipped :]
    start = times[0] if times else 0
    spans = [span for span in film.undos.spans if span[1] > film.base or span[2] > film.base]
    part: dict[str, Any] = {
        "base": film.base,
        "names": names,
        "quoted": quote_all(names, quote_argument),
        "kinds": list(film.kind_names.numbers),
        "authors": list(film.authors.numbers),
        "raters": list(film.raters.numbers),
        "start": start,
        "m_size": list(film.sizes[film.skipped :]),
        "m_time": [time - start for time in times],
        "m_author": film.moment_authors,
        "e_kind": film.kinds,
        "e_entry": film.entries,
        "undone": spans,
        "injections": film.injections,
        "policies": {stream: columns for stream, columns in rows.items() if stream != "film"},
        **rows["film"],
    }
    if with_texts:
        part["texts"] = [mask(text).text for text in texts.numbers]
    return part


def _columns(film: Film, rows: Iterable[tuple[int, str, Row]], texts: Interned) -> dict[str, list[int]]:
    """Return the rows of a policy in columns, each with the 95 % interval of the helpful share in thousandths."""
    numbers, columns = film.names.number, list[tuple[int, ...]]()
    for seq, name, row in rows:
        text = texts.number(row.text) + 1 if row.text else 0
        into = numbers(row.into) + 1 if row.into else 0
        trust = _trust(row.helpful, row.harmful)
        columns.append((seq, numbers(name), *row[:3], text, row.flags, into, row.place, *trust))
    fields = ("event", "entry", "status", "helpful", "harmful", "text", "flags", "into", "place", "low", "high")
    values = zip(*columns, strict=True) if columns else repeat(())
    return {f"c_{field}": list(column) for field, column in zip(fields, values, strict=False)}


@cache
def _trust(helpful: int, harmful: int) -> tuple[int, int]:
    low, high = interval(helpful, harmful)
    return round(1000 * low), round(1000 * high)


def sessions_part(film: Film, *, with_texts: bool = True) -> dict[str, Any]:
    """Return the sessions by number: ids, agents and models, unless texts are left out."""
    if not with_texts:
        return {}
    ids = list(film.sessions.numbers)
    agents = [", ".join(filter(None, film.agents[number])) for number in range(1, len(ids) + 1)]
    return {"ids": ids, "quoted": quote_all(ids), "agents": agents}


def quotes_part(film: Film) -> dict[str, Any]:
    """Return the reasons and notes of events."""
    return {
        "event": [seq for seq, _, _ in film.quotes],
        "quotes": [[field, mask(text).text] for _, field, text in film.quotes],
    }


# Stories: what `why` says about each entry, and the numbers of the events that decided


def stories_part(film: Film, read: Callable[[], Iterable[Batch]], choices: Choices) -> dict[str, Any]:
    """Return the stories of the entries that changed last, as of the end of the film."""
    names = _latest(film) if film.last <= MAX_EVENTS else []
    numbers = film.names.numbers
    if not names:
        # Folding all of a long history for no story would cost as much as the film.
        return {"stories": [], "omitted": len(numbers)}
    view = entries_view(names)

    @lru_cache(maxsize=_STATES)
    def as_of(until: int) -> EntryStatuses:
        return fold_history(view, read, until)

    state = as_of(film.last)
    rows = [_tell(film, name, state, as_of, choices) for name in names]
    return {"stories": rows, "omitted": len(numbers) - len(rows)}


def _latest(film: Film) -> list[str]:
    """Return the names with the latest events, up to MAX_ROWS events in all."""
    counts, names = Counter(film.entries), list(film.names.numbers)
    chosen: list[str] = []
    rows = 0
    for entry in filter(None, dict.fromkeys(reversed(film.entries))):
        rows += counts[entry]
        if rows > MAX_ROWS or len(chosen) * len(names) > MAX_PAIRS:
            break
        chosen.append(names[entry - 1])
    return chosen


def _tell(
    film: Film, name: str, state: EntryStatuses, as_of: Callable[[int], EntryStatuses], choices: Choices
) -> dict[str, Any]:
    """Return a story as the page shows it: ``{entry, sentences, deciding, others}``."""
    story, extras = explain(state.stories[name], state, lambda until: as_of(until).stories[name])
    numbers = film.names.numbers
    sentences = tell_story(_hide(story, choices), _hide_extras(film, extras, choices))
    return {
        "entry": numbers[name],
        "sentences": [mask(sentence).text for sentence in sentences],
        "deciding": [event["seq"] for event in extras["deciding"]],
        "others": [
            [numbers[row["name"]], row["status"], row["relation"], numbers[row["of"]]] for row in extras["lineage"]
        ],
    }


def _hide(story: Mapping[str, Any], choices: Choices) -> dict[str, Any]:
    """Return a story without who acted in which session, where that must not be said."""
    if choices.with_texts:
        return {**story}

    def hidden(row: Mapping[str, Any]) -> dict[str, Any]:
        return {**row, "by": {"rater": row["by"]["rater"]}}

    rows = {key: [hidden(row) for row in story[key]] for key in ("trail", "ignored")}
    return {**story, **rows, "decided_by": story["decided_by"] and hidden(story["decided_by"])}


def _hide_extras(film: Film, extras: Mapping[str, Any], choices: Choices) -> dict[str, Any]:
    """Return the additions to a story without quotes, where they must not be said."""
    if choices.with_quotes:
        return {**extras}
    left_by = extras["vanished_by"]
    if left_by is not None:
        # Its own summary quotes a reason, or names a session.
        left_by = {**left_by, "summary": film.words_of(left_by["seq"])}
    return {**extras, "notes": [], "original": None, "vanished_by": left_by}


# Values in commands to copy: quoted for a shell, and refused where they hold control characters


def quote_value(value: str) -> str | None:
    """Return a value quoted for a shell, None where it holds control characters."""
    return None if any(unicodedata.category(char) in _REFUSED for char in value) else quote(value)


def quote_argument(value: str) -> str | None:
    """Return a value as the last argument of a command: one that looks like an option follows ``--``."""
    text = quote_value(value)
    return f"-- {text}" if text is not None and value.startswith("-") else text


def quote_all(values: Iterable[str], form: Callable[[str], str | None] = quote_value) -> dict[int, str | None]:
    """Return each value that is not plain by its index, quoted for a shell, or None where it is refused."""
    return {number: form(value) for number, value in enumerate(values) if not PLAIN.fullmatch(value)}
