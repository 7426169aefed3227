"""A person's own playbook: who makes it, what moves between it and a project, and results for both (rules 23 to 25)."""

from __future__ import annotations

import json
import os
from pathlib import Path
import subprocess
import sys
from typing import Any

import pytest

from helpers.commands import ROOT, Run
from helpers.events import give
from helpers.git_repositories import git
from helpers.hook_calls import START, call, events, read_context, set_to
from helpers.shared_clones import make_clones
from helpers.transcripts import Script, ScriptedClient, answer, asked_for, find_transcripts
from tallybook.ledger.codec import decode
from tallybook.ledger.events import PlaybookInjected, PointCited, PointNoted, PointRated
from tallybook.projections.surfaces.history.reading import open_log
from tallybook.projections.surfaces.workspace import personal
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import pair

OWN = "Commit small steps"


def test_nothing_of_it_is_shared(tmp_path: Path) -> None:
    """A shared book gets the project's events alone, and no verb of sharing takes the own playbook (rules 23, 24)."""
    remote, (anna,) = make_clones(tmp_path, "anna")
    anna.do("add", "Write tests")
    anna.do("init", "--mine")
    anna.do("add", "--mine", OWN)
    anna.do("share", "git", "--yes")
    anna.hook("SessionStart", source="startup")
    anna.hook("Stop", last_assistant_message="As [my_001] and [kpt_001] say.")
    anna.do("rate", "my_001", "kpt_001", "helpful")
    assert "my_001" not in anna.do("sync", "--dry-run")
    anna.do("sync")
    everything = git(remote, "log", "--all", "--patch")
    assert (True, False, False) == tuple(text in everything for text in ("Write tests", OWN, "my_001"))
    for words in (("share", "git", "--mine"), ("sync", "--mine"), ("share", "status", "--mine")):
        assert 2 == anna.run(*words).code
    mine_rated = anna.home / ".claude" / "my-playbook"
    assert not (mine_rated / "ledger" / "book").exists()
    assert {"kpt_001": ("Write tests", 1, 0)} == anna.entries()
    assert 1 == json.loads(anna.do("show", "--mine", "--json"))["key_points"][0]["helpful"]


# Ends the process as `kill -9` would, before the n-th write of a result.
KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from tallybook.projections.surfaces.cli import main
from tallybook.projections.surfaces.writing import pair

write, left = pair.recording.write, int(sys.argv[2])


def count(*arguments, **options):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return write(*arguments, **options)


pair.recording.write = count
sys.exit(main.run(sys.argv[3:]))
"""


@pytest.fixture
def mine(project: Path, run: Run) -> Project:
    """Make a project and a playbook of one's own with an entry each; return the latter."""
    run("add", "Write tests")
    run("init", "--mine")
    run("add", "--mine", OWN)
    found = personal.find(Project(project))
    assert found is not None
    return found


def counts(run: Run, *words: str) -> dict[str, tuple[int, int]]:
    """Return the counts of the entries that `show` prints."""
    found = json.loads(run("show", "--json", *words).out)["key_points"]
    return {entry["name"]: (entry["helpful"], entry["harmful"]) for entry in found}


def keys_of(project: Project, kind: type[Any]) -> list[str | None]:
    """Return the keys of the batches that hold an event of a kind."""
    batches = decode(open_log(project).read())
    return [batch.records[0].key for batch in batches if any(isinstance(event, kind) for event in batch.events)]


@pytest.mark.parametrize("writes", [0, 1])
@pytest.mark.parametrize("key", [(), ("--key", "k1")], ids=["without a key", "with a key"])
def test_a_crash_between_the_two_batches_loses_and_doubles_nothing(
    run: Run, project: Path, mine: Project, writes: int, key: tuple[str, ...]
) -> None:
    """The next command appends the second batch under the same key, and drops what the first never began (rule 24)."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "CLAUDE_PROJECT_DIR": str(project)}
    words = [sys.executable, "-c", KILLED, str(ROOT), str(writes), "rate", "kpt_001", "my_001", "helpful", *key]
    assert -9 == subprocess.run(words, env=environment, capture_output=True, check=False).returncode
    assert ({"kpt_001": (writes, 0)}, {"my_001": (0, 0)}) == (counts(run), counts(run, "--mine"))
    run("rate", "kpt_001", "neutral")
    assert ({"kpt_001": (writes, 0)}, {"my_001": (writes, 0)}) == (counts(run), counts(run, "--mine"))
    assert [] == list((mine.ledger / pair.PENDING).iterdir())
    if key:
        run("rate", "kpt_001", "my_001", "helpful", *key)
        assert [key[1]] == keys_of(mine, PointRated)
        assert ({"kpt_001": (1, 0)}, {"my_001": (1, 0)}) == (counts(run), counts(run, "--mine"))
    assert set(keys_of(mine, PointRated)) <= set(keys_of(Project(project), PointRated))


@pytest.mark.usefixtures("mine")
@pytest.mark.parametrize("by_task", [False, True], ids=["at the start", "by task"])
def test_both_share_one_budget(run: Run, project: Path, mine: Project, *, by_task: bool) -> None:
    """However many there are of both, the text has at most `budget_chars`; each ledger counts its own (rule 24)."""
    many = project / "many.json"
    for what, letter, whose in (("rule", "x", ()), ("habit", "y", ("--mine",))):
        texts = [f"Deploy {what} {number} {letter * 80}" for number in range(60)]
        many.write_text(json.dumps({"key_points": texts}), encoding="utf-8")
        run("import", str(many), *whose)
    set_to(Project(project), f"[playbook]\nbudget_chars = 4000\nby_task = {str(by_task).lower()}\n")
    call(START)
    context = read_context(call({"hook_event_name": "UserPromptSubmit", "prompt": "deploy"}, "s2"))
    (theirs,), (own,) = (
        [event for event in events(of, PlaybookInjected) if event.names][-1:] for of in (Project(project), mine)
    )
    assert 0 < len(context) <= 4_000
    for group, total, prefix in ((theirs, 61, "kpt_"), (own, 61, "my_")):
        assert all(name.startswith(prefix) for name in group.names)
        assert total == len(group.names) + sum(group.left_out.values())
        assert all(f"[{name}]" in context for name in group.names)
    assert context.count("] helpful=") == len(theirs.names) + len(own.names)


@pytest.mark.usefixtures("mine")
def test_a_reflection_rates_both_and_learns_nothing_anew(
    run: Run, project: Path, mine: Project, client: ScriptedClient
) -> None:
    """The rater is shown own entries by name, rates each where it is, and cannot add an own text (rule 24)."""
    script = Script(find_transcripts(project) / "s1.jsonl").user("Fix it").agent("Done as [kpt_001] and [my_001] say.")
    here = asked_for(project, script)
    give(mine, "s1", "my_001")
    client.plans(answer(OWN, kpt_001="helpful", my_001="harmful"))
    assert 0 == run("reflect", "--rater", "claude").code
    assert f"[my_001] helpful=0 harmful=0 :: {OWN}" in client.asked[0]["prompt"]
    assert ({"kpt_001": (1, 0)}, {"my_001": (0, 1)}) == (counts(run), counts(run, "--mine"))
    assert keys_of(here, PointRated) == keys_of(mine, PointRated)
    assert [{"kpt_001"}, {"my_001"}] == [
        {note.name for note in events(playbook, PointNoted)} for playbook in (here, mine)
    ]
    assert [["kpt_001"], ["my_001"]] == [[event.name for event in events(of, PointCited)] for of in (here, mine)]
    run("undo", "--of", "s1")
    assert ({"kpt_001": (0, 0)}, {"my_001": (0, 0)}) == (counts(run), counts(run, "--mine"))
