"""Hook scripts written for the module that ``compat`` replaces: they run with their import changed and nothing else."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from helpers.hook_calls import events
from helpers.reference_model import book, point
from helpers.reflection_settings import choose
from helpers.repository import ROOT
from helpers.transcripts import Script, answer, kept
from tallybook import compat
from tallybook.ledger.errors import BadInputError
from tallybook.ledger.events import ReflectionCompleted
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from collections.abc import Callable

    from helpers.transcripts import Client

PROMPT = """\
import json
import sys

from common import format_playbook, is_diagnostic_mode, is_first_message, load_playbook, mark_session, save_diagnostic

event = json.load(sys.stdin)
answer = {}
if is_first_message(event["session_id"]):
    text = format_playbook(load_playbook())
    if text:
        if is_diagnostic_mode():
            save_diagnostic(text, "prompt")
        mark_session(event["session_id"])
        answer = {"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": text}}
print(json.dumps(answer))
"""
COMPACTION = """\
import asyncio
import json
import sys

from common import (
    clear_session,
    extract_keypoints,
    load_playbook,
    load_transcript,
    save_playbook,
    update_playbook_data,
)


async def main(event):
    messages = load_transcript(event.get("transcript_path"))
    if messages:
        playbook = load_playbook()
        found = await extract_keypoints(messages, playbook, "compaction")
        save_playbook(update_playbook_data(playbook, found))
        clear_session()


asyncio.run(main(json.load(sys.stdin)))
"""
END = COMPACTION.replace("    clear_session,\n", "    clear_session,\n    load_settings,\n").replace(
    "    if messages:", '    if messages and load_settings()["playbook_update_on_exit"]:'
)
SCRIPTS = {"prompt": PROMPT, "compaction": COMPACTION, "end": END}


@pytest.fixture
def hook(tmp_path: Path) -> Callable[..., Any]:
    """Return a function that runs one of the three scripts on a payload, and returns the printed JSON, or None."""

    def run(name: str, **payload: Any) -> Any:
        script = tmp_path / f"{name}.py"
        script.write_text(SCRIPTS[name].replace("from common import", "from tallybook.compat import"))
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        words, given = [sys.executable, str(script)], json.dumps(payload).encode()
        done = subprocess.run(words, input=given, capture_output=True, env=environment, check=False)
        assert (0, b"") == (done.returncode, done.stderr)
        return json.loads(done.stdout) if done.stdout else None

    return run


def injected(answered: dict[str, Any]) -> str:
    """Return the playbook's entries in the output of the prompt's script."""
    text: str = answered["hookSpecificOutput"]["additionalContext"]
    return "\n".join(line for line in text.splitlines() if line.startswith("["))


def test_hook_scripts_of_the_old_module_run(
    project: Path, client: Client, hook: Callable[..., Any], write_playbook: Callable[[object], Path]
) -> None:
    """A session gets the playbook once and again after a compaction; its end is reflected on if settings say so."""
    write_playbook(book("Use type hints."))
    choose(rater="claude")
    script = Script(kept(project) / "s1.jsonl").user("Fix it").agent("Done as [kpt_001] says.")
    session = {"session_id": "s1", "transcript_path": str(script.path)}
    first = "[kpt_001] helpful=0 harmful=0 :: Use type hints."
    assert first == injected(hook("prompt", **session))
    assert {} == hook("prompt", **session)
    assert first == injected(hook("prompt", session_id="s2"))
    client.plans(answer("Run the tests.", kpt_001="helpful"), answer(kpt_001="helpful", kpt_002="harmful"))
    assert None is hook("compaction", **session)
    assert "User: Fix it\nAgent: Done as [kpt_001] says." in client.asked[0]["prompt"]
    second = "[kpt_001] helpful=1 harmful=0 :: Use type hints.\n[kpt_002] helpful=0 harmful=0 :: Run the tests."
    assert second == injected(hook("prompt", **session))
    assert None is hook("end", **session)
    assert 1 == len(client.asked)
    settings = Path.home() / ".claude" / "settings.json"
    settings.write_text('{"playbook_update_on_exit": true}')
    assert None is hook("end", **session)
    ends = [point("kpt_001", "Use type hints.", 2), point("kpt_002", "Run the tests.", 0, 1)]
    assert ends == compat.load_playbook()["key_points"]
    assert not (project / ".claude" / "last_session.txt").exists()


def test_messages_are_loaded_unchanged(tmp_path: Path) -> None:
    """A text is whole; of a list the texts are joined by line breaks, and the rest is left out."""
    long, secret = "x" * 50_000, f"ghp_{'a1B2' * 9}"
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
    script = Script(tmp_path / "s1.jsonl").user(long).agent("one", call, f"two {secret}").agent(call).user("")
    script.user("unseen", isMeta=True).user("<command-name>/clear</command-name>").line("system", "unseen")
    with script.path.open("a", encoding="utf-8") as file:
        file.write('not JSON\n[]\n{"type": []}\n{"type": "user", "message": 7}\n{"type": "user", "mess')
    expected = [{"role": "user", "content": long}, {"role": "assistant", "content": f"one\ntwo {secret}"}]
    assert expected == compat.load_transcript(script.path)


@pytest.mark.parametrize("damaged", [None, b"{", b"[]", b"\xff"], ids=repr)
def test_unreadable_settings_switch_the_updates_off(damaged: bytes | None) -> None:
    """Without a usable settings.json of the user both updates are off; else it is returned unchanged."""
    settings = Path.home() / ".claude" / "settings.json"
    settings.parent.mkdir(exist_ok=True)
    if damaged is not None:
        settings.write_bytes(damaged)
    off = {"playbook_update_on_exit": False, "playbook_update_on_clear": False}
    compat.load_settings()["playbook_update_on_exit"] = True
    assert off == compat.load_settings()
    settings.write_text('{"model": "opus", "playbook_update_on_clear": true}')
    assert {"model": "opus", "playbook_update_on_clear": True} == compat.load_settings()


def test_the_function_of_the_specification_respects_the_daily_tokens(project: Path, client: Client) -> None:
    """Its cost counts with the rest, a run beyond the limit does not begin, and no secret is sent."""
    choose(rater="claude", tokens_per_day=6_000)
    place = Project(project)
    commands.add(place, "Use type hints.", {"rater": "human"})
    client.plans(answer(kpt_001="helpful"))
    messages = [{"role": "user", "content": f"my token is ghp_{'a1B2' * 9}"}]
    asyncio.run(compat.extract_keypoints(messages, compat.load_playbook()))
    assert "ghp_" not in client.asked[0]["prompt"]
    assert [ReflectionCompleted("claude", 1200, 50)] == events(place, ReflectionCompleted)
    with pytest.raises(BadInputError, match="tokens_per_day: has too little left"):
        asyncio.run(compat.extract_keypoints([{"role": "user", "content": "x" * 4_000}], compat.load_playbook()))
    assert 1 == len(client.asked)
