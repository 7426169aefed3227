"""Clients of agents as raters: how one is run without its session, its tools and its hooks; Claude Code's."""

from __future__ import annotations

from contextlib import suppress
import json
import os
import signal
import subprocess
import tempfile
from typing import TYPE_CHECKING, Final

from tallybook.projections.surfaces.hooks.handler import REFLECTING_VARIABLE
from tallybook.projections.surfaces.reflection.replies import (
    SYSTEM,
    UNAVAILABLE,
    Question,
    RaterError,
    Reply,
    accept_reply,
    count_tokens,
    find_timeout_s,
)
from tallybook.projections.surfaces.reflection.transcript import load_object

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SESSION_VARIABLES: Final = frozenset((
    *("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_PROJECT_DIR"),
    *("CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_CHILD_SESSION", "CLAUDE_ENV_FILE", "CLAUDE_EFFORT"),
    *("GEMINI_SESSION_ID", "GEMINI_PROJECT_DIR", "GEMINI_CWD", "GEMINI_PLANS_DIR", "GEMINI_SYSTEM_MD"),
    *("CODEX_THREAD_ID", "CODEX_SESSION_ID"),
))  # fmt: skip
"""Variables that clients set for the processes of a session."""
FOLDER_PREFIX: Final = "tallybook-"

CLAUDE_BYTES: Final = 1_300
"""What Claude Code sends with the prompt: its system prompt, the date, and the fields of the request."""
_CLAUDE_SWITCHES: Final = {
    "MAX_THINKING_TOKENS": "0",
    "CLAUDE_CODE_DISABLE_CLAUDE_MDS": "1",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
    # A path after an @, in a transcript, would be a file of the user that is read and sent.
    "CLAUDE_CODE_DISABLE_ATTACHMENTS": "1",
    # The title of the session would be a second request with the whole prompt.
    "CLAUDE_CODE_DISABLE_TERMINAL_TITLE": "1",
    # Measurements that cannot be sent would stay in the user's folder.
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
}
"""Variables by which the client sends the prompt and nothing of the user's, once, and keeps no memory folder."""


def run_client(
    question: Question, command: Sequence[str], folder: str, variables: Mapping[str, str], text: str = ""
) -> subprocess.CompletedProcess[bytes]:
    """Run an agent's own client in a folder, with a text as its input.

    Raises:
        RaterError: It cannot be run, or did not end in time.
    """
    name = command[0]
    environment = {key: value for key, value in os.environ.items() if key not in _SESSION_VARIABLES}
    try:
        with subprocess.Popen(  # noqa: S603 - the agent's own client, with words of ours and of the settings
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env=environment | {REFLECTING_VARIABLE: "1"} | dict(variables),
            # Clients start others of their own, which must end with them.
            start_new_session=True,
        ) as process:
            try:
                output, errors = process.communicate(text.encode("utf-8", "replace"), find_timeout_s())
            except BaseException:
                _kill(process)
                raise
    except subprocess.TimeoutExpired as error:
        what = f"{name} gave no answer within {find_timeout_s():g} s"
        raise RaterError(UNAVAILABLE, what, question.tokens, model=question.model) from error
    except OSError as error:
        raise RaterError(UNAVAILABLE, f"{name} cannot be run: {error}") from error
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def _kill(process: subprocess.Popen[bytes]) -> None:
    if os.name == "posix":
        # Some systems refuse it for a group that has just ended.
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()


def failure(done: subprocess.CompletedProcess[bytes], what: str, model: str) -> RaterError:
    """Return the error of a client that gave no answer."""
    output = what or (done.stderr or done.stdout).decode("utf-8", "replace").strip() or "and said nothing"
    return RaterError(UNAVAILABLE, f"{done.args[0]} ended with {done.returncode}: {output}", model=model)


def ask_claude(question: Question) -> Reply:
    """Ask through Claude Code's headless client: the prompt alone, no tools, no hooks, and no saved session."""
    command = ["claude", "-p", "--output-format", "json"]
    command += ["--model", question.model or "haiku", "--tools", "", "--strict-mcp-config", "--no-session-persistence"]
    # The variables of the user's settings go over those of the environment, and these over both.
    settings = {"disableAllHooks": True, "env": _CLAUDE_SWITCHES}
    command += ["--settings", json.dumps(settings), "--system-prompt", SYSTEM]
    # An empty folder has no project's instructions.
    with tempfile.TemporaryDirectory(prefix=FOLDER_PREFIX, ignore_cleanup_errors=True) as folder:
        done = run_client(question, command, folder, _CLAUDE_SWITCHES, question.prompt)
    return _claude_reply(question, done)


def _claude_reply(question: Question, done: subprocess.CompletedProcess[bytes]) -> Reply:
    """Return the answer that the client printed: one JSON object with ``result`` and ``usage``."""
    fields, model = load_object(done.stdout), question.model
    if not fields:
        raise failure(done, "", model)
    spent = count_anthropic_tokens(fields.get("usage"))
    used = fields.get("modelUsage")
    model = next(iter(used), model) if isinstance(used, dict) else model
    text = fields.get("result")
    if done.returncode or fields.get("is_error") or not isinstance(text, str):
        what = text if isinstance(text, str) else str(fields.get("subtype"))
        raise RaterError(UNAVAILABLE, f"claude ended with {done.returncode}: {what}", *spent, model=model)
    return accept_reply(question, text, fields.get("stop_reason"), model, spent)


def count_anthropic_tokens(usage: object) -> tuple[int, int]:
    """Return input and output tokens as Anthropic counts them; those from a cache count as input."""
    sent = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return count_tokens(usage, sent, ("output_tokens",))
