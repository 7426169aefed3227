"""Transcripts in other forms: packed, archived, as one document, in patches, and with turns that were taken back."""

from __future__ import annotations

import importlib
import json
import os
from pathlib import Path
import sys
from time import time
from typing import TYPE_CHECKING, Any

import pytest

from helpers.agent_sessions import CODEX, GEMINI
from helpers.authors import HUMAN
from helpers.hook_calls import events
from helpers.injections import give
from helpers.transcripts import Script, kept
from tallybook.ledger.events import PointCited, ReflectionFailed, ReflectionRequested
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.agents import codex
from tallybook.projections.surfaces.reflection import schedule, transcript, worker
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import record

if TYPE_CHECKING:
    from collections.abc import Callable

    from helpers.command_line import Run

zstd = importlib.import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
NONE = schedule.Plan()


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
    record.write(place, [schedule.reflection_request(session, path.stat().st_size, "Stop", str(path), "tallybook")])


def texts(path: Path) -> list[str]:
    """Return the turns of a transcript as a model reads them."""
    return [transcript.format_turn(turn) for line in transcript.lines(path) for turn in line.turns]


def write(path: Path, *rows: dict[str, Any]) -> Path:
    """Write a transcript."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


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
    more = {
        "type": "message",
        "id": "m9",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "[kpt_002]"}],
    }
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


def test_a_killed_session_is_found_in_a_packed_transcript(place: Project) -> None:
    """A session whose client was killed is found where Codex packed its transcript meanwhile."""
    path = pack(CODEX.put(place.root))
    for file in Path.home().joinpath(".codex").rglob("rollout-*"):
        os.utime(file, (time() - 3_600, time() - 3_600))
    assert worker.DONE == worker.work(place, NONE)
    assert [str(path)] == [one.transcript for one in events(place, ReflectionRequested)]
    assert CODEX.cited == len(events(place, PointCited))


@pytest.mark.parametrize("folder", ["sessions", "sessions/2026/11/23", "archived_sessions"])
def test_packed_transcripts_are_taken_from_a_folder(place: Project, folder: str, run: Run) -> None:
    """`reflect --from` takes packed transcripts, and archived ones, from any folder of Codex."""
    path = pack(CODEX.put(place.root))
    if folder == "archived_sessions":
        archive(path)
    home = Path.home() / ".codex"
    answer = run("reflect", "--from", str(home / folder), "--dry-run", "--rater", "claude")
    assert (0, True) == (answer.code, f"== session {CODEX.session}" in answer.out)


@pytest.mark.parametrize("data", [b"", b"not packed", zstd.compress(b"x" * 10_000)[:-8]], ids=["empty", "else", "cut"])
def test_a_packed_transcript_that_cannot_be_unpacked_stays_pending(place: Project, data: bytes) -> None:
    """A damaged file is said to be unreadable, and not to be gone."""
    path = CODEX.put(place.root)
    request(place, CODEX.session, path)
    pack(path).write_bytes(data)
    assert worker.DONE == worker.work(place, NONE)
    assert ["unavailable"] == [one.cause for one in events(place, ReflectionFailed)]
    assert [] == events(place, PointCited)
    assert not schedule.load_reflections(place).sessions[CODEX.session].is_transcript_gone


def test_without_the_library_a_packed_transcript_stays_pending(place: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is missing is named, and the session is read once it is installed."""
    path = CODEX.put(place.root)
    request(place, CODEX.session, path)
    pack(path)
    with monkeypatch.context() as patch:
        for name in ("compression", "backports"):
            patch.setitem(sys.modules, name, None)
        transcript._unpacked_size.cache_clear()
        assert worker.DONE == worker.work(place, NONE)
    (failed,) = events(place, ReflectionFailed)
    assert ("unavailable", True) == (failed.cause, "the package backports.zstd is not installed" in failed.reason)
    assert worker.DONE == worker.work(place, NONE)
    assert 0 < len(events(place, PointCited))


def message(uuid: str, kind: str, text: str) -> dict[str, Any]:
    """Return a message as Gemini writes it."""
    return {"id": uuid, "timestamp": "2026-11-23T12:00:00.000Z", "type": kind, "content": [{"text": text}]}


HEADER = {"sessionId": "g1", "projectHash": "x", "startTime": "2026-11-23T12:00:00.000Z", "kind": "main"}
CHATS = Path("shop", "chats")


def test_messages_that_lie_only_in_patches_are_read(tmp_path: Path) -> None:
    """A session of Gemini without a line for each message is read from its patches, each message once."""
    first, second = message("m1", "user", "Fix it"), message("m2", "gemini", "Done, as [kpt_001] says.")
    path = write(
        tmp_path / "session-x.jsonl", HEADER, {"$set": {"messages": [first]}}, {"$set": {"messages": [first, second]}}
    )
    expected = ["User: Fix it", "Agent: Done, as [kpt_001] says."]
    assert expected == texts(path)
    assert [one["content"] for one in transcript.messages(path)] == ["Fix it", "Done, as [kpt_001] says."]


def test_an_old_session_of_gemini_is_one_document(place: Project, run: Run) -> None:
    """A session in a `.json` file is found, read, and read on when it grows, or is written anew as lines."""
    folder = Path.home() / ".gemini" / "tmp" / CHATS
    path = folder / "session-2026-11-23T12-46-g1.json"
    path.parent.mkdir(parents=True)
    (folder.parent / ".project_root").write_text(str(place.root), encoding="utf-8")
    messages = [message("m1", "user", "Fix it"), message("m2", "gemini", "Done, as [kpt_001] says.")]
    path.write_text(json.dumps({**HEADER, "messages": messages}, indent=2), encoding="utf-8")
    give(place, "g1", "kpt_001", "kpt_002")
    dry = run("reflect", "--from", str(folder), "--dry-run", "--rater", "claude").out
    assert "User: Fix it\nAgent: Done, as [kpt_001] says." in dry
    request(place, "g1", path)
    assert worker.DONE == worker.work(place, NONE)
    assert ["kpt_001"] == [one.name for one in events(place, PointCited)]
    messages.append(message("m3", "gemini", "And [kpt_002]."))
    path.write_text(json.dumps({**HEADER, "messages": messages}, indent=2), encoding="utf-8")
    request(place, "g1", path)
    assert worker.DONE == worker.work(place, NONE)
    assert ["kpt_001", "kpt_002"] == [one.name for one in events(place, PointCited)]
    path.unlink()
    messages.append(message("m4", "gemini", "Again [kpt_001]!"))
    lines = [HEADER, *messages]
    path.with_suffix(".jsonl").write_text(
        "".join(json.dumps(one, separators=(",", ":")) + "\n" for one in lines), encoding="utf-8"
    )
    record.write(place, [schedule.reflection_request("g1", 10**6, "Stop", str(path), "tallybook")])
    assert 0 == run("reflect").code
    assert ["kpt_001", "kpt_002", "kpt_001"] == [one.name for one in events(place, PointCited)]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"messages": 7}', '{"messages": [7, null]}'])
def test_a_document_that_is_no_session_says_nothing(place: Project, text: str) -> None:
    """A damaged document fails in one line, or has no turns."""
    path = Path.home() / ".gemini" / "tmp" / CHATS / "session-x.json"
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    request(place, "g1", path)
    assert worker.DONE == worker.work(place, NONE)
    assert [] == events(place, PointCited)


def test_turns_that_gemini_took_back_are_not_read(tmp_path: Path) -> None:
    """Going back to a message removes it and all after it; to an unknown one, everything before."""
    rows = [message(f"m{number}", "user", f"say {number}") for number in range(6)]
    path = tmp_path / "session-x.jsonl"
    back = {"$rewindTo": "m1"}
    assert ["User: say 0", "User: say 3"] == texts(write(path, HEADER, *rows[:3], back, rows[3]))
    assert ["User: say 4"] == texts(write(path, HEADER, *rows[:3], {"$rewindTo": "gone"}, rows[4]))
    assert ["User: say 0"] == texts(write(path, HEADER, rows[0], {"$set": {"messages": rows[:2]}}, rows[1], back))


def item(role: str, text: str, number: int) -> dict[str, Any]:
    """Return a line of Codex with a message."""
    kind = "output_text" if role == "assistant" else "input_text"
    payload = {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}
    return {"timestamp": f"2026-11-23T12:00:{number:02d}.000Z", "type": "response_item", "payload": payload}


def test_turns_that_codex_took_back_are_not_read(tmp_path: Path) -> None:
    """A person who goes back removes so many of the last turns; more than there are remove them all."""
    rows = [item(role, f"{role} {number}", number) for number in range(3) for role in ("user", "assistant")]

    def back(turns: Any) -> dict[str, Any]:
        return {"type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": turns}}

    path = tmp_path / "rollout-2026-11-23T12-00-00-x.jsonl"
    first = ["User: user 0", "Agent: assistant 0"]
    again = item("user", "another way", 9)
    assert [*first, "User: another way"] == texts(write(path, *rows, back(2), again))
    assert ["User: another way"] == texts(write(path, *rows, back(9), again))
    assert [*first, "User: another way"] == texts(write(path, *rows[:4], back(1), again, back("x")))


def test_lines_that_are_not_understood_are_counted(place: Project, run: Run) -> None:
    """Damage and lines of an unknown form are counted in the answer; empty ones and the program's own are not."""
    script = Script(kept(place.root) / "s1.jsonl").user("Fix it")
    with script.path.open("a", encoding="utf-8") as file:
        file.write('{"damaged\n[]\n{"kind": "of another version"}\n\n')
    request(place, "s1", script.agent("Done").path)
    assert "3 lines not understood" in run("reflect").out
    path = CODEX.put(place.root)
    path.write_text(
        path.read_text(encoding="utf-8") + json.dumps({"type": "message", "role": "user"}) + "\n", encoding="utf-8"
    )
    request(place, CODEX.session, path)
    (piece,) = json.loads(run("reflect", "--json").out)["pieces"]
    assert 1 == piece["unknown"]


@pytest.mark.parametrize("recorded", [CODEX, GEMINI], ids=["Codex", "Gemini"])
def test_a_recorded_session_has_no_line_that_is_not_understood(place: Project, recorded: Any) -> None:
    """What the real clients wrote is understood line by line."""
    assert not any(line.is_unknown for line in transcript.lines(recorded.put(place.root)))
