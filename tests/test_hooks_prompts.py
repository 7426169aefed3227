"""Injection by task (rule 22): each prompt is given the entries that fit it, and an entry is given once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
import json
from typing import TYPE_CHECKING, Any

import pytest

from helpers.authors import HUMAN
from helpers.hook_calls import START, call, call_apart, events, set_to, told
from helpers.reference_model import extraction
from helpers.spool_files import held, spooled
from tallybook.ledger.events import PlaybookInjected
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = (
    "Run the tests before each commit.",
    "Quote ids as strings in JSON.",
    "Write commit subjects in the imperative.",
    "Name the units of numbers.",
)
BY_TASK = "[playbook]\nby_task = true\n"


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with four entries, of which the second is rated, that is injected by task."""
    made = Project(project)
    for text in TEXTS:
        commands.add(made, text, HUMAN)
    commands.rate(made, "kpt_002", "helpful", HUMAN)
    set_to(made, BY_TASK)
    return made


def ask(text: str, session: str = "s1", **more: Any) -> str:
    """Send a prompt, and return the context that the model is given."""
    return told(call({"hook_event_name": "UserPromptSubmit", "prompt": text, **more}, session))


def names(context: str) -> list[str]:
    """Return the names of the entries in a context, in order."""
    return [line[1:].partition("]")[0] for line in context.split("\n") if line.startswith("[kpt_")]


@pytest.mark.usefixtures("here")
def test_each_prompt_is_given_what_fits_it_and_was_not_given() -> None:
    """The best comes first; what a session has is not given again, and another session has nothing yet (rule 22)."""
    assert "" == call(START)
    assert "" == call({"hook_event_name": "PreToolUse"})
    first = ask("commit these tests", prompt_id="p1")
    assert ["kpt_001", "kpt_003", "kpt_002"] == names(first)
    assert "Higher helpful counts" in first
    assert "(1 more key points were left out; this prompt has little to do with them.)" in first
    assert "" == ask("and commit again", prompt_id="p2")
    later = ask("which units has this commit?", prompt_id="p3")
    assert (["kpt_004"], True) == (names(later), later.startswith("More key points of this project's playbook"))
    assert "" == call({"hook_event_name": "PreToolUse"})
    assert ["kpt_004", "kpt_002"] == names(ask("units", "s2"))


def test_the_event_has_names_and_numbers_and_nothing_of_the_prompt(here: Project) -> None:
    """It counts what was left out by cause, and has the lowest score and a digest of the candidates (rule 22)."""
    ask("commit these zebras")
    ask("which units has this commit?")
    first, second = events(here, PlaybookInjected)
    assert ("kpt_003", "kpt_001", "kpt_002") == first.names
    assert [{"unrelated": 1}, {"told": 3}] == [dict(injection.left_out) for injection in (first, second)]
    assert 0 < first.lowest < second.lowest
    assert first.candidates == second.candidates != ""
    assert ("", (), 0.0) == (first.question, first.held, first.probability)
    assert not any(b"zebra" in path.read_bytes() for path in here.ledger.rglob("*") if path.is_file())


def test_after_a_compaction_a_session_is_given_the_same_again(here: Project) -> None:
    """What it was given is repeated at once, and later prompts add to that; doubled hooks repeat it once (rule 22)."""
    ask("commit these tests", prompt_id="p1")
    compacted = {**START, "source": "compact", "prompt_id": "p1"}
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: told(call_apart(compacted)), range(4)))
    assert [["kpt_001", "kpt_002", "kpt_003"]] == [names(answer) for answer in answers if answer]
    assert "" == ask("commit", prompt_id="p2")
    assert ["kpt_004"] == names(ask("units", prompt_id="p3"))
    assert [3, 3, 1] == [len(event.names) for event in events(here, PlaybookInjected)]


@pytest.mark.parametrize("identity", [{}, {"prompt_id": "p1"}], ids=["without an id", "with an id"])
def test_a_doubled_installation_gives_an_entry_once(here: Project, identity: dict[str, str]) -> None:
    """Of hooks that get the same prompt at once, one answers, also while the ledger is held (rule 22)."""
    with ThreadPoolExecutor(4) as pool:
        prompt = {"hook_event_name": "UserPromptSubmit", "prompt": "commit", **identity}
        answers = list(pool.map(lambda _: told(call_apart(prompt)), range(4)))
    assert [["kpt_003", "kpt_001", "kpt_002"]] == [names(answer) for answer in answers if answer]
    with held(here):
        assert ["kpt_004"] == names(ask("units"))
        assert "" == ask("units")
    assert 1 == len(spooled(here))


@pytest.mark.usefixtures("here")
def test_a_fork_has_what_its_session_has() -> None:
    """Its first prompt is given only what the session that it continues was not given (rule 22)."""
    ask("commit")
    assert "" == call({**START, "source": "resume"})
    assert "" == ask("commit", "the fork")
    assert ["kpt_004"] == names(ask("units", "the fork"))


def test_a_session_is_given_no_more_than_the_budget(here: Project) -> None:
    """A prompt is given at most half of what is left, so later ones find room; held room included (rule 22)."""
    rules = [f"Topic{number % 20} has the rule {number}: {'x' * 60}" for number in range(200)]
    commands.record(here, extraction(new=rules), HUMAN)
    set_to(here, f"{BY_TASK}budget_chars = 6000\n")
    sizes = [len(ask(f"work on topic{number}")) for number in range(12)]
    assert 0 < sum(sizes) <= 6_000
    spent = 0
    for size in sizes:
        assert size <= (6_000 - spent) / 2
        spent += size
    assert sum(map(bool, sizes)) > 2


CALLERS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "claude": ({"hook_event_name": "UserPromptSubmit", "prompt_id": "p1"}, {}),
    "codex": ({"hook_event_name": "UserPromptSubmit", "turn_id": "t1", "model": "m"}, {}),
    "gemini": ({"hook_event_name": "BeforeAgent", "timestamp": "2026-11-23T10:00:00Z"}, {"GEMINI_SESSION_ID": "s1"}),
    "copilot": ({"hook_event_name": "UserPromptSubmit", "timestamp": "2026-11-23T10:00:00Z"}, {"COPILOT_CLI": "1"}),
}


@pytest.mark.parametrize("agent", CALLERS)
def test_every_agent_whose_prompts_take_an_answer_is_served(
    here: Project, monkeypatch: pytest.MonkeyPatch, agent: str
) -> None:
    """The prompt's own field is read, and the answer has the agent's own shape (rule 22)."""
    payload, environment = CALLERS[agent]
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    answer = json.loads(call({**payload, "prompt": "units, please"}))
    context = answer["additionalContext"] if agent == "copilot" else answer["hookSpecificOutput"]["additionalContext"]
    assert ["kpt_004", "kpt_002"] == names(context)
    assert 1 == len(events(here, PlaybookInjected))
