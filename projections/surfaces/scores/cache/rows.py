"""Rows of the cache of scores: a session, a period and a score's baselines as bytes, and back. Pure.

What comes back is equal to what went in, to the last digit and the order of names.
"""

from __future__ import annotations

from datetime import date
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import attrs
import msgspec

from tallybook.ledger.events import MAX_INT
from tallybook.projections.scores.session_inputs import Counted, Said, Session, Share, Time, Value, exact
from tallybook.projections.scores.tally import Tally
from tallybook.projections.scores.view import Baseline

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallybook.projections.scores.view import Scores

# A reader of JSON may take what lies beyond for a float.


def packed(session: Session) -> bytes:
    """Return a session as bytes; the events that its values come from are named once each."""
    events: dict[Said, int] = {}
    values = {
        component: {name: _of_value(value, events) for name, value in found.items()}
        for component, found in session.values.items()
    }
    released = session.released and [_place(session.released[0], events), session.released[1]]
    told = [
        session.id,
        session.named,
        [session.first_at, *map(list, (session.last, session.judged, session.ended))],
        values,
        _of_shares(session.benchmarks),
        _of_shares(session.feedback),
        released,
        session.seq,
        session.counted and list(session.counted),
        list(map(_of_said, events)),
    ]
    return msgspec.json.encode(told)


def unpacked(data: bytes) -> Session:
    """Return the session of such bytes."""
    id_, named, times, found, benchmarks, feedback, released, seq, counted, events = msgspec.json.decode(data)
    first_at, last, judged, ended = times
    saids = [_said(*event) for event in events]
    values = {
        component: {name: _value(told, saids) for name, told in inner.items()} for component, inner in found.items()
    }
    return Session(
        id_,
        named,
        values,
        _shares(benchmarks),
        _shares(feedback),
        first_at,
        Time(*last),
        Time(*judged),
        Time(*ended),
        released and (saids[released[0]], released[1]),
        seq,
        counted and Counted(*counted),
    )


def _place(said: Said, events: dict[Said, int]) -> int:
    return events.setdefault(said, len(events))


def _of_said(said: Said) -> list[Any]:
    # Most is recorded as it happens.
    alone = said.at == said.recorded
    return [said.id, said.place, said.at] if alone else [said.id, said.place, said.at, said.recorded]


def _said(id_: str, place: int, at: str, recorded: str = "") -> Said:
    return Said(at, recorded or at, place, id_)


def _of_value(value: Value, events: dict[Said, int]) -> list[Any]:
    # Most are measured once in a session.
    alone = value.total == exact(value.last)
    told = [value.last, _place(value.said, events)]
    return told if alone else [*told, _of_sum(value.total)]


def _value(told: list[Any], saids: list[Said]) -> Value:
    last, place, *total = told
    return Value(_sum(total[0]) if total else exact(last), last, saids[place])


def _of_shares(shares: Mapping[str, Share]) -> dict[str, list[Any]]:
    return {name: [_of_sum(share.part), _of_sum(share.whole)] for name, share in shares.items()}


def _shares(told: Mapping[str, list[Any]]) -> dict[str, Share]:
    return {name: Share(_sum(part), int(whole)) for name, (part, whole) in told.items()}


def _of_sum(total: int | Fraction) -> int | str:
    """Return an exact sum as JSON can hold it."""
    return total if isinstance(total, int) and abs(total) <= MAX_INT else str(total)


def _sum(told: int | str) -> int | Fraction:
    if isinstance(told, int):
        return told
    return Fraction(told) if "/" in told else int(told)


def packed_tally(tally: Tally) -> bytes:
    """Return the scores of a period as bytes."""
    told = {score: [number for pair in counts.items() for number in pair] for score, counts in tally.scores.items()}
    return msgspec.json.encode([tally.sessions, told, tally.lacking])


def unpacked_tally(data: bytes) -> Tally:
    """Return the scores of a period of such bytes."""
    sessions, told, lacking = msgspec.json.decode(data)
    scores = {score: dict(zip(flat[::2], flat[1::2], strict=True)) for score, flat in told.items()}
    return Tally(sessions, scores, lacking)


def packed_rest(scores: Scores) -> dict[str, Any]:
    """Return what a state holds beside sessions and periods, as JSON has it."""
    return {
        "last_at": scores.last_at,
        "rewrites": scores.rewrites,
        "unscored": scores.unscored,
        "baselines": {name: [one.value, one.seq, one.day.isoformat()] for name, one in scores.baselines.items()},
    }


def unpack_rest(told: Mapping[str, Any], scores: Scores) -> None:
    """Set what a state holds beside sessions and periods."""
    scores.last_at, scores.rewrites, scores.unscored = told["last_at"], told["rewrites"], told["unscored"]
    scores.baselines = {
        name: Baseline(value, seq, date.fromisoformat(day)) for name, (value, seq, day) in told["baselines"].items()
    }


def plain(value: Any) -> Any:
    """Return a configuration, or a part of one, as JSON that is the same in every process."""
    if isinstance(value, frozenset):
        return sorted(value)
    if attrs.has(type(value)):
        return {field.name: plain(getattr(value, field.name)) for field in attrs.fields(type(value))}
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, tuple) else value
