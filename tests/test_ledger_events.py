"""The vocabulary as a table: every class has its row, every row can be written, read and upcast."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
import importlib.util
import json
import pickle
import sys
import typing
from uuid import RFC_4122, UUID

from hypothesis import example, given
from hypothesis import strategies as st
import pytest

from tallybook.ledger import clock, events, fast_stdlib, names, strict_json
from tallybook.ledger.clock import clamp_time, moment, to_unix_us
from tallybook.ledger.decisions.legacy_import import LegacyFile, read_legacy
from tallybook.ledger.errors import BadInputError
from tallybook.ledger.events import (
    EVENT_TYPES,
    KIND_OF,
    BenchmarkRecorded,
    Event,
    Numbers,
    PlaybookAdopted,
    SessionMeasured,
    UnknownEvent,
)
from tallybook.ledger.fast_stdlib import NamedTuple
from tallybook.ledger.line import CONTINUED
from tallybook.ledger.names import format_name, generate_keypoint_name, is_usable_name

CLASSES = [cls for cls, _ in EVENT_TYPES.values()]


def test_every_event_has_one_row() -> None:
    """The table names every class of an event, except the one for unknown kinds."""
    classes = {var for var in vars(events).values() if isinstance(var, type) and issubclass(var, Event)}
    bases = {base for cls in classes for base in cls.__bases__}
    assert {*CLASSES, UnknownEvent} == classes - bases
    assert len(CLASSES) == len(set(CLASSES))
    assert {cls: kind for kind, (cls, _) in EVENT_TYPES.items()} == KIND_OF
    assert CONTINUED not in EVENT_TYPES


@pytest.mark.parametrize(
    ("top", "what"),
    [
        ("{", r"^top is not JSON: Expecting property name"),
        ("[" * 200_000, r"^top is not JSON: "),
        (r'{"a":"\ud800"}', r"^top is not JSON: .*surrogates not allowed"),
        ("[]", r"^top is not a JSON object$"),
        ('"owner"', r"^top is not a JSON object$"),
    ],
    ids=["torn", "deep", "half a pair", "list", "text"],
)
def test_an_invalid_top_is_refused(top: str, what: str) -> None:
    """A text that cannot be read again, or is no object, never becomes an event."""
    with pytest.raises((TypeError, ValueError), match=what):
        PlaybookAdopted("ab12", 1, top)


@pytest.mark.parametrize("passed", [0, 40, 50])
def test_passed_cases_are_at_most_all_cases(passed: int) -> None:
    """All of them may pass, and one more may not."""
    assert passed == BenchmarkRecorded("ac06", "", passed, 50).passed
    with pytest.raises(ValueError, match=r"^51 of 50 cases cannot have passed$"):
        BenchmarkRecorded("ac06", "", 51, 50)


@pytest.mark.parametrize("numbers", [{"calls": 2, "failed": 3}, {"tests_failed": 1}, {"seconds": -1}])
def test_an_impossible_measurement_of_a_session_is_refused(numbers: dict[str, float]) -> None:
    """No number is below 0, and no more calls or tests failed than there were; numbers may be missing."""
    assert Numbers({}) == SessionMeasured(Numbers({})).numbers
    with pytest.raises(ValueError, match=r"^numbers must be from 0, and no more can fail than there are: "):
        SessionMeasured(Numbers(numbers))


# The names of entries: numbered ones, the next one, valid ones, and those that an import assigns.


NAMES = st.one_of(
    st.integers(0, 1200).map(format_name), st.sampled_from(["kpt_999999999", "kpt_1000000000"]), st.text()
)


@given(st.lists(NAMES))
def test_a_generated_name_is_new_and_usable(existing: list[str]) -> None:
    """Whatever names there are, hostile ones included, the generated name is new."""
    name = generate_keypoint_name(existing)
    assert name not in existing
    assert is_usable_name(name)


def test_a_name_is_found_by_other_case_and_zeros() -> None:
    """An existing name means itself, and a text means the only name that differs in case or leading zeros."""
    known = ["kpt_001", "my_002", "rule", "Twice", "twice"]
    meant = [names.find_name(text, known) for text in ("kpt_001", "KPT_1", "MY_02", "RULE", "twice")]
    assert ["kpt_001", "kpt_001", "my_002", "rule", "twice"] == meant
    assert not any(names.find_name(text, known) for text in ("TWICE", "kpt_2", "my_1", "none", "kpt_\u0661", "kpt_x1"))


@pytest.mark.parametrize("name", ["n" * 201, "", " ", 7, "\ud800", "a\udfff", "a\nb", "\u2028"])
def test_a_name_is_a_text_of_one_line(name: object) -> None:
    """A name has 1 to 200 characters that a file holds, on one line."""
    assert is_usable_name("n" * 200)
    assert not is_usable_name(name)


def test_the_first_few_names_are_shown() -> None:
    """More than three names end with how many more there are."""
    assert ["", "a, b, c", "a, b, c and 2 more"] == [names.format_names(shown) for shown in ("", "abc", "abcde")]


def test_new_names_follow_the_highest_and_the_taken_ones() -> None:
    """Numbers go on from the highest, past taken names; a wish counts if it is higher; a section has its own."""
    counted = names.NameGiver(2, {"kpt_004"}, names.PREFIX)
    given_names = [counted.next(wish=wish) for wish in ("", "kpt_005", "kpt_009", "kpt_009")]
    assert ["kpt_003", "kpt_005", "kpt_009", "kpt_010"] == given_names
    assert "my_002" == names.NameGiver(0, {"my_001"}, "my_").next()
    assert "oth-001" == names.NameGiver(0, (), names.BY_SECTION).next()
    grouped = names.NameGiver(2, {"pat-007", "pat-1234567890"}, names.BY_SECTION)
    sections = ("PATTERNS & APPROACHES", "PATTERNS & APPROACHES", "", "Mine")
    assert ["pat-008", "pat-009", "oth-001", "oth-002"] == [grouped.next(section, "kpt_002") for section in sections]
    assert ["pat", None, None] == [names.slug_of(name) for name in ("pat-007", "pat-x", "kpt_004")]
    assert ["kpt_003", "mis-001"] == [grouped.next("MISTAKES TO AVOID", wish) for wish in ("kpt_003", "")]


def test_sections_hold_the_present_entries_once() -> None:
    """An entry that was placed since leaves its section; renamed and imported entries stay where they were placed."""
    top = {"a": 1, "section_names": {"A": ["x", "gone", "y"], "OTHERS": []}}
    filtered = names.filter_sections(top, {"x", "y", "z"}, {"z": "New", "x": "OTHERS", "gone": "A"})
    assert {"a": 1, "section_names": {"A": ["y"], "OTHERS": ["x"], "New": ["z"]}} == filtered
    assert {"section_names": {"A": ["x"]}} == names.filter_sections({}, {"x"}, {"x": "A"})
    assert {"a": 1} == names.filter_sections({"a": 1}, {"x"}, {"gone": "A"})
    renamed = names.rename_in_sections(top, {"x": "w"})
    assert {"a": 1, "section_names": {"A": ["w", "gone", "y"], "OTHERS": []}} == renamed
    assert all(names.read_sections({"section_names": bad}) is None for bad in (["x"], {"A": "x"}, {"A": [1]}))
    assert {"a": 1} == names.rename_in_sections({"a": 1}, {"x": "w"})
    joined = names.join_sections(top, {"section_names": {"OTHERS": ["x", "z"], "B": ["v"]}})
    assert {"a": 1, "section_names": {"A": ["x", "gone", "y"], "OTHERS": ["z"], "B": ["v"]}} == joined


def read(*items: object, taken: tuple[str, ...] = ()) -> LegacyFile:
    """Return the entries read from a playbook of these items."""
    return read_legacy(json.dumps({"key_points": items}).encode(), reserved=taken)


def names_of(legacy: LegacyFile) -> list[str]:
    """Return the names of a file's entries."""
    return [item.entry.name for item in legacy.items]


@pytest.mark.parametrize(
    ("items", "names"),
    [
        (["a", {"name": "kpt_001", "text": "b"}], ["kpt_002", "kpt_001"]),
        (["a", {"name": "kpt_005", "text": "b"}, "c"], ["kpt_001", "kpt_005", "kpt_006"]),
        ([{"name": "kpt_005", "text": ""}, "a"], ["kpt_006"]),
        (["a", {"name": "kpt_001"}], ["kpt_002"]),
        ([{"name": "kpt_999999999", "text": "a"}, "b", "c"], ["kpt_999999999", "kpt_1000000000", "kpt_1000000001"]),
        ([{"name": "my rule", "text": "a"}, "b"], ["my rule", "kpt_001"]),
    ],
)
def test_a_generated_name_is_never_one_of_the_file(items: list[object], names: list[str]) -> None:
    """REQ-SCORE-004: it is one more than the highest so far, and skips a name that a later item has."""
    assert names == names_of(read(*items))


# Strict JSON: input with one meaning to every reader is accepted, everything else is refused in one line.


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


# Moments as the ledger writes them, a clock that runs back, and ids that sort by time.


# From 1970 to the end of 9999, the last year of four digits.
MOMENTS = st.integers(0, 253_402_300_799_999_999)
HOUR_US = 3600 * 1_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@given(MOMENTS)
def test_a_moment_is_written_in_utc_with_microseconds(us: int) -> None:
    """The text is the UTC time, always of the same length, and is read as the same moment."""
    now = moment(us)
    assert (EPOCH + timedelta(microseconds=us)).strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0") == now.at
    assert (us, us) == (now.unix_us, to_unix_us(now.at))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-11-21",
        "2026-11-21T20:17:03Z",
        "2026-11-21T20:17:03.123Z",
        "2026-11-21T20:17:03.12345Z",
        "2026-11-21T20:17:03.123456",
        "2026-11-21T20:17:03 123456Z",
        "2026-11-21T20:17:03.123456+02:00",
        "2026-11-21T20:17:03.1_3456Z",
        "2026-11-21T20:17:03.+12345Z",
        "2026-11-21 20:17:03.123456Z",
        "2026-13-21T20:17:03.123456Z",
        "2026-1-021T20:17:03.123456Z",
    ],
)
def test_a_moment_in_another_form_is_refused(text: str) -> None:
    """Only the ledger's own form is read; nothing is guessed."""
    with pytest.raises(ValueError, match=r"\btime\b"):
        to_unix_us(text)


@given(MOMENTS, st.integers(-3 * HOUR_US, 3 * HOUR_US))
@example(0, HOUR_US)
@example(0, HOUR_US + 1)
def test_a_clock_that_ran_back_is_raised_within_an_hour(us: int, drift: int) -> None:
    """Up to an hour back, the last event's time is used; further back, or ahead, the clock's."""
    before = min(max(us + drift, 0), 253_402_300_799_999_999)
    behind = before - us
    expected = before if 0 < behind <= HOUR_US else us
    assert moment(expected).at == clamp_time(moment(us).at, moment(before).at)


@given(MOMENTS)
def test_an_id_is_a_uuid_of_version_7(us: int) -> None:
    """RFC 9562: milliseconds in the first 48 bits, version 7, the RFC's variant, canonical text."""
    text = clock.new_id(us)
    uuid = UUID(text)
    assert text == str(uuid)
    assert (7, RFC_4122, us // 1000) == (uuid.version, uuid.variant, uuid.int >> 80)


def test_every_random_bit_of_an_id_is_random() -> None:
    """No id repeats, and each of the 74 random bits is sometimes set and sometimes not."""
    ids = [UUID(clock.new_id(0)).int for _ in range(1000)]
    assert 1000 == len(set(ids))
    ever, always = 0, ~0
    for number in ids:
        ever |= number
        always &= number
    assert 74 == (ever & ~always & (1 << 128) - 1).bit_count()


# The replacements of slow standard modules behave like the originals, also without C accelerators.


if typing.TYPE_CHECKING:
    from types import ModuleType

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
C_PARTS = ("_json", "_sha2", "_sha256")


class ValuePair(NamedTuple):
    """A pair of values."""

    number: int
    text: str = "b"

    @property
    def both(self) -> str:
        """Return both values as a text."""
        return f"{self.number}{self.text}"


class Twin(typing.NamedTuple):
    """The same pair, by typing."""

    number: int
    text: str = "b"


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the module as loaded by an interpreter without the C parts."""
    for name in C_PARTS:
        monkeypatch.setitem(sys.modules, name, None)
    spec = importlib.util.find_spec("tallybook.ledger.fast_stdlib")
    if spec is None or spec.loader is None:
        raise AssertionError("the module is there: it was imported above")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def test_a_named_tuple_equals_that_of_typing() -> None:
    """Fields, defaults, order, methods, module, text and pickles are those of ``typing.NamedTuple``."""
    assert (Twin._fields, Twin._field_defaults) == (ValuePair._fields, ValuePair._field_defaults)
    assert (1, "b", "1b", (1, "x")) == (*ValuePair(1), ValuePair(1).both, ValuePair(1)._replace(text="x"))
    assert repr(Twin(1, "x")).replace("Twin", "ValuePair") == repr(ValuePair(1, "x"))
    assert ValuePair(1) == pickle.loads(pickle.dumps(ValuePair(1)))  # noqa: S301 - made in this line
    assert (__name__, True) == (ValuePair.__module__, (ValuePair.__doc__ or "").startswith("A pair of values"))
    with pytest.raises(TypeError, match="number"):
        ValuePair()  # type: ignore[call-arg]


@pytest.mark.parametrize("lacking", [False, True], ids=["as it is", "without C"])
def test_json_is_written_like_by_the_standard_library(lacking: bool, request: pytest.FixtureRequest) -> None:
    """The shared encoder writes the same text as ``json.dumps``, without a C encoder too."""
    encoded = (request.getfixturevalue("without") if lacking else fast_stdlib).dumps

    @given(JSON)
    def agree(value: object) -> None:
        assert json.dumps(value, ensure_ascii=False, separators=(",", ":")) == encoded(value)

    agree()
    # Long enough to be put together from several pieces.
    many = [7] * 300_000
    assert json.dumps(many, separators=(",", ":")) == encoded(many)
    for number in (float("nan"), float("inf"), float("-inf")):
        with pytest.raises(ValueError, match="not JSON compliant"):
            encoded([number])
    for value in ([b"x"], {b"x": 1}):
        with pytest.raises(TypeError, match=r"cannot encode bytes|bytes is not JSON|keys must be str.* not bytes"):
            encoded(value)


@given(JSON, st.sampled_from(["", " ", "\n\t"]))
def test_json_is_read_like_by_the_standard_library(value: object, blanks: str) -> None:
    """This holds for any JSON, with blanks around it or without; a repeated key has its last value."""
    text = json.dumps(value)
    assert value == fast_stdlib.loads(blanks + text + blanks)
    assert {"a": 2} == fast_stdlib.loads('{"a":1,"a":2}')


NO_JSON = ["", " ", "{", "{} x", "[1,]", '"\n"', '{"a"}', "nul", "é", "7\xa0"]


@pytest.mark.parametrize("bad", NO_JSON)
def test_text_that_is_not_json_is_refused(bad: str) -> None:
    """The error says whether there is no value, or something after it; only JSON's own blanks count as blanks."""
    behind = bad in {"{} x", "7\xa0"}
    with pytest.raises(ValueError, match="^more text follows the JSON value$" if behind else "^not JSON$"):
        fast_stdlib.loads(bad)


def test_a_lazy_module_is_loaded_on_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the attributes of the module."""
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    [stands] = fast_stdlib.import_lazily("colorsys")
    assert "colorsys" not in sys.modules
    assert (0.0, 0.0, 1.0) == stands.rgb_to_hsv(1, 1, 1)
    with pytest.raises(AttributeError, match="nothing"):
        stands.nothing()
