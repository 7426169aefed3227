"""Transcripts of Codex, Gemini and Copilot: what was said once each, and nothing that their programs wrote."""

from __future__ import annotations

import json
from pathlib import Path
import shutil
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st
import pytest

from helpers.agent_sessions import CODEX, COMPACTED, COPILOT, GEMINI, LAST, SESSIONS
from helpers.json_values import JSON
from helpers.transcripts import RECORDED
from tallybook.compat import load_transcript
from tallybook.projections.reflections import ReadPosition
from tallybook.projections.surfaces.agents import codex, table
from tallybook.projections.surfaces.reflection.chunks import Unread, all_pieces
from tallybook.projections.surfaces.reflection.transcript import files_of, format_turn, lines, reader_of

if TYPE_CHECKING:
    from helpers.agent_sessions import RecordedSession

EACH = pytest.mark.parametrize("recorded", SESSIONS.values(), ids=SESSIONS)
TURN = {"turn_id": "01a20862-9d2b-7213-8aab-52133b1f3a90"}
TOOL = "mcp__tallybook__playbook"
OF_PROGRAMS = (
    "# Playbook",
    "Use these key points",
    "AGENTS.md instructions",
    "environment_context",
    "skills_instructions",
    "permissions instructions",
    "session_context",
    "hook_context",
    "subagent_notification",
    "SUMMARY",
    "Another language model",
    "thinking of",
    "current_datetime",
    "GitHub Copilot CLI",
    "AKIAIOSFODNN7EXAMPLE",
)
"""What the recorded files hold, and what no rater may read: the playbook, program texts, thoughts and a secret."""


def turns_of(path: Path, begin: int = 0, like: Path | None = None) -> list[str]:
    """Return the turns of one transcript from an offset on, read as another one is."""
    found = lines(path, begin, reader_of(like or path))
    return [format_turn(turn, subagent=line.sidechain) for line in found for turn in line.turns]


@EACH
def test_a_recorded_session_reads_as_it_was_said(recorded: RecordedSession) -> None:
    """The turns are those that a person found in the file, of the session and of its subagents."""
    path = RECORDED / recorded.path
    files = files_of(path)
    assert list(recorded.turns) == list(files)
    for name, expected in recorded.turns.items():
        said = turns_of(files[name], like=path)
        assert expected == [f"Subagent: {turn}" if name else turn for turn in said]


@EACH
def test_nothing_of_the_program_reaches_a_rater(recorded: RecordedSession) -> None:
    """Neither the playbook nor instructions, thoughts, summaries or secrets are among the turns."""
    raw = (RECORDED / recorded.path).read_text(encoding="utf-8")
    said = "\n".join(turn for path in files_of(RECORDED / recorded.path).values() for turn in turns_of(path))
    assert "# Playbook" in raw
    assert [] == [text for text in OF_PROGRAMS if text in said]


def test_the_recorded_files_hold_what_is_left_out() -> None:
    """Each text that must not reach a rater is in one of them, so its absence from the turns says something."""
    raw = "\n".join((RECORDED / one.path).read_text(encoding="utf-8") for one in SESSIONS.values())
    assert [] == [text for text in OF_PROGRAMS if text not in raw]


@EACH
@given(data=st.data())
def test_any_cut_into_reads_gives_the_same_turns(recorded: RecordedSession, data: st.DataObject) -> None:
    """A file that grows by any number of bytes at a time says each turn once, in the order of one read."""
    whole = (RECORDED / recorded.path).read_bytes()
    cuts = data.draw(st.lists(st.integers(0, len(whole)), max_size=6).map(sorted))
    folder = Path(table.transcripts_folder(recorded.agent)) / "cut"
    path = folder / Path(recorded.path).name
    path.parent.mkdir(parents=True, exist_ok=True)
    begin, said = 0, []
    for cut in (*cuts, len(whole)):
        path.write_bytes(whole[:cut])
        for line in lines(path, begin):
            said += [format_turn(turn, subagent=line.sidechain) for turn in line.turns]
            begin = line.end
    shutil.rmtree(folder)
    assert (recorded.turns[""], len(whole)) == (said, begin)


@EACH
@given(chars=st.integers(1, 3_000))
def test_any_size_of_pieces_gives_the_same_turns(recorded: RecordedSession, chars: int) -> None:
    """Subagents first; however much is asked at once, each turn is in one piece."""
    path = RECORDED / recorded.path
    unread = Unread(recorded.session, path, "claude", ReadPosition(), ReadPosition(), (), 1, (), max_chars=chars)
    turns = [turn for found in recorded.turns.values() for turn in found]
    assert "\n".join(turns) == "\n".join(piece.text for piece in all_pieces(unread) if piece.text)


@EACH
@given(data=st.data())
def test_odd_values_stop_no_reading(recorded: RecordedSession, data: st.DataObject) -> None:
    """Whatever a later version writes into a field, nothing fails, and every line is accounted for."""
    found = (RECORDED / recorded.path).read_bytes().splitlines(keepends=True)
    place = data.draw(st.integers(0, len(found) - 1))
    line = holder = json.loads(found[place])
    while True:
        key = data.draw(st.sampled_from(list(holder) if isinstance(holder, dict) else list(range(len(holder)))))
        if not holder[key] or not isinstance(holder[key], dict | list) or data.draw(st.booleans()):
            break
        holder = holder[key]
    holder[key] = data.draw(JSON)
    found[place] = json.dumps(line).encode() + b"\n"
    path = Path(table.transcripts_folder(recorded.agent)) / "odd" / Path(recorded.path).name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(found))
    assert len(found) == len(list(lines(path)))


@EACH
def test_damaged_lines_are_skipped(recorded: RecordedSession) -> None:
    """Between any two lines there may be something else, and the last one may be unfinished."""
    found = (RECORDED / recorded.path).read_bytes().splitlines(keepends=True)
    path = Path(table.transcripts_folder(recorded.agent)) / "damaged" / Path(recorded.path).name
    path.parent.mkdir(parents=True, exist_ok=True)
    odd = (b"not JSON\n", b"[1]\n", b'"x"\n', b"\xff\xfe\n", b"\0" * 50 + b"\n", b"[" * 50_000 + b"\n", b"\n")
    path.write_bytes(b"".join(odd[number % 7] + line for number, line in enumerate(found)) + found[-1][:20])
    assert recorded.turns[""] == turns_of(path)


def test_a_line_that_is_repeated_with_more_says_what_is_new(tmp_path: Path) -> None:
    """Gemini writes a message again when a tool has answered, and again in patches; each turn counts once."""
    begin = {"id": "m1", "timestamp": "2026-11-23T12:00:00Z", "type": "gemini", "content": "I look, by [kpt_001]."}
    asked = {"id": "c1", "name": "read_file", "args": {"path": "a.py"}, "status": "executing"}
    answer = {"functionResponse": {"id": "c1", "name": "read_file", "response": {"output": "no such file"}}}
    answered = {**asked, "status": "error", "result": [answer]}
    rows: list[dict[str, Any]] = [
        begin,
        begin | {"toolCalls": [asked]},
        begin | {"toolCalls": [answered]},
        {"id": "m2", "type": "user", "content": [answer]},
        {"$set": {"messages": [begin | {"toolCalls": [answered]}, {"id": "m9", "type": "user", "content": "made up"}]}},
    ]
    path = tmp_path / "session-x.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    expected = ["Agent: I look, by [kpt_001].", "Agent used read_file: a.py", "Tool failed: no such file"]
    assert expected == turns_of(path)
    ends = [line.end for line in lines(path)]
    assert [2, 1, 0, 0, 0] == [len(turns_of(path, end)) for end in ends]


def test_a_fork_that_repeats_earlier_items_says_them_once(tmp_path: Path) -> None:
    """Earlier versions of Codex copied the whole session into a fork, and a compaction could repeat its own items."""
    path = tmp_path / Path(CODEX.path).name
    raw = (RECORDED / CODEX.path).read_bytes()
    path.write_bytes(raw + raw)
    assert CODEX.turns[""] == turns_of(path)


def test_ids_that_a_models_server_counts_anew_are_told_apart() -> None:
    """The id of a line is made of the turn and of the item, as two sessions may both have a ``msg_1``."""
    uuids = [{line.uuid for line in lines(RECORDED / one.path)} - {""} for one in (CODEX, COMPACTED)]
    assert [] == sorted(uuids[0] & uuids[1])
    assert all(min(map(len, one)) > 30 for one in uuids)


def test_a_models_server_may_give_every_message_the_same_id(tmp_path: Path) -> None:
    """Only what is equal in id and text is a repetition."""
    path = tmp_path / "rollout-x.jsonl"
    own = {"type": "message", "role": "assistant", "id": "msg_0", "internal_chat_message_metadata_passthrough": TURN}
    items = [own | {"content": [{"type": "output_text", "text": text}]} for text in ("First", "Then", "Then")]
    rows = [json.dumps({"type": "response_item", "payload": item}) + "\n" for item in items]
    path.write_text("".join(rows), encoding="utf-8")
    assert ["Agent: First", "Agent: Then"] == turns_of(path)


def test_a_persons_text_that_older_versions_do_not_mark_is_told_from_the_programs(tmp_path: Path) -> None:
    """Without the kinds of its parts, a text counts as a person's unless it begins as a program's does."""
    path = tmp_path / "rollout-x.jsonl"
    texts = [*codex.PROGRAM_TEXTS, "Fix it"]
    parts = [{"type": "input_text", "text": text} for text in texts]
    item = {"type": "message", "role": "user", "content": parts}
    path.write_text(json.dumps({"type": "response_item", "payload": item}) + "\n", encoding="utf-8")
    assert ["User: Fix it"] == turns_of(path)


@pytest.mark.parametrize("source", ["skill", "skill-pdf", "system", "autopilot", "command"])
def test_a_message_that_copilot_puts_in_is_left_out(tmp_path: Path, source: str) -> None:
    """It says for each where it comes from; a person's and a subagent's task are kept."""
    path = tmp_path / "events.jsonl"
    sources: tuple[dict[str, str], ...] = ({"source": source}, {}, {"source": "user"}, {"source": "agent-s1"})
    rows = [{"type": "user.message", "data": {"content": f"from {one}", **one}} for one in sources]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert [f"User: from {one}" for one in sources[1:]] == turns_of(path)


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": "*** Begin"}, "apply_patch"),
        ({"type": "local_shell_call", "call_id": "c", "action": {"command": ["ls", "-l"]}}, "shell"),
        ({"type": "function_call", "call_id": "c", "name": "shell", "arguments": "not JSON"}, "shell"),
    ],
)
def test_each_kind_of_tool_is_a_use(tmp_path: Path, item: dict[str, Any], expected: str) -> None:
    """Codex writes a function's input as JSON in a text, a tool's of its own as it is, and a shell's as an object."""
    path = tmp_path / "rollout-x.jsonl"
    path.write_text(json.dumps({"type": "response_item", "payload": item}) + "\n", encoding="utf-8")
    (said,) = turns_of(path)
    assert said.startswith(f"Agent used {expected}: ")


ANSWER = {"functionResponse": {"id": "c", "response": {"output": "as"}}}
SERVER_USES: dict[str, list[dict[str, Any]]] = {
    "s1.jsonl": [
        {"type": "assistant", "message": {"content": [{"type": "tool_use", "id": "c", "name": TOOL}]}},
        {"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "c", "content": "x"}]}},
    ],
    "rollout-x.jsonl": [
        {"type": "response_item", "payload": {"type": "function_call", "call_id": "c", "name": TOOL}},
        {"type": "response_item", "payload": {"type": "function_call_output", "call_id": "c", "output": "as"}},
    ],
    "session-x.jsonl": [
        {"id": "m1", "type": "gemini", "toolCalls": [{"id": "c", "name": TOOL, "result": [ANSWER]}]},
    ],
    "events.jsonl": [
        {"type": "assistant.message", "data": {"toolRequests": [{"toolCallId": "c", "name": TOOL}]}},
        {"type": "tool.execution_complete", "data": {"toolCallId": "c", "result": {"content": "as"}}},
    ],
}
"""Name of a transcript → the lines with which its agent uses a tool of ``tallybook mcp``."""


@pytest.mark.parametrize(("name", "rows"), SERVER_USES.items(), ids=["Claude Code", "Codex", "Gemini", "Copilot"])
def test_an_answer_of_our_own_server_is_left_out(tmp_path: Path, name: str, rows: list[dict[str, Any]]) -> None:
    """What a model read of the playbook by a tool of ``tallybook mcp`` is not learned again, by no agent."""
    path = tmp_path / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert ["Tool answered: (the playbook, left out)"] == turns_of(path)


@EACH
def test_the_function_of_the_specification_reads_every_agent(recorded: RecordedSession) -> None:
    """load_transcript gives what people and the agent said, by the place or the name of the file."""
    found = load_transcript(RECORDED / recorded.path)
    turns = [turn.removeprefix("Subagent: ") for turn in recorded.turns[""]]
    said = [turn.partition(": ")[2] for turn in turns if turn.startswith(("User: ", "Agent: "))]
    own = [message["content"] for message in found if message["content"] in said]
    assert said == own
    assert {"user", "assistant"} == {message["role"] for message in found}


@pytest.mark.parametrize(
    ("recorded", "folder"), [(CODEX, ""), (GEMINI, "shop/chats"), (COPILOT, COPILOT.session)], ids=str
)
def test_a_session_is_known_by_its_file(recorded: RecordedSession, folder: str, tmp_path: Path) -> None:
    """Its id and the folder that it began in come from the file's name, its header, or the files next to it."""
    path = recorded.put(tmp_path / "my shop", tmp_path / "home")
    reader = reader_of(path)
    assert path.parent.as_posix().endswith(folder)
    assert (recorded.session, str(tmp_path / "my shop")) == (reader.session_of(str(path)), reader.folder_of(str(path)))
    assert LAST in "\n".join(turns_of(path))
