"""Which conversations are told the playbook, and how often: compactions, forks, and agents that read no such answer."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

from helpers.hook_calls import START, call, events, here, set_to, told
from helpers.injections import injected
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


@pytest.mark.parametrize("is_held", [False, True])
def test_a_compaction_that_settings_and_a_plugin_deliver_is_told_once(here: Project, *, is_held: bool) -> None:
    """Both hooks fire at the same moment, in processes of their own, whether or not the ledger is held."""
    compacted = {**START, "source": "compact", "prompt_id": "p1"}
    with ThreadPoolExecutor(6) as pool, held(here) if is_held else nullcontext():
        answers = list(pool.map(lambda _: call(compacted), range(6)))
    assert 1 == sum("Use type hints" in told(answer) for answer in answers)
    assert 1 == len(events(here, PlaybookInjected)) + len(spooled(here))


def test_a_forked_session_is_told_once(here: Project) -> None:
    """Its start carries the id of the session that it continues, which was told; its own comes with a prompt."""
    prompt = {"hook_event_name": "UserPromptSubmit", "prompt": "go on"}
    assert "Use type hints" in told(call(START))
    assert ["", "", ""] == [
        call({**START, "source": "resume"}),
        call(prompt, "the fork"),
        call(prompt, "the fork"),
    ]
    assert [injected(("kpt_001", "kpt_002"), 0)] == events(here, PlaybookInjected)
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
