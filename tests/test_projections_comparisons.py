"""Conditions: any text is one, or a one-line error; bisect finds the same as a linear scan over `show --at`.

`tests/tape/stories/comparisons.txt` has the meaning of conditions, and the event that bisect names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
import pytest

from helpers.view_histories import FUTURES, HISTORIES, KNOWN, drop_events, fold_playbook, history, list_state, plain
from tallybook.ledger.errors import BadInputError
from tallybook.ledger.events import (
    Entry,
    PlaybookUpdated,
    PointAdded,
    PointPinned,
    PointRated,
    PointRestored,
    PointRetired,
    PointUnpinned,
)
from tallybook.ledger.records import Batch
from tallybook.projections.history.comparisons import Alternative, Exclusion, diff, difference_json, fold_alternative
from tallybook.projections.history.conditions import MAX_CHARS, parse, search
from tallybook.projections.history.entry_history import ENTRIES, EntryStatuses
from tallybook.projections.playbook.entry import POLICIES, SPEC_POLICY, Policy
from tallybook.projections.playbook.fold import fold_history
from tallybook.projections.playbook.render import entry_json, playbook_dict
from tallybook.projections.playbook.view import Playbook, playbook_view


@given(
    st.text(st.sampled_from("ab\"'.-_ \u00e9()"), min_size=1, max_size=6) | st.sampled_from(["not", "or", "count", "1"])
)
def test_every_name_can_be_a_term(name: str) -> None:
    """A name may be in quotes of either kind; and a listed term is a condition again."""
    for text in (repr(name), json.dumps(name)):
        condition = parse(f"exists({text}) or {text}.helpful > 1")
        assert {name} == condition.names
        exists, helpful = condition.evaluate(Playbook())[1]
        assert {name} == parse(f"{exists} and {helpful} > 1").names


WORDS = st.sampled_from(
    [
        *'()."',
        "'",
        "and",
        "or",
        "not",
        "count",
        "kpt_001",
        ">",
        "<=",
        "exists",
        "text",
        "1",
        "in",
        " ",
        ".helpful",
        "\\",
    ]
)


@given(st.lists(WORDS | st.text(max_size=3), max_size=30).map(" ".join))
def test_any_text_is_a_condition_or_one_line(text: str) -> None:
    """Any input is true or false, or refused with one printable line."""
    try:
        condition = parse(text)
        answer: Any = condition.evaluate(Playbook())[0]
    except BadInputError as error:
        answer = str(error).isprintable()
        assert answer
    assert isinstance(answer, bool)


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        (" " * MAX_CHARS + "1", f"CONDITION, character {MAX_CHARS + 1}: 1,001 characters, more than 1,000"),
        ("(" * 250 + "1<2" + ")" * 250, "character 201: the condition cannot be read from here on"),
        ("-" * (MAX_CHARS - 1) + "1", "CONDITION, character 1: expected a comparison"),
        ("count > 1 \x1b[2J", "character 11: '\\x1b' has no meaning here"),
        ("'ßß' in kpt_001.text and 2", "character 26: expected a comparison"),
    ],
)
def test_a_condition_has_bounds(text: str, refusal: str) -> None:
    """A long or deep text and a control character are refused with their place in one printable line."""
    deepest = "not " * ((MAX_CHARS - 3) // 4) + "1<2"
    assert isinstance(parse(deepest).evaluate(Playbook())[0], bool)
    with pytest.raises(BadInputError) as refused:
        parse(text)
    assert refusal in str(refused.value)
    assert str(refused.value).isprintable()


CLOSE = PlaybookUpdated(0, 0, 0)
NAMES = ["kpt_001", "kpt_002", "pat-001"]
FEW, WRITTEN = st.sampled_from(NAMES), st.sampled_from(list(map(repr, NAMES)))
RATED = st.builds(PointRated, FEW, st.sampled_from(["helpful", "harmful"]))
DECIDED = st.sampled_from([PointRetired, PointRestored, PointPinned, PointUnpinned]).flatmap(
    lambda kind: st.builds(kind, FEW, st.just(""))
)
BORN = [PointAdded("kpt_001", "a"), PointAdded("kpt_002", "b"), PointAdded("pat-001", "c")]
TEXT_HISTORIES = st.lists(
    st.lists(KNOWN | RATED | RATED | DECIDED | st.just(CLOSE), min_size=1, max_size=5), max_size=12
).map(lambda stretches: [*stretches[:1], BORN, *stretches[1:]])
BEGINS = st.just(0) | st.integers(0, 30)
LENGTHS = st.none() | st.none() | st.integers(0, 60)

LEAVES = st.one_of(
    st.builds(
        "{}.{} {} {}".format,
        WRITTEN,
        st.sampled_from(["helpful", "harmful"]),
        st.sampled_from([">", ">=", "<", "<=", "==", "!="]),
        st.integers(0, 4),
    ),
    st.builds("count {} {}".format, st.sampled_from([">", "<", "=="]), st.integers(0, 4)),
    st.builds("{}({})".format, st.sampled_from(["exists", "pruned", "retired", "merged", "pinned"]), WRITTEN),
    st.builds("'{}' in {}.text".format, st.sampled_from("abc"), WRITTEN),
)
CONDITIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds("not ({})".format, inner),
        st.builds("({}) and {}".format, inner, LEAVES),
        st.builds("{} or ({})".format, LEAVES, inner),
    ),
    max_leaves=4,
)


@given(TEXT_HISTORIES, CONDITIONS, BEGINS, LENGTHS, st.booleans())
def test_it_finds_what_a_linear_scan_finds(
    stretches: list[list[Any]], text: str, begin: int, length: int | None, last: bool
) -> None:
    """It finds the first or last moment of a range at which the condition becomes true."""
    batches, end = history(stretches), None if length is None else begin + length
    moments = [batch.last for batch in batches if batch.last > begin and (end is None or batch.last <= end)]
    condition = parse(text)
    truths = [condition.evaluate(fold_playbook(batches, seq))[0] for seq in (begin, *moments)]
    turned = [seq for seq, before, after in zip(moments, truths, truths[1:], strict=False) if after and not before]
    found = search(condition, lambda: [b for b in batches if end is None or b.last <= end], begin, last=last)
    expected = turned[-1 if last else 0] if turned else None
    assert (expected, truths[0]) == (found["moment"], found["began"])


# The difference of two playbooks: applied to the first it gives the second.


FIRST, SECOND, THIRD = (Entry(f"kpt_{number:03d}", text) for number, text in enumerate("abc", 1))


def fold_at(batches: Sequence[Batch], seq: int | None = None) -> EntryStatuses:
    """Return the playbook at a moment of a history, and the removals from it."""
    return fold_history(ENTRIES, lambda: batches, seq)


def top_keys(playbook: Mapping[str, Any]) -> dict[str, Any]:
    """Return the top-level keys of a playbook other than its entries."""
    return {key: value for key, value in playbook.items() if key != "key_points"}


def apply(difference: Mapping[str, Any], playbook: Mapping[str, Any]) -> dict[str, Any]:
    """Return the second playbook from the first and their difference, both in the specification's format."""
    gone = {row["name"] for row in difference["gone"]}
    changed = {row["name"]: row["after"] for row in difference["changed"]}
    points = {point["name"]: changed.get(point["name"], point) for point in playbook["key_points"]}
    points = {name: point for name, point in points.items() if name not in gone}
    points |= {row["name"]: {key: row[key] for key in row if key != "was"} for row in difference["added"]}
    order = points if difference["order"] is None else difference["order"]
    top = top_keys(playbook) if difference["top"] is None else difference["top"]
    return {**top, "key_points": [points[name] for name in order]}


def document(state: EntryStatuses) -> str:
    """Return a playbook as JSON, in which the order of keys and entries counts."""
    return json.dumps(playbook_dict(state.book))


@given(stretches=FUTURES)
def test_the_difference_leads_from_any_moment_to_any_other(stretches: list[list[Any]]) -> None:
    """For all pairs of moments, forwards and back, the difference applied to one playbook is the other."""
    batches = history(stretches)
    states = [fold_at(batches, seq) for seq in [0, *(batch.last for batch in batches)]]
    for first in states:
        for second in states:
            assert document(second) == json.dumps(apply(diff(first, second), playbook_dict(first.book)))


# What if: without assumptions it is the playbook, and left-out events were never there.


FIELDS = ("name", "text", "helpful", "harmful")
SESSIONS = st.frozensets(st.integers(0, 9).map("s{}".format), max_size=4)
SEQS = st.frozensets(st.integers(1, 50), max_size=4)


def name_sessions(sessions: Iterable[str]) -> frozenset[str]:
    """Return sessions as values of `--without`."""
    return frozenset(f"session:{session}" for session in sessions)


def find_left_out(batches: Sequence[Batch], sessions: frozenset[str], seqs: frozenset[int]) -> list[str]:
    """Return the ids of the events that these leave out, found event by event."""
    whole = [batch for batch in batches if seqs & {record.seq for record in batch.records}]
    return [
        record.id for batch in batches for record in batch.records if batch in whole or record.by.session in sessions
    ]


def fold(batches: Sequence[Batch], without: Exclusion | None = None, policy: Policy = SPEC_POLICY) -> Alternative:
    """Return the real playbook of a history, and the one under a policy and without some events."""
    return fold_alternative(lambda: batches, playbook_view(policy), without or Exclusion())


# Laws


@given(HISTORIES)
def test_without_assumptions_it_is_the_playbook(stretches: list[list[Any]]) -> None:
    """Under the default policy and with nothing left out, every moment equals that of `show`."""
    batches = history(stretches)
    for seq in range(sum(map(len, stretches)) + 2):
        state, book = fold([batch for batch in batches if batch.last <= seq]), fold_playbook(batches, seq)
        assert plain(book.entries) == plain(state.real.entries) == plain(state.other.entries)
        assert playbook_dict(book) == playbook_dict(state.other)
        nothing: dict[str, list[Any]] = {"back": [], "gone": [], "changed": []}
        assert {"at": book.seq, "real": len(book.entries), "other": len(book.entries)} | nothing == difference_json(
            state
        )


@given(HISTORIES, SESSIONS, SEQS)
def test_a_left_out_event_was_never_there(
    stretches: list[list[Any]], sessions: frozenset[str], seqs: frozenset[int]
) -> None:
    """The other playbook is that of the history without those events, undos included; the real one stays."""
    batches = history(stretches)
    state = fold(batches, Exclusion(name_sessions(sessions), seqs))
    assert list_state(fold_playbook(drop_events(batches, find_left_out(batches, sessions, seqs)))) == list_state(
        state.other
    )
    assert list_state(fold_playbook(batches)) == list_state(state.real)


@given(HISTORIES, st.sampled_from([*POLICIES.values(), Policy("mine", 1, 2)]), SESSIONS)
def test_the_difference_leads_from_one_playbook_to_the_other(
    stretches: list[list[Any]], policy: Policy, sessions: frozenset[str]
) -> None:
    """Removing, adding and changing the listed entries gives the other playbook."""
    batches = history(stretches)
    state = fold(batches, Exclusion(name_sessions(sessions)), policy)
    difference = difference_json(state)
    gone = {row["name"] for row in difference["gone"]}
    applied = {name: entry_json(point) for name, point in state.real.entries.items() if name not in gone}
    applied |= {row["name"]: row["other"] for row in difference["changed"]}
    applied |= {row["name"]: {field: row[field] for field in FIELDS} for row in difference["back"]}
    assert {name: entry_json(point) for name, point in state.other.entries.items()} == applied
    assert len(applied) == len(state.real.entries) - len(gone) + len(difference["back"])
