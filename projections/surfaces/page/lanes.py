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
    came: str = ""
    by: int = 0


def read_lanes(log: SharedLog) -> dict[str, list[Done]]:
    """Return what each writer of the book did, in the order in which it came in here, then what is pending."""
    found, lanes, pending = arrivals(log), dict[str, list[Done]](), list[Done]()
    for batch in decode(log.read()):
        for record in batch.records:
            number = book_number(record.seq)
            words = " ".join(filter(None, (getattr(record.event, "name", None), kind_words(record.event)[1])))
            done = Done(str(record.seq), words, record.when or record.at)
            if number is not None and record.by.writer:
                arrival = arrival_of(found, number)
                if arrival is not None:
                    done = attrs.evolve(done, came=arrival.at, by=arrival.seq)
                lanes.setdefault(record.by.writer, []).append(done)
            elif number is None and type(record.event) in SHARED:
                pending.append(done)
    return lanes | ({PENDING: pending} if pending else {})


def lanes_section(log: SharedLog, *, with_texts: bool) -> str:
    """Return the section of the page that shows the lanes.

    Args:
        log: The shared history.
        with_texts: Whether the labels of writers are in it.
    """
    lanes = read_lanes(log)
    times = [to_ms(at) for lane in lanes.values() for done in lane for at in (done.when, done.came) if at]
    first, span = min(times, default=0), max(max(times, default=0) - min(times, default=0), 1)
    parts: list[str] = []
    for number, (writer, lane) in enumerate(lanes.items(), 1):
        label = writer if with_texts or writer == PENDING else f"machine {number}"
        parts += _lane(escape(label), lane, "".join(_marks(lane, first, span)))
    about = (
        "For each machine, above when it did something and below when that came in here, along one axis of time. "
        "Times are in UTC."
    )
    return (
        '<section id="lanes" aria-labelledby="lanes-title"><h2 id="lanes-title">Machines</h2>'
        f'<p class="note">{about}</p>{"".join(parts)}</section>'
    )


def _lane(label: str, events: Sequence[Done], marks: str) -> Iterator[str]:
    waiting = sum(not done.came for done in events)
    came = max(done.came for done in events)
    state = f"the last came in here {_time(came)}" if came else "not in the book yet"
    more = f"; {waiting} not in the book yet" if came and waiting else ""
    total, times = format_count(len(events), "event"), [done.when for done in events]
    words = f"{total}, done from {_time(min(times))} to {_time(max(times))}; {state}{more}"
    yield f"<h3><bdi>{label}</bdi></h3><p>{words}.</p>"
    yield (
        f'<svg width="100%" height="{_HIGH}" viewBox="0 0 {_STEPS + 2 * _EDGE} {_HIGH}" preserveAspectRatio="none" '
        f'role="img" aria-label="{label}: {words}" class="cited">{marks}</svg>'
    )
    latest = [f"<li>{_item(done)}</li>" for done in reversed(events[-LATEST:])]
    yield f"<p>The latest {len(latest)} of {total}:</p><ul>{''.join(latest)}</ul>"


def _marks(events: Iterable[Done], first: int, span: int) -> Iterator[str]:
    """Yield each mark once: events that fall on the same steps of the axis are one."""

    def place(at: str) -> int:
        return _EDGE + (to_ms(at) - first) * _STEPS // span

    for begin, end in dict.fromkeys((place(done.when), place(done.came) if done.came else None) for done in events):
        yield _line(f"M{begin} 2v12", 3)
        if end is not None:
            yield _line(f"M{begin} 14L{end} {_HIGH - 14}", 1) + _line(f"M{end} {_HIGH - 14}v12", 3)


def _line(path: str, width: int) -> str:
    """Return a line whose width stays when the picture is stretched to the page."""
    return f'<path d="{path}" stroke="currentColor" stroke-width="{width}" vector-effect="non-scaling-stroke"/>'


def _item(done: Done) -> str:
    arrival = f"came in here {_time(done.came)} by event {done.by}" if done.came else "pending"
    return f"<bdi>{escape(done.name)}</bdi> <bdi>{escape(done.words)}</bdi>: done {_time(done.when)}, {arrival}"


def _time(at: str) -> str:
    return at[:16].replace("T", " ")
