"""Strict JSON: input with one meaning to every reader is accepted, everything else is refused in one line."""

from __future__ import annotations

import json

import pytest

from tallybook.ledger import strict_json
from tallybook.ledger.errors import BadInputError

NESTED = [("[", "]"), ('{"a":', "}")]


@pytest.mark.parametrize(("opened", "closed"), NESTED, ids=["lists", "objects"])
def test_a_hundred_levels_are_accepted(opened: str, closed: str) -> None:
    """A value nested a hundred times is read, one level more is refused, however short it is."""
    value = 1
    for _ in range(100):
        value = json.loads(f"{opened}{json.dumps(value)}{closed}")
    assert value == strict_json.loads((opened * 100 + "1" + closed * 100).encode(), "payload")
    beside = strict_json.loads(f"[[],[],{opened * 99}1{closed * 99},[]]".encode(), "payload")
    assert [[], [], []] == [beside[0], beside[1], beside[3]]
    for data in (opened * 101 + "1" + closed * 101, f"[0,{opened * 100}1{closed * 100},2]"):
        with pytest.raises(BadInputError, match=r"^payload: is nested more than 100 deep; nothing was recorded$"):
            strict_json.loads(data.encode(), "payload")


def test_a_payload_has_a_greatest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """A payload of that size is accepted, one byte more is not, and is not even parsed."""
    monkeypatch.setattr(strict_json, "MAX_PAYLOAD_BYTES", 4)
    assert [10] == strict_json.loads(b"[10]", "payload")
    with pytest.raises(BadInputError, match=r"^payload: has more than 4 bytes; nothing was recorded$"):
        strict_json.loads(b"[10] ", "payload")
