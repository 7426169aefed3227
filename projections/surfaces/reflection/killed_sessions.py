"""Sessions that ended without a hook, since their clients were killed: found by their transcripts.

The ledger knows them by the playbook that they were given. Nothing else of the agent's folder is looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from tallybook.ledger import clock
from tallybook.ledger.events import ReflectionRequested
from tallybook.projections.reflections import Session
from tallybook.projections.surfaces.install import places
from tallybook.projections.surfaces.reflection import transcript
from tallybook.projections.surfaces.reflection.schedule import ENDS
from tallybook.projections.surfaces.writing.requests import Facts, Request

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tallybook.projections.reflections import Reflections

TRIGGER: Final = "transcript"
KEPT_DAYS: Final = 30
"""After so many days an agent's transcript is gone, and its session goes on no more."""
STILL_S: Final = 600
"""A transcript that was written to in the last so many seconds may belong to a session that goes on."""
BEGINNING_S: Final = 3600
"""So long a session may have no transcript yet."""


@attrs.frozen
class Unended:
    """A session that was given the playbook and whose end no hook reported.

    Attributes:
        transcript: Its transcript, None where there is none yet.
        size: The length of the transcript in bytes.
        is_killed: Whether nothing was written to it for STILL_S.
    """

    transcript: Path | None
    size: int = 0
    is_killed: bool = False


def unended(known: Reflections) -> dict[str, Unended]:
    """Return the sessions that are not pending to the end of their transcripts, those that go on among them."""
    now_us = clock.utc_now().unix_us
    since = clock.moment(now_us - KEPT_DAYS * 24 * 3600 * clock.MICROSECONDS).at
    beginning = clock.moment(now_us - BEGINNING_S * clock.MICROSECONDS).at
    names = {name: at for name, at in known.injected_at.items() if at >= since and _is_open(known.sessions.get(name))}
    if not names:
        return {}
    paths = {path.stem: path for path in (places.users_folder() / "projects").glob("*/*.jsonl")}
    found: dict[str, Unended] = {}
    for name, at in names.items():
        session = known.sessions.get(name, Session(None))
        one = _look(paths[name], now_us) if name in paths else None
        if one is not None and one.size > session.request_end:
            found[name] = one
        elif one is None and at >= beginning:
            found[name] = Unended(None)
    return found


def _is_open(session: Session | None) -> bool:
    """Return whether no hook reported the end; what is written after one that did is found by its growth."""
    return session is None or session.trigger not in ENDS


def _look(path: Path, now_us: int) -> Unended | None:
    """Return what a transcript and those of its subagents show, None where it cannot be examined."""
    try:
        stats = [one.stat() for one in transcript.files_of(path).values()]
    except OSError:
        return None
    changed_us = max(stat.st_mtime_ns // 1000 for stat in stats)
    return Unended(path, stats[-1].st_size, changed_us <= now_us - STILL_S * clock.MICROSECONDS)


def with_killed(known: Reflections) -> Reflections:
    """Return what is known, with the killed sessions pending, as ``requests`` would record it."""
    sessions = dict(known.sessions)
    for name, one in unended(known).items():
        if one.is_killed:
            before = sessions.get(name, Session(None))
            sessions[name] = attrs.evolve(before, transcript=str(one.transcript), request_end=one.size, trigger=TRIGGER)
    return attrs.evolve(known, sessions=sessions)


def requests(known: Reflections) -> Iterator[Request]:
    """Yield what records that the killed sessions are to be reflected on, each once for a length of its transcript."""
    for name, one in unended(known).items():
        if one.is_killed:
            event = ReflectionRequested(one.size, TRIGGER, str(one.transcript))
            yield Request(Facts((event,)), {"rater": "tallybook", "session": name}, f"reflect:{name}:{one.size}")
