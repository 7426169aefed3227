"""The raters `codex` and `gemini`, against stand-ins of their commands: what they are asked, and what they say."""

from __future__ import annotations

import json
import os
from pathlib import Path
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

from helpers.transcripts import answer, client_in
from tallybook.projections.surfaces.reflection import raters
from tallybook.projections.surfaces.reflection.replies import Question, RaterError

if TYPE_CHECKING:
    from collections.abc import Callable

    from helpers.transcripts import Client

TEXT = answer("Run the tests first.", kpt_001="helpful")
MODELS = {"models": [{"slug": "m-1", "shell_type": "unified_exec", "apply_patch_tool_type": "freeform", "other": 1}]}
SERVERS: list[dict[str, Any]] = [{"name": 'od"d.1', "enabled": True}, {"name": "two", "enabled": False}]


@pytest.fixture
def stand_in(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Client]:
    """Return a function that puts a stand-in of a name before every other command."""

    def make(name: str) -> Client:
        made = client_in(tmp_path_factory.mktemp("bin"), name)
        monkeypatch.setenv("PATH", f"{made.folder}{os.pathsep}{os.environ['PATH']}")
        return made

    return make


def events(*items: dict[str, Any], **usage: int) -> dict[str, str]:
    """Return what Codex prints for these items and this usage."""
    made = [{"type": "thread.started"}, *({"type": "item.completed", "item": item} for item in items)]
    made.append({"type": "turn.completed", "usage": usage})
    return {"stdout": "\n".join(map(json.dumps, made))}


def printed(value: Any) -> dict[str, str]:
    """Return a step that prints a value as JSON."""
    return {"stdout": json.dumps(value)}


MESSAGE = {"type": "agent_message", "text": TEXT}
DONE = events(MESSAGE, input_tokens=1200, cached_input_tokens=200, output_tokens=50)


def stats(**tools: int) -> dict[str, Any]:
    """Return the statistics that Gemini prints: two models, of which the last one answered."""
    first = {"tokens": {"prompt": 100, "candidates": 5, "thoughts": 0, "total": 105}}
    second = {"tokens": {"input": 900, "prompt": 1000, "candidates": 30, "thoughts": 20, "cached": 100}}
    return {"models": {"router": first, "flash-1": second}, "tools": tools}


def config_of(words: list[str]) -> dict[str, Any]:
    """Return the settings in the words of a Codex command."""
    values = [words[index + 1] for index, word in enumerate(words) if word == "--config"]
    return {name: tomllib.loads(f"x = {value}")["x"] for name, _, value in (one.partition("=") for one in values)}


def test_codex_is_asked_without_tools_hooks_or_a_session(stand_in: Callable[[str], Client]) -> None:
    """Its models lose their tools, each MCP server is turned off by name, and the folder is an empty one."""
    codex = stand_in("codex")
    codex.plans(printed(MODELS), printed(SERVERS), printed([one | {"enabled": False} for one in SERVERS]), DONE)
    reply, _ = raters.ask_rater("codex", Question(model="m-1", prompt="the prompt"))
    assert (TEXT, "m-1", 1200, 50) == (reply.text, reply.model, reply.input_tokens, reply.output_tokens)
    words = [one["words"] for one in codex.asked]
    assert [["debug", "models"], ["mcp", "list"], ["mcp", "list"], ["exec", "--json"]] == [one[:2] for one in words]
    last = codex.asked[-1]
    assert ["--ephemeral", "--skip-git-repo-check", "--sandbox", "read-only", "--model", "m-1"] == last["words"][2:8]
    assert ("the prompt", "1", []) == (last["prompt"], last["inside"], last["beside"])
    config = config_of(last["words"])
    assert {'od"d.1': {"enabled": False}} == config["mcp_servers"]
    off = ("features.hooks", "features.shell_tool", "features.plugins", "features.multi_agent_v2")
    assert [False] * 4 == [config[name] for name in off]
    assert ("disabled", [], "never") == (config["web_search"], config["notify"], config["approval_policy"])
    assert str(Path(config["model_catalog_json"]).parent) == last["environment"]["CODEX_SQLITE_HOME"]
    assert not Path(last["cwd"]).exists()


def test_codex_gets_a_catalog_without_tools(stand_in: Callable[[str], Client], tmp_path: Path) -> None:
    """What its models bring is gone from the catalog, and everything else in it stays."""
    codex = stand_in("codex")
    copy = "cp $(printf '%s\\n' \"$@\" | sed -n 's/^model_catalog_json=\"\\(.*\\)\"$/\\1/p') " + str(tmp_path / "seen")
    script = codex.folder / "codex"
    script.rename(codex.folder / "real")
    script.write_text(f'#!/bin/sh\ncase "$1" in exec) {copy};; esac\nexec {codex.folder / "real"} "$@"\n')
    script.chmod(0o755)
    codex.plans(printed(MODELS), printed([]), DONE)
    raters.ask_rater("codex", Question(prompt="the prompt"))
    (model,) = json.loads((tmp_path / "seen").read_text())["models"]
    assert ("m-1", 1, "disabled", None) == (
        *(model["slug"], model["other"], model["shell_type"]),
        model["apply_patch_tool_type"],
    )
    assert ("", 3) == ("" if "--model" not in codex.asked[-1]["words"] else "named", len(codex.asked))


CODEX_FAILURES: dict[str, tuple[list[dict[str, Any]], str, str, int]] = {
    "no command of that name": ([{"stdout": "", "stderr": "unrecognized subcommand", "code": 2}], "unavailable",
                                "codex ended with 2: unrecognized subcommand", 0),
    "another catalog": ([printed([1])], "unavailable", "codex has no list of models that Tallybook can read", 0),
    "another list": ([printed(MODELS), printed({})], "unavailable", "no list of MCP servers", 0),
    "a server stays": ([printed(MODELS), printed(SERVERS), printed(SERVERS)], "unavailable",
                       'codex does not turn off the MCP server od"d.1, so it is not asked', 0),
    "a tool": ([printed(MODELS), printed([]), events({"type": "command_execution"}, MESSAGE)], "unusable",
               "codex ran a tool, command_execution, although it has none", -1),
    "failed": ([printed(MODELS), printed([]), printed({"type": "turn.failed", "error": {"message": "no login"}})],
               "unavailable", "codex ended with 0: no login", 0),
    "broken off": ([printed(MODELS), printed([]), {"stdout": "{", "stderr": "it broke", "code": 1}], "unavailable",
                   "codex ended with 1: it broke", 0),
    "prose": ([printed(MODELS), printed([]), events({"type": "agent_message", "text": "no"}, input_tokens=7)],
              "unusable", "the answer holds no whole JSON object", 7),
    "no usage": ([printed(MODELS), printed([]), events({"type": "agent_message", "text": "no"})],
                 "unusable", "the answer holds no whole JSON object", -1),
}  # fmt: skip
"""What Codex prints, call by call → cause, reason, tokens; -1 for what was expected."""


@pytest.mark.parametrize("name", CODEX_FAILURES)
def test_what_codex_comes_to_nothing_with_is_a_failure(stand_in: Callable[[str], Client], name: str) -> None:
    """A catalog or a list that cannot be read ends it before anything of a session is sent."""
    steps, cause, reason, tokens = CODEX_FAILURES[name]
    codex = stand_in("codex")
    codex.plans(*steps)
    with pytest.raises(RaterError) as error:
        raters.ask_rater("codex", Question(prompt="the prompt"))
    expected = raters.estimate_tokens("codex", "the prompt") if tokens < 0 else tokens
    assert (cause, expected) == (error.value.cause, error.value.input_tokens)
    assert reason in error.value.reason
    assert len(steps) == len(codex.asked)
    assert (len(steps) == 3 and "stays" not in name) == ("the prompt" in codex.asked[-1]["prompt"])


def test_an_answer_without_a_cost_costs_what_was_expected(stand_in: Callable[[str], Client]) -> None:
    """The day's tokens are counted even where a client does not tell."""
    codex, gemini = stand_in("codex"), stand_in("gemini")
    codex.plans(printed(MODELS), printed([]), events(MESSAGE))
    gemini.plans(printed({"response": TEXT}))
    for name in ("codex", "gemini"):
        reply, _ = raters.ask_rater(name, Question(prompt="the prompt"))
        expected = (raters.estimate_tokens(name, "the prompt"), 0)
        assert expected == (reply.input_tokens, reply.output_tokens)


def test_gemini_is_asked_without_tools_hooks_or_a_session(
    stand_in: Callable[[str], Client], tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has a home of its own with links to the user's login and settings alone, and no tool is allowed."""
    users = tmp_path_factory.mktemp("users")
    monkeypatch.setenv("GEMINI_CLI_HOME", str(users))
    monkeypatch.setenv("GEMINI_SESSION_ID", "s1")
    (users / ".gemini").mkdir()
    for name in ("settings.json", "oauth_creds.json", "GEMINI.md", "projects.json"):
        (users / ".gemini" / name).write_text(name)
    gemini = stand_in("gemini")
    listing = tmp_path_factory.mktemp("seen") / "listing"
    script = gemini.folder / "gemini"
    script.rename(gemini.folder / "real")
    script.write_text(
        f"#!/bin/sh\n(cd ..; find . ! -type d; cat work/.gemini/settings.json deny.toml) > {listing}\n"
        f'exec {gemini.folder / "real"} "$@"\n'
    )
    script.chmod(0o755)
    gemini.plans(printed({"response": TEXT, "stats": stats(totalCalls=1, totalSuccess=0)}))
    reply, _ = raters.ask_rater("gemini", Question(prompt="the prompt"))
    assert (TEXT, "flash-1", 1100, 55) == (reply.text, reply.model, reply.input_tokens, reply.output_tokens)
    (asked,) = gemini.asked
    assert ["-p", "", "--output-format", "json", "--model", "flash", "--admin-policy"] == asked["words"][:7]
    assert ("the prompt", "1", [".gemini"]) == (asked["prompt"], asked["inside"], asked["beside"])
    environment = asked["environment"]
    assert ("true", False) == (environment["GEMINI_CLI_TRUST_WORKSPACE"], "GEMINI_SESSION_ID" in environment)
    assert str(users) != environment["GEMINI_CLI_HOME"]
    seen = listing.read_text()
    files = {"./.env", "./.gemini/settings.json", "./.gemini/oauth_creds.json", "./work/.gemini/settings.json"}
    assert files | {"./deny.toml", "./system.md"} == {line for line in seen.splitlines() if line.startswith("./")}
    assert [True] * 3 == [word in seen for word in ('"core": []', '"enabled": false', 'decision = "deny"')]
    assert "settings.json" == (users / ".gemini" / "settings.json").read_text()
    assert not Path(asked["cwd"]).exists()


GEMINI_FAILURES: dict[str, tuple[dict[str, Any], str, str, int]] = {
    "no login": (printed({"error": {"message": "no login", "code": 41}}) | {"code": 41}, "unavailable",
                 "gemini ended with 41: no login", 0),
    "silence": ({"stdout": "", "stderr": "it broke", "code": 1}, "unavailable", "gemini ended with 1: it broke", 0),
    "a tool": (printed({"response": TEXT, "stats": stats(totalSuccess=1)}), "unusable",
               "gemini ran a tool, although it has none", 1100),
    "odd": (printed({"response": 7, "stats": 1}), "unavailable", "gemini ended with 0", 0),
    "prose": (printed({"response": "no", "stats": stats()}), "unusable", "holds no whole JSON object", 1100),
}  # fmt: skip


@pytest.mark.parametrize("name", GEMINI_FAILURES)
def test_what_gemini_comes_to_nothing_with_is_a_failure(stand_in: Callable[[str], Client], name: str) -> None:
    """With its cause, its reason, and its cost where it tells one."""
    step, cause, reason, tokens = GEMINI_FAILURES[name]
    stand_in("gemini").plans(step)
    with pytest.raises(RaterError) as error:
        raters.ask_rater("gemini", Question(prompt="the prompt"))
    assert (cause, tokens) == (error.value.cause, error.value.input_tokens)
    assert reason in error.value.reason


@pytest.mark.parametrize("name", ["claude", "codex", "gemini"])
def test_a_client_without_a_folder_is_not_asked(
    stand_in: Callable[[str], Client], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    """A full or missing disk for temporary files is a failure of one line."""
    client = stand_in(name)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with pytest.raises(RaterError) as error:
        raters.ask_rater(name, Question(prompt="the prompt"))
    assert error.value.reason.startswith(f"{name} cannot be asked: ")
    assert [] == client.asked


@pytest.mark.skipif(os.name != "posix", reason="this system has no groups of processes")
def test_a_client_that_hangs_ends_with_all_that_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that it starts in its turn is ended, too, and the cost is what was expected."""
    script = tmp_path / "gemini"
    child = "import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(60)"
    script.write_text(
        f"#!{sys.executable}\nimport os, subprocess\nos.chdir({str(tmp_path)!r})\n"
        f"subprocess.run([{sys.executable!r}, '-c', {child!r}])\n"
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("TALLYBOOK_TIMEOUT_S", "2")
    with pytest.raises(RaterError) as error:
        raters.ask_rater("gemini", Question(prompt="the prompt"))
    assert "gemini gave no answer within 2 s" == error.value.reason
    assert raters.estimate_tokens("gemini", "the prompt") == error.value.input_tokens
    pid = int((tmp_path / "pid").read_text())
    for _ in range(100):
        state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, check=False).stdout.strip()
        if not state or state.startswith(b"Z"):
            return
        time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    pytest.fail("the process that the client started still runs")
