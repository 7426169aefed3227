"""What of a session is reflected on at once, and what is never read twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
import pytest

from helpers.transcripts import Script
from tallybook.ledger.events import PointCited, TranscriptRead
from tallybook.projections.reflections import NO_RATER, ReadPosition
from tallybook.projections.surfaces.reflection.chunks import (
    PIECE_CHARS,
    Piece,
    Unread,
    all_pieces,
    next_piece,
)
from tallybook.projections.surfaces.writing.requests import PlainEvents

if TYPE_CHECKING:
    from pathlib import Path

    from tallybook.ledger.events import Event

NAMES = {"kpt_001", "kpt_002"}


def ask(path: Path, **fields: Any) -> Unread:
    """Return that all of a transcript is to be read by a model."""
    known: dict[str, Any] = {
        "rater": "claude",
        "position": ReadPosition(),
        "searched_to": ReadPosition(),
        "known_uuids": (),
        "request_end": path.stat().st_size if path.exists() else 0,
        "names": NAMES,
        "find_given": lambda names, _: names,
    }
    return Unread("s1", path, **known | fields)


def cited(piece: Piece) -> list[list[Event]]:
    """Return the citations of a piece, those of a message together."""
    return [list(request.decide.events) for request in piece.citations if isinstance(request.decide, PlainEvents)]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Return a transcript with nothing in it."""
    return Script(tmp_path / "s1.jsonl")


def stretches(piece: Piece) -> list[tuple[str, int, int, int]]:
    """Return file, begin, end and seen of what a piece was read from."""
    return [(one.file, one.begin, one.end, one.seen) for one in piece.reads]


def test_a_short_session_is_one_piece(script: Script) -> None:
    """All of it, up to its last line, with the time of that."""
    script.user("Fix it").agent("Done")
    size = script.path.stat().st_size
    piece = next_piece(ask(script.path))
    assert (
        Piece(
            PIECE_CHARS,
            ["User: Fix it", "Agent: Done"],
            [TranscriptRead("", 0, size, size, "s1-2", "claude")],
            at="2026-11-21T10:00:02.250000Z",
        )
        == piece
    )


def test_what_was_read_is_not_read_again(script: Script) -> None:
    """The next piece begins where the last one ended."""
    first = next_piece(ask(script.user("one").path)).reads[0]
    piece = next_piece(ask(script.user("two").path, position=ReadPosition().through(first)))
    assert "User: two" == piece.text
    assert first.end == piece.reads[0].begin


def test_a_long_session_is_several_pieces(script: Script) -> None:
    """Each has as much as is asked at a time, and together they are all of it, once."""
    for number in range(50):
        script.user(f"{number:03d}" * 10)
    asked = ask(script.path, max_chars=400)
    found = list(all_pieces(asked))
    assert len(found) > 3
    assert all(len(piece.text) <= 400 for piece in found)
    assert [f"User: {number:03d}" + f"{number:03d}" * 9 for number in range(50)] == "\n".join(
        piece.text for piece in found
    ).split("\n")
    assert [False] * (len(found) - 1) + [True] == [piece.is_last for piece in found]


def test_a_line_that_is_longer_than_a_piece_is_one_by_itself(script: Script) -> None:
    """Whatever its length, reading goes on."""
    script.user("a").user("b" * 100).user("c")
    found = list(all_pieces(ask(script.path, max_chars=20)))
    assert ["User: a", "User: " + "b" * 100, "User: c"] == [piece.text for piece in found]


def test_a_half_written_last_line_is_accounted_for_and_read_later(script: Script) -> None:
    """It owes nothing by itself; once it is whole it is read."""
    script.user("one")
    whole = script.path.stat().st_size
    script.path.write_bytes(script.path.read_bytes() + b'{"type":"us')
    piece = next_piece(ask(script.path))
    assert [("", 0, whole, whole + 11)] == stretches(piece)
    assert piece.is_last


def test_subagents_are_read_with_the_session(script: Script, tmp_path: Path) -> None:
    """First what they said, then what the session said; each transcript is a stretch of its own."""
    sub = Script(tmp_path / "s1" / "subagents" / "agent-1.jsonl", sidechain=True).agent("found it")
    script.agent("inline", isSidechain=True).agent("so be it")
    piece = next_piece(ask(script.path))
    assert "Subagent: Agent: found it\nSubagent: Agent: inline\nAgent: so be it" == piece.text
    assert ["agent-1", ""] == [one.file for one in piece.reads]
    sub.agent("more")
    reached = ReadPosition()
    for one in piece.reads:
        reached = reached.through(one)
    later = next_piece(ask(script.user("go on").path, position=reached))
    assert "Subagent: Agent: more\nUser: go on" == later.text


def test_the_session_is_done_with_only_once_its_subagents_are(script: Script, tmp_path: Path) -> None:
    """A piece that ends within a subagent's transcript says nothing of the session's own."""
    sub = Script(tmp_path / "s1" / "subagents" / "agent-1.jsonl", sidechain=True)
    for _ in range(3):
        sub.agent("x" * 50)
    script.user("y")
    piece = next_piece(ask(script.path, max_chars=100))
    assert (["agent-1"], False) == ([one.file for one in piece.reads], piece.is_last)


def test_nothing_said_is_read_all_the_same(script: Script) -> None:
    """Lines that say nothing are done with, cost nothing, and leave nothing that was read."""
    script.line("system", subtype="x").user("meta", isMeta=True)
    size = script.path.stat().st_size
    piece = next_piece(ask(script.path))
    assert ("", [("", 0, 0, size)]) == (piece.text, stretches(piece))


def test_a_transcript_that_shrank_is_another_one(script: Script) -> None:
    """It is read from its beginning, and what was asked for of the old one is done with."""
    script.user("new")
    size = script.path.stat().st_size
    piece = next_piece(ask(script.path, position=ReadPosition({"": 10_000}, 9_000), request_end=10_000))
    assert [("", 0, size, 10_000)] == stretches(piece)


def test_a_copy_of_what_was_read_is_known_by_its_last_line(script: Script, tmp_path: Path) -> None:
    """A session that goes on from another begins behind what was read of that."""
    first = next_piece(ask(script.user("one").agent("two").path)).reads[0]
    resumed = Script(tmp_path / "s2.jsonl", "s2")
    resumed.path.write_bytes(script.path.read_bytes())
    piece = next_piece(ask(resumed.user("three").path, known_uuids={first.last}))
    assert "User: three" == piece.text


def test_a_copy_is_known_by_what_stands_beside_it(script: Script, tmp_path: Path) -> None:
    """Where the copy was made before the other session was read further, only the copied lines are left out."""
    script.user("one").agent("two")
    resumed = Script(tmp_path / "s2.jsonl", "s2")
    resumed.path.write_bytes(script.path.read_bytes())
    script.user("three, not copied")
    others = {script.path: script.path.stat().st_size, tmp_path / "gone.jsonl": 7}
    piece = next_piece(ask(resumed.user("four").path, others=others, known_uuids={"s1-3"}))
    assert "User: four" == piece.text


def test_another_session_beside_it_is_no_copy(script: Script, tmp_path: Path) -> None:
    """What two sessions do not share is read in both."""
    other = Script(tmp_path / "s2.jsonl", "s2").user("else")
    script.user("one")
    piece = next_piece(ask(script.path, others={other.path: other.path.stat().st_size}, known_uuids={"s2-1"}))
    assert "User: one" == piece.text


def test_a_citation_is_one_event_of_its_message(script: Script) -> None:
    """What the agent says cites; the input of a tool, which its hook sees, and nobody else's words do not."""
    script.user("what does [kpt_001] say?").agent("Both [kpt_001, kpt_002] say so, and [kpt_404] too.")
    script.tool("Bash", {"command": "echo '[kpt_002] done'"}, "[kpt_002]")
    assert [[PointCited("kpt_001", "message"), PointCited("kpt_002", "message")]] == cited(next_piece(ask(script.path)))


def test_a_citation_is_recorded_once(script: Script) -> None:
    """What was searched for citations before is not searched again by a model's reading."""
    script.agent("[kpt_001] helped")
    heard = next_piece(ask(script.path, rater=NO_RATER))
    assert ("", 1) == (heard.text, len(heard.citations))
    again = next_piece(ask(script.path, searched_to=ReadPosition().through(heard.reads[0])))
    assert ("Agent: [kpt_001] helped", []) == (again.text, again.citations)


def test_without_a_model_a_session_is_read_at_once(script: Script) -> None:
    """Nothing is sent, so nothing bounds it."""
    for _ in range(20):
        script.user("x" * 100)
    piece = next_piece(ask(script.path, rater=NO_RATER, max_chars=50))
    assert (True, script.path.stat().st_size) == (piece.is_last, piece.reads[0].end)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(
    lengths=st.lists(st.integers(0, 300), min_size=1, max_size=12),
    chars=st.integers(1, 500),
    cut=st.integers(0, 40),
)
def test_pieces_are_all_of_a_session_once(tmp_path: Path, lengths: list[int], chars: int, cut: int) -> None:
    """However long its lines are and however much is asked at once, each line is in one piece, in order."""
    path = tmp_path / "s1.jsonl"
    path.unlink(missing_ok=True)
    script = Script(path)
    for number, length in enumerate(lengths):
        script.user(f"<{number}>" + "x" * length)
    if cut:
        path.write_bytes(path.read_bytes() + b"{" * cut)
    found = list(all_pieces(ask(path, max_chars=chars)))
    words = "\n".join(piece.text for piece in found)
    assert [f"User: <{number}>" + "x" * length for number, length in enumerate(lengths)] == words.split("\n")
    assert path.stat().st_size == found[-1].reads[-1].seen
    assert found[-1].is_last
