"""Transcripts as turns, cut into pieces, with the citations in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
import pytest

from helpers.hook_calls import call, events
from helpers.transcripts import Script, answer, asked_for, kept
from tallybook.ledger.events import PointCited
from tallybook.projections.reflections import ReadPosition
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.cli.main import run as run_here
from tallybook.projections.surfaces.reflection.chunks import (
    Piece,
    Unread,
    all_pieces,
    next_piece,
)
from tallybook.projections.surfaces.reflection.transcript import CUT, MESSAGE_CHARS, TOOL_CHARS, format_turn, lines

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.transcripts import Client


TOKEN = "ghp_" + "a1B2" * 9


def said(path: Path, begin: int = 0) -> list[str]:
    """Return what was said in a transcript, a line a turn."""
    return [format_turn(turn) for line in lines(path, begin) for turn in line.turns]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Return a transcript with nothing in it."""
    return Script(tmp_path / "s1.jsonl")


def test_a_session_reads_as_it_was_said(script: Script) -> None:
    """A person, the agent, what it asks of tools, and what they answer, failures told as such."""
    script.user("Fix the bug").agent("I look.").tool("Bash", {"command": "ls", "timeout": 5}, "a.py\nb.py")
    script.tool("Read", {"file_path": "a.py"}, [{"type": "text", "text": "no such file"}], failed=True)
    assert [
        "User: Fix the bug",
        "Agent: I look.",
        "Agent used Bash: ls",
        "Tool answered: a.py\n  b.py",
        "Agent used Read: a.py",
        "Tool failed: no such file",
    ] == said(script.path)


@pytest.mark.parametrize(
    "text",
    [
        "<command-name>/clear</command-name>",
        "<local-command-stdout>done</local-command-stdout>",
        "<system-reminder>\nMind the playbook\n</system-reminder>",
        "<system-reminder>one that has no end",
        "[kpt_001] helpful=3 harmful=0 :: Use type hints",
    ],
)
def test_what_programs_put_in_is_left_out(script: Script, text: str) -> None:
    """Echoes of commands, reminders, and our own playbook are not learned again."""
    script.user(text).agent("after")
    assert ["Agent: after"] == said(script.path)


@pytest.mark.parametrize("asked", ["cat .claude/playbook.json", "tallybook show", "grep x .claude/ledger/events.jsonl"])
def test_an_answer_that_shows_the_playbook_is_left_out(script: Script, asked: str) -> None:
    """Whoever reads the playbook with a tool does not teach it to itself."""
    script.tool("Bash", {"command": asked}, "Use type hints").tool("Bash", {"command": "ls"}, "a.py")
    assert ["Tool answered: (the playbook, left out)", "Tool answered: a.py"] == said(script.path)[1::2]


@pytest.mark.parametrize(
    "odd",
    [
        b"\n",
        b"\xff\xfe\n",
        b"[" * 100_000 + b"\n",
        b'{"type":"user","message":"x"}\n',
        b'{"type":"user","message":{"content":7}}\n',
        b"\0" * 100 + b"\n",
    ],
    ids=range(6),
)
def test_an_odd_line_costs_itself_alone(script: Script, odd: bytes) -> None:
    """Whatever stands on a line, those around it are read."""
    script.user("before")
    script.path.write_bytes(script.path.read_bytes() + odd)
    script.user("after")
    assert ["User: before", "User: after"] == said(script.path)


def test_long_texts_keep_their_beginning_and_their_end(script: Script) -> None:
    """A message and a tool's answer are shortened to their bounds."""
    long = "begin " + "x" * 50_000 + " end"
    script.user(long).tool("Bash", {"command": long}, long)
    user, used, answered = said(script.path)
    for text, most in ((user, MESSAGE_CHARS), (used, TOOL_CHARS), (answered, TOOL_CHARS)):
        words = text.partition(": ")[2]
        assert most == len(words)
        assert words.startswith("begin x")
        assert words.endswith("x end")
        assert CUT in words


def test_secrets_are_masked_before_anything_is_cut(script: Script) -> None:
    """Neither a whole secret nor the half of one reaches a model, and a cut through the mask shows none of it."""
    cut_there = "x " * (MESSAGE_CHARS * 3 // 8 - 10) + TOKEN + " y" * MESSAGE_CHARS
    script.user(f"my token is {TOKEN}").user(cut_there).tool("Bash", {"command": f"TOKEN={TOKEN} ls"}, TOKEN)
    told_all = "\n".join(said(script.path))
    assert TOKEN[:12] not in told_all
    assert 3 == told_all.count("[masked: GitHub Token]")


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


def stretches(piece: Piece) -> list[tuple[str, int, int, int]]:
    """Return file, begin, end and seen of what a piece was read from."""
    return [(read.file, read.begin, read.end, read.seen) for read in piece.reads]


def test_a_transcript_that_shrank_is_another_one(script: Script) -> None:
    """It is read from its beginning, and what was asked for of the old one is done with."""
    script.user("new")
    size = script.path.stat().st_size
    piece = next_piece(ask(script.path, position=ReadPosition({"": 10_000}, 9_000), request_end=10_000))
    assert [("", 0, size, 10_000)] == stretches(piece)


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


BEFORE, LAST = "[kpt_001] says so; I look.", "Done, as [kpt_001] has it.\n"


@pytest.mark.parametrize("rater", ["none", "claude"])
def test_a_citation_before_a_tool_call_is_recorded(project: Path, client: Client, rater: str) -> None:
    """Once for each message, also where the hook of a turn's end recorded its last one, and with the time of it."""
    script = Script(kept(project) / "s1.jsonl").user("Fix it").agent(BEFORE).tool("Bash", {"command": "make"}, "ok")
    place = asked_for(project, script.agent(LAST))
    client.plans(answer())
    call({"hook_event_name": "Stop", "last_assistant_message": LAST.strip()})
    assert 1 == len(events(place, PointCited))
    for _ in range(2):
        assert 0 == run_here(["reflect", "--rater", rater])
    assert [PointCited("kpt_001", "message")] * 2 == events(place, PointCited)
    _, found = (row for row in commands.list_events(place) if row["kind"] == "point.cited")
    assert ("tallybook", "s1") == (found["by"]["rater"], found["by"]["session"])
    assert "2026-11-21T10:00:02.250000Z" == found["when"]


def test_a_citation_of_a_subagent_is_recorded_as_its_own(project: Path) -> None:
    """Under its id, so that the hook of its end and its transcript name the same message."""
    own = kept(project) / "s1" / "subagents" / "agent-a1.jsonl"
    Script(own, "s1", sidechain=True).user("Look").agent(BEFORE).agent(LAST)
    place = asked_for(project, Script(kept(project) / "s1.jsonl").user("Fix it"))
    call({"hook_event_name": "SubagentStop", "agent_id": "a1", "last_assistant_message": LAST.strip()})
    assert 0 == run_here(["reflect"])
    agents = [row["by"].get("agent") for row in commands.list_events(place) if row["kind"] == "point.cited"]
    assert ["a1", "a1"] == agents
