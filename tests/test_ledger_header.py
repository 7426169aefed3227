"""The first section of a line: every written header is parsed, and no other one."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st
import pytest

from helpers.ledger_lines import AT, KEYS, TEXTS, forge, read, stamp
from tallybook.ledger.clock import moment
from tallybook.ledger.encoding.codec import decode, encode, parse_head
from tallybook.ledger.errors import DamagedLedgerError
from tallybook.ledger.events import PlaybookUpdated
from tallybook.ledger.line import SECTION, START, frame

WHEN = "2024-02-29T23:59:59.000000Z"
HEAD = (
    '{"crc":"0a1b2c3d","seq":812,"id":"0192aaaa-0000-7000-8000-000000000001","key":"k 1",'
    f'"at":"{AT}","when":"{WHEN}","part":[2,12],"by":{{"rater":"human"}}'
)
# From 1970 to the end of 9999, the last year of four digits.
MOMENTS = st.integers(0, 253_402_300_799_999_999).map(lambda us: moment(us).at)


@given(
    st.integers(0, 10**17),
    MOMENTS,
    st.none() | MOMENTS,
    st.none() | KEYS,
    st.dictionaries(st.sampled_from(["session", "agent", "model", "place"]), TEXTS.filter(bool)),
)
def test_every_written_header_is_parsed(
    seq: int, at: str, when: str | None, key: str | None, more: dict[str, str]
) -> None:
    """Whatever a writer is passed, its headers have the same values for a reader, with any Unicode text in ``by``."""
    by = {"rater": "test", **more}
    drafts = [encode(PlaybookUpdated(0, 0, 0), when), encode(PlaybookUpdated(0, 0, 0))]
    lines = frame(drafts, stamp(START._replace(seq=seq), at=at, by=by, key=key)).raw.split(b"\n")[:2]
    one, two = (parse_head(line.partition(SECTION)[0]) for line in lines)
    assert one is not None
    assert two is not None
    assert (seq + 1, f"id-{seq + 1}", key, at, when, (1, 2)) == one[:6]
    assert (seq + 2, f"id-{seq + 2}", None, at, None, (2, 2)) == two[:6]
    assert [by, by] == [json.loads(one.by), json.loads(two.by)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('{"crc":"0a1b2c3d",', "{"),
        ('"0a1b2c3d"', '"0A1B2C3D"'),
        ('"0a1b2c3d"', '"0a1b2c3"'),
        ('"seq":812,', ""),
        ("812", "0"),
        ("812", "0812"),
        ("812", "-812"),
        ("812", "+812"),
        ("812", "8.0"),
        ("812", '"812"'),
        ("812", "\u0668"),
        ("812", "1" * 19),
        ('"key":"k 1"', '"key":""'),
        ('"key":"k 1"', '"key":"k\\u0020"'),
        ('"key":"k 1"', '"key":"k\\""'),
        ('"key":"k 1"', '"key":"k\t1"'),
        ('"key":"k 1"', '"key":null'),
        ('"key":"k 1"', '"key":"k 1","key":"k 2"'),
        ('"id":"', '"id":"x","id":"'),
        ('"key":"k 1","at"', '"at"' + f':"{AT}","key":"k 1","at"'),
        (f'"at":"{AT}",', ""),
        (f'"when":"{WHEN}"', '"when":null'),
        (AT, "2026-11-21T20:17:03Z"),
        (AT, "2026-11-21 20:17:03.123456Z"),
        (AT, "2026-11-21T20:17:03.123456+00:00"),
        (AT, "2026-00-21T20:17:03.123456Z"),
        (AT, "2026-13-21T20:17:03.123456Z"),
        (AT, "2026-11-31T20:17:03.123456Z"),
        (AT, "0000-11-21T20:17:03.123456Z"),
        (AT, "2026-11-21T24:17:03.123456Z"),
        (AT, "2026-11-21T20:60:03.123456Z"),
        (AT, "2026-11-21T20:17:60.123456Z"),
        (WHEN, "2023-02-29T23:59:59.000000Z"),
        (WHEN, "2024-02-29T23:59:59.00000\u0660Z"),
        ("[2,12]", "[0,12]"),
        ("[2,12]", "[2,12,12]"),
        ("[2,12]", "[2, 12]"),
        ("[2,12]", "[2]"),
        ("[2,12]", "[]"),
        ('"part":[2,12],', ""),
        ('"by":{"rater":"human"}', '"by":"human"'),
        ('"by":{"rater":"human"}', '"by":null'),
        (',"by":{"rater":"human"}', ""),
        ('"by":', '"extra":1,"by":'),
        ('"by":', '"by": '),
        ('{"crc"', ' {"crc"'),
        ('"human"}', '"human"},'),
        ('"human"}', '"human"}\n'),
    ],
)
def test_a_header_in_another_form_is_refused(old: str, new: str) -> None:
    """One field more, less, elsewhere or in another form, and no writer of this format wrote it."""
    assert 1 == HEAD.count(old)
    assert None is parse_head(HEAD.replace(old, new).encode())


@pytest.mark.parametrize("bad", [b"\xff", b"\xed\xa0\x80", b"\xc0\xaf"])
@pytest.mark.parametrize("old", [b"k 1", b"human", b"0192aaaa"])
def test_a_header_that_is_not_utf_8_is_refused(old: bytes, bad: bytes) -> None:
    """Bytes that are not UTF-8 are no text of any field."""
    assert None is parse_head(HEAD.encode().replace(old, bad))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("by", "{}"),
        ("by", "null"),
        ("by", '{"rater":"test","extra":"x"}'),
        ("by", '{"rater":7}'),
        ("by", '{"rater":"test","session":7}'),
        ("id", "7"),
        ("id", "null"),
        ("at", "7"),
        ("at", "null"),
        ("at", '"2026-11-21T20:17:03Z"'),
        ("at", '"2026-11-31T20:17:03.123456Z"'),
        ("when", "7"),
        ("when", '"2026-02-29T20:17:03.123456Z"'),
        ("key", "7"),
        ("key", '""'),
        ("extra", "7"),
        ("by", '{"rater":"test"}}'),
        ("by", '{"rater":"test"},"extra":{}'),
    ],
)
def test_an_invalid_header_section_is_damage(field: str, value: str) -> None:
    """Author and time are as strict as the content: no other type, and no missing field."""
    batch = forge(('"kind":"point.removed","v":1,"body":{"name":"kpt_001"}', None), head={field: value})
    found = read(batch.raw)
    assert ([batch], None) == (found.batches, found.stop)
    with pytest.raises(DamagedLedgerError, match="seq 1"):
        next(decode([batch])).records  # noqa: B018 - asking for them is what decodes them
