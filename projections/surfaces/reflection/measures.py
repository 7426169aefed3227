"""What the transcript of a session says about its work, in numbers alone, read as each client writes it.

Only the session's own part counts, not that of its subagents. Nothing of a prompt or a command is kept.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
import re
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger.events import MAX_INT, Numbers
from tallybook.projections.surfaces.agents import claude, codex, copilot, gemini
from tallybook.projections.surfaces.agents.table import all_texts, list_of, object_of, text_of
from tallybook.projections.surfaces.reflection import transcript

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from tallybook.projections.surfaces.agents.table import Entry

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
_EXIT_CODE: Final = re.compile(r"^Exit Code: [1-9]", re.MULTILINE)
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
            self._gap_s = max(0.0, at_s - self._at_s)
            self._at_s = max(self._at_s, at_s)
        self.seconds += self._gap_s

    def add_message(self, entry: Entry) -> None:
        """Count what a message has: prompts, calls, answers and failures."""
        for block in entry.blocks:
            kind, text = block.get("type"), text_of(block, "text")
            if kind == "tool_use":
                self.calls[str(block.get("id"))] = _runs_tests(block.get("input"))
            elif kind == "tool_result" and block.get("is_error") is True:
                self.failed.add(str(block.get("tool_use_id")))
            elif kind == "text" and entry.role == "user" and text.startswith(_INTERRUPTED):
                self.aborted += 1
            elif kind == "text" and entry.role == "user" and transcript.remove_inserted(text):
                # Nobody works before a prompt.
                self.seconds = self.seconds - self._gap_s if self.prompts else 0.0
                self.prompts += 1
            if entry.role == "assistant" and self.first_answer_s is None and self.prompts:
                self.first_answer_s = self.seconds

    def add_tokens(self, id_: str, usage: Mapping[str, Any], names_in: Sequence[str], names_out: Sequence[str]) -> None:
        """Count the tokens of a request."""
        numbers = {name: number for name, number in usage.items() if type(number) is int and number > 0}
        if usage:
            self.tokens[id_] = (
                sum(numbers.get(name, 0) for name in names_in),
                sum(numbers.get(name, 0) for name in names_out),
            )

    def numbers(self, *, ended: bool) -> Numbers | None:
        """Return what was counted; None if there is neither a prompt nor a call, so that nothing was understood."""
        # A form that nobody understands must not pass for a session without failures.
        if not self.prompts and not self.calls:
            return None
        failed = self.failed & self.calls.keys()
        tests = [id_ for id_, runs_tests in self.calls.items() if runs_tests]
        found: dict[str, float] = {
            "prompts": self.prompts,
            "calls": len(self.calls),
            "failed": len(failed),
            "aborted": self.aborted,
        }
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


# What each client writes that is no message.


def _add_claude(line: Mapping[str, Any], tally: _Tally) -> None:
    message = object_of(line, "message")
    tally.compactions += line.get("subtype") == "compact_boundary"
    cached = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    tally.add_tokens(text_of(message, "id"), object_of(message, "usage"), cached, ["output_tokens"])


def _add_codex(line: Mapping[str, Any], tally: _Tally) -> None:
    kind, event = line.get("type"), object_of(line, "payload")
    item = object_of(event, "item")
    tally.compactions += kind == "compacted"
    tally.aborted += event.get("type") == "turn_aborted" and event.get("reason") == "interrupted"
    # A command that failed is completed, with an exit code.
    if item.get("exit_code") or item.get("status") == "failed":
        tally.failed.add(text_of(item, "id"))
    if kind == "token_usage_record":
        tally.add_tokens(text_of(event, "response_id"), object_of(event, "usage"), ["input_tokens"], ["output_tokens"])


def _add_gemini(line: Mapping[str, Any], tally: _Tally) -> None:
    tally.add_tokens(text_of(line, "id"), object_of(line, "tokens"), ["input"], ["output", "thoughts"])
    for call in list_of(line, "toolCalls"):
        # A command that failed has the status "success".
        if isinstance(call, dict) and _EXIT_CODE.search(all_texts(call.get("result"))):
            tally.failed.add(text_of(call, "id"))
        tally.aborted += isinstance(call, dict) and call.get("status") == "cancelled"


def _add_copilot(line: Mapping[str, Any], tally: _Tally) -> None:
    kind, data = line.get("type"), object_of(line, "data")
    tally.compactions += kind == "session.compaction_complete" and data.get("success") is not False
    tally.aborted += kind == "abort"
    # A command that failed is a success with an exit code.
    if object_of(data, "shellExecution").get("exitCode"):
        tally.failed.add(text_of(data, "toolCallId"))
    if kind == "session.usage_record":
        tally.add_tokens(text_of(line, "id"), object_of(data, "usage"), ["inputTokens"], ["outputTokens"])


_OTHER_LINES: Final[dict[Any, Callable[[Mapping[str, Any], _Tally], None]]] = {
    claude.read_line: _add_claude,
    codex.read_line: _add_codex,
    gemini.read_line: _add_gemini,
    copilot.read_line: _add_copilot,
}
"""How an agent's messages are read → what else is counted."""


def measure(path: Path, *, ended: bool) -> Numbers | None:
    """Return the numbers of a session's own transcript, from its beginning; None if nothing of it was understood.

    Raises:
        OSError: It cannot be read.
    """
    reader, tally = transcript.reader_of(path), _Tally()
    for line, entry in transcript.entries(path, reader):
        # What a branch copied was measured in the session that it came from.
        if not entry.is_subagents and not line.get("forkedFrom"):
            tally.pass_time(text_of(line, "timestamp"))
            for message in (entry, *entry.more):
                tally.add_message(message)
            _OTHER_LINES[reader.read_line](line, tally)
    return tally.numbers(ended=ended)
