"""Entries that may be stale: without a sign of use, or about a path that git no longer has (rule 20)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from helpers.git_repositories import commit, git
from helpers.injections import continued, injected
from helpers.reviews import give, items, record
from helpers.transcripts import Script, ask_again, kept
from tallybook.ledger.events import (
    Entry,
    PointCited,
    PointRated,
)
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.review import stale
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.command_line import Run
    from tallybook.ledger.events import Event


def test_no_sign_of_use_needs_ten_sessions_whose_citations_are_seen(project: Path, run: Run) -> None:
    """Nine such sessions, or any number of others, say nothing of an entry (rule 20)."""
    run("add", "Never push on Friday.")
    give(project, "kpt_001", sessions=30, seen=False)
    give(project, "kpt_001", sessions=9)
    assert [] == items(run)
    record(project, injected(("kpt_001",), 0), session="s9")
    record(project, PointCited("kpt_002", "Bash"), session="s9")
    assert [] == items(run)
    record(project, PointCited("kpt_002", "message"), session="s9")
    assert [("no sign of use", ["kpt_001"])] == items(run)


def test_a_session_that_ended_before_any_prompt_was_given_nothing(project: Path, run: Run) -> None:
    """A client that is closed at once gave its model nothing, and a fork is given nothing: neither counts."""
    place = Project(project)
    run("add", "Never push on Friday.")
    give(project, "kpt_001", sessions=9)
    closed = Script(kept(project) / "closed.jsonl", "closed").line("attachment", attachment={"type": "hook_success"})
    fork = Script(kept(project) / "fork.jsonl", "fork").user("Go on").agent("Done")
    record(project, injected(("kpt_001",), 0), session="closed")
    record(project, continued("s1"), session="fork")
    for script in (closed, fork):
        ask_again(place, script)
    assert 0 == run("reflect").code
    reads = [row for row in commands.list_events(place) if row["kind"] == "transcript.read"]
    assert {"closed": 0, "fork": fork.path.stat().st_size} == {
        row["by"]["session"]: row["body"]["end"] for row in reads if row["by"]["session"] in {"closed", "fork"}
    }
    assert [] == items(run)
    # Once there is a prompt, its transcript is read from the beginning.
    ask_again(place, closed.user("Fix it").agent("Done"))
    assert 0 == run("reflect").code
    assert [("no sign of use", ["kpt_001"])] == items(run)


@pytest.mark.parametrize(
    "sign",
    [PointCited("kpt_001", "message"), PointCited("kpt_001", "Bash"), PointRated("kpt_001", "helpful")],
    ids=["message", "tool", "rating"],
)
def test_a_citation_or_a_rating_is_a_sign_of_use(project: Path, run: Run, sign: Event) -> None:
    """An entry that was cited or rated once is not called without a sign of use (rule 20)."""
    run("add", "Never push on Friday.")
    give(project, "kpt_001", sessions=12)
    record(project, sign, session="s99")
    assert "no sign of use" not in run("why", "kpt_001").out
    assert [("unproven", ["kpt_001"])] == items(run)


def test_a_citation_of_a_merged_entry_is_one_of_the_entry_that_remains(project: Path, run: Run) -> None:
    """An entry that took in a cited one has a sign of use (rule 20)."""
    for text in ("Never push on Friday.", "Deploy on Monday at noon."):
        run("add", text)
    give(project, "kpt_001")
    record(project, PointCited("kpt_002", "message"), session="s1")
    run("merge", "kpt_001", "kpt_002")
    assert [("unproven", ["kpt_001"])] == items(run)


def test_a_new_text_begins_anew(project: Path, run: Run) -> None:
    """Sessions that were given an earlier text say nothing of the present one (rule 20)."""
    run("add", "Never push on Friday.")
    give(project, "kpt_001")
    run("reword", "kpt_001", "Push on Monday.")
    assert [] == items(run)


def test_the_words_say_what_is_known_and_no_more(project: Path, run: Run) -> None:
    """`why`, `review` and `doctor` say the same, and that a working prohibition is never cited (rule 20)."""
    run("add", "Never push on Friday.")
    give(project, "kpt_001", sessions=11)
    says = (
        "no sign of use: given to 11 sessions whose citations are seen, cited and rated in none; "
        "a prohibition that works is never cited"
    )
    assert f"No {says[3:]}." in " ".join(run("why", "kpt_001").out.split())
    assert {"sessions": 11, "unused": True, "gone": [], "says": says} == json.loads(
        run("why", "kpt_001", "--json").out
    )["stale"]
    assert f"no sign of use: {says}" in run("review").out
    assert f"note  entries: kpt_001: {says}; run `tallybook review` to decide about it" in run("doctor").out
    assert "stale" not in json.loads(run("why", "kpt_001", "--at", "2", "--json").out)


def repository(here: Path) -> None:
    """Make a repository whose history has files that its index has not."""
    git(here, "init", "--quiet")
    for name in ("old.py", "scripts/gone.sh", "lib/kept.py", "untracked.txt"):
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).write_text(name)
    git(here, "add", "old.py", "scripts", "lib", "untracked.txt")
    commit(Project(here))
    git(here, "rm", "--quiet", "old.py", "scripts/gone.sh")
    git(here, "rm", "--quiet", "--cached", "untracked.txt")
    git(here, "commit", "--quiet", "--message", "two")


GONE_PATHS = {
    "Run `scripts/gone.sh` before old.py:12, then ./scripts.": ["scripts/gone.sh", "old.py", "scripts"],
    "See untracked.txt.": ["untracked.txt"],
    "Keep lib/kept.py and lib/ as they are.": [],
    "Read never/was.py, e.g. 3.11, or https://host/old.py": [],
    "Edit /old.py, ../old.py, lib/../old.py or ~/old.py": [],
    "Edit C:/old.py, --output=x/old.pyc, :(glob)old* or -n/old.py": [],
    "Write the word old": [],
}


def test_a_path_is_gone_if_git_had_it_and_has_it_no_more(project: Path) -> None:
    """Only a relative path without `..` that is in history and not in the index counts as gone (rule 20)."""
    repository(project)
    entries = [Entry(f"kpt_{number:03d}", text) for number, text in enumerate(GONE_PATHS)]
    found = stale.find_gone(Project(project), entries)
    assert {one.name: GONE_PATHS[one.text] for one in entries if GONE_PATHS[one.text]} == found


def test_a_gone_path_is_shown(project: Path, run: Run) -> None:
    """`why`, `review` and `doctor` name the path; where there is no repository nothing is said (rule 20)."""
    run("add", "Run scripts/gone.sh first.")
    assert [] == items(run)
    repository(project)
    assert [("gone path", ["kpt_001"])] == items(run)
    says = "names scripts/gone.sh, which git had and no longer has"
    assert f"N{says[1:]}." in run("why", "kpt_001").out
    assert ["scripts/gone.sh"] == json.loads(run("why", "kpt_001", "--json").out)["stale"]["gone"]
    assert f"gone path: {says}" in run("review").out
    assert f"note  entries: kpt_001: {says};" in run("doctor").out


def test_looking_for_paths_runs_nothing_of_the_repository(project: Path) -> None:
    """A repository's configuration and hooks name commands that do not run, and a text asks for few paths (rule 20)."""
    repository(project)
    trap = f"touch {project / 'ran'}"
    for key in ("core.fsmonitor", "core.pager", "gpg.program", "core.sshCommand", "diff.external", "alias.rev-list"):
        git(project, "config", key, trap)
    git(project, "config", "log.showSignature", "true")
    for hook in ("post-index-change", "reference-transaction", "pre-auto-gc"):
        path = project / ".git/hooks" / hook
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{trap}\n")
        path.chmod(0o755)
    text = " ".join(f"none/{number}.py" for number in range(100_000 // 20))
    entries = [Entry("kpt_001", text), Entry("kpt_002", "old.py")]
    assert {"kpt_002": ["old.py"]} == stale.find_gone(Project(project), entries)
    assert not (project / "ran").exists()
