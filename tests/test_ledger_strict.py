"""Strict JSON: input with one meaning to every reader is accepted, everything else is refused in one line."""

from __future__ import annotations

import json

import pytest

from tallybook.ledger import event_json
from tallybook.ledger.errors import BadInputError


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b'{"a":1,"b":2,"a":1}', "has the key 'a' twice in one object"),
        (b'{"b":1,"a":2,"a":3}', "has the key 'a' twice in one object"),
        (b'[{"x":{"":1,"":2}}]', "has the key '' twice in one object"),
        (b'{"a":1,"\\u0061":2}', "has the key 'a' twice in one object"),
        (b"[NaN]", "holds NaN, which is no JSON"),
        (b"[Infinity]", "holds Infinity, which is no JSON"),
        (b'{"a":-Infinity}', "holds -Infinity, which is no JSON"),
        (b"[1e400]", "holds the number 1e400"),
        (b"[-1e400]", "holds the number -1e400, which is too large"),
        (b"[%b.5]" % (b"1" * 400), "holds the number 11111111111111111111, which is too large"),
        (b"[9007199254740993]", "holds the number 9007199254740993, beyond 2^53"),
        (b"[-9007199254740993]", "holds the number -9007199254740993, beyond 2^53"),
        (b"[%b]" % (b"1" * 5000), "holds the number 11111111111111111111, beyond 2^53"),
        (b"", "is empty"),
        (b" \n\t", "is empty"),
        (b"{", "is not JSON: Expecting property name enclosed in double quotes at line 1, column 2"),
        (b"[1,]", "is not JSON: "),
        (b"[1] [2]", "is not JSON: Extra data at line 1, column 5"),
        (b'["\t"]', "is not JSON: Invalid control character"),
        (b"\xef\xbb\xbf[]", "is not JSON: "),
        (b'["\xff"]', "is not UTF-8 text, from byte 2 on"),
        (b'["\xed\xa0\x80"]', "is not UTF-8 text, from byte 2 on"),
        ("[]".encode("utf-16"), "is not UTF-8 text, from byte 0 on"),
        (b"[" * 200_000, "is nested too deeply"),
    ],
    ids=lambda value: value[:20] if isinstance(value, bytes) else "",
)
def test_ambiguous_json_is_refused(data: bytes, what: str) -> None:
    """The error is one line with the source, the fault, and that nothing was recorded."""
    with pytest.raises(BadInputError) as caught:
        event_json.loads(data, "payload")
    message = str(caught.value)
    assert message.startswith(f"payload: {what}"), message
    assert message.endswith("; nothing was recorded"), message
    assert 1 == len(message.splitlines())


NESTED = [("[", "]"), ('{"a":', "}")]


@pytest.mark.parametrize(("opened", "closed"), NESTED, ids=["lists", "objects"])
def test_a_hundred_levels_are_accepted(opened: str, closed: str) -> None:
    """A value nested a hundred times is read, one level more is refused, however short it is."""
    value = 1
    for _ in range(100):
        value = json.loads(f"{opened}{json.dumps(value)}{closed}")
    assert value == event_json.loads((opened * 100 + "1" + closed * 100).encode(), "payload")
    beside = event_json.loads(f"[[],[],{opened * 99}1{closed * 99},[]]".encode(), "payload")
    assert [[], [], []] == [beside[0], beside[1], beside[3]]
    for data in (opened * 101 + "1" + closed * 101, f"[0,{opened * 100}1{closed * 100},2]"):
        with pytest.raises(BadInputError, match=r"^payload: is nested more than 100 deep; nothing was recorded$"):
            event_json.loads(data.encode(), "payload")


@pytest.mark.parametrize(
    ("data", "canonical"),
    [
        (b'{"b":1,"a":["\xc3\xa4",null,true]}', True),
        (b'{"a": 1}', False),
        (b'{"a":1}\n', False),
        (b'"\\u00e4"', False),
        (b'"\\ud800"', False),
        (b'{"a":1,"a":1}', False),
        (b"9007199254740993", False),
        (b"NaN", False),
        (b"", False),
    ],
)
def test_canonical_is_what_the_ledger_writes(data: bytes, canonical: bool) -> None:
    """Canonical JSON has no white space, no needless escape, and nothing that readers interpret differently."""
    assert canonical == event_json.is_canonical(data)


def test_a_payload_has_a_greatest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """A payload of that size is accepted, one byte more is not, and is not even parsed."""
    monkeypatch.setattr(event_json, "MAX_PAYLOAD_BYTES", 4)
    assert [10] == event_json.loads(b"[10]", "payload")
    with pytest.raises(BadInputError, match=r"^payload: has more than 4 bytes; nothing was recorded$"):
        event_json.loads(b"[10] ", "payload")
