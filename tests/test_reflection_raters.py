"""Who is asked: Claude Code's client against a stand-in, and a command of the user's own."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from helpers.reflection_settings import choose
from helpers.transcripts import Script, answer, asked_for, kept, said
from tallybook.ledger.encoding.codec import decode
from tallybook.projections.event_rows import row
from tallybook.projections.surfaces.cli import main
from tallybook.projections.surfaces.history.reading import open_log
from tallybook.projections.surfaces.reflection import prompt as prompts
from tallybook.projections.surfaces.reflection.schedule import Plan
from tallybook.projections.surfaces.reflection.worker import DONE, Result, work
from tallybook.projections.surfaces.workspace import settings

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.transcripts import Client
    from tallybook.projections.surfaces.workspace.project import Project

TEXT = answer("Run the tests first.", kpt_001="helpful")
Steps = list[dict[str, Any]]


@pytest.fixture
def owed(project: Path) -> Project:
    """Return a project in which a session that cited an entry is to be reflected on."""
    script = Script(kept(project) / "s1.jsonl").user("Fix it").agent("Done as [kpt_001] says.")
    return asked_for(project, script)


def reflected(project: Project, rater: str, model: str = "") -> tuple[Result, list[dict[str, Any]]]:
    """Reflect once; return what came of it, and the events of it without who recorded which when."""
    came: list[Result] = []
    assert DONE == work(project, Plan(rater, model), came.append)
    rows = [row(record) for batch in decode(open_log(project).read()) for record in batch.records]
    told = [one for one in rows if one["by"]["rater"] == "reflector"]
    return came[0], [{"kind": one["kind"], "body": one["body"], "by": one["by"]} for one in told]


def test_what_failed_is_asked_again(owed: Project, client: Client) -> None:
    """A person who asks does not wait, and the answer is recorded once."""
    client.plans("no", TEXT)
    assert reflected(owed, "claude")[0].failed
    came, events = reflected(owed, "claude")
    assert ("", 1) == (came.failed, [event["kind"] for event in events].count("point.rated"))


def test_the_client_is_asked_with_nothing_of_a_session(owed: Project, client: Client) -> None:
    """No tools, no hooks, no project's instructions, no session kept; our own hooks know that they mean nothing."""
    client.plans(TEXT)
    reflected(owed, "claude", "opus")
    (asked,) = client.asked
    words = asked["words"]
    assert ["-p", "--output-format", "json", "--model", "opus", "--tools", ""] == words[:7]
    settings = json.loads(words[words.index("--settings") + 1])
    assert (True, "1") == (settings["disableAllHooks"], settings["env"]["CLAUDE_CODE_DISABLE_ATTACHMENTS"])
    assert ("1", []) == (asked["inside"], asked["beside"])
    assert str(owed.root) not in asked["cwd"]
    assert "User: Fix it" in asked["prompt"]


def test_the_client_sends_the_prompt_and_little_else(
    owed: Project, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No system prompt of its own, no thinking, no instructions and no memory of the user's, whatever is set before."""
    monkeypatch.setenv("MAX_THINKING_TOKENS", "31999")
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "s1")
    client.plans(TEXT)
    came, events = reflected(owed, "claude")
    assert "" == came.failed
    (asked,) = client.asked
    words, environment = asked["words"], asked["environment"]
    system = words[words.index("--system-prompt") + 1]
    assert 0 < len(system) < 200
    switches = ("MAX_THINKING_TOKENS", "CLAUDE_CODE_DISABLE_CLAUDE_MDS", "CLAUDE_CODE_DISABLE_AUTO_MEMORY")
    assert ["0", "1", "1"] == [environment[name] for name in switches]
    assert "CLAUDE_CODE_SESSION_ID" not in environment
    # Measured: 1.2 kB besides the prompt, which an estimate of 3.5 bytes a token counts as well.
    sent_bytes = len(asked["prompt"].encode()) + 1_200
    assert sent_bytes / 3.5 + prompts.ANSWER_TOKENS <= events[0]["body"]["tokens"]
    assert events[0]["body"]["tokens"] < sent_bytes / 3.5 + prompts.ANSWER_TOKENS + 100


CLIENT_FAILURES: dict[str, tuple[dict[str, Any], str, str, int]] = {
    "no login": ({"stdout": "Invalid API key", "code": 1}, "unavailable", "claude ended with 1: Invalid API key", 0),
    "silence": ({"stdout": "", "code": 7}, "unavailable", "claude ended with 7: and said nothing", 0),
    "stderr": ({"stdout": "", "stderr": "unknown option", "code": 1}, "unavailable", "unknown option", 0),
    "error": (said("Overloaded", is_error=True), "unavailable", "Overloaded", 1250),
    "no text": (said("", result=None, subtype="error_max_turns"), "unavailable", "error_max_turns", 1250),
    "odd usage": (said("", result=7, usage={"input_tokens": "x"}), "unavailable", "success", 0),
    "refusal": (said("I cannot.", stop_reason="refusal"), "refused", "I cannot.", 1250),
    "prose": (said("I cannot help with that."), "unusable", "holds no whole JSON object", 1250),
}


@pytest.mark.parametrize("name", CLIENT_FAILURES)
def test_what_the_client_comes_to_nothing_with_is_a_failure(owed: Project, client: Client, name: str) -> None:
    """A failure of the client is recorded with its cause, its reason, and its cost."""
    step, cause, reason, tokens = CLIENT_FAILURES[name]
    client.plans(step)
    came, events = reflected(owed, "claude")
    assert (cause, tokens) == (events[-1]["body"]["cause"], came.tokens)
    assert reason in came.failed


def test_a_client_that_hangs_or_is_not_there_is_a_failure(
    owed: Project, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is ended after its time."""
    monkeypatch.setenv("TALLYBOOK_TIMEOUT_S", "1")
    client.plans(said(TEXT) | {"sleep_s": 30})
    assert "claude gave no answer within 1 s" == reflected(owed, "claude")[0].failed
    monkeypatch.setenv("PATH", os.devnull)
    assert reflected(owed, "claude")[0].failed.startswith("claude cannot be run: ")


def own_command(folder: Path, prints: str) -> list[str]:
    """Return a command of the user's own, which prints a text and stores what it was asked."""
    script = folder / "own"
    script.write_text(
        f"#!{sys.executable}\nimport json, os, sys\n"
        f"asked = {{'words': sys.argv[1:], 'prompt': sys.stdin.read(), 'beside': os.listdir()}}\n"
        f"open({str(folder / 'asked')!r}, 'w').write(json.dumps(asked))\nprint({prints!r})\n"
    )
    script.chmod(0o755)
    return [str(script), "-m", "{model}", "-s", "{system}", "--home={home}"]


@pytest.mark.parametrize(("key", "prints"), [("", TEXT), ("said", json.dumps({"said": TEXT}))])
def test_a_command_of_the_users_own_rates(owed: Project, tmp_path: Path, key: str, prints: str) -> None:
    """It gets the prompt on standard input in an empty folder, model and system prompt where its words name them."""
    words = own_command(tmp_path, prints)
    choose(rater="command", command=words, model="m-1", answer_key=key)
    assert 0 == main.run(["--project", str(owed.root), "reflect"])
    asked = json.loads((tmp_path / "asked").read_text())
    assert (["-m", "m-1", "-s"], []) == (asked["words"][:3], asked["beside"])
    assert "Answer with one JSON object" in asked["words"][3]
    assert "User: Fix it" in asked["prompt"]
    kinds = [row(record)["kind"] for batch in decode(open_log(owed).read()) for record in batch.records]
    assert 1 == kinds.count("point.rated")


def test_a_command_that_answers_nothing_is_a_failure(owed: Project, tmp_path: Path) -> None:
    """Output without the key of the answer, and no command at all, are one line each."""
    plan = Plan("command", command=tuple(own_command(tmp_path, "{}")), answer_key="said")
    came: list[Result] = []
    work(owed, plan, came.append)
    assert f"{tmp_path / 'own'} ended with 0: {{}}" == came[0].failed
    work(owed, Plan("command"), came.append)
    assert "no `command` is set; set it in the section [reflection] of your own tallybook.toml" == came[1].failed


def test_a_project_chooses_no_command(owed: Project, tmp_path: Path) -> None:
    """The settings of a repository cannot name a command that runs."""
    place = owed.root / ".claude" / "config" / "tallybook.toml"
    place.parent.mkdir(exist_ok=True)
    words = json.dumps(own_command(tmp_path, TEXT))
    place.write_text(f'[reflection]\nrater = "command"\ncommand = {words}\n')
    assert ("none", ()) == (settings.read(owed).rater, tuple(settings.read(owed).command))
    choose(rater="command", command=["true"])
    assert ("command", ("true",)) == (settings.read(owed).rater, tuple(settings.read(owed).command))
