"""Payloads of agents, recorded, typed and damaged: who calls, what is answered, and what the ledger says of it."""

from __future__ import annotations

from collections.abc import Callable
import json
from pathlib import Path
from typing import Any

import attrs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
import pytest

from helpers.agent_payloads import fill_paths, kinds, load_payloads, observe, place_transcripts, shape_of
from helpers.events import HUMAN, give
from helpers.hook_calls import call, call_hook, events, here, set_to
from helpers.reference_model import JSON
from helpers.sweep import slice_of
from tallybook.ledger.events import PlaybookInjected, PointCited, ReflectionRequested
from tallybook.ledger.verification import verify
from tallybook.projections.surfaces.agents import table
from tallybook.projections.surfaces.history.reading import open_log
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands

__all__ = ["here"]
CLAUDE = {"hook_event_name": "SessionStart", "source": "startup"}
CODEX = {"hook_event_name": "UserPromptSubmit", "turn_id": "t1", "model": "m", "prompt": "go on"}
GEMINI = {"hook_event_name": "BeforeAgent", "timestamp": "2026-11-23T10:00:00Z", "prompt": "go on"}
COPILOT = {
    "hook_event_name": "SessionStart",
    "timestamp": "2026-11-23T10:00:00Z",
    "source": "new",
    "initial_prompt": "x",
}
COPILOT_PROMPT = {"hook_event_name": "UserPromptSubmit", "timestamp": "2026-11-23T10:00:00Z", "prompt": "x"}
COPILOT_STOP = {"hook_event_name": "Stop", "timestamp": "2026-11-23T10:00:00Z", "stop_reason": "end_turn"}
CURSOR = {"hook_event_name": "sessionStart", "conversation_id": "s1", "workspace_roots": ["/p"]}

Case = tuple[dict[str, Any], dict[str, str], str]
CASES: dict[str, Case] = {
    "Claude Code's shape without a mark": (CLAUDE, {}, "claude"),
    "Claude Code, by its session": (CLAUDE, {"CLAUDE_CODE_SESSION_ID": "s1"}, "claude"),
    "Claude Code in Copilot's shell, by its session": (
        CLAUDE,
        {"CLAUDE_CODE_SESSION_ID": "s1", "COPILOT_CLI": "1", "CURSOR_VERSION": "1"},
        "claude",
    ),
    "Claude Code in Copilot's shell, by its prompt": ({**CLAUDE, "prompt_id": "p"}, {"COPILOT_CLI": "1"}, "claude"),
    "Claude Code's shape in Copilot's shell": (CLAUDE, {"COPILOT_CLI": "1"}, ""),
    "Claude Code's shape in Gemini's shell": (CLAUDE, {"GEMINI_SESSION_ID": "another"}, ""),
    "Claude Code's shape in Cursor's shell": (CLAUDE, {"CURSOR_VERSION": "1"}, "cursor"),
    "Codex, by its turn": (CODEX, {}, "codex"),
    "Codex in Claude Code's shell": (CODEX, {"CLAUDE_CODE_SESSION_ID": "another"}, "codex"),
    "Codex in Copilot's shell": (CODEX, {"COPILOT_CLI": "1"}, "codex"),
    "Codex, by a session that it does not save": ({**CLAUDE, "transcript_path": None}, {}, "codex"),
    "Copilot's field and no transcript": ({**COPILOT, "transcript_path": None}, {}, "copilot"),
    "a time and no transcript": ({**GEMINI, "transcript_path": None}, {}, ""),
    "no transcript, in Cursor's shell": ({**CLAUDE, "transcript_path": None}, {"CURSOR_VERSION": "1"}, "cursor"),
    "Codex and Copilot at once": ({**CODEX, "initial_prompt": "x"}, {}, ""),
    "Gemini, by its session": (GEMINI, {"GEMINI_SESSION_ID": "s1"}, "gemini"),
    "Gemini in Copilot's shell, by its session": (GEMINI, {"GEMINI_SESSION_ID": "s1", "COPILOT_CLI": "1"}, "gemini"),
    "Gemini's shape with another's session": (GEMINI, {"GEMINI_SESSION_ID": "another"}, ""),
    "Gemini's shape without a mark": (GEMINI, {}, ""),
    "Copilot, by its prompt": (COPILOT, {}, "copilot"),
    "Copilot, in camelCase": ({"sessionId": "s1", "timestamp": 1, "source": "new"}, {}, "copilot"),
    "Copilot, by the environment": (COPILOT_STOP, {"COPILOT_CLI": "1"}, "copilot"),
    "two inherited marks": (COPILOT_STOP, {"COPILOT_CLI": "1", "CURSOR_VERSION": "1"}, ""),
    "Visual Studio Code": ({"sessionId": "s1", "hookEventName": "SessionStart", "timestamp": "x"}, {}, ""),
    "Cursor": (CURSOR, {}, "cursor"),
    "two sessions that prove it": (CLAUDE, {"CLAUDE_CODE_SESSION_ID": "s1", "GEMINI_SESSION_ID": "s1"}, ""),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_caller_is_recognised_by_payload_and_environment(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proof counts first, then the payload, then the environment; contradicting marks name nobody."""
    document, environment, agent = case
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert agent == table.recognise({"session_id": "s1"} | document)


@pytest.mark.parametrize("agent", [name for name, marks in table.AGENTS.items() if marks.transcripts])
def test_a_transcript_in_an_agents_folder_is_a_mark_of_that_agent(agent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is the one that the agent's variable names, else the one below the home folder."""
    (variable, folder), below = table.AGENTS[agent].home, table.AGENTS[agent].transcripts
    usual = Path.home() / folder / below / "x" / "t.jsonl"
    assert agent == table.recognise({"session_id": "s1", "transcript_path": str(usual)})
    if variable:
        monkeypatch.setenv(variable, "/elsewhere")
        assert "claude" == table.recognise({"session_id": "s1", "transcript_path": str(usual)})
        named = {"session_id": "s1", "transcript_path": f"/elsewhere/{below}/t.jsonl"}
        assert agent == table.recognise(named)


def test_codex_is_given_no_more_bytes_than_it_passes_on(here: Project) -> None:
    """Its limit counts bytes, so of a playbook in another script fewer entries fit; Claude Code counts characters."""
    for number in range(40):
        commands.add(here, f"規則{number}" + "規" * 180, HUMAN)
    context = json.loads(call(CODEX))["hookSpecificOutput"]["additionalContext"]
    assert 5_000 < len(context.encode()) <= 10_000
    start = json.loads(call({**CLAUDE, "transcript_path": None}, "s3"))["hookSpecificOutput"]["additionalContext"]
    assert len(context.encode()) == len(start.encode())
    assert 7_000 < len(json.loads(call(CLAUDE, "s2"))["hookSpecificOutput"]["additionalContext"]) <= 8_000


def test_a_subagent_is_given_the_playbook_if_a_setting_says_so(here: Project) -> None:
    """Once for each subagent, and the session itself is not affected."""
    start = {"hook_event_name": "SubagentStart", "agent_id": "a1", "agent_type": "Explore"}
    assert "" == call(start)
    set_to(here, "[playbook]\nsubagents = true\n")
    assert "[kpt_001]" in call(start)
    assert ["", ""] == [call(start), call({**start, "hook_event_name": "PreToolUse"})]
    assert "[kpt_001]" in call({**start, "agent_id": "a2"})
    assert "[kpt_001]" in call(CLAUDE)
    assert 3 == len(events(here, PlaybookInjected))


def test_copilot_is_given_the_playbook_again_at_the_first_prompt_after_a_compaction(
    here: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reports a compaction's beginning alone, and the compaction takes what an earlier prompt was given."""
    monkeypatch.setenv("COPILOT_CLI", "1")
    compaction = {**COPILOT_STOP, "hook_event_name": "PreCompact", "trigger": "auto"}
    answers = [call(document) for document in (compaction, *[COPILOT_PROMPT] * 2, compaction, *[COPILOT_PROMPT] * 2)]
    assert [False, True, False, False, True, False] == ["[kpt_001]" in answer for answer in answers]
    assert 2 == len(events(here, PlaybookInjected))


def test_an_agent_that_may_end_without_a_hook_awaits_reflection_at_each_stop(here: Project) -> None:
    """Claude Code reports its end, so its stops record nothing unless a setting says so."""
    path = Path.home() / "t.jsonl"
    path.write_text("{}\n")
    stop = {"hook_event_name": "Stop", "transcript_path": str(path), "last_assistant_message": "as [kpt_001] says"}
    for session in ("s1", "s2"):
        give(here, session, "kpt_001")
    call(stop)
    assert [] == events(here, ReflectionRequested)
    call({**stop, "turn_id": "t1"}, "s2")
    assert [ReflectionRequested(3, "Stop", str(path))] == events(here, ReflectionRequested)
    assert 2 == len(events(here, PointCited))


ROWS = {
    f"{agent} {number} {row['event'] or ' '.join(row['payload'])}": row
    for agent in table.AGENTS
    for number, row in enumerate(load_payloads(agent), 1)
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_recorded_payload_comes_to_what_its_agent_means(here: Project, row: dict[str, Any]) -> None:
    """The caller is recognised, is answered only where it takes an answer, and nothing else is recorded as injected."""
    place_transcripts(row, here.root)
    outcome = observe(row, here)
    assert row["expected"] == outcome
    assert bool(outcome["answer"]) == ("playbook.injected" in outcome["recorded"])


ROWS_BY_AGENT = {agent: load_payloads(agent) for agent in table.AGENTS}
FIELDS = sorted({field for rows in ROWS_BY_AGENT.values() for row in rows for field in row["payload"]})
ODD: list[Any] = [
    "\ud800 [kpt_001]",
    "\udfff" * 40,
    "a\0b [kpt_002]",
    "\u202e[kpt_001]\u0000",
    "[kpt_001]" * 20_000,
    "x" * 200_000,
    "/",
    "../../../../etc/passwd",
    "SessionStart",
    "compact",
    10**400,
    -1.5e308,
    True,
    None,
    [],
    {},
    [[[[["[kpt_001]"]]]]],
    {"hook_event_name": "SessionStart"},
]
VALUES = st.sampled_from(ODD) | JSON


@attrs.frozen
class BadPayload:
    """A recorded payload that was changed; a report shows the beginning of it."""

    row: dict[str, Any] = attrs.field(repr=False)
    data: bytes = attrs.field(repr=lambda data: repr(data[:2_000]))


@st.composite
def bad_payloads(draw: st.DrawFn, agent: str) -> BadPayload:
    """Draw a recorded payload of an agent, and change it."""
    row = draw(st.sampled_from(ROWS_BY_AGENT[agent]))
    document = dict(row["payload"])
    for _ in range(draw(st.integers(0, 3))):
        document.pop(draw(st.sampled_from(sorted(document) or [""])), None)
    document |= draw(st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=4))
    data = json.dumps(draw(st.just(document) | VALUES) if draw(st.integers(0, 9)) == 0 else document).encode()
    shape: Callable[[bytes], bytes] = draw(st.sampled_from(SHAPES))
    return BadPayload(row, shape(data))


SHAPES: tuple[Callable[[bytes], bytes], ...] = (
    *[bytes] * 6,
    lambda data: data[: len(data) // 2],
    lambda data: data + data,
    lambda data: b"[" * 3_000 + data,
    lambda data: data.replace(b'"', b"\xff", 1),
    lambda data: b"\xef\xbb\xbf" + data,
    lambda data: data.replace(b"[kpt", b"\\ud800[kpt"),
    lambda data: b"\0" + data,
)
"""What becomes of the bytes; most often nothing."""


@pytest.mark.parametrize("agent", table.AGENTS)
def test_a_bad_payload_ends_with_0_and_loses_and_invents_nothing(here: Project, agent: str) -> None:
    """The ledger verifies, its entries are the same, and only an answer that was printed is recorded as injected."""

    @settings(
        max_examples=slice_of(1_000, 25), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
    )
    @given(drawn=bad_payloads(agent))
    def try_one(drawn: BadPayload) -> None:
        environment = {name: fill_paths(value, here.root) for name, value in drawn.row["environment"].items()}
        before, entries = kinds(here), here.playbook.read_bytes()
        data = fill_paths(drawn.data.decode("utf-8", "surrogateescape"), here.root).encode("utf-8", "surrogateescape")
        done = call_hook(data, environment)
        after = kinds(here)
        assert 0 == done.returncode
        assert b"" == done.stderr or (done.stderr.startswith(b"tallybook: ") and b"Traceback" not in done.stderr)
        assert before == after[: len(before)]
        added = after[len(before) :]
        assert bool(shape_of(done.stdout)) == ("playbook.injected" in added)
        assert {"playbook.injected", "point.cited", "reflection.requested"} >= set(added)
        assert entries == here.playbook.read_bytes()
        assert verify(open_log(here)).ok

    try_one()
