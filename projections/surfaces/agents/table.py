"""The table of agents, and how to tell which of them called a hook or runs this shell.

The caller is told from the payload and the environment: agents run each other's settings files and inherit each other's
variables, so neither the file that names a hook nor one variable says who calls it.

What an agent types is the agent's: it is recorded as such and screened for secrets, and never is a person's consent.
"""

from __future__ import annotations

from contextlib import contextmanager
from errno import EIO, ENOTSUP
from itertools import islice
import os
import sys

from tallybook.ledger.errors import EXIT_NO, TallybookError
from tallybook.ledger.fast_stdlib import NamedTuple, dumps, loads

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from types import ModuleType
    from typing import Any, BinaryIO

    Document = Mapping[str, Any]
    """A JSON object: a payload, or a line of a transcript."""
    Block = dict[str, Any]
    """A block of a message, as Claude Code writes it."""


class Payload(NamedTuple):
    """What happened in a session.

    Attributes:
        event: The event by its name in Claude Code, a key of ACTIONS; empty if it means nothing to Tallybook.
        session: The session's id, empty if it has none.
        folder: The folder that the agent works in, empty if it is not given.
        transcript: Path of the session's transcript, empty without one.
        source: Why a session begins: startup, resume, clear, compact, fork, new; empty for other events.
        subagent: Id of the subagent that it happened in, empty in the session itself.
        text: The agent's last message, the input of a tool, or a person's prompt.
        where: ``message``, or the name of the tool.
        occasion: An id that is unique in the session, such as the tool call's; empty if there is none.
        prompt: Id of the prompt that it happened at, empty if the agent gives none.
        name: The event by the agent's own name, which an answer repeats.
        agent: The caller, a key of AGENTS; empty if it was not recognised.
    """

    event: str
    session: str
    folder: str = ""
    transcript: str = ""
    source: str = ""
    subagent: str = ""
    text: str = ""
    where: str = "message"
    occasion: str = ""
    prompt: str = ""
    name: str = ""
    agent: str = ""

    @property
    def by(self) -> dict[str, str]:
        """Return the author of the event, as the ledger writes it."""
        by = {"rater": "tallybook", "session": self.session, "agent": self.subagent}
        return {field: value for field, value in by.items() if value}


class TranscriptEntry(NamedTuple):
    """What one line of a transcript says, in the form of Claude Code's messages.

    Attributes:
        role: Who wrote its texts: ``user`` or ``assistant``.
        blocks: Its blocks of the types ``text``, ``tool_use`` and ``tool_result``; none if only the program wrote it.
        uuid: The line's own id, which no other session has unless it copies the line; empty without one.
        at: When it was written, as it is there; empty without one.
        is_subagents: Whether a subagent wrote it.
        subagent: That subagent's id; empty if the line does not name it.
        is_unknown: Whether the line is of no form that is known.
        tokens: Id of a request to the model → its tokens in and out; an agent may write it on several lines.
        failed: Ids of calls of tools that failed, where that is not in the answer of the tool.
        event: ABORTED, COMPACTED, or empty.
    """

    role: str = "user"
    blocks: Sequence[Document] = ()
    uuid: str = ""
    at: str = ""
    is_subagents: bool = False
    subagent: str = ""
    is_unknown: bool = False
    tokens: Mapping[str, tuple[int, int]] = {}
    failed: Sequence[str] = ()
    event: str = ""


class Transcripts(NamedTuple):
    """How to find and read an agent's transcripts.

    Attributes:
        pattern: The sessions' own transcripts, below the agent's folder of them, without the endings of their names.
        read_line: Returns what a line says, from its JSON object and the set of what earlier lines of the file said, to
            which it adds: an agent that writes something twice is read as if it wrote it once.
        session_of: Returns the id of the session that a file is the own transcript of; empty if it is none.
        folder_of: Returns the folder that the session began in; empty if the files do not say.
        name: How the name of such a file begins; empty if any name can be one.
        may_repeat: Whether a line may repeat any earlier one, so that a file is always read from its beginning.
        subagents: Returns the transcripts of the session's subagents by their names in the ledger: SUBAGENT and an id.
        is_per_project: Whether a folder of transcripts holds those of one project.
        parent_of: Returns the session that a file's session is a fork of; empty if it is none, or the files do not say.
        archive: Folder next to the agent's folder of transcripts in which it puts some of them; empty if there is none.
        agent: The agent's name, which `transcript.folders` adds.
    """

    pattern: str
    read_line: Callable[[Document, set[str]], TranscriptEntry]
    session_of: Callable[[str], str]
    folder_of: Callable[[str], str]
    name: str = ""
    may_repeat: bool = False
    subagents: Callable[[str], dict[str, str]] = lambda _: {}
    is_per_project: bool = False
    parent_of: Callable[[str], str] = lambda _: ""
    archive: str = ""
    agent: str = ""


_HEAD_LINES = 100
_MAX_TOKENS = 10**12
"""A damaged number of tokens can have any size."""
ABORTED, COMPACTED = "aborted", "compacted"
"""What a line of a transcript says besides messages: that a person interrupted, or that a compaction succeeded."""
SUBAGENT = "agent-"
"""How the name of a subagent's transcript begins in the ledger."""


def text_of(document: Document, *fields: str) -> str:
    """Return the first of these fields that holds a text, empty without one."""
    return next((value for field in fields if isinstance(value := document.get(field), str)), "")


def collect_texts(value: object) -> str:
    """Return the texts in a JSON value, in order, a line each, without keys and types, pictures and documents."""
    texts, stack = [], [value]
    while stack:
        inner = stack.pop()
        if isinstance(inner, str):
            texts.append(inner)
        elif isinstance(inner, list):
            stack += reversed(inner)
        elif isinstance(inner, dict) and inner.get("type") not in ("image", "document"):
            stack += reversed([part for field, part in inner.items() if field != "type"])
    return "\n".join(texts)


def count_tokens(usage: Document, sent: Iterable[str], answered: Iterable[str]) -> tuple[int, int]:
    """Return input and output tokens, the sums of these fields of what a provider tells."""

    def count(names: Iterable[str]) -> int:
        numbers = (usage.get(name) for name in names)
        return min(sum(number for number in numbers if type(number) is int and number > 0), _MAX_TOKENS)

    return count(sent), count(answered)


def object_of(document: Document, field: str) -> Document:
    """Return the object in a field, an empty one without one."""
    value = document.get(field)
    return value if isinstance(value, dict) else {}


def list_of(document: Document, field: str) -> list[Any]:
    """Return the list in a field, an empty one without one."""
    value = document.get(field)
    return value if isinstance(value, list) else []


def first_lines(path: str) -> Iterator[Document]:
    """Yield the JSON objects on the first lines of a transcript, an empty one where there is none."""
    try:
        with open_lines(path) as file:
            yield from map(parse_line, islice(file, _HEAD_LINES))
    except OSError:
        yield {}


def first_text(path: str, *fields: str) -> str:
    """Return the text that lies under these fields, each in the one before, on the first line of a file; often none."""
    found = next(first_lines(path), {})
    for field in fields[:-1]:
        found = object_of(found, field)
    return text_of(found, fields[-1])


PACKED = ".zst"
"""Ending of the name of a file that Zstandard compressed."""
ENDINGS = (".jsonl", ".jsonl" + PACKED)
"""How the names of transcripts end."""


@contextmanager
def open_lines(path: str) -> Iterator[BinaryIO]:
    """Open a transcript as lines of JSON objects, packed or not.

    Raises:
        OSError: It cannot be read, or not be unpacked.
    """
    if path.endswith(PACKED):
        with _open_packed(path) as file:
            yield file
    else:
        with open(path, "rb") as file:
            yield file


@contextmanager
def _open_packed(path: str) -> Iterator[BinaryIO]:
    try:
        # Python has it since 3.14.
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        try:
            from backports import zstd  # type: ignore[import-not-found,no-redef,unused-ignore]
        except ImportError as error:
            raise OSError(ENOTSUP, "it is packed, and the package backports.zstd is not installed", path) from error
    try:
        with zstd.open(path) as file:
            yield file
    except (EOFError, zstd.ZstdError) as error:
        raise OSError(EIO, f"it cannot be unpacked: {error}", path) from error


def parse_line(data: bytes) -> Document:
    """Return the JSON object on a line, of texts that UTF-8 can encode.

    It is empty for anything else, as for a line that is still being written.
    """
    try:
        value = loads(data.decode("utf-8", "replace").removeprefix("\ufeff"))
        # Agents cut emoji in two, and UTF-8 has no halves.
        if b"\\ud" in data or b"\\uD" in data:
            value = loads(dumps(value).encode("utf-8", "replace").decode())
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def is_plain_name(name: str) -> bool:
    """Return whether a text can be the name of a file, and leads out of no folder."""
    return bool(name) and not {"/", "\\", "\0"}.intersection(name) and name not in {".", ".."}


def transcript_files(folder: str) -> list[str]:
    """Return the names of the transcripts in a folder, sorted; none if it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.name.endswith(ENDINGS) and entry.is_file())
    except OSError:
        return []


# The table, and who calls


class Agent(NamedTuple):
    """The facts about an agent; the module of its name has the code that reads its payloads and transcripts.

    Attributes:
        session_variable: Variable that holds the id of the session whose hook it calls, which is proof; empty if none.
        variables: Variables that it sets for its hooks. Agents that are started in its shell inherit them.
        fields: Fields that only its payloads have.
        has_timestamp: Whether each of its payloads has a ``timestamp``; None if that is not known.
        home: The variable that names its folder of a user, empty if none does, and that folder below the home folder.
        transcripts: The folder of transcripts in there; empty if it is not known.
        shell_variables: Variables that it sets for its commands.
        shell_session: The one of those that holds the session's id; empty for ``session_variable``, or if none does.
        reads: The files in the folder of a project that it reads at the start of a session.
        injects_at: The events, by their names in Claude Code, whose answers give the model context; empty if no answer
            of it is known to do so.
        max_size: The longest text that it passes on whole, by ``size``.
        counts_bytes: Whether it measures a text in bytes of UTF-8, and not in units of UTF-16 as JavaScript does.
        has_flat_answer: Whether it takes an answer without the event's name around the text.
        awaits_at_stop: Whether a session awaits reflection after each stop, because the agent may end without a hook.
        shows_message: Whether it shows a person, and no model, the ``systemMessage`` of an answer to a session's start.
        reports_compacted: Whether it reports that a session goes on after a compaction. Otherwise the first prompt
            after PreCompact counts as that report.
    """

    session_variable: str = ""
    variables: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    has_timestamp: bool | None = False
    home: tuple[str, str] = ("", "")
    transcripts: str = ""
    shell_variables: tuple[str, ...] = ()
    shell_session: str = ""
    reads: tuple[str, ...] = ()
    injects_at: tuple[str, ...] = ()
    max_size: int = 0
    counts_bytes: bool = False
    has_flat_answer: bool = False
    awaits_at_stop: bool = False
    shows_message: bool = False
    reports_compacted: bool = True

    def size(self, text: str) -> int:
        """Return the length of a text as the agent measures it."""
        if self.counts_bytes:
            return len(text.encode("utf-8", "replace"))
        # A character beyond the first 65,536 counts twice.
        return len(text) if text.isascii() else len(text.encode("utf-16-le", "replace")) // 2

    def answer(self, event: str, text: str) -> str:
        """Return the answer that gives the model a text, from the event's own name and the text."""
        # Copilot ignores the nested shape, and Codex fails a hook whose answer has both.
        if self.has_flat_answer:
            return dumps({"additionalContext": text})
        return dumps({"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}})


CLAUDE = "claude"
AGENTS_MD = "AGENTS.md"
CURSOR_RULES = ".cursor/rules/tallybook.mdc"
AGENTS: dict[str, Agent] = {
    # Gemini and Copilot set CLAUDE_PROJECT_DIR as well, so it is no mark.
    CLAUDE: Agent(
        session_variable="CLAUDE_CODE_SESSION_ID",
        fields=("prompt_id",),
        home=("CLAUDE_CONFIG_DIR", ".claude"),
        transcripts="projects",
        shell_variables=("CLAUDECODE", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_CHILD_SESSION"),
        reads=("CLAUDE.md",),
        injects_at=("SessionStart", "UserPromptSubmit", "PreToolUse", "SubagentStart"),
        # A longer text goes into a file, and the model sees its beginning.
        max_size=10_000,
        # Not awaits_at_stop: it reports the end even where the terminal hangs up; of a killed session the transcript is
        # found later.
        shows_message=True,
    ),
    # At the start and the end of a session only the path of the transcript says that Codex calls.
    "codex": Agent(
        fields=("turn_id",),
        home=("CODEX_HOME", ".codex"),
        transcripts="sessions",
        shell_variables=("CODEX_THREAD_ID", "CODEX_SESSION_ID", "CODEX_CI", "CODEX_SANDBOX"),
        shell_session="CODEX_THREAD_ID",
        reads=(AGENTS_MD,),
        injects_at=("SessionStart", "UserPromptSubmit", "PreToolUse"),
        # 2,500 tokens of four bytes each; of a longer text the model sees the beginning and the end.
        max_size=10_000,
        counts_bytes=True,
        # Its terminal interface leaves the session to a daemon when a person quits.
        awaits_at_stop=True,
        shows_message=True,
    ),
    "gemini": Agent(
        session_variable="GEMINI_SESSION_ID",
        variables=("GEMINI_SESSION_ID",),
        has_timestamp=True,
        home=("", ".gemini"),
        transcripts="tmp",
        shell_variables=("GEMINI_CLI", "GEMINI_SESSION_ID"),
        reads=("GEMINI.md",),
        # At a session's start the text would precede the first prompt, break a command there, and be lost on --resume.
        injects_at=("UserPromptSubmit",),
        # No limit was met with 200,000 characters.
        max_size=200_000,
        # It does not wait for the hook of its end.
        awaits_at_stop=True,
        shows_message=True,
    ),
    "copilot": Agent(
        variables=("COPILOT_CLI",),
        fields=("initial_prompt", "initialPrompt", "sessionId"),
        has_timestamp=True,
        home=("COPILOT_HOME", ".copilot"),
        transcripts="session-state",
        shell_variables=("COPILOT_CLI",),
        reads=(AGENTS_MD,),
        # What a session's start adds is lost when the session is resumed; what a prompt adds stays until a compaction.
        injects_at=("UserPromptSubmit", "SubagentStart"),
        # No limit was met with 200,000 characters.
        max_size=200_000,
        has_flat_answer=True,
        # It may end without calling a hook.
        awaits_at_stop=True,
        # It calls PreCompact, and nothing when the compaction is done.
        reports_compacted=False,
    ),
    # No answer of its hooks is known to reach the model.
    "cursor": Agent(
        variables=("CURSOR_VERSION",),
        fields=("conversation_id", "workspace_roots"),
        has_timestamp=None,
        home=("", ".cursor"),
        shell_variables=("CURSOR_AGENT", "CURSOR_VERSION"),
        reads=(AGENTS_MD, CURSOR_RULES),
    ),
}
"""Name of an agent → its row."""

FOREIGN_FIELDS = ("hookEventName",)
"""Fields of the payloads of agents that are not in the table: of Visual Studio Code."""


def load(name: str) -> ModuleType:
    """Return an agent's module, which is loaded only now, because a hook needs one of them.

    It has ``read``, which returns a payload from its JSON object: a field that is missing or not a text is empty;
    ``TRANSCRIPTS`` if the agent's transcripts are known; ``is_unattended`` if the agent says so of a session.
    """
    module = f"{__package__}.{name}"
    __import__(module)
    return sys.modules[module]


def is_unattended(payload: Payload) -> bool:
    """Return whether no person watches the session of a payload; False where its agent does not say."""
    says: Callable[[Payload], bool] | None = getattr(load(payload.agent), "is_unattended", None)
    return says is not None and says(payload)


def transcripts_folder(name: str) -> str:
    """Return the folder where an agent keeps its transcripts, empty if it is not known."""
    (variable, folder), below = AGENTS[name].home, AGENTS[name].transcripts
    users = os.environ.get(variable) or os.path.join(os.path.expanduser("~"), folder)
    return os.path.join(users, below) if below else ""


def recognise(document: Document) -> str:
    """Return who calls, a key of AGENTS; empty if that is not known.

    A session's id in the environment that equals the payload's is proof: then inherited marks of others do not count.
    Otherwise the payload decides, and the environment only where the payload does not. Marks that contradict each
    other decide nothing. A payload of Claude Code's shape without any mark is Claude Code's, or Codex's if it says that
    there is no transcript.
    """
    session = document.get("session_id")
    proven = [name for name, row in AGENTS.items() if session and session == os.environ.get(row.session_variable)]
    if len(proven) == 1:
        return proven[0]
    if any(field in document for field in FOREIGN_FIELDS):
        return ""
    path, by_payload = text_of(document, "transcript_path", "transcriptPath"), []
    for name, row in AGENTS.items():
        folder = transcripts_folder(name)
        is_its_file = folder and path.startswith(os.path.join(folder, ""))
        if is_its_file or any(field in document for field in row.fields):
            by_payload.append(name)
    by_variable = [name for name, row in AGENTS.items() if any(map(os.environ.get, row.variables))]
    # Codex has no transcript of a session that it does not save, and the start of one has no field of its own.
    unmarked = CLAUDE if document.get("transcript_path", "") is not None else "codex"
    agent, *others = by_payload or by_variable or [unmarked]
    if others or by_payload:
        return "" if others else agent
    row, has_timestamp = AGENTS[agent], "timestamp" in document
    # A variable that names another session was inherited: then the caller is not the agent that sets it.
    is_inherited = agent != CLAUDE and os.environ.get(row.session_variable)
    return "" if is_inherited or row.has_timestamp not in {None, has_timestamp} else agent


class PersonsOnlyError(TallybookError):
    """An agent typed what only a person may do."""

    exit_code = EXIT_NO


class RunningAgent(NamedTuple):
    """The agent in whose shell a command was typed.

    Attributes:
        agent: Its name; the first of the table where several run within each other.
        session: Id of its session; empty where it does not say.
        variable: The variable by which it was recognised.
    """

    agent: str
    session: str
    variable: str


def find_agent() -> RunningAgent | None:
    """Return the agent in whose shell this process runs; None outside of one."""
    for agent, row in AGENTS.items():
        for variable in row.shell_variables:
            if os.environ.get(variable):
                return RunningAgent(agent, os.environ.get(row.shell_session or row.session_variable, ""), variable)
    return None


def require_person(verb: str, rater: str | None = "human") -> None:
    """Refuse a verb that only a person may use, inside an agent and for another rater.

    Raises:
        PersonsOnlyError: An agent typed it.
    """
    # A hook that names itself as the rater decides nothing either.
    agent = find_agent()
    if agent is not None or rater != "human":
        who = f"it was typed inside {agent.agent} ({agent.variable} is set)" if agent else f"the rater is {rater}"
        raise PersonsOnlyError(f"{verb}: only a person may do this, and {who}; nothing was recorded")
