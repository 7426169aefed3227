"""The parts of the page's document, made of a film: README.md has what each holds."""

from __future__ import annotations

from functools import cache
from itertools import repeat
import json
import re
from shlex import quote
from typing import TYPE_CHECKING, Any, Final
import unicodedata

import attrs

from tallybook.projections.playbook.confidence import interval
from tallybook.projections.surfaces.page.film import Interned
from tallybook.projections.surfaces.writing.secrets import mask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tallybook.projections.surfaces.page.film import Film
    from tallybook.projections.surfaces.page.track import Row

PLAIN: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*")
"""What the script puts into a command as it is; README.md repeats it."""

_REFUSED: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Categories of characters that a terminal obeys or hides: controls, marks of direction, halves of pairs, line ends."""


@attrs.frozen
class People:
    """The authors of a film.

    Attributes:
        authors: Rater, and session plus 1 or 0 for none, of each author.
        sessions: Session → the agent and the model that its events name first, None where none does.
    """

    authors: list[tuple[str, int]]
    sessions: dict[str, list[str | None]]


def read_people(film: Film) -> People:
    """Return the authors of a film."""
    numbers, authors = Interned(), []
    sessions: dict[str, list[str | None]] = {}
    for rater, session, agent, model in map(json.loads, film.authors.numbers):
        authors.append((rater, 0 if session is None else numbers.number(session) + 1))
        if session is not None:
            known = sessions.setdefault(session, [None, None])
            known[:] = [known[0] or agent, known[1] or model]
    return People(authors, sessions)


def film_part(film: Film, *, with_texts: bool = True) -> dict[str, Any]:
    """Return the film: tables, moments, events and changes."""
    raters, people, texts = Interned(), read_people(film), Interned()
    rows = {stream: _columns(film, rows, texts) for stream, rows in film.rows.items()}
    names, times = list(film.names.numbers), film.times[film.skipped :]
    start = times[0] if times else 0
    spans = [span for span in film.undos.spans if span[1] > film.base or span[2] > film.base]
    part: dict[str, Any] = {
        "base": film.base,
        "names": names,
        "quoted": quote_all(names, quote_argument),
        "kinds": [kind.split("\t") for kind in film.kind_names.numbers],
        "authors": [[raters.number(rater), session] for rater, session in people.authors],
        "raters": list(raters.numbers),
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
    sessions = read_people(film).sessions
    ids = list(sessions)
    return {"ids": ids, "quoted": quote_all(ids), "agents": [", ".join(filter(None, row)) for row in sessions.values()]}


def quotes_part(film: Film) -> dict[str, Any]:
    """Return the reasons and notes of events."""
    return {
        "event": [seq for seq, _, _ in film.quotes],
        "quotes": [[field, mask(text).text] for _, field, text in film.quotes],
    }


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
