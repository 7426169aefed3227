"""The lanes of a shared project: when each writer did things, when they came in here, and what is pending.

All of it is drawn here, as markup that needs no script: without sharing the page is the same to the byte.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

import attrs

from tallybook.ledger.encoding.codec import decode
from tallybook.ledger.sharing.landing import SHARED
from tallybook.ledger.sharing.numbers import book_number
from tallybook.projections.surfaces.console.output import format_count
from tallybook.projections.surfaces.page.film import kind_words, to_ms
from tallybook.projections.surfaces.sharing.own_history import arrival_of, arrivals

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tallybook.projections.surfaces.sharing.shared_log import SharedLog

LATEST: Final = 5
"""How many events of a lane are listed as text."""
PENDING: Final = "pending"
_STEPS, _EDGE, _HIGH = 600, 8, 44


@attrs.frozen
class Done:
    """An event of a lane.

    Attributes:
        name: What people call it: ``book:57`` or ``812``.
        words: What it does, without texts.
        when: When it happened.
        came: When it came in here; empty while it is pending.
        by: The own event by which it came in; 0 while it is pending.
    """

    name: str
    words: str
    when: str
    came: str
    by: int


@attrs.define
class Lane:
    """What one writer did.

    Attributes:
        writer: Its label, or that it is this machine's pending work.
        events: Its events, in the order in which they came in here.
    """

    writer: str
    events: list[Done] = attrs.field(factory=list)


def read_lanes(log: SharedLog) -> list[Lane]:
    """Return the lanes of the writers of the book, in the order of their first events, then of what is pending."""
    found, lanes, pending = arrivals(log), dict[str, Lane](), Lane(PENDING)
    for batch in decode(log.read()):
        for record in batch.records:
            number = book_number(record.seq)
            words = " ".join(filter(None, (getattr(record.event, "name", None), kind_words(record.event)[1])))
            when = record.when or record.at
            if number is not None and record.by.writer:
                arrival = arrival_of(found, number)
                came, by = ("", 0) if arrival is None else (arrival.at, arrival.seq)
                lane = lanes.setdefault(record.by.writer, Lane(record.by.writer))
                lane.events.append(Done(str(record.seq), words, when, came, by))
            elif number is None and type(record.event) in SHARED:
                pending.events.append(Done(str(record.seq), words, when, "", 0))
    return [*lanes.values(), *([pending] if pending.events else [])]


def lanes_section(log: SharedLog, *, with_texts: bool) -> str:
    """Return the section of the page that shows the lanes.

    Args:
        log: The shared history.
        with_texts: Whether the labels of writers are in it.
    """
    lanes = read_lanes(log)
    times = [to_ms(at) for lane in lanes for one in lane.events for at in (one.when, one.came) if at]
    first, span = min(times, default=0), max(max(times, default=0) - min(times, default=0), 1)
    parts: list[str] = []
    for number, lane in enumerate(lanes, 1):
        label = lane.writer if with_texts or lane.writer == PENDING else f"machine {number}"
        parts += _lane(label, lane.events, first, span)
    about = (
        "For each machine, above when it did something and below when that came in here, along one axis of time. "
        "Times are in UTC."
    )
    return (
        '<section id="lanes" aria-labelledby="lanes-title"><h2 id="lanes-title">Machines</h2>'
        f'<p class="note">{about}</p>{"".join(parts)}</section>'
    )


def _lane(label: str, events: Sequence[Done], first: int, span: int) -> Iterator[str]:
    yield f"<h3><bdi>{escape(label)}</bdi></h3>"
    waiting = sum(not one.came for one in events)
    total = format_count(len(events), "event")
    came = max((one.came for one in events), default="")
    state = f"the last came in here {_time(came)}" if came else "not in the book yet"
    more = f"; {waiting} not in the book yet" if came and waiting else ""
    words = f"{total}, done from {_time(min(e.when for e in events))} to {_time(max(e.when for e in events))}; {state}"
    yield f"<p>{words}{more}.</p>"
    marks = "".join(_marks(events, first, span))
    yield (
        f'<svg width="100%" height="{_HIGH}" viewBox="0 0 {_STEPS + 2 * _EDGE} {_HIGH}" preserveAspectRatio="none" '
        f'role="img" aria-label="{escape(label)}: {_plain(words)}" class="cited">{marks}</svg>'
    )
    latest = [f"<li>{_item(one)}</li>" for one in reversed(events[-LATEST:])]
    yield f"<p>The latest {len(latest)} of {total}:</p><ul>{''.join(latest)}</ul>"


def _marks(events: Iterable[Done], first: int, span: int) -> Iterator[str]:
    """Yield each mark once: events that fall on the same steps of the axis are one."""

    def place(at: str) -> int:
        return _EDGE + (to_ms(at) - first) * _STEPS // span

    for begin, end in dict.fromkeys((place(one.when), place(one.came) if one.came else None) for one in events):
        yield _line(f"M{begin} 2v12", 3)
        if end is not None:
            yield _line(f"M{begin} 14L{end} {_HIGH - 14}", 1) + _line(f"M{end} {_HIGH - 14}v12", 3)


def _line(path: str, width: int) -> str:
    """Return a line whose width stays when the picture is stretched to the page."""
    return f'<path d="{path}" stroke="currentColor" stroke-width="{width}" vector-effect="non-scaling-stroke"/>'


def _item(one: Done) -> str:
    arrival = f"came in here {_time(one.came)} by event {one.by}" if one.came else "pending"
    return f"<bdi>{escape(one.name)}</bdi> <bdi>{escape(one.words)}</bdi>: done {_time(one.when)}, {arrival}"


def _plain(markup: str) -> str:
    return markup.replace("<time>", "").replace("</time>", "")


def _time(at: str) -> str:
    return f"<time>{at[:16].replace('T', ' ')}</time>"
