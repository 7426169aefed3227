"""The streams of the page, made of a film: README.md has what each holds."""

from __future__ import annotations

import json
import re
from shlex import quote
from typing import TYPE_CHECKING, Any, Final
import unicodedata

import attrs

from tallybook.projections.playbook.confidence import interval
from tallybook.projections.surfaces.page.columns import Column, pack
from tallybook.projections.surfaces.page.track import Interned
from tallybook.projections.surfaces.writing.secrets import mask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tallybook.projections.surfaces.page.film import Film

MAX_PAIRS: Final = 200_000
"""Most counts with an interval; the smallest are taken, because there an interval says most."""

_LOW: Final = 0xFFFFFFFF

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


def film_stream(film: Film, *, with_texts: bool = True) -> bytes:
    """Return the film: tables, moments, events and changes."""
    raters, people = Interned(), read_people(film)
    authors = [[raters.number(rater), session] for rater, session in people.authors]
    names = list(film.names.numbers)
    tables: dict[str, Any] = {
        "names": names,
        "quoted": quote_all(names, quote_argument),
        "kinds": [kind.split("\t") for kind in film.kind_names.numbers],
        "authors": authors,
        "raters": list(raters.numbers),
        "start": film.times[0] if film.times else 0,
    }
    if with_texts:
        tables["texts"] = [mask(text).text for text in film.texts.numbers]
    return pack(tables, film.columns())


def policy_stream(film: Film, stream: str) -> bytes:
    """Return the changes under another policy; of the effects only the difference, which is nearly always none."""
    real, other = film.changes["film"].effect, film.changes[stream].effect
    size = len(real)
    difference = int.from_bytes(real, "big") ^ int.from_bytes(other, "big")
    return pack({}, [Column("e_effect", difference.to_bytes(size, "big")), *film.changes[stream].columns()])


def trust_stream(film: Film) -> bytes:
    """Return the 95 % interval of each pair of counts that occurs, in thousandths."""
    occurring: set[int] = set().union(*(changes.pairs for changes in film.changes.values()))
    pairs = sorted(((pair >> 32, pair & _LOW) for pair in occurring), key=lambda pair: (sum(pair), pair))[:MAX_PAIRS]
    ends = [interval(helpful, harmful) for helpful, harmful in pairs]
    return pack(
        {},
        [
            Column("helpful", [helpful for helpful, _ in pairs]),
            Column("harmful", [harmful for _, harmful in pairs]),
            Column("low", [round(1000 * low) for low, _ in ends]),
            Column("high", [round(1000 * high) for _, high in ends]),
        ],
    )


def sessions_stream(film: Film, *, with_texts: bool = True) -> bytes:
    """Return the sessions by number: ids, agents and models, unless texts are left out."""
    if not with_texts:
        return pack({})
    sessions = read_people(film).sessions
    agents, models = Interned(), Interned()
    columns = [
        Column(
            f"session_{field}", [0 if row[at] is None else table.number(row[at] or "") + 1 for row in sessions.values()]
        )
        for at, (field, table) in enumerate((("agent", agents), ("model", models)))
    ]
    ids = list(sessions)
    tables = {"ids": ids, "quoted": quote_all(ids), "agents": list(agents.numbers), "models": list(models.numbers)}
    return pack(tables, columns)


def quotes_stream(film: Film) -> bytes:
    """Return the reasons and notes of events."""
    quotes = [[field, mask(text).text] for _, field, text in film.quotes]
    return pack({"quotes": quotes}, [Column("event", [seq for seq, _, _ in film.quotes], delta=True)])


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
