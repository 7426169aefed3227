"""Transcripts of each agent as turns, cut into pieces, with the citations in them; packed and old ones too."""

from __future__ import annotations

from collections.abc import Callable
import importlib
import json
from pathlib import Path
import shutil
import sys
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
import pytest

from helpers.agent_sessions import CODEX, GEMINI, SESSIONS, RecordedSession
from helpers.commands import Run
from helpers.events import HUMAN, give, list_events
from helpers.hook_calls import call, events
from helpers.reference_model import JSON
from helpers.sweep import slice_of
from helpers.transcripts import RECORDED, Script, ScriptedClient, answer, asked_for, find_transcripts
from tallybook.compat import load_transcript
from tallybook.ledger.events import PointCited, ReflectionFailed
from tallybook.projections.history.reflections import ReadPosition, ReflectedSession, Reflections
from tallybook.projections.surfaces.agents import codex, table
from tallybook.projections.surfaces.cli.main import run as run_here
from tallybook.projections.surfaces.reflection import transcript, worker
from tallybook.projections.surfaces.reflection.prompts import PIECE_CHARS, Unread, read_pieces
from tallybook.projections.surfaces.reflection.transcript import (
    CUT,
    MESSAGE_CHARS,
    TOOL_CHARS,
    files_of,
    format_turn,
    lines,
    reader_of,
)
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands, record

TOKEN = "ghp_" + "a1B2" * 9


def read_turns(path: Path, begin: int = 0, like: Path | None = None) -> list[str]:
    """Return the turns of one transcript from an offset on, read as another one is."""
    found = lines(path, begin, reader_of(like or path))
    return [format_turn(turn, subagent=line.entry.is_subagents) for line in found for turn in line.turns]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Return a transcript with nothing in it."""
    return Script(tmp_path / "s1.jsonl")


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
    assert ["Agent: after"] == read_turns(script.path)


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ("cat", '{"helpful": 3, "harmful": 0}'),
        ("cat", "wrote .claude/playbook.json"),
        ("cat .claude/playbook.json", ""),
        ("grep x .claude/ledger/events.jsonl", ""),
        ("tallybook show", ""),
    ],
)
def test_an_answer_that_shows_the_playbook_is_left_out(script: Script, asked: str, shown: str) -> None:
    """Whoever reads the playbook with a tool does not teach it to itself."""
    script.tool("Bash", {"command": asked}, f"Use type hints {shown}").tool("Bash", {"command": "ls"}, "a.py")
    assert ["Tool answered: (the playbook, left out)", "Tool answered: a.py"] == read_turns(script.path)[1::2]


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
    assert ["User: before", "User: after"] == read_turns(script.path)


def test_long_texts_keep_their_beginning_and_their_end(script: Script) -> None:
    """A message and a tool's answer are shortened to their bounds."""
    long = "begin " + "x" * 50_000 + " end"
    script.user(long).tool("Bash", {"command": long}, long)
    user, used, answered = read_turns(script.path)
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
    told_all = "\n".join(read_turns(script.path))
    assert TOKEN[:12] not in told_all
    assert 3 == told_all.count("[masked: GitHub Token]")


NAMES = {"kpt_001", "kpt_002"}


def ask(path: Path, max_chars: int = PIECE_CHARS, **fields: Any) -> Unread:
    """Return that all of a transcript is to be read by a model."""
    size = path.stat().st_size if path.exists() else 0
    session = ReflectedSession(str(path), **{"request_end": size, **fields})
    return Unread("s1", session, Reflections(), "claude", NAMES, max_chars, lambda names, _: names)


def test_a_transcript_that_shrank_is_another_one(script: Script) -> None:
    """It is read from its beginning, and what was asked for of the old one is done with."""
    script.user("new")
    size = script.path.stat().st_size
    piece = next(read_pieces(ask(script.path, reflected_to=ReadPosition({"": 10_000}, 9_000), request_end=10_000)))
    assert [("", 0, size, 10_000)] == [(read.file, read.begin, read.end, read.seen) for read in piece.reads]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=slice_of(40, 20))
@given(
    lengths=st.lists(st.integers(0, 300), min_size=1, max_size=12), chars=st.integers(1, 500), cut=st.integers(0, 40)
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
    found = list(read_pieces(ask(path, max_chars=chars)))
    words = "\n".join(piece.text for piece in found)
    assert [f"User: <{number}>" + "x" * length for number, length in enumerate(lengths)] == words.split("\n")
    assert path.stat().st_size == found[-1].reads[-1].seen
    assert found[-1].is_last


BEFORE, LAST_WORDS = "[kpt_001] says so; I look.", "Done, as [kpt_001] has it.\n"


@pytest.mark.parametrize("rater", ["none", "claude"])
def test_a_citation_before_a_tool_call_is_recorded(project: Path, client: ScriptedClient, rater: str) -> None:
    """Once for each message, also where the hook of a turn's end recorded its last one, and with the time of it."""
    script = Script(find_transcripts(project) / "s1.jsonl").user("Fix it").agent(BEFORE)
    place = asked_for(project, script.tool("Bash", {"command": "make"}, "ok").agent(LAST_WORDS))
    client.plans(answer())
    call({"hook_event_name": "Stop", "last_assistant_message": LAST_WORDS.strip()})
    assert 1 == len(events(place, PointCited))
    for _ in range(2):
        assert 0 == run_here(["reflect", "--rater", rater])
    assert [PointCited("kpt_001", "message")] * 2 == events(place, PointCited)
    _, found = (row for row in list_events(place) if row["kind"] == "point.cited")
    assert ("tallybook", "s1") == (found["by"]["rater"], found["by"]["session"])
    assert "2026-11-21T10:00:02.250000Z" == found["when"]


def test_a_citation_of_a_subagent_is_recorded_as_its_own(project: Path) -> None:
    """Under its id, so that the hook of its end and its transcript name the same message."""
    own = find_transcripts(project) / "s1" / "subagents" / "agent-a1.jsonl"
    Script(own, "s1", sidechain=True).user("Look").agent(BEFORE).agent(LAST_WORDS)
    place = asked_for(project, Script(find_transcripts(project) / "s1.jsonl").user("Fix it"))
    call({"hook_event_name": "SubagentStop", "agent_id": "a1", "last_assistant_message": LAST_WORDS.strip()})
    assert 0 == run_here(["reflect"])
    agents = [row["by"].get("agent") for row in list_events(place) if row["kind"] == "point.cited"]
    assert ["a1", "a1"] == agents


EACH = pytest.mark.parametrize("recorded", SESSIONS.values(), ids=SESSIONS)


@EACH
def test_a_recorded_session_reads_as_it_was_said(recorded: RecordedSession) -> None:
    """The turns are those that a person found in the file, of the session and of its subagents."""
    path = RECORDED / recorded.path
    files = files_of(path)
    assert list(recorded.turns) == list(files)
    for name, expected in recorded.turns.items():
        turns = read_turns(files[name], like=path)
        assert expected == [f"Subagent: {turn}" if name else turn for turn in turns]


@EACH
@given(data=st.data())
def test_any_cut_into_reads_gives_the_same_turns(recorded: RecordedSession, data: st.DataObject) -> None:
    """A file that grows by any number of bytes at a time says each turn once, in the order of one read."""
    whole = (RECORDED / recorded.path).read_bytes()
    cuts = data.draw(st.lists(st.integers(0, len(whole)), max_size=6).map(sorted))
    folder = Path(table.transcripts_folder(recorded.agent)) / "cut"
    path = folder / Path(recorded.path).name
    path.parent.mkdir(parents=True, exist_ok=True)
    begin, turns = 0, []
    for cut in (*cuts, len(whole)):
        path.write_bytes(whole[:cut])
        for line in lines(path, begin):
            turns += [format_turn(turn, subagent=line.entry.is_subagents) for turn in line.turns]
            begin = line.end
    shutil.rmtree(folder)
    assert (recorded.turns[""], len(whole)) == (turns, begin)


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
    assert expected == read_turns(path)
    ends = [line.end for line in lines(path)]
    assert [2, 1, 0, 0, 0] == [len(read_turns(path, end)) for end in ends]


def test_a_fork_that_repeats_earlier_items_says_them_once(tmp_path: Path) -> None:
    """Earlier versions of Codex copied the whole session into a fork, and a compaction could repeat its own items."""
    path = tmp_path / Path(CODEX.path).name
    raw = (RECORDED / CODEX.path).read_bytes()
    path.write_bytes(raw + raw)
    assert CODEX.turns[""] == read_turns(path)


@EACH
def test_the_function_of_the_specification_reads_every_agent(recorded: RecordedSession) -> None:
    """load_transcript gives what people and the agent said, by the place or the name of the file."""
    found = load_transcript(RECORDED / recorded.path)
    turns = [turn.removeprefix("Subagent: ") for turn in recorded.turns[""]]
    words = [turn.partition(": ")[2] for turn in turns if turn.startswith(("User: ", "Agent: "))]
    own = [message["content"] for message in found if message["content"] in words]
    assert words == own
    assert {"user", "assistant"} == {message["role"] for message in found}


zstd = importlib.import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
NONE = worker.Plan()


@pytest.fixture
def place(project: Path) -> Project:
    """Return a project with two entries, which the recorded sessions were given."""
    made = Project(project)
    for text in ("Use type hints", "Run the tests first"):
        commands.add(made, text, HUMAN)
    for recorded in (CODEX, GEMINI):
        give(made, recorded.session, "kpt_001", "kpt_002")
    return made


def pack(path: Path) -> Path:
    """Pack a transcript as Codex does a week later."""
    packed = path.with_name(f"{path.name}.zst")
    packed.write_bytes(zstd.compress(path.read_bytes()))
    path.unlink()
    return packed


def archive(path: Path) -> Path:
    """Move a transcript to where Codex keeps archived ones."""
    folder = Path.home() / ".codex" / "archived_sessions"
    folder.mkdir(exist_ok=True)
    return path.rename(folder / path.name)


def request(place: Project, session: str, path: Path) -> None:
    """Request reflection on a session, as the hook of its end does."""
    record.write(place, [worker.reflection_request(session, path.stat().st_size, "Stop", str(path), "tallybook")])


MOVES: dict[str, Callable[[Path], Path]] = {
    "packed": pack,
    "archived": archive,
    "archived and packed": lambda path: pack(archive(path)),
    "packed and archived": lambda path: archive(pack(path)),
}


@pytest.mark.parametrize("move", MOVES)
def test_a_pending_session_of_codex_is_read_where_its_transcript_lies_now(place: Project, move: str, run: Run) -> None:
    """A transcript that was packed or archived before reflection, with its subagent's, is read whole and once."""
    path = CODEX.put(place.root)
    subagent = transcript.files_of(path)[f"agent-{codex.session_of(CODEX.subagent)}"]
    request(place, CODEX.session, path)
    for file in (path, subagent):
        MOVES[move](file)
    assert not path.exists()
    assert 0 == run("reflect", "--dry-run", "--rater", "claude").code
    for _ in range(2):
        assert worker.DONE == worker.work(place, NONE)
    assert (CODEX.cited, []) == (len(events(place, PointCited)), events(place, ReflectionFailed))
    assert "deleted before reflection" not in run("doctor").out


def test_reading_goes_on_where_it_stopped_before_the_transcript_was_packed(place: Project) -> None:
    """A position in a transcript is one in its lines, packed or not; an unpacked one that came back is no new file."""
    path = CODEX.put(place.root)
    request(place, CODEX.session, path)
    assert worker.DONE == worker.work(place, NONE)
    cited = len(events(place, PointCited))
    size = path.stat().st_size
    content = [{"type": "output_text", "text": "[kpt_002]"}]
    more = {"type": "message", "id": "m9", "role": "assistant", "content": content}
    line = {"timestamp": "2026-11-23T13:00:00.000Z", "type": "response_item", "payload": more}
    path.write_bytes(path.read_bytes() + json.dumps(line).encode() + b"\n")
    request(place, CODEX.session, path)
    packed = pack(path)
    assert size < transcript.size_of(packed)
    assert worker.DONE == worker.work(place, NONE)
    assert cited + 1 == len(events(place, PointCited))
    path.write_bytes(zstd.decompress(packed.read_bytes()))
    packed.unlink()
    assert worker.DONE == worker.work(place, NONE)
    assert cited + 1 == len(events(place, PointCited))


@pytest.mark.parametrize("data", [b"", b"not packed", zstd.compress(b"x" * 10_000)[:-8]], ids=["empty", "else", "cut"])
def test_a_packed_transcript_that_cannot_be_unpacked_stays_pending(place: Project, data: bytes) -> None:
    """A damaged file is said to be unreadable, and not to be gone."""
    path = CODEX.put(place.root)
    request(place, CODEX.session, path)
    pack(path).write_bytes(data)
    assert worker.DONE == worker.work(place, NONE)
    assert ["unavailable"] == [event.cause for event in events(place, ReflectionFailed)]
    assert [] == events(place, PointCited)
    assert not worker.load_reflections(place).sessions[CODEX.session].is_transcript_gone
