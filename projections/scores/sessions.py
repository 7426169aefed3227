"""The measured sessions of a state of scores, packed: there can be hundreds of thousands, and few are asked for."""

from __future__ import annotations

from collections.abc import MutableMapping
from fractions import Fraction
import json
from typing import TYPE_CHECKING, Any
import zlib

import attrs

from tallybook.projections.scores.session_inputs import Contribution, EventTime, Session, Share, Time, Value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Sessions(MutableMapping[str, Session]):
    """Sessions by id; a session that is taken out and changed must be put back.

    Attributes:
        packed: Id → when the session was, and its bytes.
    """

    def __init__(self, packed: Mapping[str, tuple[str, bytes]] | None = None) -> None:
        """Begin with packed sessions."""
        self.packed = {**(packed or {})}

    def __getitem__(self, id_: str) -> Session:
        """Return the session of an id."""
        return _decode(self.packed[id_][1])

    def __setitem__(self, id_: str, session: Session) -> None:
        """Store a new or changed session."""
        self.packed[id_] = (session.at, _encode(session))

    def __delitem__(self, id_: str) -> None:
        """Remove a session."""
        del self.packed[id_]

    def __iter__(self) -> Iterator[str]:
        """Yield the ids."""
        return iter(self.packed)

    def __len__(self) -> int:
        """Return the number of sessions."""
        return len(self.packed)

    def latest(self) -> Iterator[Session]:
        """Yield the sessions, the latest first; of several at one time the greater id first."""
        for id_ in sorted(self.packed, key=lambda id_: (self.packed[id_][0], id_), reverse=True):
            yield self[id_]


def _encode(session: Session) -> bytes:
    # Each value names its event. Compressed, that takes a third. JSON has no fractions; they are written as text.
    text = json.dumps(attrs.astuple(session, recurse=False), default=str, separators=(",", ":"))
    return zlib.compress(text.encode(), 1)


def _decode(data: bytes) -> Session:
    """Return the session of such bytes, equal to the last digit."""
    id_, named, values, benchmarks, feedback, *times = json.loads(zlib.decompress(data))
    first_at, last, ended, released, seq, counted = times
    return Session(
        id_,
        named,
        {component: {name: _value(*value) for name, value in by_name.items()} for component, by_name in values.items()},
        _shares(benchmarks),
        _shares(feedback),
        first_at,
        Time(*last),
        Time(*ended),
        released and (EventTime(*released[0]), released[1]),
        seq,
        counted and Contribution(*counted),
    )


def _value(total: int | str, last: float, last_from: list[Any]) -> Value:
    return Value(_number(total), last, EventTime(*last_from))


def _shares(shares: Mapping[str, tuple[int | str, int]]) -> dict[str, Share]:
    return {name: Share(_number(part), whole) for name, (part, whole) in shares.items()}


def _number(value: int | str) -> int | Fraction:
    return value if isinstance(value, int) else Fraction(value)
