"""Which conversations are told the playbook, and how often: compactions, forks, and agents that read no such answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from helpers.hook_calls import START, call, events, here, set_to, told
from helpers.injections import continued, injected
from helpers.spool_files import held, spooled
from tallybook.ledger import clock
from tallybook.ledger.events import PlaybookInjected
from tallybook.projections.surfaces.hooks import handler

if TYPE_CHECKING:
    from tallybook.projections.surfaces.workspace.project import Project

__all__ = ["here"]


def test_two_compactions_in_one_turn_are_told_each(here: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two deliveries are one compaction only if they have the same prompt's id and come within 10 s of each other."""
    compacted = {**START, "source": "compact", "prompt_id": "p1"}
    assert "Use type hints" in told(call(compacted))
    assert "" == call(compacted)
    assert "Use type hints" in told(call({**compacted, "prompt_id": "p2"}))
    assert "Use type hints" in told(call(compacted, "s2"))
    assert 3 == len(events(here, PlaybookInjected))
    payload = handler.read_payload({"session_id": "s1", "cwd": str(here.root), **compacted})
    now_us = clock.utc_now().unix_us
    monkeypatch.setattr(clock, "utc_now", lambda: clock.moment(now_us + 11 * clock.MICROSECONDS))
    assert "Use type hints" in told(handler.handle(payload))
    assert "" == handler.handle(payload)
    assert 4 == len(events(here, PlaybookInjected))


@pytest.mark.parametrize("first_is_recorded", [True, False])
def test_a_compaction_is_told_once_while_the_ledger_is_held(here: Project, *, first_is_recorded: bool) -> None:
    """The second delivery finds the first one in the log, or in the spool; another prompt's compaction is told."""
    compacted = {**START, "source": "compact", "prompt_id": "p1"}
    first = call(compacted) if first_is_recorded else ""
    with held(here):
        first = first or call(compacted)
        assert "Use type hints" in told(first)
        assert "" == call(compacted)
        assert "Use type hints" in told(call({**compacted, "prompt_id": "p2"}))
    assert (1 if first_is_recorded else 2) == len(spooled(here))


def codex(home: Path, session: str, parent: str = "") -> dict[str, str]:
    """Return what Codex says with each event of a session, of which it wrote a transcript; of a fork, its start."""
    path = home / ".codex" / "sessions" / "2026" / "11" / "25" / f"rollout-2026-11-25T12-00-00-{session}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    meta = {"id": session, "cwd": "/shop"} | ({"forked_from_id": parent} if parent else {})
    path.write_text(json.dumps({"type": "session_meta", "payload": meta}) + "\n", encoding="utf-8")
    return {"transcript_path": str(path)}


def test_a_fork_of_codex_is_given_the_playbook_once(here: Project) -> None:
    """A fork, and a fork of a fork, starts under an id of its own; its transcript names the session it continues."""
    home = Path.home()
    assert "Use type hints" in told(call({**START, **codex(home, "c1")}, "c1"))
    for parent, fork in (("c1", "c2"), ("c2", "c3")):
        start = {**START, "source": "fork", **codex(home, fork, parent)}
        prompt = {
            "hook_event_name": "UserPromptSubmit",
            "turn_id": "t1",
            "prompt": "go on",
            **codex(home, fork, parent),
        }
        assert ["", "", ""] == [call(start, fork), call(start, fork), call(prompt, fork)]
    given = injected(("kpt_001", "kpt_002"), 0)
    assert [given, continued("c1"), continued("c2")] == events(here, PlaybookInjected)
    assert "Use type hints" in told(call({**START, "source": "compact", **codex(home, "c3", "c2")}, "c3"))


def test_a_fork_whose_transcript_comes_late_is_known_at_its_first_prompt(here: Project) -> None:
    """A fork's start without a transcript is given nothing; the prompt decides."""
    home, start = Path.home(), {**START, "source": "fork", "transcript_path": "/nowhere/rollout-c2.jsonl"}
    call({**START, **codex(home, "c1")}, "c1")
    assert ["", ""] == [call(start, "c2"), call(start, "c9")]
    prompt = {"hook_event_name": "UserPromptSubmit", "turn_id": "t1", "prompt": "go on"}
    assert "" == call({**prompt, **codex(home, "c2", "c1")}, "c2")
    assert "Use type hints" in told(call({**prompt, **codex(home, "c9")}, "c9"))
    assert [continued("c1")] == [event for event in events(here, PlaybookInjected) if event.lineage]


def test_a_branch_of_claude_code_is_given_the_playbook_once(here: Project, tmp_path: Path) -> None:
    """A branch copies the lines of its session, each with the id of that session."""
    call(START)
    path = tmp_path / "b1.jsonl"
    copied = {"type": "user", "uuid": "u1", "sessionId": "b1", "forkedFrom": {"sessionId": "s1", "messageUuid": "u0"}}
    path.write_text(json.dumps({"type": "summary"}) + "\n" + json.dumps(copied) + "\n", encoding="utf-8")
    prompt = {"hook_event_name": "UserPromptSubmit", "prompt": "go on", "transcript_path": str(path)}
    assert "" == call(prompt, "b1")
    assert [injected(("kpt_001", "kpt_002"), 0), continued("s1")] == events(here, PlaybookInjected)


def test_a_forked_session_is_told_once(here: Project) -> None:
    """Its start carries the id of the session that it continues, which was told; its own comes with a prompt."""
    prompt = {"hook_event_name": "UserPromptSubmit", "prompt": "go on"}
    assert "Use type hints" in told(call(START))
    assert ["", "", ""] == [
        call({**START, "source": "resume"}),
        call(prompt, "the fork"),
        call(prompt, "the fork"),
    ]
    assert [injected(("kpt_001", "kpt_002"), 0), continued("s1")] == events(here, PlaybookInjected)
    # A session that is resumed as itself leaves nothing that another one could be taken for its fork by.
    assert ["", ""] == [call({**START, "source": "resume"}), call(prompt)]
    assert "Use type hints" in told(call(prompt, "another"))


def test_a_fork_of_a_session_that_was_told_nothing_is_told(here: Project) -> None:
    """Nothing of the playbook stands in the conversation that it continues."""
    set_to(here, "[playbook]\nbudget_chars = 0\n")
    assert ["", ""] == [call(START), call({**START, "source": "resume"})]
    set_to(here, "[playbook]\nbudget_chars = 8000\n")
    assert "Use type hints" in told(call({"hook_event_name": "UserPromptSubmit", "prompt": "go on"}, "the fork"))


@pytest.mark.parametrize("variable", ["COPILOT_CLI", "CURSOR_VERSION", "GEMINI_SESSION_ID"])
def test_a_caller_that_does_not_take_this_answer_is_told_nothing(
    here: Project, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """And nothing is recorded as told; Claude Code in the terminal of such an agent is told, by its session's id."""
    monkeypatch.setenv(variable, "1")
    prompt = {"hook_event_name": "UserPromptSubmit", "prompt": "go on"}
    assert ["", ""] == [call(START), call(prompt)]
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "another")
    assert "" == call(START)
    assert [] == events(here, PlaybookInjected)
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "s1")
    assert "Use type hints" in told(call(START))
    assert 1 == len(events(here, PlaybookInjected))
