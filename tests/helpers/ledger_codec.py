"""Helpers of tests: sample events, values that their fields accept or refuse, and decoded lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import pytest

from helpers.ledger_lines import forge, read
from tallybook.ledger.codec import decode, encode
from tallybook.ledger.errors import DamagedLedgerError
from tallybook.ledger.events import EVENT_TYPES, Event, Numbers
from tallybook.ledger.fast_stdlib import dumps

for _cls, _ in EVENT_TYPES.values():
    # Fields must have types instead of the annotations' texts, by which GOOD and BAD are looked up.
    attrs.resolve_types(_cls)

GOOD: dict[Any, Any] = {
    int: 1,
    float: 2.5,
    str: "x",
    str | None: "x",
    int | None: 1,
    tuple[str, ...]: ("x", "y"),
    float | None: 2.5,
    Numbers: Numbers({"x": 1, "y": 2.5, "z": True}),
}
"""Type of a field → a value that it takes; a field of another type needs its row here and in BAD."""

BOUNDED: dict[str, Any] = {
    "top": "",
    "left_out": Numbers({"room": 1}),
    "probability": 0.25,
    "share": 0.02,
    "until": "2026-12-31",
    "change": "changed",
}
"""Name of a field that takes less than its type → a value that it takes."""

BAD: dict[Any, list[Any]] = {
    int: [None, True, 1.0, 1.5, "1", [1], 2**53 + 1, -(2**53) - 1, 2**70],
    int | None: [False, 1.0, "1", [1], 2**53 + 1, -(2**53) - 1],
    float | None: [True, "1", [1], 2**53 + 1, -(2**53) - 1, 2.0**54],
    float: [None, True, "1", [1], 2**53 + 1, -(2**53) - 1, 2.0**54],
    str: [None, 1, 1.5, True, ["x"], {"x": "y"}],
    str | None: [1, 1.5, True, ["x"], {"x": "y"}],
    tuple[str, ...]: [None, 1, "x", "xy", {"x": "y"}, [1], [None], ["x", True], [["x"]]],
    Numbers: [None, 1, "x", ["x"], {"x": None}, {"x": "1"}, {"x": [1]}, {"x": 2**53 + 1}, {"x": -(2.0**54)}],
}
CONTINUATION = '"kind":"text.continued","v":1,"body":{}'
WRONG = {
    kind: [(field.name, value) for field in attrs.fields(cls) for value in BAD[field.type]]
    for kind, (cls, _) in EVENT_TYPES.items()
}
"""Kind → each of its fields with each value that the field does not take."""


def sample(kind: str) -> Any:
    """Return an event of a kind with a plain value in each field."""
    cls, _ = EVENT_TYPES[kind]
    return cls(**{field.name: BOUNDED.get(field.name, GOOD[field.type]) for field in attrs.fields(cls)})


def sections(kind: str) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return the body and the free value of a sample, as in its line."""
    draft = encode(sample(kind))
    return dict(draft.body), None if draft.free is None else {"salt": "5a17", **draft.free}


def line_of(kind: str, body: Any, free: Any = None, version: int | None = None) -> tuple[str, str | None]:
    """Return a line's content section and free value, in JSON."""
    v = EVENT_TYPES[kind][1] if version is None else version
    what = f'"kind":{dumps(kind)},"v":{v},"body":{dumps(body)}'
    return what, None if free is None else dumps(free)


def decode_lines(*lines: tuple[str, str | None]) -> Sequence[Event]:
    """Return the codec's events for lines whose proofs fit."""
    batch = forge(*lines)
    found = read(batch.raw)
    assert ([batch.raw], None) == ([other.raw for other in found.batches], found.stop)
    return next(decode(found.batches)).events


def damage_in_the_second(*lines: tuple[str, str | None]) -> str:
    """Return the message about a batch whose line 2 is the first invalid one."""
    with pytest.raises(DamagedLedgerError) as caught:
        decode_lines(line_of("point.removed", {"name": "kpt_001"}), *lines)
    (problem,) = caught.value.problems
    assert (2, "seq 2") == (problem.seq, problem.source)
    return problem.message
