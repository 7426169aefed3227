"""The transcript of a session: its path, its lines as turns, and its numbers.

It consists of JSON lines, any of which may be damaged, and the last one unfinished. The module of the agent that wrote
a line reads it. Turns omit the texts of the agent's program, and the playbook itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from functools import cached_property
from itertools import islice
import os
from pathlib import Path
import re
from typing import Any, Final

import attrs

from tallybook.ledger import clock
from tallybook.ledger.events import Numbers
from tallybook.ledger.playbook_constants import MAX_INT
from tallybook.projections.surfaces.agents import table
from tallybook.projections.surfaces.agents.table import TranscriptEntry, Transcripts, text_of
from tallybook.projections.surfaces.hooks import handler
from tallybook.projections.surfaces.writing import secrets

MESSAGE_CHARS: Final = 4_000
"""Most characters of a message in a turn: its beginning and its end."""
TOOL_CHARS: Final = 1_000
"""Most characters of a tool's input or answer in a turn."""
MAX_LINE_BYTES: Final = 64 * 1024 * 1024
CUT: Final = " […] "

MESSAGE: Final = "message"
SUBAGENT: Final = table.SUBAGENT
_ECHOES: Final = ("<command-name>", "<command-message>", "<local-command-stdout>", "<local-command-stderr>")
_REMINDER: Final = re.compile(r"<system-reminder>.*?(?:</system-reminder>|\Z)", re.DOTALL)
_PLAYBOOK_LINE: Final = re.compile(r"^\s*\[[^\]\n]{1,200}\] helpful=\d+ harmful=\d+ ::.*$", re.MULTILINE)
# A tool that was asked for one of these may answer with the playbook; those of `tallybook mcp` are named after it.
_ASKS_FOR_PLAYBOOK: Final = re.compile(r"tallybook|playbook\.json|\.claude[\\/]+ledger")
_SHOWS_PLAYBOOK: Final = re.compile(r"playbook\.json|\.claude[\\/]+ledger|\"helpful\"\s*:\s*\d+\s*,\s*\"harmful\"\s*:")
# How many times the room of a text is searched for secrets: one that begins further from the cut leaves no part in it.
_SCREENED: Final = 8
_LEFT_OUT: Final = "(the playbook, left out)"


@attrs.frozen
class Turn:
    """A message, a use of a tool, or the answer of a tool.

    Attributes:
        role: ``user``, ``assistant``; ``use`` for the input of a tool, ``tool`` or ``error`` for its answer.
        text: Its text, shortened.
        where: MESSAGE, or the name of the tool.
        whole: The whole text if the agent wrote it, which is searched for citations; empty for other turns.
        occasion: What identifies a message of the agent in the idempotency key of its citations; empty for other turns.
    """

    role: str
    text: str
    where: str = MESSAGE
    whole: str = ""
    occasion: str = ""


@attrs.define
class TranscriptLine:
    """A line of a transcript.

    Attributes:
        begin: Where it begins in the file, in bytes.
        end: Where the next one begins.
        fields: Its JSON object, empty if it is damaged.
        entry: What it says.
        asked_ids: Ids of the uses of tools, in the lines read up to this one, that asked for the playbook.
        is_unknown: Whether it is of no form that is known.
    """

    begin: int
    end: int
    fields: Mapping[str, Any]
    entry: TranscriptEntry
    asked_ids: Collection[str]
    is_unknown: bool

    @cached_property
    def turns(self) -> tuple[Turn, ...]:
        """Return its turns, none for most kinds of lines."""
        turns = [_turn(block, self.entry.role, self.asked_ids) for block in self.entry.blocks]
        return tuple(turn for turn in turns if turn is not None and turn.text)


def folders() -> dict[Path, Transcripts]:
    """Return the agents' own folders of transcripts, and how to read those."""
    found: dict[Path, Transcripts] = {}
    for name, agent in table.AGENTS.items():
        if agent.transcripts:
            reader: Transcripts = table.load(name).TRANSCRIPTS._replace(agent=name)
            folder = Path(table.transcripts_folder(name))
            found[folder] = reader
            if reader.archive:
                found[folder.with_name(reader.archive)] = reader._replace(pattern=reader.pattern.rpartition("/")[2])
    return found


def find_in(folder: Path, reader: Transcripts, pattern: str = "") -> Iterator[Path]:
    """Yield the sessions' own transcripts in an agent's folder of them, or those of a pattern."""
    for ending in table.ENDINGS:
        yield from folder.glob((pattern or reader.pattern) + ending)


def locate(path: Path) -> Path:
    """Return where a transcript lies now: its agent may have packed or archived it; itself if it lies nowhere."""
    plain, reader = Path(os.fspath(path).removesuffix(table.PACKED)), reader_of(path)
    files = [plain]
    if reader.archive:
        files.append(Path(table.transcripts_folder(reader.agent)).with_name(reader.archive) / plain.name)
    places = (place for file in files for place in (file, Path(f"{file}{table.PACKED}")))
    return next(filter(is_here, places), path)


def is_here(path: Path) -> bool:
    """Return whether a transcript lies at a path, and can be looked at."""
    # `Path.is_file` fails where a folder may not be looked into, or a name is too long.
    return os.path.isfile(path)  # noqa: PTH113 - as said


def size_of(path: Path) -> int:
    """Return the length of a transcript as lines, in bytes: for a packed one, of what it holds.

    Raises:
        OSError: It cannot be read.
    """
    if path.suffix == ".jsonl":
        return path.stat().st_size
    with table.open_lines(os.fspath(path)) as file:
        return file.seek(0, os.SEEK_END)


def reader_of(path: Path) -> Transcripts:
    """Return how to read a transcript: by the agent's folder that it lies in, or elsewhere by its name."""
    known, real = folders(), path.resolve()
    inside = [reader for folder, reader in known.items() if real.is_relative_to(folder.resolve())]
    named = [reader for reader in known.values() if reader.name and path.name.startswith(reader.name)]
    return next(iter((*inside, *named, *known.values())))


def find_below(folder: Path) -> dict[Path, Transcripts]:
    """Return the sessions' own transcripts in a folder of any agent, at any of the depths where that agent has them.

    Where an agent has a folder for each project, it is the folder of one.
    """
    paths = {path: None for path in folder.iterdir() if path.suffix == ".jsonl"}
    for reader in folders().values():
        parts = reader.pattern.split("/")
        for begin in range(int(reader.is_per_project), len(parts)):
            if reader.name or begin < len(parts) - 1:
                paths |= dict.fromkeys(find_in(folder, reader, "/".join(parts[begin:])))
    readers = {path: reader_of(path) for path in paths if is_here(path)}
    files = {os.fspath(path): reader.subagents(os.fspath(path)) for path, reader in readers.items()}
    subagents = {Path(file) for found in files.values() for file in found.values()}
    return {path: reader for path, reader in readers.items() if path not in subagents}


def files_of(transcript: Path) -> dict[str, Path]:
    """Return a session's transcripts by their names in the ledger: its subagents' first, its own (``""``) last.

    So once its own is read to the end, nothing of the session is left.
    """
    subagents = reader_of(transcript).subagents(os.fspath(transcript))
    return {name: Path(path) for name, path in subagents.items()} | {"": transcript}


def lines(
    path: Path, begin: int = 0, reader: Transcripts | None = None, *, unfinished: bool = False
) -> Iterator[TranscriptLine]:
    """Yield the whole lines of a transcript from an offset on.

    Args:
        path: The transcript.
        begin: The offset, where a line begins.
        reader: How to read it; None for what its folder or its name says.
        unfinished: Whether a last line without an end counts; otherwise it is left for later.

    Raises:
        OSError: It cannot be read.
    """
    reader = reader or reader_of(path)
    seen: set[str] = set()
    asked_ids: set[str] = set()
    with table.open_lines(os.fspath(path)) as file:
        end = file.seek(0 if reader.may_repeat else begin)
        while data := file.readline(MAX_LINE_BYTES):
            start, is_whole = end, data.endswith(b"\n")
            if not is_whole and len(data) < MAX_LINE_BYTES and not unfinished:
                return
            # So long that it can only be damage: skipped up to its end.
            while not is_whole and (rest := file.readline(MAX_LINE_BYTES)):
                data, is_whole = b"", rest.endswith(b"\n")
            end, fields = file.tell(), table.parse_line(data)
            entry = reader.read_line(fields, seen)
            asked_ids.update(_ids_that_ask(entry))
            if end > begin:
                is_unknown = not data.isspace() and (not fields or entry.is_unknown)
                yield TranscriptLine(start, end, fields, entry, asked_ids, is_unknown)


def _ids_that_ask(entry: TranscriptEntry) -> Iterator[str]:
    """Yield the ids of the uses of tools that ask for the playbook."""
    for block in entry.blocks:
        if block.get("type") == "tool_use":
            asked = f"{block.get('name')} {table.collect_texts(block.get('input'))}"
            if _ASKS_FOR_PLAYBOOK.search(asked):
                yield str(block.get("id"))


def messages(path: Path) -> Iterator[dict[str, str]]:
    """Yield the messages of a transcript that hold text, whole, as ``{"role", "content"}``.

    Raises:
        OSError: It cannot be read.
    """
    for line in lines(path, unfinished=True):
        values = [block.get("text") for block in line.entry.blocks if block.get("type") == "text"]
        content = "\n".join(value for value in values if isinstance(value, str))
        if content and not content.lstrip().startswith(_ECHOES):
            yield {"role": line.entry.role, "content": content}


def _turn(block: Mapping[str, Any], role: str, asked_ids: Collection[str]) -> Turn | None:
    """Return the turn of a block, None for thoughts, pictures and unknown kinds.

    Args:
        block: The block.
        role: Who wrote the message.
        asked_ids: Ids of the uses of tools that asked for the playbook.
    """
    kind = block.get("type")
    if kind == "text" and isinstance(text := block.get("text"), str):
        own = remove_inserted(text)
        if role != "assistant":
            return Turn(role, _mask(own, MESSAGE_CHARS))
        return Turn(role, _mask(own, MESSAGE_CHARS), whole=own, occasion=handler.occasion_of(text))
    if kind == "tool_use":
        given = table.collect_texts(block.get("input"))
        return Turn("use", _mask(given, TOOL_CHARS), str(block.get("name") or "a tool")[:100], given)
    if kind == "tool_result":
        answer = table.collect_texts(block.get("content"))
        # An agent that reads the playbook with a tool must not teach it to itself.
        is_playbook = str(block.get("tool_use_id")) in asked_ids or _SHOWS_PLAYBOOK.search(answer)
        text = _LEFT_OUT if is_playbook else _mask(remove_inserted(answer), TOOL_CHARS)
        return Turn("error" if block.get("is_error") else "tool", text)
    return None


def remove_inserted(text: str) -> str:
    """Return a text without what the agent's program put in: reminders, echoes of commands, lines of the playbook."""
    if text.lstrip().startswith(_ECHOES):
        return ""
    # What was injected must not be learned again.
    return _PLAYBOOK_LINE.sub("", _REMINDER.sub("", text)).strip()


def _mask(text: str, max_chars: int) -> str:
    """Return a text shortened and without secrets; they are masked first, as half of one is not recognised."""
    return shorten(secrets.mask(shorten(text, _SCREENED * max_chars)), max_chars)


def shorten(text: str, max_chars: int) -> str:
    """Return a text of at most so many characters: three quarters of them from its beginning, the rest from its end."""
    if len(text) <= max_chars:
        return text
    room = max_chars - len(CUT)
    return text[: room - room // 4].rstrip() + CUT + text[len(text) - room // 4 :].lstrip()


SPEAKERS: Final = {
    "user": "User",
    "assistant": "Agent",
    "use": "Agent used {}",
    "tool": "Tool answered",
    "error": "Tool failed",
}
"""Role of a turn → how its line begins."""


def format_turn(turn: Turn, *, subagent: bool = False) -> str:
    """Return a turn as a model reads it; its further lines are indented, so that none can forge another turn."""
    speaker = SPEAKERS[turn.role].format(turn.where)
    text = "\n  ".join(turn.text.splitlines())
    return f"{'Subagent: ' if subagent else ''}{speaker}: {text}"


def format_message(role: str, content: str) -> str:
    """Return a message of `messages` as a model reads it: shortened, without secrets and lines of the playbook."""
    text = _mask(remove_inserted(content.encode("utf-8", "replace").decode()), MESSAGE_CHARS)
    return format_turn(Turn(role if role in SPEAKERS else "user", text))


# Sessions that begin with a copy of another one

# A transcript may begin with lines without an id.
_HEAD_LINES: Final = 100


def find_copied(path: Path, others: Iterable[Path]) -> Iterator[Path]:
    """Yield the transcripts that hold the first line of another one, which began as a copy of them.

    It is their first line too, or where Claude Code compacted the session, any.
    """
    with suppress(OSError):
        first = _first_line(path)
        for other in others if first else ():
            place = locate(other)
            before = _first_line(place) if other != path and is_here(place) else None
            if first and before and (before.entry.uuid == first.entry.uuid or _holds(place, first, path)):
                yield other


def find_copied_uuids(path: Path, others: Mapping[Path, float]) -> set[str]:
    """Return the ids of lines of the transcripts of which this one began as a copy.

    Args:
        path: The transcript.
        others: Other transcripts → up to which offset their lines count.

    Raises:
        OSError: One of them cannot be read.
    """
    copied = ((line, others[other]) for other in find_copied(path, others) for line in lines(locate(other)))
    return {line.entry.uuid for line, end in copied if line.entry.uuid and line.end <= end}


def _first_line(path: Path) -> TranscriptLine | None:
    """Return the first line of a transcript that has an id."""
    return next((line for line in islice(lines(path), _HEAD_LINES) if line.entry.uuid), None)


def _holds(place: Path, line: TranscriptLine, path: Path) -> bool:
    """Return whether a transcript in the same folder as another holds a line of it."""
    at = ledger_time(line.entry.at)
    # Most are of sessions that had ended before this one began, and are not opened.
    if at is None or place.parent != path.parent or place.stat().st_mtime_ns // 1000 < clock.to_unix_us(at):
        return False
    return f'"{line.entry.uuid}"'.encode() in place.read_bytes()


def ledger_time(at: str) -> str | None:
    """Return a transcript's time as the ledger writes it, None where it is not a time in UTC."""
    text = at.removesuffix("Z")
    text = f"{text if '.' in text else text + '.'}{'0' * 6}"
    try:
        return clock.moment(clock.to_unix_us(f"{text[:26]}Z")).at if at.endswith("Z") else None
    except (ValueError, OverflowError, OSError):
        return None


# What a transcript says of its session's work, in numbers alone: nothing of a prompt or a command is kept. Only the
# session's own part counts, not that of its subagents.

_COMMAND_CHARS: Final = 2_000
"""So much of a command is searched for a test runner."""
_WRAPPERS: Final = (
    r"(?:(?:uv|poetry|pipenv|hatch|pdm|rye) run|npx|bunx|pnpm exec|bundle exec|timeout \S+|nice|time|sudo)"
)
_RUNNERS: Final = (
    r"pytest|py\.test|tox|nox|jest|vitest|mocha|ava|rspec|phpunit|ctest|playwright test|cypress run|bats"
    r"|python[\d.]* -m (?:pytest|unittest|nose2|tox|nox)|(?:npm|pnpm|yarn|bun|deno)(?: run)? test\S*"
    r"|(?:go|cargo|dotnet|swift|mix|rake|rails|bazel|flutter|dart|zig build|meson|stack|cabal|sbt|lein) test"
    r"|cargo nextest run|make (?:\S+ )*(?:test\S*|check)|(?:gradlew?|mvnw?) (?:\S+ )*(?:\S*:)?(?:test|check|verify)"
)
# A command counts where it starts a test runner, and not where it names one.
_TEST: Final = re.compile(
    rf"(?:^|[;&|(\n]|\s-l?c\s+['\"]?)\s*(?:\w+=\S*\s+)*(?:{_WRAPPERS}\s+){{0,3}}(?:\S*/)?(?:{_RUNNERS})(?![\w.-])"
)
_INTERRUPTED: Final = "[Request interrupted by user"


@attrs.define
class _Tally:
    """What was counted so far.

    Attributes:
        prompts: How many a person gave.
        calls: Id of each call of a tool → whether it runs tests.
        failed: Ids of failed calls.
        aborted: How often a person interrupted.
        tokens: Id of each request to the model → tokens in and out; some clients write it on several lines.
        compactions: How many succeeded.
        seconds: From each prompt to the last line before the next.
        first_answer_s: From the first prompt to the first answer; None before it.
    """

    prompts: int = 0
    calls: dict[str, bool] = attrs.field(factory=dict)
    failed: set[str] = attrs.field(factory=set)
    aborted: int = 0
    tokens: dict[str, tuple[int, int]] = attrs.field(factory=dict)
    compactions: int = 0
    seconds: float = 0.0
    first_answer_s: float | None = None
    _at_s: float = 0.0
    _gap_s: float = 0.0

    def pass_time(self, at: str) -> None:
        """Take the time of a line."""
        self._gap_s = 0.0
        with suppress(ValueError, OverflowError, OSError):
            at_s = datetime.fromisoformat(at).timestamp()
            self._gap_s = max(0.0, at_s - (self._at_s or at_s))
            self._at_s = max(self._at_s, at_s)
        self.seconds += self._gap_s

    def add_message(self, entry: TranscriptEntry) -> None:
        """Count what a message has: prompts, calls, answers, failures and tokens."""
        self.tokens |= entry.tokens
        self.failed |= {*entry.failed}
        self.aborted += entry.event == table.ABORTED
        self.compactions += entry.event == table.COMPACTED
        for block in entry.blocks:
            kind, text = block.get("type"), text_of(block, "text")
            if kind == "tool_use":
                self.calls[str(block.get("id"))] = _runs_tests(block.get("input"))
            elif kind == "tool_result" and block.get("is_error") is True:
                self.failed.add(str(block.get("tool_use_id")))
            elif kind == "text" and entry.role == "user" and text.startswith(_INTERRUPTED):
                self.aborted += 1
            elif kind == "text" and entry.role == "user" and remove_inserted(text):
                # Nobody works before a prompt.
                self.seconds = self.seconds - self._gap_s if self.prompts else 0.0
                self.prompts += 1
            if entry.role == "assistant" and self.first_answer_s is None and self.prompts:
                self.first_answer_s = self.seconds

    def numbers(self, *, ended: bool) -> Numbers | None:
        """Return what was counted; None if there is neither a prompt nor a call, so that nothing was understood."""
        # A form that nobody understands must not pass for a session without failures.
        if not self.prompts and not self.calls:
            return None
        failed = self.failed & self.calls.keys()
        tests = [id_ for id_, runs_tests in self.calls.items() if runs_tests]
        found: dict[str, float] = {"prompts": self.prompts, "calls": len(self.calls)}
        found |= {"failed": len(failed), "aborted": self.aborted}
        if self.tokens:
            # A damaged line may have any number.
            sums = [min(MAX_INT, sum(tokens)) for tokens in zip(*self.tokens.values(), strict=True)]
            found["tokens_in"], found["tokens_out"] = sums
        found["seconds"] = round(self.seconds, 1)
        if self.first_answer_s is not None:
            found["first_answer_s"] = round(self.first_answer_s, 1)
        found |= {"compactions": self.compactions, "tests": len(tests), "tests_failed": len(failed.intersection(tests))}
        if tests:
            found["last_test_failed"] = tests[-1] in failed
        return Numbers(found | {"ended": ended})


def _runs_tests(given: object) -> bool:
    """Return whether a command runs tests: the input of a tool, as a text or as words."""
    command = (given.get("command") or given.get("cmd")) if isinstance(given, dict) else None
    text = " ".join(map(str, command)) if isinstance(command, list) else command
    return isinstance(text, str) and _TEST.search(text[:_COMMAND_CHARS]) is not None


def measure(path: Path, *, ended: bool, copied: Collection[str] = ()) -> Numbers | None:
    """Return the numbers of a session's own transcript, from its beginning; None if nothing of it was understood.

    Args:
        path: The transcript.
        ended: Whether the session has ended.
        copied: Ids of lines that were measured in another session, of which this one begins with a copy.

    Raises:
        OSError: It cannot be read.
    """
    tally = _Tally()
    for line in lines(path, unfinished=True):
        # What a branch copied was measured in the session that it came from.
        if not (line.entry.is_subagents or line.fields.get("forkedFrom") or line.entry.uuid in copied):
            # Not the time of a header: a resume writes another one.
            tally.pass_time(text_of(line.fields, "timestamp"))
            tally.add_message(line.entry)
    return tally.numbers(ended=ended)
