"""Transcripts as they are read: what was said, and nothing of what nobody said or what we said ourselves."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from helpers.transcripts import RECORDED, Script
from tallybook.compat import load_transcript
from tallybook.projections.surfaces.reflection.transcript import (
    CUT,
    MESSAGE_CHARS,
    TOOL_CHARS,
    files_of,
    format_turn,
    lines,
    shorten,
)

if TYPE_CHECKING:
    from pathlib import Path

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


@pytest.mark.parametrize("mark", ["isMeta", "isCompactSummary", "isVisibleInTranscriptOnly"])
def test_what_nobody_said_is_left_out(script: Script, mark: str) -> None:
    """Lines that the agent's program wrote for itself are no part of the conversation."""
    script.user("made up", **{mark: True}).user("said")
    assert ["User: said"] == said(script.path)


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


def test_the_playbook_is_taken_out_of_what_stands_around_it(script: Script) -> None:
    """Its lines go, whatever stands before and behind them stays, and a citation is none of them."""
    script.user("before\n[kpt_001] helpful=3 harmful=0 :: Use type hints\n<system-reminder>x</system-reminder>after")
    script.agent("as [kpt_001] says")
    assert ["User: before\n  \n  after", "Agent: as [kpt_001] says"] == said(script.path)


@pytest.mark.parametrize("asked", ["cat .claude/playbook.json", "tallybook show", "grep x .claude/ledger/events.jsonl"])
def test_an_answer_that_shows_the_playbook_is_left_out(script: Script, asked: str) -> None:
    """Whoever reads the playbook with a tool does not teach it to itself."""
    script.tool("Bash", {"command": asked}, "Use type hints").tool("Bash", {"command": "ls"}, "a.py")
    assert ["Tool answered: (the playbook, left out)", "Tool answered: a.py"] == said(script.path)[1::2]


@pytest.mark.parametrize(
    "block",
    [
        {"type": "thinking", "thinking": "hm"},
        {"type": "image", "source": {"data": "AAAA"}},
        {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "image", "source": {"data": "AAAA"}}]},
        {"type": "text", "text": 7},
        {"type": "text"},
        {"type": "of a later version", "text": "x"},
        "no block",
    ],
)
def test_blocks_that_say_nothing_are_passed_over(script: Script, block: Any) -> None:
    """Thoughts, pictures, and what is odd or unknown are no words of anybody."""
    script.line("assistant", [block, {"type": "text", "text": "said"}])
    assert ["Agent: said"] == said(script.path)


@pytest.mark.parametrize(
    "odd",
    [
        b"\n",
        b"not JSON\n",
        b'"a text"\n',
        b"\xff\xfe\n",
        b"[" * 100_000 + b"\n",
        b'{"type":"user"}\n',
        b'{"type":"user","message":"x"}\n',
        b'{"type":"user","message":{"content":7}}\n',
        b'{"type":"summary","summary":"x","leafUuid":"y"}\n',
        b'{"type":"system","content":"x","uuid":7}\n',
        b"\0" * 100 + b"\n",
    ],
    ids=range(11),
)
def test_an_odd_line_costs_itself_alone(script: Script, odd: bytes) -> None:
    """Whatever stands on a line, those around it are read."""
    script.user("before")
    script.path.write_bytes(script.path.read_bytes() + odd)
    script.user("after")
    assert ["User: before", "User: after"] == said(script.path)


def test_a_deeply_nested_answer_is_read(script: Script) -> None:
    """Its texts count, however deep they are: an error there would stop the reflection on every session."""
    deep: Any = "a.py"
    for _ in range(400):
        deep = [{"x": deep}]
    script.tool("Bash", {"command": deep}, deep)
    assert ["Agent used Bash: a.py", "Tool answered: a.py"] == said(script.path)


def test_a_half_written_last_line_is_left_for_later(script: Script) -> None:
    """It is read once it is whole, from where reading ended."""
    script.user("first")
    whole = script.path.read_bytes()
    end = [line.end for line in lines(script.path)]
    line = script.user("second").path.read_bytes()[len(whole) :]
    script.path.write_bytes(whole + line[:40])
    assert ([len(whole)], ["User: first"]) == (end, said(script.path))
    script.path.write_bytes(whole + line)
    assert ["User: second"] == said(script.path, end[0])


def test_offsets_meet(script: Script) -> None:
    """Each line begins where the one before it ends, whatever stands in it, up to the end of the file."""
    script.user("ä €\U0001f600\u2028x")
    script.path.write_bytes(script.path.read_bytes() + b"odd\n\n")
    script.agent("y")
    found = list(lines(script.path))
    assert [0, *(line.end for line in found[:-1])] == [line.begin for line in found]
    assert script.path.stat().st_size == found[-1].end


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


def test_a_short_text_stays_as_it_is() -> None:
    """Up to the bound nothing is cut."""
    assert "x" * 100 == shorten("x" * 100, 100)
    assert 100 == len(shorten("x" * 101, 100))


def test_secrets_are_masked_before_anything_is_cut(script: Script) -> None:
    """Neither a whole secret nor the half of one reaches a model, and a cut through the mask shows none of it."""
    cut_there = "x " * (MESSAGE_CHARS * 3 // 8 - 10) + TOKEN + " y" * MESSAGE_CHARS
    script.user(f"my token is {TOKEN}").user(cut_there).tool("Bash", {"command": f"TOKEN={TOKEN} ls"}, TOKEN)
    told_all = "\n".join(said(script.path))
    assert TOKEN[:12] not in told_all
    assert 3 == told_all.count("[masked: GitHub Token]")


def test_subagents_come_before_the_session_itself(tmp_path: Path) -> None:
    """So that where the session's own transcript is done with, all of it is."""
    for name in ("agent-b", "agent-a"):
        Script(tmp_path / "s1" / "subagents" / f"{name}.jsonl", sidechain=True).user(name)
    (tmp_path / "s1" / "subagents" / "notes.txt").write_text("x", encoding="utf-8")
    script = Script(tmp_path / "s1.jsonl").user("x")
    assert ["agent-a", "agent-b", ""] == list(files_of(script.path))


def test_the_function_of_the_specification_reads_the_messages_of_a_session() -> None:
    """load_transcript gives roles and words of people and agent, without what the agent's program wrote."""
    found = load_transcript(RECORDED / "77b0c1d2.jsonl")
    assert {"user", "assistant"} == {message["role"] for message in found}
    words = "\n".join(message["content"] for message in found)
    for left_out in ("compacted to a summary", "caveat", "half-written", "let me think"):
        assert left_out not in words


def test_the_recorded_session_is_json() -> None:
    """Each whole line of the fixture is what an agent writes: an object with a type."""
    raw = (RECORDED / "77b0c1d2.jsonl").read_bytes()
    assert not raw.endswith(b"\n")
    assert all("type" in json.loads(line) for line in raw.split(b"\n")[:-1])
