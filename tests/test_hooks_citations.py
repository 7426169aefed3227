"""Citations: the forms in which a text names an entry, and which of them count: those of what the lineage was given."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from helpers.authors import HUMAN
from helpers.hook_calls import HOOK, START, call, events, here
from helpers.injections import give
from helpers.spool_files import held
from helpers.transcripts import Script, ask_again, kept
from tallybook.ledger.events import PlaybookInjected, PointCited
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.cli.main import run as run_here
from tallybook.projections.surfaces.hooks.citations import find_cited, find_given
from tallybook.projections.surfaces.mcp.protocol import Server
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.command_line import Run

__all__ = ["here"]

NAMES = ("kpt_001", "kpt_002", "my_001", "Pat-001", "a, b", "two words", "back\\slash")
BOTH = ["kpt_001", "kpt_002"]
FORMS = {
    "[kpt_001]": ["kpt_001"],
    "[KPT_001]": ["kpt_001"],
    "[kpt_1]": ["kpt_001"],
    "[pat-001]": ["Pat-001"],
    "[kpt_001, kpt_002]": BOTH,
    "[kpt_001/kpt_002]": BOTH,
    "[kpt_001 kpt_002]": BOTH,
    "[kpt_001 and kpt_002]": BOTH,
    "[my_001, kpt_001, and kpt_002]": ["my_001", *BOTH],
    r"\[kpt\_001\]": ["kpt_001"],
    "[`kpt_001`]": ["kpt_001"],
    "[\u00a0kpt_001\u200b]": ["kpt_001"],
    "[[kpt_001]]": ["kpt_001"],
    "[kpt_001](https://example.org)": ["kpt_001"],
    "[two words]": ["two words"],
    "[back\\slash]": ["back\\slash"],
    "[kpt_404, kpt_001]": ["kpt_001"],
    # A mark, a remark and an index are no citations.
    "[kpt_001 helpful]": [],
    "[see kpt_001]": [],
    "[]": [],
    "[kpt_001\n]": [],
    "[kpt_001": [],
    f"[kpt_001{' ' * 200}]": [],
}
"""A text → the entries that it cites."""


@pytest.mark.parametrize("text", FORMS)
def test_each_form_of_a_citation_is_seen(text: str) -> None:
    """A citation is seen in every form that agents write."""
    assert FORMS[text] == list(find_cited(f"As {text} says.", NAMES))


def test_a_name_in_another_case_means_no_entry_where_two_could_be_meant() -> None:
    """A citation whose case decides between two entries counts for the one that it names exactly."""
    assert {} == find_cited("[RULE]", ("rule", "Rule"))
    assert ["Rule"] == list(find_cited("[Rule]", ("rule", "Rule")))


@pytest.mark.parametrize("line", ["[kpt_001] helpful", "- **[kpt_001]**: harmful, why", "`[kpt_001]` neutral"])
def test_a_line_that_rates_cites_nothing(line: str) -> None:
    """A mark whose rating stands outside the brackets is no citation, so that it cannot vouch for itself."""
    assert [] == list(find_cited(f"Done.\n{line}", NAMES))
    assert ["kpt_001"] == list(find_cited(f"{line}\nAs [kpt_001] says.", NAMES))


def say(text: str, session: str = "s1", **fields: str) -> None:
    """Let an agent end its turn with a text."""
    assert "" == call({"hook_event_name": "Stop", "last_assistant_message": text, **fields}, session)


def cited(project: Project) -> list[str]:
    """Return the entries that were cited."""
    return [event.name for event in events(project, PointCited)]


def test_an_agent_that_changes_the_folder_cites_nothing_of_another_project(
    here: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry that another project has under the same name was not given to the session, so it is not cited there."""
    other = Project(tmp_path / "other")
    (other.root / ".claude").mkdir(parents=True)
    commands.add(other, "Something else", HUMAN)
    call({**START, "cwd": str(here.root)})
    monkeypatch.delenv("CLAUDE_PROJECT_DIR")
    say("As [kpt_001] says.", cwd=str(other.root))
    assert ([], []) == (cited(other), cited(here))
    say("As [kpt_001] says.", cwd=str(here.root))
    assert ["kpt_001"] == cited(here)


def test_reflection_counts_no_citation_of_what_the_session_was_not_given(project: Path) -> None:
    """A transcript that names an entry of another project leaves no citation."""
    place = Project(project)
    for text in ("Use type hints", "Write tests"):
        commands.add(place, text, HUMAN)
    script = Script(kept(project) / "s1.jsonl").user("Fix it").agent("As [kpt_001] and [kpt_002] say.")
    give(place, "s1", "kpt_002")
    ask_again(place, script)
    assert 0 == run_here(["reflect"])
    assert ["kpt_002"] == cited(place)


def test_a_session_cites_what_the_verb_playbook_gave_it(
    here: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an agent asked for by `tallybook show --as-agent` was given to its session."""
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "s1")
    assert 0 == run("show", "--as-agent", "--for", "type hints").code
    say("As [kpt_001] says.")
    say("As [kpt_001] says.", "s2")
    assert ["kpt_001"] == cited(here)


def test_a_session_cites_what_mcp_gave_it(here: Project) -> None:
    """What the tool `playbook` or the resource answered was given to the server's session."""
    for session, method, arguments in (
        ("s1", "tools/call", {"name": "playbook", "arguments": {"task": "type hints"}}),
        ("s2", "resources/read", {"uri": "tallybook://playbook"}),
    ):
        say("As [kpt_001] says.", session)
        Server(here, session).methods[method](arguments)
        say("Again, as [kpt_001] says.", session)
    assert ["kpt_001"] * 2 == cited(here)


def test_what_waits_in_the_spool_was_given(here: Project) -> None:
    """A session is given the playbook while another process holds the ledger, and cites it before that ends."""
    with held(here):
        call(START)
        say("As [kpt_001] says.")
    commands.add(here, "Take in what waits", HUMAN)
    assert (1, ["kpt_001"]) == (len(events(here, PlaybookInjected)), cited(here))


def test_the_ledger_says_what_was_given_where_the_markers_are_gone(here: Project) -> None:
    """A marker only saves time: without any, a fork of a fork still cites what its first session was given."""
    call(START)
    prompt = {"hook_event_name": "UserPromptSubmit", "prompt": "go on"}
    for parent, fork in (("s1", "s2"), ("s2", "s3")):
        call({**START, "source": "resume"}, parent)
        assert "" == call(prompt, fork)
    for marker in (here.ledger / "marks").iterdir():
        marker.unlink()
    say("As [kpt_001] says.", "s3")
    say("As [kpt_001] says.", "s4")
    assert ["kpt_001"] == cited(here)


def test_sessions_that_name_each_other_as_forks_end_the_search(here: Project) -> None:
    """Lineages that a planted ledger ties into a ring are followed once."""
    with (here.ledger / "events.jsonl").open("a", encoding="utf-8") as file:
        for session, parent in (("s1", "s2"), ("s2", "s1")):
            by, body = {"rater": "x", "session": session}, {"names": [], "lineage": parent}
            by_text = json.dumps(by, separators=(",", ":"))
            file.write(f'{{"by":{by_text},\t"kind":"playbook.injected","v":2,"body":{json.dumps(body)}}}\n')
    assert set() == find_given(here, "s1", ["kpt_001"])


def test_a_citation_that_nothing_can_hold_is_said_and_recorded_later(project: Path) -> None:
    """Where neither the ledger nor its spool takes it, standard error says so, and the transcript brings it later."""
    place = Project(project)
    commands.add(place, "Use type hints", HUMAN)
    script = Script(kept(project) / "s1.jsonl").user("Fix it").agent("As [kpt_001] says.")
    give(place, "s1", "kpt_001")
    (place.ledger / "spool").write_text("in the way of a folder", encoding="utf-8")
    stop = {"hook_event_name": "Stop", "session_id": "s1", "last_assistant_message": "As [kpt_001] says."}
    with held(place):
        done = subprocess.run(HOOK, input=json.dumps(stop).encode(), capture_output=True, timeout=60, check=False)
    assert (0, b"", 1) == (done.returncode, done.stdout, len(done.stderr.splitlines()))
    assert done.stderr.startswith(b"tallybook: ")
    assert b"spool" in done.stderr
    (place.ledger / "spool").unlink()
    ask_again(place, script)
    assert 0 == run_here(["reflect"])
    assert ["kpt_001"] == cited(place)
