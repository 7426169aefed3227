"""The raters, one row each: clients of agents with the user's login, a command of the user, and an address."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
import json
import os
from pathlib import Path
import signal
import subprocess
import tempfile
from time import monotonic
from typing import Any, Final, NamedTuple

import attrs

from tallybook.ledger.errors import TallybookError
from tallybook.projections.history.reflections import NO_RATER
from tallybook.projections.surfaces.agents.table import AGENTS, count_tokens, object_of, parse_line, text_of
from tallybook.projections.surfaces.hooks.handler import REFLECTING_VARIABLE
from tallybook.projections.surfaces.reflection.prompts import ParsedReply, UnusableError, read_answer
from tallybook.projections.surfaces.workspace.settings import Settings, is_encrypted_or_local, is_local
from tallybook.projections.surfaces.writing import secrets

TIMEOUT_S: Final = 600
"""Seconds that a model has for its answer."""
ANSWER_TOKENS: Final = 4_000
"""Most tokens of an answer."""
OVERHEAD_BYTES: Final = 2_400
"""What is sent with a prompt, at most: system prompts, and the fields of the request; Codex sends the most."""
_BYTES_PER_TOKEN: Final = 3.5
_REASON_CHARS: Final = 300

SYSTEM: Final = "You review what a coding agent did in a session. Answer with one JSON object and nothing else."
"""Replaces a client's own system prompt, which is twenty times as long."""

UNAVAILABLE: Final = "unavailable"
REFUSED: Final = "refused"
UNUSABLE: Final = "unusable"


class Reply(NamedTuple):
    """What a rater answered.

    Attributes:
        text: The model's answer, word for word; None where there is none.
        model: The model that answered, as the provider names it; empty where it is not named.
        spent: Input tokens, those from a cache included, and output tokens; zeros where the rater does not tell.
        stop: Why the model stopped.
        problem: Why there is no answer.
        tool: Which tool was run and by whom, in words, although there is none to run.
    """

    text: str | None
    model: str = ""
    spent: tuple[int, int] = (0, 0)
    stop: object = None
    problem: str = ""
    tool: str = ""


class RaterError(TallybookError):
    """The rater gave no usable answer."""

    def __init__(self, cause: str, reason: str, spent: tuple[int, int] = (0, 0), model: str = "") -> None:
        """Take the fields of ``reflection.failed``; the reason comes from a provider and may hold anything."""
        self.cause, self.spent, self.model = cause, spent, model
        # Masked before it is cut, as half of a secret is not recognised.
        text = secrets.mask(reason.encode("utf-8", "replace").decode())
        self.reason = " ".join(text.split())[:_REASON_CHARS]
        super().__init__(f"the rater: {self.reason}; `tallybook reflect` tries again")


# An address that speaks chat completions

MAX_ANSWER_BYTES: Final = 4 * 1024 * 1024
_CHUNK_BYTES: Final = 64 * 1024
_BAD_REQUEST: Final = 400
_LIMITS: Final = ("max_tokens", "max_completion_tokens")
"""The field that bounds the answer: most servers know the first one, OpenAI's newer models demand the second."""


def _ask_address(prompt: str, options: Settings) -> Reply:
    """Ask an address for a chat completion: the prompt alone, and no tool."""
    address = options.address
    if not is_encrypted_or_local(address):
        what = "the `address` is not https, nor on this machine" if address else "no `address` is set"
        raise RaterError(UNAVAILABLE, f"{what}; set it in the section [reflection] of your own tallybook.toml")
    if not options.model:
        raise RaterError(UNAVAILABLE, "no `model` is set, and an address has no usual one; give --model, or set it")
    key = os.environ.get(options.key_variable, "").strip() if options.key_variable else ""
    # An error about a header that cannot be sent would show it.
    if options.key_variable and not (key and key.isascii() and key.isprintable()):
        what = "is not set, or has characters that no key has"
        raise RaterError(UNAVAILABLE, f"the environment variable {options.key_variable} {what}")
    for limit in _LIMITS:
        status, data = _post(prompt, options, key, limit)
        if status != _BAD_REQUEST or _LIMITS[-1].encode() not in data:
            break
    return _read_answer(options, key, status, data)


def _post(prompt: str, options: Settings, key: str, limit: str) -> tuple[int, bytes]:
    """Return the status and the body that the address answers with, within the time that a model has."""
    from http.client import HTTPException
    from urllib.request import HTTPErrorProcessor, ProxyHandler, Request, build_opener

    class AnyStatus(HTTPErrorProcessor):
        def http_response(self, request: Any, response: Any) -> Any:  # noqa: ARG002 - the name is the base's
            """Take an error as the answer, and a redirect: key and session would go to an address that nobody chose."""
            return response

        https_response = http_response

    address = options.address
    # A proxy is not this machine, and what goes there is not encrypted.
    opener = build_opener(AnyStatus, *([ProxyHandler({})] if is_local(address) else []))
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": prompt}]
    body = {"model": options.model, "messages": messages, "stream": False, limit: ANSWER_TOKENS}
    headers = {"Content-Type": "application/json", "User-Agent": "tallybook"}
    headers |= {"Authorization": f"Bearer {key}"} if key else {}
    data = json.dumps(body).encode("utf-8", "replace")
    until = monotonic() + TIMEOUT_S
    request = Request(address.rstrip("/") + "/chat/completions", data, headers)  # noqa: S310 - http or https
    try:
        with opener.open(request, timeout=TIMEOUT_S) as answer:
            return answer.status, _read(answer, until)
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, TimeoutError):
            raise TimeoutError("no answer in time") from error
        raise RaterError(UNAVAILABLE, f"{address}: {reason}", model=options.model) from error


def _read(answer: Any, until: float) -> bytes:
    """Read a body, within its time: a server that sends a byte now and then would never end."""
    data = b""
    while chunk := answer.read1(_CHUNK_BYTES):
        data += chunk
        if len(data) > MAX_ANSWER_BYTES:
            raise ValueError(f"the answer has more than {MAX_ANSWER_BYTES:,} bytes")
        if monotonic() > until:
            raise TimeoutError
    return data


def _read_answer(options: Settings, key: str, status: int, data: bytes) -> Reply:
    fields = parse_line(data)
    if status != 200:  # noqa: PLR2004 - the status of success
        error = fields.get("error", fields)
        said = error.get("message") if isinstance(error, dict) else error
        what = "is a redirect, which is not followed" if 300 <= status < 400 else ""  # noqa: PLR2004 - redirects
        what = what or (said if isinstance(said, str) else data[:_CHUNK_BYTES].decode("utf-8", "replace"))
        # Servers quote the key that they refuse.
        what = what.replace(key, "…") if key else what
        raise RaterError(UNAVAILABLE, f"{options.address} answered {status}: {what}", model=options.model)
    choices = fields.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    message = choice.get("message")
    if not isinstance(message, dict):
        what = f"{options.address} answered with something that is not a chat completion"
        raise RaterError(UNAVAILABLE, what, model=options.model)
    spent = count_tokens(object_of(fields, "usage"), ("prompt_tokens",), ("completion_tokens",))
    model, tool = text_of(fields, "model"), "it called a tool" if message.get("tool_calls") else ""
    if refusal := text_of(message, "refusal"):
        return Reply(refusal, model, spent, "refusal", tool=tool)
    return Reply(text_of(message, "content"), model, spent, choice.get("finish_reason"), tool=tool)


# Commands


@attrs.frozen
class _Call:
    """One call of a rater that is a command: it gets the prompt on standard input, in an empty folder.

    Attributes:
        command: The command.
        model: The model's name, empty for the usual one.
        home: A folder that is removed afterwards, and has the empty one.
        variables: Variables of the environment besides the user's.
    """

    command: str
    model: str
    home: Path
    variables: dict[str, str] = attrs.field(factory=dict)

    def write(self, name: str, text: str) -> str:
        """Write a file in the folder, and return its path."""
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return str(path)

    def ask(self, words: Sequence[str], prompt: str, read: Callable[[bytes], Reply]) -> Reply:
        """Run the command with these arguments on a prompt, and return what it printed as an answer.

        Raises:
            RaterError: There is none.
        """
        done = self.run(words, prompt)
        reply = read(done.stdout)
        if not reply.tool and (done.returncode or reply.text is None):
            raise _failure(done, reply._replace(model=reply.model or self.model))
        return reply

    def run(self, words: Sequence[str], text: str = "") -> subprocess.CompletedProcess[bytes]:
        """Run the command with these arguments and a text as its input.

        Raises:
            RaterError: It cannot be run.
            TimeoutError: It did not end in time.
        """
        # What agents set for the processes of a session.
        of_session = {name for agent in AGENTS.values() for name in (*agent.shell_variables, agent.session_variable)}
        environment = {key: value for key, value in os.environ.items() if key not in of_session}
        try:
            with subprocess.Popen(  # noqa: S603 - the agent's own client, with words of ours and of the settings
                [self.command, *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                # An empty folder has no project's instructions.
                cwd=self.home / "work",
                # A headless client fires the hooks again: with this variable, ours do nothing.
                env=environment | {REFLECTING_VARIABLE: "1"} | self.variables,
                # Clients start others of their own, which must end with them.
                start_new_session=True,
            ) as process:
                try:
                    output, errors = process.communicate(text.encode("utf-8", "replace"), TIMEOUT_S)
                except BaseException:
                    # Some systems refuse it for a group that has just ended.
                    with suppress(OSError):
                        os.killpg(process.pid, signal.SIGKILL) if os.name == "posix" else process.kill()
                    raise
        except subprocess.TimeoutExpired as error:
            raise TimeoutError(f"{self.command} gave no answer within {TIMEOUT_S:g} s") from error
        except OSError as error:
            raise RaterError(UNAVAILABLE, f"{self.command} cannot be run: {error}") from error
        return subprocess.CompletedProcess([self.command], process.returncode, output, errors)


def _failure(done: subprocess.CompletedProcess[bytes], reply: Reply) -> RaterError:
    """Return the error of a command that gave no answer."""
    output = reply.problem or (done.stderr or done.stdout).decode("utf-8", "replace").strip() or "and said nothing"
    return RaterError(UNAVAILABLE, f"{done.args[0]} ended with {done.returncode}: {output}", reply.spent, reply.model)


# Claude Code

_CLAUDE_SWITCHES: Final = {
    # By itself the client thinks, with a budget of 31,999 tokens; newer models have no budget but an effort.
    "MAX_THINKING_TOKENS": "0",
    "CLAUDE_CODE_EFFORT_LEVEL": "low",
    "CLAUDE_CODE_DISABLE_CLAUDE_MDS": "1",
    # The memory is half of the prompt, and leaves a folder of its own in the user's.
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
    # A path after an @, in a transcript, would be a file of the user that is read and sent.
    "CLAUDE_CODE_DISABLE_ATTACHMENTS": "1",
    # The title of the session would be a second request with the whole prompt.
    "CLAUDE_CODE_DISABLE_TERMINAL_TITLE": "1",
    # Measurements that cannot be sent would stay in the user's folder.
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
}
"""Variables by which the client sends the prompt and nothing of the user's, once, and keeps no memory folder."""


def _ask_claude(call: _Call, prompt: str) -> Reply:
    """Ask without tools, hooks and a saved session."""
    call.variables.update(_CLAUDE_SWITCHES)
    words = (
        *("-p", "--output-format", "json", "--model", call.model or "haiku", "--tools", "", "--strict-mcp-config"),
        "--no-session-persistence",
        # The variables of the user's settings go over those of the environment, and these over both.
        *("--settings", json.dumps({"disableAllHooks": True, "env": _CLAUDE_SWITCHES})),
        # Its own system prompt has 9.6 kB.
        *("--system-prompt", SYSTEM),
    )
    return call.ask(words, prompt, _read_claude)


def _read_claude(output: bytes) -> Reply:
    """Read one JSON object with ``result`` and ``usage``."""
    fields = parse_line(output)
    sent = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    spent = count_tokens(object_of(fields, "usage"), sent, ("output_tokens",))
    model, text = next(iter(object_of(fields, "modelUsage")), ""), fields.get("result")
    if fields.get("is_error") or not isinstance(text, str):
        problem = text if isinstance(text, str) else str(fields.get("subtype") or "")
        return Reply(None, model, spent, problem=problem)
    return Reply(text, model, spent, fields.get("stop_reason"))


# Codex

_FEATURES: Final = (
    *("agent_message_board", "agent_message_board_mcp", "apps", "artifact", "browser_use", "browser_use_external"),
    *("code_mode", "code_mode_only", "computer_use", "current_time_reminder", "default_mode_request_user_input"),
    *("deferred_executor", "enable_mcp_apps", "executor_capability_discovery_v2", "goals", "hooks"),
    *("image_generation", "in_app_browser", "memories", "multi_agent", "multi_agent_v2", "multi_env_copy_file"),
    *("plugins", "request_permissions_tool", "send_message_to_user_async", "shell_snapshot", "shell_tool"),
    *("skill_search", "sleep_tool", "standalone_web_search", "token_budget", "tool_suggest", "unified_exec"),
    "view_image",
)
"""Features that bring tools, start programs or run hooks."""
_OFF: Final = (
    *(f"features.{name}=false" for name in _FEATURES),
    *('web_search="disabled"', "tools.experimental_request_user_input.enabled=false", "notify=[]"),
    "tools.update_plan.enabled=false",
    *("include_permissions_instructions=false", "include_apps_instructions=false"),
    *("include_collaboration_mode_instructions=false", "include_environment_context=false"),
    *("skills.include_instructions=false", "skills.bundled.enabled=false", 'developer_instructions=""'),
    *("project_doc_max_bytes=0", 'approval_policy="never"', 'model_reasoning_effort="low"'),
    "check_for_update_on_startup=false",
)
"""Settings that go over the user's own, which stay for the rest: they say whom Codex asks, and as whom."""
_TOOLS_OF_MODELS: Final[dict[str, Any]] = {
    "apply_patch_tool_type": None,
    "experimental_supported_tools": [],
    "multi_agent_version": None,
    "shell_type": "disabled",
    "supports_search_tool": False,
    "tool_mode": None,
}
"""What a model of Codex's catalog has instead of the tools that it brings."""
_HARMLESS: Final = frozenset({"agent_message", "reasoning", "error"})
"""Items of a turn that are not the call of a tool."""


def _options(values: Iterable[str]) -> list[str]:
    return [word for value in (*_OFF, *values) for word in ("--config", value)]


def _ask_codex(call: _Call, prompt: str) -> Reply:
    """Ask Codex what it has, and then, with all of it turned off, for an answer."""
    # No trace in the user's folder: not even its databases are written to.
    call.variables["CODEX_SQLITE_HOME"] = str(call.home)
    catalog = _read_json(call, ["debug", "models", *_options(())])
    models = _check_rows(catalog.get("models") if isinstance(catalog, dict) else None, "models")
    catalog["models"] = [model | _TOOLS_OF_MODELS for model in models]
    paths = {
        "model_catalog_json": call.write("models.json", json.dumps(catalog)),
        "model_instructions_file": call.write("system.md", SYSTEM),
    }
    settings = [f"{setting}={json.dumps(path)}" for setting, path in paths.items()]
    model = ["--model", call.model] if call.model else []
    # An empty table of MCP servers would change nothing.
    if names := _find_servers(call, []):
        servers = ", ".join(f"{json.dumps(name)} = {{enabled = false}}" for name in names)
        settings = [f"mcp_servers={{{servers}}}", *settings]
        if remaining := _find_servers(call, settings[:1]):
            raise RaterError(UNAVAILABLE, f"codex does not turn off the MCP server {remaining[0]}, so it is not asked")
    words = ("exec", "--json", "--ephemeral", "--skip-git-repo-check", "--sandbox", "read-only")
    return call.ask([*words, *model, *_options(settings), "-"], prompt, _read_codex)


def _find_servers(call: _Call, values: list[str]) -> list[str]:
    servers = _check_rows(_read_json(call, ["mcp", "list", "--json", *_options(values)]), "MCP servers")
    return [str(server.get("name")) for server in servers if server.get("enabled") is not False]


def _read_json(call: _Call, words: list[str]) -> Any:
    """Return what Codex prints as JSON; without it, what Codex has is not known and nothing is sent."""
    done = call.run(words)
    try:
        value = json.loads(done.stdout)
    except (ValueError, RecursionError):
        value = None
    if done.returncode or value is None:
        raise _failure(done, Reply(None, call.model))
    return value


def _check_rows(rows: Any, what: str) -> list[dict[str, Any]]:
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise RaterError(UNAVAILABLE, f"codex has no list of {what} that Tallybook can read")
    return rows


def _read_codex(output: bytes) -> Reply:
    """Read events, one JSON object a line; they do not say which model answered."""
    text, problem, usage = "", "", None
    for event in map(parse_line, output.splitlines()):
        item = object_of(event, "item")
        kind = item.get("type")
        if kind is not None and kind not in _HARMLESS:
            return Reply(None, tool=f"codex ran a tool, {kind}")
        if kind == "agent_message":
            text = str(item.get("text") or "")
        elif event.get("type") == "turn.completed":
            usage = object_of(event, "usage")
        elif event.get("type") in {"turn.failed", "error"}:
            error = event.get("error")
            problem = str(error.get("message") if isinstance(error, dict) else event.get("message"))
    spent = count_tokens(usage or {}, ("input_tokens",), ("output_tokens",))
    return Reply(None if usage is None else text, "", spent, problem=problem)


# Gemini

_USERS_FILES: Final = (
    *("settings.json", "oauth_creds.json", "gemini-credentials.json", "google_accounts.json", "installation_id"),
    ".env",
)
"""The user's files that say whom Gemini asks, and as whom: neither extensions, nor instructions, nor hooks."""
_SETTINGS: Final = {
    "tools": {"core": [], "discoveryCommand": "", "callCommand": "", "sandbox": False},
    "mcp": {"allowed": ["none"], "serverCommand": ""},
    "ide": {"enabled": False},
    "hooksConfig": {"enabled": False},
    "skills": {"enabled": False},
    "context": {"fileName": ["none"], "includeDirectoryTree": False},
    "general": {"enableAutoUpdate": False},
}
"""Settings of the folder, which go over the user's."""
_DENY: Final = '[[rule]]\ntoolName = "*"\ndecision = "deny"\npriority = 999\n'


def _ask_gemini(call: _Call, prompt: str) -> Reply:
    """Ask in a home folder of its own, with links to the user's files, so that a renewed login stays the user's."""
    users = Path(os.environ.get("GEMINI_CLI_HOME") or Path.home())
    (call.home / ".gemini").mkdir()
    for file in [*(Path(".gemini", name) for name in _USERS_FILES), Path(".env")]:
        if (users / file).is_file():
            (call.home / file).symlink_to((users / file).absolute())
    # The search for variables ends here: it would go on in the folders above, which others may write to.
    with suppress(FileExistsError):
        (call.home / ".env").touch(exist_ok=False)
    call.write("work/.gemini/settings.json", json.dumps(_SETTINGS))
    call.variables.update(
        # What a session leaves goes with this folder, and is not found by the user's next one.
        GEMINI_CLI_HOME=str(call.home),
        # The settings of a folder that is not trusted do not count.
        GEMINI_CLI_TRUST_WORKSPACE="true",
        GEMINI_SANDBOX="false",
        GEMINI_SYSTEM_MD=call.write("system.md", SYSTEM),
    )
    words = ("-p", "", "--output-format", "json", "--model", call.model or "flash")
    return call.ask([*words, "--admin-policy", call.write("deny.toml", _DENY)], prompt, _read_gemini)


def _read_gemini(output: bytes) -> Reply:
    """Read one JSON object with ``response`` and ``stats``; several models may have answered, the last one for all."""
    fields = parse_line(output)
    text, error, stats = fields.get("response"), fields.get("error"), object_of(fields, "stats")
    models = object_of(stats, "models")
    tokens = [object_of(object_of(models, name), "tokens") for name in models]
    costs = [count_tokens(used, ("prompt",), ("candidates", "thoughts")) for used in tokens]
    spent = (sum(sent for sent, _ in costs), sum(answered for _, answered in costs))
    model = next(reversed([*models]), "")
    if error or not isinstance(text, str):
        return Reply(None, model, spent, problem=str(object_of(fields, "error").get("message") or ""))
    return Reply(text, model, spent, tool="gemini ran a tool" if object_of(stats, "tools").get("totalSuccess") else "")


# A command of the user's


def _ask_own(call: _Call, prompt: str, options: Settings) -> Reply:
    """Ask the command of the user's settings, with {model}, {system} and {home} filled in."""

    def read(output: bytes) -> Reply:
        if not options.answer_key:
            return Reply(output.decode("utf-8", "replace"))
        text = parse_line(output).get(options.answer_key)
        return Reply(text if isinstance(text, str) else None)

    words = [
        word.replace("{model}", call.model).replace("{system}", SYSTEM).replace("{home}", str(call.home))
        for word in options.command[1:]
    ]
    return call.ask(words, prompt, read)


CLIENTS: Final = {"claude": _ask_claude, "codex": _ask_codex, "gemini": _ask_gemini}
"""Clients of agents, headless, with the user's login: name in the settings, which is that of the command → how to ask.
"""
ADDRESS: Final = "openai"
"""The rater that is an address which speaks chat completions."""
OWN: Final = "command"
"""The rater that is a command of the user's own settings."""


def ask_rater(prompt: str, options: Settings) -> tuple[Reply, ParsedReply]:
    """Send the rater that the settings choose a prompt, and return its reply and what that says.

    Raises:
        RaterError: It gave no answer, or one that cannot be used, or no rater is chosen.
    """
    rater, expected = options.rater, (estimate_tokens(prompt), 0)
    if rater == NO_RATER:
        raise RaterError(UNAVAILABLE, "no rater is chosen")
    try:
        if rater == ADDRESS:
            reply = _ask_address(prompt, options)
        else:
            if rater == OWN and not options.command:
                what = "no `command` is set; set it in the section [reflection] of your own tallybook.toml"
                raise RaterError(UNAVAILABLE, what)
            with tempfile.TemporaryDirectory(prefix="tallybook-", ignore_cleanup_errors=True) as home:
                call = _Call(options.command[0] if rater == OWN else rater, options.model, Path(home))
                (call.home / "work").mkdir()
                reply = _ask_own(call, prompt, options) if rater == OWN else CLIENTS[rater](call, prompt)
    except TimeoutError as error:
        raise RaterError(UNAVAILABLE, str(error), expected, options.model) from error
    except OSError as error:
        raise RaterError(UNAVAILABLE, f"{rater} cannot be asked: {error}") from error
    # A rater that does not tell its cost has the expected one.
    spent = reply.spent if any(reply.spent) else expected
    text, model = reply.text or "", reply.model or options.model
    if reply.tool:
        raise RaterError(UNUSABLE, f"{reply.tool}, although it has none", spent, model)
    if reply.stop in ("refusal", "content_filter"):
        raise RaterError(REFUSED, text or "it refused", spent, model)
    if reply.stop in ("max_tokens", "length"):
        raise RaterError(UNUSABLE, "the answer was cut off", spent, model)
    try:
        return Reply(text, model, spent), read_answer(text)
    except UnusableError as error:
        raise RaterError(UNUSABLE, f"the answer {error}", spent, model) from error


def estimate_tokens(prompt: str) -> int:
    """Return about how many tokens a prompt costs, rather too many than too few, the answer included."""
    return int((len(prompt.encode("utf-8", "replace")) + OVERHEAD_BYTES) / _BYTES_PER_TOKEN) + ANSWER_TOKENS
